"""Which models certainly have 16-bit weights at one place: cast or loaded so, and nothing casts them back."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeGuard

from ..model import Place
from ..purpose.decided import CERTAIN, Decided
from ..python.arguments import receiver_of
from ..python.callers import callers_of
from ..python.creations import Creation, ObjectName, creations_of
from ..python.functions import called_function
from ..python.names import FunctionNode, ModuleNames, attribute_chain
from ..python.paths import Facts, function_of, guard_facts, position
from ..source.project import Project
from ..torch.dtypes import Dtype, Scenario
from ..torch.weight_changes import may_change_back
from .lightning_weights import made_half_by_fabric, made_half_by_lightning
from .parts_of_loads import models_made
from .weight_changes import Change, changes_of, is_cast
from .weight_states import half_after

MAX_MODELS = 200
"""Groups of parameters that are followed in one optimizer."""
MAX_HOPS = 12
"""How many names and calls stand between an optimizer and the model whose parameters it is given."""
SELECTING = ("list", "tuple", "filter", "iter", "chain")
KEEPING_ITEMS = (*SELECTING, "requires_grad_")
"""Calls that give back the very parameters that they are given."""


@dataclass(frozen=True, slots=True)
class HalfWeights:
    """A model whose weights are 16-bit."""

    name: str
    dtype: Dtype
    place: Place
    """What makes them so."""
    decided: Decided = CERTAIN
    """The settings that lead to it."""
    adapted: bool = False
    """Whether adapters of that dtype are trained instead of all weights."""
    change: Change | None = None
    """The call that makes them so; None where a trainer does."""

    @property
    def places(self) -> tuple[Place, ...]:
        """What makes them so, and where the settings are written that lead to it."""
        return (self.place, *self.decided.places)


def half_weights(
    project: Project,
    module: ModuleNames,
    model: ast.expr,
    before: ast.Call,
    *,
    later: bool | ast.AST = False,
    known: Facts = frozenset(),
    hops: int = 0,
) -> HalfWeights | None:
    """The 16-bit weights that ``model`` has when ``before`` runs; None where they are not certain to be 16-bit.

    Where several calls can have made it, all of them, or one whose own condition is known to hold.
    ``later``: also those that it gets further down (up to a node), for who only takes references to them.
    ``known``: facts of the function of ``before`` that hold in the runs asked about.
    """
    chain = attribute_chain(model)
    if chain is None:
        return None
    lowered = made_half_by_lightning(project, module, model) if chain[0] == "self" else None
    if lowered is not None:
        return HalfWeights("the module" if len(chain) == 1 else ast.unparse(model), *lowered)
    if isinstance(model, ast.Name) and model.id == "self":
        return _of_receiver(project, module, before, later=later)
    ways: dict[ast.Call, list[Creation]] = {}
    for made in _unsharded(project, models_made(project, module, model)) or _of_cast(module, model, before):
        ways.setdefault(made.call, []).append(made)
    found = [changes_of(project, module, made_by, before, later=later) for made_by in ways.values()]
    found = [list(_under(known, each, function_of(module, before))) for each in found]
    states = [half_after(project, [_like_another(project, change, hops) for change in each]) for each in found]
    half = [item for item in states if item is not None]
    if not half:
        freezes = any(change.is_freezing for each in found for change in each)
        by_fabric = made_half_by_fabric(project, module, model) if not freezes else None
        return HalfWeights(ast.unparse(model), *by_fabric) if by_fabric is not None else None
    name, change = ast.unparse(model), half[0].change
    place = change.module.place(change.node, f"{name} {change.does} {half[0].dtype.name} here")
    whole = f"{name}.{change.part}" if change.part else name
    return HalfWeights(whole, half[0].dtype, place, half[0].decided, half[0].adapted, change)


def _under(known: Facts, changes: Sequence[Change], function: ast.AST) -> Iterator[Change]:
    """The changes of runs in which some facts of a function hold."""
    for change in changes:
        facts = guard_facts(change.module, change.node) if known and change.given else frozenset()
        if not facts or function_of(change.module, change.node) is not function:
            yield change
        elif not any((text, not holds) in known for text, holds in facts):
            yield replace(change, given=()) if facts <= known else change


def _unsharded(project: Project, made_by: Sequence[Creation]) -> list[Creation]:
    """What made a model that FSDP holds: it shards the weights as they are."""
    found: list[Creation] = []
    for made in made_by:
        sharding = (made.module.qualified(made.call.func) or "").endswith("fsdp.FullyShardedDataParallel")
        if sharding and made.call.args:
            inner = creations_of(project, made.module, made.call.args[0])
            found += [replace(item, names=(*made.names, *item.names)) for item in inner]
        else:
            found.append(made)
    return found


def _like_another(project: Project, change: Change, hops: int) -> Change:
    """``head.to(model.dtype)``: the cast that takes the dtype of another model's weights."""
    call = change.node if isinstance(change.node, ast.Call) and not change.values and hops < MAX_HOPS else None
    given = [*call.args, *(item.value for item in call.keywords)] if call is not None else []
    for node in given:
        owner = node.value if isinstance(node, ast.Attribute) and node.attr == "dtype" else None
        if isinstance(owner, ast.Call) and ast.unparse(owner.func) == "next" and len(owner.args) == 1:
            owner = _owner(owner.args[0])
        known = half_weights(project, change.module, owner, call, hops=hops + 1) if owner and call else None
        if known is not None:
            return replace(change, values=(Scenario(known.dtype),))
    return change


