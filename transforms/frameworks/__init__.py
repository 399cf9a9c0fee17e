"""The trainers whose spelling of precision precfix knows: one YAML file each (schema: docs/frameworks.md)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ...codemod.cache import kept
from ...codemod.cache.installed import installed_state
from ...codemod.trainers.framework import Framework
from ...codemod.trainers.framework_plain import frameworks_from, plain

FOLDER = Path(__file__).parent


def load_frameworks(others: Iterable[Path] = ()) -> tuple[Framework, ...]:
    """Those that come with precfix, then ``others``; of two with the same id the later one counts.

    Raises FrameworkInvalid for a file that does not follow the schema.
    """
    own, named = read_own(), _read(others)
    replaced = {framework.id for framework in named}
    return (*(framework for framework in own if framework.id not in replaced), *named)


@cache
def read_own() -> tuple[Framework, ...]:
    """The frameworks that come with precfix, by id: as they were kept when they were read first, while they are so."""
    state = installed_state()
    known = kept.read("tables", state) if state else None
    try:
        return frameworks_from(known)
    except (TypeError, ValueError):  # nothing is kept, or something else
        own = _read(sorted(FOLDER.glob("*.yaml")))
    if state:
        kept.write("tables", state, plain(own))
    return own


def _read(paths: Iterable[Path]) -> tuple[Framework, ...]:
    listed = [*paths]
    if not listed:
        return ()
    from ...codemod.trainers.framework_file import read_frameworks

    return read_frameworks(listed)
