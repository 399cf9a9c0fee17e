"""Checkpoints of one function that get the scaler's state, all but some: ``scaler=scaler`` is left out of a call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.python.arguments import receiver_of
from ....codemod.python.callers import CallSite, callers_of
from ....codemod.python.names import FunctionNode, ModuleNames, defaults_in, is_none
from ....codemod.python.paths import function_of, guards
from ....codemod.source.project import Project
from ....codemod.torch.scalers import Scaler
from ..given_runs import is_reached

MESSAGE = (
    "the optimizer's state is saved here and the scaler's is not: a run resumed from it starts with a fresh loss scale"
)


def saved_without(project: Project, scaler: Scaler) -> Iterator[Draft]:
    """Calls of a helper that leave out the scaler which other calls of their function pass, with the same optimizer."""
    for use in scaler.uses_of("state_dict") if scaler.uses_of("load_state_dict") else ():
        helper, held = function_of(use.module, use.node), receiver_of(use.call)
        if not isinstance(helper, FunctionNode) or not isinstance(held, ast.Name):
            continue
        default = defaults_in(helper.args).get(held.id)
        kept = _optimizers(use.module, helper)
        sites = callers_of(project, use.module, helper).sites if default is not None and is_none(default) else ()
        for site in sites:
            beside = next((each for each in sites if _passes_more(each, site, held.id, kept)), None)
            if beside is not None and is_reached(project, site.module, site.call):
                passed = ast.unparse(beside.target.arguments(beside.call)[held.id])
                edit = site.module.set_argument(site.call, held.id, passed)
                fix = Fix.unsafe("pass", "pass the scaler: the checkpoint gets its state", edit)
                place = beside.module.place(beside.call, "the scaler is passed here")
                yield Draft.at(site.module, site.call, MESSAGE, (place,), (fix,))


def _optimizers(module: ModuleNames, helper: FunctionNode) -> list[str]:
    """The parameters of a helper that it asks for a state and that are called optimizers."""
    owners = (receiver_of(call) for call in module.calls_inside.get((helper, "state_dict"), ()))
    return [item.id for item in owners if isinstance(item, ast.Name) and "opt" in item.id.lower()]


def _passes_more(one: CallSite, other: CallSite, name: str, kept: list[str]) -> bool:
    """Whether ``one`` passes the scaler and ``other`` does not, in one function and with one optimizer."""
    given, left = one.target.arguments(one.call), other.target.arguments(other.call)
    open_ended = any(item.arg is None for item in other.call.keywords) or any(
        isinstance(item, ast.Starred) for item in other.call.args
    )
    if one.module is not other.module or open_ended or name not in given or name in left:
        return False
    if function_of(one.module, one.call) is not function_of(other.module, other.call) or is_none(given[name]):
        return False
    asked = any(ast.unparse(given[name]) in ast.unparse(guard.test) for guard in guards(other.module, other.call))
    same = (ast.unparse(given[item]) == ast.unparse(left[item]) for item in kept if item in given and item in left)
    return not asked and any(same)
