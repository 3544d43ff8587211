"""The device `host`: the generated CUDA source computes what it must, and what is planted shows.

Plants are made in the source's text, behind TVM, or in modules that TVM accepts.
"""

import dataclasses
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tvm
from golden_runs import check_golden_on_simulator, check_recorded, run_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import BeyondTheEnd, RowSum
from remembered_compiler import remember
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep import caches
from tirstep.lowering_checks import DeviceError, check_numbers, get_device, run_recipe
from tirstep.lowering_checks.devices import DeviceFinding, run
from tirstep.lowering_checks.devices.host import (
    HostDevice,
    cxx_compiler,
    generate,
    is_host_available,
)
from tirstep.lowering_checks.devices.host.cxx_compiler import find_instructions
from tirstep.lowering_checks.steps import Run
from tirstep.modules import get_kernel, matmul, vector_add
from tirstep.strategies.kernel_strategies import shapes, sizes
from tirstep.transforms import cache_read_at, tile_block
from tirstep.transforms.recipes import RECIPES, Recipe

WITH_BARRIERS = [
    "window_sum_shared",
    "matmul_registers",
    "matmul_shared_blocking",
    "conv1d_memory_hierarchy",
]
DTYPED = ["vector_add_bound", "matmul_shared_blocking", "depthwise_conv2d_threads_2d"]
BARRIER = "__syncthreads();"


@pytest.fixture(scope="module")
def host() -> HostDevice:
    try:
        return HostDevice()
    except DeviceError as error:
        pytest.skip(str(error))


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def outcome(
    made: Run, host: HostDevice, edit: Callable[[str], str]
) -> tuple[bool, list[DeviceFinding]]:
    """Whether the last step's source, edited, computes the right integers; and its findings."""
    generated = generate(made.steps[-1].module)
    edited = edit(generated.source)
    assert edited != generated.source
    program = host.compile_generated(dataclasses.replace(generated, source=edited))
    inputs = made.problem.integer_inputs(0)
    (got,) = run(program, inputs, made.problem.outputs)
    (expected,) = made.problem.reference(inputs)
    return np.array_equal(got.astype(np.float64), expected), list(program.findings)


def plant(host: HostDevice, statement: str) -> tuple[bool, list[DeviceFinding]]:
    """The same for matmul_shared_blocking, with a statement before its first barrier."""
    made = run_golden(RECIPES["matmul_shared_blocking"])
    return outcome(made, host, lambda source: source.replace(BARRIER, statement + BARRIER, 1))


def assert_agreement(made: Run, host: HostDevice) -> None:
    """The last step's outputs are the simulator's, bit for bit."""
    inputs, module = made.problem.integer_inputs(1), made.steps[-1].module
    ours, theirs = (
        run(device.compile(module), inputs, made.problem.outputs)[0]
        for device in (host, get_device("simulator"))
    )
    np.testing.assert_array_equal(ours.view(np.uint8), theirs.view(np.uint8))


# ---- What it computes.


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_a_recipe_agrees_with_numpy_and_with_the_simulator(
    recipe: Recipe, host: HostDevice
) -> None:
    """Bit for bit, in each case of whole numbers."""
    golden = run_golden(recipe)
    generated = generate(golden.steps[-1].module)
    if find_instructions(generated.source):
        with pytest.raises(DeviceError, match="the generated source uses the GPU instructions '"):
            host.compile_generated(generated)
        return
    checked = check_recorded(golden, host.compile_generated(generated), "host")
    assert checked.findings == []
    if golden.problem.is_exact:
        theirs = check_golden_on_simulator(recipe.name)
        assert len(checked.outputs) == len(theirs.outputs) > 0
        for ours, simulated in zip(checked.outputs, theirs.outputs, strict=True):
            for one, other in zip(ours, simulated, strict=True):
                np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in DTYPED for dtype in get_kernel(RECIPES[name].kernel).dtypes],
)
def test_every_dtype(name: str, dtype: str, host: HostDevice) -> None:
    golden = run_golden(RECIPES[name])
    made = run_recipe(
        golden.recipe, golden.problem.shape, options={"dtype": dtype}, config=golden.config
    )
    assert check_numbers(made.problem, made.steps[-1].module, host, where="here") == []


