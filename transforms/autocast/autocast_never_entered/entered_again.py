"""One autocast object that is entered again inside of its own region, and so never restores what was before."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....codemod.model import Draft, Fix, Place
from ....codemod.purpose.entered import way_inside
from ....codemod.purpose.given import is_run
from ....codemod.purpose.runs import open_scenarios
from ....codemod.purpose.steps import CONTEXT_WORDS, may_be_autocast, may_enter_autocast
from ....codemod.python.creations import known_creations
from ....codemod.python.functions import FunctionTarget, attribute_bindings, called_function, named_function
from ....codemod.python.names import (
    Binding,
    FunctionNode,
    ModuleNames,
    attribute_chain,
    checked_modules,
    definition_named,
)
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts, autocasts_in
from ....codemod.torch.dtypes import HALVES
from ....codemod.torch.entering_calls import sites_of

MAX_HOPS = 3
"""Calls that are followed from a region."""
WORDS = ("autocast", *sorted(CONTEXT_WORDS))
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class ObjectKeeper:
    """What keeps one object: a statement, a parameter, or the decorator that makes it."""

    keeper: ast.AST
    within: ast.AST | None = None
    """The function whose every call has an object of its own; None where there is only one."""
    of_self: bool = False


def entered_again(project: Project) -> Iterator[Draft]:
    """The ``with`` statements and decorators whose autocast is entered once more before it is left."""
    made = {item.call: item for item in autocasts(project) if item.form in ("value", "decorator")}
    for module in checked_modules(project, WORDS, ("with ",), where=may_enter_autocast) if made else ():
        for statement in module.of_type(ast.With):
            for item in statement.items:
                yield from _of_context(project, module, statement, item.context_expr, made)
    for module in checked_modules(project, ("@",), ("autocast",)) if made else ():
        for region in autocasts_in(project, module):
            function = module.parents[region.node]
            if region.form == "decorator" and region.call is not None and isinstance(function, FunctionNode):
                yield from _draft(project, module, region.node, function, region, ObjectKeeper(region.node))


def _of_context(
    project: Project,
    module: ModuleNames,
    statement: ast.With,
    context: ast.expr,
    made: dict[ast.Call | None, Autocast],
) -> Iterator[Draft]:
    held = held_as(project, module, context) if may_be_autocast(context) else None
    if held is not None:
        regions = (made.get(each.call) for each in known_creations(project, module, context) if not each.through)
        region = next((item for item in regions if item is not None and _lowers(project, item)), None)
        if region is not None:
            yield from _draft(project, module, context, statement, region, held)


def _lowers(project: Project, region: Autocast) -> bool:
    return any(item.value in HALVES for item in open_scenarios(project, region))


def _draft(
    project: Project,
    module: ModuleNames,
    context: ast.expr,
    body: ast.With | FunctionNode,
    region: Autocast,
    held: ObjectKeeper,
) -> Iterator[Draft]:
    """The finding for one region, where autocast is off around it."""
    way = next(_again(project, module, body, held, 0, set()), None)
    if way is None or not _lowers(project, region) or _may_be_on(project, module, body):
        return
    message = (
        "inside of this region the same autocast object is entered again, and forgets that autocast was off before:"
        " it stays on for all that runs after the region; make a new one for each region"
    )
    made = [] if region.node is context else [region.module.place(region.node, "the one object is made here")]
    text = "keep what makes one, as functools.partial(torch.autocast, ...), and enter what it gives"
    yield Draft.at(module, context, message, (*made, *way), (Fix.shown("renew", text),))


def _may_be_on(project: Project, module: ModuleNames, body: ast.With | FunctionNode) -> bool:
    """Whether autocast may be on already where the region begins: that is then what stays."""
    if isinstance(body, ast.With):
        return way_inside(project, module, body) is not None
    outside = (site for site in sites_of(project, module, body) if body not in site[0].ancestors(site[1]))
    return any(way_inside(project, *site) is not None for site in outside)


# --- what one object is known by --------------------------------------------------------------------------------------


def held_as(project: Project, module: ModuleNames, node: ast.expr) -> ObjectKeeper | None:
    """What keeps the object that a name, or an attribute of ``self``, means wherever its function reads it."""
    chain = attribute_chain(node)
    owner = module.scope_of(node).enclosing_class
    if chain is not None and len(chain) == 2 and chain[0] == "self" and owner is not None:
        _, stores = attribute_bindings(project, module, owner, chain[1])
        once = all(getattr(item.scope.node, "name", "") == "__init__" for item in stores)
        return ObjectKeeper(stores[0].node, of_self=True) if stores and once else None
    if not isinstance(node, ast.Name):
        return None
    bindings = module.scope_of(node).lookup(node.id)
    if [item.kind for item in bindings] == ["import"]:
        found = definition_named(project, bindings[0].qualified or "", module.document.path)
        bindings = found[0].defined(found[1]) if found is not None else []
    return _held_by(bindings)


def _held_by(bindings: list[Binding]) -> ObjectKeeper | None:
    """Several assignments are the arms of a choice, where none stands in a loop of its own."""
    is_parameter = [item.kind for item in bindings] == ["parameter"]
    if not bindings or not (is_parameter or all(item.kind == "assign" for item in bindings)):
        return None
    scope = bindings[0].scope.node
    return ObjectKeeper(bindings[0].node, scope if isinstance(scope, FunctionNode) else None)


# --- from a region to where it is entered once more -------------------------------------------------------------------


def _again(
    project: Project,
    module: ModuleNames,
    body: ast.With | FunctionNode,
    held: ObjectKeeper,
    hops: int,
    seen: set[object],
) -> Iterator[tuple[Place, ...]]:
    """The calls that lead from a region to where its object is entered once more, and that place."""
    waiting: list[ast.AST] = list(reversed(body.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, SCOPES):
            continue  # they run where they are called
        if isinstance(node, ast.With):
            contexts = [item.context_expr for item in node.items]
            same = next((item for item in contexts if held_as(project, module, item) == held), None)
            if same is not None and is_run(project, module, node):
                yield (module.place(same, "it is entered again here"),)
            if any(may_be_autocast(item) for item in contexts):
                continue  # off or on, it is what the inner one restores
        if isinstance(node, ast.Call) and hops < MAX_HOPS:
            yield from _called(project, module, node, held, hops, seen)
        waiting += reversed(list(ast.iter_child_nodes(node)))


def _called(
    project: Project, module: ModuleNames, call: ast.Call, held: ObjectKeeper, hops: int, seen: set[object]
) -> Iterator[tuple[Place, ...]]:
    target = called_function(project, module, call)
    if target is None or not is_run(project, module, call):
        return
    here = module.place(call, f"{target.node.name} is called here")
    for way in _through(project, target, list(_held_in(project, module, call, target, held)), hops, seen):
        yield (here, *way)
    for given, there in _called_back(project, module, target.arguments(call), target):
        for way in _through(project, given, _held_below(given, held), hops, seen):
            yield (here, there, *way)


def _through(
    project: Project, target: FunctionTarget, held: Sequence[ObjectKeeper], hops: int, seen: set[object]
) -> Iterator[tuple[Place, ...]]:
    """The ways on from a function that runs in the region, and knows the object by one of ``held``."""
    decorators = target.node.decorator_list
    for inner in held:
        same = [item for item in decorators if item is inner.keeper or held_as(project, target.module, item) == inner]
        if same:
            yield (target.module.place(same[0], "it is entered again here"),)
        elif (target.node, inner) not in seen and not any(map(may_be_autocast, decorators)):
            seen.add((target.node, inner))
            yield from _again(project, target.module, target.node, inner, hops + 1, seen)


def _held_in(
    project: Project, module: ModuleNames, call: ast.Call, target: FunctionTarget, held: ObjectKeeper
) -> Iterator[ObjectKeeper]:
    """How a called function knows the object: by what keeps it here, or by a parameter that is passed it."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not held.of_self or (isinstance(receiver, ast.Name) and receiver.id == "self" and target.bound):
        yield from _held_below(target, held)
    for name, value in target.arguments(call).items():
        if isinstance(value, ast.Name | ast.Attribute) and held_as(project, module, value) == held:
            inner = _held_by(target.scope.bindings.get(name, []))
            if inner is not None:
                yield inner


def _held_below(target: FunctionTarget, held: ObjectKeeper) -> Sequence[ObjectKeeper]:
    """The object by what keeps it, where this is the same in the function."""
    return [held] if held.within is None or held.within in target.module.ancestors(target.node) else []


def _called_back(
    project: Project, module: ModuleNames, passed: dict[str, ast.expr], target: FunctionTarget
) -> Iterator[tuple[FunctionTarget, Place]]:
    """The functions that are passed to one that calls them, and where it does."""
    for parameter, value in passed.items():
        calls = target.module.calls_inside.get((target.node, parameter), [])
        given = named_function(project, module, value, module.scope_of(value)) if calls else None
        if given is not None:
            yield given, target.module.place(calls[0], f"{given.node.name} is called here")
