"""Scopes and the names bound in them, as one walk over a module finds them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..source.child_fields import within

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode: TypeAlias = ast.Module | ast.ClassDef | FunctionNode | ast.Lambda

AttributeStore: TypeAlias = tuple[list[str] | None, ast.expr | None, ast.stmt]
"""The receiver (``["self"]``; None for a name in a class body, empty for no plain chain), the value where one
expression gives it, and the statement."""


BindingKind: TypeAlias = Literal[
    "assign", "augmented", "parameter", "import", "function", "class", "with", "for", "unpacked", "other"
]


@dataclass(slots=True, eq=False)  # nobody changes one: frozen, it takes six times as long to make, and there are many
class Binding:
    """One place that gives a name its value. ``value`` is None where no single expression does (loops, imports)."""

    name: str
    kind: BindingKind
    """``assign``, ``augmented``, ``parameter``, ``import``, ``function``, ``class``, ``with``, ``for``, ``unpacked``,
    ``global`` or ``other``."""
    node: ast.AST
    value: ast.expr | None
    scope: Scope
    qualified: str | None = None
    """For imports: the dotted name that is bound."""


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function or lambda, with the names bound directly in it."""

    node: ScopeNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    ordered: dict[str, tuple[list[int], list[Binding]]] = field(default_factory=dict)
    """Lines and bindings of a name in the order of the lines, for names that were asked for
    (``bindings.reaching``)."""

    def lookup(self, name: str) -> list[Binding]:
        """Bindings of ``name`` seen from here, by Python's scope rules (class bodies do not enclose methods)."""
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.bindings:
                return scope.bindings[name]
            scope = scope.parent
        return []

    @property
    def function(self) -> Scope:
        """The nearest enclosing function or module scope (itself included)."""
        scope = self
        while isinstance(scope.node, ast.ClassDef | ast.Lambda) and scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def enclosing_class(self) -> Scope | None:
        """The nearest class scope around this one, or None."""
        scope: Scope | None = self
        while scope is not None and not isinstance(scope.node, ast.ClassDef):
            scope = scope.parent
        return scope


def parameters_of(node: FunctionNode | ast.Lambda) -> list[ast.arg]:
    """All parameters in order, ``*args`` and ``**kwargs`` included."""
    arguments = node.args
    variadic = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*positional(arguments), *arguments.kwonlyargs, *variadic]


def positional(arguments: ast.arguments) -> list[ast.arg]:
    """The parameters that are filled by position."""
    return [*arguments.posonlyargs, *arguments.args]


def defaults_in(arguments: ast.arguments) -> dict[str, ast.expr]:
    placed = zip(reversed(positional(arguments)), reversed(arguments.defaults), strict=False)
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {item.arg: default for item, default in (*[*placed][::-1], *named) if default is not None}


def bind_target(target: ast.expr, value: ast.expr, node: ast.AST, scope: Scope) -> None:
    """Bind the names of an assignment's target, paired with their values where both sides are displays."""
    if isinstance(target, ast.Name):
        add_binding(scope, Binding(target.id, "assign", node, value, scope))
    elif isinstance(target, ast.Tuple | ast.List):
        same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        if same and not any(isinstance(element, ast.Starred) for element in target.elts):
            for element, part in zip(target.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                bind_target(element, part, node, scope)
        else:
            bind_names(target, "unpacked", node, scope)


def stored_by(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The single targets a statement assigns to, each with its value where one expression is its value."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if not isinstance(target, ast.Tuple | ast.List):
                yield target, statement.value
                continue
            values = statement.value.elts if isinstance(statement.value, ast.Tuple | ast.List) else []
            paired = len(values) == len(target.elts) and not any(isinstance(item, ast.Starred) for item in target.elts)
            for index, element in enumerate(target.elts):
                yield element, values[index] if paired else None
    elif isinstance(statement, ast.AnnAssign):
        if statement.value is not None:
            yield statement.target, statement.value
    elif isinstance(statement, ast.AugAssign | ast.For | ast.AsyncFor):
        yield statement.target, None


def bind_names(target: ast.expr, kind: BindingKind, node: ast.AST, scope: Scope) -> None:
    """Bind every name of a target whose values no single expression gives."""
    for child in within(target):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            add_binding(scope, Binding(child.id, kind, node, None, scope))


def add_binding(scope: Scope, binding: Binding) -> None:
    """Note one more binding of a name."""
    scope.bindings.setdefault(binding.name, []).append(binding)


def attribute_chain(node: ast.AST) -> list[str] | None:
    """``["a", "b", "c"]`` for the expression ``a.b.c``; None for anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    parts.reverse()
    return parts


def text_of(node: ast.expr) -> str:
    """`ast.unparse`, at once for chains, which most expressions are that anybody asks for."""
    chain = attribute_chain(node)
    return ast.unparse(node) if chain is None else ".".join(chain)


def root_name(node: ast.AST) -> str:
    """The name that a chain of attributes begins with; empty for anything else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def last_name(node: ast.AST) -> str:
    """``c`` for the expressions ``a.b.c`` and ``c``; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def string_of(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def is_off(node: ast.AST | None) -> bool:
    """Whether a value is written there that counts as false: ``False``, ``0``, ``None``."""
    return isinstance(node, ast.Constant) and not node.value


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a text, or another constant, that nobody reads."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