def cast(source: str, target: str, size: int):
    @I.ir_module
    class Cast:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((size,), source), B: T.Buffer((size,), target)):
            for block in T.thread_binding(size // 256, thread="blockIdx.x"):
                for thread in T.thread_binding(256, thread="threadIdx.x"):
                    with T.sblock("B"):
                        vi = T.axis.spatial(size, block * 256 + thread)
                        B[vi] = T.Cast(target, A[vi])

    return Cast


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats_are_read_and_rounded_as_numpy_has_them(dtype: str, host: HostDevice) -> None:
    """Every number of the type; then each number's neighbours in float32, and the ties."""
    bits = numpy_dtype(dtype).itemsize * 8
    numbers = np.arange(2**bits, dtype=f"uint{bits}").view(numpy_dtype(dtype))
    read = host.compile(cast(dtype, "float32", numbers.size))
    wide = read([numbers, np.zeros(numbers.size, "float32")])[1]
    np.testing.assert_array_equal(wide, numbers.astype("float32"))

    finite = np.sort(wide[np.isfinite(wide)])
    ties = finite[:-1] + np.diff(finite.astype("f8")) / 2
    ties = ties.astype("float32")
    near = [np.nextafter(ties, np.float32(far)) for far in (-np.inf, np.inf)]
    floats = np.concatenate([ties, *near, finite]).astype("float32")
    floats = np.concatenate([floats, np.ones(-floats.size % 256, "float32")])
    rounded = host.compile(cast("float32", dtype, floats.size))
    got = rounded([floats, np.zeros(floats.size, numpy_dtype(dtype))])[1]
    expected = floats.astype(numpy_dtype(dtype))
    np.testing.assert_array_equal(got.astype("float32"), expected.astype("float32"))


def vectors(dtype: str, lanes: int, target: str):
    @I.ir_module
    class Vectors:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((256,), dtype), B: T.Buffer((256,), dtype), C: T.Buffer((256,), target)
        ):
            for thread in T.thread_binding(256 // lanes, thread="threadIdx.x"):
                for lane in T.vectorized(lanes):
                    with T.sblock("C"):
                        vi = T.axis.spatial(256, thread * lanes + lane)
                        C[vi] = T.Cast(target, A[vi] * B[vi] + A[vi])

    return Vectors


@pytest.mark.parametrize(
    ("dtype", "lanes", "target"),
    [
        ("float32", 4, "float32"),
        ("float32", 2, "float8_e5m2"),
        ("float32", 4, "int8"),
        ("float64", 2, "float64"),
        ("float16", 2, "float32"),
        ("float16", 8, "float16"),
        ("bfloat16", 4, "bfloat16"),
        ("int8", 4, "int32"),
        ("int8", 16, "int8"),
        ("int16", 4, "int16"),
        ("int64", 2, "int64"),
    ],
)
def test_vectors(dtype: str, lanes: int, target: str, host: HostDevice) -> None:
    a, b = np.random.default_rng(0).integers(-4, 5, (2, 256)).astype(numpy_dtype(dtype))
    program = host.compile(vectors(dtype, lanes, target))
    got = program([a, b, np.zeros(256, numpy_dtype(target))])[2]
    exact = a.astype("f8") * b.astype("f8") + a.astype("f8")
    np.testing.assert_array_equal(got.astype("f8"), exact.astype(got.dtype).astype("f8"))
    assert program.findings == []


@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("float16", 5e-2)])
def test_functions(dtype: str, error: float, host: HostDevice) -> None:
    @I.ir_module
    class Functions:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((64,), dtype), B: T.Buffer((64,), dtype)):
            for i in T.thread_binding(64, thread="threadIdx.x"):
                with T.sblock("B"):
                    vi = T.axis.spatial(64, i)
                    B[vi] = (
                        T.exp(A[vi])
                        + T.log(A[vi]) * T.rsqrt(A[vi])
                        + T.tanh(A[vi])
                        + T.max(T.sigmoid(A[vi]), T.sqrt(A[vi]))
                        + T.pow(A[vi], T.cos(A[vi]))
                        + T.floor(A[vi])
                    )

    x = np.random.default_rng(0).uniform(0.1, 2, 64).astype(dtype)
    got = host.compile(Functions)([x, np.zeros(64, dtype)])[1]
    x = x.astype("f8")
    expected = np.exp(x) + np.log(x) / np.sqrt(x) + np.tanh(x) + x ** np.cos(x) + np.floor(x)
    expected += np.maximum(1 / (1 + np.exp(-x)), np.sqrt(x))
    np.testing.assert_allclose(got.astype("f8"), expected, rtol=error)


