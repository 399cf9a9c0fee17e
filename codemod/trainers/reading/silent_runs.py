"""Runs that train and in which no place states a precision: they compute in float32, as torch does by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...model import Place
from ...outcome import RunReport
from ...purpose.files import purpose_of
from ...purpose.imports import imported_names
from ...purpose.training import RUNS_STEP, steps_in
from ...python.names import ModuleNames, last_name, modules_at
from ...source.project import Project
from ...torch.api import LOADERS
from .run_code import is_used
from .run_members import Run
from .run_regimes import is_started

FP32 = "fp32"
OF_MACHINES = "accelerate"
"""The trainer that reads a configuration of the machine's user (``accelerate config``) where nothing is said."""


def silent_runs(project: Project, runs: Iterable[tuple[Run, RunReport]]) -> Iterator[RunReport]:
    """Those of ``runs`` that somebody starts, that train with torch, and of which nothing is declared.

    What loads weights as somebody saved them may have them in any dtype; what a machine has set, a trainer may read.
    """
    made = [*runs]
    stated = {path for run, told in made if told.entries for path in run.modules[:1] or [""]}
    for run, told in made:
        if told.entries or not told.trains or not _is_started(project, run, told):
            continue
        if run.command is None and not stated.isdisjoint(["", *run.modules[:1]]):
            continue  # it is started with words of a file, or such a file is joined to no program yet
        if any(True for _ in steps_of(project, run)):
            modules = modules_at(project, run.modules)
            loads = any(name in module.calls_by_name for module in modules for name in LOADERS)
            asks = any(member.scope.framework.id == OF_MACHINES for member in run.members)
            yield told if loads or asks else replace(told, regime=FP32)


def where_to_state(project: Project, run: Run, regime: str, how: str) -> Place | None:
    """Where a run that states no precision may be given one: its trainer, or else the training step."""
    for scope in (member.scope for member in run.members):
        if any(regime in dict(key.means).values() for key in scope.framework.keys):
            said = f"no place states a precision: {scope.title} can be set to {regime} here"
            return Place(scope.path, scope.span, said)
    for module, step in steps_of(project, run):
        return module.place(step, f"no place states a precision: this training step needs {how}")
    return None


def steps_of(project: Project, run: Run) -> Iterator[tuple[ModuleNames, ast.AST]]:
    """The training steps that a run uses: gradients alone (an attack, a saliency map) train nothing."""
    modules = [*modules_at(project, run.modules)]
    packages = {"torch", *(name.replace("-", "_") for item in project.frameworks for name in item.packages)}
    roots = {name.partition(".")[0] for module in modules for name in imported_names(module)}
    has_optimizer = any("step" in module.calls_by_name for module in modules)
    for module in modules if not packages.isdisjoint(roots) else ():
        for node in steps_in(module):
            is_step = not isinstance(node, ast.Call) or _trains(module, node, packages, has_optimizer)
            if is_step and is_used(project, modules[0].path, module.path, module.document.span(node).row):
                yield module, node


def _is_started(project: Project, run: Run, told: RunReport) -> bool:
    """Whether a launch line starts it, or it is a program that is neither a test nor an example."""
    is_own = run.command is not None or not purpose_of(told.path).is_left_alone
    return is_own and is_started(project, run, told.path, told.regime)


def _trains(module: ModuleNames, call: ast.Call, packages: set[str], has_optimizer: bool) -> bool:
    """Whether a call trains a model of torch: tokenizers have trainers, too."""
    if last_name(call.func) in RUNS_STEP:
        return has_optimizer
    return (module.qualified(call.func) or "").partition(".")[0] in packages
