"""Facts of compiled sources: what ptxas and nvdisasm say, occupancy, and what cannot run where."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from compilers import find_compiler, needs_compiler
from golden_runs import run_default_example

from tirstep.lowering_checks import CheckError
from tirstep.lowering_checks.facts import (
    ARCHITECTURES,
    Facts,
    KernelFacts,
    compile_everywhere,
    compile_facts,
    cuda_compilers,
    get_facts,
)
from tirstep.lowering_checks.facts.architectures import (
    Architecture,
    compute_occupancy,
    find_refusal,
    get_architecture,
)
from tirstep.lowering_checks.facts.cuda_compilers import (
    Compiled,
    CompileError,
    CompilerMissing,
    CudaCompiler,
)
from tirstep.lowering_checks.facts.nvrtc_program import HEAD, TENSOR_MAP, prepare
from tirstep.transforms.recipes import find_recipe

needs_nvrtc = pytest.mark.skipif(not find_compiler("nvrtc"), reason="the extra cuda: no NVRTC here")
needs_nvdisasm = pytest.mark.skipif(
    cuda_compilers.find_tool("nvdisasm") is None, reason="the extra cuda: no nvdisasm here"
)


@pytest.fixture(scope="module")
def blocking() -> Facts:
    run = run_default_example(find_recipe("matmul_shared_blocking"))
    return get_facts(run.steps[-1].module, problem=run.problem)


@pytest.fixture
def kernel(blocking: Facts) -> KernelFacts:
    return blocking.kernels[0]


@needs_compiler
@needs_nvdisasm
def test_one_recipe_on_every_architecture(blocking: Facts):
    compiled = compile_everywhere(blocking)
    assert [fact.architecture for fact in compiled] == list(ARCHITECTURES)
    for one in compiled:
        (it,) = one.kernels
        assert one.refusal is None
        assert 64 < it.registers <= 255  # 8 x 8 sums at least
        assert (it.spill_stores, it.spill_loads, it.static_shared_bytes) == (0, 0, 2048)
        assert {"LDG.128": 2, "STS.128": 2, "FFMA": 256}.items() <= it.instructions.items()
        assert 0 < it.occupancy.fraction <= 0.5
        values = one.values()
        assert (values["spills"], values["registers"]) == (0, it.registers)


def test_a_header_that_nvrtc_lacks_goes():
    assert prepare("#include <cuda.h>\nint a;\n") == f"{HEAD}int a;\n"


def test_tensor_maps_are_given_where_a_kernel_takes_one():
    kernel = "void f(const __grid_constant__ CUtensorMap tensor_map_0) {}\n"
    assert prepare(f"#include <cuda.h>\n{kernel}") == f"{HEAD}{TENSOR_MAP}{kernel}"
    assert TENSOR_MAP not in prepare("struct MyCUtensorMap_st {};\n")


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_a_sentence_says_what_to_install(blocking: Facts):
    with pytest.raises(CheckError, match=r"pip install 'tirstep\[cuda\]', or CUDA's nvcc"):
        compile_facts(blocking.source, "sm_80")


@needs_compiler
def test_there_is_every_architecture_that_the_compiler_knows():
    if find_compiler("nvrtc"):
        from cuda.bindings import nvrtc

        _, known = nvrtc.nvrtcGetSupportedArchs()
    else:
        command = [str(cuda_compilers.find_tool("nvcc")), "--list-gpu-code"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        known = map(int, re.findall(r"sm_(\d+)$", listed, re.MULTILINE))
    assert {*known} <= {limits.capability for limits in ARCHITECTURES.values()}


@needs_compiler
@pytest.mark.share(4)
@pytest.mark.parametrize("limits", ARCHITECTURES.values(), ids=lambda it: it.name)
def test_the_compiler_takes_an_sm_for_as_large(limits: Architecture):
    """It ignores a wish for more threads or blocks than an SM has, and says so."""
    compiler = cuda_compilers.get_compiler()

    def is_too_large(threads: int, blocks: int) -> bool:
        bounds = f"__launch_bounds__({threads}, {blocks})"
        source = f'extern "C" __global__ void {bounds} k(float *p) {{ p[threadIdx.x] = 1; }}'
        return "out of range" in compiler.compile(source, limits.name).log

    threads = limits.warps * 32
    assert not is_too_large(threads // limits.blocks, limits.blocks)
    assert is_too_large(threads // limits.blocks + 32, limits.blocks)
    assert is_too_large(32, limits.blocks + 1)


@pytest.mark.parametrize(
    ("change", "architecture", "reason"),
    [
        ({"static_shared_bytes": 49156}, "sm_90a", "static shared memory is 48.0039 KiB, and may "),
        ({"dynamic_shared_bytes": 65536}, "sm_75", "shared memory is 66 KiB, and may be 64 KiB"),
        ({"dynamic_shared_bytes": 100 << 10}, "sm_86", "102 KiB, and may be 99 KiB"),
        ({"dynamic_shared_bytes": 226 << 10}, "sm_90a", "228 KiB, and may be 227 KiB"),
        ({"block": {"x": 32, "y": 33}}, "sm_80", "has 1056 threads, and may have 1024"),
        ({"copies": {16: 1}}, "sm_75", "cp.async needs sm_80 or later"),
        ({"wgmma": 1}, "sm_100a", "wgmma runs only on sm_90a"),
        ({"wgmma": 1}, "sm_89", "wgmma runs only on sm_90a"),
    ],
)
def test_what_an_architecture_cannot_run_is_told(
    kernel: KernelFacts, change: dict[str, object], architecture: str, reason: str
):
    refusal = find_refusal(get_architecture(architecture), [replace(kernel, **change)])
    assert refusal.startswith(f"{architecture} cannot run main_kernel: ")
    assert reason in refusal


def refuse(sources: str, architectures: str = "sm_") -> CudaCompiler:
    """A compiler that refuses sources with a word in them, for architectures so called."""

    class Refusing(CudaCompiler):
        def compile(self, source: str, architecture: str) -> Compiled:
            if sources in source and architecture.startswith(architectures):
                raise CompileError("no host compiler.")
            return Compiled(b"", "")

    return Refusing("nvcc 13", lambda architecture, file: [], "install g++")


def test_a_compiler_that_compiles_nothing_is_no_fault_of_the_source():
    sentence = "nvcc 13 does not work here: no host compiler; install g++"
    with pytest.raises(CompilerMissing, match=re.escape(sentence)):
        compile_facts("void mine() {}", "sm_80", compiler=refuse("void"))
    known = compile_facts("void mine() {}", "sm_80", compiler=refuse("mine"))
    assert known.refusal == "sm_80 cannot run it: no host compiler."
    older = compile_facts("void mine() {}", "sm_75", compiler=refuse("void", "sm_75"))
    assert older.refusal == "nvcc 13 does not compile for sm_75: no host compiler"


ORACLE = r"""
#include <cstdio>
#include "cuda_occupancy.h"
int main() {
  int major, minor, threads, warps, registers;
  long shared, sm, block, reserved;
  while (std::scanf("%d %d %d %d %ld %ld %ld %d %ld", &major, &minor, &warps, &threads, &sm, &block,
                    &reserved, &registers, &shared) == 9) {
    cudaOccDeviceProp gpu;
    gpu.computeMajor = major; gpu.computeMinor = minor;
    gpu.maxThreadsPerBlock = 1024; gpu.maxThreadsPerMultiprocessor = warps * 32;
    gpu.regsPerBlock = 65536; gpu.regsPerMultiprocessor = 65536; gpu.warpSize = 32;
    gpu.sharedMemPerBlock = 49152; gpu.sharedMemPerMultiprocessor = sm; gpu.numSms = 1;
    gpu.sharedMemPerBlockOptin = block; gpu.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers; kernel.sharedSizeBytes = 0;
    kernel.maxDynamicSharedSizeBytes = shared; kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF; kernel.numBlockBarriers = 1;
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    int code = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel, &state, threads,
                                                       shared);
    std::printf("%d\n", code ? -code : result.activeBlocksPerMultiprocessor);
  }
}
"""


@needs_nvrtc
def test_occupancy_is_that_of_nvidias_own_calculator(tmp_path: Path):
    gxx = shutil.which("g++")
    if gxx is None:
        pytest.skip("there is no g++ on this machine")
    cases = [
        (architecture, threads, registers, shared)
        for architecture in ARCHITECTURES.values()
        for threads in (1, 32, 96, 256, 640, 1024)
        for registers in (16, 33, 64, 98, 168, 255)
        for shared in (0, 1000, 16384, 33000, 49152, 65536, 101376, 160000, 232448)
    ]
    (tmp_path / "oracle.cpp").write_text(ORACLE)
    include = f"-I{cuda_compilers.find_wheels()}/include"
    subprocess.run([gxx, include, "oracle.cpp", "-o", "oracle"], cwd=tmp_path, check=True)
    lines = [
        f"{gpu.capability // 10} {gpu.capability % 10} {gpu.warps} {threads} {gpu.shared} "
        f"{gpu.shared_per_block} {gpu.shared_reserved} {registers} {shared}"
        for gpu, threads, registers, shared in cases
    ]
    done = subprocess.run(
        [tmp_path / "oracle"], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    wanted = list(map(int, done.stdout.split()))
    got = [
        compute_occupancy(gpu, threads=threads, registers=registers, shared_bytes=shared).blocks
        for gpu, threads, registers, shared in cases
    ]
    different = [
        (case[0].name, *case[1:], mine, right)
        for case, mine, right in zip(cases, got, wanted, strict=True)
        if mine != right
    ]
    assert different == []


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared", "blocks", "limit"),
    [
        ("sm_80", 256, 32, 0, 8, "warps"),
        ("sm_80", 256, 64, 0, 4, "registers"),
        ("sm_80", 256, 32, 48 << 10, 3, "shared memory"),
        ("sm_86", 32, 32, 0, 16, "blocks"),
        ("sm_75", 1024, 32, 0, 1, "warps"),
        ("sm_90a", 1024, 80, 0, 0, "registers"),
    ],
)
def test_occupancy_by_hand(
    architecture: str, threads: int, registers: int, shared: int, blocks: int, limit: str
):
    limits = get_architecture(architecture)
    got = compute_occupancy(limits, threads=threads, registers=registers, shared_bytes=shared)
    assert (got.blocks, got.limit) == (blocks, limit)
    assert got.warps == blocks * threads // 32
    assert got.fraction == got.warps / limits.warps
