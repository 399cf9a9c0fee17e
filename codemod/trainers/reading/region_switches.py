"""What switches a region on: ``autocast(enabled=args.amp)``, and ``if args.amp:`` around it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ...python.paths import guards
from ...torch.autocast import Autocast
from .stated_words import is_switch, text_of

ENABLED = "enabled="
"""How the condition of a region begins, and of what switches it."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionSwitch:
    """An expression, and the truth value of it with which the region computes in 16 bits."""

    node: ast.expr
    opens: bool

    @property
    def condition(self) -> str:
        """How the ledger says it."""
        return f"{ENABLED}{'' if self.opens else 'not '}{ast.unparse(self.node)}"


def switch_of(region: Autocast) -> RegionSwitch | None:
    """The switch of a region; None where it has none that is a plain name."""
    if region.enabled_node is not None:
        return _switch(region.enabled_node, True)
    found = reversed(guards(region.module, region.node))
    tests = (_switch(test, guard.holds) for guard in found for test in _parts(guard.test, guard.holds))
    return next((item for item in tests if item is not None and is_switch(_name(item.node))), None)


def condition_of(region: Autocast) -> str:
    """What the ledger says of the switch of a region; empty for one that is always on."""
    switch = switch_of(region)
    if switch is not None:
        return switch.condition
    return f"{ENABLED}{text_of(region.enabled_node)}" if region.enabled_node is not None else ""


def _parts(test: ast.expr, holds: bool) -> tuple[ast.expr, ...]:
    """The tests that all have to come out so: both of ``args.amp and scaler is not None``."""
    is_whole = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or)
    return tuple(test.values) if is_whole and isinstance(test, ast.BoolOp) else (test,)


def _switch(node: ast.expr, opens: bool) -> RegionSwitch | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _switch(node.operand, not opens)
    return RegionSwitch(node, opens) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else None


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
