"""The training steps a scaler takes part in: per function, its scale, unscale_, step and update in source order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..python.arguments import argument, receiver_of
from ..python.functions import called_function
from ..python.names import ModuleNames, last_name
from ..python.paths import calls_of, exclusive, function_of, position
from ..source.project import Project
from .clipping import calls_within
from .scalers import Scaler, ScalerUse


@dataclass(frozen=True, slots=True, eq=False)
class ScalerStep:
    scaler: Scaler
    module: ModuleNames
    function: ast.AST
    uses: tuple[ScalerUse, ...]
    """All uses in this function, by position."""

    def of(self, *kinds: str) -> list[ast.Call]:
        """The calls of these methods, by position."""
        return [use.call for use in self.uses if use.kind in kinds and use.call is not None]

    def optimizer(self, call: ast.Call) -> ast.expr | None:
        """What ``step(...)`` or ``unscale_(...)`` is given."""
        return argument(call, "optimizer", position=0)

    def text_of_optimizer(self, call: ast.Call) -> str:
        """The source of ``optimizer(call)``, normalized; "" when there is none."""
        node = self.optimizer(call)
        return ast.unparse(node) if node is not None else ""

    def name_of_scaler(self, call: ast.Call) -> str:
        """The expression that ``call`` is a method of."""
        owner = receiver_of(call)
        return ast.unparse(owner) if owner is not None else "scaler"


def steps_of(scaler: Scaler) -> Iterator[ScalerStep]:
    """The functions that call ``scaler.step``, with all their uses of it."""
    return (item for item in passes_of(scaler) if item.of("step"))


def passes_of(scaler: Scaler) -> Iterator[ScalerStep]:
    """The functions that use ``scaler``, with all their uses of it."""
    groups: dict[ast.AST, list[ScalerUse]] = {}
    for use in scaler.uses:
        groups.setdefault(function_of(use.module, use.node), []).append(use)
    for function, uses in groups.items():
        ordered = sorted(uses, key=lambda use: position(use.node))
        yield ScalerStep(scaler, ordered[0].module, function, tuple(ordered))


def may_unscale(project: Project, step: ScalerStep, start: tuple[int, int], before: ast.AST) -> bool:
    """Whether something that runs between ``start`` and ``before`` may unscale in a way that is not a plain call.

    A helper that calls some ``unscale``, the scaler handed to unknown code, or a division by ``get_scale()``.
    """
    reached = {id(use.call) for use in step.scaler.uses if use.kind in ("unscale_", "get_scale", "private")}
    for use in step.uses:
        between = start < position(use.node) <= _end(before)
        if between and use.kind in ("escaped", "private", "bound-method", "get_scale", "method", "stored"):
            return True
    for call in calls_of(step.module, step.function):
        if not start < position(call) <= _end(before) or exclusive(step.module, call, before):
            continue
        if "unscale" in last_name(call.func).lower() and id(call) not in reached:
            return True
        target = called_function(project, step.module, call)
        if target is None:
            continue
        inner = [item for _, item in calls_within(project, target)]
        if any("unscale" in last_name(item.func).lower() or id(item) in reached for item in inner):
            return True
    return False


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0
