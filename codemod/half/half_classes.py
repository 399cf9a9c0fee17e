"""The calls of models whose precision in a run is certain: cast to 16 bits and in no region, or float32 and in one.

What a class's author wrote about float32 inside of it (``self.norm(x.float())``) is no excuse there: torch refuses to
mix what it is given with the weights.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..flow.analysis import flow_of
from ..flow.classes import ProjectClass
from ..flow.contexts import autocasts_by_node, opened
from ..purpose.files import purpose_of
from ..purpose.proved_reach import is_reached
from ..purpose.runs import can_be_open
from ..purpose.steps import is_in_context
from ..purpose.words import Purpose
from ..python.callers import callers_of
from ..python.caught import is_caught
from ..python.creations import Creation, creations_of, may_be_of_class
from ..python.functions import called_function, class_of
from ..python.glimpses import is_in_code
from ..python.names import FunctionNode, ModuleNames, modules_at, modules_with
from ..source.facts import memo
from ..source.project import Project
from ..torch.autocast import Autocast
from ..torch.cast_models import applications_of, stays_cast
from ..torch.dtypes import HALVES
from ..torch.weight_changes import moves_only
from ..torch.weights import cast_dtype

WORDS = ("bfloat16", "float16", ".half(")
CASTS = ("to", "half", "bfloat16")
REGION_MAKERS = ("Accelerator", "Trainer", "Fabric", "initialize", "Seq2SeqTrainer", "SFTTrainer")
"""What may open an autocast region around the model (accelerate, Lightning, transformers, DeepSpeed and apex)."""
POLICIES = ("precision", "policy")
"""Words in the keywords by which wrappers are told to compute in another dtype."""
SETTING = ("to", "half", "bfloat16", "float", "train", "eval", "load_state_dict", "state_dict", "parameters")
"""Methods that a class of the project may override and that compute nothing."""
MAX_HOPS = 3
"""How many calls up a region is looked for."""
MAX_ENTRIES = 6
"""Calls of one model that are followed."""


Model = tuple[ProjectClass, Creation]
"""A class, and how an object of it is made."""


def certain_casts(project: Project) -> Iterator[tuple[ModuleNames, ast.Call, ProjectClass]]:
    """The casts of whole models to 16 bits, in the order of files."""
    for path in project.python_paths(WORDS):
        if purpose_of(path) not in (Purpose.TEST, Purpose.DOCUMENTATION):
            yield from _casts_at(project, path)


@memo
def _casts_at(project: Project, path: str) -> tuple[tuple[ModuleNames, ast.Call, ProjectClass], ...]:
    """Those in one file."""
    document = project.document(path)
    if document is None or not is_in_code(document.text, WORDS):
        return ()
    modules = modules_at(project, (path,))
    return tuple((module, *cast) for module in modules for cast in casts_to_half(project, module))


def casts_to_half(project: Project, module: ModuleNames) -> Iterator[tuple[ast.Call, ProjectClass]]:
    """Casts of whole models to 16 bits in a file that calls them, casts them no more and opens no region; classes."""
    if may_wrap(module):
        return
    if any(not item.switched_off for item in autocasts_by_node(project, module).values()):
        return
    for call in (call for name in CASTS for call in module.calls_by_name.get(name, [])):
        if not isinstance(call.func, ast.Attribute) or not _may_be_entered(project, module, call):
            continue
        if (
            not _models_at(project, module, call)
            or cast_dtype(project, module, call) not in HALVES
            or not stays_cast(module, call)
        ):
            continue  # what made the object is asked last: that leads to all who call this function
        owner, _ = made_model(project, module, call) or (None, ())
        if owner is not None and entries_of(project, module, call, owner):
            yield call, owner


def _may_be_entered(project: Project, module: ModuleNames, cast: ast.Call) -> bool:
    """Whether the file calls what is cast, or a method of it that may compute something."""
    return any(name not in SETTING for name, _ in applications_of(project, module, cast))


def entries_of(project: Project, module: ModuleNames, cast: ast.Call, owner: ProjectClass) -> list[ast.Call]:
    """The calls of methods of the cast model in its file: what runs in 16 bits for certain.

    Not where no run comes to the cast or the call, where a caller elsewhere opens a region around the call, and where
    the call is expected to fail.
    """
    if not is_reached(project, module, cast):
        return []
    found: list[ast.Call] = []
    for name, call in applications_of(project, module, cast):
        known = name not in SETTING and flow_of(project).method(owner, name) is not None
        if known and goes_on(project, module, call) and not may_be_inside(project, module, call):
            found.append(call)
    return found[:MAX_ENTRIES]


def goes_on(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether a run comes to a call that is not expected to fail."""
    return not is_caught(module, call, "RuntimeError") and is_reached(project, module, call)


def may_be_inside(project: Project, module: ModuleNames, node: ast.AST, hops: int = MAX_HOPS) -> bool:
    """Whether autocast may be open around ``node``, or around a call that leads to its function."""
    if is_in_context(module, node):
        return True
    function = module.scope_of(node).function.node
    if not hops or not isinstance(function, FunctionNode):
        return False
    sites = callers_of(project, module, function).sites
    return any(may_be_inside(project, site.module, site.call, hops - 1) for site in sites)