def _of_receiver(
    project: Project, module: ModuleNames, before: ast.Call, *, later: bool | ast.AST
) -> HalfWeights | None:
    """The weights of ``model`` in ``model.configure_optimizers(...)``, whose method makes the optimizer."""
    function = module.scope_of(before).function.node
    sites = callers_of(project, module, function).sites if isinstance(function, FunctionNode) else ()
    for site in sites:
        receiver = receiver_of(site.call)
        if receiver is not None and ast.unparse(receiver) not in ("self", "super()"):
            found = half_weights(project, site.module, receiver, site.call, later=later)
            if found is not None:
                return found
    return None


def _of_cast(module: ModuleNames, model: ast.expr, before: ast.Call) -> list[Creation]:
    """The first cast of a model that nobody knows, where all else that the name is given is made of what it was."""
    name, scope = ast.unparse(model), module.scope_of(model)
    holder = scope.enclosing_class if name.startswith("self.") else module.scope_of(before).function
    if holder is None:
        return []
    found = [item for item in ast.walk(holder.node) if isinstance(item, ast.Assign | ast.Expr)]
    casts = [
        item.value
        for item in found
        if is_cast(item.value, name) and may_change_back(item, name) and _is_about(item, name)
    ]
    first = min(casts, key=position, default=None)
    stores = [item for item in found if isinstance(item, ast.Assign) and _is_about(item, name)]
    later = [item for item in stores if first is not None and position(item) > position(first)]
    if not isinstance(first, ast.Call) or not all(_reads(item.value, name) for item in later):
        return []
    return [Creation(module, first, (), (ObjectName(module, holder.node, name),))]


def _is_about(statement: ast.Assign | ast.Expr, name: str) -> bool:
    """``name = ...``, or a call that stands alone."""
    return isinstance(statement, ast.Expr) or any(ast.unparse(target) == name for target in statement.targets)


def _reads(node: ast.expr, name: str) -> bool:
    return any(isinstance(item, ast.Name | ast.Attribute) and ast.unparse(item) == name for item in ast.walk(node))


# --- whose parameters -------------------------------------------------------------------------------------------------


def models_of(module: ModuleNames, parameters: ast.expr, project: Project | None = None) -> list[ast.expr | None]:
    """The models whose parameters an optimizer (or an average) is given; None for what is not known.

    With a project also through its functions that make groups of the parameters of a model that they are passed.
    """
    found = list(islice(_models_of(project, module, parameters, frozenset()), MAX_MODELS))
    return found if 0 < len(found) < MAX_MODELS else [None]


def _models_of(
    project: Project | None, module: ModuleNames, node: ast.expr, above: frozenset[ast.expr]
) -> Iterator[ast.expr | None]:
    receiver = _owner(node)
    inner = _inside(module, node) if len(above) < MAX_HOPS else None
    if receiver is not None:
        yield receiver
    elif inner is not None:  # a name that is made anew of itself, ``named = {... named.items() ...}``, adds nothing
        for item in (item for item in inner if item not in above):
            yield from _models_of(project, module, item, above | {node})
    elif project is not None and isinstance(node, ast.Call) and len(above) < MAX_HOPS:
        yield from _of_helper(project, module, node, above | {node})
    else:
        yield None


def _of_helper(
    project: Project, module: ModuleNames, call: ast.Call, above: frozenset[ast.expr]
) -> Iterator[ast.expr | None]:
    """``model`` of ``groups(model)``, whose function returns groups of its parameters, without rates of their own."""
    target = called_function(project, module, call)
    returned = target.module.returns_of(target.node) if target is not None else ()
    if target is None or not returned:
        yield None
        return
    arguments, found = target.arguments(call), list[ast.expr | None]()
    for item in returned:
        for model in _models_of(project, target.module, item.value, above) if item.value is not None else (None,):
            bindings = target.scope.bindings.get(model.id, ()) if isinstance(model, ast.Name) else ()
            passed = [each.kind for each in bindings] == ["parameter"]
            found.append(arguments.get(model.id) if passed and isinstance(model, ast.Name) else None)
    yield from found if not any(found) or not _says_rate(target.node) else [None]


def _says_rate(function: FunctionNode) -> bool:
    """Whether a function gives groups learning rates: ``{"params": p, "lr": 1e-5}``, ``dict(params=p, lr=rate)``."""
    keys = (item.value if isinstance(item, ast.Constant) else item.arg for item in ast.walk(function) if _is_key(item))
    return "lr" in keys


def _is_key(node: ast.AST) -> TypeGuard[ast.Constant | ast.keyword]:
    return isinstance(node, ast.Constant | ast.keyword)


