"""What rules ask of the dtype flow: the meetings of a project, and what was applied where they ask for it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from ..python.names import FunctionNode, ModuleNames
from ..source.project import Project
from ..torch.dtypes import FP32
from ..torch.half_words import weights_can_be_half
from ..torch.tables.libraries import MODEL_PARAMETERS
from .analysis import flow_of
from .frame import Application, Autocasting, Meeting
from .lattice import Kind, Role
from .roots import followed_modules, holders, in_order, roots_in
from .ways import CallWay, in_way, ways_into


def meetings(project: Project) -> tuple[Meeting, ...]:
    """Every meeting in the files that are checked, tests left out."""
    return project.checked_fact(_meetings)


def all_meetings(project: Project) -> tuple[Meeting, ...]:
    """The same in the whole project."""
    return project.fact(_meetings)


def _meetings(project: Project) -> tuple[Meeting, ...]:
    modules = tuple(followed_modules(project))
    return (*_of_modules(project, modules), *_of_data(project, modules))


def _of_modules(project: Project, modules: Iterable[ModuleNames]) -> Iterator[Meeting]:
    analysis = flow_of(project)
    for module in modules:
        for function in roots_in(project, module):
            done = analysis.module_body(module) if function is None else analysis.function(module, function)
            yield from done.record.meetings


def _of_data(project: Project, modules: Iterable[ModuleNames]) -> Iterator[Meeting]:
    for module in modules:
        yield from meetings_of_data(project, module)


def applications(
    project: Project, names: Iterable[str], is_asked: Callable[[ModuleNames, ast.Call], bool]
) -> Iterator[Application]:
    """The calls of some operations for which ``is_asked`` holds, in the files that are checked, tests left out.

    ``names``: of operations that the flow watches (`operation_calls.WATCHED`) or that lack 16-bit kernels.
    """
    analysis, last_names = flow_of(project), sorted({name.rpartition(".")[2] for name in names})
    for module in followed_modules(project, frozenset(project.checked_paths(last_names))):
        calls = {call for name in last_names for call in module.calls_by_name.get(name, []) if is_asked(module, call)}
        for function in in_order(holders(module, calls)):
            done = analysis.module_body(module) if function is None else analysis.function(module, function)
            yield from (item for item in done.record.applications.values() if item.node in calls)


def meetings_of_data(project: Project, module: ModuleNames) -> Iterator[Meeting]:
    """Where a batch meets the weights of a model, both known only from the calls that lead there."""
    if not weights_can_be_half(project) or not project.fact(_has_loaders):
        return
    nodes: list[ast.AST] = [call for name in MODEL_PARAMETERS for call in module.calls_by_name.get(name, [])]
    for function in in_order(holders(module, nodes)):
        if isinstance(function, FunctionNode):
            for way in ways_into(project, module, function):
                if _has_half_model(way):
                    met = in_way(project, module, function, way).record.meetings
                    yield from (item for item in met if _is_of_data(item))


def _has_loaders(project: Project) -> bool:
    """Whether any file makes a loader: only what one gives is data of a dtype that is known."""
    return bool(project.python_paths(("dataloader",), ("DataLoader",)))


def _has_half_model(way: CallWay) -> bool:
    if way.state is not None and way.state.state is Autocasting.ON:
        return False
    models = [value for value in way.names.values() if value.kind is Kind.MODULE]
    return any(model.atoms and all(atom.is_half for atom in model.atoms) for model in models)


def _is_of_data(meeting: Meeting) -> bool:
    return meeting.odd.atom.role is Role.DATA and meeting.odd.atom.dtype == FP32
