"""Variables that a scheduler is told to set for a script: ``#SBATCH --export=ALL,DTYPE=float16``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..model import Place, Span
from ..source.documents import FileKind, kind_of
from ..source.project import Project
from ..torch.dtypes import Constant
from .unaccounted import asks

DIRECTIVE = re.compile(r"#(?:SBATCH|PBS|BSUB|\$)\s.*")
GIVEN = re.compile(r"(?<![\w-])([A-Za-z_]\w*)=([\w-]+)")


def told_to_scheduler(after: Project, path: str, wanted: Constant) -> Iterator[Place]:
    """Those that ask for another precision than the target's."""
    document = after.document(path) if kind_of(path) is FileKind.SHELL else None
    for row, line in enumerate(document.text.splitlines() if document is not None else (), 1):
        for found in GIVEN.finditer(line) if DIRECTIVE.match(line) else ():
            if asks(found[1], found[2], wanted):
                yield Place(path, Span(row, found.start() + 1, row, found.end() + 1), f"still says {found[0]}")
