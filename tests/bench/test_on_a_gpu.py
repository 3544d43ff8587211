"""The machine for real: what it launches, records and judges."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_pool import search_here

from tirstep.bench.cases import CaseChoice, PlannedCase, plan_cases
from tirstep.bench.peers import PEERS
from tirstep.bench.results import read_run, write_run
from tirstep.bench.search import SearchPlan
from tirstep.bench.session import Reference, Settings, run_bench, run_case
from tirstep.lowering_checks import run_recipe
from tirstep.modules import (
    Kernel,
    attention,
    conv1d,
    decode_attention,
    depthwise_conv2d,
    matmul,
    relu,
    row_argmax,
    row_sum,
    vector_add,
)
from tirstep.transforms.recipes import RECIPES

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def machine() -> Any:
    pytest.importorskip("torch")
    from tirstep.bench.torch_machine import TorchMachine

    return TorchMachine()


def measure(machine: Any, problem: Any, recipe: str, *peers: str) -> Any:
    rows = tuple(PEERS[name] for name in peers)
    planned = PlannedCase("matmul", problem, (RECIPES[recipe],), rows)
    return run_case(planned, machine, Settings(rounds=3), lambda line: None)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_peers_are_right_and_recorded(machine: Any, dtype: str):
    problem = matmul.problem(256, 128, 192, dtype=dtype, out=dtype)
    peers = ("torch", "triton", "dlight")
    outcomes = measure(machine, problem, "matmul_shared_blocking", *peers).outcomes
    assert [outcome.candidate for outcome in outcomes] == ["matmul_shared_blocking", *peers]
    assert [(outcome.status, outcome.note) for outcome in outcomes] == [("ok", "")] * 4
    assert [outcome.launched for outcome in outcomes] == ["graph"] * 4


ALONE = [
    *(
        ("torch", matmul.problem(*sizes, **options))
        for sizes in ((16, 48, 32), (256, 128, 192))
        for options in (
            {"dtype": "tf32"},
            {"dtype": "float8_e4m3fn", "transpose_b": True, "acc": "fp22"},
            {"dtype": "int8", "transpose_b": True},
        )
    ),
    *(
        (peer, kernel.problem(*sizes, dtype=dtype))
        for dtype in ("float32", "float16")
        for peer, kernel, sizes in (
            ("torch", conv1d, (1000, 13)),
            ("torch", depthwise_conv2d, (2, 3, 41, 67, 3)),
            ("torch", row_argmax, (5, 1000)),
            ("triton", row_sum, (5, 1000)),
            ("triton", relu, (999,)),
        )
    ),
]


@pytest.mark.parametrize(("peer", "problem"), ALONE, ids=str)
def test_a_peer_is_right_in_each_type_that_it_has(machine: Any, peer: str, problem: Any):
    planned = PlannedCase("alone", problem, (), (PEERS[peer],))
    (outcome,) = run_case(planned, machine, Settings(rounds=3), lambda line: None).outcomes
    assert (outcome.status, outcome.note) == ("ok", "")


def test_a_kernel_runs_on_pytorch_s_stream_and_tensors(machine: Any):
    problem = vector_add.problem(1 << 20)
    inputs = problem.float_inputs(0)
    tensors = [machine.upload(array) for array in inputs]
    output = machine.upload(np.zeros(1 << 20, "float32"))
    run = RECIPES["vector_add_bound"]
    module = run.steps(problem.module)[-1].module
    replay = machine.record(machine.compile(module, [*tensors, output]), [output])
    (expectation,) = machine.expect(Reference(problem, inputs))
    machine.poison(output)
    assert "is nan" in machine.find_error(expectation, output)
    replay.run()
    assert machine.find_error(expectation, output) is None
    # The graph reads what the tensors hold when it is replayed.
    tensors[0].add_(1)
    replay.run()
    assert machine.find_error(expectation, output) is not None


def test_the_caches_are_cold(machine: Any):
    """What is timed after another candidate's run is not found in the cache: by its buffers."""
    flush_bytes = machine.method["flush_bytes"]
    assert flush_bytes >= 4 * machine.device["l2_bytes"] > 0


