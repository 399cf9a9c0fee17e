"""Whether an object certainly has an attribute where new code would read it of ``self``."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ..model import Place
from ..python.bindings import default_of, self_stores
from ..python.bound import always_sets, is_set_at
from ..python.lost import is_deleted
from ..python.names import Binding, FunctionNode, ModuleNames, Scope, attribute_chain, modules_with
from ..python.paths import guard_facts, position
from ..source.facts import memo
from ..source.project import Project

OF_MODULES = frozenset(
    {"parameters", "named_parameters", "buffers", "named_buffers", "modules", "children", "state_dict", "training"}
)
"""What every ``torch.nn.Module`` has."""


def has_attribute(
    module: ModuleNames, name: str, node: ast.AST, evaluated: Iterable[ast.AST] = (), *, used: bool = False
) -> bool:
    """Whether ``self.<name>`` certainly exists whenever ``node`` runs, and if it is ``used``, is not None.

    ``evaluated``: expressions that are evaluated together with ``node``; what they read exists, or the run has ended.
    """
    read = [item for item in evaluated if isinstance(item, ast.Attribute) and attribute_chain(item) == ["self", name]]
    if any(not used or _is_used(module, item) for item in read):
        return True
    owner = module.scope_of(node).enclosing_class
    if owner is None or is_deleted(module, f"self.{name}", node, owner.node):
        return False
    if _was_read_above(module, owner, name, node, used):
        return True
    if used and any(_may_be_none(module, value) for value, _ in self_stores(module, owner, name)):
        return False
    return is_set_at(module, f"self.{name}", node) or _is_always_there(module, owner, name, node)


@memo
def replaced_at(project: Project, owner: str, name: str) -> Place | None:
    """Where something else may become ``<name>`` of an object of the class ``owner``: a subclass, or other code."""
    for module in modules_with(project, (f".{name} = ", f'"{name}", ', f"'{name}', ")):
        for receiver, _, statement in module.attribute_stores.get(name, []):
            inside = module.scope_of(statement).enclosing_class
            bases = [ast.unparse(base).rpartition(".")[2] for base in getattr(inside and inside.node, "bases", ())]
            if receiver is not None and (receiver != ["self"] or owner in bases):
                return module.place(statement, f"another {name} is put here")
        for call in module.calls_by_name.get("setattr", []):
            given = call.args[1] if len(call.args) > 1 else None
            if isinstance(given, ast.Constant) and given.value == name:
                return module.place(call, f"another {name} is put here")
    return None


def is_not_none(module: ModuleNames, name: str, node: ast.AST, evaluated: Iterable[ast.AST]) -> bool:
    """Whether the variable ``name``, of which something is asked at ``node``, certainly is not None there."""
    scope = module.scope_of(node)
    bindings = scope.lookup(name)
    if not any(_gives_none(item) for item in bindings):
        return True
    here = guard_facts(module, node)
    if (name, True) in here:
        return True
    if any(isinstance(item, ast.Name) and item.id == name and _is_used(module, item) for item in evaluated):
        return True
    return any(
        module.scope_of(item).function is scope.function
        and position(item) < position(node)
        and _is_used(module, item)
        and guard_facts(module, item) <= here
        for item in module.name_loads.get(name, [])
    )


def _gives_none(binding: Binding) -> bool:
    """Whether a binding may give None: it says so, or is a parameter that may be left out, or says Optional."""
    value = default_of(binding) if binding.kind == "parameter" else binding.value
    if isinstance(value, ast.IfExp):
        return any(isinstance(item, ast.Constant) and item.value is None for item in (value.body, value.orelse))
    if isinstance(value, ast.Constant) and value.value is None:
        return True
    annotation = binding.node.annotation if isinstance(binding.node, ast.arg) else None
    return annotation is not None and any(word in ast.unparse(annotation) for word in ("Optional", "None"))


def _is_used(module: ModuleNames, node: ast.AST) -> bool:
    """Whether something is asked of the value, so that it is not None: an attribute, an item, a call."""
    parent = module.parents.get(node)
    return isinstance(parent, ast.Attribute | ast.Subscript) or (isinstance(parent, ast.Call) and parent.func is node)


def _may_be_none(module: ModuleNames, value: ast.expr | None) -> bool:
    """Whether an assigned expression may give None: it says so, or is a parameter with that default."""
    if value is None:
        return False
    if isinstance(value, ast.Constant):
        return value.value is None
    if isinstance(value, ast.IfExp):
        return _may_be_none(module, value.body) or _may_be_none(module, value.orelse)
    if isinstance(value, ast.BoolOp):
        return _may_be_none(module, value.values[-1])
    bindings = module.scope_of(value).lookup(value.id) if isinstance(value, ast.Name) else []
    return any(map(_gives_none, bindings))


def _is_always_there(module: ModuleNames, owner: Scope, name: str, node: ast.AST) -> bool:
    """Whether the class, or its constructor, gives the attribute to each object, before ``node`` can run."""
    methods = {item.name: item for item in getattr(owner.node, "body", ()) if isinstance(item, FunctionNode)}
    inherits = bool(getattr(owner.node, "bases", ())) and name in OF_MODULES
    if inherits or name in methods or always_sets(module, owner.node, name):
        return True
    start = methods.get("__init__")
    inside = start is not None and module.scope_of(node).function.node is start
    return start is not None and not inside and always_sets(module, start, f"self.{name}")


def _was_read_above(module: ModuleNames, owner: Scope, name: str, node: ast.AST, used: bool) -> bool:
    """Whether the same function reads the attribute above, wherever ``node`` is reached."""
    function = module.scope_of(node).function
    here = guard_facts(module, node)
    stored = {module.scope_of(statement).function for _, statement in self_stores(module, owner, name)}
    return any(
        attribute_chain(item) == ["self", name]
        and module.scope_of(item).function is function
        and (position(item) < position(node) or function not in stored)
        and guard_facts(module, item) <= here
        and (not used or _is_used(module, item))
        for item in module.attribute_loads.get(name, [])
    )
