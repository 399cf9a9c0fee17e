"""The rules that there are: ours, and those of other packages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..model import Rule
from ..outcome import Skipped

FEW_FILES = 20
"""With fewer files a run takes less time than it takes to import all rules."""


def known_rules(root: Path, isolated: bool, files: int) -> tuple[tuple[Rule, ...], tuple[Skipped, ...]]:
    """Our rules and those of other packages, for a project of so many files; why some are missing."""
    if files < FEW_FILES:
        from ...transforms.deferred import load_deferred as load
    else:
        from ...transforms import load
    own = load()
    if isolated:
        return own, ()
    from ..plugins import plugins

    loaded = plugins.with_plugins(own, [root])
    return loaded.rules, loaded.problems


def with_plugins(known: Sequence[Rule], problems: Sequence[Skipped]) -> bool:
    """Whether rules of other packages are among the known ones, or broken."""
    return bool(problems) or any(not rule.code.startswith("PF") for rule in known)


def installed_rules() -> tuple[tuple[Rule, ...], tuple[Skipped, ...]]:
    """All rules, and why some are missing."""
    return known_rules(Path("."), False, 0)