def test_a_replay_outlives_a_larger_workspace(machine: Any):
    """The graph of a split-K matmul is right after another one took a larger intermediate."""
    replays = []
    for size in (128, 512):
        problem = matmul.problem(size, size, 256)
        inputs = problem.integer_inputs(0)
        arguments = [machine.upload(array) for array in inputs]
        arguments.append(machine.upload(np.zeros((size, size), "float32")))
        module = run_recipe(RECIPES["matmul_split_k"], problem.shape).steps[-1].module
        replay = machine.record(machine.compile(module, arguments), arguments[-1:])
        replays.append((replay, machine.expect(Reference(problem, inputs, is_exact=True))[0]))
    for replay, expectation in replays:
        machine.poison(replay.outputs[0])
        replay.run()
        assert machine.find_error(expectation, replay.outputs[0]) is None


def test_a_whole_run(machine: Any, tmp_path: Path):
    cases, _ = plan_cases(CaseChoice(["convolution"], quick=True))
    runs = [*run_bench(cases, machine, Settings(rounds=3), lambda line: None)]
    run = runs[-1]
    assert [len(so_far.cases) for so_far in runs] == [*range(1, len(cases) + 1)]
    write_run(run, tmp_path / "run.json")
    assert read_run(tmp_path / "run.json") == run
    assert run.ceilings.copy > 0
    assert run.ceilings.flops["float32"] > 0
    statuses = {
        outcome.candidate: outcome.status for case in run.cases for outcome in case.outcomes
    }
    assert statuses["torch"] == "ok"
    assert statuses["conv1d_naive"] == "ok"
    assert {str(case.bytes) for case in run.cases} == {*run.ceilings.copies_us}
    assert all(us > 0 for us in run.ceilings.copies_us.values())


def test_a_copy_that_does_not_fit_is_not_measured(machine: Any):
    assert [*machine.measure_ceilings([], [1 << 20, 1 << 60]).copies_us] == [str(1 << 20)]


def test_a_search_in_other_processes(machine: Any):
    fixed = {"local_x": 4, "block_y": 8, "block_x": 8, "tile_k": 8, "vector": 4}
    plan = SearchPlan(RECIPES["matmul_shared_blocking"], matmul.problem(256, 256, 256), dict(fixed))
    found = search_here(plan, machine, Settings(rounds=3))
    assert (found.tried, dict(found.skipped)) == (4, {})
    assert found.best is not None
    assert found.peer is not None
    assert found.config is not None
    assert fixed.items() <= found.config.items()


@pytest.mark.parametrize(
    ("kernel", "sizes", "options"),
    [
        (attention, (1, 4, 70, 130, 16), {"dtype": "float16", "group": 2}),
        (attention, (2, 2, 130, 130, 8), {"causal": True}),
        (attention, (1, 2, 70, 130, 8), {"causal": True, "window": 40, "scale": 30.0}),
        (attention, (2, 2, 70, 130, 8), {"mask": "hqk"}),
        (attention, (2, 2, 70, 130, 8), {"mask": "bk", "mask_op": "minimum", "dtype": "bfloat16"}),
        (decode_attention, (3, 4, 130, 16), {"dtype": "bfloat16"}),
    ],
)
def test_what_attention_must_be_is_the_same_on_the_gpu(
    machine: Any, kernel: Kernel, sizes: tuple[int, ...], options: dict
):
    problem = kernel.problem(*sizes, **options)
    assert machine.has_reference(problem)
    for _, inputs in problem.planted_inputs(3):
        reference = Reference(problem, inputs)
        (here,) = machine.expect(reference)
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(here.expected.cpu(), reference.right[0], 1e-12, 1e-15)
            np.testing.assert_allclose(here.bound.cpu(), reference.bound[0], 1e-6, 1e-300)


def test_somebody_else_s_kernel_is_not_ours_for_its_name(machine: Any):
    other = Kernel(relu.factory, replace(relu.meaning))
    assert machine.has_reference(relu.problem(8))
    assert not machine.has_reference(other.problem(8))
