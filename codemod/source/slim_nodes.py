"""Syntax nodes with slots in place of a dictionary: what is read of trees stays in memory until the end of a run.

A slim node is an instance of the class it stands for, with the same fields, in a third of the memory, and knows what it
is a part of (`Parents`). Not every node is slim (a rule may make one up): tables by class of node are made with
`of_both`, and `ORIGINAL` tells the class in ``ast``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast, overload

from .child_fields import CHILD_FIELDS

T = TypeVar("T")

ROWS = (*range(20_000),)
"""Numbers of rows, each once: the parser makes new ones for every node."""
_MANY = len(ROWS)
_NOTHING: list[Any] = []
"""Every list of a tree in which nothing is: half of the lists."""
_BASES = (ast.stmt, ast.expr, ast.excepthandler, ast.pattern, getattr(ast, "type_param", ast.pattern))
_OTHERS = (ast.keyword, ast.arg, ast.arguments, ast.alias, ast.comprehension, ast.withitem, ast.match_case)
_NEVER = "type_comment"
"""The field that the parser leaves alone."""
_OWN_CALLS = 20
"""Calls that `slimmed` makes besides one for each level of a tree."""


def _optional(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a class that are None by the class where nothing is."""
    return tuple(name for name in kind._fields if name != _NEVER and getattr(kind, name, kind) is None)


def _slims(kind: type[ast.AST]) -> dict[tuple[bool, ...], Any]:
    """The slim classes for a class, by which of its optional fields are there: a slot is made for no others."""
    found, optional = {}, _optional(kind)
    for present in product((True, False), repeat=len(optional)):
        absent = {_NEVER, *(name for name, is_there in zip(optional, present, strict=True) if not is_there)}
        fields = tuple(name for name in kind._fields if name not in absent)
        slots = (*fields, *kind._attributes, "parent")
        found[present] = type(kind.__name__, (kind,), {"__slots__": slots, "__module__": __name__, "filled": fields})
    return found


_SLIMS: dict[type[ast.AST], dict[tuple[bool, ...], Any]] = {
    kind: _slims(kind) for kind in (*_OTHERS, *(kind for base in _BASES for kind in base.__subclasses__()))
}


class _Originals(dict[Any, type[ast.AST]]):
    def __missing__(self, kind: type[ast.AST]) -> type[ast.AST]:
        self[kind] = kind
        return kind


ORIGINAL: Mapping[Any, type[ast.AST]] = _Originals(
    {slim: kind for kind, slims in _SLIMS.items() for slim in slims.values()}
)
"""The class in ``ast`` that the class of a node stands for."""
CHILD_FIELDS.update(
    {slim: tuple(name for name in CHILD_FIELDS[kind] if name in slim.filled) for slim, kind in ORIGINAL.items()}
)


class Parents:
    """For each node of a tree what it is a part of. Nodes that are made up stand nowhere."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    @overload
    def get(self, node: ast.AST | None) -> ast.AST | None: ...
    @overload
    def get(self, node: ast.AST, other: T) -> ast.AST | T: ...
    def get(self, node: ast.AST | None, other: object = None) -> object:
        return getattr(node, "parent", other)

    def __getitem__(self, node: ast.AST) -> ast.AST:
        return node.parent  # type: ignore[attr-defined, no-any-return]

    def __contains__(self, node: ast.AST) -> bool:
        """Whether a node is below the top of this tree, and of no other one."""
        above = getattr(node, "parent", None)
        while above is not None and above is not self._tree:
            above = getattr(above, "parent", None)
        return above is not None


def is_read(node: ast.AST) -> TypeGuard[ast.Name | ast.Attribute]:
    """Whether a name or an attribute is read there: asked of more nodes than anything else."""
    return node.__class__ in _NAMED and node.ctx.__class__ is ast.Load  # type: ignore[attr-defined]


def of_both(table: Mapping[Any, T]) -> dict[Any, T]:
    """A table by class of node that also knows the slim classes."""
    return {**table, **{slim: value for kind, value in table.items() for slim in _SLIMS.get(kind, {}).values()}}


def slimmed(tree: ast.Module, depth: int) -> None:
    """Put slim nodes into a tree that comes from the parser, and note them (`nodes_of`).

    Raises `RecursionError` where more than ``depth`` nodes with parts stand in each other: then the tree is of no use.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + depth + _OWN_CALLS)
    try:
        _NODES.append(tree)
        for field in reversed(CHILD_FIELDS[ast.Module]):
            parts = getattr(tree, field)
            for at, child in enumerate(parts):
                parts[at] = _MAKERS[child.__class__](child, tree, depth - 1)
        tree.nodes = _NODES[:]  # type: ignore[attr-defined]
    finally:
        _NODES.clear()
        sys.setrecursionlimit(limit)


