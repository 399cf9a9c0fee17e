"""A move is a transaction per run: all that decides what a run computes in arrives, or nothing of it moves.

Runs that share a file which would change move together. Where one step of them can only be reported, the others are
reported as well; where one is unsafe, all are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ...model import Applicability, Fix, Place, Span
from ...purpose.files import purpose_of
from ...purpose.runs import starts_of
from ...purpose.training import training_modules
from ...purpose.words import Purpose
from ...python.names import ModuleNames, names_of
from ...source.project import Project
from ..reading.copied_files import copied_by
from ..reading.declarations import scopes_of
from ..reading.known_readers import INSTRUCTIONS
from ..reading.run_code import is_used
from ..reading.runs import runs_of
from ..reading.source import ValueSource, only_fallbacks, unused_defaults
from .handed_values import FALLBACK, UNREAD
from .moves import Move

OVERRIDDEN = "configuration files give the values that are known to be used in place of this one"
STAYS = "this stays until it is moved by hand"
BY_HAND = "decides the same run and has to be changed by hand"
READ_BY_ANOTHER = "reads a file that would change, and is not moved: move it first, or copy the file for it"
MAX_STARTS = 40
"""How many programs a file of the project can be a part of: one with more is a library, which every program shares."""


def as_far_as_it_counts(move: Move, source: ValueSource, found: Sequence[ValueSource]) -> Move:
    """``move`` of one of the sources that a setting has; with leave only where another one may decide instead."""
    rivaled = UNREAD if source.is_guessed else OVERRIDDEN if source in unused_defaults(found) else ""
    if rivaled and isinstance(source.value, bool):
        return move.only_reported(rivaled, aside=True)  # of two switches the other one may stand elsewhere
    if rivaled:
        return replace(move, beside=True, unproved=rivaled) if move.edits else replace(move, aside=True)
    if only_fallbacks(found) and move.edits:
        return replace(move, unproved=move.unproved or FALLBACK)
    return move


def as_transactions(project: Project, moves: Iterable[Move]) -> Iterator[Move]:
    """``moves``, run by run: without edits where not all of a run arrives, unsafe where not all of it is safe.

    What only makes the others doubtful is said by them.
    """
    every = list(moves)
    found = [move for move in every if not move.beside]
    programs = _Programs(project)
    staying: dict[object, Move] = {}
    kept = [move for move in found if move.aside and _stays_as_it_is(move)]
    for group in groups_of(project, found):
        if all(move.follows for move in group):
            continue
        reader = _staying_reader(project, group, kept)
        if reader is not None:
            staying |= dict.fromkeys(programs.of_moves(group), reader)
            yield from (_held(move, reader, READ_BY_ANOTHER) for move in group if not move.doubt)
            continue
        obstacle = _obstacle(group) or _left_beside(group, found)
        if obstacle is not None:
            staying |= dict.fromkeys(programs.of_moves(group), obstacle)
            yield from (_held(move, obstacle, BY_HAND) for move in group if not move.doubt)
            continue
        doubtful = _doubtful(project, group)
        why = _why(project, doubtful) if doubtful is not None else ""
        yield from (move if move is doubtful else _doubted(move, why) for move in group if not move.doubt)
    for move in (item for item in every if item.beside):
        obstacle = next((staying[mark] for mark in programs.of_readers(move) if mark in staying), None)
        yield move if obstacle is None else _held(move, obstacle, BY_HAND)


def _stays_as_it_is(move: Move) -> bool:
    """Whether a whole program is only reported: a notebook beside the training code, an old file."""
    return move.path.endswith(".ipynb") or purpose_of(move.path) is Purpose.RETIRED


def _staying_reader(project: Project, group: Sequence[Move], kept: Sequence[Move]) -> Move | None:
    """The first step of a program that stays and names a file, not code, that the group would change."""
    edited = {edit.path for move in group for edit in move.edits if not edit.path.endswith((".py", ".ipynb"))}
    names = {path.rpartition("/")[2] for path in edited}
    for move in kept if names else ():
        document = project.document(move.path)
        if document is not None and any(name in document.text for name in names):
            return move
    return None


def _obstacle(group: Sequence[Move]) -> Move | None:
    """The first step that has to be made by hand; None where all are edits, or arrive with the others.

    What one part of the rule cannot respell another one may: then its edit of the same place counts.
    """
    changed = [move.place for move in group if move.edits]
    for move in group:
        places = move.settled_by or (() if move.firm else (move.place,))
        arrives = bool(places) and all(any(_meet(place, other) for other in changed) for place in places)
        if not (move.edits or move.aside or move.doubt or arrives):
            return move
    return None


def _left_beside(group: Sequence[Move], found: Sequence[Move]) -> Move | None:
    """What nothing is seen to read in a configuration file that the group would change: it belongs to the same run."""
    changed = {edit.path for move in group for edit in move.edits if not edit.path.endswith((".py", ".ipynb"))}
    return next((move for move in found if move.aside and not move.edits and move.path in changed), None)


def _meet(one: Place, other: Place) -> bool:
    return one.path == other.path and one.span.overlaps(other.span)


def _held(move: Move, other: Move, why: str) -> Move:
    said = f"{other.path}:{other.span.row} {why}"
    return move.only_reported(said, other.place.saying(STAYS)) if move.edits else move


def _doubtful(project: Project, group: Sequence[Move]) -> Move | None:
    """The first step that is not safe."""
    fixes: Iterator[tuple[Move, Fix | None]] = ((move, move.fix(project)) for move in group)
    unsafe = (move for move, fix in fixes if move.doubt or (fix and fix.applicability is Applicability.UNSAFE))
    return next(unsafe, None) if len(group) > 1 else None


def _doubted(move: Move, why: str) -> Move:
    return replace(move, unproved=why) if why and move.edits and not move.unproved else move


def _why(project: Project, doubtful: Move) -> str:
    """Why one step is not safe, said where the others are."""
    fix = doubtful.fix(project)
    reason = fix.message.rpartition("unsafe, as ")[2] if fix is not None else ""
    said = doubtful.doubt or f"moves with it, and {reason or 'is not known to be right'}"
    return f"{doubtful.path}:{doubtful.span.row} {said}"


# --- which moves belong together --------------------------------------------------------------------------------------


def groups_of(project: Project, moves: Sequence[Move]) -> list[list[Move]]:
    """The moves of runs that share a file which would change, in the order of their first one."""
    programs = _Programs(project)
    groups: list[tuple[set[object], list[Move]]] = []
    for move in moves:
        marks = programs.of_move(move)
        joined = [group for group in groups if not marks.isdisjoint(group[0])]
        if not joined:
            groups.append((marks, [move]))
            continue
        first = joined[0]
        first[0].update(marks)
        first[1].append(move)
        for other in joined[1:]:
            first[0].update(other[0])
            first[1].extend(other[1])
            groups.remove(other)
    return [group for _, group in groups]


class _Programs:
    """Which runs, launched or not, a file is a part of."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._runs = _runs_by_path(project)
        self._commands = _runs_by_command(project)
        self._paths = frozenset(project.paths)
        self._known: dict[tuple[str, frozenset[int]], frozenset[object]] = {}

    def of_move(self, move: Move) -> set[object]:
        """What a move shares with the other moves of its runs: the files that it edits, and the runs."""
        if move.command is not None and not move.aside:
            return {*self._commands.get((move.path, move.command), ()), (move.path, move.command)}
        places = _rows_changed(move)
        marks = {mark for path, rows in places.items() for mark in self._of(path, frozenset(rows))}
        if not marks:
            marks = {mark for place in move.evidence for mark in self._of(place.path, frozenset((place.span.row,)))}
        return {*marks, *places} if not move.aside else {("aside", move.path, move.span)}

    def of_moves(self, moves: Iterable[Move]) -> set[object]:
        return {mark for move in moves for mark in self.of_move(move)}

    def of_readers(self, move: Move) -> set[object]:
        """The programs of the code that a move names as what reads its place."""
        return {mark for place in move.evidence for mark in self._of(place.path, frozenset((place.span.row,)))}

    def _of(self, path: str, rows: frozenset[int]) -> frozenset[object]:
        if (path, rows) not in self._known:
            named = (*self._runs.get(path, ()), *self._starts(path))
            used = (mark for mark, start in named if not start or self._uses(start, path, rows))
            self._known[path, rows] = frozenset((*used, *self._instructed(path), *self._executing(path)))
        return self._known[path, rows]

    def _uses(self, start: str, path: str, rows: frozenset[int]) -> bool:
        """Whether a program uses what changes in a module, and does not only import that."""
        return any(is_used(self._project, start, path, row) for row in rows)

    def _instructed(self, path: str) -> Iterator[object]:
        """The scripts that instructions start with a configuration file."""
        stem = path.rpartition("/")[2]
        if path.endswith(".py"):
            return
        for document in (item for kind in INSTRUCTIONS for item in self._project.documents(kind, (stem,))):
            for line in document.text.replace("\\\n", " ").splitlines():
                if path in line:
                    words = line.split()
                    modules = (self._project.python_path(name) for flag, name in pairwise(words) if flag == "-m")
                    yield from (("start", name) for name in (*_scripts_named(self._paths, words), *modules) if name)

    def _executing(self, path: str) -> Iterator[object]:
        """The programs that execute a file of variables among their own: ``exec(open(name).read())``."""
        scopes = [item for item in scopes_of(self._project) if item.path == path and item.is_of_module]
        names = {setting.name for scope in scopes for setting in scope.settings if setting.key.means}
        documents = self._project.python_documents(("exec(",)) if names else ()
        executing = [module for module in (names_of(self._project, item) for item in documents) if _executes(module)]
        if all(module.path != path for module in (*executing, *training_modules(self._project))):
            bound = (module for module in executing if names <= module.module_scope.bindings.keys())
            yield from (("start", module.path) for module in bound)

    def _starts(self, path: str) -> Iterator[tuple[object, str]]:
        """The programs that no launch line names: every file in which one that uses this file can begin."""
        document = self._project.document(path) if path.endswith(".py") else None
        if document is not None:
            starts = starts_of(self._project, names_of(self._project, document))
            yield from ((("start", item.document.path), item.document.path) for item in starts[:MAX_STARTS])


