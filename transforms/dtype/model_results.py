"""In which dtype a model's result leaves a bfloat16 region: many models end in float32 there."""

from __future__ import annotations

import ast

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.classes import ProjectClass
from ...codemod.flow.frame import Autocasting, AutocastState
from ...codemod.flow.lattice import Atom
from ...codemod.python.functions import class_of_object
from ...codemod.python.names import attribute_chain
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import BF16
from ...codemod.torch.tables.policies import policy_of
from .bf16_regions import Bf16Region, bf16_region
from .model_outputs import Output

_CONVERTERS = ("prepare", "prepare_model", "setup", "setup_module")
"""Methods of accelerate's Accelerator and of Fabric: the modules they return give float32 results."""
_TO_FLOAT32 = ("fp32", "set_opt_dtype")


def region_of(project: Project, output: Output) -> Bf16Region | None:
    """The bfloat16 region that the model's result was computed in; None where the result is float32 or integral."""
    region = bf16_region(project, output.module, output.call)
    if region is None or _is_converted(output) or _is_raised(project, output, region):
        return None
    atoms = _returned(project, output)
    return region if not atoms or any(atom.is_half and atom.is_floating for atom in atoms) else None


def is_floating(project: Project, output: Output) -> bool:
    """Whether the result is a floating tensor for certain."""
    atoms = _returned(project, output)
    return output.floating or (bool(atoms) and all(atom.is_floating for atom in atoms))


def _is_converted(output: Output) -> bool:
    """Whether the model went through accelerate or Fabric, which give its results back in float32."""
    module, chain = output.module, attribute_chain(output.model)
    for name in _CONVERTERS:
        for call in module.calls_by_name.get(name, []):
            if any(attribute_chain(argument) == chain for argument in call.args):
                return True
    return False


def _is_raised(project: Project, output: Output, region: Bf16Region) -> bool:
    """Whether an operation that autocast runs in float32 stands between, in the same region."""
    for step in output.steps:
        name = step.func.attr if isinstance(step.func, ast.Attribute) else getattr(step.func, "id", "")
        inside = bf16_region(project, output.module, step)
        if inside == region and policy_of(name, region.device) in _TO_FLOAT32:
            return True
    return False


def _returned(project: Project, output: Output) -> tuple[Atom, ...]:
    """The ways the model's forward can give its result a dtype under bfloat16 autocast; empty where it is not known."""
    analysis = flow_of(project)
    found = _class_of(project, output)
    target = analysis.method(found, "forward") if found is not None else None
    if target is None or _is_method(output):
        return ()
    region = bf16_region(project, output.module, output.call)
    device = region.device if region is not None else "cuda"
    state = AutocastState(Autocasting.ON, Atom(BF16, made="autocast"), device)
    return analysis.under(state, target.module, target.node).returned.atoms


def _class_of(project: Project, output: Output) -> ProjectClass | None:
    chain = attribute_chain(output.model)
    found = class_of_object(project, output.module, output.model, chain) if chain is not None else None
    return ProjectClass(*found) if found is not None else None


def _is_method(output: Output) -> bool:
    return output.call.func is not output.model and getattr(output.call.func, "attr", "") != "forward"
