"""Every command on what a user has: a module, a schedule, a kernel, a script, JSON, a database."""

import io
import json
import re
import sys
from pathlib import Path

import pytest
import tvm
from own_files import MODULE, write_database, write_programs

from tirstep.lowering_checks import devices, print_module

from .conftest import Command

GLANCE = "00_input   golden none     numbers right on cpu"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with `mine.py`, `net.py` and `kern.py`, and the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    write_programs(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("steps mine.py:Mine", "# Mine 00_input  mine.py:"),
        ("steps mine.py:tiled --step 1", "# tiled 01_tiled  mine.py:"),
        ("diff mine.py", "--- tiled/00_input"),
        ("diff mine.py:tiled --set threads=4", "T.thread_binding(4,"),
        ("lower mine.py:tiled", "s_tir.LowerOpaqueBlock"),
        ("lower mine.py:tiled --source", "__global__"),
        ("facts mine.py:tiled", "threads per block"),
        ("check mine.py", "01_tiled   golden none     numbers right on simulator"),
        ("check mine.py:Mine", GLANCE),
        ("why mine.py", "tiled, seed 0: nothing is wrong"),
        ("report mine.py -o page.html", "page.html  1 program, 1 step"),
        ("export mine.py out --as trace", "out  tiled as trace, replayed"),
        ("check kern.py", "at an odd shape            numbers right on simulator 97"),
        ("check kern.py:twice", "twice_bound  96"),
        ("check kern.py:alone", "alone  64"),
        ("check kern.py:alone --shape 30", "alone  30"),
        ("ladder kern.py:twice --steps", "01_bound"),
        ("diff kern.py:twice_bound --against mine.py:tiled", "--- twice_bound/01_bound"),
    ],
)
def test_a_command_takes_it(command: Command, line: str, shown: str):
    result = command(*line.split())
    assert (result.code, result.err) == (0, "")
    assert shown in result.out


def test_a_step_is_at_its_line(command: Command, folder: Path):
    steps = command("steps", "mine.py:tiled", "--json").document["steps"]
    lines = (folder / "mine.py").read_text().splitlines()
    assert [step["name"] for step in steps] == ["input", "tiled"]
    for step in steps:
        file, _, line = step["source"].partition(":")
        assert (file, lines[int(line) - 1].split("(")[0]) == ("mine.py", "def tiled")


def test_a_wrong_schedule_is_found_and_explained(command: Command):
    result = command("check", "mine_wrong.py")
    assert result.code == 1
    assert "numbers wrong on simulator" in result.out
    assert "tirstep why mine_wrong.py:Square:skips" in result.out
    told = command("why", "mine_wrong.py")
    assert told.code == 1
    assert Path("why_skips.py").is_file()


def test_a_list_says_what_is_there(command: Command):
    result = command("list", "everything.py")
    assert (result.code, result.err) == (0, "")
    kinds = [re.split("[ (]+", line)[:2] for line in result.out.partition("\n\n")[0].splitlines()]
    assert kinds == [
        ["kernel", "twice"],
        ["recipe", "twice_bound"],
        ["module", "Mine"],
        ["function", "alone"],
        ["schedule", "tiled"],
        ["pass", "do_nothing"],
        ["pass", "DoNothing"],
    ]
    document = command("list", "everything.py", "--json").document
    found = {program["name"]: program for program in document["programs"]}
    lines = Path("everything.py").read_text().splitlines()
    for name, program in found.items():
        line = int(program["source"].removeprefix("everything.py:"))
        assert name in lines[line - 1]
    assert "check" in found["Mine"]["taken_by"]
    assert "search" in found["twice_bound"]["taken_by"]
    assert found["DoNothing"]["taken_by"].startswith("pass, with --after")
    assert command("list", "everything.py:Mine").out.startswith("module   Mine  everything.py:")


HELPER = """

def needs(sch, block, *, threads: int):
    pass
"""


