"""Options of TVM's pass context, noted in the module that needs them."""

import pytest
import tvm
from kernels import Copy, parse_kernel
from pairs import check_pair, refuses
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks.compile.compiling import pass_context
from tirstep.modules import vector_add
from tirstep.transforms import (
    bind_loop,
    get_pass_options,
    set_pass_option,
    split_loop,
    vectorize_loop,
)

CopyWithOption = parse_kernel("""
    A (8,), B (8,)
    with T.sblock("root"):
        T.sblock_attr({"pass_config.tirx.use_async_copy": True})
        for i in range(8):
            with T.sblock("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi]
""")


def vectorized():
    sch = Schedule(vector_add(64))
    loop = split_loop(sch, sch.get_loops(sch.get_sblock("C"))[0], inner=4)
    vectorize_loop(sch, loop.inner)
    bind_loop(sch, loop.outer, axis="threadIdx.x")
    return sch


def test_set_pass_option_is_noted_in_the_root_block():
    def change(sch):
        set_pass_option(sch, name="tirx.use_async_copy", value=True)

    check_pair(Copy, change, CopyWithOption)


def test_set_pass_option_again_replaces_the_value():
    sch = Schedule(Copy)
    set_pass_option(sch, name="tirx.use_async_copy", value=False)
    set_pass_option(sch, name="tirx.use_async_copy", value=True)
    assert get_pass_options(sch.mod) == {"tirx.use_async_copy": True}


def test_set_pass_option_refuses_what_does_not_fit():
    sch = Schedule(Copy)
    with refuses(sch, "no pass option 'tirx.use_async_copi'; did you mean 'tirx.use_async_copy'"):
        set_pass_option(sch, name="tirx.use_async_copi", value=True)
    with refuses(sch, "value='yes' is neither a bool nor an integer; pass a bool or an"):
        set_pass_option(sch, name="tirx.use_async_copy", value="yes")
    sch = Schedule(from_source(Copy.script().replace("def main", "def copy")))
    with refuses(
        sch, "set_pass_option: the schedule works on none of 'copy'; name one with sch.wo"
    ):
        set_pass_option(sch, name="tirx.use_async_copy", value=True)
    sch.work_on("copy")
    set_pass_option(sch, name="tirx.use_async_copy", value=True)
    assert get_pass_options(sch.mod) == {"tirx.use_async_copy": True}


@pytest.mark.parametrize("is_disabled", [False, True])
def test_set_pass_option_holds_where_a_module_is_compiled(is_disabled):
    sch = vectorized()
    set_pass_option(sch, name="tirx.disable_vectorize", value=is_disabled)
    with pass_context(sch.mod):
        compiled = tvm.compile(sch.mod, target="nvidia/nvidia-h100")
    assert ("float4" in compiled.mod.imports[0].inspect_source()) is not is_disabled


def test_set_pass_option_leaves_the_other_options_of_the_context():
    sch = vectorized()
    set_pass_option(sch, name="tirx.use_async_copy", value=True)
    with (
        tvm.transform.PassContext(opt_level=1, config={"tirx.disable_vectorize": True}),
        pass_context(sch.mod) as context,
    ):
        assert context.opt_level == 1
        assert dict(context.config) == {"tirx.disable_vectorize": True, "tirx.use_async_copy": True}
