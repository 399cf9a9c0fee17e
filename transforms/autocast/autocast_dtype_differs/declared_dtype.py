"""What a project says elsewhere about the dtype that an ``autocast()`` without one should compute in.

Where the region belongs to a training step that some run reaches, and is not one of several.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ....codemod.model import Place
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.regimes import speaks_of_precision
from ....codemod.purpose.steps import (
    MAX_OTHERS,
    alternatives,
    calls_beside,
    carries_nothing_back,
    entered,
    function_scope,
    is_beside_training,
    is_crowded,
    is_evaluation,
    is_in_context,
    says_evaluation,
)
from ....codemod.python.callers import callers_of
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import exclusive, guards
from ....codemod.python.visible import means_the_same
from ....codemod.source.facts import fact
from ....codemod.source.project import Project
from ....codemod.torch.accelerators import accelerator_at
from ....codemod.torch.autocast import (
    Autocast,
    autocasts_in,
    dtype_scenarios,
    is_float32_island,
    is_without_gradients,
    training_autocasts,
)
from ....codemod.torch.dtypes import BF16, Constant, Scenario
from ....codemod.torch.imported import torch_at
from .compute_dtypes import (
    NamedDtype,
    bf16_is_asked_for,
    compute_dtype_at,
    is_impossible,
    option_of_scaler,
    trainer_in,
    weights_used_in,
)
from .own_switch import own_switch

BACKWARD = ("backward", "manual_backward")
STEPS = ("training_step", "train_step", "compute_loss")
"""Methods that a trainer calls for a training step, and that run no backward pass themselves."""
MAX_CALLERS = 2


@dataclass(frozen=True, slots=True)
class DeclaredDtype:
    """What is declared, where, and how the region can say the same."""

    what: str
    """The end of a sentence: "while ..."."""
    places: tuple[Place, ...]
    dtype: str | None = None
    """The argument ``dtype=`` as source text; None where no expression that fits can be seen from the region."""
    context: str | None = None
    """The object whose ``autocast()`` fits."""


def declared_near(project: Project, region: Autocast) -> DeclaredDtype | None:
    """The first of the declarations that bind ``region``; None when the project says nothing that contradicts it."""
    switch = own_switch(project, region)
    if switch is not None and not is_evaluation(region):
        return DeclaredDtype(switch.what, (region.module.place(switch.node, switch.why),), switch.text)
    if is_chosen(project, region) or not runs_in_training(project, region):
        return None
    for source in (_by_accelerator, _by_training, _by_named_dtype, _by_caller):
        found = source(project, region)
        if found is not None:
            return found
    return None


def _by_accelerator(project: Project, region: Autocast) -> DeclaredDtype | None:
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
    places = [made.module.place(made.call, "its precision is chosen here") for made in accelerator.made_by]
    if named is not None:
        places.append(module.place(named.node, "the matching dtype"))
    follows = f"follows {accelerator.asked}" if accelerator.asked else "runs the precision it is launched with"
    what = f"{accelerator.text} {'computes in bfloat16' if accelerator.values == {BF16} else follows}"
    dtype = named.text if named is not None else None
    if dtype is None and accelerator.values == {BF16}:
        dtype = _bf16_at(region)
    return DeclaredDtype(what, tuple(dict.fromkeys(places))[:4], dtype, accelerator.text)


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


def _by_training(project: Project, region: Autocast) -> DeclaredDtype | None:
    module = region.module
    declaring = [item for item in _can_be_bf16(project, module) if _binds(item, region)]
    if not declaring:
        return None
    places = tuple(module.place(item.node, "this region has a dtype") for item in declaring[:2])
    return DeclaredDtype(_says(project, declaring), places, _text_for(project, declaring, region))


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


def _by_named_dtype(project: Project, region: Autocast) -> DeclaredDtype | None:
    for named in _named(project, region):
        module = region.module
        return DeclaredDtype(named.what, (module.place(named.node, named.why),), named.text)
    return None


def _named(project: Project, region: Autocast) -> Iterator[NamedDtype]:
    for find in (_variable, option_of_scaler, weights_used_in, trainer_in):
        named = find(project, region)
        if named is not None:
            yield named


def _variable(project: Project, region: Autocast) -> NamedDtype | None:
    return compute_dtype_at(project, region.module, region.node)


# --- a training script that calls the function ------------------------------------------------------------------------


def _by_caller(project: Project, region: Autocast) -> DeclaredDtype | None:
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
            site.module.place(declaring[0].node, "this region has a dtype"),
            site.module.place(site.call, "and calls the function here"),
        )
        return DeclaredDtype(_says(project, declaring), places, _text_for(project, declaring, region))
    return None


# --- regions of which one is chosen -----------------------------------------------------------------------------------


def is_chosen(project: Project, region: Autocast) -> bool:
    """Whether the region is one branch or table entry of several, or runs for one precision only."""
    if is_crowded(project, region) or any(item.dtype_node is not None for item in alternatives(project, region)):
        return True
    return is_behind_precision_test(project, region)


def is_behind_precision_test(project: Project, region: Autocast) -> bool:
    """Whether a test of the precision decides about the region; not where it is a switch (``enabled=args.fp16``)
    that a region with another dtype has as well."""
    tests = [test for test in _tests(region) if speaks_of_precision(project, region.module, test)]
    return bool(tests) and not _asks_the_same(project, region, tests)


def _tests(region: Autocast) -> list[ast.expr]:
    tests = [guard.test for guard in guards(region.module, region.node)]
    return [*tests, region.enabled_node] if region.enabled_node is not None else tests


def _asks_the_same(project: Project, region: Autocast, tests: list[ast.expr]) -> bool:
    switches = {_last_name(test) for test in tests}
    for other in autocasts_in(project, region.module)[:MAX_OTHERS]:
        differs = (other.dtype_node is None) != (region.dtype_node is None)
        if differs and switches <= {_last_name(test) for test in _tests(other)}:
            return True
    return False


def _last_name(test: ast.expr) -> str:
    return ast.unparse(test).rpartition(".")[2]


@fact
def training_regions(project: Project) -> dict[ModuleNames, tuple[Autocast, ...]]:
    """The regions with a dtype, by file, in files that train; those that evaluate left out."""
    found: dict[ModuleNames, tuple[Autocast, ...]] = {}
    for item in training_autocasts(project):
        on_cuda = item.dtype_node is not None and item.device in ("cuda", None)
        if on_cuda and not is_float32_island(project, item) and not is_evaluation(item):
            found[item.module] = (*found.get(item.module, ()), item)
    return found


def runs_in_training(project: Project, region: Autocast) -> bool:
    """Whether the region is part of a training step that something calls."""
    if is_evaluation(region) or carries_nothing_back(region):
        return False
    if region.form == "with" and is_beside_training(project, region.module, region.node):
        return False  # a sample that is drawn when training is over
    places = [region.node, *(item.block for item in entered(region))]
    return any(
        _is_in_step(project, region.module, node, MAX_CALLERS) and is_reached(project, region.module, node)
        for node in places
    )


def _is_in_step(project: Project, module: ModuleNames, node: ast.AST, hops: int) -> bool:
    """Whether gradients are on, and the function of ``node``, or one that calls it, runs the backward pass."""
    scope = function_scope(module, node)
    if is_without_gradients(module, node) or says_evaluation(scope):
        return False
    if any(calls_beside(module, node, name) for name in BACKWARD) or getattr(scope.node, "name", "") in STEPS:
        return True
    if not hops or not isinstance(scope.node, FunctionNode):
        return False
    sites = callers_of(project, module, scope.node).sites
    within = (site for site in sites if not is_beside_training(project, site.module, site.call))
    return any(_is_in_step(project, site.module, site.call, hops - 1) for site in within)
