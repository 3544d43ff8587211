"""Random sequences of transforms: each one is refused with nothing changed, or right.

After the last one the numbers are checked on the CPU, and, where every block is bound to threads,
on the simulator too, which also sees races and reads of other threads' registers.
"""

from collections.abc import Callable

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import For

from tirstep import transforms as tr
from tirstep.lowering_checks import DeviceError, check_numbers, find_device
from tirstep.modules import Problem, conv1d, matmul, matmul_bias_relu, vector_add
from tirstep.transforms import TransformError, queries

PROBLEMS = {
    "vector_add": (vector_add.problem(48), ["C"]),
    "matmul": (matmul.problem(12, 20, 8), ["C"]),
    "matmul_bias_relu": (matmul_bias_relu.problem(8, 12, 6), ["C", "D"]),
    "conv1d": (conv1d.problem(20, 5), ["B"]),
}
AXES = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread.x")
Draw = Callable[..., object]


class Player:
    """Draws the next transform and its arguments for the blocks that there are."""

    def __init__(self, data: st.DataObject, sch: Schedule, blocks: list[SBlockRV]) -> None:
        self.data, self.sch, self.blocks = data, sch, blocks
        self.block = blocks[0]

    def one(self, values, label: str):
        return self.data.draw(st.sampled_from(list(values)), label=label)

    def loop(self) -> LoopRV:
        loops = self.sch.get_loops(self.block)
        return loops[self.one(range(len(loops)), "loop")]

    def is_alive(self, block: SBlockRV) -> bool:
        """Whether no transform has inlined the block."""
        try:
            self.sch.get(block)
        except ValueError:
            return False
        return True

    def play(self) -> None:
        """Call one drawn transform on a drawn block."""
        self.blocks = [block for block in self.blocks if self.is_alive(block)]
        self.block = self.blocks[self.one(range(len(self.blocks)), "block")]
        if not self.sch.get_loops(self.block):
            return
        moves = [name for name in dir(type(self)) if name.startswith("do_")]
        made = getattr(self, self.one(moves, "transform"))()
        if isinstance(made, SBlockRV):
            self.blocks.append(made)

    def do_split(self):
        tail = self.one(("refuse", "guard"), "tail")
        tr.split_loop(self.sch, self.loop(), inner=self.one((1, 2, 3, 4, 8), "inner"), tail=tail)

    def do_fuse(self):
        loops = self.sch.get_loops(self.block)
        first = self.one(range(len(loops)), "first")
        tr.fuse_loops(self.sch, loops[first : first + self.one((1, 2, 3), "count")])

    def do_reorder(self):
        loops = self.sch.get_loops(self.block)
        order = self.data.draw(st.permutations(range(len(loops))), label="order")
        count = self.one(range(1, len(loops) + 1), "count")
        tr.reorder_loops(self.sch, [loops[place] for place in order[:count]])

    def do_bind(self):
        tr.bind_loop(self.sch, self.loop(), axis=self.one(AXES, "axis"))

    def do_tile(self):
        axes = self.one((None, ("x", "y")), "axes")
        count = self.one((1, 2), "count") if axes is None else 2
        each = self.one((None, [2] * count, [1] * count), "per_thread")
        return tr.tile_block(
            self.sch,
            self.block,
            threads=[self.one((1, 2, 4), "threads") for _ in range(count)],
            per_thread=each,
            axes=axes,
            fuse_threads=self.one((False, True), "fuse"),
            tail=self.one(("refuse", "guard"), "tail"),
        )

    def do_unroll(self):
        tr.unroll_loop(self.sch, self.loop())

    def do_vectorize(self):
        tr.vectorize_loop(self.sch, self.loop())

    def do_cache_read(self):
        scope = self.one(("shared", "shared.dyn", "local"), "scope")
        operand = self.one((0, 1), "operand")
        return tr.cache_read_at(self.sch, self.block, self.loop(), operand=operand, scope=scope)

    def do_cache_write(self):
        scope = self.one(("shared", "shared.dyn", "local"), "scope")
        return tr.cache_write_at(self.sch, self.block, self.loop(), scope=scope)

    def do_accumulate(self):
        made = tr.accumulate_in_registers(self.sch, self.block, self.loop())
        return None if any(made is block for block in self.blocks) else made

    def do_stage(self):
        return tr.stage_operand_at(
            self.sch,
            self.block,
            self.loop(),
            operand=self.one((0, 1), "operand"),
            threads=self.one((2, 4, (2, 2), (4, 4)), "threads"),
            vector=self.one((1, 2, 4), "vector"),
        )

    def do_fetch(self):
        threads = self.one((2, 4, (2, 2), (4, 4)), "threads")
        vector = self.one((1, 2, 4), "vector")
        tr.fetch_cooperatively(
            self.sch,
            self.block,
            threads=threads,
            vector=vector,
            tail=self.one(("refuse", "guard"), "tail"),
        )

    def do_split_reduction(self):
        tail = self.one(("refuse", "guard"), "tail")
        tr.split_reduction(self.sch, self.block, inner=self.one((2, 3, 4), "inner"), tail=tail)

    def do_decompose(self):
        return tr.decompose_reduction_at(self.sch, self.block, self.loop())

    def do_pad_rows(self):
        tr.pad_shared_rows(self.sch, self.block, elements=self.one((1, 2, 4), "elements"))

    def do_move(self):
        other = self.blocks[self.one(range(len(self.blocks)), "other")]
        loops = self.sch.get_loops(other)
        if loops:
            at = loops[self.one(range(len(loops)), "at")]
            move = self.one((tr.compute_block_at, tr.reverse_compute_block_at), "move")
            move(self.sch, self.block, at)


