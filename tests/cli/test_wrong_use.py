"""Wrong use is one sentence on standard error and exit code 2: it names what is wrong, and what to
give instead, in whichever words.
"""

import re
from pathlib import Path

import pytest

from tirstep.cli.wrong_use import spell_error
from tirstep.modules import vector_add
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import find_recipe

from .conftest import ROOT, Command

WRONG = [
    # What is typed, what of it the sentence must name, and what it must name to type instead.
    ("ladde", "ladde", "ladder"),
    ("list matmull", "matmull", "matmul"),
    ("list zzz", "zzz", "tirstep list"),
    ("steps matmul_nave", "matmul_nave", "matmul_naive"),
    *((f"{name} zzz", "zzz", "tirstep list") for name in ("why", "report", "choose")),
    ("check tests", "tests", "./tests"),
    ("pass --drop tirx.UnrollLoop relu_bound --corpus 3", "--corpus", "relu_bound"),
    ("pass --drop tirx.UnrollLoop relu_bound --from 3", "--from", "--corpus"),
    ("steps matmul_naive --step bond", "bond", "bound"),
    ("steps matmul_naive --step 2", "matmul_naive 2", "0 1"),
    ("steps matmul_naive --stepp 2", "--stepp", "--step"),
    ("steps matmul_naive --shape 64x48", "--shape 64x48", "m n k"),
    ("steps matmul_naive --shape m=6,n=4,q=3", "--shape m=6,n=4,q=3", "m n k"),
    ("steps matmul_naive --shape 0x4x4", "m=0", "1"),
    ("steps matmul_naive --dtype flot16", "flot16", "float32 float16"),
    ("steps matmul_naive --option acc", "--option acc", "NAME=VALUE"),
    ("steps matmul_naive --option ac=int32", "ac", "acc"),
    ("steps matmul_naive --dtype int8 --option dtype=float16", "--dtype --option", "one"),
    ("steps matmul_shared --set tilek=8", "tilek", "tile_k"),
    ("steps matmul_naive --set tile_k=8", "tile_k", ""),
    ("steps matmul_shared --set tile_k", "--set tile_k", "NAME=VALUE"),
    ("steps matmul_shared --set tile_k=deep", "--set tile_k=deep", "1"),
    ("steps matmul_shared --set rows=4 --set rows=8", "--set rows", "once"),
    ("steps matmul_shared --set tail=drop", "--set tail=drop", "refuse guard pad"),
    ("steps matmul_shared --set tile_k=7", "k 32 7", "--set tail=guard tail=pad"),
    ("diff matmul_naive --step bound", "--step", "--against FROM TO"),
    ("diff matmul_naive 0 --against matmul_tiled", "--against", "--step --against-step"),
    ("diff matmul_naive --context -1", "--context -1", "0"),
    ("check matmul_naive --seed x", "--seed x", "0"),
    ("steps matmul_strips --set threads=16", "--set threads=16", "threads=4,8"),
    ("steps matmul_strips --set strided=2", "--set strided=2", "true false"),
    ("steps matmul_strips --set inner=both", "inner both", "columns rows"),
    ("search matmul_split_k --set threads=16", "--set threads=16", "threads=4,8"),
    ("check matmul_naive --device rpc://machine", "rpc://machine", "rpc://HOST:PORT/KEY"),
    ("search matmul_split_k --limit 0", "--limit 0", "1"),
    ("search matmul_split_k --timeout inf", "--timeout inf", "1"),
    ("export matmul_naive out --as tar", "--as tar", "trace"),
    ("check", "check", "--all"),
    ("check matmul_naive --all", "check", "--all"),
    ("check --all --shape 4x4x4", "--all", "recipes"),
    ("check vector_add_bound --shape 100", "i 100 128 vector_add_bound", "--set tail=guard"),
    ("check matmul", "matmul", "list ladder"),
    ("check matmul_naive --device gpu", "gpu", "cuda"),
    ("facts vector_add_bound --arch sm_91", "sm_91", "sm_90a"),
    ("facts vector_add_bound --arch sm_80 --all-archs", "--all-archs", "--arch"),
    ("facts vector_add_bound --target llvm", "llvm", "cuda opencl"),
    ("lower vector_add_bound --pass UnrolLoop", "UnrolLoop cuda", "tirx.UnrollLoop"),
    ("lower vector_add_bound --pass 99", "99 cuda", "1"),
    ("lower vector_add_bound --target cdua", "cdua", "cuda"),
    ("lower vector_add_bound --source --diff", "--source", "--diff --pass"),
    ("lower vector_add_bound --source --step 0", "00_input cuda", "bound"),
    ("diff relu_bound --numbers", "--numbers", "--against"),
    ("diff relu_bound --seed 3", "--seed", "--numbers"),
    ("diff relu_bound --against gelu_vectors --target sm_80", "--target", "--numbers"),
    ("check matmul_naive --golden-dir nowhere", "nowhere", "--golden-dir"),
    ("ladder matmul_naive", "matmul_naive", "gemm-tutorial check"),
    ("ladder matmul --shape 64", "--shape 64", "m n k"),
    ("ladder transpose --shape 7x5", "transpose 5", "tail"),
    ("check --write-goldens --all --golden-dir tests/cli", "tests/cli TVM_VERSION", "--golden-dir"),
    ("check --write-goldens --all --golden-dir README.md", "README.md", "--golden-dir"),
]


