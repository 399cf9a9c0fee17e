"""What traces found on their way, for others that come by: an answer is used again where it would be found again.

It would not where the way back leads through what the new question is about, or where a limit would be reached sooner.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..source.project import Project
from .limits import MAX_CALLER_HOPS, MAX_DEPTH, MAX_STEPS
from .names import Binding

TraceQuestion: TypeAlias = ast.AST | Binding
NEVER = 1 << 30


@dataclass(slots=True)
class Reach:
    """How far a trace is, or went: expressions deep, expressions looked at, functions towards callers."""

    depth: int = 0
    steps: int = 0
    callers: int = 0

    def raise_to(self, other: Reach) -> None:
        self.depth = max(self.depth, other.depth)
        self.steps = max(self.steps, other.steps)
        self.callers = max(self.callers, other.callers)

    def __add__(self, other: Reach) -> Reach:
        return Reach(self.depth + other.depth, self.steps + other.steps, self.callers + other.callers)

    def __sub__(self, other: Reach) -> Reach:
        return Reach(self.depth - other.depth, self.steps - other.steps, self.callers - other.callers)

    @property
    def is_within_limits(self) -> bool:
        return self.depth <= MAX_DEPTH and self.steps <= MAX_STEPS and self.callers <= MAX_CALLER_HOPS


@dataclass(frozen=True, slots=True, eq=False)
class TraceResult:
    """The answers to a question, and what it took to find them."""

    values: tuple[Hashable, ...]
    asked: frozenset[TraceQuestion]
    reach: Reach
    steps: int
    looked: int
    """What the answers rest on (`Looks.seen`)."""


@dataclass(slots=True)
class TraceWay:
    """What is being asked by a trace and by those that it asks in turn."""

    open: dict[TraceQuestion, int] = field(default_factory=dict)
    """The questions that are being answered, outermost first, and how many were open before."""
    asked: list[TraceQuestion] = field(default_factory=list)
    """Every question so far."""
    farthest: Reach = field(default_factory=Reach)
    cut: int = NEVER
    """The outermost question that another one came back to."""
    is_limited: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a question began, and what held for the one around it."""

    here: Reach
    asked: int
    farthest: Reach
    cut: int
    is_limited: bool
    looked: int


class TraceMemory:
    """The answers of all traces of a project, by what counts as an answer and by expression."""

    def __init__(self, project: Project) -> None:
        self._looks = project.looks
        self._found: dict[tuple[object, ast.expr], TraceResult] = {}

    def known(self, domain: object, node: ast.expr, way: TraceWay, here: Reach) -> TraceResult | None:
        found = self._found.get((domain, node))
        if found is None or not (here + found.reach).is_within_limits:
            return None
        if any(question in found.asked for question in way.open):
            return None
        self._looks.seen |= found.looked
        way.asked += found.asked
        way.farthest.raise_to(here + found.reach)
        return found

    def begin(self, way: TraceWay, here: Reach) -> Mark:
        mark = Mark(here, len(way.asked), way.farthest, way.cut, way.is_limited, self._looks.seen)
        self._looks.seen = 0
        way.farthest, way.cut, way.is_limited = here + Reach(1, 1), NEVER, False
        return mark

    def leave(self, mark: Mark) -> None:
        """Give up a question."""
        self._looks.seen |= mark.looked

    def end(
        self, domain: object, node: ast.expr, way: TraceWay, mark: Mark, steps: int, values: tuple[Hashable, ...]
    ) -> None:
        """Remember the answers, unless a limit or a question further out has a part in them."""
        way.farthest.steps = max(way.farthest.steps, steps)
        looked = self._looks.once(self._looks.seen)
        self._looks.seen |= mark.looked
        is_whole = not way.is_limited and way.cut >= len(way.open)
        if is_whole:
            asked = frozenset(way.asked[mark.asked :])
            reach = way.farthest - mark.here
            self._found[domain, node] = TraceResult(values, asked, reach, steps - mark.here.steps, looked)
        mark.farthest.raise_to(way.farthest)
        way.farthest = mark.farthest
        way.cut = min(mark.cut, NEVER if is_whole else way.cut)
        way.is_limited = way.is_limited or mark.is_limited
