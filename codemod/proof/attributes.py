"""Whether an object certainly has an attribute where new code would read it of ``self``."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ..python.bindings import self_stores
from ..python.bound import always_sets, is_set_at
from ..python.names import FunctionNode, ModuleNames, Scope, attribute_chain
from ..python.paths import guard_facts, position

OF_MODULES = frozenset(
    {"parameters", "named_parameters", "buffers", "named_buffers", "modules", "children", "state_dict", "training"}
)
"""What every ``torch.nn.Module`` has."""


def has_attribute(module: ModuleNames, name: str, node: ast.AST, evaluated: Iterable[ast.AST] = ()) -> bool:
    """Whether ``self.<name>`` certainly exists whenever ``node`` runs.

    ``evaluated``: expressions that are evaluated together with ``node``; what they read exists, or the run has ended.
    """
    if any(attribute_chain(item) == ["self", name] for item in evaluated if isinstance(item, ast.Attribute)):
        return True
    owner = module.scope_of(node).enclosing_class
    if owner is None or is_set_at(module, f"self.{name}", node):
        return owner is not None
    return _is_always_there(module, owner, name, node) or _was_read_above(module, owner, name, node)


def _is_always_there(module: ModuleNames, owner: Scope, name: str, node: ast.AST) -> bool:
    """Whether the class, or its constructor, gives the attribute to each object, before ``node`` can run."""
    methods = {item.name: item for item in getattr(owner.node, "body", ()) if isinstance(item, FunctionNode)}
    inherits = bool(getattr(owner.node, "bases", ())) and name in OF_MODULES
    if inherits or name in methods or always_sets(module, owner.node, name):
        return True
    start = methods.get("__init__")
    inside = start is not None and module.scope_of(node).function.node is start
    return start is not None and not inside and always_sets(module, start, f"self.{name}")


def _was_read_above(module: ModuleNames, owner: Scope, name: str, node: ast.AST) -> bool:
    """Whether the same function reads the attribute above, wherever ``node`` is reached."""
    function = module.scope_of(node).function
    here = guard_facts(module, node)
    stored = {module.scope_of(statement).function for _, statement in self_stores(module, owner, name)}
    return any(
        attribute_chain(item) == ["self", name]
        and module.scope_of(item).function is function
        and (position(item) < position(node) or function not in stored)
        and guard_facts(module, item) <= here
        for item in module.attribute_loads.get(name, [])
    )
