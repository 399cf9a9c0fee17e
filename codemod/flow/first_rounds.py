"""Loops that gather results: the first round starts a tensor, and the others add to it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..source.child_fields import within
from ..source.project import Project


def in_order(_project: Project, node: ast.If) -> tuple[tuple[list[ast.stmt], list[ast.stmt]], set[str]]:
    """The branches, first the one that starts what the other one continues, and the names of that."""
    if not node.orelse:
        return (node.body, node.orelse), set()
    continued = started(node.orelse, node.body)
    if continued:
        return (node.orelse, node.body), continued
    return (node.body, node.orelse), started(node.body, node.orelse)


def started(first: Sequence[ast.stmt], second: Sequence[ast.stmt]) -> set[str]:
    """The names that ``first`` binds afresh and ``second`` continues: ``x = y`` and ``x = torch.cat([x, y])``.

    What such a name held before the loop is never continued.
    """
    begun, added = _bound(first), _bound(second)
    shared = {name for name, _ in begun}.intersection(name for name, _ in added)
    fresh = {name for name, value in begun if name in shared and name not in _read(value)}
    return {name for name, value in added if name in fresh and name in _read(value)}


def _bound(body: Sequence[ast.stmt]) -> list[tuple[str, ast.expr]]:
    return [
        (target.id, statement.value)
        for statement in body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    ]


def _read(value: ast.expr) -> set[str]:
    return {node.id for node in within(value) if isinstance(node, ast.Name)}
