"""Declarations that are named but not moved: old files, notebook copies, runs with kernels compiled for float16."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ....codemod.model import Place
from ....codemod.proof.inserted import needs_of
from ....codemod.proof.needs import Need, Release
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.targets import compute_dtype
from ....codemod.purpose.training import training_modules
from ....codemod.purpose.words import Purpose
from ....codemod.python.names import names_of
from ....codemod.releases.pins import allowed
from ....codemod.source.magics import CONTINUED, MASK
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16
from ....codemod.trainers.reading.runs import runs_of
from ....codemod.trainers.writing.moves import Move
from .half_kernels import half_only_kernel
from .needs_of_run import needs_of_run

OLD = "its path marks it as outdated"
SPEAKING = 12
"""Characters of a beginning that others hardly have by chance."""
COPY = "this notebook is a copy of code that the project trains with"


def reserved(project: Project, move: Move) -> Move:
    """``move``, without its edits where the file is kept for another purpose than the next run."""
    if not move.edits:
        return move
    if any(purpose_of(edit.path) is Purpose.RETIRED for edit in move.edits):
        return move.only_reported(OLD, aside=True)
    cells = {edit.path for edit in move.edits if edit.path.endswith(".ipynb")} if _is_python(project, move) else ()
    if any(project.memo(_is_copy, path) for path in sorted(cells)):
        return move.only_reported(COPY, aside=True)
    kernel = _kernel_of(project, (edit.path for edit in move.edits))
    if kernel is not None:
        return move.only_reported(kernel.message, kernel)
    scripts = [*_scripts_of(project, move)]
    move = replace(move, needs=(*move.needs, *_needs(project, (*(edit.path for edit in move.edits), *scripts))))
    barred = next(_barred(project, move), None)
    if barred is not None:
        return move.only_reported(f"{barred.path}:{barred.span.row} {barred.message}", barred)
    maybe = _kernel_of(project, scripts)
    if maybe is None:
        return move
    unproved = " and ".join(part for part in (move.unproved, f"the run may use kernels: {maybe.message}") if part)
    return replace(move, unproved=unproved, evidence=(*move.evidence, maybe))


def _barred(project: Project, move: Move) -> Iterator[Place]:
    """The pins with which no release is allowed that has what the edits ask for."""
    for need in (*move.needs, *needs_of(project, move.edits)):
        versions = allowed(project, need.package, need.near) if isinstance(need, Release) else None
        if isinstance(need, Release) and versions is not None and not versions.may_reach(need.since):
            yield versions.places[0].saying(f"allows no release of {need.package} with {need.what}")


def _is_python(project: Project, move: Move) -> bool:
    """Whether a place in a notebook is code, and not a command line or a file that a cell writes."""
    document = project.document(move.path)
    line = document.line(move.span.row).lstrip(" \t\f") if document is not None else ""
    return move.command is None and not line.startswith((MASK, CONTINUED))


def _scripts_of(project: Project, move: Move) -> Iterator[str]:
    """The scripts of the runs that a move of a command line or of a file is about."""
    runs = runs_of(project) if not all(edit.path.endswith(".py") for edit in move.edits) else ()
    for run in runs:
        is_own = move.command is None or (run.command is not None and run.command.start == move.command)
        if run.modules and is_own and any(member.scope.path == move.path for member in run.members):
            yield run.modules[0]


def _needs(project: Project, paths: Iterable[str]) -> Iterator[Need]:
    """What the runs need that a move changes, by the Python files that it edits and those that they start with."""
    for path in sorted({path for path in paths if path.endswith(".py")}):
        document = project.document(path)
        yield from needs_of_run(project, names_of(project, document)) if document is not None else ()


def _kernel_of(project: Project, paths: Iterable[str]) -> Place | None:
    """The half-only kernel behind any of the Python files that would be edited on the way to bfloat16."""
    if compute_dtype(project.target) != BF16 and project.target != "portable":
        return None
    for path in sorted({path for path in paths if path.endswith(".py")}):
        document = project.document(path)
        kernel = half_only_kernel(project, names_of(project, document)) if document is not None else None
        if kernel is not None:
            return kernel
    return None


def _is_copy(project: Project, path: str) -> bool:
    """Whether a third of what a notebook says stands in one script that trains, whatever has moved there by now."""
    document = project.document(path)
    said = _lines_of(document.text) if document is not None else set()
    scripts = (module.document for module in training_modules(project) if module.path.endswith(".py"))
    return bool(said) and any(3 * len(said & _lines_of(script.text)) >= len(said) for script in scripts)


def _lines_of(text: str) -> set[str]:
    """The beginnings of the lines of code that tell one program from another; what is passed there may have moved."""
    lines = (line.strip().partition("(")[0] for line in text.splitlines())
    return {line for line in lines if len(line) >= SPEAKING and not line.startswith(("#", "import ", "from "))}