@pytest.mark.parametrize("threads", [8, 32, 96])
def test_a_reduction_over_threads_shuffles_within_warps(threads: int, host: HostDevice) -> None:
    sch = Schedule(RowSum)
    i, k = sch.get_loops(sch.get_sblock("B"))
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(k, [None, threads])[1], "threadIdx.x")
    rows = np.random.default_rng(0).integers(-4, 5, (5, 192)).astype("float32")
    program = host.compile(sch.mod)
    (got,) = program([rows, np.full(5, np.nan, "float32")])[1:]
    np.testing.assert_array_equal(got, rows.sum(axis=1))
    assert program.findings == []
    assert "__shfl_down_sync" in generate(sch.mod).source


@pytest.mark.parametrize(("scope", "dtype"), [("shared", "int8"), ("shared.dyn", "float32")])
def test_dynamic_shared_memory_alone_and_beside_static(
    scope: str, dtype: str, host: HostDevice
) -> None:
    problem = matmul.problem(32, 24, 16, dtype=dtype)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(8, 8))
    for operand, kind in enumerate(("shared.dyn", scope)):
        copy = cache_read_at(sch, block, tile.blocks[1], operand=operand, scope=kind)
        fetch = sch.fuse(*sch.get_loops(copy)[-2:])
        _, y, x = sch.split(fetch, [None, 8, 8])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
    assert check_numbers(problem, sch.mod, host, where="here") == []


