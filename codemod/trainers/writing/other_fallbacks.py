"""Other places that read a setting with a default of their own: who changes one default does not change the other."""

from __future__ import annotations

import ast

from ...python.names import modules_with, string_of
from ...source.project import Project
from ..reading.runs import all_runs_of
from ..reading.source import ValueSource


def read_elsewhere(project: Project, source: ValueSource) -> str:
    """Where else a key is read with a default, ``cfg.get("amp", True)``; empty where the source is no such default."""
    key = source.key.lstrip("-").rpartition(".")[2].replace("-", "_")
    near = _near(project, source) if source.kind == "fallback" else set()
    for module in modules_with(project, (key,)) if source.kind == "fallback" else ():
        for call in (*module.calls_by_name.get("get", ()), *module.calls_by_name.get("getattr", ())):
            if near and module.path not in near:
                continue
            is_read = key in [string_of(item) for item in call.args[:-1]]
            if is_read and not (module.path == source.path and module.document.span(call.args[-1]) == source.span):
                return f"{module.path}:{call.lineno} {ast.unparse(call)} has a default of its own"
    return ""


def _near(project: Project, source: ValueSource) -> set[str]:
    """The files of the runs that the source belongs to; none where that is not known."""
    runs = (run for run in all_runs_of(project) if source.path in (run.place.path, *run.modules))
    return {path for run in runs for path in run.modules}
