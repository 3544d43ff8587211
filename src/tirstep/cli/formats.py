"""``--format``: what a command found, as CI systems and editors take it, from its JSON document.

``github`` are workflow commands, an annotation for each finding; ``junit`` is the XML that CI
systems show as tests, a test case for each step or module; ``sarif`` is version 2.1.0 of OASIS's
format of static analyzers.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple
from xml.etree import ElementTree

from .wrong_use import UseError

TEXT, JSON = "text", "json"
chosen: ContextVar[str] = ContextVar("chosen", default=JSON)
"""The format of the document that a command prints."""
_PLACE = re.compile(r"\s*\[([^\[\]]+):(\d+)\]$")
"""Where the simulator's findings end: the line of the statement."""
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no character for."""
_FORMATS: dict[str, Callable[[str, Mapping[str, Any]], str]] = {}


class Case(NamedTuple):
    """One thing that was judged.

    Attributes
    ----------
    group, name : the recipe and the step, say
    status : one of the four words of a verdict, or what `tirstep pass` says of a module
    reason : why it was not judged
    findings : objects with check, message, detail and source
    """

    group: str
    name: str
    status: str
    reason: str = ""
    findings: tuple[Mapping[str, Any], ...] = ()


def choose_format(name: str, *, is_json: bool) -> bool:
    """Have documents printed in a format, that of ``--json`` too; False for text, which is none."""
    if name not in (TEXT, JSON, *_FORMATS):
        others = ", ".join((TEXT, JSON, *_FORMATS))
        raise UseError(f"--format {name}: must be one of {others}")
    if is_json and name not in (TEXT, JSON):
        raise UseError(f"--json and --format {name} are two formats; give one")
    chosen.set(JSON if name == TEXT else name)
    return is_json or name != TEXT


def asks_for_document(arguments: list[str]) -> bool:
    """Whether a command line has its command print a document, and nothing else, to stdout."""
    formats = [after for it, after in itertools.pairwise(arguments) if it == "--format"]
    formats += [it.partition("=")[2] for it in arguments if it.startswith("--format=")]
    return "--json" in arguments or any(it != TEXT for it in formats)


def render(document: Mapping[str, Any]) -> str:
    """A command's document, which JSON has read, in the format that was chosen."""
    if chosen.get() == JSON:
        return json.dumps(document, indent=2)
    if document["command"] == "diff" and "programs" not in document:
        raise UseError(f"--format {chosen.get()} is of findings, which diff --numbers has; add it")
    return _FORMATS[chosen.get()](f"tirstep {document['command']}", document)


def list_cases(document: Mapping[str, Any]) -> Iterator[Case]:
    """All that a document of ``check``, ``ladder``, ``diff --numbers`` or ``pass`` judges."""
    if document.get("findings"):
        yield Case("goldens", "", "wrong", findings=tuple(document["findings"]))
    for recipe in document.get("recipes", ()):
        steps, name = recipe["steps"], recipe["program"] or recipe["recipe"]
        for step in steps:
            label = f"{step['number']:02}_{step['name']}"
            found = tuple(step["findings"])
            status = "wrong" if found else step["numbers"] or recipe["status"]
            yield Case(name, label, status, step["reason"], found)
        told = [finding for step in steps for finding in step["findings"]]
        rest = tuple(it for it in recipe["findings"] if it not in told)
        if rest or not steps:
            yield Case(name, "", recipe["status"], recipe["reason"] or "", rest)
        for other in recipe.get("other_runs", ()):
            if other["numbers"] != "wrong":  # whose findings are among the rest
                yield Case(name, other["about"], other["numbers"], other["reason"] or "")
    for program in document.get("programs", ()):
        found = tuple(program["findings"])
        yield Case(program["name"], "", program["numbers"], program["reason"], found)
    for module in (*document.get("modules", ()), *document.get("trials", ())):
        name = module.get("module") or f"trial {module['trial']}, {module['label']}"
        is_bad = module["status"] in ("wrong", "refused")
        found = ({"check": "pass", "message": module["reason"]},) if is_bad else ()
        status = "wrong" if is_bad else module["status"]
        yield Case(document.get("change", "audit"), name, status, module["reason"] or "", found)
    for broken in document.get("promises", {}).get("broken", ()):
        message = f"{broken['module']}: {broken['promise']}: {broken['how']}"
        found = ({"check": "promise", "message": message},)
        yield Case(document["change"], broken["module"], "wrong", findings=found)