def test_a_function_that_needs_an_argument_is_listed_with_that_reason(
    command: Command, folder: Path
):
    (folder / "more.py").write_text((folder / "mine.py").read_text() + HELPER)
    row = next(it for it in command("list", "more.py").out.splitlines() if "needs" in it)
    reason = "no command can call it: block and threads must have a default"
    assert re.fullmatch(rf"helper   needs  more\.py:\d+  {reason}", row)
    for call in (("check", "more.py:needs"), ("steps", "more.py:Mine:needs")):
        result = command(*call)
        assert (result.code, result.out) == (2, "")
        assert re.fullmatch(rf"tirstep: more\.py:\d+: 'needs': {reason}\n", result.err)
    assert command("steps", "more.py").code == 0  # the others are as they were


SIZES = """from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def opened(a: T.handle, b: T.handle):
    m, n, k = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, k, m), "float32")
    B = T.match_buffer(b, (n, k, m), "float32")
    for i, j, l in T.grid(n, k, m):
        with T.sblock("B"):
            x, y, z = T.axis.remap("SSS", [i, j, l])
            B[x, y, z] = A[x, y, z] + T.float32(1)


@T.prim_func(s_tir=True)
def closed(A: T.Buffer((48, 24), "float32"), B: T.Buffer((48, 24), "float32")):
    for i, j in T.grid(48, 24):
        with T.sblock("B"):
            x, y = T.axis.remap("SS", [i, j])
            B[x, y] = A[x, y] + T.float32(1)
"""


def test_sizes_are_listed_in_the_order_of_shape(command: Command, folder: Path):
    (folder / "sizes.py").write_text(SIZES)
    rows = command("list", "sizes.py").out.splitlines()
    assert [row.split("  ")[0].split()[1:] for row in rows[:2]] == [
        ["opened(n,", "k,", "m)"],
        ["closed(48,", "24)"],
    ]
    told = command("steps", "sizes.py:opened", "--shape", "m=9,k=7,n=5").out
    assert "# opened 00_input  5x7x9  sizes.py" in told


def test_what_a_file_imports_is_not_listed(command: Command):
    Path("uses.py").write_text("from kern import twice, twice_bound\nfrom mine import Mine\n")
    result = command("list", "uses.py")
    assert (result.code, result.out) == (2, "")
    assert "uses.py has no kernel" in result.err
    assert command("check", "uses.py:twice_bound").code == 0  # but it can be named


