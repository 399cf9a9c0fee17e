"""Where the settings of a call that are not literals have their values from."""

from __future__ import annotations

from dataclasses import dataclass

from ...source.project import Project
from .links import sources, unfollowed_argument
from .scopes import Scope, Setting, token_of_constant
from .source import Source, unused_defaults


@dataclass(frozen=True, slots=True, eq=False)
class Handed:
    """One place that a call's setting has its value from."""

    setting: Setting
    source: Source
    value: str
    """As conditions write it; ``null``: nothing is given there."""

    @property
    def regime(self) -> str | None:
        """The regime that this value asks for."""
        return self.setting.key.meaning(self.value)


def handed_to(project: Project, scope: Scope) -> tuple[Handed, ...]:
    """Where the settings of a call that are no literals have their values from."""
    return project.memo(_handed_to, scope)


def _handed_to(project: Project, scope: Scope) -> tuple[Handed, ...]:
    found: list[Handed] = []
    for setting in scope.settings:
        argument = scope.argument(setting)
        if argument is None or setting.value is not None or not setting.key.means:
            continue
        listed = sources(project, *argument)
        ignored = unused_defaults(listed)
        is_open = unfollowed_argument(project, *argument) is not None
        for source in listed:
            token = token_of_constant(source.value)
            if token is not None and source not in ignored and not (is_open and source.kind == "parameter"):
                found.append(Handed(setting, source, token))
    return tuple(found)
