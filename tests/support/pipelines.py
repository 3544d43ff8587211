"""Software-pipelined matmuls for tests of the simulator: small, with TVM's own verbs."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm.s_tir import Schedule, TensorIntrin
from tvm.script import tirx as T
from tvm.script.tirx import ptx_legacy

from tirstep.modules import matmul
from tirstep.transforms import (
    accumulate_in_registers,
    set_pass_option,
    split_reduction,
    tile_block,
)

WARP, SIDE = 32, 16
IN_ORDER = (0, 1, 2)
CONSUMER_FIRST = (1, 2, 0)
PTX_NAMES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}


def copy_ahead(sch: Schedule, loop, *, stages: int, order: Sequence[int] = IN_ORDER) -> None:
    """Two copies of a loop's body run `stages - 1` iterations ahead, asynchronously."""
    sch.annotate(loop, "software_pipeline_stage", [0, 0, stages - 1])
    sch.annotate(loop, "software_pipeline_order", list(order))
    sch.annotate(loop, "software_pipeline_async_stages", [0])
    set_pass_option(sch, name="tirx.use_async_copy", value=True)


def asynchronous_matmul(
    shape: tuple[int, int, int] = (32, 32, 40),
    *,
    stages: int,
    scope: str = "shared.dyn",
    vector: int = 4,
    order: Sequence[int] = IN_ORDER,
) -> tvm.IRModule:
    """Float32: 4×8 threads with 4×2 sums each, tiles of 8 steps of k fetched by cp.async."""
    sch = Schedule(matmul(*shape))
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(4, 8), per_thread=(4, 2))
    accumulate_in_registers(sch, block, tile.threads[1])
    steps = split_reduction(sch, block, inner=8)
    for operand in (0, 1):
        copy = sch.cache_read(block, operand, scope)
        sch.compute_at(copy, steps.outer)
        elements = sch.fuse(*sch.get_loops(copy)[-2:])
        _, row, column, lanes = sch.split(elements, [None, 4, 8, vector])
        sch.bind(row, "threadIdx.y")
        sch.bind(column, "threadIdx.x")
        sch.vectorize(lanes)
    sch.decompose_reduction(block, steps.outer)
    copy_ahead(sch, steps.outer, stages=stages, order=order)
    set_pass_option(sch, name="tirx.disable_storage_rewrite", value=True)
    return sch.mod


def tensor_core_matmul(
    shape: tuple[int, int, int] = (64, 64, 128),
    *,
    stages: int,
    dtype: str = "float16",
    order: Sequence[int] = IN_ORDER,
    swizzled: bool = True,
) -> tvm.IRModule:
    """64×64 tiles of four warps with 32×32 each; 32 steps of k at once, by ldmatrix and mma."""
    sch = Schedule(matmul(*shape, dtype=dtype))
    names = register_intrinsics(dtype)
    update = sch.get_sblock("C")
    i, j, k = sch.get_loops(update)
    splits = [sch.split(i, [None, 2, 2, SIDE]), sch.split(j, [None, 2, 2, SIDE])]
    (i0, i1, i2, i3), (j0, j1, j2, j3) = splits
    k0, k1, k2 = sch.split(k, [None, 2, SIDE])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2, i3, j3, k2)
    tile = sch.blockize(i3)
    sch.bind(sch.fuse(i0, j0), "blockIdx.x")
    warp = sch.fuse(i1, j1)
    sch.bind(warp, "threadIdx.y")
    for operand in (0, 1):
        _fetch(sch, tile, operand, k0, swizzled)
    fragments = [sch.cache_read(tile, operand, "local") for operand in (0, 1)]
    for fragment in fragments:
        sch.compute_at(fragment, k1)
    result = sch.cache_write(tile, 0, "local")
    sch.reverse_compute_at(result, warp)
    init = sch.decompose_reduction(tile, k0)
    pieces = [_cut(sch, fragment) for fragment in (*fragments, result)]
    for fragment in fragments:
        sch.transform_layout(fragment, ("write", 0), spread)
    sch.transform_layout(result, ("read", 0), spread)
    for piece, name in zip(pieces[:2], ("load_a", "load_b"), strict=True):
        loaded = sch.blockize(piece)
        if swizzled:
            sch.annotate(loaded, "permuted_layout", 1)
        sch.tensorize(loaded, names[name])
    sch.tensorize(sch.get_loops(update)[-3], names["multiply"])
    sch.tensorize(sch.get_loops(sch.get_child_blocks(init)[0])[-2], names["clear"])
    sch.tensorize(pieces[2], names["store"])
    if stages > 1:
        copy_ahead(sch, k0, stages=stages, order=order)
    return sch.mod


