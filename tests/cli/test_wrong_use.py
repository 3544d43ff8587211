"""Wrong use is one sentence on standard error and exit code 2."""

import pytest

from tirstep.cli.refusals import spell_refusal
from tirstep.transforms import TransformError

from .conftest import Command

SENTENCES = [
    ("ladde", "No such command 'ladde'"),
    ("list matmull", "there is no kernel or recipe 'matmull'; did you mean matmul"),
    ("list zzz", "there is no kernel or recipe 'zzz'; there are: vector_add, "),
    ("steps matmul_nave", "there is no recipe 'matmul_nave'; did you mean matmul_naive"),
    ("steps zzz", "there is no recipe 'zzz'; there are: vector_add_bound, "),
    ("steps matmul_naive --step bond", "matmul_naive has no step 'bond'; did you mean bound?"),
    ("steps matmul_naive --step 2", "matmul_naive has no step 2; its steps are 0 to 1"),
    ("steps matmul_naive --stepp 2", "No such option: --stepp"),
    ("steps matmul_naive --shape 64x48", "--shape 64x48 has 2 sizes, and matmul has the sizes m, "),
    ("steps matmul_naive --shape 64x48xk", "--shape 64x48xk: k is 'k', which is no whole number;"),
    ("steps matmul_naive --shape m=6,n=4,q=3", "--shape m=6,n=4,q=3 does not give each size once"),
    ("steps matmul_naive --shape m=6,m=4,n=3,k=1", "does not give each size once; matmul has the"),
    ("steps matmul_naive --shape 0x4x4", "matmul: size m=0 is below 1; give 1 or more"),
    ("steps matmul_naive --dtype flot16", "dtype='flot16' is not possible; choose 'float32'"),
    ("steps matmul_naive --option acc", "--option acc: give --option NAME=VALUE"),
    ("steps matmul_naive --option ac=int32", "matmul: there is no option 'ac'; the nearest: acc"),
    ("steps matmul_naive --dtype int8 --option dtype=float16", "--dtype int8 and --option dtype="),
    ("steps matmul_shared --set tilek=8", "has a size 'tilek'; did you mean tile_k"),
    ("steps matmul_naive --set tile_k=8", "has a size 'tile_k'; there are none"),
    ("steps matmul_shared --set tile_k", "--set tile_k: give --set NAME=VALUE"),
    ("steps matmul_shared --set =8", "--set =8: give --set NAME=VALUE"),
    ("steps matmul_shared --set tile_k=deep", "--set tile_k=deep: give a whole number from 1 up"),
    ("steps matmul_shared --set tile_k=0", "--set tile_k=0: give a whole number from 1 up"),
    ("steps matmul_shared --set tile_k=true", "--set tile_k=true: give a whole number from 1 up"),
    ("steps matmul_shared --set rows=4 --set rows=8", "--set rows is given twice, with different"),
    ("steps matmul_shared --set tail=drop", "matmul_shared: --set tail=drop is unknown; use"),
    ("steps matmul_shared --set tile_k=7", "which inner=7 does not divide"),
    ("diff matmul_naive bund", "matmul_naive has no step 'bund'; did you mean bound?"),
    ("diff matmul_naive --step bound", "--step and --against-step go with --against"),
    ("diff matmul_naive 0 --against matmul_tiled", "FROM and TO go without --against"),
    ("diff matmul_naive --against matmul_tild", "there is no recipe 'matmul_tild'; did you mean"),
    ("diff matmul_naive --context -1", "--context -1: give a whole number from 0 up"),
    ("diff matmul_naive --context 2.5", "--context 2.5: give a whole number from 0 up"),
    ("check matmul_naive --seed x", "--seed x: give a whole number from 0 up"),
    ("search matmul_split_k --limit 0", "--limit 0: give a whole number from 1 up"),
    ("search matmul_split_k --patience 0.5", "--patience 0.5: give a number from 1 up"),
    ("search matmul_split_k --patience nan", "--patience nan: give a number from 1 up"),
    ("search matmul_split_k --patience inf", "--patience inf: give a number from 1 up"),
    ("export matmul_naive out --as tar", "--as tar: choose git"),
    ("check", "name the recipes to check, or give --all"),
    ("check matmul_naive --all", "name the recipes to check, or give --all, not both"),
    ("check --all --shape 4x4x4", "--all checks every recipe at its example"),
    ("check vector_add_bound --shape 100", "loop 'i' runs 100 times, which inner=128 does not div"),
    ("check matmul", "'matmul' is a kernel, and a ladder of 19 recipes: name one of them (tir"),
    ("steps relu", "or see all with tirstep ladder relu"),
    ("check vector_add_bound --shape 100", "choose a divisor or pass --set tail=guard [recipe"),
    ("check matmul_naive --device gpu", "there is no device 'gpu'; did you mean 'cuda'?"),
    ("check matmul_naive --device GPU", "there is no device 'GPU'; did you mean 'cuda'?"),
    ("facts vector_add_bound --arch sm_91", "there is no architecture 'sm_91'; did you mean sm_"),
    ("check matmul_naive --device cudaa", "there is no device 'cudaa'; did you mean 'cuda'?"),
    ("check matmul_naive --golden-dir nowhere", "there is no folder nowhere; give --golden-dir"),
    ("ladder matmul_naive", "'matmul_naive' is a recipe of the kernel matmul: give tirstep ladder"),
    ("ladder matmull", "there is no kernel 'matmull'; did you mean matmul"),
    ("ladder matmul --shape 64", "--shape 64 has 1 size, and matmul has the sizes m, n, k: give"),
    ("ladder matmul --shape 4x4x-4", "matmul: size k=-4 is below 1"),
    ("ladder matmul --set tile=8", "no recipe that is asked for has a size 'tile'; did you mean"),
    ("ladder transpose --shape 7x5", "no recipe of transpose takes this; transpose_naive says:"),
    ("golden --golden-dir tests/cli", "tests/cli has files but no TVM_VERSION"),
    ("golden --golden-dir README.md", "README.md is no folder"),
    ("readme --readme nowhere.md", "nowhere.md: No such file or directory"),
]


