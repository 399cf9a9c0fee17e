"""A scaler that starts anew although its state is saved, or in each step.

## What goes wrong

The state goes into the checkpoint and does not come back: it is never loaded, or loaded before the scaler is created
that trains; or one of several checkpoints, often the last, does not get it (`save(path, net, optimizer)` where other
calls pass `scaler=scaler`). The scale starts at 65536 again after each resume. A scaler that is created in each
training step never adapts at all: a step that overflows at 65536 is skipped, and so is the next. No error.

## Why

The scale and its growth counter are training state like Adam's moments (`GradScaler.state_dict()`; PyTorch's AMP
documentation saves and loads model, optimizer and scaler together). A new GradScaler does not have them.

## Fix

`load` [unsafe]: a state that is saved and never read back is loaded after the optimizer's, if the checkpoint has one
(an empty state of a disabled scaler cannot be loaded into an enabled one). `pass` [unsafe]: the call that leaves the
scaler out passes it; the checkpoint gets one more entry. Everything else is reported.

## Not flagged

Runs that nothing in the project resumes, or for which nothing switches the scaler on; a state whose key is read, or
whose scaler is passed to code that is not seen; checkpoints without the optimizer's state, or of calls that a test of
the scaler decides about; a scaler that only ever runs under bfloat16; an optimizer that is recreated as well. A state
that is not saved at all, and a scaler for each epoch, are [PF106](scaler-state-not-saved.md).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.python.keywords import key_of
from ....codemod.python.names import ModuleNames, attribute_chain, modules_with, string_of
from ....codemod.python.paths import exclusive, function_of, loops, position
from ....codemod.source.facts import of_each
from ....codemod.source.project import Project
from ....codemod.torch.scalers import NameAlias, Scaler, ScalerUse
from ..given_runs import is_reached
from ..scaler_state.checkpoints import stepped_transfers
from ..scaler_state.made_anew import active_scalers, has_state, made_each_step
from ..scaler_state.save_scaler_state import loading_fix
from .saved_without import saved_without

LOADS_STATE = ("load_state_dict", "private", "stored", "escaped", "bound-method", "returned", "method")
"""Uses that load a state, or leave it to code that is not seen; a function that takes the scaler is followed."""


def check(project: Project) -> Iterator[Finding]:
    return of_each(project, _of_scaler, active_scalers(project))


def _of_scaler(project: Project, scaler: Scaler) -> Iterator[Finding]:
    yield from (rule.found(*draft) for draft in made_each_step(project, scaler))
    if has_state(project, scaler):
        yield from _made_after_load(scaler)
        yield from not_loaded(project, scaler)
        yield from (rule.found(*draft) for draft in saved_without(project, scaler))


def not_loaded(project: Project, scaler: Scaler) -> Iterator[Finding]:
    """A state that goes into the checkpoint beside the optimizer's, of which only the optimizer's is read back."""
    saves = scaler.uses_of("state_dict")
    if not saves or "escaped" in scaler.routes or scaler.uses_of(*LOADS_STATE):
        return
    transfers = stepped_transfers(project, scaler)
    loads = [item for item in transfers if item.kind == "load"]
    keys = [key for use in saves if (key := _key_of(use)) is not None]
    modules = list(modules_with(project, (*keys, "scaler"))) if keys else []
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


def _key_of(use: ScalerUse) -> str | None:
    """``"scaler"`` of ``{"scaler": scaler.state_dict()}`` and ``state["scaler"] = scaler.state_dict()``."""
    value: ast.AST | None = use.call
    parent = use.module.parents.get(value) if value is not None else None
    while isinstance(parent, ast.IfExp):
        value, parent = parent, use.module.parents.get(parent)
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Subscript):
        return string_of(parent.targets[0].slice)
    return key_of(parent, value) if value is not None else None


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


rule = Rule.of("PF110", check)
