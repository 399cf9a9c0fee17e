"""What read-mes and strings start a program with, as declarations: users type it, and it decides nothing here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from ...outcome import Declaration
from ...purpose.files import words_of
from ...python.names import ModuleNames, modules_at
from ...source.documents import FileKind
from ...source.project import Project
from ...torch.dtypes import DTYPE_WORDS, HALVES, Dtype, as_dtype
from .code_declarations import TORCH
from .launch_flags import truth_of
from .program_files import script_of
from .run_members import Run
from .run_settings import is_switch
from .shown_lines import ShownLine, launch_lines_of, lines_in_strings, lines_of_head, shown_sources
from .stated_words import speaks

DOCUMENTED = "documented"
"""The role of what a read-me shows."""
NEGATIONS = frozenset(("no", "not", "without", "disable"))


def documented(project: Project, run: Run, items: Iterable[Declaration]) -> Iterator[Declaration]:
    """What gives a program a 16-bit dtype (``--bf16``, ``trainer.precision=16-mixed``), or switches its regions.

    Of the switches ``items`` tell: ``--amp``.
    """
    switches = {item.key.lstrip("-").replace("-", "_"): item.condition for item in items if is_switch(item)}
    for module in modules_at(project, run.modules[:1]):
        found = list(_halves(project, run, module))
        yield from found
        rows = {(item.path, item.span.row) for item in found}
        for name, condition in switches.items():
            for source in shown_sources(project, module, name, (FileKind.TEXT,)):
                if source.path != module.path and (source.path, source.span.row) not in rows:
                    where = (source.path, source.span, TORCH, source.key)
                    yield Declaration(*where, DOCUMENTED, source.text or "true", condition=condition)


def _halves(project: Project, run: Run, module: ModuleNames) -> Iterator[Declaration]:
    lines = (*project.memo(launch_lines_of, (module, (FileKind.TEXT,))), *lines_of_head(module))
    known = {(line.path, line.start) for line in lines}
    lines += tuple(line for line in project.memo(lines_in_strings, module) if (line.path, line.start) not in known)
    started = [line for line in lines if line.is_command and _starts(project, line, module)]
    for line in lines if started else ():
        for (word, start), (following, _) in pairwise([*line.words, ("", 0)]):
            dtype = _half_of(word, following) if line in started or line.is_setting else None
            name = word.rpartition("env:")[2]  # ``$env:NAME``
            if dtype is not None and (line in started or _is_set_for(project, run, line, name, started)):
                value = following if as_dtype(following) == dtype else "true"
                yield Declaration(line.path, line.span_of(start, word), TORCH, name, DOCUMENTED, value)


def _starts(project: Project, line: ShownLine, module: ModuleNames) -> bool:
    return any(script_of(project, line.path, word) == module.path for word, _ in line.words)


def _is_set_for(project: Project, run: Run, line: ShownLine, name: str, started: Iterable[ShownLine]) -> bool:
    """Whether a variable is set in the block of a launch line, read by code of the run, or known to a trainer of it."""
    if any(line.is_in_block_of(other) for other in started):
        return True
    trainers = (each for each in project.frameworks for key in each.keys if name in key.variables)
    asked = (f'"{name}"', f"'{name}'", *(package for each in trainers for package in each.packages))
    return any(word in module.document.text for module in modules_at(project, run.modules) for word in asked)


def _half_of(word: str, following: str) -> Dtype | None:
    """The dtype that an option is named for, unless it is switched off, or that it is given."""
    given = as_dtype(following) if speaks(word.lstrip("-")) else None
    if given in HALVES and isinstance(given, Dtype):
        return given
    is_on = truth_of(following) is not False if word.startswith("-") else truth_of(following) is True
    parts = words_of(word) if is_on else ()
    named = {DTYPE_WORDS[part] for part in parts if part in DTYPE_WORDS}
    return named.pop() if len(named) == 1 and NEGATIONS.isdisjoint(parts) and named <= {*HALVES} else None
