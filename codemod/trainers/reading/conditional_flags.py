"""Flags that a shell script adds to a variable under conditions: ``if [ "$BF16" = 1 ]; then ARGS+=(--bf16); fi``."""

from __future__ import annotations

from dataclasses import replace

from .configs import ConfigFile
from .recognition import stands_inside
from .scopes import Setting

CONDITIONS = frozenset({"if", "then", "else", "&&", "||"})
"""Words of a shell before what runs only sometimes."""


def without_undecided(config: ConfigFile, settings: list[Setting]) -> list[Setting]:
    """The settings; of several leading ones that are added under conditions it is not known which are on."""
    added = [item for item in settings if item.key.means and _is_added(config, item)]
    if len({item.key.name for item in added}) < 2:
        return settings
    return [replace(item, value=None, kind="unknown") if item in added else item for item in settings]


def _is_added(config: ConfigFile, setting: Setting) -> bool:
    """Whether a flag stands in a variable's value, and only sometimes."""
    entry, row = config.text.entries[setting.index], setting.place.span.row
    before = config.document.line(row)[: setting.place.span.column - 1].split()
    conditional = stands_inside(config.document, row) or not CONDITIONS.isdisjoint(before)
    return bool(entry.inside) and entry.kind == "flag" and conditional
