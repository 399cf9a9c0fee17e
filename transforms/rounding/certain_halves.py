"""Tensors that are 16-bit in every run, seen outside of autocast: computed by models that are cast, or asked for so."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.flow.analysis import FlowAnalysis, flow_of
from ...codemod.flow.classes import ProjectClass
from ...codemod.flow.frame import OUTSIDE
from ...codemod.flow.lattice import Atom, Kind, Role
from ...codemod.half.atom_places import atom_places, steps_can_run
from ...codemod.half.half_classes import REGION_MAKERS
from ...codemod.half.half_here import Half
from ...codemod.half.half_runs import weights_in_half
from ...codemod.half.half_weights import HalfWeights
from ...codemod.half.optimized_models import models_of
from ...codemod.purpose.decided import has_run
from ...codemod.purpose.entered import way_inside
from ...codemod.python.arguments import receiver_of
from ...codemod.python.creations import creations_of, known_creations
from ...codemod.python.functions import class_of
from ...codemod.python.names import ModuleNames, Scope, attribute_chain, names_of
from ...codemod.source.project import Project
from ...codemod.torch.autocast import autocasts_in
from ...codemod.torch.dtypes import HALVES, Dtype
from .half_optimizers import HalfOptimizer, all_half_optimizers


def certainly_half(project: Project, module: ModuleNames, node: ast.expr) -> Half | None:
    """Why a tensor is 16-bit where no region is open; None where it is not certain, or a region may be open."""
    value = flow_of(project).value_at(module, node, OUTSIDE)
    if way_inside(project, module, node) is not None:
        return None
    if value.kind is not Kind.TENSOR or not value.atoms:
        weights = output_of_trained(project, module, node)
        return Half(frozenset((weights.dtype,)), True, weights.places) if weights is not None else None
    dtypes = [_dtype(project, atom) for atom in value.atoms]
    if None in dtypes or not steps_can_run(project, value.atoms):
        return None
    known = weights_in_half(project)
    runs = dict.fromkeys(known[atom.symbol] for atom in value.atoms if atom.symbol in known)
    function = module.scope_of(node).function.node
    if any(function not in run.functions or not has_run(project, run.module, run.call) for run in runs):
        return None
    places = tuple(dict.fromkeys((*(run.cast for run in runs), *atom_places(project, value.atoms))))
    return Half(frozenset(item for item in dtypes if item is not None), True, places)


def _dtype(project: Project, atom: Atom) -> Dtype | None:
    """The 16-bit dtype that a way gives for certain: that of a whole model's cast for what its weights decide."""
    if atom.guessed:
        return None
    if atom.dtype is not None:
        return atom.dtype if atom.dtype in HALVES else None
    known = weights_in_half(project).get(atom.symbol) if atom.role is Role.WEIGHTS else None
    return known.dtype if known is not None else None


# --- classes of the project whose objects are trained in 16-bit weights, and what calls of them give back -------------


VIEWS = ("flatten", "view", "reshape", "transpose", "permute", "contiguous", "squeeze", "unsqueeze", "clone", "detach")
"""Methods that give back the numbers they are given."""
MAX_HOPS = 6


def _trained_classes(project: Project) -> dict[ProjectClass, HalfWeights]:
    found: dict[ProjectClass, HalfWeights] = {}
    for item in all_half_optimizers(project):
        files = project.python_documents_at((item.module.path, item.weights.place.path))
        regions = any(may_open_regions(project, names_of(project, document)) for document in files)
        if not regions and not item.weights.adapted:
            for owner in owners_of(project, item):
                found.setdefault(ProjectClass(*owner), item.weights)
    return found


def owners_of(project: Project, item: HalfOptimizer) -> Iterator[tuple[ModuleNames, Scope]]:
    """The classes of the model whose weights are 16-bit."""
    for model in models_of(item.module, item.parameters):
        owner = item.module.scope_of(model).enclosing_class if model is not None else None
        if model is not None and ast.unparse(model) == "self" and owner is not None:
            yield item.module, owner
        elif model is not None and ast.unparse(model) == item.weights.name:
            made_by = creations_of(project, item.module, model)
            classes = (class_of(project, made.module, made.call.func) for made in made_by)
            yield from (known for known in classes if known is not None)


def may_open_regions(project: Project, module: ModuleNames) -> bool:
    """Whether a file opens an autocast region, or makes what may open one."""
    made = any(name in module.calls_by_name for name in REGION_MAKERS)
    return made or any(not item.switched_off for item in autocasts_in(project, module))


def output_of_trained(project: Project, module: ModuleNames, node: ast.expr) -> HalfWeights | None:
    """The 16-bit weights whose dtype a tensor has in some training: it is what a call of that model gives back."""
    call = call_behind(module, node)
    made_by = known_creations(project, module, call.func) if call is not None else ()
    known, analysis = project.fact(_trained_classes) if made_by else {}, flow_of(project)
    for made in made_by:
        owner = class_of(project, made.module, made.call.func)
        weights = known.get(ProjectClass(*owner)) if owner is not None else None
        if owner is not None and weights is not None and _returns_weights(analysis, ProjectClass(*owner)):
            return weights
    return None


def call_behind(module: ModuleNames, node: ast.expr, hops: int = 0) -> ast.Call | None:
    """``model(x)`` of ``model(x).flatten(0, 1)``, ``logits[:, -1]`` and the like."""
    if hops > MAX_HOPS:
        return None
    if isinstance(node, ast.Name):
        bindings = module.bindings_of(node)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
        return call_behind(module, value, hops + 1) if value is not None else None
    viewed = node.value if isinstance(node, ast.Subscript) else receiver_of(node, *VIEWS)
    if viewed is not None:
        return call_behind(module, viewed, hops + 1)
    is_model = isinstance(node, ast.Call) and len(attribute_chain(node.func) or ()) in (1, 2)
    return node if is_model and isinstance(node, ast.Call) else None


def _returns_weights(analysis: FlowAnalysis, owner: ProjectClass) -> bool:
    """Whether ``forward`` gives back one tensor in the dtype of the weights."""
    target = analysis.method(owner, "forward")
    returned = target.module.returns_of(target.node) if target is not None else []
    if target is None or not returned or any(item.value is None for item in returned):
        return False
    values = [analysis.value_at(target.module, item.value, OUTSIDE) for item in returned if item.value is not None]
    return all(
        value.kind is Kind.TENSOR and value.atoms and all(atom.role is Role.WEIGHTS for atom in value.atoms)
        for value in values
    )