def nodes_of(tree: ast.Module) -> list[ast.AST]:
    """Every node of a slim tree in source order of its parents (breadth first inside a parent)."""
    return tree.nodes  # type: ignore[attr-defined, no-any-return]


_NAMED = frozenset(of_both({ast.Name: None, ast.Attribute: None}))
_Maker: TypeAlias = Callable[[Any, Any, int], Any]


_PLACING = """
    new.col_offset, new.end_col_offset = node.col_offset, node.end_col_offset
    row, end = node.lineno, node.end_lineno
    new.lineno, new.end_lineno = (ROWS[row], ROWS[end]) if end < MANY else (row, end)"""
_DEEPER = """
    if depth < 0: raise RecursionError
    depth -= 1"""
_PART = """
    part = node.{name}
    if part.__class__ is list:
        if part:
            for at, each in enumerate(part): part[at] = MAKERS[each.__class__](each, new, depth)
        else: part = NOTHING"""
_MADE = "MAKERS[part.__class__](part, new, depth)"


def _maker(kind: type[ast.AST]) -> _Maker:
    """What makes the slim node for a node of a class, as a part of another node, and those for all in it.

    Written out, as it runs for every node. Each field is set by itself, which takes less than to have the class of
    `ast` look for the names.
    """
    optional, parts = _optional(kind), CHILD_FIELDS[kind][::-1]
    present = ", ".join(f"node.{name} is not None" for name in optional)
    code = f"def make(node, parent, depth):{_DEEPER if parts else ''}\n    new = new_of(SLIMS[{present},])"
    if len(optional) < 2:
        code = code.replace(f"SLIMS[{present},]", f"FULL if {present} else LESS" if optional else "FULL")
    code += "\n    new.parent = parent\n    ADD(new)" + _PLACING * bool(kind._attributes)
    for name in kind._fields:
        if name in optional:
            made = _MADE if name in parts else "part"
            code += f"\n    part = node.{name}\n    if part is not None: new.{name} = {made}"
        elif name in parts:
            code += _PART.format(name=name) + f"\n    else: part = {_MADE}\n    new.{name} = part"
        elif name != _NEVER:
            code += f"\n    new.{name} = node.{name}"
    slims = _SLIMS[kind]
    full, less = slims[(True,) * len(optional)], slims[(False,) * len(optional)]
    known = {"new_of": full.__new__, "SLIMS": slims, "FULL": full, "LESS": less, "MAKERS": _MAKERS}
    known |= {"ROWS": ROWS, "MANY": _MANY, "NOTHING": _NOTHING, "ADD": _NODES.append}
    exec(f"{code}\n    return new", known)
    return cast(_Maker, known["make"])


class _Makers(dict[Any, _Maker]):
    def __missing__(self, kind: type[ast.AST]) -> _Maker:
        maker = self[kind] = _maker(kind) if kind in _SLIMS else _as_it_is
        return maker


def _as_it_is(node: Any, _parent: Any, _depth: int) -> Any:
    """What is no node: None in a list."""
    return node


_NODES: list[ast.AST] = []
"""Those of the tree that is being made slim, in order."""
_MAKERS = _Makers()
"""What makes the slim nodes for those of a class, written when the first one is met."""
