"""The examples run as their READMEs say, from their own folders."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rpc_servers import find_port, serve

from tirstep.cli import main
from tirstep.lowering_checks.devices import is_cuda_available

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FOLDERS = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
RUN = [
    # Where, what, and what is printed.
    ("own_kernel", "check rank_one.py --golden-dir golden", "2 programs, 5 modules: all good"),
    ("own_kernel", "ladder rank_one.py", "rank_one_vectors"),
    ("own_kernel", "report rank_one.py -o {out}/report.html", "2 programs, 3 steps"),
    ("tutorial", "list mm_relu.py", "module   MyModule"),
    ("tutorial", "diff mm_relu.py", "+++ for_cpu/01_tiled"),
    ("tutorial", "check mm_relu.py", "2 programs, 6 modules: all good"),
    ("tutorial", "why mm_relu.py:for_gpu", "for_gpu, seed 0: nothing is wrong"),
    ("tutorial", "facts mm_relu.py:for_gpu", "4 × 128"),
    ("relax_model", "list perceptron.py", "           transpose1("),
    ("relax_model", "check perceptron.py", "7 programs, 14 modules: all good"),
    (
        "relax_model",
        "diff perceptron.py --function softmax",
        "+++ each_block_softmax/01_each_block",
    ),
    ("transformer_block", "list block.py", "           softmax1(40)\n"),
    ("transformer_block", "diff block.py --function softmax", "+++ by_plans_softmax/01_by_plans"),
    ("transformer_block", "check block.py --function rms_norm", "2 modules: all good"),
    ("tuning", "check for_cpu.py", "1 program, 4 modules: all good"),
    ("cluster", "check gram.py", "1 program, 4 modules: all good"),
]

SEARCHED = (
    "cluster",
    "search gram.py --cluster local --trials {out}/kept",
    "times as fast as torch",
)
REMOTE = (
    "remote",
    "check saxpy.py --device rpc://127.0.0.1:9090/tirstep",
    "1 program, 2 modules: all good",
)
TUNED = (
    "tuning",
    "tune for_cpu.py --shape 48x64x32 --target llvm --trials 3 --jobs 1 -o {out}/db",
    "db  replayed with only TVM",
)
OLD = [
    # In this order, in a copy: the last words printed.
    ("old_program", "check mm_relu.py", "run: tirstep modernize mm_relu.py --write"),
    (
        "old_program",
        "modernize mm_relu.py",
        "1 file: 1 to rewrite, by --write; 0 places left to you",
    ),
    ("old_program", "modernize mm_relu.py --write", "1 file: 1 rewritten; 0 places left to you"),
    ("old_program", "check mm_relu.py", "1 program, 2 modules: all good"),
]
TRACED = [  # in a folder of its own, one after the other
    ("trace", "trace traced -- {python} {folder}/serve.py", "shape (4, 10)"),
    ("trace", "check traced --runs 1", "4 programs, 4 modules: all good"),
    ("trace", "report traced --no-checks", "4 programs, "),
]


@pytest.mark.share(20)
@pytest.mark.usefixtures("report_in_this_process")
@pytest.mark.parametrize(("folder", "line", "shown"), RUN)
def test_a_command_of_an_example(
    folder: str,
    line: str,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(EXAMPLES / folder)
    monkeypatch.setattr("tirstep.cli.screen.PATIENCE", 600.0)  # on a busy machine
    code = main(line.format(out=tmp_path).split())
    printed = capfd.readouterr()
    assert (code, printed.err) == (0, "")
    assert shown in printed.out


@pytest.mark.share(2)
def test_a_project_without_tirstep_applies_what_was_tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    folder, line, shown = TUNED
    monkeypatch.chdir(EXAMPLES / folder)
    assert main(line.format(out=tmp_path).split()) == 0
    assert shown in capfd.readouterr().out
    done = subprocess.run(
        [sys.executable, "-I", "product.py", str(tmp_path / "db")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "tuned, right, and without tirstep: True\n", done.stderr


def test_an_old_program_is_rewritten_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    file = tmp_path / "mm_relu.py"
    file.write_text((EXAMPLES / OLD[0][0] / file.name).read_text())
    monkeypatch.chdir(tmp_path)
    codes = []
    for _, line, shown in OLD:
        codes.append(main(line.split()))
        assert "".join(capfd.readouterr()).endswith(f"{shown}\n")
    assert codes == [2, 0, 0, 0]
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert "define" in done.stdout, done.stderr  # LLVM's source


@pytest.mark.share(3)
@pytest.mark.usefixtures("report_in_this_process")
def test_an_app_is_traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tirstep.cli.screen.PATIENCE", 600.0)
    for folder, line, shown in TRACED:
        line = line.format(python=sys.executable, folder=EXAMPLES / folder)
        assert main(line.split()) == 0
        assert shown in capfd.readouterr().out


@pytest.mark.xdist_group("rpc")
def test_a_kernel_is_checked_on_a_server(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    folder, line, shown = REMOTE
    monkeypatch.chdir(EXAMPLES / folder)
    port = find_port()
    with serve(port, "--key", "tirstep"):
        assert main(line.replace("9090", str(port)).split()) == 0
    printed = capfd.readouterr().out
    assert shown in printed
    assert f"numbers right on rpc://127.0.0.1:{port}/tirstep" in printed


@pytest.mark.share(3)
@pytest.mark.skipif(is_cuda_available(), reason="this machine has a GPU")
def test_a_cluster_without_a_gpu_is_told_in_a_sentence(tmp_path: Path):
    pytest.importorskip("ray", reason="the extra cluster: Ray is not installed")
    folder, line, _ = SEARCHED
    done = subprocess.run(  # this process may have joined a cluster for other tests
        [sys.executable, "-m", "tirstep", *line.format(out=tmp_path).split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=EXAMPLES / folder,
    )
    assert done.returncode == 2
    assert "the cluster has no GPU; join machines that have" in done.stderr


@pytest.mark.gpu
def test_a_recipe_is_searched_over_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    pytest.importorskip("ray", reason="the extra cluster: Ray is not installed")
    folder, line, shown = SEARCHED
    monkeypatch.chdir(EXAMPLES / folder)
    assert main(line.format(out=tmp_path).split()) == 0
    assert shown in capfd.readouterr().out


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_readme_has_a_title_and_commands_that_are_run(folder: str):
    lines = [line for line in (EXAMPLES / folder / "README.md").read_text().splitlines() if line]
    assert len(lines) == 3
    others = (*OLD, *TRACED, TUNED, SEARCHED, REMOTE)
    ran = [(where, line.split()[:2]) for where, line, _ in (*RUN, *others)]
    commands = re.findall(r"`tirstep ([^`]+)`", "\n".join(lines))
    assert len(commands) >= (1 if folder == "remote" else 2)  # its server is TVM's
    for command in commands:
        name, program = shlex.split(command)[:2]
        assert (folder, [name, program.partition(":")[0]]) in [
            (where, [words[0], words[1].partition(":")[0]]) for where, words in ran
        ]
