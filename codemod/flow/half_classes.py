"""The model classes that some program certainly runs in 16 bits: it casts the object it made, and opens no autocast.

What a class's author wrote about float32 inside of it (``self.norm(x.float())``) is no excuse there: the weights are
16-bit, and torch refuses to mix them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..purpose.files import purpose_of
from ..purpose.proved_reach import is_reached
from ..purpose.steps import is_in_context
from ..purpose.words import Purpose
from ..python.callers import callers_of
from ..python.caught import is_caught
from ..python.creations import creations_of
from ..python.functions import FunctionTarget, class_of
from ..python.names import FunctionNode, ModuleNames, names_of
from ..source.project import Project
from ..torch.dtypes import HALVES
from ..torch.half_models import applications_of, stays_cast
from ..torch.weights import cast_dtype
from .analysis import flow_of
from .classes import ProjectClass
from .contexts import autocasts_by_node

WORDS = ("bfloat16", "float16", ".half(")
CASTS = ("to", "half", "bfloat16")
REGION_MAKERS = ("Accelerator", "Trainer", "Fabric", "initialize", "Seq2SeqTrainer", "SFTTrainer")
"""What may open an autocast region around the model (accelerate, Lightning, transformers, DeepSpeed and apex)."""
SETTING = ("to", "half", "bfloat16", "float", "train", "eval", "load_state_dict", "state_dict", "parameters")
"""Methods that a class of the project may override and that compute nothing."""
MAX_HOPS = 3
"""How many calls up a region is looked for."""
MAX_ENTRIES = 6
"""Calls of one model that are followed."""


def certain_casts(project: Project) -> Iterator[tuple[ModuleNames, ast.Call, ProjectClass]]:
    """The casts of whole models to 16 bits after which nothing in their function gives them another dtype."""
    for document in project.python_documents(WORDS):
        if purpose_of(document.path) not in (Purpose.TEST, Purpose.DOCUMENTATION):
            module = names_of(project, document)
            yield from ((module, *cast) for cast in casts_to_half(project, module) if stays_cast(module, cast[0]))


def casts_to_half(project: Project, module: ModuleNames) -> Iterator[tuple[ast.Call, ProjectClass]]:
    """The casts of whole models to 16 bits in a file that calls them and opens no autocast region; their classes."""
    if any(name in module.calls_by_name for name in REGION_MAKERS):
        return
    if any(not item.switched_off for item in autocasts_by_node(project, module).values()):
        return
    for call in (call for name in CASTS for call in module.calls_by_name.get(name, [])):
        if not isinstance(call.func, ast.Attribute) or cast_dtype(project, module, call) not in HALVES:
            continue
        made = creations_of(project, module, call.func.value)
        classes = [class_of(project, item.module, item.call.func) for item in made]
        known = {ProjectClass(*item) for item in classes if item is not None}
        if len(known) == 1 and None not in classes and all(flow_of(project).is_module(item) for item in known):
            owner = known.pop()
            if entries_of(project, module, call, owner):
                yield call, owner


def entries_of(
    project: Project, module: ModuleNames, cast: ast.Call, owner: ProjectClass
) -> list[tuple[FunctionTarget, ast.Call]]:
    """The methods of the cast model that its file calls, with the calls: what runs in 16 bits for certain.

    Not where no run comes to the cast or the call, where a caller elsewhere opens a region around the call, and where
    the call is expected to fail.
    """
    if not is_reached(project, module, cast):
        return []
    analysis = flow_of(project)
    found: list[tuple[FunctionTarget, ast.Call]] = []
    for name, call in applications_of(project, module, cast):
        target = analysis.method(owner, name) if name not in SETTING and len(found) < MAX_ENTRIES else None
        if target is None or is_caught(module, call, "RuntimeError") or not is_reached(project, module, call):
            continue
        if not _may_be_inside(project, module, call):
            found.append((target, call))
    return found


def _may_be_inside(project: Project, module: ModuleNames, node: ast.AST, hops: int = MAX_HOPS) -> bool:
    """Whether autocast may be open around ``node``, or around a call that leads to its function."""
    if is_in_context(module, node):
        return True
    function = module.scope_of(node).function.node
    if not hops or not isinstance(function, FunctionNode):
        return False
    sites = callers_of(project, module, function).sites
    return any(_may_be_inside(project, site.module, site.call, hops - 1) for site in sites)