def _executes(module: ModuleNames) -> bool:
    return any(module.scope_of(call) is module.module_scope for call in module.calls_by_name.get("exec", ()))


def _rows_changed(move: Move) -> dict[str, set[int]]:
    """The rows that a move is about, file by file."""
    found = {move.path: {move.span.row}}
    for edit in move.edits:
        span = getattr(edit.operation, "span", None)
        found.setdefault(edit.path, set()).add(span.row if isinstance(span, Span) else 1)
    return found


def _runs_by_path(project: Project) -> Mapping[str, list[tuple[object, str]]]:
    """The runs that each file belongs to; of a module that a run may only import with where that begins."""
    found: dict[str, list[tuple[object, str]]] = {}
    paths = frozenset(project.paths)
    for number, run in enumerate(runs_of(project)):
        named = _scripts_named(paths, run.command.words) if run.command is not None else ()
        own = {*(member.scope.path for member in run.members), *run.modules[:1], *run.configured, *named}
        own |= copied_by(project, run.place.path)
        for path in dict.fromkeys((*own, *run.modules)):
            found.setdefault(path, []).append((("run", number), "" if path in own else run.modules[0]))
    return found


def _scripts_named(paths: frozenset[str], words: Sequence[str]) -> Iterator[str]:
    """The project's scripts among the words: ``python submit.py -- accelerate launch train.py`` starts both."""
    plain = (word.removeprefix("./") for word in words if word.endswith(".py"))
    return (word for word in plain if word in paths)


def _runs_by_command(project: Project) -> Mapping[tuple[str, int], list[object]]:
    found: dict[tuple[str, int], list[object]] = {}
    for number, run in enumerate(runs_of(project)):
        if run.command is not None:
            found.setdefault((run.place.path, run.command.start), []).append(("run", number))
    return found
