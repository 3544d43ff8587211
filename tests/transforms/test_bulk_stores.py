"""Results that go through tiles and are stored by the TMA: pairs, numbers, bugs, refusals."""

import pytest
import tvm
from golden_runs import read_step
from kernels import at_block
from pairs import check_pair, refuses
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.devices.simulator import lower
from tirstep.lowering_checks.steps import Run
from tirstep.modules import get_kernel
from tirstep.transforms import TransformError, split_loop, store_by_tma, store_through_tiles
from tirstep.transforms.hopper.tma_tiles import TMA_STORE, CopyShape
from tirstep.transforms.recipes import RECIPES, wgmma

SIMULATOR = get_device("simulator")
STORE = RECIPES["matmul_wgmma_tma_store"]
HALF = {"dtype": "bfloat16", "out": "bfloat16"}
SMALL = {"tile": (64, 32), "stages": 2}
PAD = {**SMALL, "tail": "pad"}


def read(step: str) -> tvm.IRModule:
    return read_step(step, "matmul_wgmma_tma_store")


def run_small(shape: tuple[int, int, int], options: dict, **config) -> Run:
    sizes = dict(zip("mnk", shape, strict=True))
    return run_recipe(STORE, sizes, options=options, config={**SMALL, **config})


# ---- Pairs


def test_store_by_tma_pair() -> None:
    def change(sch: Schedule) -> None:
        store_by_tma(sch, sch.get_sblock("C_shared.dyn"))

    check_pair(read("07_tensorized"), change, read("08_stored_by_tma"))


def test_store_through_tiles_pair() -> None:
    def change(sch: Schedule):
        block = sch.get_sblock("C")
        grid, groups, *_ = sch.get_loops(block)
        return store_through_tiles(sch, block, grid, groups, warps=1, vector=4, lanes=128)

    check_pair(read("01_tiled"), change, read("02_accumulated_in_registers"))


# ---- Numbers, on the simulator


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("shape", "options", "config"),
    [
        ((72, 40, 72), HALF, {"tail": "pad", "roles": True}),
        ((128, 64, 128), {"dtype": "float16", "out": "float16"}, {"tile": (128, 64)}),
        ((72, 36, 72), {"dtype": "float16"}, PAD),  # float32 in what was a tile of float16
        ((13, 40, 72), HALF, {**PAD, "tile": (64, 64)}),  # smaller than a tile
        ((64, 24, 128), HALF, {"tile": (64, 24)}),  # a last pair of matrices alone
        ((64, 32, 128), HALF, {"copies": "threads"}),
        ((72, 35, 72), HALF, PAD),  # rows that the TMA cannot address
        ((64, 32, 128), {"dtype": "int8", "out": "int32", "transpose_b": True}, {}),
        (
            (72, 24, 80),
            {"dtype": "float8_e4m3fn", "out": "bfloat16", "transpose_b": True, "acc": "fp22"},
            PAD,
        ),
        ((64, 32, 192), HALF, {"split_k": 3}),
    ],
    ids=str,
)
def test_every_element_is_written(shape: tuple[int, int, int], options: dict, config: dict) -> None:
    run = run_small(shape, options, **config)
    last = run.steps[-1].module
    assert check_numbers(run.problem, last, SIMULATOR, where=str(config)) == []
    is_addressed = shape[1] * (4 if "out" not in options else 2) % 16 == 0
    assert ("bulk_group" in lower(last).script()) is is_addressed


@pytest.mark.parametrize(
    ("function", "shape", "config"),
    [("gelu", (60, 24, 72), {"tail": "pad"}), ("relu", (64, 32, 128), {"roles": True})],
)
def test_a_bias_and_a_function_are_computed_in_registers(
    function: str, shape: tuple[int, int, int], config: dict
) -> None:
    problem = get_kernel(f"matmul_bias_{function}").problem(*shape, **HALF)
    sch = Schedule(problem.module)
    chosen = {**wgmma.tma_store.config, **SMALL, **config}
    list(wgmma.WgmmaEngine.run(sch, wgmma.WgmmaConfig(**chosen)))
    assert check_numbers(problem, sch.mod, SIMULATOR, where=function) == []
    assert "stmatrix" in sch.mod.script()


def test_a_batch_is_stored_too() -> None:
    run = run_recipe(
        RECIPES["batched_matmul_wgmma"],
        {"batch": 2, "m": 60, "n": 24, "k": 72},
        options=HALF,
        config={**PAD, "store": "tma"},
    )
    assert check_numbers(run.problem, run.steps[-1].module, SIMULATOR, where="batch") == []
    assert '"tensor", "3d", "global"' in lower(run.steps[-1].module).script()


# ---- What is refused where it is lowered

TEXT = """\
# from tvm.script import ir as I
# from tvm.script import tirx as T
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128, 64), "float16"), B: T.Buffer((128, 64), "float16")):
        with T.sblock("root"):
            S = T.sblock_alloc_buffer((1, 128, 8, 8), "float16", scope="shared.dyn")
            for _ in T.thread_binding(1, "blockIdx.x"):
                for t in range(2):
                    for i in range(32):
                        for x in T.thread_binding(128, "threadIdx.x"):
                            with T.sblock("fill"):
                                v = T.axis.spatial(128, t * 64 + i * 2 + x // 64)
                                w = T.axis.spatial(64, x % 64)
                                S[0, v, (w // 8 ^ v % 8) % 8, w % 8] = A[v, w]
                    for i in range(32):
                        for x in T.thread_binding(128, "threadIdx.x"):
                            with T.sblock("write"):
                                v = T.axis.spatial(128, t * 64 + i * 2 + x // 64)
                                w = T.axis.spatial(64, x % 64)
                                B[v, w] = S[0, v, (w // 8 ^ v % 8) % 8, w % 8]
"""
TWICE = from_source(TEXT)
"""A kernel that stores two tiles out of one place in shared memory, one after the other."""


