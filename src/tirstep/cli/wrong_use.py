"""Which errors are wrong use, told in one sentence, and which are defects of ours."""

from __future__ import annotations

import copy
import errno
import re
import sys
from typing import TYPE_CHECKING

import typer

from .formatting import join_alternatives

if TYPE_CHECKING:
    from tirstep.transforms.errors import TransformError
    from tirstep.transforms.recipes import Recipe

# The base of all errors of parsing; by way of a public name, since newer typers ship their own
# click and older ones use the package.
_PARSING_ERROR = typer.BadParameter.__mro__[2]


_OF_THE_SYSTEM = tuple(
    getattr(errno, name)
    for name in [
        "ENOSPC",
        "EDQUOT",
        "EFBIG",
        "EROFS",
        "EIO",
        "EMFILE",
        "ENFILE",
        "ENOMEM",
        "EAGAIN",
    ]
    if hasattr(errno, name)
)
"""What no call of ours can fix."""


class UseError(Exception):
    """The command line asks for what cannot be: one sentence of what is wrong and what to do."""


def find_sentence(error: Exception) -> str | None:
    """What to tell the user of an error that is theirs to fix; None for any other."""
    if isinstance(error, UseError):
        return str(error)
    if isinstance(error, _PARSING_ERROR):
        return _describe_parsing_error(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
        return f"the system refuses: {error.strerror}"
    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error.strerror):
        return f"{error.strerror}; set TMPDIR to a folder that can be written"
    if isinstance(error, ImportError) or "tvm" not in sys.modules:
        return None
    from tirstep.bench import BenchError
    from tirstep.lowering_checks import CheckError, DeviceError
    from tirstep.modules import KernelError
    from tirstep.transforms.errors import TransformError

    if isinstance(error, TransformError):
        return spell_error(error)
    if isinstance(error, BenchError | CheckError | DeviceError | KernelError):
        return str(error)
    return None


def spell_error(error: TransformError) -> str:
    """A recipe's error with its config as the command line takes them: ``--set tail=guard``.

    What only a program can do, such as calling `pad_block`, is no advice here. Errors that come
    from no recipe of ours stay as they are.
    """
    from tirstep.transforms.recipes import RECIPES

    recipe = RECIPES.get(error.recipe or error.transform)
    if recipe is None:
        return str(error)
    spelt = copy.copy(error)
    spelt.problem = _spell_settings(error.problem, recipe)
    spelt.advice = _spell_settings(_choose_advice(error.advice, recipe), recipe)
    return str(spelt)


def _spell_settings(text: str, recipe: Recipe) -> str:
    """``tail="guard"`` and ``tail='guard'`` as ``--set tail=guard``, where the recipe has it."""

    def spell(found: re.Match[str]) -> str:
        return f"--set {found[1]}={found[3]}" if found[1] in recipe.config else found[0]

    return re.sub(r"""\b(\w+)=(["'])(\w+)\2""", spell, text)


def _choose_advice(advice: str, recipe: Recipe) -> str:
    """Of advice that names a tail, the alternatives that a user of the recipe has."""
    if 'tail="' not in advice or advice.startswith("use tail="):
        return advice
    tails = [f'tail="{tail}"' for tail in recipe.tails if tail != "refuse"]
    kept = []
    for choice in re.split(r",? or |, ", advice):
        if 'tail="' in choice:
            kept += [f"pass {join_alternatives(tails)}"] if tails else []
        elif "pad_block" not in choice:
            kept.append(choice)
    return join_alternatives(kept or ["choose other sizes"])


def _describe_parsing_error(error: Exception) -> str:
    message = str(getattr(error, "format_message", error.__str__)()).strip()
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    # Where its last word is a question, it has its own end.
    joint = " See" if message.endswith("?") else "; see"
    return f"{message.rstrip('.')}{joint} {context.command_path} --help"