@I.ir_module
class TwoKernels:
    @T.prim_func(s_tir=True)
    def main(a: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        C = T.match_buffer(c, (n,), "float32")
        B = T.sblock_alloc_buffer((n,))
        for i in T.thread_binding(n, thread="threadIdx.x"):
            with T.sblock("B"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi] + T.float32(1)
        for i in T.thread_binding(n, thread="blockIdx.x"):
            with T.sblock("C"):
                vi = T.axis.spatial(n, i)
                C[vi] = B[n - 1 - vi] * T.float32(2)


def test_two_kernels_of_a_symbolic_shape_run_one_after_the_other(host: HostDevice) -> None:
    program = host.compile(TwoKernels)
    for size in (7, 64):
        values = np.arange(size, dtype="float32")
        got = program([values, np.full(size, np.nan, "float32")])[1]
        np.testing.assert_array_equal(got, (values[::-1] + 1) * 2)
        assert program.findings == []


@pytest.mark.parametrize(
    "name", ["matmul_shared", "matmul_registers", "depthwise_conv2d_threads_2d"]
)
@settings(max_examples=4)
@given(data=st.data())
def test_drawn_shapes_agree_with_numpy_and_with_the_simulator(
    name: str, host: HostDevice, data: st.DataObject
) -> None:
    """Sizes that need not divide: the tails are guarded, or padded with zeros."""
    recipe = RECIPES[name]
    shape = data.draw(shapes(recipe, "simulator"), label="shape")
    made = run_recipe(recipe, shape, config=data.draw(sizes(recipe), label="sizes"))
    assert check_numbers(made.problem, made.steps[-1].module, host, where="here") == []
    assert_agreement(made, host)


@pytest.mark.parametrize("name", ["matmul_naive", "matmul_shared", "matmul_shared_blocking"])
def test_a_product_of_128_by_128_by_128(name: str, host: HostDevice) -> None:
    made = run_recipe(RECIPES[name], {"m": 128, "n": 128, "k": 128})
    assert check_numbers(made.problem, made.steps[-1].module, host, where="here") == []


# ---- What it sees.


@pytest.mark.parametrize("name", WITH_BARRIERS)
def test_every_deleted_barrier_shows(name: str, host: HostDevice) -> None:
    golden = run_golden(RECIPES[name])
    source = generate(golden.steps[-1].module).source
    places = [found.start() for found in re.finditer(re.escape(BARRIER), source)]
    assert places
    for place in places:
        rest = place + len(BARRIER)
        is_right, findings = outcome(
            golden, host, lambda text, a=place, b=rest: text[:a] + text[b:]
        )
        assert not is_right
        assert [finding.kind for finding in findings] == ["race"]


def test_a_race_is_told_with_its_element(host: HostDevice) -> None:
    golden = run_golden(RECIPES["matmul_shared_blocking"])
    _, (finding,) = outcome(golden, host, lambda source: source.replace(BARRIER, ""))
    assert finding.buffer == "C"
    assert finding.message == (
        "C[0, 0] depends on the order in which threads run (a missing barrier, or two threads that "
        "store to it)"
    )


def test_a_fetch_into_registers_gives_wrong_numbers(host: HostDevice) -> None:
    """Each thread reads what others loaded into their own registers; TVM accepts it."""
    problem = matmul.problem(16, 16, 16)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(4, 4), fuse_threads=True)
    copy = cache_read_at(sch, block, tile.blocks[1], operand=0, scope="local")
    fetch = sch.fuse(*sch.get_loops(copy)[-2:])
    sch.bind(sch.split(fetch, [None, 16])[1], "threadIdx.x")
    finding = check_numbers(problem, sch.mod, host, where="here")[-1]
    assert "elements are wrong" in finding.message


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("C_ptr[64 * 48] = 1;", "store to C[3072] by {thread} (C has 3072 elements)"),
        ("C_ptr[-1] = 1;", "store to C[-1] by {thread} (C has 3072 elements)"),
        ("C_ptr[1 << 28] = 1;", "store to an address far from every array by {thread}"),
        (
            "C_local_ptr[0] = A_ptr[64 * 32 + 5];",
            "load of A[2053] by {thread} (A has 2048 elements)",
        ),
        ("A_shared_ptr[64 + k_0] = 1;", "access to A_shared[64] by {thread} (a float[64])"),
        ("C_local_ptr[8 + k_0] = 1;", "access to C_local[8] by {thread} (a float[8])"),
        ("*(float4*)(C_ptr + 2) = *(float4*)A_ptr;", "float4 access to C[2] by {thread}"),
    ],
)
def test_a_bad_address_is_told_and_does_no_harm(
    statement: str, sentence: str, host: HostDevice
) -> None:
    is_right, (finding,) = plant(host, f"if (threadIdx.x == 3) {statement}")
    assert not is_right
    assert finding.kind == ("misaligned access" if "float4" in sentence else "out of bounds")
    assert finding.message.startswith(sentence.format(thread="thread (3, 0, 0) of block (0, 0, 0)"))


@I.ir_module
class VectorsBeyondTheEnd:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
        for thread in T.thread_binding(16, thread="threadIdx.x"):
            for lane in T.vectorized(2):
                with T.sblock("B"):
                    vi = T.axis.spatial(32, thread * 2 + lane)
                    T.reads(A[vi])
                    T.writes(B[vi])
                    B[vi] = A[vi]


