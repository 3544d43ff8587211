"""``--json``: a command's document, one object with the keys of schema.json; and ``--format``: what
it found, as CI systems and editors take it, from that document.

Every document has ``command`` and ``versions`` ({tirstep, tvm, document}; the last is of the keys:
2 since verdicts have four words). Where nothing was measured or asked, a key is there and null.

``github`` are workflow commands, an annotation for each finding; ``junit`` is the XML that CI
systems show as tests, a test case for each step or module; ``sarif`` is version 2.1.0 of OASIS's
format of static analyzers.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

import tirstep
from tirstep.printing import begin_document

from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run

TEXT, JSON = "text", "json"
chosen: ContextVar[str] = ContextVar("chosen", default=JSON)
"""The format of the document that a command prints."""
_PLACE = re.compile(r"\s*\[([^\[\]]+):(\d+)\]$")
"""Where the simulator's findings end: the line of the statement."""
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""


class Found(NamedTuple):
    """A finding, with the line of the statement, or else of the step; "" and 0 where there is none.

    Attributes
    ----------
    where : the recipe and the step, say
    text : the finding as the command tells it
    """

    check: str
    where: str
    message: str
    text: str
    file: str
    line: int


class Case(NamedTuple):
    """One thing that was judged.

    Attributes
    ----------
    group, name : the recipe and the step, say
    status : one of the four words of a verdict, or what `tirstep pass` says of a module
    reason : why it was not judged
    """

    group: str
    name: str
    status: str
    reason: str
    findings: tuple[Found, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.group} {self.name}".strip()


def choose_format(name: str, *, is_json: bool) -> bool:
    """Have documents printed in a format, that of ``--json`` too; False for text, which is none."""
    if name not in (TEXT, JSON, *_FORMATS):
        others = ", ".join((TEXT, JSON, *_FORMATS))
        raise UseError(f"--format {name}: must be one of {others}")
    if is_json and name not in (TEXT, JSON):
        raise UseError(f"--json and --format {name} are two formats; give one")
    chosen.set(JSON if name == TEXT else name)
    return is_json or name != TEXT


def asks_for_document(arguments: list[str], defaults: Mapping[str, Any]) -> bool:
    """Whether a command line, or the project's settings of its command, has it print a document,
    and nothing else, to standard output.
    """
    before = itertools.takewhile("--".__ne__, arguments)  # after it is another command
    own = [part for word in before for part in word.split("=", 1)]
    formats = [after for it, after in itertools.pairwise(own) if it == "--format"]
    is_json = "--json" in own or bool(defaults.get("json"))
    is_one = is_json or {*(formats or [defaults.get("format", TEXT)])} != {TEXT}
    return is_one and not {"--help", "-h"} & {*own}


def list_cases(document: Mapping[str, Any]) -> Iterator[Case]:
    """All that a document of ``check``, ``diff --numbers`` or ``pass`` judges."""
    if document.get("findings"):
        yield _read_case("goldens", "", "wrong", "", document["findings"])
    for recipe in document.get("recipes", ()):
        steps, name = recipe["steps"], recipe["program"] or recipe["recipe"]
        for step in steps:
            label, found = f"{step['number']:02}_{step['name']}", step["findings"]
            status = "wrong" if found else step["numbers"] or recipe["status"]
            yield _read_case(name, label, status, step["reason"], found)
        told = [finding for step in steps for finding in step["findings"]]
        rest = [it for it in recipe["findings"] if it not in told]
        if rest or not steps:
            yield _read_case(name, "", recipe["status"], recipe["reason"], rest)
        for other in recipe.get("other_runs", ()):
            if other["numbers"] != "wrong":  # whose findings are among the rest
                yield _read_case(name, other["about"], other["numbers"], other["reason"], ())
    for program in document.get("programs", ()):
        about = program["numbers"], program["reason"], program["findings"]
        yield _read_case(program["name"], "", *about)
    change, source = document.get("change", ""), document.get("source")
    for module in (*document.get("modules", ()), *document.get("trials", ())):
        name = module.get("module") or f"trial {module['trial']}, {module['label']}"
        status, reason = module["status"], module["reason"]
        if status in ("wrong", "refused"):
            found = {"check": "pass", "message": reason, "source": source}
            yield _read_case(change, name, "wrong", "", [found])
        else:
            yield _read_case(change, name, status, reason, ())
    for broken in document.get("promises", {}).get("broken", ()):
        sentence = f"{broken['module']}: {broken['promise']}: {broken['how']}"
        findings = [{"check": "promise", "message": sentence, "source": source}]
        yield _read_case(change, broken["module"], "wrong", "", findings)


def _read_case(
    group: str, name: str, status: str, reason: str | None, findings: Iterable[Mapping[str, Any]]
) -> Case:
    """A case with its findings, each an object of the document."""
    case, found = Case(group, name, status, reason or ""), []
    for each in findings:
        message, (file, _, line) = each["message"], (each.get("source") or "").rpartition(":")
        if place := _PLACE.search(message):
            message, file, line = message[: place.start()], place[1], place[2]
        text, where = each.get("detail") or each["message"], each.get("where") or case.label
        number = int(line) if line.isdigit() else 0
        found.append(Found(each["check"], where, message, text, file, number))
    return case._replace(findings=tuple(found))


