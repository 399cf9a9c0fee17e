"""What a rehearsal saw, as one file: written by ``--save``, read by ``check`` and ``migrate`` with ``--observed``."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .running import Rehearsal, RehearsedRun

VERSION = 1
_RETOLD = "Traceback (most recent call last)"
RecordJson = Any
LARGEST = 4 << 20
RecordSpan = tuple[int, int, int, int]
"""First row, first column, last row, column after the last: rows and columns from 1, in characters."""


@dataclass
class RehearsalRecord:
    """See docs/rehearsal.md for each key."""

    precfix: str
    root: str
    command: list[str]
    torch: str
    device: dict[str, RecordJson]
    python: str
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    steps: int = 0
    ended: str = "exit"
    error: str = ""
    died: dict[str, RecordJson] | None = None
    """The exception that ended the program, whatever it is of."""
    values: list[dict[str, RecordJson]] = field(default_factory=list)
    modules: list[dict[str, RecordJson]] = field(default_factory=list)
    failures: list[dict[str, RecordJson]] = field(default_factory=list)
    training: dict[str, RecordJson] = field(default_factory=dict)
    shadow: dict[str, RecordJson] | None = None
    notes: list[str] = field(default_factory=list)

    def dump(self) -> str:
        """The file: the same record always gives the same bytes."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1, sort_keys=False) + "\n"


def record_of(rehearsal: Rehearsal, run: RehearsedRun, version: str) -> RehearsalRecord:
    """The answers of all processes of a run, as one record."""
    return _Making(rehearsal, run, version).record


class _Making:
    """Puts the answers together."""

    def __init__(self, rehearsal: Rehearsal, run: RehearsedRun, version: str) -> None:
        self.root, self.answers = rehearsal.root, [answer for answer in run.answers if isinstance(answer, dict)]
        self._sources: dict[str, SourceFile] = {}
        self._code = _code_of(rehearsal)
        first: Mapping[str, Any] = self._main()
        self.record = RehearsalRecord(
            version,
            ".",
            list(rehearsal.command),
            str(first.get("torch", "")),
            {"profile": rehearsal.profile, "simulated": bool(first.get("simulated", True))},
            str(first.get("python") or ".".join(platform.python_version_tuple()[:2])),
            steps=max((int(each.get("steps", 0)) for each in self.answers), default=0),
            ended=run.ended or _ended(self.answers, run.status),
            error=next((str(each["error"]) for each in self._told_first() if each.get("error")), ""),
            training=dict(first.get("training", {})),
            shadow=first.get("shadow"),
        )
        died = next((each["died"] for each in self._told_first() if each.get("died")), None)
        self.record.died = self._located(died) if died else None
        self.record.values = self._values()
        self.record.modules = self._modules()
        self.record.failures = self._failures()
        self.record.notes = sorted({note for each in self.answers for note in each.get("notes", [])})
        first_bad = self.record.training.get("first_nonfinite")
        if isinstance(first_bad, dict):
            self.record.training["first_nonfinite"] = self._located(first_bad)
        self.record.files = {name: {"sha256": self._hash(name)} for name in sorted(self._sources)}

    def _main(self) -> Mapping[str, Any]:
        """The process that trained: of several, the first rank."""
        order = sorted(self.answers, key=lambda each: (-int(each.get("steps", 0)), each.get("rank", 0)))
        return order[0] if order else {}

    def _told_first(self) -> list[Any]:
        """Processes that died in the user's code before those that died of that: launchers, parents that tell it."""

        def later(answer: Mapping[str, Any]) -> tuple[bool, bool]:
            died = answer.get("died") or {}
            return not died.get("place"), _RETOLD in str(died.get("error", ""))

        return sorted(self.answers, key=later)

    def _source(self, name: str) -> SourceFile:
        return self._sources.setdefault(name, SourceFile(self.root / name, self._code.get(name)))

    def _hash(self, name: str) -> str:
        return hashlib.sha256(self._sources[name].data).hexdigest()

    def _located(self, entry: Mapping[str, Any]) -> dict[str, RecordJson]:
        """An entry with a place, its place spelled out."""
        rest = {key: value for key, value in entry.items() if key != "place"}
        place = entry.get("place")
        if not place:
            return {**rest, "filename": "", "location": None, "end_location": None}
        name, row, end_row, column, end_column = place
        first_row, first, last_row, last = self._source(name).span(row, end_row, column, end_column)
        ends = {"location": {"row": first_row, "column": first}, "end_location": {"row": last_row, "column": last}}
        return {**rest, "filename": name, **ends}

    def _values(self) -> list[dict[str, RecordJson]]:
        merged: dict[tuple[Any, ...], dict[str, Any]] = {}
        for answer in self.answers:
            for name, row, end_row, column, end_column, part, dtypes, ranks, devices, count in answer.get("values", []):
                found = self._value(name, (row, end_row, column, end_column), part)
                if found is None:
                    continue
                kind, (first_row, first, last_row, last) = found
                seen = merged.setdefault(
                    (name, first_row, first, last_row, last, kind),
                    {"dtypes": set(), "devices": set(), "ranks": set(), "count": 0},
                )
                for key, values in (("dtypes", dtypes), ("devices", devices), ("ranks", ranks)):
                    seen[key].update(values)
                seen["count"] += count
        return [_value_entry(key, merged[key]) for key in sorted(merged)]

    def _value(self, name: str, place: tuple[Any, ...], part: str) -> tuple[str, tuple[int, int, int, int]] | None:
        source = self._source(name)
        if place[2] is None:
            return None
        if part == "call":
            node = source.nodes.get(place)
            return None if node is None else (kind_of(node), source.span_of(node))
        form, count, index = part.split(" ")
        operand = source.operand(place, form, int(count), int(index))
        return None if operand is None else (kind_of(operand), source.span_of(operand))

    def _modules(self) -> list[dict[str, RecordJson]]:
        merged: dict[str, dict[str, RecordJson]] = {}
        for entry in (each for answer in self.answers for each in answer.get("modules", [])):
            known = merged.setdefault(entry["class"], {**self._located(entry), "instances": 0})
            known["instances"] = max(known["instances"], entry["instances"])
            for key in ("parameters", "buffers", "all_parameters"):
                known[key] = sorted({*known.get(key, []), *entry.get(key, [])})
        return [merged[name] for name in sorted(merged)]

    def _failures(self) -> list[dict[str, RecordJson]]:
        merged: dict[str, dict[str, RecordJson]] = {}
        for entry in (each for answer in self.answers for each in answer.get("failures", [])):
            found = self._located(entry)
            operands = [
                {**each, "born": [self._birth(step) for step in each.get("born", [])]}
                for each in found.get("operands", [])
            ]
            found["operands"] = operands
            found["stack"] = [self._located({"place": place}) for place in found.get("stack", [])]
            key = json.dumps({**found, "count": 0, "step": 0}, sort_keys=True)
            known = merged.setdefault(key, {**found, "count": 0})
            known["count"] += found["count"]
        return sorted(merged.values(), key=_order)

    def _birth(self, step: Mapping[str, Any]) -> dict[str, RecordJson]:
        located = self._located(step)
        at = located["location"] or {"row": 0, "column": 0}
        return {"filename": located["filename"], **at, "message": located["message"]}


