"""The report of a change of TVM's pipeline."""

from pathlib import Path
from typing import Any

import pytest

from tirstep.cli import main
from tirstep.cli.report.render import unpack_document

from .conftest import Open

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from tvm.script import tirx as T


@T.prim_func
def turn(C: T.Buffer((4,), "int32")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        S = T.alloc_shared((4,), "int32")
        S[tx] = tx
        C[tx] = S[3 - tx]
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without barriers: one module that is wrong then, and two that do not change."""
    folder = tmp_path_factory.mktemp("experiment")
    (folder / "turn.py").write_text(PROGRAM)
    words = ["--drop", "s_tir.ThreadSync", f"{folder}/turn.py", "relu_bound"]
    outputs = ["--report", f"{folder}/page.html", "--script", f"{folder}/small.py"]
    assert main(["pass", *words, *outputs]) == 1
    return folder / "page.html"


def get_lines(document: dict[str, Any], text: int) -> list[str]:
    return [document["lines"][line] for line in document["texts"][text]]


def test_the_page_has_each_module_without_the_change_and_with_it(page: Path):
    document = unpack_document(page.read_text("utf-8"))
    assert document["title"] == "without s_tir.ThreadSync"
    rows = document["experiment"]["rows"]
    assert [row["status"] for row in rows] == ["wrong", "unchanged", "unchanged"]
    assert rows[0]["module"] == rows[0]["recipe"] == "turn 00_input"
    assert (rows[0]["added"], rows[0]["removed"]) == (0, 1)
    assert "barriers 1 → 0" in rows[0]["differences"]
    assert "source lines 7 → 6" in rows[0]["differences"]
    (module,) = document["recipes"]
    given, without, found = module["steps"]
    assert [step["name"] for step in module["steps"]] == ["given", "without", "with"]
    texts = [get_lines(document, step["tir"]) for step in module["steps"]]
    assert [any("tvm_storage_sync" in line for line in text) for text in texts] == [0, 1, 0]
    sources = [get_lines(document, each["device_source"]["text"]) for each in (without, found)]
    assert [sum("__syncthreads" in line for line in text) for text in sources] == [1, 0]
    assert "missing" in given["device_source"]
    names = [[each["name"] for each in step["passes"]] for step in (without, found)]
    assert ["s_tir.ThreadSync" in each for each in names] == [True, False]
    facts = [{row["key"]: row.get("value") for row in s["facts"]["rows"]} for s in (without, found)]
    assert [each["barriers"] for each in facts] == [1, 0]
    assert (without["checks"]["numbers"], found["checks"]["numbers"]) == ("ok", "failed")
    assert found["checks"]["findings"][0]["message"].startswith("race: ")


def test_the_page_ends_with_the_small_program(page: Path):
    document = unpack_document(page.read_text("utf-8"))
    small = document["experiment"]["small"]
    assert small["script"].endswith("small.py")
    assert small["reason"].startswith("race: ")
    assert get_lines(document, small["text"])[0].startswith("# from tvm.script")


def test_a_page_of_a_corpus_shows_what_is_wrong_first(tmp_path: Path):
    wrong = f"{ROOT}/examples/passes/wrong_passes.py:hoist_store"
    outputs = ["--report", f"{tmp_path}/page.html", "--script", f"{tmp_path}/small.py"]
    assert main(["pass", wrong, "--corpus", "4", "--seed", "5", *outputs]) == 1
    document = unpack_document((tmp_path / "page.html").read_text("utf-8"))
    assert "4 modules of the corpus: " in document["experiment"]["about"]
    assert document["experiment"]["rows"][0]["status"] == "wrong"
    assert document["recipes"][0]["status"] == "failed"


def test_another_hand_s_file_stays(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "page.html").write_text("mine")
    words = ["pass", "--drop", "s_tir.ThreadSync", "relu_bound"]
    assert main([*words, "--report", f"{tmp_path}/page.html"]) == 2
    assert "is no report of tirstep's; it stays" in capfd.readouterr().err
    assert (tmp_path / "page.html").read_text() == "mine"


@pytest.mark.xdist_group("browser")
def test_the_page_in_a_browser(visit: Open, page: Path):
    opened = visit(path=page)
    assert opened.heading == "without s_tir.ThreadSync"
    assert opened.texts(".tried tbody th a") == ["turn 00_input"]
    assert opened.texts(".tried tr.wrong .verdict") == ["wrong"]
    assert "race: " in opened.texts(".finding p")[0]
    opened.page.click(".tried tbody th a")
    assert opened.place == "turn%2000_input/02_with/tir"
    removed = opened.texts("#code tr.del td.code")
    assert [line.strip() for line in removed] == ['T.tvm_storage_sync("shared")']
    opened.press("7")
    assert "Against the reference of the module" in opened.texts(".checks p")[0]
    for place in ("1", "2", "3", "4", "5", "6", "8"):
        opened.press(place)  # nothing fails where a tab has nothing to show
    opened.press("o")
    assert opened.heading == "without s_tir.ThreadSync"
