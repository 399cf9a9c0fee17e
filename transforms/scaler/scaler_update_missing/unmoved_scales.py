"""Tests for a skipped step that compare two scales of which none is read after the update."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import guard_facts, loops, position
from ....codemod.torch.scaler_steps import ScalerStep

MESSAGE = (
    "both scales are read before `scaler.update()`, which alone changes the scale: they are always equal, and a step"
    " that is skipped is not seen; read the second one after the update"
)


def unmoved_scales(step: ScalerStep) -> Iterator[Draft]:
    """``before = scaler.get_scale()``, ``step``, ``scaler.get_scale() < before``, and only then ``update``."""
    module, read = step.module, step.of("get_scale")
    for test in ast.walk(step.function) if len(read) > 1 else ():
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            continue
        sides = [_read_by(module, side) for side in (test.left, test.comparators[0])]
        compared = sorted((call for call in sides if call in read and call is not None), key=position)
        if len(compared) < 2 or compared[0] is compared[1]:
            continue
        first, second = compared
        stepping = next((call for call in step.of("step") if _is_between(first, call, second)), None)
        updates = [call for call in step.of("update") if _runs_with(module, second, call)]
        later = next((call for call in updates if position(call) > position(second)), None)
        straight = stepping is not None and all(_runs_with(module, first, call) for call in (stepping, second))
        if later is not None and straight and not any(_is_between(first, call, second) for call in step.of("update")):
            places = (
                module.place(first, "the scale is read here"),
                module.place(second, "and here"),
                module.place(later, "the scale only changes here"),
            )
            yield Draft.at(module, test, MESSAGE, places)


def _read_by(module: ModuleNames, node: ast.expr) -> ast.expr | None:
    """The call behind a variable, or the expression itself."""
    return only_value(module, node) if isinstance(node, ast.Name) else node


def _is_between(first: ast.AST, call: ast.AST, last: ast.AST) -> bool:
    return position(first) < position(call) < position(last)


def _runs_with(module: ModuleNames, call: ast.Call, other: ast.Call) -> bool:
    """Whether two calls run in the same passes of the same loops."""
    return loops(module, call) == loops(module, other) and guard_facts(module, call) == guard_facts(module, other)
