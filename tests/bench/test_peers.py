"""The peers: found by name, missing in words, and dlight's schedules."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tvm

from tirstep.bench import BenchError, PeerMissing, peers
from tirstep.bench.ceilings import THREADS, count_fma_operations, make_fma_kernel
from tirstep.bench.peers import PEERS, Peer, get_plain_target, schedule_by_default, wrap_function
from tirstep.lowering_checks.devices import CpuDevice, find_unbound_sblocks
from tirstep.modules import Problem, conv1d, matmul


def test_a_peer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PeerMissing, match=r"^Triton is not installed$"):
        PEERS["triton"].get_function("matmul")


def test_the_modules_of_the_peers_are_there():
    folder = Path(peers.__file__).parent
    modules = {peer.functions for peer in PEERS.values() if isinstance(peer.functions, str)}
    assert modules
    for module in modules:
        assert "\nFUNCTIONS" in (folder / f"{module}.py").read_text()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "needs functions or a schedule, one of them"),
        ({"functions": len, "schedule": len}, "needs functions or a schedule, one of them"),
    ],
)
def test_a_peer_that_could_not_run(settings: Any, words: str):
    with pytest.raises(BenchError, match=f"^the peer 'mine' {words}$"):
        Peer("mine", "mine", **settings)


def test_one_function_takes_the_inputs_in_order():
    prepare = Peer("mine", "mine", functions=wrap_function(lambda a, b: a - b)).get_function("any")
    assert prepare([5, 3], None, conv1d.problem(4, 2))() == 2


def test_a_kernel_that_a_peer_does_not_have():
    pytest.importorskip("torch")
    with pytest.raises(PeerMissing, match=r"^the benchmark has no PyTorch function for no_such$"):
        PEERS["torch"].get_function("no_such")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100f"])
def test_dlight_gets_an_architecture_that_it_knows(arch: str):
    attributes = dict(tvm.target.Target("nvidia/nvidia-h100").attrs)
    target = tvm.target.Target({"kind": "cuda", **attributes, "arch": arch})
    plain = get_plain_target(target)
    assert str(plain.attrs["arch"]) == arch.rstrip("af")
    assert plain.attrs["max_threads_per_block"] == target.attrs["max_threads_per_block"]


def test_dlight_binds_what_it_schedules_and_leaves_the_kernel_as_it_is():
    target = tvm.target.Target("nvidia/nvidia-h100")
    for module in (conv1d(100, 7), matmul(64, 64, 64)):
        before = module.script()
        assert find_unbound_sblocks(schedule_by_default(module, target)) == []
        assert module.script() == before


def test_the_kernel_of_the_peak_computes_all_its_chains():
    """By its result: c = c / 2 + 1 comes to 2 in each of the 8 chains of a thread."""
    x, y = np.array([0.5, 1], "float32"), np.full(2 * THREADS, np.nan, "float32")
    out = CpuDevice().compile(make_fma_kernel(blocks=2, steps=128))([x, y])[1]
    np.testing.assert_array_equal(out, np.full(2 * THREADS, 16, "float32"))
    assert count_fma_operations(blocks=2, steps=128) == 2 * 2 * THREADS * 8 * 128


def test_the_peak_s_source_multiplies_and_adds_in_registers():
    target = tvm.target.Target("nvidia/nvidia-h100")
    source = tvm.compile(make_fma_kernel(8, 128), target=target).mod.imports[0].inspect_source()
    body = source.partition("for (int ")[2].partition("}")[0]
    assert body.count("sums_ptr[0] = ((sums_ptr[0] * X_ptr[0]) + X_ptr[1]);") == 64
    assert "Y_ptr" not in body


class Matrix:
    """A tensor of PyTorch, as far as products of matrices need one."""

    device = "cuda"

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.dtype, self.shape = array, str(array.dtype), array.shape

    def t(self) -> "Matrix":
        return Matrix(self.array.T)

    def stride(self, axis: int) -> int:
        return self.array.strides[axis] // self.array.itemsize

    def new_zeros(self, *shape: int) -> "Matrix":
        return Matrix(np.zeros(shape, self.dtype))

    def __getitem__(self, rows: slice) -> "Matrix":
        return Matrix(self.array[rows])


class FakeTorch(ModuleType):
    """PyTorch's products, which refuse what it refuses on a GPU, and note how they were called."""

    float8_e4m3fn, float8_e5m2, int8 = "float8_e4m3fn", "float8_e5m2", "int8"
    float32, bfloat16, float16 = "float32", "bfloat16", "float16"

    def __init__(self) -> None:
        super().__init__("torch")
        self.precision, self.noted = "highest", ()

    def ones(self, shape: tuple[int, ...], device: str) -> float:
        return 1.0

    def cat(self, matrices: list[Matrix]) -> Matrix:
        return Matrix(np.concatenate([matrix.array for matrix in matrices]))

    def get_float32_matmul_precision(self) -> str:
        return self.precision

    def set_float32_matmul_precision(self, precision: str) -> None:
        self.precision = precision

    def _multiply(self, a: Matrix, b: Matrix) -> np.ndarray:
        return a.array.astype("float64") @ b.array.astype("float64")

    def mm(self, a: Matrix, b: Matrix, out: Matrix | None) -> Matrix:
        self.noted = (self.precision,)
        return Matrix(self._multiply(a, b))

    def _scaled_mm(self, a: Matrix, b: Matrix, *, scale_a: float, scale_b: float, **how) -> Matrix:
        assert b.stride(0) == scale_a == scale_b == 1
        assert not any(size % 16 for size in b.shape)
        self.noted = tuple(how.values())
        return Matrix(self._multiply(a, b))

    def _int_mm(self, a: Matrix, b: Matrix) -> Matrix:
        assert a.shape[0] > 16
        assert not any(size % 8 for size in b.shape)
        self.noted = a.shape
        return Matrix(self._multiply(a, b))


