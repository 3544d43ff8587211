"""Tiles in warps: the loops, the indices, and the numbers of tiles that do not divide."""

from kernels import make_matmul
from pairs import check_pair, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.modules import vector_add
from tirstep.transforms.warp_tiling import largest_divisor

Matmul = make_matmul(64, 48, 6)


def start(module=Matmul):
    """A schedule and the block C."""
    sch = Schedule(module, debug_mask="all")
    return sch, sch.get_sblock("C")


def test_tile_in_warps_with_interleaved_rows_and_rows_innermost():
    after = """
        for b in T.thread_binding(12, thread="blockIdx.x"):
            for s in T.thread_binding(4, thread="vthread.x"):
                for t in T.thread_binding(32, thread="threadIdx.x"):
                    for k, j_3, i_4 in T.grid(6, 1, 2):
                        with T.sblock("C"):
                            vi = T.axis.spatial(
                                64, b // 3 * 16 + s % 2 * 8 + t // 16 * 4 + t % 2 * 2 + i_4
                            )
                            vj = T.axis.spatial(48, b % 3 * 16 + s // 2 * 8 + t % 16 // 2 + j_3)
                            vk = T.axis.reduce(6, k)
                            C[vi, vj] += A[vi, vk] * B[vk, vj]
    """

    def change(sch):
        sizes = {"threads": (4, 8), "per_thread": (4, 2), "strips": (2, 2), "warp": (4, 8)}
        orders = {"inner": "rows", "inner_strips": "rows"}
        tile = tr.tile_in_warps(sch, sch.get_sblock("C"), **sizes, interleave=2, **orders)
        assert [int(sch.get(loop).extent) for loop in tile.elements] == [2, 1]
        return tile

    check_pair(Matmul, change, after)


def test_tile_in_warps_refuses_what_does_not_fit():
    sch, block = start()
    with refuses(
        sch, r"runs 64 times, which swizzle=3 \* threads=4 \* per_thread=2 does not divide"
    ):
        tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), swizzle=3)
    with refuses(
        sch,
        r"strips=\(1, 2\) does not divide per_thread=\(2, 3\); choose divisors, rows and columns",
    ):
        tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), strips=(1, 2))
    with refuses(sch, r"warp=\(4, 4\) has 16 threads; a warp has 32, as \(4, 8\)"):
        tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), warp=(4, 4))
    with refuses(sch, r"tile_in_warps: tail='pad' is unknown; use tail="):
        tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), tail="pad")
    with refuses(sch, r"would make a block of 1536 threads .*, more than max_threads=1024"):
        tr.tile_in_warps(sch, block, threads=(32, 48), per_thread=(1, 1))
    sch, block = start()
    sentence = (
        r"loop 'i' runs 64 times, which swizzle=1 \* threads=5 \* per_thread=2 does not .*pad"
    )
    with refuses(sch, sentence):
        tr.tile_in_warps(sch, block, threads=(5, 8), per_thread=(2, 2))
    with refuses(sch, r"loop 'j' runs 48 times, which threads=10 \* per_thread=2 does not divide"):
        tr.tile_in_warps(sch, block, threads=(4, 10), per_thread=(2, 2))
    for swizzle in [0, -2]:
        sch, block = start()
        with refuses(sch, rf"tile_in_warps: swizzle={swizzle} must be >= 1; use an integer >= 1"):
            tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), swizzle=swizzle)
    for name in ["threads", "per_thread", "strips"]:
        sch, block = start()
        with refuses(sch, rf"{name}=None must be a tuple of integers; pass "):
            tr.tile_in_warps(sch, block, **{"threads": (4, 8), "per_thread": (2, 3), name: None})
    for warp in [(8, 4), (2, 16)]:
        sch, block = start()
        with refuses(sch, r"warp=\(., .*\) does not divide threads=\(4, 8\); choose divisors"):
            tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), warp=warp)
    for interleave in [0, -2]:
        sch, block = start()
        with refuses(sch, rf"tile_in_warps: interleave={interleave} must be >= 1; use an int"):
            tr.tile_in_warps(
                sch, block, threads=(4, 8), per_thread=(2, 3), warp=(4, 8), interleave=interleave
            )
    for warp, rows in [((4, 8), 4), (None, 1)]:
        sch, block = start()
        with refuses(sch, rf"interleave=3 does not divide a warp's rows, {rows}; choose a divisor"):
            tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), warp=warp, interleave=3)
    sch, block = start(vector_add(64))
    with refuses(sch, r"block 'C' has one spatial loop or none; use tile_block for a block of one"):
        tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))
    sch, block = start()
    tr.fuse_loops(sch, sch.get_loops(block)[:2])
    with refuses(sch, r"block 'C' has one spatial loop or none"):
        tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))


def test_tile_in_warps_refuses_more_that_does_not_fit():
    for place in [0, 1]:
        sch, block = start()
        tr.bind_loop(sch, sch.get_loops(block)[place], axis="blockIdx.y")
        with refuses(sch, rf"loop '{'ij'[place]}' is already bound to 'blockIdx.y'"):
            tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))
    sch, block = start()
    tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))
    with refuses(sch, r"tile_in_warps: bind_loop: .* 'blockIdx.x' already drives loop"):
        tr.tile_in_warps(sch, block, threads=(1, 1), per_thread=(1, 1))
    sch, block = start()
    tr.cache_read_at(sch, block, sch.get_loops(block)[0], operand=1)
    with refuses(sch, r"^tile_in_warps: TVM refuses: .*not in a chain"):
        tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))


def test_a_swizzle_is_the_largest_divisor_of_the_rows_of_tiles():
    for extent, most, divisor in [(8, 8, 8), (12, 8, 6), (7, 8, 7), (13, 8, 1), (1, 4, 1)]:
        assert largest_divisor(extent, most=most) == divisor
