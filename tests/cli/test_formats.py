"""``--format``: what other programs read of findings, with their files and lines."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tirstep.cli.formats import DOCUMENT, list_cases

from .conftest import Command, Result

FILES = {
    "racy.py": """
from tvm.script import ir as I
from tvm.script import tirx as T

@I.ir_module
class Racy:
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.device_entry()
        bx = T.cta_id([1])
        t = T.thread_id([64])
        S = T.alloc_shared((64,), "float32")
        S[t] = A[t]
        B[t] = S[63 - t]
""",
    "shifted.py": """
from tvm.script import ir as I
from tvm.script import tirx as T

@I.ir_module
class Shifted:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(64):
            B[i] = A[i + 1]
""",
    "right.py": """
from tvm.script import ir as I
from tvm.script import tirx as T

@I.ir_module
class Right:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(64):
            B[i] = A[i] * 2.0
""",
}
LINES = {"racy.py": 14, "shifted.py": 10}
ALL = ("check", *FILES, "--runs", 0, "--format")
pytestmark = pytest.mark.usefixtures("folder")


def test_github_has_an_annotation_at_each_wrong_statement(command: Command):
    result = command(*ALL, "github")
    assert result.code == 1
    *annotations, summary = result.out.splitlines()
    places = dict(
        re.match(r"::error file=(\S+?),line=(\d+),title=", it).groups() for it in annotations
    )
    assert {name: int(line) for name, line in places.items()} == LINES
    assert summary == "tirstep check: 2 wrong, 1 right"


def test_github_escapes_what_would_end_a_command(command: Command):
    broken = Path("below/broken.py")
    broken.parent.mkdir()
    broken.write_text(Path("racy.py").read_text().replace("Racy", "R").replace("63 - t", "t % 63"))
    result = command("check", broken, "--format", "github")
    assert result.out.startswith(f"::error file={broken},line=")
    assert all(line.startswith(("::error ", "tirstep check: ")) for line in result.out.splitlines())
    assert "%3A" in result.out.split("::")[1]


def test_junit_has_a_case_for_each_step(command: Command):
    suite = ElementTree.fromstring(command(*ALL, "junit").out)[0]
    assert suite.attrib["tests"] == "3"
    assert suite.attrib["failures"] == "2"
    failures = {it.get("classname"): it.find("failure") for it in suite}
    assert failures["right.py:Right"] is None
    assert failures["racy.py:Racy"].get("type") == "simulator"
    for name, line in LINES.items():
        (failure,) = (it for case, it in failures.items() if case.startswith(name))
        assert failure.text.startswith(f"{name}:{line}\n")


def test_junit_says_what_was_not_judged(command: Command):
    text = FILES["right.py"].replace("A[i] * 2.0", 'T.call_extern("float32", "mine", A[i])')
    Path("extern.py").write_text(text)
    result = command("check", "extern.py", "--runs", 0, "--format", "junit")
    assert result.code == 3
    assert "mine" in ElementTree.fromstring(result.out).find(".//skipped").get("message")


def test_sarif_has_a_result_for_each_finding(command: Command):
    log = json.loads(command(*ALL, "sarif").out)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    places = [it["locations"][0]["physicalLocation"] for it in run["results"]]
    found = {it["artifactLocation"]["uri"]: it["region"]["startLine"] for it in places}
    assert found == LINES
    assert {it["ruleId"] for it in run["results"]} == {
        it["id"] for it in run["tool"]["driver"]["rules"]
    }


def test_two_programs_are_compared_so(command: Command):
    arguments = ("diff", "right.py", "--against", "shifted.py", "--function", "main", "--numbers")
    result = command(*arguments, "--format", "github")
    assert result.code == 1
    assert "::error file=shifted.py,line=" in result.out


def test_a_pass_that_breaks_something_is_a_finding(command: Command):
    Path("breaks.py").write_text(
        "import tvm\nfrom tvm import tirx\n\n"
        "@tvm.tirx.transform.prim_func_pass(opt_level=0)\n"
        "def Broken(func, mod, ctx):\n"
        "    from tvm.tirx import FloatImm\n"
        "    from tvm_ffi import structural_map\n"
        "    change = lambda it: FloatImm(it.dtype, it.value + 1) if it.value == 2 else it\n"
        "    return func.with_body(structural_map(func.body, (FloatImm, change)))\n"
    )
    place = ("--after", "s_tir.LowerInitBlock")
    result = command("pass", "breaks.py:Broken", *place, "right.py", "--format", "junit")
    suite = ElementTree.fromstring(result.out)[0]
    assert result.code == 1
    assert suite.find(".//failure").text.startswith("breaks.py:5\n")


@pytest.mark.parametrize("status", ["unjudged", "left out", "unchanged"])
def test_what_a_pass_leaves_unjudged_is_not_wrong(status: str):
    module = {"module": "m", "status": status, "reason": "no device ran it"}
    document = {"command": "pass", "change": "P", "modules": [module]}
    (case,) = list_cases(document)
    assert (case.status, case.findings) == (status, ())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--format", "xml"), "--format xml: must be one of text, json, github, junit, sarif"),
        (("--json", "--format", "sarif"), "--json and --format sarif are two formats; give one"),
    ],
)
def test_what_is_no_format_is_refused(command: Command, given: tuple[str, ...], told: str):
    result = command("check", "right.py", *given)
    assert (result.code, result.out) == (2, "")
    assert told in result.err


def test_a_diff_alone_has_no_findings(command: Command):
    result = command("diff", "right.py", "--against", "shifted.py", "--format", "junit")
    assert result.code == 2
    assert "--numbers" in result.err


def test_the_schema_is_printed(command: Command):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(command("list", "--schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$defs"]["versions"]["properties"]["document"]["const"] == DOCUMENT
    assert command("list", "matmul", "--schema").code == 2


def test_a_document_with_another_key_is_not_the_schemas(command: Command):
    result = command("check", "right.py", "--runs", 0, "--json")
    changed = Result(0, result.out.replace('"seed"', '"sed"'), "")
    jsonschema = pytest.importorskip("jsonschema")
    with pytest.raises(jsonschema.ValidationError):
        _ = changed.document


@pytest.mark.parametrize("form", ["text", "json", "github", "junit", "sarif"])
def test_a_file_without_programs_may_be_left_out(command: Command, form: str):
    Path("tools.py").write_text("LIMIT = 3\n")
    assert command("check", "tools.py", "right.py", "--format", form).code == 2
    both = command("check", "tools.py", "right.py", "--may-be-empty", "--runs", 0, "--format", form)
    alone = command("check", "tools.py", "--may-be-empty", "--format", form)
    assert (both.code, alone.code) == (0, 0)
    assert "nothing to check" in alone.err
    if form in ("json", "sarif"):
        json.loads(alone.out)
    if form == "junit":
        assert ElementTree.fromstring(alone.out)[0].attrib["tests"] == "0"
