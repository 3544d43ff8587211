"""How long the schedules of these examples are: statements, by hand and with tirstep."""

import ast
from pathlib import Path

NAMES = ("softmax_with_temperature", "attention_scores", "experts", "rms_norm", "few_rows")


def count(name: str) -> tuple[int, int]:
    """The statements of `by_hand` and of `with_tirstep`; a loop counts with all that is in it."""
    tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    by_hand, with_tirstep = (
        sum(isinstance(node, ast.stmt) for node in ast.walk(functions[each])) - 2
        for each in ("by_hand", "with_tirstep")
    )  # less the function and its docstring
    return by_hand, with_tirstep


if __name__ == "__main__":
    for example in NAMES:
        print(example, *count(example))
