"""Launch lines in read-mes: which scripts they start with which files of the project."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ...purpose.files import CONFIG_ENDINGS
from ...source.documents import FileKind
from ...source.facts import fact
from ...source.project import Project
from .program_files import LAUNCHING, file_named, script_of
from .recognition import runs_program

STARTS = LAUNCHING
"""Words with which instructions start a program, a version aside: ``python3.10``."""
VERSION = ".0123456789"
ENDINGS = (*CONFIG_ENDINGS, ".py")
MAX_WORDS = 400
"""Words of one line that are looked at."""


@fact
def instructed_files(project: Project) -> tuple[tuple[str, str], ...]:
    """Each script with each file that a line of instructions starts it with; "" for one of somebody else's."""
    found: dict[tuple[str, str], None] = {}
    for document in project.documents(FileKind.TEXT, STARTS):
        for line in document.text.replace("\\\n", " ").splitlines():
            words = line.split()[:MAX_WORDS]
            if any(word.endswith(ENDINGS) for word in words) and _starts(project, words):
                found |= dict.fromkeys(_of_line(project, document.path, [word.strip("`'\"") for word in words]))
    return tuple(found)


def _starts(project: Project, words: list[str]) -> bool:
    """Whether a line starts a program: of Python, of a launcher, or a trainer's own."""
    if any(word.strip("`$").rstrip(VERSION) in STARTS for word in words):
        return True
    return any(runs_program(framework, words) for framework in project.frameworks)


def _of_line(project: Project, near: str, words: list[str]) -> Iterator[tuple[str, str]]:
    named = (word for before, word in pairwise(("", *words)) if "." in word or before == "-m")
    scripts = (script_of(project, near, word) for word in named)
    script = next((path for path in scripts if path is not None), "")
    for word in words:
        value = word.rpartition("=")[2]
        path = file_named(project, near, value) if value.endswith(ENDINGS) else None
        if path is not None and path != script:
            yield script, path