def certain_regions(project: Project) -> Iterator[tuple[ModuleNames, list[ast.Call], ProjectClass, Creation]]:
    """The calls of one model in a region that is certainly open, where it is made, and nothing makes it 16-bit."""
    if flow_of(project).changes_default_dtype:
        return
    for module in modules_with(project, ("autocast",)):
        if purpose_of(module.path) in (Purpose.TEST, Purpose.DOCUMENTATION) or may_wrap(module):
            continue
        found: dict[ast.Call, list[tuple[Model, ast.Call]]] = {}
        for region in autocasts_by_node(project, module).values():
            for call in _calls_inside(region) if _is_certainly_open(project, region) else ():
                owner, made_by = made_model(project, module, call) or (None, ())
                enters = owner is not None and _enters(project, module, call, owner, made_by)
                if owner is not None and enters and len(made_by) == 1 and goes_on(project, module, call):
                    found.setdefault(made_by[0].call, []).append(((owner, made_by[0]), call))
        for uses in found.values():
            models = list(dict.fromkeys(model for model, _ in uses))
            if not any(_is_ever_cast(project, module, model) for model in models):
                owner, made = models[0]
                yield module, [call for _, call in uses][:MAX_ENTRIES], owner, made


def may_wrap(module: ModuleNames) -> bool:
    return any(name in module.calls_by_name for name in REGION_MAKERS)


def _is_certainly_open(project: Project, region: Autocast) -> bool:
    """Whether a region computes in one 16-bit type in a run that the project gives: its switch may be an option."""
    known = region.form == "with" and region.understood and opened(project, region).atom.dtype in HALVES
    return known and can_be_open(project, region)


def _is_ever_cast(project: Project, module: ModuleNames, model: Model) -> bool:
    """Whether a cast, a wrapper with a policy, or a function that is handed the model may give it another dtype.

    A cast of what cannot be told counts too.
    """
    made = model[1]
    if any(word in (item.arg or "") for call in made.through for item in call.keywords for word in POLICIES):
        return True
    for holder in dict.fromkeys((module, made.module)):
        for call in holder.calls:
            casts = isinstance(call.func, ast.Attribute) and call.func.attr in CASTS
            if isinstance(call.func, ast.Attribute) and casts and (call.func.attr != "to" or not moves_only(call)):
                of = creations_of(project, holder, call.func.value)
                if not of or any(item.call is made.call for item in of):
                    return True
            if _hands_to_caster(project, holder, call, made):
                return True
    return False


def _hands_to_caster(project: Project, module: ModuleNames, call: ast.Call, made: Creation) -> bool:
    """``prepare(model)``, where ``prepare`` speaks of 16-bit types."""
    given = [item for item in call.args if isinstance(item, ast.Name | ast.Attribute)]
    target = called_function(project, module, call) if given else None
    if target is None or not project.memo(_speaks_of_halves, target.node):
        return False
    return any(item.call is made.call for node in given for item in creations_of(project, module, node))


def _speaks_of_halves(_: Project, function: ast.AST) -> bool:
    text = ast.unparse(function)
    return any(word in text for word in WORDS)


def _calls_inside(region: Autocast) -> Iterator[ast.Call]:
    statement = region.module.statement_of(region.node)
    for item in getattr(statement, "body", ()):
        yield from (node for node in ast.walk(item) if isinstance(node, ast.Call))


def _enters(
    project: Project, module: ModuleNames, call: ast.Call, owner: ProjectClass, made_by: tuple[Creation, ...]
) -> bool:
    """Whether a call runs the model or a method of its class, not a part of it or what torch defines."""
    func = call.func
    if not isinstance(func, ast.Attribute) or creations_of(project, module, func.value) != made_by:
        return True
    return flow_of(project).method(owner, func.attr) is not None


def _models_at(project: Project, module: ModuleNames, call: ast.Call) -> list[ast.expr]:
    """What may be a model of the project in ``model(x)`` or ``model.decode(x)``."""
    func = call.func
    held = [func.value, func] if isinstance(func, ast.Attribute) else [func]
    return [holder for holder in held if may_be_of_class(project, module, holder)]


def made_model(
    project: Project, module: ModuleNames, call: ast.Call
) -> tuple[ProjectClass, tuple[Creation, ...]] | None:
    """The class of ``model(x)`` or ``model.decode(x)``, and the calls that can have made the object."""
    classes, made_by = made_models(project, module, call)
    return (classes[0], made_by) if len(classes) == 1 else None


def made_models(
    project: Project, module: ModuleNames, call: ast.Call
) -> tuple[tuple[ProjectClass, ...], tuple[Creation, ...]]:
    """The same where the object can be of several classes; nothing where one of them is not known."""
    for holder in _models_at(project, module, call):
        made_by = creations_of(project, module, holder)
        classes = [class_of(project, made.module, made.call.func) for made in made_by]
        known = tuple(dict.fromkeys(ProjectClass(*item) for item in classes if item is not None))
        if known and None not in classes and all(flow_of(project).is_module(each) for each in known):
            return known, made_by
    return (), ()
