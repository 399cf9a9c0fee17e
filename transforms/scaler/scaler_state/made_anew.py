"""A scaler that is created again and again while its optimizer lives on: each epoch, or each training step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.imports import reached_from
from ....codemod.purpose.regimes import regime_of
from ....codemod.purpose.runs import starts_of
from ....codemod.python.callers import CallSite, callers_of
from ....codemod.python.names import FunctionNode, ModuleNames, attribute_chain
from ....codemod.python.paths import LoopNode, function_of, guard_facts, loop_names, loops
from ....codemod.source.facts import of_each
from ....codemod.source.project import Project
from ....codemod.torch.autocast import autocasts_in
from ....codemod.torch.half_words import speaks_of_half_weights
from ....codemod.torch.scaler_steps import steps_of
from ....codemod.torch.scalers import Scaler, scalers
from ..given_runs import is_on

OUTLIVES = ("escaped", "stored", "returned", "attribute", "module-name", "parameter", "shared-name", "other-file")
"""Ways by which a scaler leaves the function that creates it."""
MIXING = ("autocast", "Accelerator", "Fabric")
"""Parts of names of what opens autocast, here or in a library."""
MAX_MODULES = 60

MADE_EACH_EPOCH = "the scaler is recreated each epoch: its scale restarts at the initial value"
MADE_EACH_STEP = (
    "the scaler is recreated in each training step: it starts at the initial scale every time, so steps that overflow "
    "are skipped again and again and the scale never adapts"
)


def active_scalers(project: Project) -> Iterator[Scaler]:
    """The scalers that a given run has on, where something computes in float16."""
    return of_each(project, _active, scalers(project))


def _active(project: Project, scaler: Scaler) -> Iterator[Scaler]:
    if scaler.switched_off or scaler.kind == "wrapper" or not scaler.uses_of("scale"):
        return
    if not regime_of(project, scaler).serves_bf16_alone and is_on(project, scaler):
        yield scaler


def has_state(project: Project, scaler: Scaler) -> bool:
    """Whether the scaler lives longer than one step or epoch, so that there is a state that could be kept."""
    own = own_function(scaler)
    if own is None:
        return True
    return made_each_call(project, scaler) is None and not (takes_one_step(scaler) and outlived(scaler, own))


def made_each_step(project: Project, scaler: Scaler) -> Iterator[Draft]:
    """A scaler of a function that trains for one step, called in a loop with an optimizer that lives on."""
    draft = _made_in_step_loop(scaler)
    if draft is None and takes_one_step(scaler):
        draft = made_each_call(project, scaler)
    if draft is not None and scales_half_gradients(project, scaler):
        yield draft


def _made_in_step_loop(scaler: Scaler) -> Draft | None:
    """A scaler made in the very loop that scales one loss and steps an optimizer that lives on."""
    module, call = scaler.module, scaler.call
    around = loops(module, call)
    if not around or not _is_bound(module, call) or scaler.routes & {"escaped", "stored", "returned"}:
        return None
    uses = scaler.uses_of("scale", "step")
    if not all(use.module is module and loops(module, use.node)[:1] == around[:1] for use in uses):
        return None
    made = guard_facts(module, module.statement_of(call))
    if not all(made <= guard_facts(module, use.node) for use in uses):
        return None  # made in some of the passes: the first one, an epoch's first
    steps = [(step, item) for step in steps_of(scaler) for item in step.of("step")]
    if not steps or any(_is_made_in(around[0], step.optimizer(item)) for step, item in steps):
        return None
    return Draft.at(module, call, MADE_EACH_STEP, (module.place(around[0], "the steps"),))


def _is_bound(module: ModuleNames, call: ast.Call) -> bool:
    """Whether an assignment of its own makes it: ``scaler = GradScaler()``, ``GradScaler() if amp else None``."""
    statement = module.statement_of(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    value = statement.value
    other = value.orelse if isinstance(value, ast.IfExp) and value.body is call else None
    return value is call or (isinstance(other, ast.Constant) and other.value is None)


def own_function(scaler: Scaler) -> FunctionNode | None:
    """The function that creates the scaler, steps with it and forgets it; None where the scaler lives longer."""
    module = scaler.module
    function = function_of(module, scaler.call)
    if not isinstance(function, FunctionNode) or scaler.routes.intersection(OUTLIVES) or loops(module, scaler.call):
        return None
    for use in scaler.uses:
        if use.module is not module or function_of(module, use.node) is not function:
            return None
    return function


def takes_one_step(scaler: Scaler) -> bool:
    """Whether its function steps once: not in a loop, whether or not one over micro-batches scales their losses."""
    stepping = scaler.uses_of("step") or scaler.uses_of("scale")
    return not any(loops(use.module, use.node) for use in stepping)


def outlived(scaler: Scaler, function: FunctionNode) -> bool:
    """Whether the optimizer that the scaler steps comes from outside of its function."""
    optimizers = [step.optimizer(call) for step in steps_of(scaler) for call in step.of("step")]
    return bool(optimizers) and not any(_is_made_in(function, item) for item in optimizers)


def made_each_call(project: Project, scaler: Scaler) -> Draft | None:
    """A scaler of a function that trains for a step or an epoch, called in a loop with an optimizer that lives on."""
    module, function = scaler.module, own_function(scaler)
    if function is None or not outlived(scaler, function):
        return None
    optimizers = [step.optimizer(call) for step in steps_of(scaler) for call in step.of("step")]
    each_step = takes_one_step(scaler)
    for site in callers_of(project, module, function).sites:
        around = loops(site.module, site.call)
        counts = around and (each_step or _counts_epochs(around[0]))
        if counts and not any(_is_made_around(site, around[0], item) for item in optimizers):
            message = MADE_EACH_STEP if each_step else MADE_EACH_EPOCH
            return Draft.at(module, scaler.call, message, (site.module.place(site.call, "called in a loop"),))
    return None


def _counts_epochs(loop: LoopNode) -> bool:
    return any("epoch" in name.lower() for name in loop_names(loop))


def _is_made_around(site: CallSite, loop: LoopNode, optimizer: ast.expr | None) -> bool:
    """Whether the loop around a call makes the optimizer that the call passes."""
    given = site.target.arguments(site.call).get(optimizer.id) if isinstance(optimizer, ast.Name) else optimizer
    return _is_made_in(loop, given)


def scales_half_gradients(project: Project, scaler: Scaler) -> bool:
    """Whether some file of the scaler's programs opens autocast or speaks of 16-bit weights; others scale float32."""
    modules = reached_from(project, starts_of(project, scaler.module), MAX_MODULES)
    return len(modules) >= MAX_MODULES or any(
        autocasts_in(project, module)
        or any(word in name for name in (*module.name_loads, *module.attribute_loads) for word in MIXING)
        or speaks_of_half_weights(module)
        for module in modules
    )


