"""Parts of a model that its class makes anew and casts to float16, so that they are trained in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.bindings import self_stores
from ....codemod.python.creations import creations_of
from ....codemod.python.functions import called_function, class_of, lineage
from ....codemod.python.names import FunctionNode, ModuleNames, Scope, attribute_chain
from ....codemod.source.project import Project
from ....codemod.torch.api import SAME_WEIGHTS, WEIGHT_CASTS
from ....codemod.torch.dtypes import FP16
from ....codemod.torch.weight_changes import may_change_back, moves_only
from ....codemod.torch.weights import cast_dtype
from ....codemod.trainers.reading.trained_loads import ADAPTED, FROZEN, may_recast, mentions, statements_about

WITH_WEIGHTS = ("Linear", "Conv1d", "Conv2d", "Conv3d", "Embedding", "LayerNorm", "GRU", "LSTM")
"""Modules of torch.nn whose weights are new and trained, in a container too."""
OVER_ALL = ("parameters", "named_parameters", "modules", "named_modules", "children", "named_children")
UNTRAINED = ("no_grad", "inference_mode", "enable_grad", "set_grad_enabled")
MAX_DEPTH = 3
"""Modules inside modules in which a part is looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class HalfPart:
    """``self.head = nn.Linear(...).half()`` in the class of a model, or of a part of it."""

    module: ModuleNames
    cast: ast.Call
    name: str


def half_part(project: Project, module: ModuleNames, model: ast.expr, trainer: ast.Call) -> HalfPart | None:
    """The first part of ``model`` that is certainly in float16 and trained when ``trainer`` gets it."""
    made_by = creations_of(project, module, model)
    owner = class_of(project, made_by[0].module, made_by[0].call.func) if len(made_by) == 1 else None
    if owner is None:
        return None
    steps = [*made_by[0].through, *statements_about(made_by[0], module, trainer)]
    if any(_may_change(project, module, step) for step in steps):
        return None
    return next(_parts(project, *owner, 0), None)


def _may_change(project: Project, module: ModuleNames, step: ast.AST) -> bool:
    """Whether a step may freeze or cast the model, or put adapters on it, itself or in the functions it calls."""
    if mentions(step, (*ADAPTED, *FROZEN)) or may_recast(step):
        return True
    calls = [item for item in ast.walk(step) if isinstance(item, ast.Call) and item in module.parents]
    targets = [called_function(project, module, call) for call in calls]
    inner = [node for item in targets if item is not None for node in ast.walk(item.node)]
    return any(_freezes(node) or (isinstance(node, ast.stmt) and may_recast(node)) for node in inner)


