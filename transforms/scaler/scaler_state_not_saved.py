"""A resumed run, or the next epoch, starts with a fresh loss scale.

## What goes wrong

After a resume, or in each epoch, the scale starts at 65536 again: the first steps overflow and are skipped (a log
full of "skipped step", a bump in the loss), or a scale that had grown for hours is lost. No error.

## Why

The scale and its growth counter are training state like Adam's moments (`GradScaler.state_dict()`; PyTorch's AMP
documentation saves model, optimizer and scaler together). A new GradScaler does not have them.

## Off by default

The scale is back after a few steps that are skipped, mostly: few runs are worse for it. A state that is saved and lost
again is [PF110](scaler-state-lost.md).

## Fix

`save` [unsafe]: where the checkpoint is a dictionary written and read beside the scaler, it gets `"scaler":
scaler.state_dict()`, and after the optimizer's `load_state_dict` the state is loaded back if the checkpoint has one
(older checkpoints have none, and an empty state of a disabled scaler cannot be loaded into an enabled one).
Everything else is reported, also a scaler that is made in the body of the epoch loop, or by a function for the one
epoch that it trains, where a loop calls it with an optimizer that lives on.

## Not flagged

Runs that nothing in the project resumes, or for which nothing switches the scaler on: a switch that is off, and that
no launch line or file sets (`--amp`; an option with the path of what is loaded, `--resume last.pt`, is there to be
given); any sign that the state is kept (`scaler.state_dict`, a key or a helper that is given the scaler);
a scaler that only ever runs under bfloat16; an optimizer that is recreated as well; a scaler that is recreated in a
program that opens no autocast region and has no 16-bit weights: float32 gradients lose nothing at any scale.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.source.facts import of_each
from ...codemod.source.project import Project
from ...codemod.torch.scalers import Scaler, scalers
from .given_runs import is_reached
from .scaler_state.checkpoints import speaks_of_scaler_state, stepped, stepped_transfers, transfers_of_program
from .scaler_state.made_anew import active_scalers, has_state, made_each_epoch
from .scaler_state.save_scaler_state import fix

KEEPS_STATE = ("state_dict", "load_state_dict", "private", "stored", "escaped", "bound-method")


def check(project: Project) -> Iterator[Finding]:
    return of_each(project, _of_scaler, active_scalers(project))


def _of_scaler(project: Project, scaler: Scaler) -> Iterator[Finding]:
    yield from (rule.found(*draft) for draft in made_each_epoch(project, scaler))
    kept = scaler.uses_of(*KEEPS_STATE) or "escaped" in scaler.routes
    if has_state(project, scaler) and not kept and not _names_scaler_state(project, scaler):
        yield from _not_saved(project, scaler)


def _not_saved(project: Project, scaler: Scaler) -> Iterator[Finding]:
    transfers = stepped_transfers(project, scaler)
    saves = [item for item in transfers if item.kind == "save"]
    loads = [item for item in transfers if item.kind == "load" and any(item.optimizer == x.optimizer for x in saves)]
    added = fix(scaler, saves, loads) if saves and loads and not _has_others(project, scaler) else None
    if not saves or not loads:
        program = transfers_of_program(project, scaler, stepped(scaler))
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


rule = Rule.of("PF106", check)
