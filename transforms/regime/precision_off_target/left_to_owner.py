"""Declarations that are named but not moved: old files, notebook copies, runs with kernels compiled for float16."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ....codemod.model import Place
from ....codemod.proof.inserted import needs_of
from ....codemod.proof.needs import Known, Need, Release
from ....codemod.purpose.files import CONFIG_ENDINGS, is_test, purpose_of
from ....codemod.purpose.targets import compute_dtype
from ....codemod.purpose.training import training_modules
from ....codemod.purpose.words import Purpose
from ....codemod.python.names import modules_with, names_of
from ....codemod.releases.pins import allowed
from ....codemod.source.documents import FileKind
from ....codemod.source.magics import CONTINUED, MASK
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, DTYPE_WORDS, FP32, HALVES
from ....codemod.trainers.reading.copied_files import copied_for_others
from ....codemod.trainers.reading.loaded_files import loaders_of
from ....codemod.trainers.reading.runs import runs_of
from ....codemod.trainers.reading.stated_words import speaks
from ....codemod.trainers.writing.moves import Move
from .half_kernels import half_only_kernel
from .needs_of_run import needs_of_run

GPUS = re.compile(
    r"(?:gpu:|nvidia-)(?:tesla[-_]|nvidia[-_])?(?:(?P<old>v100|t4|p100|k80)|[ahl]\d+s?)\b"
    r"|(?:--constraint|-C)[ =][\"']?(?:\S*\W)?(?:v100|p100|t4)\b(?P<machine>)"
    r"|(?:\bml\.|instance_type: *)(?:(?P<of_cloud>g4dn|p3|p2)|[gp][456]\w*)\."
    r"|\"gpuType\": *\"(?:(?P<of_notebook>T4|V100)|[AHL]\d+)\"",
    re.IGNORECASE,
)
"""How jobs ask for GPUs: Slurm, Kubernetes, SageMaker, Colab; the groups are those that lack bfloat16."""
JOB_KINDS = (FileKind.SHELL, FileKind.YAML, FileKind.TEXT)
SETTING, MAX_SETTING = "gpuType", 40
"""What Colab calls the GPU of a notebook."""
ASKED_IN_TEXT = re.compile(
    r"flash_attention_[23]|/[\w-]*flash-attn\d?\b|\b(?:use_)?flash_attn(?:_2)?[\"']?(?:[ =:]+)[\"']?(?:true|fa2)",
    re.IGNORECASE,
)
"""How files and launch lines ask for attention in 16 bits."""
FLAG = re.compile(r"\s--(fp16|bf16)(?![\w-])(?! +(?:False|false|0))|--mixed_precision[ =]\"?(fp16|bf16)")
"""How a command line asks for 16 bits."""
SERVING = "kind: Deployment"
ASKING = ("gpu:", "nvidia-", "constraint", "instance_type")
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
    move = replace(
        move,
        needs=(
            *move.needs,
            *_needs(project, (*(edit.path for edit in move.edits), *scripts)),
            *_of_gpus(project, move),
            *_of_exports(project, move),
            *_of_attention(project, move),
            *_of_instructions(project, move),
            *_of_copies(project, move),
        ),
    )
    barred = next(_barred(project, move), None)
    if barred is not None:
        return move.only_reported(f"{barred.path}:{barred.span.row} {barred.message}", barred)
    maybe = _kernel_of(project, scripts)
    if maybe is None:
        return move
    unproved = " and ".join(part for part in (move.unproved, f"the run may use kernels: {maybe.message}") if part)
    return replace(move, unproved=unproved, evidence=(*move.evidence, maybe))


def _of_gpus(project: Project, move: Move) -> Iterator[Need]:
    """That no job of the project asks for GPUs without bfloat16, or only in files of other runs beside newer ones."""
    if compute_dtype(project.target) != BF16:
        return
    old, has_newer = project.fact(_gpus_asked_for)
    for path, row, said in old:
        if path == move.path or not (has_newer or path.endswith(".ipynb")):
            yield Known(False, f"{path}:{row} asks for a GPU without bfloat16 ({said})")
            return


def _gpus_asked_for(project: Project) -> tuple[tuple[tuple[str, int, str], ...], bool]:
    """Where jobs ask for a GPU without bfloat16, and whether others ask for one that has it."""
    found = [
        (path, row + text.count("\n", 0, match.start()), match)
        for path, row, text in _job_texts(project)
        for match in GPUS.finditer(text)
    ]
    old = [item for item in found if any(group is not None for group in item[2].groupdict().values())]
    return tuple((path, row, match[0].strip("\"'")) for path, row, match in old), len(old) < len(found)


def _job_texts(project: Project) -> Iterator[tuple[str, int, str]]:
    """The texts that ask for machines, and where they begin: job files, what a notebook says of itself, strings of
    programs that start jobs."""
    for kind in JOB_KINDS:
        asking = (item for item in project.documents(kind, ASKING) if SERVING not in item.text)
        yield from ((item.path, 1, item.text) for item in asking)
    for document in project.documents(FileKind.NOTEBOOK, (SETTING,)):
        text = document.notebook.json_text if document.notebook is not None else ""
        at = text.find(f'"{SETTING}"')
        yield document.path, 1, text[at : at + MAX_SETTING] if at >= 0 else ""
    for document in project.python_documents(("ml.",), ("instance_type",)):
        strings = names_of(project, document).of_type(ast.Constant)
        yield from ((document.path, item.lineno, item.value) for item in strings if isinstance(item.value, str))


def _of_exports(project: Project, move: Move) -> Iterator[Need]:
    """That no program which trains nothing casts to what a file says that moves, and makes arrays of it."""
    files = dict.fromkeys(edit.path for edit in move.edits if edit.path.endswith(CONFIG_ENDINGS))
    trained = training_modules(project) if files and compute_dtype(project.target) == BF16 else ()
    for path in files:
        name = path.rpartition("/")[2]
        for module in modules_with(project, (name,), (".numpy(",), ("torch",)):
            if module in trained or is_test(module.path):
                continue
            said = [item.value for item in module.of_type(ast.Constant) if isinstance(item.value, str)]
            if any(item.endswith(name) for item in said) and any(speaks(item) for item in said):
                line = module.calls_by_name["numpy"][0].lineno if "numpy" in module.calls_by_name else 1
                yield Known(False, f"{module.path}:{line} makes an array, and {path} may say of what dtype")


def _of_attention(project: Project, move: Move) -> Iterator[Need]:
    """That no file or launch line which moves to float32 asks for attention kernels that have none."""
    for path in dict.fromkeys(edit.path for edit in move.edits) if compute_dtype(project.target) == FP32 else ():
        document = project.document(path) if not path.endswith(".py") else None
        asked = ASKED_IN_TEXT.search(document.text) if document is not None else None
        if document is not None and asked is not None:
            row = document.text.count("\n", 0, asked.start()) + 1
            yield Known(False, f"{path}:{row} asks for flash attention, which takes 16-bit numbers only")


def _of_instructions(project: Project, move: Move) -> Iterator[Need]:
    """That no read-me starts a program with a file that moves and with flags that stay: trainers compare the two.

    Of a run whose program is seen the ledger of the new texts tells.
    """
    seen = {member.scope.path for run in runs_of(project) if run.modules for member in run.members}
    old = {dtype.name for dtype in HALVES if dtype != compute_dtype(project.target)}
    for path in dict.fromkeys(edit.path for edit in move.edits if edit.path.endswith(CONFIG_ENDINGS)):
        name = path.rpartition("/")[2]
        for document in project.documents(FileKind.TEXT, (name,)) if path not in seen else ():
            for line in document.text.replace("\\\n", " ").splitlines():
                flag = FLAG.search(line) if name in line else None
                if flag is not None and getattr(DTYPE_WORDS.get(flag[1] or flag[2]), "name", "") in old:
                    yield Known(False, f"{document.path} starts a program with {name} and {flag[0].strip()}")
                    return


def _of_copies(project: Project, move: Move) -> Iterator[Need]:
    """That no script copies or edits a file that moves for runs which are not seen to read it."""
    found = (copied_for_others(project, path) for path in dict.fromkeys(edit.path for edit in move.edits))
    yield from (Known(False, said) for said in found if said)


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
    """The scripts of the runs that a move is about: a file in Python may be what another one is configured with.

    Of a configuration that no run is seen to be given the programs that may load it.
    """
    found = list[str]()
    for run in runs_of(project):
        is_own = move.command is None or (run.command is not None and run.command.start == move.command)
        if run.modules and is_own and any(member.scope.path == move.path for member in run.members):
            found.append(run.modules[0])
    yield from found or sorted(loaders_of(project, move.path))


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
