"""The trainers whose spelling of precision precfix knows: one YAML file each (schema: docs/frameworks.md)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ...codemod.trainers.framework import Framework

FOLDER = Path(__file__).parent


def load_frameworks(others: Iterable[Path] = ()) -> tuple[Framework, ...]:
    """Those that come with precfix, then ``others``; of two with the same id the later one counts.

    Raises FrameworkInvalid for a file that does not follow the schema.
    """
    from ...codemod.trainers.framework_file import read_frameworks

    own = read_own()
    named = read_frameworks(others)
    replaced = {framework.id for framework in named}
    return (*(framework for framework in own if framework.id not in replaced), *named)


@cache
def read_own() -> tuple[Framework, ...]:
    """The frameworks that come with precfix, by id."""
    from ...codemod.trainers.framework_file import read_frameworks

    return read_frameworks(sorted(FOLDER.glob("*.yaml")))
