"""Which errors are wrong use, told in one sentence, and which are defects of ours."""

from __future__ import annotations

import copy
import errno
import re
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

import typer

from tirstep.files import show_path
from tirstep.programs.naming import ProgramError, explain_error

from .formatting import join_alternatives

if TYPE_CHECKING:
    from tirstep.transforms.schedule import TransformError

# The base of all errors of parsing; by way of a public name, since newer typers ship their own
# click and older ones use the package.
_PARSING_ERROR = typer.BadParameter.__mro__[2]


_OF_THE_SYSTEM = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
}
"""Errors that no call of ours can fix."""


class UseError(Exception):
    """The command line asks for what cannot be: one sentence of what is wrong and what to do."""


def find_sentence(error: BaseException) -> str | None:
    """The sentence about an error that is the user's to fix; None for any other."""
    if isinstance(error, UseError | ProgramError):
        return str(error)
    if isinstance(error, _PARSING_ERROR):
        message = str(getattr(error, "format_message", error.__str__)()).strip()
        context = getattr(error, "ctx", None)
        # Where its last word is a question, it has its own end.
        joint = " See" if message.endswith("?") else "; see"
        see = f"{joint} {context.command_path} --help" if context is not None else ""
        return f"{message.rstrip('.')}{see}" if see else message
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
        return f"the system refuses: {error.strerror}"
    if isinstance(error, MemoryError):
        told = f" ({error})" if str(error) else ""
        return f"the program needs more memory than there is{told}; choose a smaller shape"
    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error.strerror):
        return f"{error.strerror}; set TMPDIR to a folder that can be written"
    if "tvm" not in sys.modules:
        return None
    if isinstance(error, ImportError):
        return explain_error(error)
    from tirstep.bench import BenchError
    from tirstep.lowering_checks import CheckError, DeviceError
    from tirstep.modules import KernelError
    from tirstep.transforms.schedule import TransformError

    if isinstance(error, TransformError):
        return spell_error(error)
    if isinstance(error, BenchError | CheckError | DeviceError | KernelError):
        return str(error)
    return explain_error(error)


def spell_error(error: TransformError) -> str:
    """A recipe's error with its config as the command line takes them: ``--set tail=guard``.

    What only a program can do, such as calling `pad_block`, is not advice here. Errors that come
    from no recipe stay as they are.
    """
    spelt = copy.copy(error)
    if error.kernel_line is not None:
        file, _, line = error.kernel_line.rpartition(":")
        spelt.kernel_line = f"{show_path(file)}:{line}"
    if error.knobs:
        spelt.problem = _spell_settings(error.problem, error.knobs)
        advice = error.advice
        if 'tail="' in advice and not advice.startswith("use tail="):
            # Of advice that names a tail, the alternatives that a user of the recipe has.
            tails = [f'tail="{it}"' for it in error.knobs.get("tail", ()) if it != "refuse"]
            kept = []
            for choice in re.split(r",? or |, ", advice):
                if 'tail="' in choice:
                    kept += [f"pass {join_alternatives(tails)}"] if tails else []
                elif "pad_block" not in choice:
                    kept.append(choice)
            advice = join_alternatives(kept or ["choose other sizes"])
        spelt.advice = _spell_settings(advice, error.knobs)
    return str(spelt)


def _spell_settings(text: str, knobs: Collection[str]) -> str:
    """``tail="guard"`` and ``tail='guard'`` as ``--set tail=guard``, where the recipe has it."""

    def spell(found: re.Match[str]) -> str:
        return f"--set {found[1]}={found[3]}" if found[1] in knobs else found[0]

    return re.sub(r"""\b(\w+)=(["'])(\w+)\2""", spell, text)
