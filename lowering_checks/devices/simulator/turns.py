"""Parts of a kernel that run at the same time, taking turns: branches that wait for one another.

The simulator's threads run in step, one statement after the other. Where both sides of a branch
wait for mbarriers (warps with roles of their own: producers and consumers), that is one after the
other no more: each side runs until it has to wait, and then the other one goes on.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence


class _Abandoned(BaseException):
    """Ends a part of a kernel, because another one failed."""


class _Part:
    def __init__(self, run: Callable[[], None], parent: _Part | None, may_split: bool) -> None:
        self.run, self.turn = run, threading.Semaphore(0)
        self.parent, self.may_split, self.is_split = parent, may_split, False
        self.is_done, self.seen = False, -1
        self.error: BaseException | None = None


class Turns:
    """Whose turn it is, among the parts of the outermost branch that waits on both sides; or of
    blocks that exchange values, each of which may have parts of its own."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._current: _Part | None = None

    @property
    def are_taken(self) -> bool:
        """Whether parts of a kernel take turns, and have none of their own."""
        return self._current is not None and not self._current.may_split

    def run_together(
        self, runs: Sequence[Callable[[], None]], *, may_split: bool = False, splits: bool = False
    ) -> None:
        """Run parts of a kernel until all have ended; one at a time. One that has its turn `splits`
        where its lanes part.
        """
        if self.are_taken and not splits:  # within a part: the outer ones take turns
            for run in runs:
                run()
            return
        parent = self._current
        parts = [_Part(run, parent, may_split) for run in runs]
        self._parts.extend(parts)
        workers = []
        for part in parts:
            context = contextvars.copy_context()  # NumPy's settings are in there
            worker = threading.Thread(target=context.run, args=(self._work, part), daemon=True)
            workers.append(worker)
            worker.start()
        if parent is not None:
            parent.is_split = True
        self._hand_to(parts[0])
        for worker in workers:
            worker.join()
        if parent is not None:
            parent.turn.acquire()  # which its last part has handed over
            parent.is_split = False
        self._parts = [it for it in self._parts if it not in parts]
        self._current = parent
        for part in parts:
            if part.error is not None:
                raise part.error

    def give_up_turn(self, progress: int, *, waits: bool = True) -> bool:
        """Let another part run; False where none can go on, because all wait already."""
        part = self._current
        if part is None:
            return False
        part.seen = progress if waits else -1
        for other in self._get_others(part):
            if not other.is_done and not other.is_split and other.seen != progress:
                self._hand_to(other)
                part.turn.acquire()
                if self._has_failed():
                    raise _Abandoned
                return True
        return False

    def _get_others(self, part: _Part) -> list[_Part]:
        at = self._parts.index(part)
        return self._parts[at + 1 :] + self._parts[:at]

    def _has_failed(self) -> bool:
        return any(part.error is not None for part in self._parts)

    def _hand_to(self, part: _Part) -> None:
        self._current = part
        part.turn.release()

    def _work(self, part: _Part) -> None:
        part.turn.acquire()
        try:
            if not self._has_failed():
                part.run()
        except _Abandoned:
            pass
        except BaseException as error:  # raised again by run_together
            part.error = error
        part.is_done = True
        beside = [it for it in self._parts if it.parent is part.parent and not it.is_done]
        if part.parent is not None and not beside:
            self._hand_to(part.parent)
            return
        left = [it for it in self._get_others(part) if not it.is_done and not it.is_split]
        if left:
            self._hand_to(left[0])
