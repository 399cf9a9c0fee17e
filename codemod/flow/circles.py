"""Answers that need other answers, also in circles: each is what it is whoever asks first."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from ..source.looks import Looks

T = TypeVar("T")


class Circles:
    """Answers by key, computed once.

    A circle is cut where it comes back to a question that is being answered. What was found with such a cut holds only
    for who asked first, so it is kept until that one has its answer, and then found anew for others.
    """

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._settled: dict[Hashable, tuple[Any, frozenset[Hashable], int]] = {}
        """The answers, the questions of the same circle that were cut for each, and what each rests on."""
        self._passing: dict[Hashable, tuple[Any, int, int]] = {}
        """What was found with a cut, how far out the question stands that it was cut at, and what it rests on."""
        self._asked: dict[Hashable, int] = {}
        """The questions that are being answered, outermost first."""
        self._cut = len(self._asked)

    def answer(self, key: Hashable, compute: Callable[[], T], cut: T) -> T:
        """``compute()``; ``cut`` where this is what somebody needs to answer it."""
        settled = self._settled.get(key)
        if settled is not None and (not settled[1] or settled[1].isdisjoint(self._asked)):
            self._looks.seen |= settled[2]
            return settled[0]  # type: ignore[no-any-return]
        if key in self._asked:
            self._cut = min(self._cut, self._asked[key])
            return cut
        if key in self._passing:
            value, outermost, seen = self._passing[key]
            self._looks.seen |= seen
            self._cut = min(self._cut, outermost)
            return value  # type: ignore[no-any-return]
        return self._answered(key, compute)

    def may_answer(self, key: Hashable) -> bool:
        """Whether an answer, be it a cut, is at hand."""
        return key in self._settled or key in self._asked or key in self._passing

    def cut_short(self) -> None:
        """Note that an answer was not looked for, so deep was it asked: what rests on that holds for this time only."""
        self._cut = 0

    def _answered(self, key: Hashable, compute: Callable[[], T]) -> T:
        here, before = len(self._asked), self._cut
        self._asked[key] = self._cut = here
        looks = self._looks
        above, looks.seen = looks.seen, 0
        try:
            value = compute()
        except BaseException:
            self._cut = before
            self._taken(here)
            raise
        finally:
            seen = looks.once(looks.seen)
            looks.seen |= above
            del self._asked[key]
        outermost = self._cut
        self._cut = min(before, outermost)
        taken = self._taken(here)
        if outermost < here:  # and so are those that were cut here: they are in the same circle
            self._passing.update({each: (found, outermost, seen) for each, found in taken.items()})
            self._passing[key] = (value, outermost, seen)
        else:
            self._settled[key] = (value, frozenset(taken), seen)
        return value

    def _taken(self, here: int) -> dict[Hashable, object]:
        """The questions that were cut for the one that stands ``here``, and what was found; no longer kept."""
        taken = {key: found for key, (found, outermost, _) in self._passing.items() if outermost >= here}
        for key in taken:
            del self._passing[key]
        return taken
