"""Help and version: at once, without TVM."""

import os
import subprocess
import sys

import pytest

import tirstep
from tirstep.cli import main
from tirstep.cli.app import COMMANDS

from .conftest import Command

# Exits with what was imported that help can do without.
WITHOUT_TVM = """
import sys
from tirstep.cli import main
for argv in {argvs!r}:
    main(argv)
heavy = {{"tvm", "numpy", "rich", "tirstep.modules"}} & set(sys.modules)
sys.exit(f"imported: {{heavy}}" if heavy else 0)
"""


def test_help_names_every_command_and_the_exit_codes(command: Command):
    result = command("--help")
    assert result.code == 0
    summaries = result.out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert tuple(line.split()[0] for line in summaries) == COMMANDS
    assert "Exit codes: 0 good, 1 a check failed, 2 wrong use, 3 nothing could be" in result.out
    assert "..." not in result.out.partition("Commands:")[2]  # no summary is cut
    assert command("-h") == result
    assert command() == result


def test_every_command_has_help(command: Command):
    for name in COMMANDS:
        result = command(name, "--help")
        assert result.code == 0
        assert result.out.startswith(f"Usage: tirstep {name} ")
        assert len(max(result.out.splitlines(), key=len)) <= 100


def test_neither_help_nor_wrong_use_of_options_imports_tvm():
    argvs = [
        ["--help"],
        ["--version"],
        *([name, "--help"] for name in COMMANDS),
        ["ladde"],
        ["ladder", "matmul", "--set", "tile_k"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TVM.format(argvs=argvs)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.count("tirstep: ")) == (0, 2), done.stderr


def test_version(command: Command):
    result = command("--version")
    assert result.code == 0
    assert result.out.startswith(f"tirstep {tirstep.__version__} (apache-tvm 0.27")
    assert len(result.out.splitlines()) == 1


def run_to_exit(*arguments: str) -> int:
    """What completion does ends the process."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tirstep ladd", ["ladder"]),
        ("tirstep ladder matmul_b", ["matmul_bias_relu_mma", "matmul_bias_relu_wgmma"]),
        ("tirstep check matmul_shared", ["matmul_shared", "matmul_shared_blocking"]),
        ("tirstep check relu_bound matmul_fr", ["matmul_fragments"]),
        ("tirstep report softmax_n", ["softmax_naive"]),
        ("tirstep diff relu_bound --against gelu_v", ["gelu_vectors"]),
        ("tirstep ladder zzz", []),
    ],
)
def test_a_shell_completes_names(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    line: str,
    offered: list[str],
):
    """As bash asks when its user presses Tab."""
    monkeypatch.setenv("_TIRSTEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    code = run_to_exit()
    out, err = capfd.readouterr()
    assert out.splitlines()[: len(offered)] == offered
    assert (code, err, bool(out.strip())) == (0, "", bool(offered))


def test_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "tirstep", "diff"],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    sentence = "tirstep: Missing argument 'RECIPE'; see tirstep diff --help\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


INTERRUPTED = """import sys

class Interrupting:
    def find_spec(name, *about):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting)
from tirstep.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["tirstep.versions", "typer", "tirstep.cli.app"])
def test_an_interrupt_while_it_is_imported_shows_no_traceback(module: str):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_root_imports_next_to_nothing():
    """Ctrl-C while Python imports it is nobody's to catch."""
    told = "import sys; old = {*sys.modules}; import tirstep; print({*sys.modules} - old)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True)
    assert done.stdout == "{'tirstep'}\n"


def test_interrupt_is_130(monkeypatch: pytest.MonkeyPatch):
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tirstep.cli.listing._show_kernel", interrupt)
    assert main(["list"]) == 130