def _fetch(sch: Schedule, tile, operand: int, loop, swizzled: bool) -> None:
    copy = sch.cache_read(tile, operand, "shared.dyn")
    sch.compute_at(copy, loop)
    elements = sch.fuse(*sch.get_loops(copy)[-2:])
    _, warp, lane, vector = sch.split(elements, [None, 4, WARP, 8])
    sch.bind(warp, "threadIdx.y")
    sch.bind(lane, "threadIdx.x")
    sch.vectorize(vector)
    if swizzled:
        sch.annotate(copy, "permuted_layout", 1)


def _cut(sch: Schedule, copy):
    """The loops of a copy as 16×16 pieces; returns the piece's outer loop."""
    rows, columns = sch.get_loops(copy)[-2:]
    (row, i), (column, j) = sch.split(rows, [None, SIDE]), sch.split(columns, [None, SIDE])
    sch.reorder(row, column, i, j)
    return i


def find_place(i, j):
    """The lane that holds an element of a 16×16 tile, and the register there."""
    return i % 8 * 4 + j % 8 // 2, j // 8 * 4 + i // 8 * 2 + j % 2


def spread(i, j):
    """A matrix as tiles whose elements lie with their lanes."""
    return (i // SIDE, j // SIDE, *find_place(i % SIDE, j % SIDE))


def register_intrinsics(dtype: str) -> dict[str, str]:
    """Register what warps do with 16×16 tiles of a type; the names by what they do."""
    pairs = {
        "load_a": _make_load(dtype, transposed=False),
        "load_b": _make_load(dtype, transposed=True),
        "multiply": _make_multiply(dtype),
        "clear": _make_clear(),
        "store": _make_store(),
    }
    names = {what: f"tests_{what}_{dtype}" for what in pairs}
    for what, (meaning, program) in pairs.items():
        TensorIntrin.register(names[what], meaning, program, override=True)
    return names


def _make_load(dtype: str, *, transposed: bool):
    @T.prim_func(s_tir=True)
    def meaning(target: T.handle, source: T.handle) -> None:
        S = T.match_buffer(source, (16, 16), dtype, align=64, offset_factor=16, scope="shared.dyn")
        F = T.match_buffer(target, (32, 8), dtype, align=64, offset_factor=16, scope="local")
        with T.sblock("root"):
            T.reads(S[0:16, 0:16])
            T.writes(F[0:32, 0:8])
            for i, j in T.grid(16, 16):
                with T.sblock("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    lane, register = T.meta_var(find_place(vi, vj))
                    T.reads(S[vi, vj])
                    T.writes(F[lane, register])
                    F[lane, register] = S[vi, vj]

    @T.prim_func(s_tir=True)
    def program(target: T.handle, source: T.handle) -> None:
        row = T.int32()
        column = T.int32()
        S = T.match_buffer(
            source,
            (16, 16),
            dtype,
            align=64,
            offset_factor=16,
            scope="shared.dyn",
            strides=[row, column],
        )
        F = T.match_buffer(target, (32, 8), dtype, align=64, offset_factor=16, scope="local")
        with T.sblock("root"):
            T.reads(S[0:16, 0:16])
            T.writes(F[0:32, 0:8])
            for lane in T.thread_binding(0, 32, "threadIdx.x"):
                T.evaluate(
                    ptx_legacy.ldmatrix(
                        transposed,
                        4,
                        ".b16",
                        F.data,
                        F.elem_offset,
                        S.access_ptr("r", ptr_type=dtype),
                        lane % 16 * row + lane // 16 * 8,
                        dtype=dtype,
                    )
                )

    return meaning, program


def _make_multiply(dtype: str):
    name = PTX_NAMES[dtype]

    @T.prim_func(s_tir=True)
    def meaning(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (32, 8), dtype, align=64, offset_factor=16, scope="local")
        B = T.match_buffer(b, (32, 8), dtype, align=64, offset_factor=16, scope="local")
        C = T.match_buffer(c, (32, 8), "float32", align=64, offset_factor=16, scope="local")
        with T.sblock("root"):
            T.reads(C[0:32, 0:8], A[0:32, 0:8], B[0:32, 0:8])
            T.writes(C[0:32, 0:8])
            for i, j, k in T.grid(16, 16, 16):
                with T.sblock("multiply"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    c_lane, c_place = T.meta_var(find_place(vi, vj))
                    a_lane, a_place = T.meta_var(find_place(vi, vk))
                    b_lane, b_place = T.meta_var(find_place(vk, vj))
                    T.reads(C[c_lane, c_place], A[a_lane, a_place], B[b_lane, b_place])
                    T.writes(C[c_lane, c_place])
                    C[c_lane, c_place] = C[c_lane, c_place] + T.Cast(
                        "float32", A[a_lane, a_place]
                    ) * T.Cast("float32", B[b_lane, b_place])

    @T.prim_func(s_tir=True)
    def program(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (32, 8), dtype, align=64, offset_factor=16, scope="local")
        B = T.match_buffer(b, (32, 8), dtype, align=64, offset_factor=16, scope="local")
        C = T.match_buffer(c, (32, 8), "float32", align=64, offset_factor=16, scope="local")
        with T.sblock("root"):
            T.reads(C[0:32, 0:8], A[0:32, 0:8], B[0:32, 0:8])
            T.writes(C[0:32, 0:8])
            for _ in T.thread_binding(0, 32, "threadIdx.x"):
                for half in T.unroll(2):
                    T.evaluate(
                        ptx_legacy.mma(
                            "m16n8k16",
                            "row",
                            "col",
                            name,
                            name,
                            "fp32",
                            A.data,
                            A.elem_offset,
                            B.data,
                            B.elem_offset + half * 4,
                            C.data,
                            C.elem_offset + half * 4,
                            False,
                            dtype="float32",
                        )
                    )

    return meaning, program


def _make_clear():
    @T.prim_func(s_tir=True)
    def meaning(c: T.handle) -> None:
        C = T.match_buffer(c, (32, 8), "float32", scope="local")
        with T.sblock("root"):
            T.reads()
            T.writes(C[0:32, 0:8])
            for i, j in T.grid(16, 16):
                with T.sblock("clear"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    lane, register = T.meta_var(find_place(vi, vj))
                    T.reads()
                    T.writes(C[lane, register])
                    C[lane, register] = T.float32(0)

    @T.prim_func(s_tir=True)
    def program(c: T.handle) -> None:
        C = T.match_buffer(c, (32, 8), "float32", scope="local", offset_factor=1)
        with T.sblock("root"):
            T.reads()
            T.writes(C[0:32, 0:8])
            for _ in T.thread_binding(0, 32, "threadIdx.x"):
                for register in T.unroll(8):
                    C[0, register] = T.float32(0)

    return meaning, program


def _make_store():
    @T.prim_func(s_tir=True)
    def meaning(source: T.handle, target: T.handle) -> None:
        F = T.match_buffer(source, (32, 8), "float32", scope="local")
        C = T.match_buffer(target, (16, 16), "float32", scope="global")
        with T.sblock("root"):
            T.reads(F[0:32, 0:8])
            T.writes(C[0:16, 0:16])
            for i, j in T.grid(16, 16):
                with T.sblock("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    lane, register = T.meta_var(find_place(vi, vj))
                    T.reads(F[lane, register])
                    T.writes(C[vi, vj])
                    C[vi, vj] = F[lane, register]

    @T.prim_func(s_tir=True)
    def program(source: T.handle, target: T.handle) -> None:
        row = T.int32()
        column = T.int32()
        F = T.match_buffer(source, (32, 8), "float32", scope="local", offset_factor=1)
        C = T.match_buffer(
            target, (16, 16), "float32", scope="global", offset_factor=1, strides=[row, column]
        )
        with T.sblock("root"):
            T.reads(F[0:32, 0:8])
            T.writes(C[0:16, 0:16])
            for lane in T.thread_binding(0, 32, "threadIdx.x"):
                for pair in T.unroll(4):
                    for one in T.vectorized(2):
                        C[pair % 2 * 8 + lane // 4, pair // 2 * 8 + lane % 4 * 2 + one] = F[
                            0, pair * 2 + one
                        ]

    return meaning, program