@pytest.mark.parametrize(("line", "sentence"), SENTENCES)
def test_wrong_use_is_one_sentence(command: Command, line: str, sentence: str):
    result = command(*line.split())
    assert sentence in result.err
    assert result.err.startswith("tirstep: ")
    assert len(result.err.splitlines()) == 1
    assert (result.code, result.out) == (2, "")


def test_cuda_without_a_gpu(command: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tirstep.lowering_checks.devices.cuda.is_cuda_available", lambda: False)
    result = command("ladder", "vector_add", "--device", "cuda")
    assert (result.code, result.out) == (2, "")
    assert "this machine has no CUDA device that TVM can use" in result.err


def test_goldens_are_not_written_under_ci(command: Command, tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr("tirstep.cli.golden.RECIPES", {})
    result = command("golden", "--write", "--all", "--golden-dir", tmp_path / "golden")
    assert result.code == 2
    assert "goldens are not rewritten under CI" in result.err
    assert not (tmp_path / "golden").exists()


def test_golden_away_from_the_repository(command: Command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = command("golden", "--write")
    assert (result.code, list(tmp_path.iterdir())) == (2, [])
    assert "there is no folder tests here; run this at the top of the repository" in result.err


def test_a_recipes_advice_is_what_its_user_can_do():
    """Alternatives of a program are no advice, and a tail is spelt as an option."""
    advice = 'choose a divisor, pass tail="guard", or pad the block first with pad_block'

    def spell(recipe: str, problem: str = "loop 'i' runs 30 times") -> str:
        error = TransformError("split_loop", problem, advice)
        error.recipe, error.step, error.line = recipe, "input", "a.py:1"
        text = spell_refusal(error)
        assert text.endswith(f"[recipe {recipe}, after step 'input', a.py:1]")
        assert (error.advice, error.problem) == (advice, problem)  # a program still reads these
        return text.partition("; ")[2].partition(" [")[0]

    assert spell("matmul_tiled") == "choose a divisor or pass --set tail=guard"
    assert spell("matmul_shared_blocking") == (
        "choose a divisor or pass --set tail=guard or --set tail=pad"
    )
    assert spell("matmul_naive") == "choose a divisor"
    foreign = TransformError("split_loop", "loop 'i' runs 30 times", advice)
    assert spell_refusal(foreign) == str(foreign)
