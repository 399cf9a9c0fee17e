"""Answers that need other answers, also in circles: each is what it is whoever asks first."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..source.looks import Looks

T = TypeVar("T")
_CUT: Any = object()
"""What a question was told that came back to one that is being answered."""


@dataclass(slots=True, eq=False)
class _Found:
    """What was found with a cut, and what it was found from: where all of that is the same, it is found again."""

    depth: int
    """How deep it was asked: what was not looked for deeper down would be looked for in less depth."""
    told: dict[Hashable, tuple[Callable[[], Any], int, Any]] = field(default_factory=dict)
    """The questions of circles that it asked, how to answer each, how much deeper it stood, and what was said."""
    is_whole: bool = True
    answer: Any = None
    seen: int = 0

    def tell(self, key: Hashable, compute: Callable[[], Any], depth: int, value: object) -> None:
        known = self.told.setdefault(key, (compute, depth - self.depth, value))
        self.is_whole &= known[2] is value


class Circles:
    """Answers by key, computed once.

    A circle is cut where it comes back to a question that is being answered. What was found with such a cut holds only
    for who asked first, so it is kept until that one has its answer, and then found anew for others: from what is
    known, where these are told the same of all that it asks.
    """

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self.depth = 0
        """How many answers are made of each other; whoever asks counts."""
        self._settled: dict[Hashable, tuple[Any, frozenset[Hashable], int]] = {}
        """The answers, the questions of the same circle that were cut for each, and what each rests on."""
        self._passing: dict[Hashable, tuple[Any, int, int]] = {}
        """What was found with a cut, how far out the question stands that it was cut at, and what it rests on."""
        self._asked: dict[Hashable, int] = {}
        """The questions that are being answered, outermost first."""
        self._cut = len(self._asked)
        self._finding = _Found(0)
        self._with_cuts: dict[Hashable, list[_Found]] = {}

    def answer(self, key: Hashable, compute: Callable[[], T], cut: T) -> T:
        """``compute()``; ``cut`` where this is what somebody needs to answer it."""
        settled = self._settled.get(key)
        if settled is not None and not settled[1]:
            self._looks.seen |= settled[2]
            return settled[0]  # type: ignore[no-any-return]
        value = self._said(key, compute)
        self._finding.tell(key, compute, self.depth, value)
        return cut if value is _CUT else value

    def _said(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        settled = self._settled.get(key)
        if settled is not None and settled[1].isdisjoint(self._asked):
            self._looks.seen |= settled[2]
            return settled[0]
        if key in self._asked:
            self._cut = min(self._cut, self._asked[key])
            return _CUT
        if key in self._passing:
            value, outermost, seen = self._passing[key]
            self._looks.seen |= seen
            self._cut = min(self._cut, outermost)
            return value
        return self._answered(key, compute)

    def may_answer(self, key: Hashable) -> bool:
        """Whether an answer, be it a cut, is at hand."""
        return key in self._settled or key in self._asked or key in self._passing

    def cut_short(self) -> None:
        """Note that an answer was not looked for, so deep was it asked: what rests on that holds for this time only."""
        self._cut, self._finding.is_whole = 0, False

    def _answered(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        here, before, around = len(self._asked), self._cut, self._finding
        self._asked[key] = self._cut = here
        looks = self._looks
        above, looks.seen = looks.seen, 0
        try:
            found = self._found_again(key) or self._found(compute)
        except BaseException:
            self._cut = before
            self._taken(here)
            raise
        finally:
            seen = looks.once(looks.seen)
            looks.seen |= above
            del self._asked[key]
            self._finding = around
        outermost = self._cut
        self._cut = min(before, outermost)
        taken = self._taken(here)
        if outermost < here:  # and so are those that were cut here: they are in the same circle
            self._passing.update({each: (value, outermost, seen) for each, value in taken.items()})
            self._passing[key] = (found.answer, outermost, seen)
            if found.is_whole and found not in (known := self._with_cuts.setdefault(key, [])):
                known.append(found)
        else:
            self._settled[key] = (found.answer, frozenset(taken), seen)
        return found.answer

    def _found(self, compute: Callable[[], Any]) -> _Found:
        found = self._finding = _Found(self.depth)
        found.answer = compute()
        found.seen = self._looks.seen
        return found

    def _found_again(self, key: Hashable) -> _Found | None:
        """What was found with cuts before, if all that it asked would be told the same now."""
        for found in self._with_cuts.get(key, ()):
            self._finding = _Found(self.depth)
            if found.depth >= self.depth and self._tells_again(found):
                self._looks.seen |= found.seen
                return found
        return None

    def _tells_again(self, found: _Found) -> bool:
        depth = self.depth
        try:
            for key, (compute, deeper, value) in found.told.items():
                self.depth = depth + deeper
                if self._said(key, compute) is not value:
                    return False
        finally:
            self.depth = depth
        return True

    def _taken(self, here: int) -> dict[Hashable, object]:
        """The questions that were cut for the one that stands ``here``, and what was found; no longer kept."""
        taken = {key: found for key, (found, outermost, _) in self._passing.items() if outermost >= here}
        for key in taken:
            del self._passing[key]
        return taken