def test_elements_beyond_the_end(host: HostDevice) -> None:
    """With vectors, an array is aligned, and a guard zone lies between its end and the page."""
    told = []
    for module in (BeyondTheEnd, VectorsBeyondTheEnd):
        program = host.compile(module)
        values = np.arange(30, dtype="float32")
        got = program([values, np.full(30, np.nan, "float32")])[1]
        np.testing.assert_array_equal(got, values)
        (finding,) = program.findings
        told.append(f"{finding.kind}: {finding.message}")
    assert told == [
        "out of bounds: load of A[30] by thread (6, 0, 0) of block (3, 0, 0) (A has 30 elements)",
        "out of bounds: store to B[30] (B has 30 elements)",
    ]


@pytest.mark.parametrize(
    ("statement", "kind", "sentence"),
    [
        (
            "if (threadIdx.x < 16) { __syncthreads(); }",
            "divergent barrier",
            "threads of a block wait at different barriers",
        ),
        (
            "if (threadIdx.x < 16) return;",
            "divergent barrier",
            "barrier reached by only some threads of a block",
        ),
        (
            "if (threadIdx.x < 16) { __syncwarp(); }",
            "divergent shuffle",
            "lanes of a warp wait for others that never arrive",
        ),
    ],
)
def test_a_divergent_wait_is_told(
    statement: str, kind: str, sentence: str, host: HostDevice
) -> None:
    is_right, findings = plant(host, statement)
    assert not is_right
    assert findings[0].kind == kind
    assert sentence in findings[0].message
    assert "of the generated source: " in findings[0].message


def test_memory_that_nobody_wrote_is_told(host: HostDevice) -> None:
    """max() takes a number for NaN, so that the first run alone would show nothing."""
    golden = run_golden(RECIPES["matmul_shared_blocking"])
    extra = "C_local_ptr[0] = max(C_local_ptr[0], A_shared_ptr[0]);" + BARRIER
    _, findings = outcome(golden, host, lambda source: source.replace(BARRIER, extra, 1))
    assert {finding.kind for finding in findings} == {"uninitialized read"}
    assert "depends on uninitialized memory" in findings[0].message


@pytest.mark.parametrize(
    ("size", "threads", "axis", "sentence"),
    [
        (4096, 2048, "threadIdx.x", "a thread block of 2048 threads exceeds a GPU's limit of 1024"),
        (256, 128, "threadIdx.z", "extent 128 of 'threadIdx.z' exceeds a GPU's limit of 64"),
    ],
)
def test_a_launch_that_is_too_large_is_told(
    size: int, threads: int, axis: str, sentence: str, host: HostDevice
) -> None:
    sch = Schedule(vector_add(size))
    (loop,) = sch.get_loops(sch.get_sblock("C"))
    outer, inner = sch.split(loop, [None, threads])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, axis)
    program = host.compile(sch.mod)
    program([np.ones(size, "float32")] * 3)
    assert str(program.findings[-1]).startswith(f"launch: {sentence}")


# ---- What it refuses, and its limits.


def test_a_loop_that_never_ends_ends_at_the_limit() -> None:
    host = HostDevice(time_limit=1) if is_host_available() else pytest.skip("no C++ compiler")
    with pytest.raises(DeviceError, match="the kernel does not end within 1 s on the device"):
        plant(host, "for (;;) C_local_ptr[0] += 1;")
    with pytest.raises(DeviceError, match="the kernel does not end within 1 s on the device"):
        plant(host, "for (;;) __syncthreads();")


