"""The tuning itself, in this process: what may win, what is out, and what an end in the middle
leaves.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tuned_programs
import tvm
from golden_runs import run_golden
from inline_workers import InlineWorkers, make_inline_candidates, make_plan
from tvm.ir import assert_structural_equal
from tvm.s_tir import Schedule

from tirstep.bench import BenchError
from tirstep.bench.search import Trials
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import get_kernel
from tirstep.transforms.recipes import find_recipe
from tirstep.tuning.candidates import start_processes
from tirstep.tuning.tuner import TunePlan, Tuner, TuneResult

PROBLEM = tuned_programs.twice_plus_one.problem(n=64)


Timed = tuple[tuple[float, ...], str]


FASTER = [1e-3 / number for number in range(1, 1000)]


class Told:
    """Candidates without a compiler: seconds by their order, or reasons why they have none; after
    the last one the run is interrupted.
    """

    def __init__(self, answers: Iterable[float | str] = FASTER) -> None:
        self.answers = iter(answers)

    def run(self, path: str, kind: str) -> Timed:
        answer = next(self.answers, None)
        if answer is None:
            raise KeyboardInterrupt
        return ((), answer) if isinstance(answer, str) else ((answer,), "")

    def build(self, modules: Sequence[Any], target: Any) -> list[tuple[str, str]]:
        return [("nowhere", "") for _ in modules]


def run_told(plan: TunePlan, folder: Path, answers: Iterable[float | str] = FASTER) -> TuneResult:
    """A run without a compiler, with the times that are told."""
    return run_inline(plan, folder, Told(answers))


def run_inline(plan: TunePlan, folder: Path, candidates: Any = None) -> TuneResult:
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    return Tuner(
        plan,
        candidates or make_inline_candidates(plan.problem, scratch),
        Trials(folder, plan.describe()),
        lambda _: None,
    ).run()


def test_a_wrong_candidate_is_timed_by_nobody_and_counted(tmp_path: Path) -> None:
    plan = make_plan(tuned_programs.folded, PROBLEM, trials=20)
    found = run_inline(plan, tmp_path)
    # 24 does not divide 64, whatever `fold` is; 2, 4 and 8 are wrong with fold=2.
    assert found.total == 8
    assert found.skipped == {"wrong": 3, "refused by split_loop": 2}
    assert found.tried == 6
    assert "C[" in found.samples["wrong"]
    assert found.winner is not None
    assert found.winner.config["fold"] == 1
    assert found.config == found.winner.config
    assert found.times
    assert found.default is not None
    expected = tuned_programs.folded.steps(plan.workload, **found.winner.config)[-1].module
    fresh = Schedule(plan.workload)
    found.winner.sch.trace.apply_to_schedule(fresh, remove_postproc=False)
    assert_structural_equal(fresh.mod, expected)


def test_half_precision_at_a_size_that_does_not_divide(tmp_path: Path) -> None:
    problem = tuned_programs.twice_plus_one.problem(n=50, dtype="float16")
    plan = make_plan(tuned_programs.folded, problem, trials=20)
    found = run_inline(plan, tmp_path)
    assert found.config == {"inner": 2, "fold": 1}
    assert found.skipped == {"wrong": 1, "refused by split_loop": 6}


def test_a_recipe_that_never_fits_ends_with_the_reasons(tmp_path: Path) -> None:
    plan = make_plan(tuned_programs.never_fits, PROBLEM, trials=20)
    found = run_told(plan, tmp_path)
    assert (found.tried, found.best) == (0, None)
    assert found.skipped == {"refused by split_loop": 4}
    assert "which inner=9 does not divide" in found.samples["refused by split_loop"]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    plan = make_plan(
        find_recipe("matmul_tiled"), get_kernel("matmul").problem(64, 64, 32), trials=9
    )
    with pytest.raises(KeyboardInterrupt):
        run_told(plan, tmp_path, FASTER[: 8 + 3])  # in the finals
    kept = Trials(tmp_path, plan.describe()).known
    assert len(kept) == 9
    found = run_told(plan, tmp_path)
    assert (found.tried, found.kept, found.stale) == (9, 9, 0)
    assert Trials(tmp_path, plan.describe()).known == kept
    longer = make_plan(plan.recipe, plan.problem, trials=12, seed=5)
    found = run_told(longer, tmp_path)
    assert (found.tried, found.kept) == (12, 9)


def test_trials_of_another_program_do_not_count(tmp_path: Path) -> None:
    """The recipe was changed since."""
    plan = make_plan(tuned_programs.folded, PROBLEM, trials=3, fixed={"fold": 1})
    run_told(plan, tmp_path)
    file = Trials(tmp_path, plan.describe()).file
    file.write_text(file.read_text().replace('"program": "', '"program": "0'))
    found = run_told(plan, tmp_path)
    assert (found.tried, found.kept, found.stale) == (3, 0, 3)


def test_what_was_out_of_a_users_recipe_is_tried_again(tmp_path: Path) -> None:
    """Its reference may have been wrong; of tirstep's recipes, what took too long alone."""
    for number, (spelling, reason, kept) in enumerate(
        [
            ("mine.py:folded", "wrong: C[0] is 1", 0),
            ("", "wrong: C[0] is 1", 2),
            ("", "took longer than 60 s to run", 0),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        mine = dataclasses.replace(tuned_programs.folded, spelling=spelling)
        plan = make_plan(mine, PROBLEM, trials=2, fixed={"fold": 1})
        run_told(plan, folder, [reason] * 2)
        found = run_told(plan, folder)
        assert (found.tried, found.kept, found.stale) == (2, kept, 0)
        assert (found.best is None) == (kept == 2)


def test_what_goes_wrong_in_the_last_rounds_does_not_win(tmp_path: Path) -> None:
    """As a race does, which is right at times: the fastest one fails in the second round."""
    wrong = "wrong: C[0] is 1"
    plan = make_plan(tuned_programs.folded, PROBLEM, trials=3, fixed={"fold": 1})
    best = []
    # Three trials, the last one the fastest; then rounds of three, the fastest first.
    for number, rounds in enumerate(([1, 2, 3] * 3, [1, 2, 3, wrong, 2, 3, 2, 3])):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = run_told(plan, folder, [3, 2, 1, *rounds])
        assert found.winner is not None
        best.append((found.winner.program, found.times, found.skipped["wrong"]))
    (right, seconds, _), (other, slower, count) = best
    assert right != other
    assert (seconds, slower, count) == ((1, 1, 1), (2, 2, 2), 1)


def test_the_program_of_another_config_is_not_tried_again(tmp_path: Path) -> None:
    @tuned_programs.tunable(choices={"ignored": (1, 2, 3)})
    def same(sch: Schedule, *, ignored: int = 0) -> Iterator[str]:
        sch.compute_inline(sch.get_sblock("B"))
        yield "inlined"

    found = run_told(make_plan(same, PROBLEM, trials=4), tmp_path)
    assert (found.tried, found.repeated, found.total) == (1, 3, 4)


def test_an_error_of_a_users_recipe_is_a_reason(tmp_path: Path) -> None:
    @tuned_programs.tunable(choices={"inner": (0, 2)})
    def divides(sch: Schedule, *, inner: int = 4) -> Iterator[str]:
        sch.split(sch.get_loops(sch.get_sblock("C"))[0], [64 // inner, inner])
        yield "split"

    found = run_told(make_plan(divides, PROBLEM, trials=4), tmp_path)
    assert found.skipped == {"failed: ZeroDivisionError": 1}
    assert found.tried == 2


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("attention_fused", "it replaces blocks by its own"),
        ("matmul_mma_best", "tirstep's own tensor"),
    ],
)
def test_what_needs_tirstep_is_refused_before_anything_is_timed(
    tmp_path: Path, name: str, reason: str
) -> None:
    found = find_recipe(name)
    problem = run_golden(found).problem
    knob, value = next(iter({**found.config, **found.golden.config}.items()))
    fixed = {key: it for key, it in found.golden.config.items() if key != knob}
    plan = make_plan(found, problem, trials=2, fixed=fixed, among={knob: (value,)})
    with pytest.raises(BenchError, match=f"cannot be kept in a database.*{reason}"):
        run_told(plan, tmp_path)


class OnSimulator:
    """Right on the simulator of a GPU, or out; built for CUDA by TVM, without a GPU."""

    def __init__(self, plan: TunePlan) -> None:
        self.plan, self.modules = plan, list[Any]()
        self.sources: list[str] = []

    def build(self, modules: Sequence[Any], target: Any) -> list[tuple[str, str]]:
        self.modules = [*modules]
        for module in modules:
            made = tvm.compile(module, target=target)
            self.sources.append(made.mod.imports[0].inspect_source())
        return Told().build(modules, target)

    def run(self, path: str, kind: str) -> Timed:
        module = self.modules.pop(0)
        self.modules.append(module)  # the finals go round
        assert kind == "cuda"
        found = check_numbers(self.plan.problem, module, get_device("simulator"), where="candidate")
        return ((), f"wrong: {found[0]}") if found else ((1e-6,), "")


def test_a_space_for_cuda_is_right_on_the_simulator_and_its_sources_compile(
    tmp_path: Path,
) -> None:
    problem = get_kernel("row_sum").problem(m=5, n=96)
    found = find_recipe("row_sum_vectors")
    plan = make_plan(
        found,
        problem,
        trials=3,
        fixed={name: value for name, value in found.golden.config.items() if name != "threads"},
        among={"threads": (32, 8, 16)},
        target="nvidia/nvidia-h100",
    )
    device = OnSimulator(plan)
    result = run_inline(plan, tmp_path, device)
    assert result.best is not None
    assert not result.skipped.get("wrong")
    assert all("__global__" in source for source in device.sources)


def test_processes_of_the_builder_know_the_reducers_of_recipes(tmp_path: Path) -> None:
    """`softmax_online` sums over threads by a reducer of tirstep's, which TVM alone refuses."""
    module = run_golden(find_recipe("softmax_online")).steps[-1].module
    workers = start_processes(1, 60.0)
    try:
        ((path, reason),) = make_inline_candidates(PROBLEM, tmp_path, workers).build(
            [module], tvm.target.Target("nvidia/nvidia-h100")
        )
    finally:
        workers.close()
    assert reason == ""
    assert Path(path).is_file()


def test_a_fault_on_a_gpu_ends_the_process_that_had_it(tmp_path: Path) -> None:
    closed: list[str] = []

    class Counted(InlineWorkers):
        def close(self) -> None:
            closed.append("closed")

    candidates = make_inline_candidates(PROBLEM, tmp_path, Counted())
    for kind, count in (("cpu", 0), ("cuda", 1)):
        assert candidates.run("nowhere.so", kind)[1].startswith("failed: ")
        assert len(closed) == count
