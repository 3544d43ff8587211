"""What a pass says of itself: where it belongs in the pipeline, and what it promises."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tirstep.programs.found import DECLARED

from .editing import PLACES, Edit, ExperimentError, get_pass, list_places
from .promises import PROMISES

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Declaration:
    """Where a pass belongs, and its promises; see `pass_experiment`."""

    place: str
    anchor: str
    promises: tuple[str, ...]

    def edit(self, value: Any, name: str = "") -> Edit:
        """The change of the pipeline that puts the pass in its place."""
        return Edit(self.place, self.anchor, get_pass(value, name))


def pass_experiment(
    *,
    after: str | None = None,
    before: str | None = None,
    replace: str | None = None,
    promises: Sequence[str] = ("changes no numbers",),
) -> Callable[[_Made], _Made]:
    """Declare where a pass belongs and what it promises; the pass itself stays what it is.

    One of `after`, `before` and `replace` names a pass of TVM's, as ``"s_tir.ThreadSync"``.
    `promises` are of `PROMISES`. Raises `ExperimentError` for another one, and for a name that the
    pipeline does not have::

        @pass_experiment(after="s_tir.ThreadSync", promises=["changes no numbers"])
        @prim_func_pass(opt_level=0, name="my.Pass")
        def MyPass(function, module, context): ...
    """
    given = {"after": after, "before": before, "replace": replace}
    places = [(place, anchor) for place, anchor in given.items() if anchor is not None]
    if len(places) != 1:
        raise ExperimentError("pass_experiment: give one of after=, before= and replace=")
    declaration = Declaration(*places[0], tuple(promises))
    require_declaration(declaration)

    def declare(value: _Made) -> _Made:
        setattr(value, DECLARED, declaration)
        return value

    return declare


def require_declaration(declaration: Declaration) -> None:
    """Raise `ExperimentError` for a place or a promise that is not known."""
    for promise in declaration.promises:
        if promise not in PROMISES:
            near = difflib.get_close_matches(promise, PROMISES, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(PROMISES)}"
            raise ExperimentError(f"nothing checks the promise '{promise}'; {hint}")
    assert declaration.place in PLACES
    Edit(declaration.place, declaration.anchor).require(list_places())


def get_declaration(value: Any) -> Declaration | None:
    """What `pass_experiment` declared of a pass; None where it did not."""
    found = getattr(value, DECLARED, None)
    return found if isinstance(found, Declaration) else None