def _locate(finding: Mapping[str, Any]) -> tuple[str, str, int]:
    """A finding's sentence, and the file and line of the statement, or else of the step; "" and 0
    where there is none.
    """
    message, source = str(finding["message"]), finding.get("source") or ""
    if place := _PLACE.search(message):
        return message[: place.start()], place[1], int(place[2])
    file, _, line = source.rpartition(":")
    return message, file, int(line) if line.isdigit() else 0


def _as_github(tool: str, document: Mapping[str, Any]) -> str:
    """https://docs.github.com/actions/reference/workflow-commands-for-github-actions"""
    lines, cases = [], [*list_cases(document)]

    def annotate(level: str, title: str, message: str, file: str = "", line: int = 0) -> None:
        place = {"file": file, "line": str(line or ""), "title": title}
        shown = ",".join(f"{key}={_escape(it, ':,')}" for key, it in place.items() if it)
        lines.append(f"::{level} {shown}::{_escape(message)}")

    for case in cases:
        for finding in case.findings:
            message, file, line = _locate(finding)
            where = finding.get("where") or f"{case.group} {case.name}".strip()
            annotate("error", f"{tool}: {finding['check']}", f"{where}: {message}", file, line)
        if case.status in ("not judged", "unjudged"):
            name = f"{case.group} {case.name}".strip()
            annotate("warning", f"{tool}: {case.status}", f"{name}: {case.reason}")
    counts = Counter(case.status for case in cases)
    told = ", ".join(f"{number} {status}" for status, number in counts.items())
    return "\n".join([*lines, f"{tool}: {told or 'nothing was judged'}"])


def _escape(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _as_junit(tool: str, document: Mapping[str, Any]) -> str:
    """The schema that Jenkins's xUnit plugin has, which GitLab, Azure and others read."""
    cases = [*list_cases(document)]
    suite = ElementTree.Element("testsuite", name=tool, tests=str(len(cases)))
    numbers = {"failures": 0, "skipped": 0, "errors": 0}
    for case in cases:
        name = case.name or case.group
        node = ElementTree.SubElement(suite, "testcase", classname=case.group, name=_legal(name))
        for finding in case.findings[:1]:
            message, file, line = _locate(finding)
            failure = ElementTree.SubElement(node, "failure", type=finding["check"])
            failure.set("message", _legal(message))
            place = f"{file}:{line}" if line else file
            told = (it.get("detail") or it["message"] for it in case.findings)
            failure.text = _legal("\n".join([place, *told] if place else told))
            numbers["failures"] += 1
        if not case.findings and case.status not in ("right", "clean", "unchanged"):
            ElementTree.SubElement(node, "skipped", message=_legal(case.reason or case.status))
            numbers["skipped"] += 1
    suite.attrib.update({name: str(number) for name, number in numbers.items()})
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _legal(text: str) -> str:
    return _ILLEGAL.sub("?", text)


def _as_sarif(tool: str, document: Mapping[str, Any]) -> str:
    """https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html"""
    results: list[dict[str, Any]] = []
    for case in list_cases(document):
        for finding in case.findings:
            message, file, line = _locate(finding)
            where = finding.get("where") or f"{case.group} {case.name}".strip()
            place: dict[str, Any] = {"artifactLocation": {"uri": file.replace("\\", "/")}}
            if line:
                place["region"] = {"startLine": line}
            results.append(
                {
                    "ruleId": finding["check"],
                    "level": "error",
                    "message": {"text": f"{where}: {message}"},
                    "locations": [{"physicalLocation": place}] if file else [],
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


_FORMATS |= {"github": _as_github, "junit": _as_junit, "sarif": _as_sarif}