def test_a_compiler_that_hangs_ends_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says its version, and hangs on a source, together with a process that it began."""
    began = tmp_path / "began"
    fake = tmp_path / "slow-compiler"
    fake.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && echo slow 1.0 && exit\necho $$ >> {began}\n"
        f"sleep 1000 &\necho $! >> {began}\nwait\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cxx_compiler, "_is_supported", lambda *asked: False)
    host = HostDevice(time_limit=0.5)
    assert host.description == "generated CUDA source on the CPU (slow 1.0)"
    generated = generate(run_golden(RECIPES["matmul_naive"]).steps[-1].module)
    with pytest.raises(DeviceError, match=r"the C\+\+ compiler does not end within 0.5 s on the"):
        host.compile_generated(generated)
    processes = began.read_text().split()
    assert len(processes) == 2
    deadline = time.monotonic() + 10  # a signal takes its time to end a process
    while any(is_running(int(process)) for process in processes):
        assert time.monotonic() < deadline, processes
        time.sleep(0.01)


def test_a_program_that_is_no_compiler_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "true")
    generated = generate(run_golden(RECIPES["matmul_naive"]).steps[-1].module)
    with pytest.raises(DeviceError, match=r"'true' ends well and writes nothing.*set \$CXX to one"):
        HostDevice().compile_generated(generated)


def is_running(process: int) -> bool:
    """Whether there is such a process, and not only what nobody has asked the exit code of."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("nvcuda::wmma::fill_fragment(a, 0.0f);", "uses 'nvcuda', which the device"),
        ("__ldmatrix_or_so(A_ptr);", "uses '__ldmatrix_or_so', which the device"),
        (
            'asm volatile("cp.async.wait_group %0;" :: "n"(0));',
            "uses the GPU instructions 'cp.async', which the device",
        ),
        (
            '__asm__ __volatile__(\n"{\\n .reg .pred p; setp.ne.b32 p, %0, 0;\\n"\n'
            '"@p ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0}, [%1];\\n"\n"}" : : "r"(0));\n'
            'asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0};" : : "r"(0));',
            "uses the GPU instructions 'ldmatrix.sync', 'mma.sync', which the device",
        ),
        ("\n#include <mma.h>\n", "includes <mma.h>, which the device"),
    ],
)
def test_what_the_header_lacks_is_named(statement: str, sentence: str, host: HostDevice) -> None:
    with pytest.raises(DeviceError, match=re.escape(sentence)):
        plant(host, statement)


