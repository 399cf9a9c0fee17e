"""Whether an autocast region can be open where code stands: to be imported by the same program is not enough."""

from __future__ import annotations

import ast

from ..flow.analysis import flow_of
from ..flow.classes import ProjectClass
from ..flow.parts import all_parts, parts_of
from ..purpose.entered import way_inside
from ..purpose.runs import HalfProgram
from ..python.callers import callers_of
from ..python.creations import creations_of, known_creations
from ..python.functions import lineage
from ..python.names import FunctionNode, ModuleNames, Scope, attribute_chain, last_name, modules_with
from ..python.reach import Reached, reached
from ..source.documents import FileKind
from ..source.project import Project
from ..torch.autocast import Autocast
from ..torch.entering_calls import sites_of
from .half_classes import made_model, made_models

AROUND = ("with", "decorator")
"""The forms of regions that tell what they are around."""
SETTINGS = (FileKind.YAML, FileKind.JSON, FileKind.TOML, FileKind.NOTEBOOK, FileKind.SHELL)
MAX_HOPS = 4
"""How many calls up a prepared model is looked for."""
MAX_PARTS = 200
"""Classes of the models in one region that are looked into."""


def can_be_inside(project: Project, run: HalfProgram, module: ModuleNames, node: ast.AST) -> bool:
    """Whether code can run in the region of ``run``: models are handed to it, anything else its body has to call."""
    if run.trainer == "accelerate" and not run.by_engine and _is_left_unprepared(project, module, node):
        return False
    owner = module.scope_of(node).enclosing_class
    if owner is not None and flow_of(project).is_module(ProjectClass(module, owner)):
        named = module in run.starts or is_named(project, owner)
        others = _runs_only_others(project, run.region, ProjectClass(module, owner))
        beside = run.region is not None and _is_called_beside(project, run.region, ProjectClass(module, owner))
        elsewhere = others or beside or _is_called_outside(project, module, node)
        return named and not elsewhere and not _is_in_another_model(project, run, module, node)
    region = run.region
    if region is None or region.form not in AROUND or way_inside(project, module, node) is not None:
        return True
    function = module.scope_of(node).function.node
    return isinstance(function, FunctionNode) and _is_called_by_a_model(project, region, module, function)


