"""Every gradient scaler of a project: where it is born, every way it flows, and every use of it."""

from __future__ import annotations

import ast

from ..python.names import ModuleNames, modules_with
from ..source.facts import fact
from ..source.project import Project
from .named_api import names_for
from .scaler import APIS, WORD, WORDS, AttributeAlias, NameAlias, Scaler, ScalerUse, scaler_made_by
from .scaler_flow import follow

__all__ = ["APIS", "AttributeAlias", "NameAlias", "Scaler", "ScalerUse", "scalers"]


@fact
def scalers(project: Project) -> tuple[Scaler, ...]:
    """Every scaler of the project, followed through its flow."""
    found = []
    for module in modules_with(project, WORDS, SPELLINGS):
        for call in _candidates(project, module):
            scaler = scaler_made_by(project, module, call)
            if scaler is not None:
                follow(project, scaler)
                found.append(scaler)
    return tuple(found)


SPELLINGS = ("caler(", "caler (", "caler as ")


def _candidates(project: Project, module: ModuleNames) -> list[ast.Call]:
    """The calls, in source order, whose last name is a scaler's, or an alias that an import or assignment gives one."""
    aliases = names_for(project, module, WORD)
    named = [calls for name, calls in module.calls_by_name.items() if WORD in name or name in aliases]
    return sorted((call for calls in named for call in calls), key=lambda call: (call.lineno, call.col_offset))