def find_missing(sentence: str, names: str) -> list[str]:
    """The names that a sentence does not have as words of their own."""
    words = names.split()
    return [
        word for word in words if not re.search(rf"(?<![\w-]){re.escape(word)}(?!\w)", sentence)
    ]


@pytest.mark.parametrize(("line", "mistake", "remedy"), WRONG)
def test_wrong_use_is_one_sentence(command: Command, line: str, mistake: str, remedy: str):
    result = command(*line.split())
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("tirstep: ")
    assert len(result.err.splitlines()) == 1
    assert find_missing(result.err, mistake) == []
    assert find_missing(result.err, remedy) == []


FILES = {"right.py": "from tvm.tirx.transform import StmtSimplify as Again\n\nnothing = 3\n"}
BLOCKING = "search matmul_shared_blocking --set"
TUNED, SMALL = "tune {own}:folded --shape n=64", "--target llvm --jobs 1"
AGAIN = "pass right.py:Again"
BOTH = "--write-goldens writes the steps of the recipes' examples; the only other options"
SENTENCES = [
    # What is typed, and what the sentence says.
    ("bench matmull", "there is no suite and no kernel 'matmull'; did you mean matmul"),
    ("bench --shape 4by4", "--shape 4by4 is not a shape; give it as 1024x512x2048"),
    ("bench --output a --save b", "--output and --save both name the file to write; give one"),
    ("bench --compare no.json no.json", "no.json: No such file or directory"),
    ("search matmul_naive", "matmul_naive declares no choices of knobs"),
    ("search matmul_shared_blocking --shape 1x2", "--shape 1x2 has 2 sizes"),
    (f"{BLOCKING} rows=1,2", "has a knob 'rows'"),
    (f"{BLOCKING} tile_k=4,x", "must be an integer"),
    (f"{BLOCKING} 4,8", "--set 4,8: give --set NAME=VALUE,"),
    (f"{BLOCKING} tile_k=4,8 --set tile_k=4", "--set tile_k is given twice; give all"),
    (
        f"tune {{own}}:without_choices --shape n=64 {SMALL} -o db",
        "declares no choices of knobs, so there is",
    ),
    (f"{TUNED} {SMALL} --trials 0 -o db", "--trials 0: must be an integer >= 1"),
    (f"{TUNED} {SMALL} --set outer=2 -o db", "none of these recipes has a knob"),
    ("tune {own}:folded --shape 64x2 -o db", "--shape 64x2 has 2 sizes, and"),
    (f"{TUNED} --target nowhere -o db", "no target 'nowhere'"),
    (
        f"tune matmul_tiled {SMALL} --set rows=8 --set columns=16 --set per_thread=1 -o db",
        "has no knob left to choose",
    ),
    ("choose relu", "there is no time model for relu"),
    ("choose matmul --gpu H100", "the properties of 'H100' are not known"),
    ("choose matmul_wgmma_best --dtype float32", "takes float32 on sm_90a"),
    ("choose matmul --shape 4x4", "matmul has the sizes m, n, k"),
    (
        "check --write-goldens relu_bound --all",
        "name the recipes to check, or give --all, not both",
    ),
    ("check --write-goldens relu_bound --shape 8", BOTH),
    ("pass", "name a pass: FILE.py:PASS"),
    (f"{AGAIN} relu_bound", "where does Again go?"),
    (f"{AGAIN} relu_bound --after x --drop y", "give one of --after"),
    (f"{AGAIN} relu_bound --after ThreadSnc", "did you mean s_tir.ThreadSync"),
    (f"{AGAIN} relu_bound --after ThreadSync#9", "give a number from 1 to 3"),
    ("pass right.py:Agan --after StmtSimplify relu_bound", "did you mean Again?"),
    ("pass gone.py:P --after StmtSimplify relu_bound", "there is no file gone.py"),
    ("pass right.py:nothing --after StmtSimplify relu_bound", "is not a pass"),
    ("compare a.py b.py", "tirstep compare is now tirstep diff A --against B --numbers\n"),
    ("golden --write", "tirstep golden is now tirstep check --write-goldens\n"),
    ("source relu_bound", "tirstep source is now tirstep lower --source\n"),
]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("line", "sentence"), SENTENCES)
def test_what_a_command_cannot_do_is_one_sentence(
    command: Command, folder: Path, line: str, sentence: str
):
    result = command(*line.format(own=ROOT / "tests/support/tuned_programs.py").split())
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1), result
    assert sentence in result.err
    assert [path.name for path in folder.iterdir() if path.name[0] != "_"] == ["right.py"]


