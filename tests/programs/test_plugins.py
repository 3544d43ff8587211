"""What other packages name in their entry points appears by name, and breaks nothing."""

import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from own_files import HEAD, KERNEL, RECIPES

from tirstep.bench.cases import CaseChoice
from tirstep.cli import main
from tirstep.cli.bench import plan_all
from tirstep.programs import plugins

ROOT = Path(__file__).resolve().parents[2]
CLASHING = RECIPES.replace("twice_bound", "relu_bound")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make modules of some texts, which entry points of these names point to."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def make(**texts: str) -> None:
        entries = []
        for name, text in texts.items():
            module = f"plugged_{tmp_path.name}_{name}"
            (tmp_path / f"{module}.py").write_text(text)
            entries.append(EntryPoint(name, module, plugins.GROUP))
        monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
        plugins._load.cache_clear()

    yield make
    plugins._load.cache_clear()


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]):
    def run(line: str) -> tuple[int, str, str]:
        capfd.readouterr()
        return main(line.split()), *capfd.readouterr()

    return run


def test_recipes_of_a_package_are_known_by_name(install, call):
    install(theirs=f"{HEAD}{KERNEL}{RECIPES}")
    code, out, err = call("list")
    assert (code, err) == (0, "")
    assert "twice(n)" in out
    assert "matmul_naive" in out
    for line, shown in {
        "list twice": "twice_bound",
        "check twice_bound": "numbers ok on simulator 97",
        "ladder twice": "twice_bound",
        "diff twice_bound": "twice_bound/01_bound",
        "report twice -o page.html": "1 recipe",
        "why twice_bound": "nothing is wrong",
    }.items():
        code, out, err = call(line)
        assert (code, err) == (0, ""), line
        assert shown in out
    (case,) = plan_all(CaseChoice(["twice"]), None)
    assert [it.name for it in case.recipes] == ["twice_bound"]
    assert "did you mean twice_bound" in call("check twice_bond")[2]
    assert "next  tirstep diff twice_bound " in call("ladder twice")[1]


def test_a_broken_package_is_one_line(install, call):
    install(broken="import nowhere_at_all\n", empty="x = 1\n", good=f"{HEAD}{KERNEL}{RECIPES}")
    code, out, err = call("list")
    assert code == 0
    assert "twice_bound" in out
    first, second = err.splitlines()
    assert first.startswith("tirstep: plugin broken (plugged_")
    assert "No module named 'nowhere_at_all'" in first
    assert second.endswith("is left out: it has no kernel and no recipe")
    code, out, err = call("check relu_bound")
    assert code == 0  # ours work all the same


@pytest.mark.parametrize("line", ["list twice --steps", "list twice --steps --json"])
def test_a_recipe_that_does_not_run_is_one_line(install, call, line: str):
    broken = RECIPES.replace("twice_bound", "twice_broken") + '    raise ValueError("no way")\n'
    install(theirs=f"{HEAD}{KERNEL}{RECIPES}{broken}")
    code, out, err = call(line)
    assert (code, "relu_bound" in out or "twice_bound" in out) == (0, True)
    assert re.fullmatch(
        r"tirstep: the plugin's recipe twice_broken does not run at its golden example: "
        r"plugged_\w+\.py:\d+: ValueError: no way\n",
        err,
    )


def test_a_name_that_is_taken_is_told_with_the_other_spelling(install, call):
    install(first=f"{HEAD}{KERNEL}{RECIPES}", second=f"{HEAD}{KERNEL}{RECIPES}{CLASHING}")
    code, out, err = call("list")
    assert code == 0
    told = err.splitlines()
    assert [line.split("'")[1] for line in told] == ["twice", "twice_bound", "relu_bound"]
    assert all(line.startswith("tirstep: plugin second: the ") for line in told)
    assert "second:relu_bound" in told[-1]
    assert out.count("twice_bound") == 1
    spelling = told[-1].rpartition(" ")[2]
    code, out, err = call(f"check {spelling}")
    assert code == 0
    assert "relu_bound  96" in out


def test_an_entry_may_name_one_object(install, call, monkeypatch: pytest.MonkeyPatch):
    install(few=f"{HEAD}{KERNEL}{RECIPES}")
    (entry,) = plugins.entry_points(group="tirstep")
    one = EntryPoint("few", f"{entry.value}:twice_bound", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [one])
    plugins._load.cache_clear()
    assert list(plugins._load().ladders) == ["twice"]
    assert not plugins._load().kernels


def test_a_package_that_imports_ours_does_not_clash(install, call):
    uses = "from tirstep.modules import matmul\nfrom tirstep.transforms.recipes import LADDERS\n"
    install(uses=f"{HEAD}{KERNEL}{RECIPES}{uses}gemm = LADDERS['matmul']\n")
    code, _, err = call("list")
    assert (code, err) == (0, "")