def test_other_forms_are_the_same_program(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    expected = command("steps", "mine.py:Mine", "--json").document["steps"][0]["tir"]
    module = tvm.script.from_source(expected)
    (folder / "printed.py").write_text(expected)
    (folder / "saved.json").write_text(tvm.ir.save_json(module))
    (folder / "function.json").write_text(tvm.ir.save_json(module["main"]))
    texts = ["mine:Mine", "./mine.py:Mine", f"{folder}/mine.py:Mine", "printed.py"]
    for text in [*texts, "printed.py:Module", "saved.json", "saved.json:saved", "function.json"]:
        document = command("steps", text, "--json").document
        assert document["steps"][0]["tir"] == expected, text
    for given in (expected, tvm.ir.save_json(module)):
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        forget_stdin()
        assert command("steps", "-", "--json").document["steps"][0]["tir"] == expected
        assert command("report", "-", "-o", "piped.html").code == 0


def forget_stdin() -> None:
    from tirstep.programs.loading import _load_place

    _load_place.cache_clear()


def test_a_printed_script_is_not_run(command: Command, folder: Path):
    """It has no imports, which running it would need."""
    text = print_module(tvm.script.from_source(MODULE))
    (folder / "printed.py").write_text(text)
    assert "import" not in "".join(it for it in text.splitlines() if not it.startswith("#"))
    before = set(sys.modules)
    assert command("check", "printed.py").code == 0
    assert not [name for name in set(sys.modules) - before if "printed" in name]


def test_a_database_gives_the_best_record_of_each_workload(command: Command, folder: Path):
    write_database(folder / "db")
    result = command("check", "db/")
    assert result.code == 0
    assert result.out.count("01_tuned") == 1
    best = command("steps", "db/", "--step", "1").out
    assert "T.grid(4, 2)" in best
    assert "T.grid(2, 4)" in command("steps", "db/:workload_0_record_1", "--step", "1").out
    assert "range(8)" in command("steps", "db/:workload_0").out
    by_file = command("steps", "db/database_tuning_record.json", "--step", "1").out
    assert by_file.splitlines()[1:] == best.splitlines()[1:]
    listed = command("list", "db/").out
    assert [line.split()[1] for line in listed.splitlines()[:3]] == [
        "workload_0",
        "workload_0_record_0",
        "workload_0_record_1",
    ]
    assert command("report", "db/", "-o", "page.html").code == 0
    (folder / "db" / "database_tuning_record.json").unlink()
    assert "workload_0" in command("check", "db/").out


def test_a_record_of_a_function_that_is_not_called_main(command: Command, folder: Path):
    write_database(folder / "db", "own")
    assert "T.grid(4, 2)" in command("steps", "db/", "--step", "1").out


def test_functions_of_a_module_come_in_turn(command: Command):
    result = command("check", "net.py")
    assert result.code == 0
    assert [line for line in result.out.splitlines() if line.startswith("each")] == [
        "each_add",
        "each_relu",
    ]
    assert "each_relu/01_each" in command("diff", "net.py").out
    single = command("check", "net.py", "--function", "relu").out
    assert "each_relu" in single
    assert "each_add" not in single
    assert "net_relu" in command("steps", "net.py:net.relu").out
    assert "each_relu" in command("steps", "net.py:net.relu:each").out
    assert command("steps", "net.py:net.relu:each", "--json").document["recipe"] == "each_relu"
    told = command("steps", "net.py", "--json").err
    assert "--json takes one program; name one of the 2 here: each_add, each_relu" in told


@pytest.mark.share(2)
def test_goldens_of_ones_own(command: Command, folder: Path):
    golden = folder / "golden"
    for text in ("kern.py", "mine.py", "mine.py:Mine"):
        assert command("check", "--write-goldens", text, "--golden-dir", golden).code == 0
        checked = command("check", text, "--golden-dir", golden)
        assert checked.code == 0
        assert "golden ok" in checked.out
        assert "golden none" not in checked.out
    assert (golden / "inputs" / "Mine_module.py").is_file()
    file = golden / "twice_bound" / "01_bound.py"
    file.write_text(file.read_text().replace("+ A[vi]", "- A[vi]"))
    differs = command("check", "kern.py", "--golden-dir", golden)
    assert differs.code == 1
    advice = f"`tirstep check --write-goldens kern.py:twice_bound --golden-dir {golden}`"
    assert advice in " ".join(differs.out.split())


def test_goldens_of_others_are_no_reason_to_fail(command: Command, folder: Path):
    """In a folder with tests/golden, a program that has none there is not held against them."""
    write = ("check", "--write-goldens", "kern.py", "--golden-dir", folder / "tests/golden")
    assert command(*write).code == 0
    assert "golden ok" in command("check", "kern.py").out
    assert "golden none" in command("check", "mine.py").out


RECIPE = """from tirstep.transforms.recipes import Example, recipe
from kern import twice
S = Example({"n": 96})

@recipe(kernel="twice", blocks=("C",), default_example=S, golden=S)
def mine(sch):
    yield "a"
"""
BARE = "from tirstep.transforms.recipes import recipe\n@recipe\ndef mine(sch):\n    yield 'a'\n"
SCHEDULE = """from mine import Mine
from tirstep.transforms import split_loop
def f(sch):
    l, = sch.get_loops(sch.get_sblock("C"))
    LOOP
"""
TWO = "from mine import Mine\nOne = Mine\nTwo = Mine.clone()\ndef f(sch):\n    pass\n"
FUNCTION = """
from tvm.script import tirx as T
@T.prim_func
def plain(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i]
"""
PRINTED = print_module(tvm.script.from_source(MODULE))
NO_FUNCTION = """import tvm
from tvm import relax
from tvm.script import relax as R
from tvm.script import ir as I

@I.ir_module
class net:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.add(x, x)
        return y
"""
MISTAKES = [
    # What the file has, what is asked, and what the sentence says.
    ("", "check wrong.py", "wrong.py has nothing to check"),
    ("import nowhere_at_all", "check wrong.py", "wrong.py:1: .*No module named 'nowhere_at_all'"),
    ("x = 1\ndef f(:", "check wrong.py", "wrong.py:2: invalid syntax"),
    ("x = 1\n1 / 0", "check wrong.py", "wrong.py:2: it cannot be imported: ZeroDivisionError"),
    ("", "check wrong.py:Mine", "wrong.py has no 'Mine'; it has no programs"),
    ("from mine import *", "check mine.py:tild", "mine.py has no 'tild'; did you mean tiled?"),
    ("x = 3", "check wrong.py:x", "'x' in wrong.py is not a program"),
    ("", "check nowhere.py", "there is no file nowhere.py"),
    ("", "check wrong.py:a:b:c", "wrong.py:a:b:c has 3 names"),
    ("", "check mine.py:Mine:Mine", "'Mine' is a module, not a function that takes a schedule;"),
    ("", "check relu_bound --function main", "--function is for modules of your own"),
    ("", "check net.py --function rleu", "net.py has no PrimFunc 'rleu'; did you mean relu?"),
    ("", "ladder kern.py", "kern.py has recipes of alone, twice, .*give kern.py:alone"),
    (
        "",
        "ladder net.py",
        "net.py has recipes of .*, and a ladder is of one: give net.py:net.add",
    ),
    ("", "check net.py --shape 4", "--shape 4: net_add has no symbolic size; leave --shape out"),
    ("", "check everything.py", "'tiled' fits Mine and alone; name one: everything.py:Mine:"),
    (RECIPE.replace('twice"', 'twic"'), "check wrong.py", "wrong.py:6: .*'twic'.* tirstep's"),
    (RECIPE.replace('"C"', '"Q"'), "check wrong.py", "wrong.py:5.*schedules 'Q'"),
    (RECIPE.replace("yield", "pass #"), "check wrong.py", "wrong.py:5: .*never yields"),
    (RECIPE.replace('"a"', "sch.mod"), "check wrong.py", "yields a value of type IRModule, which"),
    (
        f'{RECIPE}    sch.unroll(sch.get_loops("C")[0])\n',
        "check wrong.py",
        "wrong.py:5 changes the schedule after its last step 'a'; yield a name at its end",
    ),
    (
        RECIPE.replace('"twice"', "twice").replace("t_example=S", 't_example=Example({"m": 9})'),
        "check wrong.py",
        r"sizes of default_example are m, and those of 'twice' are n; write Example\(\{\"n\": 64\}",
    ),
    (
        RECIPE.replace('{"n": 96}', '{"n": 96}, config={"tread": 8}'),
        "check wrong.py",
        "the config of default_example has 'tread', and 'mine' no such knob; leave it out",
    ),
    (
        RECIPE.replace('kernel="twice", ', ""),
        "check wrong.py",
        "kernel is missing; pass kernel=...$",
    ),
    (RECIPE.replace('Example({"n": 96})', "96"), "check wrong.py", "is not of the type Example"),
    (RECIPE.replace("(sch)", "(sch, **k)"), "check wrong.py", r"'mine' takes \*\*k; name what it"),
    (BARE, "check wrong.py", "wrong.py:2: .*it decorates 'mine' without a kernel; write @r"),
    (
        RECIPE.replace("n=S)", 'n=S, choices={"tread": (1, 2)})').replace("sch)", "sch, *, t=1)"),
        "check wrong.py",
        "'mine' has no knob 'tread' to choose; it has t",
    ),
    (RECIPE.replace("sch)", "sch, *, n)"), "check wrong.py", "wrong.py:5: .*'n'.*no default"),
    (RECIPE.replace("yield", "nix(); yield"), "check wrong.py", "wrong.py:7: NameError"),
    (SCHEDULE.replace("LOOP", 'sch.get_sblock("Q")'), "why wrong.py", "wrong.py:5: .*name: Q"),
    (SCHEDULE.replace("LOOP", "sch.split(l, [3, 2])"), "diff wrong.py", "wrong.py:5: .*product"),
    (SCHEDULE.replace("LOOP", "split_loop(sch, l, inner=3)"), "diff wrong.py", "split_loop: .*"),
    (
        SCHEDULE[22:],
        "check wrong.py",
        "wrong.py:2: 'f' takes a schedule, and wrong.py has no module",
    ),
    (TWO, "check wrong.py", "'f' fits One and Two; name one: wrong.py:One:f"),
    (PRINTED.replace("A[vi]", "Z[vi]"), "check wrong.py", "wrong.py:.*Undefined variable: Z"),
    ("from mine import *", "check mine.py:main", "mine.py has no 'main'; did you mean Mine.main?"),
    ("\0", "check wrong.py", "wrong.py: source code string cannot contain null bytes"),
    (NO_FUNCTION, "check wrong.py", "'net' has no PrimFunc.*LegalizeOps"),
]


@pytest.mark.share(8)
@pytest.mark.parametrize(("source", "line", "told"), MISTAKES)
def test_a_mistake_is_one_sentence(
    command: Command, folder: Path, source: str, line: str, told: str
):
    (folder / "wrong.py").write_text(source)
    result = command(*line.split())
    assert result.code == 2
    assert len(result.err.splitlines()) == 1
    assert re.search(told, result.err), result.err


def test_one_function_of_all_that_a_file_has(command: Command, folder: Path):
    """Of a module, of a function, and of a schedule of the only module."""
    (folder / "several.py").write_text(f"from mine import Mine\nOne = Mine\n{FUNCTION}")
    found = command("steps", "several.py", "--function", "plain", "--json").document
    assert found["recipe"] == "plain"
    found = command("steps", "mine.py", "--function", "main", "--json").document
    assert found["recipe"] == "tiled"


def test_what_recipes_are_written_with_is_no_program(command: Command, folder: Path):
    text = RECIPE.replace('yield "a"', 'helper(sch)\n    yield "a"')
    (folder / "helped.py").write_text(f"{text}\ndef helper(sch):\n    pass\n")
    result = command("steps", "helped.py", "--json")
    assert (result.code, result.document["recipe"]) == (0, "mine")
    assert "takes a schedule" in command("steps", "helped.py:helper").err


def test_other_files_that_are_no_programs(command: Command, folder: Path):
    (folder / "other.json").write_text('{"a": 3}')
    (folder / "op.json").write_text(tvm.ir.save_json(tvm.ir.Op.get("tirx.exp")))
    (folder / "lines.json").write_text("[1, 2]\n")
    (folder / "binary.py").write_bytes(b"\xff\xfe\x00")
    (folder / "empty").mkdir()
    for text, told in {
        "other.json": "other.json is not JSON as tvm.ir.save_json writes it",
        "op.json": "give that of an IRModule or a PrimFunc",
        "lines.json": "no file of workloads beside it",
        "binary.py": "is not UTF-8 text",
        "empty/": "is not a MetaSchedule database",
    }.items():
        result = command("check", text)
        assert (result.code, len(result.err.splitlines())) == (2, 1), result.err
        assert told in result.err


def test_a_broken_database_is_told_with_its_line(command: Command, folder: Path):
    write_database(folder / "db")
    records = folder / "db" / "database_tuning_record.json"
    row = json.loads(records.read_text().splitlines()[0])
    for wrong, told in {
        "{": "no JSON",
        "[1, 2, 3]": "a list of two",
        json.dumps([7, row[1]]): "there is no workload 7",
        json.dumps([0, [1, 2]]): "TVM does not read it",
    }.items():
        records.write_text(wrong + "\n")
        forget_stdin()
        result = command("check", "db/")
        assert (result.code, len(result.err.splitlines())) == (2, 1)
        assert "database_tuning_record.json:1: " in result.err
        assert told in result.err


def test_an_error_of_the_users_own_functions_is_at_its_line(command: Command, folder: Path):
    text = (folder / "kern.py").read_text()
    (folder / "wrong.py").write_text(text.replace("a + a", "a + nothing"))
    result = command("check", "wrong.py:twice_bound")
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert "NameError: name 'nothing' is not defined" in result.err
    assert "wrong.py:" in result.err


def test_advice_of_a_users_recipe_is_for_the_command_line(command: Command):
    result = command("steps", "kern.py:twice_bound", "--shape", "100")
    assert (result.code, result.out) == (2, "")
    assert "choose a divisor or pass --set tail=guard [recipe twice_bound" in result.err
    assert re.search(r"; kernel kern.py:\d+\]$", result.err.strip())


@pytest.mark.parametrize("line", ["export two.py out --as trace", "why two.py -o w.py"])
def test_what_takes_one_program_says_which_there_are(command: Command, folder: Path, line: str):
    text = (folder / "mine.py").read_text()
    (folder / "two.py").write_text(text + text[text.index("def tiled") :].replace("tiled", "other"))
    result = command(*line.split())
    assert (result.code, result.out) == (2, "")
    by = {"why": "--script"}.get(line.split()[0], "this command")
    names = "two.py:Mine:tiled or two.py:Mine:other"
    assert result.err == f"tirstep: two.py has 2 recipes, and {by} takes one; name one: {names}\n"


BROKEN = """

def raises(sch):
    sch.get_sblock("Q")


def ends(sch):
    raise SystemExit(0)


def late(sch):
    yield "nothing"
    {}["x"]
"""


@pytest.mark.share(2)
@pytest.mark.usefixtures("report_in_this_process")
def test_where_one_of_several_raises_the_others_are_judged(command: Command, folder: Path):
    (folder / "some.py").write_text((folder / "mine.py").read_text() + BROKEN)
    missing = "Cannot find a block with the name: Q; there are C"
    sentences = [missing, "SystemExit: 0", "KeyError: 'x'"]
    result = command("check", "some.py")
    assert result.code == 2
    assert "01_tiled   golden none     numbers right" in result.out
    assert "4 programs, 2 modules: 3 cannot be run" in result.out
    told = [line.partition(": some.py:")[2].partition(": ")[2] for line in result.err.splitlines()]
    assert told == sentences
    document = command("check", "some.py", "--json").document
    assert not document["ok"]
    assert [each["status"] for each in document["recipes"]] == ["right", *["not judged"] * 3]
    ladder = command("ladder", "some.py")
    assert ladder.code == 2
    assert [text in ladder.out for text in sentences] == [True] * 3
    report = command("report", "some.py", "--no-checks", "-o", "page.html")
    assert (report.code, (folder / "page.html").is_file()) == (2, True)


TYPED = """from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mine import Mine

if TYPE_CHECKING:
    from tvm.s_tir import Schedule


def typed(sch: Schedule, *, order: Literal["own", "other"] = "own"):
    sch.get_sblock("C")
"""


def test_types_may_be_there_for_type_checkers_alone(command: Command, folder: Path):
    (folder / "typed.py").write_text(TYPED)
    result = command("check", "typed.py")
    assert (result.code, result.err) == (0, "")
    refused = command("check", "typed.py", "--set", "order=last")
    assert "use --set order=own or --set order=other" in refused.err or "own" in refused.err


def test_what_a_recipe_or_its_children_print_is_not_in_a_document(command: Command, folder: Path):
    """As the file is run, and as its functions are."""
    shout = "import os; print('one'); os.system('echo two'); os.write(1, b'three')"
    text = RECIPE.replace('yield "a"', f'{shout}\n    yield "a"')
    (folder / "loud.py").write_text(f"{shout}\n{text}")
    for name in ("steps", "check"):
        result = command(name, "loud.py", "--json")
        assert result.document["command"] == name
        assert result.err.count("two") >= 2


def test_a_file_of_another_ending_is_read_and_not_imported(command: Command, folder: Path):
    (folder / "mine.txt").write_text(f"from tvm.script import ir as I, tirx as T\n{MODULE}")
    assert command("list", "mine.txt").out.startswith("module   Mine  mine.txt:3\n")


def test_a_file_may_register_a_device(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(devices, "_MAKERS", dict(devices._MAKERS))
    own = "from tirstep.lowering_checks.devices import CpuDevice, register_device\n"
    own += 'register_device("mine", type("Mine", (CpuDevice,), {"name": "mine"}))\n'
    (folder / "own.py").write_text(f"from mine import Mine\n{own}")
    assert "numbers right on mine" in command("check", "own.py:Mine", "--device", "mine").out
