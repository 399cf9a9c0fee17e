"""A check that asks again only what an edit can have changed.

Each rule is asked about each file by itself, and what it looked at meanwhile is noted (`Looks`). While all of that is
as it was, it would say the same again. A fact that rests on something else now is found anew, and as long as it says
what it said, what rests on it stays as well.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from ..asking import RuleAnswer, ask, counted, told_by
from ..cache import kept
from ..cache.states import FileState, changed_ns, is_still, state_of
from ..model import Finding, Rule
from ..outcome import Skipped
from ..source.looks import DEFINED, FACT, FILE, PARSED, QUESTION, SKIPPED
from ..source.project import Project
from ..source.question import FileQuestion
from ..source.slices import Slices
from .marks import RunMarks
from .record import CheckRecord, Leaf, from_plain, to_plain
from .values import PlainValues, Unkept

KIND = "findings"
FEW_FILES = 8
"""What rests on fewer is found anew as quickly as it is read."""
MANY_LEAVES = 20_000
"""What has been looked at once and is no longer stays in a record; with more than so much all is asked anew."""
CLOCK_NS = 20_000_000
"""By how much the time of a change may lag behind the clock."""


class Rechecking:
    """What is known of a project from an earlier run, and what this one finds."""

    def __init__(
        self, project: Project, key: str, known: CheckRecord | None, states: dict[str, FileState], started: int
    ):
        self._project, self._key, self._known, self._started = project, key, known, started
        self._now = CheckRecord(states)
        self._slices: dict[str, Slices | None] = {}
        self._marks = RunMarks({path: state[1] for path, state in states.items()}, self._digest)
        self._changed_facts: dict[Leaf, bool] = {}
        self._held: dict[int, bool] = {}
        self._values = PlainValues(project)
        self._told: dict[object, dict[str, tuple[object, int]]] = {}
        looks = project.looks
        looks.are_noted = True
        for leaf in known.leaves if known is not None else ():
            looks.bit(*leaf)
        old = known.states if known is not None else {}
        self._edited = [path for path, state in states.items() if path in old and old[path][1] != state[1]]
        self._changed = self._changed_bits(known) if known is not None else 0
        self._facts = {looks.bit(*leaf): leaf for leaf in known.facts} if known is not None else {}
        self._unsure = sum(self._facts)
        if known is not None:
            looks.recall = self._recall
            project.use_answers(self._recall_files)

    @classmethod
    def of(cls, project: Project, key: str) -> Rechecking | None:
        """What was kept under ``key``, if it is of the same files; None where nothing can be kept."""
        started = time.time_ns() - CLOCK_NS
        try:
            known: CheckRecord | None = from_plain(cast(Any, kept.read(KIND, key)))
        except (TypeError, ValueError, LookupError, ImportError, AttributeError, RecursionError, zlib.error):
            known = None
        most = MANY_LEAVES + 4 * len(project.paths)
        if known is not None and (tuple(known.states) != project.paths or len(known.leaves) > most):
            known = None
        states = {path: _state(project, path, known) for path in project.paths}
        if not all(state[1] for state in states.values()):
            return None
        return cls(project, key, known, states, started)

    def _changed_bits(self, known: CheckRecord) -> int:
        """The files and parts of files that were edited, and the questions that these answer otherwise than before."""
        looks, changed = self._project.looks, 0
        for path in self._edited:
            changed |= looks.bit(FILE, path)
        edited = set(self._edited)
        for leaf, digest in known.parts.items():
            if leaf[1] not in edited or digest == self._digest(*leaf[1:]):
                self._now.parts[leaf] = digest
            else:
                changed |= looks.bit(*leaf)
        part = self._project.only(self._edited)
        numbers = {path: number for number, path in enumerate(known.states)}
        for leaf, files in known.answers.items():
            question = FileQuestion(leaf[1], leaf[2], leaf[3])
            now = part.candidates(question)
            answers = files
            for path in self._edited:
                bit = 1 << numbers[path]
                if (path in now) != bool(files & bit) or (path in now and not part.is_certain(path, question)):
                    changed |= looks.bit(*leaf)
                answers = answers | bit if path in now else answers & ~bit
            self._now.answers[leaf] = answers
        return changed

    def _digest(self, path: str, name: str) -> str:
        """What a name leads to in a file now; empty for a file that is no Python."""
        if path not in self._slices:
            before = self._project.looks.seen
            document = self._project.document(path)
            self._slices[path] = Slices(document) if document is not None and document.parses else None
            self._project.looks.seen = before
        slices = self._slices[path]
        return slices.of(name) if slices is not None else ""

    def _holds(self, seen: int) -> bool:
        """Whether all that something rests on is as it was."""
        holds = self._held.get(seen)
        if holds is None:
            holds, left = not seen & self._changed, seen & self._unsure
            while holds and left:
                bit = left & -left
                holds, left = not self._is_changed(self._facts[bit]), left ^ bit
            self._held[seen] = holds
        return holds

    def _is_changed(self, leaf: Leaf) -> bool:
        """Whether a fact may say something else: it rests on what has changed, and what it says now is not the same."""
        known = self._changed_facts.get(leaf)
        if known is None and self._known is not None:
            self._changed_facts[leaf] = True  # while it is being found
            seen, mark = self._known.facts[leaf]
            known = not self._holds(seen) and (mark is None or mark != self._mark(leaf))
            self._changed_facts[leaf] = known
            if not known:
                self._unsure &= ~self._project.looks.bit(*leaf)
        return bool(known)

    def _recall(self, compute: object, key: object) -> tuple[object, int] | None:
        """What a fact, or a memo for a key, said in the earlier run, where it would say it again."""
        told = self._told.get(compute)
        if told is None:
            told = self._told[compute] = self._known.told.get(_named(compute), {}) if self._known is not None else {}
        if not told:
            return None
        looks = self._project.looks
        before = looks.seen
        try:
            said = told.get(self._values.key(key))
            if said is None or not self._holds(said[1]):
                return None
            return self._values.value(said[0]), said[1]
        except Unkept:
            return None
        finally:
            looks.seen = before

    def _recall_files(self, question: FileQuestion) -> list[str] | None:
        """The files that may answer a question, as far as it was asked before."""
        files = self._now.answers.get((QUESTION, question.kinds, question.words, question.also))
        if files is None:
            return None
        return [path for path, bit in zip(self._project.paths, reversed(f"{files:b}"), strict=False) if bit == "1"]

    def _mark(self, leaf: Leaf) -> str | None:
        return self._marks.of(self._project.fact(*leaf[1:]))

    def regime(self, declared: Callable[[Project], str]) -> str:
        known, looks = self._known, self._project.looks
        if known is None or known.regime is None or not self._holds(known.regime[1]):
            looks.seen = 0
            self._now.regime = (declared(self._project), looks.seen)
        else:
            self._now.regime = known.regime
        return self._now.regime[0]

    def ask(self, project: Project, rules: Sequence[Rule], begins: Callable[[Rule], None]) -> list[RuleAnswer]:
        """The answer of each rule about what is checked."""
        paths = [path for path in project.paths if project.is_checked(path)]
        parts = {path: project.checking([path]) for path in paths}
        answers = []
        for rule in rules:
            begins(rule)
            answers.append(self._answer(rule, parts))
        failed = [at for at, answer in enumerate(answers) if answer.failure]
        for at in failed:
            answers[at] = ask(project, [rules[at]])[0]
        self._replay()
        if not failed and len(paths) == len(project.paths) and project.is_read:
            self._keep()
        return answers

    def _answer(self, rule: Rule, parts: dict[str, Project]) -> RuleAnswer:
        known, now, looks = self._known, self._now, self._project.looks
        before = known.units.get(rule.code) if known is not None else None
        numbers = {path: number for number, path in enumerate(self._project.paths)}
        now.units[rule.code] = rests = [0] * len(numbers)
        found: list[Finding] = []
        of_all: tuple[RuleAnswer, int] | None = None  # what it says of each file, where it never asks for which
        for path, part in parts.items():
            at = numbers[path]
            if known is not None and before is not None and self._holds(before[at]):
                rests[at] = before[at]
                findings = known.findings.get((rule.code, path), ())
            else:
                looks.seen, looks.of_checked = of_all[1] if of_all is not None else 0, False
                told = of_all[0] if of_all is not None else told_by(part, rule)
                if not looks.of_checked:
                    of_all = told, looks.seen
                answer = counted(part, rule, told)
                if answer.failure:
                    return answer
                rests[at] = looks.once(looks.seen | self._named_in(answer.findings))
                findings = answer.findings
            now.findings[rule.code, path] = findings
            found += findings
        return RuleAnswer(tuple(found))

    def _named_in(self, findings: tuple[Finding, ...]) -> int:
        """The files that findings name: where something stands there changes with what is above it."""
        looks, text = self._project.looks, repr(findings) if findings else ""
        return sum(looks.bit(FILE, path) for path in self._project.paths if path in text) if text else 0

    def _rest(self, leaf: Leaf) -> tuple[int, str | None] | None:
        """What a fact rests on, as far as it is known; its mark only where it was not found anew."""
        found = self._project.looks.of_facts.get(leaf[1:])
        if found is not None:
            return found, None
        return self._known.facts.get(leaf) if self._known is not None else None

    def _replay(self) -> None:
        """Note what was parsed and left out for the answers that were not asked for again."""
        looks, now = self._project.looks, self._now
        seen = 0
        for each in {each for rests in now.units.values() for each in rests}:
            seen |= each
        seen |= now.regime[1] if now.regime is not None else 0
        facts = {bit: leaf for leaf, bit in looks.bits.items() if leaf[0] == FACT}
        of_facts = sum(facts)
        left, done = seen & of_facts, 0
        while left:
            bit = left & -left
            done |= bit
            rest = self._rest(facts[bit])
            if rest is not None:
                now.facts[facts[bit]] = rest
                seen |= rest[0]
            left = seen & of_facts & ~done
        noted = [leaf for leaf, bit in looks.bits.items() if seen & bit]
        skips = [Skipped(leaf[1], leaf[2]) for leaf in noted if leaf[0] == SKIPPED]
        self._project.note(skips, [leaf[1] for leaf in noted if leaf[0] == PARSED])

    def _keep(self) -> None:
        """Keep all that was found, unless a file was changed meanwhile."""
        project, now, looks = self._project, self._now, self._project.looks
        if any(changed_ns(_place(project, path)) >= self._started for path in project.paths):
            return
        for leaf, (seen, _) in now.facts.items():
            if leaf[1:] in looks.of_facts:
                now.facts[leaf] = (seen, self._marks.of(project.fact(*leaf[1:])))
        now.told = self._all_told()
        numbers = {path: 1 << number for number, path in enumerate(project.paths)}
        for leaf in looks.bits:
            if leaf[0] == QUESTION and leaf not in now.answers:
                found = project.candidates(FileQuestion(leaf[1], leaf[2], leaf[3]))
                now.answers[leaf] = sum(numbers[path] for path in found)
            elif leaf[0] == DEFINED and leaf not in now.parts:
                now.parts[leaf] = self._digest(*leaf[1:])
        now.leaves = list(looks.bits)
        try:
            kept.write(KIND, self._key, to_plain(now))
        except (TypeError, KeyError):  # a fact that is found nowhere by its name
            return

    def _all_told(self) -> dict[str, dict[str, tuple[object, int]]]:
        """What was found now, and what was found before and still holds, where that is costly."""
        files = sum(bit for leaf, bit in self._project.looks.bits.items() if leaf[0] == FILE)
        told: dict[str, dict[str, tuple[object, int]]] = {}
        for compute, key, value, seen in self._project.remembered():
            if (seen & files).bit_count() >= FEW_FILES or _is_of_path(key):
                try:
                    asked, seen = self._values.key(key), self._values.named(seen)
                    said = self._values.plain(value)
                except Unkept:
                    continue
                told.setdefault(_named(compute), {})[asked] = (said, self._values.named(seen))
        for name, each in self._known.told.items() if self._known is not None else ():
            now = told.setdefault(name, {})
            now.update({key: said for key, said in each.items() if key not in now and self._holds(said[1])})
        return told


def _is_of_path(key: object) -> bool:
    """Whether a memo is asked about a path, alone or with more: that nothing is there spares to parse the file."""
    return isinstance(key[0] if isinstance(key, tuple) and key else key, str)


def _named(compute: object) -> str:
    return f"{getattr(compute, '__module__', '')}:{getattr(compute, '__qualname__', '')}"


def _place(project: Project, path: str) -> str:
    return os.path.join(os.fspath(project.root), *path.split("/"))


def _state(project: Project, path: str, known: CheckRecord | None) -> FileState:
    place = _place(project, path)
    state = is_still(place, known.states[path]) if known is not None else None
    return state or state_of(place)