def _freezes(node: ast.AST) -> bool:
    """``p.requires_grad = ...``, ``p.data = ...`` and calls that speak of freezing."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr in ("requires_grad", "data")
    return isinstance(node, ast.Call) and mentions(node.func, FROZEN)


def _parts(project: Project, module: ModuleNames, owner: Scope, depth: int) -> Iterator[HalfPart]:
    if depth > MAX_DEPTH or len(list(lineage(project, module, owner))) != 1 or _changes_itself(module, owner):
        return
    for statement in _made_at_once(owner):
        chain = attribute_chain(statement.targets[0]) or []
        name = chain[1] if len(chain) == 2 and chain[0] == "self" and len(statement.targets) == 1 else ""
        value = statement.value
        if not isinstance(value, ast.Call) or len(self_stores(module, owner, name)) != 1:
            continue
        casts, root = _unwound(value)
        inner = class_of(project, module, root.func)
        if inner is not None and not casts and _is_left_alone(module, owner, name, inner[1]):
            yield from _parts(project, *inner, depth + 1)
        elif _is_half(project, module, casts) and _has_weights(module, root) and _is_trained(module, owner, name):
            yield HalfPart(module, casts[0], f"self.{name}")


def _made_at_once(owner: Scope) -> list[ast.Assign]:
    """What ``__init__`` assigns in any case."""
    body: list[ast.stmt] = owner.node.body if isinstance(owner.node, ast.ClassDef) else []
    found = [item for item in body if isinstance(item, FunctionNode) and item.name == "__init__"]
    return [item for item in (found[0].body if found else ()) if isinstance(item, ast.Assign)]


def _unwound(value: ast.Call) -> tuple[list[ast.Call], ast.Call]:
    """The casts around the call that makes a module, the last one first, and that call."""
    casts: list[ast.Call] = []
    while isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Call):
        plain = value.func.attr in SAME_WEIGHTS and moves_only(value) and value.func.attr != "requires_grad_"
        if not plain:
            casts.append(value)
        value = value.func.value
    return casts, value


def _is_half(project: Project, module: ModuleNames, casts: list[ast.Call]) -> bool:
    known = all(isinstance(item.func, ast.Attribute) and item.func.attr in ("to", *WEIGHT_CASTS) for item in casts)
    return bool(casts) and known and cast_dtype(project, module, casts[0]) == FP16


def _has_weights(module: ModuleNames, made: ast.Call) -> bool:
    """Whether a call of torch.nn makes weights, itself or in what it contains."""
    calls = [item for item in ast.walk(made) if isinstance(item, ast.Call)]
    names = [(module.qualified(item.func) or "").rpartition(".") for item in calls]
    return names[0][0] == "torch.nn" and any(owner == "torch.nn" and name in WITH_WEIGHTS for owner, _, name in names)


# --- nothing freezes it or casts it back ------------------------------------------------------------------------------


def _changes_itself(module: ModuleNames, owner: Scope) -> bool:
    """Whether the class may freeze or cast all its weights: ``self.float()``, ``for p in self.parameters(): ...``."""
    nodes = (item for item in ast.walk(owner.node) if isinstance(item, ast.Name) and item.id == "self")
    return any(_changes_all(module, node) for node in nodes)


def _changes_all(module: ModuleNames, receiver: ast.Name) -> bool:
    method = module.parents.get(receiver)
    if isinstance(method, ast.Call):
        return ast.unparse(method.func) != "super"
    call = module.parents.get(method) if isinstance(method, ast.Attribute) else None
    if not isinstance(method, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not method:
        return False
    if method.attr in (*WEIGHT_CASTS, "type", "apply") or mentions(method, FROZEN):
        return True
    if method.attr == "to":
        return not moves_only(call)
    return method.attr in OVER_ALL and not _only_reads(module, call)


def _only_reads(module: ModuleNames, call: ast.Call) -> bool:
    """Whether what goes through ``x.parameters()`` changes nothing about them, but that they are trained."""
    holder = module.parents.get(call)
    if isinstance(holder, ast.comprehension):
        return ast.unparse(getattr(module.parents[holder], "elt", holder)).endswith(".numel()")
    if not isinstance(holder, ast.For) or holder.iter is not call or not isinstance(call.func, ast.Attribute):
        return False
    thaws = all(ast.unparse(item).endswith(".requires_grad = True") for item in holder.body)
    return thaws or not may_change_back(holder, ast.unparse(call.func.value))


def _reads(module: ModuleNames, owner: Scope, name: str) -> list[ast.expr] | None:
    """Where the class reads ``self.name``; None where the file reads it of another object than a ``self``."""
    found: list[ast.expr] = list(module.attribute_loads.get(name, ()))
    if any(ast.unparse(item) != f"self.{name}" for item in found):
        return None
    return [item for item in found if owner.node in module.ancestors(item)]


def _is_trained(module: ModuleNames, owner: Scope, name: str) -> bool:
    """Whether the part is called, with gradients, and nothing else happens to it than that it is thawed."""
    loads = _reads(module, owner, name)
    called = [item for item in loads or () if _is_called(module, item)]
    left = [item for item in loads or () if item not in called]
    return bool(called) and all(_is_thawed(module, item) for item in left)


def _is_called(module: ModuleNames, node: ast.expr) -> bool:
    parent = module.parents.get(node)
    quiet = any(isinstance(item, ast.With) and mentions(item, UNTRAINED) for item in module.ancestors(node))
    function = module.scope_of(node).function.node
    decorated = isinstance(function, FunctionNode) and any(
        mentions(item, UNTRAINED) for item in function.decorator_list
    )
    return isinstance(parent, ast.Call) and parent.func is node and not quiet and not decorated


def _is_thawed(module: ModuleNames, node: ast.expr) -> bool:
    """``for p in self.part.parameters(): p.requires_grad = True``."""
    method = module.parents.get(node)
    call = module.parents.get(method) if isinstance(method, ast.Attribute) and method.attr in OVER_ALL else None
    return isinstance(call, ast.Call) and call.func is method and _only_reads(module, call)


def _is_left_alone(module: ModuleNames, owner: Scope, name: str, inner: Scope) -> bool:
    """Whether only the module itself and methods that its class defines are called."""
    loads = _reads(module, owner, name)
    return loads is not None and all(_is_called(module, item) or _is_own(module, item, inner) for item in loads)


def _is_own(module: ModuleNames, node: ast.expr, inner: Scope) -> bool:
    method = module.parents.get(node)
    call = module.parents.get(method) if isinstance(method, ast.Attribute) else None
    named = isinstance(method, ast.Attribute) and method.attr in inner.bindings
    return isinstance(call, ast.Call) and call.func is method and named