def _owner(node: ast.expr) -> ast.expr | None:
    """``model`` of ``model.parameters()``."""
    plain = isinstance(node, ast.Call) and not node.args and not node.keywords
    return receiver_of(node, "parameters", "named_parameters") if plain else None


def _inside(module: ModuleNames, node: ast.expr) -> list[ast.expr] | None:
    """What a selection of parameters is taken from: ``filter(f, x)``, ``[p for p in x]``, ``{"params": x}``, a name."""
    if isinstance(node, ast.Call):
        held = receiver_of(node, "items", "values") if not node.args else None
        if held is not None:
            return [held]
        name = (attribute_chain(node.func) or [""])[-1]
        taken = node.args if name == "chain" else node.args[-1:]
        return taken if name in SELECTING and taken and not node.keywords else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [node.left, node.right]
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp) and len(node.generators) == 1:
        return [node.generators[0].iter] if _keeps_items(node) else None
    if isinstance(node, ast.Dict | ast.List | ast.Tuple):
        return (_params(node) if isinstance(node, ast.Dict) else node.elts) or None
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    return listed(module, node) or None if isinstance(node, ast.Name) else None


def _keeps_items(node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> bool:
    """Whether its items are the parameters themselves: ``p.detach().float()`` is another tensor."""
    item = node.value if isinstance(node, ast.DictComp) else node.elt
    parts = _params(item) if isinstance(item, ast.Dict) else [item]
    calls = (call for part in parts for call in ast.walk(part) if isinstance(call, ast.Call))
    return all((attribute_chain(call.func) or [""])[-1] in KEEPING_ITEMS for call in calls)


def _params(node: ast.Dict) -> list[ast.expr]:
    pairs = zip(node.keys, node.values, strict=True)
    return [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "params"]


def listed(module: ModuleNames, node: ast.Name) -> list[ast.expr]:
    """What a name of parameters stands for: its values, what a list is filled with, what a loop goes through."""
    found, scope = list[ast.expr](), module.scope_of(node)
    for binding in scope.lookup(node.id):
        if binding.kind == "for" and isinstance(binding.node, ast.For):
            found.append(binding.node.iter)
        elif binding.kind == "assign" and binding.value is not None and getattr(binding.value, "elts", True):
            found.append(binding.value)
    for call in (call for name in ("append", "extend") for call in module.calls_by_name.get(name, [])):
        lists = receiver_of(call)
        chosen = (lists.body, lists.orelse) if isinstance(lists, ast.IfExp) else (lists,)
        named = any(isinstance(item, ast.Name) and item.id == node.id for item in chosen)
        if named and module.scope_of(call) is scope:
            found += call.args[:1]
    return found


# --- what one optimizer steps -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SteppedWeights:
    """A model of 16-bit weights, and the optimizer that takes its parameters."""

    module: ModuleNames
    optimizer: ast.Call
    weights: HalfWeights
    change: Change
    """What makes the weights 16-bit."""


def stepped_weights(
    project: Project, module: ModuleNames, optimizer: ast.expr, dtype: Dtype, known: Facts = frozenset()
) -> SteppedWeights | None:
    """The weights or adapters of 16-bit ``dtype`` behind ``optimizer`` (a name, an attribute), where that is certain.

    A cast below the call that makes the optimizer counts up to where this steps, since it changes the parameters in
    place. ``known`` are facts that hold wherever it steps; in another function only attributes are sure to be the same.
    """
    made_by = creations_of(project, module, optimizer)
    if len(made_by) != 1 or made_by[0].through or made_by[0].module is not module:
        return None
    made = made_by[0].call
    until = optimizer if function_of(module, made) is function_of(module, optimizer) else None
    known = known if until is not None else frozenset(fact for fact in known if "." in fact[0])
    return weights_of_optimizer(project, module, made, dtype, known, until, adapters=True)


def weights_of_optimizer(
    project: Project,
    module: ModuleNames,
    made: ast.Call,
    dtype: Dtype,
    known: Facts = frozenset(),
    until: ast.AST | None = None,
    *,
    adapters: bool = False,
) -> SteppedWeights | None:
    """The weights of 16-bit ``dtype`` whose parameters the call ``made`` gives to an optimizer, when all is certain.

    ``adapters``: also where only adapters of that dtype are trained.
    """
    known |= guard_facts(module, made)
    for model in models_of_optimizer(module, made, project):
        half = half_weights(project, module, model, made, later=until or False, known=known) if model else None
        if half is not None and half.dtype == dtype and half.change is not None and half.adapted <= adapters:
            return SteppedWeights(module, made, half, half.change)
    return None


def models_of_optimizer(module: ModuleNames, made: ast.Call, project: Project | None = None) -> list[ast.expr | None]:
    """The models of ``torch.optim.X(model.parameters(), ...)``; None for what is not known."""
    if not (module.qualified(made.func) or "").startswith("torch.optim."):
        return []
    given = made.args[:1] or [item.value for item in made.keywords if item.arg == "params"]
    return models_of(module, given[0], project) if given else []