@pytest.fixture(scope="module")
def lowered() -> tuple[tvm.IRModule, Run]:
    run = run_small((64, 32, 128), HALF)
    return lower(run.steps[-1].module), run


def test_a_box_of_a_row_too_many_is_refused_where_it_is_lowered() -> None:
    sch, write, *_ = at_block(TWICE, "write")
    store_by_tma(sch, write)
    sch.unannotate(write, TMA_STORE)
    sch.annotate(write, TMA_STORE, CopyShape(128, 1, (65, 64)).to_list())
    with pytest.raises(RuntimeError, match=r"does not hold 1 boxes of .65, 64., which block"):
        lower(sch.mod)


# ---- Refusals


def test_store_by_tma_refuses_what_does_not_fit():
    big = TEXT.replace("128, 8, 8", "1024, 8, 8").replace("Buffer((128,", "Buffer((1024,")
    big = big.replace(" * 64", " * 512").replace("range(32)", "range(256)")
    big = big.replace("spatial(128", "spatial(1024")
    odd = TEXT.replace("B: T.Buffer((128, 64)", "B: T.Buffer((128, 68)")
    for text, message in (
        (odd, "'B', which block 'write' copies, has a pitch of 136 bytes, and the TMA takes"),
        (big, "the tile of block 'write' is .512, 64., and the TMA copies 256 elements along"),
    ):
        sch, write, *_ = at_block(from_source(text), "write")
        with refuses(sch, f"store_by_tma: {message}"):
            store_by_tma(sch, write)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("= S[0", "= T.float16(2) * S[0", "does more than copy a tile in its own type; convert"),
        ("= S[0", "= B[v, w] + S[0", "does more than copy a tile in its own type"),
        ("B[v, w] =", "B[v, w // 2] =", "writes 'B' at .*, and the TMA copies a dense rectangle"),
        (
            "(w // 8 ^ v % 8) % 8, w",
            "w // 8, w",
            "reads a tile that does not lie in rows of swizzl",
        ),
        ('"shared.dyn"', '"shared"', "copies 'S' of scope 'shared' to scope 'global'; store what"),
        (
            "B[v, w] =",
            "T.where(t * 64 + i * 2 + x // 64 < 100)\n{indent}B[v, w] =",
            "writes only where '.*', and the TMA writes all that lies inside of the tensor; guard",
        ),
        ("64, x % 64)", "64, x % 32 * 2)", "copies 2048 elements of a tile of 4032; let it copy"),
    ],
    ids=["computes", "accumulates", "elsewhere", "plain rows", "static", "guard", "gaps"],
)
def test_store_by_tma_refuses(old: str, new: str, message: str) -> None:
    head, at, tail = TEXT.rpartition("for i in range(32)")
    text = at + tail
    assert old in head + text
    text = text.replace(old, new.format(indent=" " * 32) if "{" in new else new)
    head = head.replace(old, new) if old not in tail and old not in at else head
    sch, write, *_ = at_block(from_source(head + text), "write")
    with refuses(sch, f"store_by_tma: .*({message})"):
        store_by_tma(sch, write)


def test_store_through_tiles_refuses() -> None:
    sch, block, grid, groups, *_ = at_block(read("01_tiled"), "C")
    sizes = {"warps": 1, "lanes": 128, "vector": 4}
    with refuses(sch, "store_through_tiles: vector=8 elements of 4 bytes must fit into a chunk of"):
        store_through_tiles(sch, block, grid, groups, **{**sizes, "vector": 8})
    with refuses(sch, "store_through_tiles: warps=2 are not the 1 of loop"):
        store_through_tiles(sch, block, grid, groups, **{**sizes, "warps": 2})
    with refuses(sch, "store_through_tiles: loop .* is not bound to blockIdx.x"):
        store_through_tiles(sch, block, groups, groups, **sizes)


def test_store_through_tiles_refuses_a_consumer_whose_loops_are_others() -> None:
    """It came to an end of its sizes, which are those of iterators, by an IndexError."""
    problem = get_kernel("matmul_bias_relu").problem(72, 40, 72, **HALF)
    sch = Schedule(problem.module)
    config = wgmma.WgmmaConfig(**{**wgmma.tma_store.config, **PAD})
    steps = wgmma.WgmmaEngine.run(sch, config)
    assert "tiled" in iter(steps)
    (consumer,) = sch.get_consumers(sch.get_sblock("C"))
    split_loop(sch, sch.get_loops(consumer)[0], inner=8)
    with pytest.raises(TransformError, match=r"block 'D' are split, fused or in another order"):
        next(steps)


# ---- On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(256, 512, 512), (1000, 776, 328), (333, 72, 136)], ids=str)
@pytest.mark.parametrize("options", [HALF, {"dtype": "float16"}], ids=str)
def test_a_gpu_agrees(shape: tuple[int, int, int], options: dict) -> None:
    tail = "refuse" if shape[0] % 128 == 0 else "pad"
    config = {"tile": (128, 256), "stages": 3, "tail": tail}
    run = run_small(shape, options, **config)
    assert check_numbers(run.problem, run.steps[-1].module, get_device("cuda"), where=tail) == []