def test_cuda_without_a_gpu(command: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tirstep.lowering_checks.devices.cuda.is_cuda_available", lambda: False)
    result = command("ladder", "vector_add", "--device", "cuda")
    assert (result.code, result.out) == (2, "")
    assert find_missing(result.err, "CUDA device") == []


def test_goldens_are_not_written_under_ci(command: Command, tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr("tirstep.transforms.recipes.RECIPES", {})
    result = command("check", "--write-goldens", "--all", "--golden-dir", tmp_path / "golden")
    assert result.code == 2
    assert find_missing(result.err, "goldens CI") == []
    assert not (tmp_path / "golden").exists()


def test_golden_away_from_the_repository(command: Command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = command("check", "--write-goldens", "--all")
    assert (result.code, list(tmp_path.iterdir())) == (2, [])
    assert find_missing(result.err, "tests --golden-dir") == []


def test_a_recipes_advice_is_what_its_user_can_do():
    """Alternatives of a program are no advice, and a tail is spelt as an option."""
    advice = 'choose a divisor, pass tail="guard", or pad the block first with pad_block'

    def spell(recipe: str, problem: str = "loop 'i' runs 30 times") -> str:
        error = TransformError("split_loop", problem, advice)
        error.recipe, error.step, error.line = recipe, "input", "a.py:1"
        error.knobs = {"tail": find_recipe(recipe).tails}
        text = spell_error(error)
        assert text.endswith(f"[recipe {recipe}, after step 'input', a.py:1]")
        assert (error.advice, error.problem) == (advice, problem)  # a program still reads these
        return text.partition("; ")[2].partition(" [")[0]

    tails = {"guard": "--set tail=guard", "pad": "--set tail=pad"}
    for recipe, known in (
        ("matmul_tiled", ["guard"]),
        ("matmul_shared_blocking", ["guard", "pad"]),
        ("matmul_naive", []),
    ):
        told = spell(recipe)
        assert find_missing(told, "divisor") == []
        assert [tail for tail, option in tails.items() if option in told] == known
        assert "pad_block" not in told
        assert 'tail="guard"' not in told
    with pytest.raises(TransformError) as raised:  # a recipe's error brings its knobs along
        find_recipe("vector_add_bound").steps(vector_add(100))
    assert raised.value.knobs == {"threads": (), "tail": ("refuse", "guard")}
    foreign = TransformError("split_loop", "loop 'i' runs 30 times", advice)
    assert spell_error(foreign) == str(foreign)
