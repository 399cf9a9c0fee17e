"""A run is resumed with its optimizer, but with a fresh GradScaler.

## What goes wrong

After a resume, after each epoch, the scale starts at 65536 again: the first steps overflow and are skipped (a log
full of "skipped step", a bump in the loss), or a scale that had grown for hours is lost and gradients underflow for
thousands of steps. No error.

## Why

The scale and its growth counter are training state like Adam's moments (`GradScaler.state_dict()`; PyTorch's AMP
documentation saves model, optimizer and scaler together). A new GradScaler does not have them.

## Fix

`save` [unsafe]: where the checkpoint is a dictionary written and read beside the scaler, it gets `"scaler":
scaler.state_dict()`, and after the optimizer's `load_state_dict` the state is loaded back if the checkpoint has one
(older checkpoints have none, and an empty state of a disabled scaler cannot be loaded into an enabled one). `load`
[unsafe]: a state that is saved and never read back is loaded in the same way. Everything else is reported, also a
scaler that is made in the body of the epoch loop, or by a function for the one step or epoch that it trains, where a
loop calls it with an optimizer that lives on.

## Not flagged

Runs that nothing in the project resumes, or for which nothing switches the scaler on: a switch that is off, and that
no launch line or file sets (`--amp`; an option with the path of what is loaded, `--resume last.pt`, is there to be
given); any sign that the state is kept (`scaler.state_dict`, a key or a
helper that is given the scaler) or, where it is saved, read back (its key is read, the scaler is passed to other code);
a scaler that only ever runs under bfloat16; an optimizer that is recreated as well; a scaler that is recreated in a
program that opens no autocast region and has no 16-bit weights: float32 gradients lose nothing at any scale.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.purpose.regimes import regime_of
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.paths import exclusive, function_of, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import steps_of
from ....codemod.torch.scalers import NameAlias, Scaler, Use, scalers
from ..given_runs import is_on, is_reached
from .checkpoints import Transfer, speaks_of_scaler_state, transfers_of, transfers_of_program
from .made_anew import (
    made_each_call,
    made_each_epoch,
    outlived,
    own_function,
    scales_half_gradients,
    takes_one_step,
)
from .save_scaler_state import fix, loading_fix

LOADS_STATE = ("load_state_dict", "private", "stored", "escaped", "bound-method", "returned", "method", "argument")
KEEPS_STATE = ("state_dict", "load_state_dict", "private", "stored", "escaped", "bound-method")


def check(project: Project) -> Iterator[Finding]:
    for scaler in scalers(project):
        if scaler.switched_off or scaler.kind == "wrapper" or not scaler.uses_of("scale"):
            continue
        if regime_of(project, scaler).serves_bf16_alone or not is_on(project, scaler):
            continue
        own = own_function(scaler)
        anew = made_each_call(project, scaler, own) if own is not None else None
        if anew is not None and scales_half_gradients(project, scaler):
            yield rule.found(*anew)
        if anew is not None or (own is not None and takes_one_step(scaler) and outlived(scaler, own)):
            continue  # there is no state that could be kept
        yield from (rule.found(*draft) for draft in made_each_epoch(project, scaler))
        yield from _made_after_load(scaler)
        yield from not_loaded(project, scaler)
        if (
            not scaler.uses_of(*KEEPS_STATE)
            and "escaped" not in scaler.routes
            and not _names_scaler_state(project, scaler)
        ):
            yield from _not_saved(project, scaler)


# --- not saved --------------------------------------------------------------------------------------------------------


def _stepped_transfers(project: Project, scaler: Scaler) -> list[Transfer]:
    """Where the state of the scaler's optimizers is saved and loaded, each place once."""
    stepped = _stepped(scaler)
    found = {(item.kind, item.call): item for item in transfers_of(project, scaler) if item.optimizer in stepped}
    return list(found.values())


def _stepped(scaler: Scaler) -> set[str]:
    """The optimizers that the scaler steps, as they are named there."""
    steps = (step.optimizer(call) for step in steps_of(scaler) for call in step.of("step"))
    return {ast.unparse(node) for node in steps if node is not None}