@pytest.fixture
def multiply(monkeypatch: pytest.MonkeyPatch) -> Callable[[Problem], tuple[Any, Any]]:
    """PyTorch's matmul of a problem without PyTorch: what it noted, and how far off it is."""
    fake, functional = FakeTorch(), ModuleType("torch.nn.functional")
    for name, module in (("torch", fake), ("torch.nn.functional", functional)):
        monkeypatch.setitem(sys.modules, name, module)
    fake.nn = ModuleType("torch.nn")
    fake.nn.functional = functional
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.delitem(sys.modules, "tirstep.bench.peers.torch_functions", raising=False)

    def run(problem: Problem) -> tuple[Any, Any]:
        inputs = problem.integer_inputs(0)
        launch = PEERS["torch"].get_function("matmul")([*map(Matrix, inputs)], None, problem)
        (right,) = problem.reference(inputs)
        off = np.abs(launch().array - right).max()
        assert fake.precision == "highest"
        return fake.noted, off

    yield run
    sys.modules.pop("tirstep.bench.peers.torch_functions", None)


FLOAT8 = {"dtype": "float8_e4m3fn", "transpose_b": True}


@pytest.mark.parametrize(
    ("options", "noted"),
    [
        ({"dtype": "tf32"}, ("high",)),
        ({"dtype": "float32", "transpose_b": True}, ("highest",)),
        ({**FLOAT8, "out": "bfloat16"}, ("bfloat16", False)),
        ({**FLOAT8, "acc": "fp22"}, ("float32", True)),
        ({"dtype": "int8", "transpose_b": True}, (32, 32)),
    ],
    ids=str,
)
def test_pytorch_multiplies_each_type_as_it_can(multiply: Any, options: Any, noted: Any):
    assert multiply(matmul.problem(16, 48, 32, **options)) == (noted, 0)


@pytest.mark.parametrize(
    ("shape", "options", "sentence"),
    [
        ((16, 24, 32), FLOAT8, "_scaled_mm takes n and k that are multiples of 16, not 24 and 32"),
        ((16, 32, 32), {"dtype": "float8_e4m3fn"}, "_scaled_mm takes B as .n, k. alone; give tra"),
        ((16, 24, 4), {"dtype": "int8"}, "_int_mm takes n and k that are multiples of 8, not 24"),
    ],
)
def test_what_pytorch_does_not_multiply(multiply: Any, shape: Any, options: Any, sentence: str):
    with pytest.raises(PeerMissing, match=sentence):
        multiply(matmul.problem(*shape, **options))