def _code_of(rehearsal: Rehearsal) -> Mapping[str, bytes]:
    """The code of a notebook, under its path below the root."""
    notebook = rehearsal.notebook
    if notebook is None:
        return {}
    path = os.path.relpath((rehearsal.folder or rehearsal.root) / notebook.path, rehearsal.root)
    return {path.replace(os.sep, "/"): notebook.code.encode("utf-8")}


def _value_entry(key: tuple[Any, ...], seen: Mapping[str, Any]) -> dict[str, RecordJson]:
    name, first_row, first, last_row, last, kind = key
    return {
        "filename": name,
        "location": {"row": first_row, "column": first},
        "end_location": {"row": last_row, "column": last},
        "kind": kind,
        **{each: sorted(seen[each]) for each in ("dtypes", "devices", "ranks")},
        "count": seen["count"],
    }


def _order(failure: Mapping[str, Any]) -> tuple[Any, ...]:
    at = failure["location"] or {"row": 0, "column": 0}
    return failure["assumed"], failure["filename"], at["row"], at["column"], failure["kind"], failure["op"]


def _ended(answers: Iterable[Mapping[str, Any]], status: int) -> str:
    said = {str(each.get("ended", "exit")) for each in answers}
    for word in ("error", "steps", "interrupted"):
        if word in said:
            return word
    return "exit" if status == 0 else "error"


@dataclass
class SourceFile:
    """One file of the user, as Python reads it."""

    path: Path
    code: bytes | None = None
    """Python code where that is not what the file holds: of a notebook."""

    @cached_property
    def data(self) -> bytes:
        try:
            return self.path.read_bytes() if self.path.stat().st_size <= LARGEST else b""
        except OSError:
            return b""

    @cached_property
    def lines(self) -> Sequence[bytes]:
        return self._python.splitlines()

    @property
    def _python(self) -> bytes:
        return self.data if self.code is None else self.code

    @cached_property
    def nodes(self) -> Mapping[tuple[int, int | None, int | None, int | None], ast.expr]:
        """The expressions by row, end row and columns, as ``co_positions`` gives them; the outermost at a span."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(self._python)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}
        found: dict[tuple[int, int | None, int | None, int | None], ast.expr] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.expr):
                found.setdefault((node.lineno, node.end_lineno, node.col_offset, node.end_col_offset), node)
        return found

    def span(self, row: int, end_row: int, column: int | None, end_column: int | None) -> RecordSpan:
        if column is None or end_column is None:  # of Python 3.10: what begins in the line may end in a later one
            last = max((each[1] or row for each in self.nodes if each[0] == row), default=row)
            return row, 1, last, 1 + len(self._text(last, 1 << 20))
        return row, 1 + len(self._text(row, column)), end_row, 1 + len(self._text(end_row, end_column))

    def _text(self, row: int, column: int) -> str:
        line = self.lines[row - 1] if 0 < row <= len(self.lines) else b""
        return line[:column].decode("utf-8", "replace")

    def operand(self, place: Sequence[int | None], form: str, count: int, index: int) -> ast.expr | None:
        """The expression of one tensor among the ``count`` that an expression took; None where it is not certain."""
        row, end_row, column, end_column = place
        if row is None:
            return None
        node = self.nodes.get((row, end_row, column, end_column))
        parts = _parts(node, form)
        tensors = [each for each in parts if not isinstance(each, ast.Constant)]
        return tensors[index] if len(tensors) == count else None

    def span_of(self, node: ast.expr) -> RecordSpan:
        return self.span(node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset)


def _parts(node: ast.expr | None, form: str) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare) and len(node.comparators) == 1:
        return [node.left, node.comparators[0]]
    if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
        return []
    if any(keyword.arg is None for keyword in node.keywords):
        return []
    own = [node.func.value] if form == "method" and isinstance(node.func, ast.Attribute) else []
    return [*own, *node.args, *(keyword.value for keyword in node.keywords)]


def kind_of(node: ast.expr | None) -> str:
    """What an expression is called in a record."""
    if isinstance(node, ast.Name):
        return "name"
    if isinstance(node, ast.Attribute):
        return "attribute"
    return "call" if isinstance(node, ast.Call) else "operand"
