"""What is looked at while something is found out, so that it is known what an edit can have changed.

Each thing that can be looked at (a file, a question for files, a fact) is one bit of a number: what an answer rests on
is a number, and that of an answer which needed others holds theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    from .project import Project

    Key = TypeVarTuple("Key")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
FILE, QUESTION, FACT, PARSED, SKIPPED = "file", "question", "fact", "parsed", "skipped"
"""What can be noted: a file's content, which files answer a question, a fact of the project; and, because a run tells
of them, that a file was parsed and that one was left out."""
DEFINED = "defined"
"""What can be noted of a part of a file: what a name at its top leads to (`slices`)."""


class Looks:
    """What has been looked at since the innermost question that is being answered began."""

    __slots__ = ("_same", "are_noted", "bits", "of_checked", "of_facts", "recall", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self.are_noted = False
        self.of_checked = False
        """Whether somebody has asked which files are checked, so that he may say something else about others."""
        self.bits: dict[tuple[Any, ...], int] = {}
        """A bit for each thing, in the order in which they came up."""
        self.of_facts: dict[object, int] = {}
        """What each fact that has been computed rests on."""
        self.recall: Callable[[object, object], tuple[Any, int] | None] | None = None
        """What an earlier run has found for a fact, or for a memo and its key, and what it rests on."""
        self._same: dict[int, int] = {}

    def note(self, *what: object) -> None:
        """Note that something is looked at."""
        if self.are_noted:
            self.seen |= self.bit(*what)

    def note_defined(self, path: str, name: str, whole: int) -> None:
        """Note that what a name of a file leads to is looked at; ``whole`` is the bit of the file."""
        if not self.seen & whole:
            self.seen |= self.bit(DEFINED, path, name)

    def bit(self, *what: object) -> int:
        found = self.bits.get(what)
        if found is None:
            found = self.bits[what] = 1 << len(self.bits)
        return found

    def once(self, seen: int) -> int:
        """The same number, kept once: many answers rest on the same."""
        return self._same.setdefault(seen, seen)


class Remembering:
    """Answers about a project, each computed once, with what it rests on."""

    def __init__(self, looks: Looks) -> None:
        self.looks = looks
        self._whole = cast("Project", self)
        self._facts: dict[object, tuple[Any, int]] = {}
        self._checked_facts: dict[object, tuple[Any, int]] = {}

    def fact(self, compute: Callable[[Project, Unpack[Key]], T], *key: Unpack[Key]) -> T:
        """``compute`` of the whole project (and of a name), whatever is checked: computed once.

        What rests on a fact rests on what it says, and not on the files that it looks at.
        """
        question, looks = (compute, *key), self.looks
        known = self._facts.get(question)
        if known is None:
            before, looks.seen = looks.seen, 0
            try:
                known = looks.recall(compute, _asked(key)) if looks.recall is not None else None
                if known is None:
                    known = (compute(self._whole, *key), 0)
                    looks.of_facts[question] = looks.seen
                looks.seen = 0
                looks.note(FACT, *question)
                known = self._facts[question] = (known[0], looks.seen)
            finally:
                looks.seen |= before
        else:
            looks.seen |= known[1]
        return known[0]  # type: ignore[no-any-return]

    def checked_fact(self, compute: Callable[[Project], T]) -> T:
        """``compute(self)``, computed once for what is checked: it may differ where other files are."""
        self.looks.of_checked = True
        return self._remembered(self._checked_facts, compute, lambda: compute(cast("Project", self)))

    def memo(self, compute: Callable[[Project, K], T], key: K) -> T:
        """``compute`` of the whole project and ``key``, computed once: a fact about one module, name or node."""
        question, looks = (compute, key), self.looks
        known = self._facts.get(question)  # one look-up: hashing keys is what it costs
        if known is None and looks.recall is not None:
            known = looks.recall(compute, key)
            if known is not None:
                self._facts[question] = known
        if known is None:
            before, looks.seen = looks.seen, 0
            try:
                value = compute(self._whole, key)
                known = self._facts[question] = (value, looks.once(looks.seen) if looks.seen else 0)
            finally:
                looks.seen |= before
        else:
            looks.seen |= known[1]
        return known[0]

    def remembered(self) -> Iterator[tuple[object, object, object, int]]:
        """Each fact, and each memo with its key, that was found in this run: its answer, and what that rests on."""
        for question, (value, seen) in self._facts.items():
            if not isinstance(question, tuple) or not callable(question[0]):
                continue
            if (FACT, *question) in self.looks.bits:
                if question in self.looks.of_facts:  # else it was recalled
                    yield question[0], _asked(question[1:]), value, self.looks.of_facts[question]
            elif len(question) == 2:
                yield *question, value, seen

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """``compute()``, the same for all who ask with this key."""
        return self._remembered(self._facts, key, compute)

    def _remembered(self, answers: dict[object, tuple[Any, int]], key: object, compute: Callable[[], T]) -> T:
        known, looks = answers.get(key), self.looks
        if known is None:
            before, looks.seen = looks.seen, 0
            try:
                value = compute()
                known = answers[key] = (value, looks.once(looks.seen))
            finally:
                looks.seen |= before
        else:
            looks.seen |= known[1]
        return known[0]


def _asked(key: tuple[object, ...]) -> object:
    """What a fact is asked about, as a memo is."""
    return key if len(key) > 1 else key[0] if key else None
