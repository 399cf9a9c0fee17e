"""What a script is told: ``#SBATCH --export=ALL,DTYPE=float16``, ``DTYPE=fp16 bash a.sh``, ``a.sh bf16``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from ..formats.shell_variables import REFERENCE
from ..model import Place, Span
from ..purpose.files import purpose_of
from ..source.documents import Document, FileKind, kind_of
from ..source.project import Project
from ..torch.dtypes import HALVES, Constant, as_dtype
from ..trainers.reading.program_files import file_named
from .unaccounted import asks

DIRECTIVE = re.compile(r"#(?:SBATCH|PBS|BSUB|\$)\s.*")
GIVEN = re.compile(r"(?<![\w-])([A-Za-z_]\w*)=([\w-]+)")
STARTING = (FileKind.SHELL, FileKind.TEXT, FileKind.YAML, FileKind.PYTHON)
"""Kinds of files in which a script may be started."""
ARGUMENTS = re.compile(r"\$(?:[1-9@*]|\{[1-9@*])")
END = re.compile(r"[;&|#)]")
"""Where the words of a command end."""
QUOTES = str.maketrans("\"'`,[]", "      ")
SPACES = "[\\s\"'`,\\[(]"


def told_to_scheduler(after: Project, path: str, wanted: Constant) -> Iterator[Place]:
    """Those that ask for another precision than the target's."""
    document = after.document(path) if kind_of(path) is FileKind.SHELL else None
    for row, line in enumerate(document.text.splitlines() if document is not None else (), 1):
        for found in GIVEN.finditer(line) if DIRECTIVE.match(line) else ():
            if asks(found[1], found[2], wanted):
                yield Place(path, Span(row, found.start() + 1, row, found.end() + 1), f"still says {found[0]}")


def told_to_script(after: Project, path: str, wanted: Constant) -> Iterator[Place]:
    """Words for another 16-bit type with which other files start a script that reads its arguments, or variables."""
    document = after.document(path) if kind_of(path) is FileKind.SHELL and wanted in HALVES else None
    if document is None:
        return
    reads = {name for found in REFERENCE.finditer(document.text) for name in (found[1], found[4]) if name}
    takes = ARGUMENTS.search(document.text) is not None
    for other in (item for kind in STARTING for item in after.documents(kind, (path.rpartition("/")[2],))):
        if other.path != path and not purpose_of(other.path).is_left_alone:
            yield from _started(after, other, path, wanted, reads if takes else reads | {""})


def _started(after: Project, other: Document, path: str, wanted: Constant, reads: Set[str]) -> Iterator[Place]:
    name = re.compile(rf"(?:(?<={SPACES})|^)[^\s\"'`,]*(?<![\w-]){re.escape(path.rpartition('/')[2])}(?![\w.-])")
    exported: list[re.Match[str]] = []
    for row, line in enumerate(other.text.splitlines(), 1):
        exported += GIVEN.finditer(line) if line.lstrip().startswith("export ") else ()
        found = name.search(line) if not line.lstrip().startswith("#") else None
        if found is None or file_named(after, other.path, found[0]) != path:
            continue
        ends = END.search(line, found.end())
        words = line[found.end() : ends.start() if ends is not None else None].translate(QUOTES).split()
        variables = [item for item in (*exported, *GIVEN.finditer(line[: found.start()])) if item[1] in reads]
        told = [word.rpartition("=")[2] for word in words if "" not in reads]
        said = [word for word in told if (dtype := as_dtype(word)) in HALVES and dtype != wanted]
        said += [item[0] for item in variables if asks(item[1], item[2], wanted)]
        for word in said[:1]:
            at = Span(row, found.start() + 1, row, found.end() + 1)
            yield Place(other.path, at, f"still starts {path} with {word}")
