"""Which models certainly have 16-bit weights at one place: cast or loaded so, and nothing casts them back."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..model import Place
from ..purpose.decided import CERTAIN, Decided
from ..python.arguments import receiver_of
from ..python.bindings import only_value
from ..python.callers import callers_of
from ..python.creations import Creation, ObjectName, creations_of
from ..python.names import FunctionNode, ModuleNames, attribute_chain
from ..python.paths import PathFacts, function_of, guard_facts, position
from ..source.project import Project
from ..torch.dtypes import Dtype, Scenario
from ..torch.weight_changes import may_change_back
from .lightning_weights import made_half_by_fabric, made_half_by_lightning
from .optimized_models import MAX_HOPS, models_of_optimizer, owner_of_parameters
from .parts_of_loads import models_made
from .weight_changes import WeightChange, changes_of, is_cast
from .weight_states import half_after


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
    change: WeightChange | None = None
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
    known: PathFacts = frozenset(),
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
    followed = ([_like_another(project, change, hops) for change in each] for each in found)
    states = [half_after(project, each, trained=not hops) for each in followed]  # a dtype is taken of frozen ones, too
    half = [item for item in states if item is not None]
    if not half:
        freezes = any(change.is_freezing for each in found for change in each)
        by_fabric = made_half_by_fabric(project, module, model) if not freezes else None
        return HalfWeights(ast.unparse(model), *by_fabric) if by_fabric is not None else None
    name, change = ast.unparse(model), half[0].change
    whole = f"{name}.{change.part}" if change.part else name
    subject = whole if not change.is_copying else name
    place = change.module.place(change.node, f"{subject} {change.does} {half[0].dtype.name} here")
    return HalfWeights(whole, half[0].dtype, place, half[0].decided, half[0].adapted, change)


def _under(known: PathFacts, changes: Sequence[WeightChange], function: ast.AST) -> Iterator[WeightChange]:
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


def _like_another(project: Project, change: WeightChange, hops: int) -> WeightChange:
    """``head.to(model.dtype)``: the cast that takes the dtype of another model's weights."""
    call = change.node if isinstance(change.node, ast.Call) and not change.values and hops < MAX_HOPS else None
    given = [*call.args, *(item.value for item in call.keywords)] if call is not None else []
    for asked in given:
        node = only_value(change.module, asked) or asked
        owner = node.value if isinstance(node, ast.Attribute) and node.attr == "dtype" else None
        if isinstance(owner, ast.Call) and ast.unparse(owner.func) == "next" and len(owner.args) == 1:
            owner = owner_of_parameters(owner.args[0])
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


# --- what one optimizer steps -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SteppedWeights:
    """A model of 16-bit weights, and the optimizer that takes its parameters."""

    module: ModuleNames
    optimizer: ast.Call
    weights: HalfWeights
    change: WeightChange
    """What makes the weights 16-bit."""


def stepped_weights(
    project: Project,
    module: ModuleNames,
    optimizer: ast.expr,
    dtype: Dtype,
    known: PathFacts = frozenset(),
    *,
    of_any: bool = False,
) -> SteppedWeights | None:
    """The weights or adapters of 16-bit ``dtype`` behind ``optimizer`` (a name, an attribute), where that is certain.

    A cast below the call that makes the optimizer counts up to where this steps, since it changes the parameters in
    place. ``known`` are facts that hold wherever it steps; in another function only attributes are sure to be the same.
    """
    made_by = creations_of(project, module, optimizer)
    if len(made_by) != 1 or made_by[0].through:
        return None
    holder, made = made_by[0].module, made_by[0].call
    until: ast.AST | None = optimizer
    if function_of(holder, made) is not function_of(module, optimizer):
        until = _passing_call(project, module, optimizer, function_of(holder, made))
        known = frozenset(fact for fact in known if "." in fact[0])
        if until is None and holder is not module:
            return None
    return weights_of_optimizer(project, holder, made, dtype, known, until, adapters=True, of_any=of_any)


def _passing_call(project: Project, module: ModuleNames, optimizer: ast.expr, maker: ast.AST) -> ast.Call | None:
    """The only call by which the function that makes an optimizer gives it to the one that steps it."""
    function = function_of(module, optimizer)
    sites = callers_of(project, module, function).sites if isinstance(function, FunctionNode) else ()
    calls = [site.call for site in sites if function_of(site.module, site.call) is maker]
    return calls[0] if len(calls) == len(sites) == 1 else None


def weights_of_optimizer(
    project: Project,
    module: ModuleNames,
    made: ast.Call,
    dtype: Dtype,
    known: PathFacts = frozenset(),
    until: ast.AST | None = None,
    *,
    adapters: bool = False,
    of_any: bool = False,
) -> SteppedWeights | None:
    """The weights of 16-bit ``dtype`` whose parameters the call ``made`` gives to an optimizer, when all is certain.

    ``adapters``: also where only adapters of that dtype are trained. ``of_any``: see `models_of_optimizer`.
    """
    known |= guard_facts(module, made)
    for model in models_of_optimizer(module, made, project, of_any=of_any):
        half = half_weights(project, module, model, made, later=until or False, known=known) if model else None
        if half is not None and half.dtype == dtype and half.change is not None and half.adapted <= adapters:
            return SteppedWeights(module, made, half, half.change)
    return None