def made_each_epoch(project: Project, scaler: Scaler) -> Iterator[Draft]:
    """A scaler made in the epoch loop, or by a function that trains for one epoch, while the optimizer outlives it."""
    draft = _made_in_epoch_loop(scaler)
    if draft is None and not takes_one_step(scaler):
        draft = made_each_call(project, scaler)
    if draft is not None and scales_half_gradients(project, scaler):
        yield draft


def _made_in_epoch_loop(scaler: Scaler) -> Draft | None:
    module = scaler.module
    around = [loop for loop in loops(module, scaler.call) if _counts_epochs(loop)]
    if not around or not any(around[0] in module.ancestors(use.node) for use in scaler.uses_of("scale")):
        return None
    loop = around[0]
    for step in steps_of(scaler):
        for call in step.of("step"):
            if step.module is not module or _is_made_in(loop, step.optimizer(call)):
                return None
    return Draft.at(module, scaler.call, MADE_EACH_EPOCH, (module.place(loop, "the epochs"),))


def _is_made_in(body: LoopNode | FunctionNode, optimizer: ast.expr | None) -> bool:
    chain = attribute_chain(optimizer) if optimizer is not None else None
    if chain is None:
        return True
    names = {".".join(chain[: count + 1]) for count in range(len(chain))}
    return any(
        isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node) in names
        for node in ast.walk(body)
    )
