"""The ways into a function: what its callers pass it, and the autocast region that they have open."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..model import Place
from ..purpose.files import is_test
from ..python.callers import callers_of
from ..python.functions import FunctionTarget
from ..python.names import FunctionNode, ModuleNames
from ..source.project import Project
from ..torch.entering_calls import sites_of
from .analysis import FlowAnalysis, Interpretation, flow_of
from .classes import LibraryModel, ProjectClass
from .data import told
from .frame import AutocastState
from .lattice import Kind, Value
from .parameters import parameter_symbol

MAX_HOPS = 3
"""Calls between the code that is asked about and the one that made the model, or opened the region."""
MAX_SITES = 6
MAX_WAYS = 8


@dataclass(frozen=True, slots=True, eq=False)
class CallWay:
    """One call that leads into a function."""

    names: dict[str, Value]
    """What parameters and attributes of ``self`` hold, as far as it is known."""
    state: AutocastState | None
    """The region that is open around the call; None where none is open for certain."""
    places: tuple[Place, ...]
    """The calls that lead here, the outermost first."""


def ways_into(project: Project, module: ModuleNames, function: FunctionNode) -> tuple[CallWay, ...]:
    """The ways into a function on which more is known than the function itself tells; tests left out."""
    return project.memo(_ways, (module, function, 0))


def in_way(project: Project, module: ModuleNames, function: FunctionNode, way: CallWay) -> Interpretation:
    """What the function does when it is entered so."""
    return flow_of(project).with_names(module, function, way.names, way.state)


def are_all_ways(project: Project, module: ModuleNames, function: FunctionNode) -> bool:
    """Whether nobody else calls the function, or makes an object of its class, than those that are found."""
    owner = flow_of(project).owner(module, function)
    made = flow_of(project).method(owner, "__init__") if owner is not None else None
    born = made is None or callers_of(project, made.module, made.node).complete
    return born and callers_of(project, module, function).complete


def _ways(project: Project, asked: tuple[ModuleNames, FunctionNode, int]) -> tuple[CallWay, ...]:
    module, function, hops = asked
    if hops >= MAX_HOPS:
        return ()
    held = _held_by_self(project, module, function)
    found: list[CallWay] = []
    count = 0
    for site, call in sites_of(project, module, function):
        if is_test(site.document.path):
            continue
        count += 1
        if count > MAX_SITES or len(found) >= MAX_WAYS:
            break
        found += _through(project, (module, function), (site, call), held, hops)
    if not found and held:
        found = [CallWay(held, None, ())]
    return tuple(found[:MAX_WAYS])


def _through(
    project: Project,
    entered: tuple[ModuleNames, FunctionNode],
    site: tuple[ModuleNames, ast.Call],
    held: dict[str, Value],
    hops: int,
) -> Iterator[CallWay]:
    """The ways that one call gives: as its own function tells, or as that one is entered in turn."""
    analysis, (module, call) = flow_of(project), site
    place = Place(module.document.path, module.document.span(call), f"{entered[1].name} is called here")
    caller = module.scope_of(call).function.node
    done = _around(analysis, module, caller)
    way = _of_call(done, entered, call, held, (place,)) if done is not None else None
    if way is not None and (way.state is not None or way.names.keys() > held.keys()):
        yield way
        return
    outer = project.memo(_ways, (module, caller, hops + 1)) if isinstance(caller, FunctionNode) else ()
    for each in outer:
        done = analysis.with_names(module, caller, each.names, each.state)  # type: ignore[arg-type]
        yield _of_call(done, entered, call, held, (*each.places, place))
    if not outer and held and way is not None:
        yield way


def _around(analysis: FlowAnalysis, module: ModuleNames, caller: ast.AST) -> Interpretation | None:
    if isinstance(caller, FunctionNode):
        return analysis.with_names(module, caller, {})
    return analysis.observed_script(module) if isinstance(caller, ast.Module) else None


def _of_call(
    done: Interpretation,
    entered: tuple[ModuleNames, FunctionNode],
    call: ast.Call,
    held: dict[str, Value],
    places: tuple[Place, ...],
) -> CallWay:
    module, function = entered
    target = FunctionTarget(module, function, bound=module.scopes[function].enclosing_class is not None)
    given = {name: done.record.values.get(item) for name, item in target.arguments(call).items()}
    names = {name: told(value) for name, value in given.items() if value is not None and _is_worth(value)}
    state = done.record.states.get(call)
    return CallWay(held | names, state, places)


def _is_worth(value: Value) -> bool:
    """Whether what a caller passes tells more than that it is something: a model or a tensor of a known dtype."""
    if value.kind is Kind.MODULE:
        return not (isinstance(value.detail, LibraryModel) and value.detail.parameter)
    if value.kind in (Kind.SEQUENCE, Kind.RECORD):
        return any(_is_worth(item) for item in value.items or ())
    return value.kind is Kind.TENSOR and bool(value.atoms) and all(atom.dtype is not None for atom in value.atoms)


def _held_by_self(project: Project, module: ModuleNames, function: FunctionNode) -> dict[str, Value]:
    """What ``self`` keeps of the arguments of its constructor, where all who make such an object pass the same."""
    analysis = flow_of(project)
    owner = analysis.owner(module, function)
    if owner is None or function.name == "__init__":
        return {}
    return project.memo(_kept_arguments, owner)


def _kept_arguments(project: Project, owner: ProjectClass) -> dict[str, Value]:
    analysis = flow_of(project)
    made = analysis.method(owner, "__init__")
    if made is None:
        return {}
    kept = {
        name: value.detail.parameter
        for name, value in analysis.attributes(owner).items()
        if isinstance(value.detail, LibraryModel) and value.detail.parameter
    }
    kept |= {name: value.label for name, value in analysis.attributes(owner).items() if value.kind is Kind.UNKNOWN}
    if not kept:
        return {}
    given: list[dict[str, Value]] = []
    for site in callers_of(project, made.module, made.node).sites[: MAX_SITES + 1]:
        if is_test(site.module.document.path):
            continue
        done = _around(analysis, site.module, site.module.scope_of(site.call).function.node)
        way = _of_call(done, (made.module, made.node), site.call, {}, ()) if done is not None else None
        given.append(way.names if way is not None else {})
    if not 0 < len(given) <= MAX_SITES or any(each != given[0] for each in given):
        return {}
    symbols = {parameter_symbol(made.node, name): value for name, value in given[0].items()}
    return {f"self.{name}": symbols[symbol] for name, symbol in kept.items() if symbol in symbols}
