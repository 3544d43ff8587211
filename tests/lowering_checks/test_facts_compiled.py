"""Facts of compiled sources: what ptxas and nvdisasm say, occupancy, and what cannot run where."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from compilers import find_compiler, needs_compiler
from golden_runs import run_default_example, run_golden

from tirstep.lowering_checks import CheckError
from tirstep.lowering_checks.compile.cuda_source import drop_unused_traits
from tirstep.lowering_checks.facts import (
    ARCHITECTURES,
    Facts,
    KernelFacts,
    compile_everywhere,
    compile_facts,
    cuda_compilers,
    get_compiler,
    get_facts,
)
from tirstep.lowering_checks.facts.architectures import (
    compute_occupancy,
    find_refusal,
    get_architecture,
)
from tirstep.lowering_checks.facts.compiled import read_instructions, read_resources
from tirstep.lowering_checks.facts.cuda_compilers import (
    Compiled,
    CompileError,
    CompilerMissing,
    CudaCompiler,
)
from tirstep.lowering_checks.facts.nvrtc_program import HEAD, TENSOR_MAP, prepare
from tirstep.transforms.recipes import find_recipe

needs_nvrtc = pytest.mark.skipif(not find_compiler("nvrtc"), reason="the extra cuda: no NVRTC here")
needs_nvcc = pytest.mark.skipif(
    not find_compiler("nvcc"), reason="there is no nvcc on this machine"
)
needs_nvdisasm = pytest.mark.skipif(
    cuda_compilers.find_tool("nvdisasm") is None, reason="the extra cuda: no nvdisasm here"
)

# 96 sums that live across a barrier, in 64 registers of each of 1024 threads.
SPILLING = """
extern "C" __global__ void __launch_bounds__(1024) spilling(float* __restrict__ a) {
  __shared__ float s[1024];
  float c[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) c[i] = a[i * 1024 + threadIdx.x];
  for (int k = 0; k < 100; ++k) {
    s[threadIdx.x] = c[k % 7];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 96; ++i) c[i] = c[i] * s[(threadIdx.x + i * k) % 1024] + c[(i + 1) % 96];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 96; ++i) a[i * 1024 + threadIdx.x] = c[i];
}
"""


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
        assert it.instructions is not None
        assert {"LDG.128": 2, "STS.128": 2, "FFMA": 256}.items() <= it.instructions.items()
        assert it.occupancy is not None
        assert 0 < it.occupancy.fraction <= 0.5
        values = one.values()
        assert (values["spills"], values["registers"]) == (0, it.registers)


@needs_nvrtc
@needs_nvdisasm
def test_nvrtc_makes_the_code_that_tvm_runs(blocking: Facts, monkeypatch: pytest.MonkeyPatch):
    root = cuda_compilers.find_wheels()
    mine = get_compiler("nvrtc").compile(blocking.source, "sm_80").cubin
    mine = read_code(mine)
    monkeypatch.setenv("CUDA_PATH", str(root))
    monkeypatch.setenv("TVM_CUDA_NVRTC_EXTRA_OPTS", f"-I{root}/include/cccl")
    source = blocking.source
    its = tvm.support.nvcc.compile_cuda(source, "cubin", arch="sm_80", compiler="nvrtc")
    assert mine == read_code(bytes(its))
    assert "FFMA" in mine


@needs_nvrtc
@needs_nvdisasm
def test_the_code_is_the_same_without_type_traits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda_compilers, "drop_unused_traits", lambda source: source)
    source = get_facts(run_golden(find_recipe("matmul_wgmma_async")).steps[-1].module).source
    short = drop_unused_traits(source)
    assert short != source
    compiler = get_compiler("nvrtc")
    codes = [read_code(compiler.compile(it, "sm_90a").cubin) for it in (source, short)]
    assert codes[0] == codes[1]
    assert "main_kernel" in codes[0]


def read_code(cubin: bytes) -> str:
    """The machine code of the kernels; the constants of headers that nobody reads may differ."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(cubin)
        file.flush()
        command = [cuda_compilers.find_tool("nvdisasm"), "--print-code", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_header_that_nvrtc_lacks_goes():
    assert prepare("#include <cuda.h>\nint a;\n") == f"{HEAD}int a;\n"


def test_tensor_maps_are_given_where_a_kernel_takes_one():
    kernel = "void f(const __grid_constant__ CUtensorMap tensor_map_0) {}\n"
    assert prepare(f"#include <cuda.h>\n{kernel}") == f"{HEAD}{TENSOR_MAP}{kernel}"
    assert TENSOR_MAP not in prepare("struct MyCUtensorMap_st {};\n")


@needs_nvrtc
def test_nvrtc_compiles_bulk_copies_as_tvm_does(monkeypatch: pytest.MonkeyPatch):
    source = get_facts(run_golden(find_recipe("matmul_mma_tma")).steps[-1].module).source
    mine = get_compiler("nvrtc").compile(source, "sm_90a").cubin
    root = cuda_compilers.find_wheels()
    monkeypatch.setenv("CUDA_PATH", str(root))
    monkeypatch.setenv("TVM_CUDA_NVRTC_EXTRA_OPTS", f"-I{root}/include/cccl")
    its = tvm.support.nvcc.compile_cuda(source, "cubin", arch="sm_90a", compiler="nvrtc")
    if cuda_compilers.find_tool("nvdisasm") is not None:
        assert read_code(mine) == read_code(bytes(its))
    assert mine


@needs_nvcc
def test_registers_and_spills_are_those_of_nvcc_to_the_number(blocking: Facts, tmp_path: Path):
    nvcc, architecture = get_compiler("nvcc"), "sm_90a"
    for source in (blocking.source, SPILLING):
        (it,) = compile_facts(source, architecture, compiler=nvcc).kernels
        file = tmp_path / "kernel.cu"
        file.write_text(source)
        command = [cuda_compilers.find_tool("nvcc"), f"-arch={architecture}", "--use_fast_math"]
        command += ["--cubin", "-Xptxas", "-v,--register-usage-level=10", "-o", "kernel.cubin"]
        done = subprocess.run(
            [*map(str, command), str(file)], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        (registers,) = re.findall(r"Used (\d+) registers", done.stderr)
        (stack, stores, loads) = re.findall(r"(\d+) bytes (?:stack|spill)", done.stderr)
        assert it.registers == int(registers)
        assert (it.stack_bytes, it.spill_stores, it.spill_loads) == (
            *(int(stack), int(stores), int(loads)),
        )
        assert (it.spill_stores > 0) == (source == SPILLING)


@needs_compiler
def test_spills_are_seen_and_the_threads_are_in_the_source():
    compiled = compile_facts(SPILLING, "sm_80")
    (it,) = compiled.kernels
    assert min(it.spill_stores, it.spill_loads, it.stack_bytes) > 0
    assert compiled.values()["spills"] == it.spill_stores + it.spill_loads
    assert it.registers <= 64
    assert it.occupancy is not None
    assert it.occupancy.warps == 32 * it.occupancy.blocks > 0


@needs_compiler
def test_a_source_that_the_compiler_refuses_is_told():
    text = SPILLING.replace("__syncthreads();", 'asm volatile("cp.async.commit_group;");')
    compiled = compile_facts(text, "sm_75")
    assert compiled.kernels == ()
    assert compiled.refusal is not None
    assert re.fullmatch("sm_75 cannot run it: .*cp.async.* requires .*sm_80.*", compiled.refusal)


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_a_sentence_says_what_to_install(blocking: Facts):
    with pytest.raises(CheckError, match=r"pip install 'tirstep\[cuda\]', or CUDA's nvcc"):
        compile_facts(blocking.source, "sm_80")


@pytest.mark.parametrize(
    ("change", "architecture", "reason"),
    [
        ({"static_shared_bytes": 49156}, "sm_90a", "static shared memory is 48.0039 KiB, and may "),
        ({"dynamic_shared_bytes": 65536}, "sm_75", "shared memory is 66 KiB, and may be 64 KiB"),
        ({"dynamic_shared_bytes": 100 << 10}, "sm_86", "102 KiB, and may be 99 KiB"),
        ({"dynamic_shared_bytes": 226 << 10}, "sm_90a", "228 KiB, and may be 227 KiB"),
        ({"block": {"x": 32, "y": 33}}, "sm_80", "has 1056 threads, and may have 1024"),
        ({"copies": {16: 1}}, "sm_75", "cp.async needs sm_80 or later"),
        ({"wgmma": 1}, "sm_100a", "wgmma runs on sm_90a alone"),
        ({"wgmma": 1}, "sm_89", "wgmma runs on sm_90a alone"),
    ],
)
def test_what_an_architecture_cannot_run_is_told(
    kernel: KernelFacts, change: dict[str, object], architecture: str, reason: str
):
    refusal = find_refusal(get_architecture(architecture), [replace(kernel, **change)])
    assert refusal is not None
    assert refusal.startswith(f"{architecture} cannot run main_kernel: ")
    assert reason in refusal


def test_what_fits_is_not_refused(kernel: KernelFacts):
    fits = replace(kernel, dynamic_shared_bytes=(227 << 10) - 2048, copies={16: 1}, wgmma=1)
    assert find_refusal(get_architecture("sm_90a"), [fits]) is None
    assert all(
        find_refusal(architecture, [kernel]) is None for architecture in ARCHITECTURES.values()
    )


def test_an_unknown_architecture_is_refused(blocking: Facts):
    sentence = "there is no architecture 'sm_92'; did you mean sm_89 or sm_90a"
    with pytest.raises(CheckError, match=sentence):
        compile_facts(blocking.source, "sm_92")


@pytest.mark.parametrize(("plain", "known"), [("sm_90", "sm_90a"), ("sm_120", "sm_120a")])
def test_an_architecture_without_its_letter_has_the_same_limits(plain: str, known: str):
    assert get_architecture(plain) == replace(ARCHITECTURES[known], name=plain)


def test_only_the_letter_brings_wgmma(kernel: KernelFacts):
    refusal = find_refusal(get_architecture("sm_90"), [replace(kernel, wgmma=1)])
    assert refusal == "sm_90 cannot run main_kernel: wgmma runs on sm_90a alone"


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


LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
    96 bytes stack frame, 40 bytes spill stores, 56 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 96 bytes cumulative stack size, 8192 bytes smem
ptxas info    : Function properties for helper
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, used 0 barriers, 376 bytes cmem[0]
"""


def test_the_log_of_ptxas_is_read_kernel_by_kernel():
    names = ("stack", "spill_stores", "spill_loads", "registers", "shared")
    assert read_resources(LOG) == {
        "second": dict(zip(names, (96, 40, 56, 255, 8192), strict=True)),
        "first": dict(zip(names, (0, 0, 0, 16, 0), strict=True)),
    }


DISASSEMBLY = """
.text.first:
        /*0000*/                   LDG.E.128.CONSTANT R4, [R2.64] ;
        /*0010*/              @!P0 LDG.E.U16 R4, desc[UR4][R2.64] ;
        /*0020*/              @P1  STS.64 [R3+0x10], R4 ;
        /*0030*/                   LDS R5, [R4.X4] ;
        /*0040*/             @!UPT UIADD3 URZ, URZ, URZ, URZ ;
        /*0050*/                   HMMA.16816.F32 R4, R8, R10, R4 ;
        /*0060*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.text.second:
        /*0000*/                   FFMA R1, R2, R3, R4 ;
        /*0010*/                   LDGSTS.E.BYPASS.128 [R3], [R4.64] ;
        /*0020*/                   STL.128 [R1], R4 ;
        /*0030*/                   LDG.E.S8 R1, [R2] ;
        /*0040*/                   UTMALDG.2D [UR8], [UR4], desc[UR6] ;
        /*0050*/                   UTMALDG.2D.MULTICAST [UR8], [UR4], UR10, desc[UR6] ;
"""


def test_instructions_are_counted_by_kernel_and_width():
    assert read_instructions(DISASSEMBLY) == {
        "first": {"LDG.128": 1, "LDG.16": 1, "STS.64": 1, "LDS.32": 1, "HMMA": 1, "BAR": 1},
        "second": {
            "FFMA": 1,
            "LDGSTS": 1,
            "STL.128": 1,
            "LDG.8": 1,
            "UTMALDG": 2,
            "UTMALDG.MULTICAST": 1,
        },
    }
