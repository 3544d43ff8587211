"""Options of TVM's pass context, noted in the module that needs them."""

from kernels import Copy, parse_kernel
from pairs import check_pair, refuses
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.transforms import get_pass_options, set_pass_option

CopyWithOption = parse_kernel("""
    A (8,), B (8,)
    with T.sblock("root"):
        T.sblock_attr({"pass_config.tirx.use_async_copy": True})
        for i in range(8):
            with T.sblock("B", "S", i):
                B[vi] = A[vi]
""")


def test_set_pass_option_is_noted_in_the_root_block():
    def change(sch):
        set_pass_option(sch, name="tirx.use_async_copy", value=True)

    check_pair(Copy, change, CopyWithOption)


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
