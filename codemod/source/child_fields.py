"""Which fields of a syntax node lead to other nodes: a walk over a tree looks into no others."""

from __future__ import annotations

import ast

_NO_NODES = {ast.Constant: (), ast.Global: (), ast.Nonlocal: ()}
_PLAIN = frozenset(
    {
        *("ctx", "op", "ops"),  # what they hold carries nothing
        *("id", "attr", "arg", "module", "level", "asname", "rest", "tag", "kind", "conversion", "simple", "is_async"),
        *("type_comment", "kwd_attrs"),
    }
)
"""Fields that hold no nodes, in whichever class, but for contexts and operators."""


class _ChildFields(dict[type[ast.AST], tuple[str, ...]]):
    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        fields = self[kind] = tuple(name for name in reversed(kind._fields) if name not in _PLAIN)
        return fields


CHILD_FIELDS: dict[type[ast.AST], tuple[str, ...]] = _ChildFields(_NO_NODES)
"""For each class of node its fields that may hold nodes or lists of them, last one first."""


class _InOrder(dict[type[ast.AST], tuple[str, ...]]):
    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        fields = self[kind] = CHILD_FIELDS[kind][::-1]
        return fields


_IN_ORDER = _InOrder()


def within(top: ast.AST) -> list[ast.AST]:
    """`ast.walk` in a third of the time: ``top`` and all nodes in it, by depth, less contexts and operators."""
    found = [top]
    fields_of, syntax = _IN_ORDER, ast.AST
    for node in found:
        for field in fields_of[node.__class__]:
            value = getattr(node, field, None)
            if value.__class__ is list:
                if value:
                    found += [child for child in value if isinstance(child, syntax)]
            elif isinstance(value, syntax):
                found.append(value)
    return found
