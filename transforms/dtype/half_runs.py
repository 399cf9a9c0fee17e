"""Where a project computes in 16 bits, and which of these places can run the code of a given file.

A file is run by what stands in a folder around it: the training script beside a `models/` folder, the trainer at the
top of a package. The nearest folder that holds such a place decides; other projects of one repository do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.model import Place, Span
from ...codemod.purpose.files import is_test
from ...codemod.python.names import ModuleNames, names_of
from ...codemod.source.project import Project
from ...codemod.torch.autocast import (
    MAKES_AUTOCAST,
    WORDS,
    Autocast,
    autocasts_in,
    dtype_scenarios,
    is_float32_island,
)
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import BF16, FP16, Dtype, as_dtype

_SETTING_WORDS = ("fp16", "mixed_precision", "bf16", "16-mixed")
_TRAINING_FOLDERS = ("train", "engine", "runner", "solver", "script", "tool", "bin", "core", "task")
_SETTINGS = {"Accelerator": "mixed_precision", "Trainer": "precision", "Fabric": "precision"}


@dataclass(frozen=True, slots=True)
class Run:
    """One place that makes code run in 16 bits."""

    path: str
    span: Span
    dtypes: frozenset[Dtype]
    """What it can compute in."""
    message: str

    @property
    def place(self) -> Place:
        return Place(self.path, self.span, self.message)

    @property
    def folder(self) -> str:
        """The folder whose files it can run: its own, or the one around a folder of training code."""
        folder = _folder(self.path)
        name = folder.rpartition("/")[2].lower()
        return _folder(folder) if any(word in name for word in _TRAINING_FOLDERS) else folder


def runs_of(project: Project, path: str) -> tuple[Run, ...]:
    """The places of the nearest folder around ``path`` that has any."""
    return nearest(project.fact(_all_runs), path)


def nearest(runs: tuple[Run, ...], path: str) -> tuple[Run, ...]:
    """Those of ``path`` itself, else those in the closest folder that holds ``path``."""
    own = tuple(run for run in runs if run.path == path)
    around = [run for run in runs if _holds(run.folder, path)]
    depth = max((len(run.folder) for run in around), default=0)
    return own or tuple(run for run in around if len(run.folder) == depth)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _holds(folder: str, path: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _all_runs(project: Project) -> tuple[Run, ...]:
    return (*_regions(project), *_settings(project))


def _regions(project: Project) -> Iterator[Run]:
    documents = project.python_documents(WORDS, where=lambda text: MAKES_AUTOCAST.search(text) is not None)
    for document in documents:
        if not is_test(document.path):
            yield from _regions_in(project, names_of(project, document))


def _regions_in(project: Project, module: ModuleNames) -> Iterator[Run]:
    for item in autocasts_in(project, module):
        dtypes = region_dtypes(project, item)
        if dtypes:
            text = f"autocast can compute in {_named(dtypes)} here"
            yield Run(module.document.path, module.document.span(item.node), dtypes, text)


def region_dtypes(project: Project, item: Autocast) -> frozenset[Dtype]:
    """The 16-bit types that a region computes in on an accelerator; empty for an island."""
    if item.form in ("statement", "reference") or item.device == "cpu" or is_float32_island(project, item):
        return frozenset()
    values = {scenario.value for scenario in dtype_scenarios(project, item)}
    return frozenset(value for value in values if isinstance(value, Dtype) and value in (FP16, BF16))


def _named(dtypes: frozenset[Dtype]) -> str:
    return " or ".join(sorted(dtype.name for dtype in dtypes))


def _settings(project: Project) -> Iterator[Run]:
    """``Accelerator(mixed_precision="fp16")``, ``TrainingArguments(fp16=True)``, ``Trainer(precision=16)``."""
    for document in project.python_documents(_SETTING_WORDS, where=_makes_trainer):
        if is_test(document.path):
            continue
        module = names_of(project, document)
        for name in (*_SETTINGS, "TrainingArguments", "Seq2SeqTrainingArguments"):
            for call in module.calls_by_name.get(name, []):
                dtypes = _setting_dtypes(project, module, call, name)
                if dtypes:
                    text = f"{name} can compute in {_named(dtypes)}"
                    yield Run(document.path, document.span(call), dtypes, text)


def _makes_trainer(text: str) -> bool:
    return any(f"{name}(" in text for name in (*_SETTINGS, "TrainingArguments"))


def _setting_dtypes(project: Project, module: ModuleNames, call: ast.Call, name: str) -> frozenset[Dtype]:
    given = {item.arg: item.value for item in call.keywords if item.arg}
    if name not in _SETTINGS:
        on = [dtype for key, dtype in (("fp16", FP16), ("bf16", BF16)) if _is_true(given.get(key))]
        return frozenset(on)
    node = given.get(_SETTINGS[name])
    if node is None:
        return frozenset()
    values = constants_of(project, module, node)
    named = {FP16 if value == 16 and not isinstance(value, bool) else as_dtype(value) for value in values}
    return frozenset(item for item in named if isinstance(item, Dtype) and item in (FP16, BF16))


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
