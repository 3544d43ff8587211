"""Stand-ins of what other libraries compute for the kernels of tirx-kernels, on a host without GPU.

Kernels get their inputs from DeepGEMM, FlashInfer, cuDNN and others. Here such inputs are made with
the shapes, layouts, index lists and schedules that those libraries document; values that are only
computed with (quantized numbers, an attention's output) are plausible ones.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def divide_up(number: int, by: int) -> int:
    return -(-number // by)


def align(number: int, by: int) -> int:
    return divide_up(number, by) * by


def _scale(largest: Any, most: float, use_ue8m0: bool) -> Any:
    scale = largest.float().clamp(1e-4) / most
    return torch.exp2(torch.ceil(torch.log2(scale))) if use_ue8m0 else scale


def _pack_exponents(scales: Any) -> Any:
    """The exponents of powers of two, four to an int32, along the last dimension."""
    bytes_ = (scales.float().contiguous().view(torch.int32) >> 23).to(torch.uint8)
    bytes_ = torch.nn.functional.pad(bytes_, (0, -bytes_.shape[-1] % 4))
    return bytes_.contiguous().view(torch.int32)


def cast_blocks(x: Any, rows: int, columns: int, use_ue8m0: bool) -> tuple[Any, Any]:
    """float8 with a scale for each block of rows and columns."""
    high, wide = divide_up(x.shape[0], rows), divide_up(x.shape[1], columns)
    padded = torch.zeros(high * rows, wide * columns)
    padded[: x.shape[0], : x.shape[1]] = x.float()
    blocks = padded.view(high, rows, wide, columns)
    scales = _scale(blocks.abs().amax(dim=(1, 3)), 448.0, use_ue8m0)
    quantized = (blocks / scales[:, None, :, None]).view(padded.shape)
    return quantized[: x.shape[0], : x.shape[1]].to(torch.float8_e4m3fn).contiguous(), scales


def per_token_cast_to_fp8(
    x: Any, use_ue8m0: bool = True, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> tuple[Any, Any]:
    quantized, scales = cast_blocks(x, 1, gran_k, use_ue8m0)
    return quantized, _pack_exponents(scales) if use_packed_ue8m0 else scales


def per_channel_cast_to_fp8(x: Any, use_ue8m0: bool = True, gran_k: int = 128) -> tuple[Any, Any]:
    return cast_blocks(x, gran_k, 1, use_ue8m0)


def per_block_cast_to_fp8(x: Any, use_ue8m0: bool = True, gran_k: int = 128) -> tuple[Any, Any]:
    return cast_blocks(x, gran_k, gran_k, use_ue8m0)


def per_custom_dims_cast_to_fp8(x: Any, dims: Any, use_ue8m0: bool) -> tuple[Any, Any]:
    others = [at for at in range(x.dim()) if at not in dims]
    scales = _scale(x.abs().amax(dim=others, keepdim=True), 448.0, use_ue8m0)
    return (x.float() / scales).to(torch.float8_e4m3fn).contiguous(), scales.squeeze()


def per_token_cast_to_fp4(
    x: Any, use_ue8m0: bool = True, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> tuple[Any, Any]:
    """Two numbers of 4 bits to a byte."""
    blocks = x.float().reshape(x.shape[0], -1, gran_k)
    scales = _scale(blocks.abs().amax(dim=2), 6.0, use_ue8m0)
    scaled = blocks / scales[:, :, None]
    codes = torch.bucketize(scaled.abs(), (FP4[1:] + FP4[:-1]) / 2).to(torch.uint8)
    codes = (codes | (scaled < 0).to(torch.uint8) << 3).reshape(x.shape[0], -1)
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).view(torch.int8)
    return packed, _pack_exponents(scales) if use_packed_ue8m0 else scales


def cast_back_from_fp4(
    packed: Any, scales: Any, gran_k: int = 128, use_packed_ue8m0: bool = False
) -> Any:
    codes = packed.view(torch.uint8)
    codes = torch.stack([codes & 15, codes >> 4], dim=-1).reshape(packed.shape[0], -1).long()
    values = FP4[codes & 7] * torch.where(codes > 7, -1, 1)
    if use_packed_ue8m0:
        exponents = scales.contiguous().reshape(packed.shape[0], -1).view(torch.uint8).int()
        scales = (exponents << 23).view(torch.float32)
    return values * scales[:, : values.shape[1] // gran_k].repeat_interleave(gran_k, dim=1)


def _put_in_columns(packed: Any) -> Any:
    """The same matrices with columns of neighbours, each of which begins at 16 bytes."""
    *groups, rows, columns = packed.shape
    stored = torch.zeros(*groups, columns, align(rows, 4), dtype=torch.int32)
    stored[..., :rows] = packed.mT
    return stored[..., :rows].mT


def transform_sf_into_required_layout(
    sf: Any, mn: int, k: int, recipe: Any, num_groups: Any = None, *rest: Any
) -> Any:
    """Scales of a row each, four exponents to a word, column by column (DeepGEMM's sm_100)."""
    rows, _ = recipe[-2:]
    spread = sf.float().repeat_interleave(rows, dim=-2)[..., :mn, :]
    return _put_in_columns(_pack_exponents(spread))


def pack_groups_along_k(
    sf: Any, layout: Any, ks: Any, gran_k: int, k_alignment: int, use_psum_layout: bool
) -> Any:
    """The same where groups lie side by side along K, and each begins with a word of its own."""
    words, row = [], 0
    for k in ks:
        count = divide_up(int(k), gran_k)
        words.append(_pack_exponents(sf[row : row + count].T))
        row += count
    return _put_in_columns(torch.cat(words, dim=1)).mT


def get_paged_mqa_logits_metadata(
    context_lens: Any, page_size: int, num_sms: int, indices: Any = None, split: int = 256
) -> Any:
    """Where each SM begins: the row, and which of its splits; the last is where all end."""
    lens = context_lens.reshape(context_lens.shape[0], -1)[:, -1]
    if context_lens.dim() > 1 and (context_lens == context_lens[:, -1:]).all():
        lens = context_lens.reshape(-1)
    ends = torch.cumsum((lens + split - 1) // split, dim=0)
    total, found = int(ends[-1]), []
    for sm in range(num_sms + 1):
        start = sm * (total // num_sms) + min(sm, total % num_sms)
        row = int(torch.searchsorted(ends, start, right=True))
        found.append((row, start - (int(ends[row - 1]) if row else 0)))
    return torch.tensor(found, dtype=torch.int32)


def swizzle_scales(scales: Any) -> Any:
    """Scales in tiles of 128 rows and 4 columns, as tensor cores of sm_100 read them."""
    rows, columns = (align(size, by) for size, by in zip(scales.shape, (128, 4), strict=True))
    padded = torch.zeros(rows, columns, dtype=scales.dtype)
    padded[: scales.shape[0], : scales.shape[1]] = scales
    tiles = padded.view(rows // 128, 4, 32, columns // 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.contiguous().view(rows, columns)


def nvfp4_quantize(x: Any, scale: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    packed, scales = per_token_cast_to_fp4(x, False, 16)
    return packed.view(torch.uint8), swizzle_scales(
        (scales * float(scale)).clamp(0, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    )


def mxfp8_quantize(x: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    quantized, scales = per_token_cast_to_fp8(x, True, 32)
    return quantized, swizzle_scales((scales.view(torch.int32) >> 23).to(torch.uint8)).reshape(-1)


def attend(q: Any, *_: Any, **given: Any) -> tuple[Any, Any]:
    """An attention's output, and the logarithms of its sums, of shape (batch, heads, rows)."""
    lse = torch.full((q.shape[0], q.shape[1], q.shape[2]), math.log(q.shape[2]))
    return 0.1 * torch.randn(q.shape).to(q.dtype), lse


def attend_by_rows(q: Any = None, **given: Any) -> tuple[Any, Any]:
    """The same where rows come before heads."""
    out, lse = attend(q.transpose(1, 2))
    return out.transpose(1, 2).contiguous(), lse


def build_bucketed_k2q_csr(
    block_index: Any, count: int, kv_blocks: int, *, bucket_size_blocks: int, q2k_block_nums: Any
) -> tuple[Any, Any, int, int]:
    """For each group of query blocks and each block of keys, the query blocks that attend to it."""
    batch, heads, q_blocks, most = block_index.shape
    groups = divide_up(q_blocks, bucket_size_blocks)
    offsets = torch.zeros(batch, heads, groups, kv_blocks + 1, dtype=torch.int32)
    indices = torch.zeros(batch, heads, q_blocks * most, dtype=torch.int32)
    largest = 0
    for b in range(batch):
        for h in range(heads):
            at = 0
            for group in range(groups):
                offsets[b, h, group, 0], first = at, at
                ends = min(q_blocks, (group + 1) * bucket_size_blocks)
                for block in range(kv_blocks):
                    for row in range(group * bucket_size_blocks, ends):
                        taken = count if q2k_block_nums is None else q2k_block_nums[b, h, row]
                        if (block_index[b, h, row, : int(taken)] == block).any():
                            indices[b, h, at] = row
                            at += 1
                    offsets[b, h, group, block + 1] = at
                largest = max(largest, at - first)
    return offsets, indices, groups, largest


def chunk_local_cumsum(x: Any, chunk_size: int, cu_seqlens: Any = None, **_: Any) -> Any:
    """Sums along the tokens, which begin anew in each chunk of each sequence."""
    found = x.clone()
    ends = [0, x.shape[1]] if cu_seqlens is None else cu_seqlens.tolist()
    for begin, end in itertools.pairwise(ends):
        for first in range(begin, end, chunk_size):
            last = min(first + chunk_size, end)
            found[:, first:last] = x[:, first:last].cumsum(dim=1)
    return found


def chunk_kda_fwd_intra(k: Any, v: Any, chunk_size: int, **_: Any) -> tuple[Any, ...]:
    """Products of tokens within a chunk; the last two are those that the backward pass reads."""
    batch, tokens, heads, _ = v.shape
    inside = 0.05 * torch.randn(2, batch, tokens, heads, chunk_size).to(k.dtype)
    return (None, None, None, None, inside[0], inside[1])


def create_gather_gemm_tensors(tokens: int, topk: int, counts: Any, tile: int) -> tuple[Any, ...]:
    """Rows by expert, each expert's filled up to whole tiles; a row beyond has the token -1."""
    aligned = [align(int(it), tile) for it in counts]
    ids, experts, limits = [], [], []
    for expert, (count, room) in enumerate(zip(counts, aligned, strict=True)):
        first = len(ids)
        ids += [(first + row) % (tokens * topk) for row in range(count)] + [-1] * (room - count)
        experts += [expert] * (room // tile)
        limits += [min(first + (at + 1) * tile, first + count) for at in range(room // tile)]
    as_tensor: Callable[[Any], Any] = lambda it: torch.tensor(it, dtype=torch.int32)  # noqa: E731
    return (
        as_tensor(ids),
        as_tensor(experts),
        as_tensor(limits),
        as_tensor([len(experts)]),
        len(ids),
        aligned,
    )


_DEEP_GEMM_CASTS = {
    "per_token_cast_to_fp8": per_token_cast_to_fp8,
    "per_channel_cast_to_fp8": per_channel_cast_to_fp8,
    "per_block_cast_to_fp8": per_block_cast_to_fp8,
    "per_custom_dims_cast_to_fp8": per_custom_dims_cast_to_fp8,
    "per_token_cast_to_fp4": per_token_cast_to_fp4,
    "cast_back_from_fp4": cast_back_from_fp4,
    "ceil_div": divide_up,
    "align": align,
}
_QUANTIZERS = {"nvfp4_quantize": nvfp4_quantize, "mxfp8_quantize": mxfp8_quantize}
MODULES: dict[str, dict[str, Any]] = {
    "deep_gemm": {
        "get_num_sms": lambda: 4,  # as TIRX_PREPARE_NUM_SMS says
        "transform_sf_into_required_layout": transform_sf_into_required_layout,
        "get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor": pack_groups_along_k,
        "get_paged_mqa_logits_metadata": get_paged_mqa_logits_metadata,
    },
    "deep_gemm.utils": _DEEP_GEMM_CASTS,
    "deep_gemm.utils.math": _DEEP_GEMM_CASTS,
    "flashinfer": _QUANTIZERS,
    "flashinfer.quantization": _QUANTIZERS,
    "flashinfer.fused_moe.cute_dsl.blockscaled_contiguous_gather_grouped_gemm_act_fusion": {
        "create_gather_gemm_tensors": create_gather_gemm_tensors
    },
    "flash_attn.cute.interface": {"_flash_attn_fwd": attend_by_rows},
    "cudnn.block_sparse_attention._interface": {
        "bsa_attn_fwd": attend,
        "bsa_attn_fwd_blk64_cutedsl": attend,
        "_build_bucketed_k2q_csr": build_bucketed_k2q_csr,
    },
    "fla.ops.utils": {"chunk_local_cumsum": chunk_local_cumsum},
    "fla.ops.kda.chunk_intra": {"chunk_kda_fwd_intra": chunk_kda_fwd_intra},
}
"""What modules of those libraries hold, by name; whatever else they have is a mock."""