def is_finished(sch: Schedule) -> bool:
    """Whether every block of each kernel is spread over all thread axes of that kernel.

    A block that is not yet runs once for each thread, which is no fault of the last transform.
    """
    function = sch.mod[sch.func_working_on]
    loops = queries.find_all(function.body, For)
    bound = [loop for loop in loops if "Idx" in (queries.find_axis(loop) or "")]
    axes = {queries.find_axis(loop) for loop in bound}
    return all(
        {queries.find_axis(loop) for loop in bound if block in inside(loop)} == axes
        for block in inside(function.body)
    )


def inside(statement) -> list[str]:
    blocks = queries.find_all(statement, SBlock)
    return [str(block.name_hint) for block in blocks if block.name_hint != "root"]


def assert_right(problem: Problem, sch: Schedule, device_name: str) -> None:
    findings = check_numbers(problem, sch.mod, find_device("cpu"), where="cpu")
    device = find_device(device_name)
    if device.find_obstacle(sch.mod) is None and is_finished(sch):
        refusal = f"on {device_name}"
        try:
            findings += check_numbers(problem, sch.mod, device, where=device_name)
        except DeviceError as error:
            refusal = str(error)
        event(refusal[:60])
        assert refusal.startswith(("on ", "TVM does not lower", "CUDA does not compile"))
    assert not findings, "\n".join([*map(str, findings), sch.mod.script(), str(sch.trace)])


def play(name: str, data: st.DataObject, device_name: str) -> None:
    problem, names = PROBLEMS[name]
    sch = Schedule(problem.module)
    player = Player(data, sch, [sch.get_sblock(one) for one in names])
    moves = [player.play] * data.draw(st.integers(1, 9), label="moves")
    if data.draw(st.booleans(), label="tile first"):
        moves = [player.do_tile, *moves]
    for move in moves:
        before, refused = sch.mod.script(), False
        try:
            move()
        except TransformError:
            refused = True
        assert not refused or sch.mod.script() == before
    assert_right(problem, sch, device_name)


@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_random_schedule_is_refused_or_right(name: str, data: st.DataObject) -> None:
    play(name, data, "simulator")


@pytest.mark.gpu
@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_random_schedule_is_refused_or_right_on_cuda(name: str, data: st.DataObject) -> None:
    play(name, data, "cuda")