@pytest.mark.parametrize("named", ["", "no-such-compiler"])
def test_no_compiler_is_one_sentence(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CXX", named)
    assert not is_host_available()
    sentence = "names 'no-such-compiler', and there is no such" if named else r"no g\+\+ and no cl"
    with pytest.raises(DeviceError, match=f"{sentence}.*install a C.. compiler"):
        HostDevice()


@pytest.mark.xdist_group("damaged cache")
def test_what_was_built_is_kept(
    host: HostDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cxx_compiler, "KEPT", 4)
    for dtype in ("float32", "float16", "int8", "int32"):
        sch = Schedule(vector_add(128, dtype=dtype))
        sch.bind(sch.get_loops(sch.get_sblock("C"))[0], "blockIdx.x")
        program = host.compile(sch.mod)
        before = sorted(cxx_compiler.get_cache().iterdir())
        host.compile(sch.mod)
        assert sorted(cxx_compiler.get_cache().iterdir()) == before
    assert len(before) == 4, "two programs and the runtime: the oldest ones are gone"
    ones = np.ones(128, "int32")
    np.testing.assert_array_equal(program([ones, ones, ones])[2], 2 * ones)
    for path in before:
        path.unlink()
    np.testing.assert_array_equal(program([ones, ones, ones])[2], 2 * ones)


def damage_end(content: bytes) -> bytes:
    return content[: len(content) // 2]


def damage_middle(content: bytes) -> bytes:
    return content[:4000] + bytes(len(content) - 8000) + content[-4000:]


def replace_all(content: bytes) -> bytes:
    return b"#!/bin/sh\ntouch stolen\n"


def bind_ones() -> tvm.IRModule:
    sch = Schedule(vector_add(128, dtype="int32"))
    sch.bind(sch.get_loops(sch.get_sblock("C"))[0], "blockIdx.x")
    return sch.mod


@pytest.fixture(scope="module")
def built_cache(host: HostDevice, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a program and the runtime that is linked into it."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        remember(patch)
        host.compile(bind_ones())
    return folder


@pytest.mark.xdist_group("damaged cache")
@pytest.mark.parametrize("damage", [damage_end, damage_middle, replace_all, lambda content: b""])
def test_what_is_damaged_in_the_cache_is_built_again(
    host: HostDevice, built_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage
) -> None:
    """Programs, and the objects of the runtime that are linked into others."""
    shutil.copytree(built_cache, tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked = remember(monkeypatch)
    monkeypatch.chdir(tmp_path)
    ones = np.ones(128, "int32")
    files = sorted(cxx_compiler.get_cache().iterdir())
    right = {file: file.read_bytes() for file in files}
    assert {file.suffix for file in files} == {"", ".o"}
    for file in files:
        file.write_bytes(damage(right[file]))
    program = host.compile(bind_ones())
    np.testing.assert_array_equal(program([ones, ones, ones])[2], 2 * ones)
    assert sorted(cxx_compiler.get_cache().iterdir()) == files
    assert all(file.read_bytes() != damage(right[file]) for file in files)
    assert len(asked) == 1 + len(files)  # the kernel's object is in no cache
    assert not (tmp_path / "stolen").exists()


@pytest.mark.xdist_group("damaged cache")
def test_a_cache_on_a_full_disk_is_given_up(
    host: HostDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(caches, "_given_up", {})
    caches._make_own.cache_clear()
    write = caches.write_file

    def fail(file: Path, *rest: object, **named: object) -> None:
        if tmp_path in file.parents:
            raise OSError(28, "No space left on device", str(file))
        write(file, *rest, **named)

    monkeypatch.setattr(caches, "write_file", fail)
    ones = np.ones(128, "int32")
    sch = Schedule(vector_add(128, dtype="int32"))
    sch.bind(sch.get_loops(sch.get_sblock("C"))[0], "blockIdx.x")
    with pytest.warns(caches.CacheWarning, match=r"cannot be written \(No space left on device\)"):
        program = host.compile(sch.mod)
    np.testing.assert_array_equal(program([ones, ones, ones])[2], 2 * ones)
    before = sorted(cxx_compiler.get_cache().iterdir())
    assert len(before) > 1  # the runtime's objects are there, too, and serve again
    host.compile(sch.mod)
    assert sorted(cxx_compiler.get_cache().iterdir()) == before


@pytest.mark.xdist_group("damaged cache")
def test_without_a_cache_programs_are_built_all_the_same(
    host: HostDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    remember(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    caches._make_own.cache_clear()
    monkeypatch.setattr(caches, "_given_up", {})
    ones = np.ones(128, "int32")
    sch = Schedule(vector_add(128, dtype="int32"))
    sch.bind(sch.get_loops(sch.get_sblock("C"))[0], "blockIdx.x")
    with pytest.warns(caches.CacheWarning, match="so what is compiled is not kept"):
        program = host.compile(sch.mod)
    np.testing.assert_array_equal(program([ones, ones, ones])[2], 2 * ones)


def test_arguments_of_another_type_are_refused(host: HostDevice) -> None:
    program = host.compile(BeyondTheEnd)
    with pytest.raises(DeviceError, match=r"A is float32 of shape \(30,\), and the argument is"):
        program([np.ones(30), np.ones(30, "float32")])


def test_a_step_that_cannot_be_launched_is_refused(host: HostDevice) -> None:
    with pytest.raises(DeviceError, match="not bound yet: C; bind its loops first"):
        host.compile(matmul(8, 8, 8))


def test_the_host_has_no_clock_and_names_its_compiler(host: HostDevice) -> None:
    assert re.match(r"generated CUDA source on the CPU \(.*\d", host.description)
    with pytest.raises(DeviceError, match="say nothing about a GPU"):
        host.time(matmul(8, 8, 8), [])