def _not_saved(project: Project, scaler: Scaler) -> Iterator[Finding]:
    transfers = _stepped_transfers(project, scaler)
    saves = [item for item in transfers if item.kind == "save"]
    loads = [item for item in transfers if item.kind == "load" and any(item.optimizer == x.optimizer for x in saves)]
    added = fix(scaler, saves, loads) if saves and loads and not _has_others(project, scaler) else None
    if not saves or not loads:
        program = transfers_of_program(project, scaler, _stepped(scaler))
        saves, loads = ([item for item in program if item.kind == kind] for kind in ("save", "load"))
    loads = [item for item in loads if is_reached(project, item.module, item.call)]
    if not saves or not loads:
        return
    yield rule.at(
        saves[0].module,
        saves[0].call,
        "the checkpoint keeps the optimizer's state but not the scaler's: a resumed run starts with a fresh loss scale",
        (
            loads[0].module.place(loads[0].call, "the optimizer's state is loaded here, the scaler's is not"),
            scaler.module.place(scaler.call, "the scaler is created here"),
        ),
        [added] if added is not None else [],
    )


def _has_others(project: Project, scaler: Scaler) -> bool:
    """Whether another scaler of the file has a state too: one key would hide that it is not saved."""
    return any(item is not scaler and item.module is scaler.module and item.is_used for item in scalers(project))


def _names_scaler_state(project: Project, scaler: Scaler) -> bool:
    """Whether a string or attribute of the scaler's files speaks of a scaler's state kept in some other way."""
    return any(project.memo(speaks_of_scaler_state, module) for module in scaler.modules)


# --- not loaded -------------------------------------------------------------------------------------------------------


def not_loaded(project: Project, scaler: Scaler) -> Iterator[Finding]:
    """A state that goes into the checkpoint beside the optimizer's, of which only the optimizer's is read back."""
    saves = scaler.uses_of("state_dict")
    if not saves or "escaped" in scaler.routes or scaler.uses_of(*LOADS_STATE):
        return
    transfers = _stepped_transfers(project, scaler)
    loads = [item for item in transfers if item.kind == "load"]
    keys = [key for use in saves if (key := _key_of(use)) is not None]
    modules = dict.fromkeys((*scaler.modules, *(item.module for item in transfers)))
    if not any(is_reached(project, item.module, item.call) for item in loads):
        return
    if len(keys) < len(saves) or any(_is_read(module, key) for module in modules for key in keys):
        return
    yield rule.at(
        loads[0].module,
        loads[0].call,
        "the optimizer's state is loaded and the scaler's is not, though it is saved: a resumed run starts with a "
        "fresh loss scale",
        (saves[0].module.place(saves[0].node, f"saved here as {keys[0]!r}"),),
        [loading_fix(scaler, loads, keys[0])],
    )


def _key_of(use: Use) -> str | None:
    """``"scaler"`` of ``{"scaler": scaler.state_dict()}`` and ``state["scaler"] = scaler.state_dict()``."""
    value: ast.AST | None = use.call
    parent = use.module.parents.get(value) if value is not None else None
    while isinstance(parent, ast.IfExp):
        value, parent = parent, use.module.parents.get(parent)
    key: ast.AST | None = None
    if isinstance(parent, ast.Dict) and value in parent.values:
        key = parent.keys[parent.values.index(value)]
    elif isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Subscript):
        key = parent.targets[0].slice
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _is_read(module: ModuleNames, key: str) -> bool:
    """Whether the key, or any name of a scaler's state, stands anywhere but where it is written."""
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = node.value == key or ("scaler" in node.value.lower() and " " not in node.value)
            parent = module.parents.get(node)
            written = isinstance(parent, ast.Dict) or (
                isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)
            )
            if named and not written:
                return True
    return False


# --- made after the load ----------------------------------------------------------------------------------------------


def _made_after_load(scaler: Scaler) -> Iterator[Finding]:
    """A state loaded into a scaler of the same name before this one replaces it."""
    module = scaler.module
    here = function_of(module, scaler.call)
    names = {(alias.scope, alias.name) for alias in scaler.aliases if isinstance(alias, NameAlias)}
    loads = [use for use in scaler.uses_of("load_state_dict") if use.module is module]
    for use in loads:
        chain = attribute_chain(use.node) or [""]
        same = any(name == chain[0] and scope.node is here for scope, name in names)
        if not same or function_of(module, use.node) is not here or loops(module, scaler.call):
            continue
        before = position(use.node) < position(scaler.call) and not exclusive(module, use.node, scaler.call)
        if before and not any(position(item.node) > position(scaler.call) for item in loads):
            yield rule.at(
                module,
                scaler.call,
                "the scaler is created after the checkpoint was loaded: the state went to the scaler it replaces",
                (module.place(use.node, "the state is loaded here"),),
            )
            return


rule = Rule.of("PF106", check)