def _as_github(tool: str, document: Mapping[str, Any]) -> str:
    """https://docs.github.com/actions/reference/workflow-commands-for-github-actions"""
    lines, cases = [], [*list_cases(document)]

    def annotate(level: str, title: str, message: str, file: str = "", line: int = 0) -> None:
        place = {"file": file, "line": str(line or ""), "title": title}
        shown = ",".join(f"{key}={_escape(it, ':,')}" for key, it in place.items() if it)
        lines.append(f"::{level} {shown}::{_escape(message)}")

    for case in cases:
        for it in case.findings:
            annotate("error", f"{tool}: {it.check}", f"{it.where}: {it.message}", it.file, it.line)
        if case.status in ("not judged", "unjudged"):
            annotate("warning", f"{tool}: {case.status}", f"{case.label}: {case.reason}")
    counts = Counter(case.status for case in cases)
    told = ", ".join(f"{number} {status}" for status, number in counts.items())
    return "\n".join([*lines, f"{tool}: {told or 'nothing was judged'}"])


def _escape(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _as_junit(tool: str, document: Mapping[str, Any]) -> str:
    """The schema that Jenkins's xUnit plugin has, which GitLab, Azure and others read."""
    from xml.etree import ElementTree  # which no other format needs

    cases = [*list_cases(document)]
    suite = ElementTree.Element("testsuite", name=tool, tests=str(len(cases)))
    for case in cases:
        name = case.name or case.group
        node = ElementTree.SubElement(suite, "testcase", classname=case.group, name=_legal(name))
        for first in case.findings[:1]:
            failure = ElementTree.SubElement(node, "failure", type=first.check)
            failure.set("message", _legal(first.message))
            place = f"{first.file}:{first.line}" if first.line else first.file
            texts = [place] * bool(place) + [it.text for it in case.findings]
            failure.text = _legal("\n".join(texts))
        if not case.findings and case.status not in ("right", "clean", "unchanged"):
            ElementTree.SubElement(node, "skipped", message=_legal(case.reason or case.status))
    for name, kind in {"failures": "failure", "skipped": "skipped", "errors": "error"}.items():
        suite.set(name, str(len(suite.findall(f"testcase/{kind}"))))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _legal(text: str) -> str:
    return _ILLEGAL.sub("?", text)


def _as_sarif(tool: str, document: Mapping[str, Any]) -> str:
    """https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html"""
    results: list[dict[str, Any]] = []
    for found in (it for case in list_cases(document) for it in case.findings):
        place: dict[str, Any] = {"artifactLocation": {"uri": found.file.replace("\\", "/")}}
        if found.line:
            place["region"] = {"startLine": found.line}
        results.append(
            {
                "ruleId": found.check,
                "level": "error",
                "message": {"text": f"{found.where}: {found.message}"},
                "locations": [{"physicalLocation": place}] if found.file else [],
            }
        )
    rules = [{"id": name} for name in dict.fromkeys(it["ruleId"] for it in results)]
    driver = {"name": tool, "version": document["versions"]["tirstep"], "rules": rules}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=2)


_FORMATS = {"github": _as_github, "junit": _as_junit, "sarif": _as_sarif}


Document = dict[str, object]
DOCUMENT = 2
"""The version of the keys above."""
FIELDS = {
    "Diff": "before after added removed",
    "Example": "shape options config",
    "JudgedState": "state device",
    "Time": "median=median_us lower=lower_us upper=upper_us",
    "Finding": "check where source=location message detail",
}
"""The keys of values by their class; of one, the attribute that it has."""


def print_document(command: str, **keys: object) -> None:
    """Print the document of a command, in the format that was chosen; of TVM the version as pip
    knows it, which needs no import, or of one that was built from source as it says itself.
    """
    try:
        tvm_version = version("apache-tvm")
    except PackageNotFoundError:
        import tvm

        tvm_version = str(tvm.__version__)
    versions = {"tirstep": tirstep.__version__, "tvm": tvm_version, "document": DOCUMENT}
    document = {"command": command, "versions": versions, **keys}
    text, name = json.dumps(document, indent=2, default=_encode), chosen.get()
    if name != JSON:
        if command == "diff" and "programs" not in keys:
            raise UseError(f"--format {name} is for findings; add --numbers")
        text = _FORMATS[name](f"tirstep {command}", json.loads(text))
    begin_document()
    print(text, flush=True)


def read_keys(value: object, names: str) -> Document:
    """Attributes of a value by key, of text ``name number=index``; null where there is no value."""
    pairs = (name.partition("=") for name in names.split())
    return {key: getattr(value, name or key, None) for key, _, name in pairs}


def run_keys(run: Run | None) -> Document:
    """The recipe, shape, options and config that ran."""
    if run is None:
        return {"shape": None, "options": None, "config": None}
    keys = read_keys(run.problem, "shape options")
    return {"recipe": run.recipe.name, **keys, "config": {**run.recipe.config, **run.config}}


def _encode(value: object) -> object:
    """JSON for other values: mappings, the values of `FIELDS`, and all else as its text."""
    if isinstance(value, Mapping):
        return dict(value)
    kind = type(value).__name__
    if kind not in FIELDS:
        return str(value)
    keys = read_keys(value, FIELDS[kind])
    return {**keys, "diff": str(value)} if kind == "Diff" else keys
