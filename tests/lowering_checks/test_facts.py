"""Facts of lowered modules: of kernels written for it, and of recipes against the simulator."""

import pytest
import tvm
from golden_runs import run_golden
from kernels import parse_kernel

from tirstep.lowering_checks import CheckError
from tirstep.lowering_checks.facts import Facts, KernelFacts, get_facts
from tirstep.transforms.recipes import find_recipe


def test_the_host_s_part_of_a_split_module_is_refused():
    module = copy_through_shared("shared")
    split = get_facts(module).lowered
    assert split is not None
    refusal = get_facts(tvm.IRModule({"main": split["main"]})).refusal
    assert str(refusal).startswith("it launches main_kernel, which the module does not have")


def only_kernel(facts: Facts) -> KernelFacts:
    assert facts.refusal is None
    (kernel,) = facts.kernels
    return kernel


def copy_through_shared(scope: str) -> tvm.IRModule:
    """Reversed rows through shared memory: 4 loads at once, one barrier in each of 8 turns."""
    return parse_kernel(f"""
        A (16, 8, 128) float16, B (16, 8, 128) float16
        T.func_attr({{"tirx.noalias": True}})
        S = T.sblock_alloc_buffer((16, 8, 128), "float16", scope="{scope}")
        for b in T.thread_binding(16, thread="blockIdx.y"):
            for r in range(8):
                for t in T.thread_binding(32, thread="threadIdx.x"):
                    for v in T.vectorized(4):
                        with T.sblock("S", "SS", b, r):
                            vc = T.axis.spatial(128, t * 4 + v)
                            S[vb, vr, vc] = A[vb, vr, vc]
                for t in T.thread_binding(32, thread="threadIdx.x"):
                    for u in T.unroll(4):
                        with T.sblock("B", "SS", b, r):
                            vc = T.axis.spatial(128, u * 32 + t)
                            B[vb, vr, vc] = S[vb, vr, 127 - vc]
    """)


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_every_fact_of_a_small_kernel(scope: str):
    facts = get_facts(copy_through_shared(scope))
    kernel = only_kernel(facts)
    assert (kernel.name, kernel.grid, kernel.block) == (
        "main_kernel",
        {"y": 16},
        {"x": 32},
    )
    static, dynamic = (256, 0) if scope == "shared" else (0, 256)
    assert (kernel.static_shared_bytes, kernel.dynamic_shared_bytes) == (static, dynamic)
    assert (kernel.blocks, kernel.threads, kernel.shared_bytes) == (16, 32, 256)
    assert {(access.scope, access.kind): dict(access.widths) for access in kernel.accesses} == {
        ("global", "load"): {8: 1},
        ("shared", "store"): {8: 1},
        ("shared", "load"): {2: 4},
        ("global", "store"): {2: 4},
    }
    assert kernel.get_accesses("global", "load").vectors == 1
    assert kernel.get_accesses("shared", "load").scalars == 4
    assert (kernel.barriers, kernel.barriers_per_step, kernel.barriers_executed) == (2, 2, 16)
    assert (kernel.guards, facts.unrolled_loops) == (0, 1)
    assert (facts.flops, facts.bytes, facts.intensity) == (None, None, None)


# Calls of every kind; what they compute does not matter, and it is not run.
TENSOR_CORES = parse_kernel("""
    A (512,) float16, C (32, 8)
    T.func_attr({"tirx.noalias": True})
    for _ in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("C"):
                v = T.axis.spatial(32, t)
                T.reads(A[0:512])
                T.writes(C[v, 0:8])
                S = T.sblock_alloc_buffer((512,), "float16", scope="shared")
                W = T.sblock_alloc_buffer((8,), "float16", scope="local")
                R = T.sblock_alloc_buffer((8,), "float32", scope="local")
                for half in range(2):
                    T.evaluate(T.s_tir.cp_async_raw(
                        "float16", S.data, half * 256 + v * 8, A.data, v * 8, 16))
                T.evaluate(T.ptx_legacy.ldmatrix(
                    False, 4, ".b16", W.data, 0, S.data, v * 8, dtype="float16"))
                for k in range(2):
                    T.evaluate(T.ptx_legacy.mma(
                        "m16n8k16", "row", "col", "fp16", "fp16", "fp32", W.data, 0, W.data, 0,
                        R.data, k * 4, False, dtype="float32"))
                T.evaluate(T.cuda.func_call("product", R.data, S.data, source_code='''
__device__ void product(float* c, half* a) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0};" : "+f"(c[0]));
  __syncthreads();
}
'''))
                for e in range(8):
                    C[v, e] = R[e]
""")


def test_copies_and_tensor_cores_are_counted():
    kernel = only_kernel(get_facts(TENSOR_CORES))
    assert kernel.copies == {16: 1}
    assert (kernel.ldmatrix, kernel.mma, kernel.wgmma) == (1, 1, 1)
    assert kernel.barriers_executed == 1  # in the source of the helper
    values = get_facts(TENSOR_CORES).values()
    assert (values["cp_async"], values["cp_async_bytes"], values["mma"]) == (1, 16, 1)


def test_facts_of_opencl_are_the_same_and_llvm_has_none():
    module = run_golden(find_recipe("matmul_shared")).steps[-1].module
    assert get_facts(module, "opencl").kernels == get_facts(module).kernels
    with pytest.raises(CheckError, match="facts are of GPU kernels, and llvm makes none"):
        get_facts(module, "llvm")
