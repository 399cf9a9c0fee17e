"""What a project says elsewhere about the dtype that an ``autocast()`` without one should compute in."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ....codemod.model import Place
from ....codemod.purpose.steps import calls_beside, function_scope, is_evaluation, is_in_context
from ....codemod.python.callers import callers_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import exclusive
from ....codemod.python.visible import means_the_same
from ....codemod.source.project import Project
from ....codemod.torch.accelerators import accelerator_at
from ....codemod.torch.autocast import Autocast, dtype_scenarios
from ....codemod.torch.dtypes import BF16, Constant, Scenario
from ....codemod.torch.imported import torch_at
from .chosen_regions import is_chosen
from .compute_dtypes import (
    Named,
    bf16_is_asked_for,
    compute_dtype_at,
    is_impossible,
    option_of_scaler,
    trainer_in,
    weights_used_in,
)
from .own_switch import own_switch
from .training_regions import runs_in_training, training_regions


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared, where, and how the region can say the same."""

    what: str
    """The end of a sentence: "while ..."."""
    places: tuple[Place, ...]
    dtype: str | None = None
    """The argument ``dtype=`` as source text; None where no expression that fits can be seen from the region."""
    context: str | None = None
    """The object whose ``autocast()`` fits."""


def declared_near(project: Project, region: Autocast) -> Declared | None:
    """The first of the declarations that bind ``region``; None when the project says nothing that contradicts it."""
    switch = own_switch(project, region)
    if switch is not None and not is_evaluation(region):
        return Declared(switch.what, (_place(region.module, switch.node, switch.why),), switch.text)
    if is_chosen(project, region) or not runs_in_training(project, region):
        return None
    for source in (_by_accelerator, _by_training, _by_named_dtype, _by_caller):
        found = source(project, region)
        if found is not None:
            return found
    return None


def _place(module: ModuleNames, node: ast.AST, message: str) -> Place:
    return module.place(node, message)


# --- a library's object -----------------------------------------------------------------------------------------------


def _by_accelerator(project: Project, region: Autocast) -> Declared | None:
    module = region.module
    accelerator = accelerator_at(project, module, region.node)
    if accelerator is None:
        return None
    named = compute_dtype_at(project, module, region.node, weights=True)
    asked = accelerator.may_run_bf16
    if not asked and (accelerator.values or not (named is not None or _asks_for_bf16(module))):
        return None
    if accelerator.values != {BF16} and not bf16_is_asked_for(project):
        return None
    places = [_place(made.module, made.call, "its precision is chosen here") for made in accelerator.made_by]
    if named is not None:
        places.append(_place(module, named.node, "the matching dtype"))
    follows = f"follows {accelerator.asked}" if accelerator.asked else "runs the precision it is launched with"
    what = f"{accelerator.text} {'computes in bfloat16' if accelerator.values == {BF16} else follows}"
    dtype = named.text if named is not None else None
    if dtype is None and accelerator.values == {BF16}:
        dtype = _bf16_at(region)
    return Declared(what, tuple(dict.fromkeys(places))[:4], dtype, accelerator.text)


def _asks_for_bf16(module: ModuleNames) -> bool:
    """Whether the file itself handles ``accelerator.mixed_precision == "bf16"``."""
    for node in module.attribute_loads.get("mixed_precision", []):
        parent = module.parents[node]
        if isinstance(parent, ast.Compare):
            sides = [parent.left, *parent.comparators]
            if any(isinstance(side, ast.Constant) and side.value == "bf16" for side in sides):
                return True
    return False


# --- the training step's own region -----------------------------------------------------------------------------------


def _by_training(project: Project, region: Autocast) -> Declared | None:
    module = region.module
    declaring = [item for item in _can_be_bf16(project, module) if _binds(item, region)]
    if not declaring:
        return None
    places = tuple(_place(module, item.node, "this region has a dtype") for item in declaring[:2])
    return Declared(_says(project, declaring), places, _text_for(project, declaring, region))


def _says(project: Project, declaring: Sequence[Autocast]) -> str:
    who = "the training step" if _calls(declaring[0], "backward") else "another region"
    return f"{who} {'computes' if _is_certain(project, declaring) else 'can compute'} in bfloat16"


def _is_certain(project: Project, declaring: Sequence[Autocast]) -> bool:
    """Whether the training step computes in bfloat16 whatever is chosen."""
    return all(_values(project, item) == {BF16} and not is_chosen(project, item) for item in declaring)


def _text_for(project: Project, declaring: Sequence[Autocast], region: Autocast) -> str | None:
    first = declaring[0]
    if first.dtype_node is None or is_chosen(project, first):
        return None
    if first.module is region.module and means_the_same(region.module, first.dtype_node, region.node):
        return ast.unparse(first.dtype_node)
    return _bf16_at(region) if _is_certain(project, declaring) else None


def _bf16_at(region: Autocast) -> str | None:
    torch = torch_at(region.module, region.node)
    return f"{torch}.bfloat16" if torch is not None else None


def _can_be_bf16(project: Project, module: ModuleNames) -> list[Autocast]:
    found = training_regions(project).get(module, ())
    return [item for item in found if any(map(partial(_is_bf16, project, item), dtype_scenarios(project, item)))]


def _is_bf16(project: Project, item: Autocast, scenario: Scenario) -> bool:
    return scenario.value == BF16 and not is_impossible(project, item.module, scenario)


def _values(project: Project, item: Autocast) -> set[Constant]:
    return {scenario.value for scenario in dtype_scenarios(project, item)}


def _binds(declaring: Autocast, region: Autocast) -> bool:
    """Whether both can run in one program: no alternatives, and no training steps of two different recipes."""
    here, there = function_scope(region.module, region.node), function_scope(declaring.module, declaring.node)
    if here is there:
        return not exclusive(region.module, declaring.node, region.node)
    both_train = _calls(region, "backward") and _calls(declaring, "backward")
    return not (both_train and _calls(region, "scale") != _calls(declaring, "scale"))


def _calls(region: Autocast, name: str) -> bool:
    return calls_beside(region.module, region.node, name)


# --- a variable, the scaler's own condition, the weights, a trainer's argument ----------------------------------------


def _by_named_dtype(project: Project, region: Autocast) -> Declared | None:
    for named in _named(project, region):
        module = region.module
        return Declared(named.what, (_place(module, named.node, named.why),), named.text)
    return None


def _named(project: Project, region: Autocast) -> Iterator[Named]:
    for find in (_variable, option_of_scaler, weights_used_in, trainer_in):
        named = find(project, region)
        if named is not None:
            yield named


def _variable(project: Project, region: Autocast) -> Named | None:
    return compute_dtype_at(project, region.module, region.node)


# --- a training script that calls the function ------------------------------------------------------------------------


def _by_caller(project: Project, region: Autocast) -> Declared | None:
    """The function around the region is called from a file whose training step computes in bfloat16."""
    function = function_scope(region.module, region.node).node
    if not isinstance(function, ast.FunctionDef) or "backward" in region.module.calls_by_name:
        return None
    if not any(_can_be_bf16(project, module) for module in training_regions(project)):
        return None
    for site in callers_of(project, region.module, function).sites:
        declaring = _can_be_bf16(project, site.module)
        if not declaring or site.module is region.module or is_in_context(site.module, site.call):
            continue
        places = (
            _place(site.module, declaring[0].node, "this region has a dtype"),
            _place(site.module, site.call, "and calls the function here"),
        )
        return Declared(_says(project, declaring), places, _text_for(project, declaring, region))
    return None