def _is_called_outside(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a method of a model, no forward pass, is called by plain functions in no region: told by its name."""
    function = module.scope_of(node).function.node
    if not isinstance(function, FunctionNode) or function.name == "forward" or function.name.startswith("__"):
        return False
    found = False
    for other in modules_with(project, (function.name,)):
        for call in other.calls_by_name.get(function.name, ()):
            owner = other.scope_of(call).enclosing_class
            in_model = owner is not None and flow_of(project).is_module(ProjectClass(other, owner))
            if in_model or way_inside(project, other, call) is not None:
                return False
            found = True
    return found


def _is_called_beside(project: Project, region: Autocast, owner: ProjectClass) -> bool:
    """Whether the code around a region calls a model that holds this class, and none in the region is known to."""
    called = project.memo(_models_called, region) if region.form == "with" else ()
    found = [inside for model, inside in called if owner in all_parts(project, model)]
    return bool(found) and not any(found)


def _models_called(project: Project, region: Autocast) -> tuple[tuple[ProjectClass, bool], ...]:
    """The models that the code around a region calls, and whether the region can be open around the call.

    Around a region of a model that is the whole class, of which a method may run inside that the region calls.
    """
    module, body = region.module, region.module.statement_of(region.node)
    scope = module.scope_of(region.node)
    entered = _methods_entered(module, scope.enclosing_class, body) if scope.enclosing_class is not None else None
    around = scope.function.node if entered is None or scope.enclosing_class is None else scope.enclosing_class.node
    inside = {body, *(entered or ())}
    calls = [item for item in ast.walk(around) if isinstance(item, ast.Call)]
    made = ((made_models(project, module, call)[0], not inside.isdisjoint(module.ancestors(call))) for call in calls)
    return tuple((model, is_inside) for models, is_inside in made for model in models)


def _methods_entered(module: ModuleNames, owner: Scope, body: ast.stmt) -> list[FunctionNode] | None:
    """The methods of a class that a block calls, also through others; None where it calls some that a base may have."""
    functions = (node for node, scope in module.scopes.items() if scope.parent is owner)
    methods = {node.name: node for node in functions if isinstance(node, FunctionNode)}
    found: list[FunctionNode] = []
    waiting: list[ast.AST] = [body]
    while waiting:
        for call in (item for item in ast.walk(waiting.pop()) if isinstance(item, ast.Call)):
            chain = attribute_chain(call.func) or []
            if chain[:1] != ["self"] or len(chain) != 2 or (owner, chain[1]) in module.stores_by_class:
                continue
            if chain[1] not in methods:
                return None
            if methods[chain[1]] not in found:
                found.append(methods[chain[1]])
                waiting.append(methods[chain[1]])
    return found


def _is_in_another_model(project: Project, run: HalfProgram, module: ModuleNames, node: ast.AST) -> bool:
    """Whether the region stands in a model that neither uses the code's class nor is built where that is used."""
    region = run.region
    owner = region.module.scope_of(region.node).enclosing_class if region is not None else None
    if region is None or region.form not in AROUND or owner is None:
        return False
    if not flow_of(project).is_module(ProjectClass(region.module, owner)):
        return False
    return not project.memo(_built_with, (region.module, owner)).holds(module, node)


def _built_with(project: Project, asked: tuple[ModuleNames, Scope]) -> Reached:
    """What a class uses, and what the functions that build it use: they may hand parts to its constructor."""
    module, owner = asked
    name = getattr(owner.node, "name", "")
    starts: list[tuple[ModuleNames, ast.AST]] = [(module, owner.node)]
    for other in modules_with(project, (name,)):
        starts += [(other, other.scope_of(load).function.node) for load in other.name_loads.get(name, [])]
        starts += [(other, other.scope_of(load).function.node) for load in other.attribute_loads.get(name, [])]
    return reached(project, starts)


def _is_called_by_a_model(project: Project, region: Autocast, module: ModuleNames, function: FunctionNode) -> bool:
    for site in callers_of(project, module, function).sites:
        owner = site.module.scope_of(site.call).enclosing_class
        if owner is not None and flow_of(project).is_module(ProjectClass(site.module, owner)):
            return not _runs_only_others(project, region, ProjectClass(site.module, owner))
    return False


def _runs_only_others(project: Project, region: Autocast | None, owner: ProjectClass) -> bool:
    """Whether all that a region's body calls are models whose classes are known, of which this class is no part."""
    parts = project.memo(_classes_run_in, region) if region is not None and region.form == "with" else None
    return parts is not None and owner not in parts


def _classes_run_in(project: Project, region: Autocast) -> frozenset[ProjectClass] | None:
    """The classes of the models that are called in a region's body, with their parts; None where one is not known."""
    body = region.module.statement_of(region.node)
    waiting = list[ProjectClass]()
    for call in (item for statement in getattr(body, "body", ()) for item in ast.walk(statement)):
        if isinstance(call, ast.Call):
            made = made_model(project, region.module, call)
            if made is None:
                return None
            waiting.append(made[0])
    found: set[ProjectClass] = set()
    while waiting and len(found) < MAX_PARTS:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting += parts_of(project, current)
            waiting += (ProjectClass(*item) for item in lineage(project, current.module, current.scope))
    return frozenset(found) if found and not waiting else None


# --- what accelerate does not wrap ------------------------------------------------------------------------------------


def _is_left_unprepared(project: Project, module: ModuleNames, node: ast.AST, hops: int = 0) -> bool:
    """Whether all that is seen to call code are plain functions, and objects that no Accelerator prepares.

    accelerate opens autocast in the forward passes of what it prepares, and nowhere else.
    """
    function = module.scope_of(node).function.node
    if way_inside(project, module, node) is not None or hops > MAX_HOPS:
        return False
    return not isinstance(function, FunctionNode) or project.memo(_is_called_unprepared, (module, function, hops))


def _is_called_unprepared(project: Project, asked: tuple[ModuleNames, FunctionNode, int]) -> bool:
    module, function, hops = asked
    sites = list(sites_of(project, module, function))
    owner = module.scopes[function].enclosing_class
    of_object = owner is not None and flow_of(project).is_module(ProjectClass(module, owner))
    if not sites:
        return hops > 0 and not of_object
    return all(
        (not of_object or is_never_prepared(project, other, call))
        and _is_left_unprepared(project, other, call, hops + 1)
        for other, call in sites
    )


def is_never_prepared(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether it is known what makes the model that is called, and no ``prepare`` is given it."""
    made_by = creations_of(project, module, call.func)
    if isinstance(call.func, ast.Attribute) and not made_by:
        made_by = creations_of(project, module, call.func.value)
    prepared = project.fact(_prepared)
    return bool(made_by) and all(
        made.call not in prepared and not any(last_name(each.func) == "prepare" for each in made.through)
        for made in made_by
    )


def _prepared(project: Project) -> frozenset[ast.AST]:
    """The calls that make what is handed to an Accelerator."""
    return frozenset(
        made.call
        for module in modules_with(project, ("prepare",))
        for call in module.calls_by_name.get("prepare", ())
        for given in call.args
        for made in known_creations(project, module, given)
    )


# --- classes that nothing names ---------------------------------------------------------------------------------------


def is_named(project: Project, owner: Scope) -> bool:
    """Whether an import, registry, configuration file or export list can lead to the class: any name but its own."""
    node = owner.node
    if not isinstance(node, ast.ClassDef) or node.decorator_list:
        return True
    if any(True for kind in SETTINGS for _ in project.documents(kind, (node.name,))):
        return True
    return any(_names(module, node.name) for module in modules_with(project, (node.name,)))


def _names(module: ModuleNames, name: str) -> bool:
    """Whether ``name`` stands in a file otherwise than in ``class name`` and inside that class."""
    classes = {item.node for item in module.module_scope.bindings.get(name, []) if item.kind == "class"}
    inside = [load for load in module.name_loads.get(name, []) if not classes.isdisjoint(module.ancestors(load))]
    return module.document.text.count(name) > len(classes) + len(inside)
