"""``[tool.tirstep]`` of pyproject.toml."""

from pathlib import Path

import pytest

from .conftest import Command

FILES = {
    "double.py": """
@T.prim_func(s_tir=True)
def double(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = A[i] * 2.0
""",
    "legacy.py": """
@T.prim_func(s_tir=True)
def legacy(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = T.call_extern("float32", "mine", A[i])
""",
}
pytestmark = pytest.mark.usefixtures("folder")


def configure(text: str) -> None:
    Path("pyproject.toml").write_text(text)


def test_options_come_from_the_nearest_file(command: Command, monkeypatch: pytest.MonkeyPatch):
    configure('[tool.tirstep]\nseed = 7\n[tool.tirstep.check]\nruns = 0\ndevice = "cpu"\n')
    Path("below").mkdir()
    monkeypatch.chdir("below")
    document = command("check", "../double.py", "--json").document
    assert (document["seed"], document["device"]["name"]) == (7, "cpu")
    assert command("check", "../double.py", "--json", "--seed", 3).document["seed"] == 3


def test_a_folder_is_the_projects(command: Command, monkeypatch: pytest.MonkeyPatch):
    configure('[tool.tirstep]\ngolden-dir = "kernels/golden"\n')
    golden = Path("kernels/golden")
    golden.mkdir(parents=True)
    assert command("check", "double.py", "--write-goldens").code == 0
    monkeypatch.chdir("kernels")
    assert "golden ok" in command("check", "../double.py").out


def test_a_format_may_be_the_projects(command: Command):
    configure('[tool.tirstep.check]\nformat = "github"\nruns = 0\n')
    Path("double.py").write_text("print('beside')\n" + Path("double.py").read_text())
    assert command("check", "double.py").out == "tirstep check: 1 right\n"
    assert "beside" not in command("check", "double.py", "--format", "json").out
    assert "all good" in command("check", "double.py", "--format=text").out


def test_some_programs_may_be_not_judged(command: Command):
    calls = ("check", "double.py", "legacy.py", "--runs", 0)
    assert command(*calls, "--strict").code == 3
    configure('[tool.tirstep.check]\nstrict = true\nmay-be-not-judged = ["leg*"]\n')
    result = command(*calls)
    assert result.code == 0
    assert "1 not judged" in result.out
    assert command(*calls, "--may-be-not-judged", "other").code == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.tirstep]\ndevise = 1\n", "no command takes 'devise'; did you mean device"),
        ("[tool.tirstep.check]\ncorpus = 3\n", "[tool.tirstep.check]: no command takes 'corpus'"),
        ("[tool.tirstep]\ncheck = 3\n", "check must be a table of options"),
        ("[tool\n", "cannot be read"),
        ('[tool.tirstep]\nseed = "a"\n', "--seed a: must be an integer >= 0"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(command: Command, text: str, told: str):
    configure(text)
    result = command("check", "double.py")
    assert result.code == 2
    assert told in result.err
    assert result.err.count("\n") == 1
