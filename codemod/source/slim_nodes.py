"""Syntax nodes with slots in place of a dictionary: what is read of trees stays in memory until the end of a run.

A slim node is an instance of the class it stands for, with the same fields, in a third of the memory. Not every node of
such a class is slim: tables by class of node are made with `of_both`, and `ORIGINAL` tells the class in ``ast``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, TypeVar

from .child_fields import CHILD_FIELDS

T = TypeVar("T")

ROWS = (*range(20_000),)
"""Numbers of rows, each once: the parser makes new ones for every node."""
_MANY = len(ROWS)

_KINDS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Name: ("id", "ctx"),
    ast.Constant: ("value",),
    ast.Attribute: ("value", "attr", "ctx"),
    ast.Call: ("func", "args", "keywords"),
    ast.keyword: ("arg", "value"),
    ast.arg: ("arg",),
    ast.Subscript: ("value", "slice", "ctx"),
    ast.BinOp: ("left", "op", "right"),
    ast.Compare: ("left", "ops", "comparators"),
    ast.Tuple: ("elts", "ctx"),
    ast.UnaryOp: ("op", "operand"),
    ast.BoolOp: ("op", "values"),
}
"""The most frequent nodes, with the fields that a slim one has. It is None where another one would be, by the class."""
_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def _slim(kind: type[ast.AST], fields: tuple[str, ...]) -> Any:
    return type(kind.__name__, (kind,), {"__slots__": (*fields, *_PLACE), "__module__": __name__})


SLIM: dict[type[ast.AST], Any] = {kind: _slim(kind, fields) for kind, fields in _KINDS.items()}
"""The slim class for each class of node that has one."""


class _Originals(dict[Any, type[ast.AST]]):
    def __missing__(self, kind: type[ast.AST]) -> type[ast.AST]:
        self[kind] = kind
        return kind


ORIGINAL: Mapping[Any, type[ast.AST]] = _Originals({slim: kind for kind, slim in SLIM.items()})
"""The class in ``ast`` that the class of a node stands for."""
CHILD_FIELDS.update({slim: CHILD_FIELDS[kind] for kind, slim in SLIM.items()})


def is_read(node: ast.AST) -> TypeGuard[ast.Name | ast.Attribute]:
    """Whether a name or an attribute is read there: asked of more nodes than anything else."""
    return node.__class__ in _NAMED and node.ctx.__class__ is ast.Load  # type: ignore[attr-defined]


def of_both(table: Mapping[Any, T]) -> dict[Any, T]:
    """A table by class of node that also knows the slim classes."""
    return {**table, **{SLIM[kind]: value for kind, value in table.items() if kind in SLIM}}


def slimmed(tree: ast.Module) -> int:
    """Put slim nodes into a tree that comes from the parser; returns how deep it is."""
    makers, fields_of, syntax = _MAKERS, CHILD_FIELDS, ast.AST
    level: list[Any] = [tree]
    depth = 0
    while level:
        depth += 1
        below: list[Any] = []
        for node in level:
            for field in fields_of[node.__class__]:
                value: Any = getattr(node, field, None)
                kind = value.__class__
                if kind is list:
                    for at, child in enumerate(value):
                        kind = child.__class__
                        if kind in makers:
                            child = value[at] = makers[kind](child)
                            if fields_of[kind]:
                                below.append(child)
                        elif isinstance(child, syntax):
                            below.append(child)
                elif kind in makers:
                    value = makers[kind](value)
                    setattr(node, field, value)
                    if fields_of[kind]:
                        below.append(value)
                elif isinstance(value, syntax):
                    below.append(value)
        level = below
    return depth


_NAMED = frozenset(of_both({ast.Name: None, ast.Attribute: None}))


# --- by class, the most frequent by hand ------------------------------------------------------------------------------


def _name(node: Any) -> Any:
    new = _new_name(_Name)
    new.id, new.ctx, row = node.id, node.ctx, node.lineno
    new.col_offset, new.end_col_offset = node.col_offset, node.end_col_offset
    new.lineno = new.end_lineno = ROWS[row] if row < _MANY else row
    return new


def _constant(node: Any) -> Any:
    if node.kind is not None:
        return node
    new = _new_constant(_Constant)
    new.value, new.col_offset, new.end_col_offset = node.value, node.col_offset, node.end_col_offset
    row, end = node.lineno, node.end_lineno
    new.lineno, new.end_lineno = (ROWS[row], ROWS[end]) if end < _MANY else (row, end)
    return new


def _attribute(node: Any) -> Any:
    new = _new_attribute(_Attribute)
    new.value, new.attr, new.ctx = node.value, node.attr, node.ctx
    new.col_offset, new.end_col_offset = node.col_offset, node.end_col_offset
    row, end = node.lineno, node.end_lineno
    new.lineno, new.end_lineno = (ROWS[row], ROWS[end]) if end < _MANY else (row, end)
    return new


def _maker(kind: type[ast.AST]) -> Callable[[Any], Any]:
    slim, fields = SLIM[kind], _KINDS[kind]
    others = tuple(name for name in kind._fields if name not in fields)

    def make(node: Any) -> Any:
        new = slim.__new__(slim)
        for name in fields:
            value = getattr(node, name)
            if value is None:
                return node
            setattr(new, name, value)
        for name in others:
            if getattr(node, name) is not None:
                return node
        new.col_offset, new.end_col_offset = node.col_offset, node.end_col_offset
        row, end = node.lineno, node.end_lineno
        new.lineno, new.end_lineno = (ROWS[row], ROWS[end]) if end < _MANY else (row, end)
        return new

    return make


_Name, _Constant, _Attribute = SLIM[ast.Name], SLIM[ast.Constant], SLIM[ast.Attribute]
_new_name, _new_constant, _new_attribute = _Name.__new__, _Constant.__new__, _Attribute.__new__
_MAKERS: dict[type[ast.AST], Callable[[Any], Any]] = {
    **{kind: _maker(kind) for kind in SLIM},
    ast.Name: _name,
    ast.Constant: _constant,
    ast.Attribute: _attribute,
}
