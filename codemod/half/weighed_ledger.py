"""The ledger, where plain code trains 16-bit weights under its autocast regions: such a run is no mixed one."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..model import Finding
from ..outcome import RunReport
from ..python.names import ModuleNames, modules_at
from ..python.paths import function_of, position
from ..source.project import Project
from ..torch.dtypes import MIXED, TRUE
from ..trainers.reading.auditing import Ledger, ledger_of
from ..trainers.reading.code_declarations import TORCH
from ..trainers.reading.run_code import is_used
from ..trainers.reading.run_members import Run
from ..trainers.reading.runs import all_runs_of
from .half_weights import half_weights
from .optimized_models import models_of_optimizer

ACCELERATE = "accelerate"
OF_MIXED = {regime: dtype for dtype, regime in MIXED.items() if dtype in TRUE}


def weighed_ledger(project: Project, findings: Iterable[Finding] = ()) -> Ledger:
    """The ledger; ``findings`` say which declarations contradict."""
    ledger = ledger_of(project, findings)
    started, others = (tuple(_weighed(project, run) for run in runs) for runs in (ledger.runs, ledger.elsewhere))
    return replace(ledger, runs=started, elsewhere=others)


def run_of(project: Project, run: RunReport) -> Run | None:
    """What was read of a run that the ledger reports."""
    return project.fact(_runs_by_start).get((run.path, run.row, run.title))


def _runs_by_start(project: Project) -> Mapping[tuple[str, int, str], Run]:
    return {(run.place.path, run.place.span.row, run.title): run for run in all_runs_of(project)}


def _weighed(project: Project, run: RunReport) -> RunReport:
    """A run of which every optimizer steps weights in the dtype of its regions computes in that dtype alone."""
    dtype = OF_MIXED.get(run.regime)
    deciding = (entry.declaration.framework for entry in run.entries if entry.declaration.regime)
    if dtype is None or run.default or not run.trains or not {*deciding} <= {TORCH, ACCELERATE}:
        return run
    read = run_of(project, run)
    paths = read.modules if read is not None else (run.path,)
    is_true = project.memo(_stepped_dtypes, tuple(paths)) == {dtype}
    return replace(run, regime=TRUE[dtype]) if is_true else run


def _stepped_dtypes(project: Project, paths: Sequence[str]) -> set[object]:
    """The dtypes of the weights that the optimizers of these modules are given; None where one is not certain."""
    found = set[object]()
    for module in modules_at(project, paths):
        for made in module.calls:
            row = module.document.span(made).row
            models = models_of_optimizer(module, made, project)
            for model in models if models and is_used(project, paths[0], module.path, row) else ():
                until = _first_backward(module, made) or False
                half = half_weights(project, module, model, made, later=until) if model is not None else None
                is_whole = half is not None and half.change is not None and not half.adapted and not half.change.part
                found.add(half.dtype if half is not None and is_whole else None)
    return found


def _first_backward(module: ModuleNames, made: ast.Call) -> ast.Call | None:
    """The first backward pass below a call in its function: what is done to the weights until then is trained."""
    calls = (
        call
        for call in module.calls_by_name.get("backward", ())
        if function_of(module, call) is function_of(module, made)
    )
    return min((call for call in calls if position(call) > position(made)), key=position, default=None)
