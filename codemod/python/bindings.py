"""Which binding of a name is seen where: defaults, attributes of ``self``, the assignments that reach a use."""

from __future__ import annotations

import ast

from .names import Binding, ModuleNames, Scope, attribute_chain


def default_of(binding: Binding) -> ast.expr | None:
    """The default value of a parameter binding, or None."""
    node = binding.scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return None
    positional = [*node.args.posonlyargs, *node.args.args]
    with_default = dict(zip([item.arg for item in reversed(positional)], reversed(node.args.defaults), strict=False))
    keyword_only = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    with_default.update({item.arg: value for item, value in keyword_only if value is not None})
    return with_default.get(binding.name)


def attribute_assignments(module: ModuleNames, owner: Scope, name: str) -> list[tuple[ast.expr, ast.stmt]]:
    """Every ``self.<name> = value`` in the class and ``<name> = value`` in its body, with its statement."""
    stores = self_stores(module, owner, name)
    return [(value, statement) for value, statement in stores if value is not None]


def self_stores(module: ModuleNames, owner: Scope, name: str) -> list[tuple[ast.expr | None, ast.stmt]]:
    """Like `attribute_assignments`, with the stores whose value no single expression gives (unpacking, loops)."""
    return [
        (value, statement)
        for receiver, value, statement in module.attribute_stores.get(name, [])
        if receiver in (None, ["self"]) and module.scope_of(statement).enclosing_class is owner
    ]


def reaching(module: ModuleNames, bindings: list[Binding], use: ast.AST) -> list[Binding]:
    """The bindings of a name that may be seen at ``use``: those before the last one that certainly runs are dropped.

    Only bindings of the using function are ordered by position; those of outer scopes are all kept.
    """
    scope = module.scope_of(use)
    line = getattr(use, "lineno", 0)
    if not bindings or bindings[0].scope is not scope:
        return bindings
    before = [item for item in bindings if _last_line(item.node) < line or item.kind == "parameter"]
    candidates = before or bindings
    holders = set(module.ancestors(use))
    certain = [item for item in candidates if item.kind == "parameter" or module.parents.get(item.node) in holders]
    if not certain:
        return candidates
    last = max(certain, key=lambda item: 0 if item.kind == "parameter" else getattr(item.node, "lineno", 0))
    start = 0 if last.kind == "parameter" else getattr(last.node, "lineno", 0)
    return [
        item
        for item in candidates
        if item is last or (item.kind != "parameter" and getattr(item.node, "lineno", 0) > start)
    ]


def _last_line(node: ast.AST) -> int:
    """The line after which a name is bound: a use inside an assignment over several lines still sees the old value."""
    line: int = getattr(node, "end_lineno" if isinstance(node, ast.Assign | ast.AnnAssign) else "lineno", None) or 0
    return line


def position_in_targets(node: ast.AST, name: str) -> int | None:
    """The place of ``name`` (or ``self.name``) in ``a, b, name = ...``; None for other shapes."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if not isinstance(target, ast.Tuple | ast.List) or any(isinstance(item, ast.Starred) for item in target.elts):
        return None
    places = [index for index, item in enumerate(target.elts) if ".".join(attribute_chain(item) or ()) == name]
    return places[0] if places else None
