"""Models that are certainly 16-bit, run on abstract values: what meets in their forward, through all of its calls.

A summary of a function speaks of "the dtype of its parameter"; here each call is followed with what it is really
given, so that a tensor that one layer leaves in float32 is seen in the next one. Only what is certain is kept: a value
that two paths gave different dtypes meets nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ..model import Place
from ..python.functions import FunctionTarget, lineage
from ..python.names import FunctionNode, ModuleNames, parameters_of
from ..source.project import Project
from ..torch.dtypes import Dtype
from ..torch.weights import cast_dtype
from .analysis import NOTHING, FlowAnalysis, Interpretation, flow_of, substituted
from .classes import ProjectClass
from .frame import OUTSIDE, Autocasting, AutocastState, Frame, Meeting, Record
from .half_classes import certain_casts, entries_of
from .lattice import UNKNOWN_VALUE, Atom, Kind, Made, Value
from .left_out import defaults_of

MAX_CALLS = 800
"""Calls that are followed in one model; what is called then is unknown."""
MAX_CLASSES = 40


@dataclass(frozen=True, slots=True, eq=False)
class HalfRun:
    """One model that a program certainly runs in 16 bits."""

    owner: ProjectClass
    cast: Place
    dtype: Dtype
    meetings: tuple[Meeting, ...]
    """float32 tensors that meet its weights or results, in the order they run."""
    parts: tuple[ProjectClass, ...]
    """The classes of its modules that are entered, its own among them."""


def half_runs(project: Project) -> tuple[HalfRun, ...]:
    """The models that programs certainly run in 16 bits, one of each class."""
    return project.fact(_half_runs)


def weights_in_half(project: Project) -> Mapping[str, tuple[Place, Dtype]]:
    """The symbols of weights (`classes.weights_atom`) that are 16-bit in some run; what casts them, and to what."""
    return project.fact(_weights_in_half)


def _weights_in_half(project: Project) -> dict[str, tuple[Place, Dtype]]:
    found: dict[str, tuple[Place, Dtype]] = {}
    for run in half_runs(project):
        for part in run.parts:
            found.setdefault(flow_of(project).own_weights(part).symbol, (run.cast, run.dtype))
    return found


def _half_runs(project: Project) -> tuple[HalfRun, ...]:
    found: dict[ProjectClass, HalfRun] = {}
    for module, call, owner in certain_casts(project):
        dtype = cast_dtype(project, module, call)
        if owner not in found and len(found) < MAX_CLASSES and dtype is not None:
            found[owner] = _run(project, module, call, owner, dtype)
    return tuple(found.values())


def _run(project: Project, module: ModuleNames, call: ast.Call, owner: ProjectClass, dtype: Dtype) -> HalfRun:
    analysis = flow_of(project)
    run = Run(analysis)
    frame = Frame(analysis, module, None, run.record, OUTSIDE)
    source = frame.source(call, f"{owner.name} is cast to {dtype.name} here")
    model = Value(Kind.MODULE, (Atom(dtype, made=Made.CAST, source=source),), detail=owner)
    for target, entry in entries_of(project, module, call, owner):
        run.entered(target, _given(analysis, module, entry, target), model, OUTSIDE)
    place = module.place(call, f"{owner.name} is cast to {dtype.name} here")
    return HalfRun(owner, place, dtype, tuple(run.record.meetings), tuple(dict.fromkeys((owner, *run.owners))))


def _given(analysis: FlowAnalysis, module: ModuleNames, call: ast.Call, target: FunctionTarget) -> dict[str, Value]:
    """What the script passes the model, and what it leaves at its default."""
    caller = module.scope_of(call).function.node
    if isinstance(caller, FunctionNode):
        known = analysis.with_names(module, caller, {}).record.values
    else:
        known = analysis.observed_script(module).record.values if isinstance(caller, ast.Module) else {}
    given = {name: known.get(item, UNKNOWN_VALUE) for name, item in target.arguments(call).items()}
    return {name: value for name, value in given.items() if _is_told(value)} | defaults_of(call, target)


def _is_told(value: Value) -> bool:
    """Whether a tensor has one known dtype; what is a symbol of its function says nothing here."""
    return value.kind is Kind.TENSOR and len(value.atoms) == 1 and value.atoms[0].dtype is not None


class Run:
    """One model being run: each function once for every kind of arguments that it is given."""

    of_parts = False

    def __init__(self, analysis: FlowAnalysis) -> None:
        self.record = Record()
        self._analysis = analysis
        self._done: dict[object, Interpretation] = {}
        self._followed = 0
        self.owners: dict[ProjectClass, None] = {}
        """The classes of the modules whose methods were entered, and those that these inherit from."""

    def applied(
        self,
        frame: Frame,
        node: ast.Call,
        target: FunctionTarget,
        given: dict[str, Value],
        receiver: Value | None,
    ) -> Value:
        """What a call returns, with the values that it is given."""
        done = self.entered(target, defaults_of(node, target) | given, receiver, frame.autocast)
        return substituted(done.returned, {}, frame, node, target)

    @contextmanager
    def recording(self, record: Record) -> Iterator[None]:
        """Note what meets in ``record``; nothing that is followed meanwhile counts as done afterwards."""
        kept, done = self.record, self._done
        self.record, self._done = record, dict(done)
        yield
        self.record, self._done = kept, done

    def entered(
        self, target: FunctionTarget, given: dict[str, Value], receiver: Value | None, state: AutocastState
    ) -> Interpretation:
        """The interpretation of a function for some arguments; nothing where it calls itself with the same."""
        open_state = state.state if state.state is not Autocasting.MAYBE else Autocasting.OFF
        key = (target.node, open_state, receiver, tuple(sorted(given.items(), key=lambda item: item[0])))
        if key not in self._done:
            self._followed += 1
            if self._followed > MAX_CALLS:
                return NOTHING
            self._done[key] = NOTHING
            self._enter(receiver)
            self._done[key] = self._analysis.followed(self, self.record, target, state, _held(target, given, receiver))
        return self._done[key]

    def _enter(self, receiver: Value | None) -> None:
        detail = receiver.detail if receiver is not None else None
        if isinstance(detail, ProjectClass) and self._analysis.is_module(detail):
            self.owners[detail] = None
            above = lineage(self._analysis.project, detail.module, detail.scope)
            self.owners.update(dict.fromkeys(ProjectClass(*item) for item in above))


def _held(target: FunctionTarget, given: dict[str, Value], receiver: Value | None) -> dict[str, Value]:
    """What the parameters hold: what is handed over; nothing is known of the others."""
    names: dict[str, Value] = {}
    for index, parameter in enumerate(parameters_of(target.node)):
        known = receiver if index == 0 and target.bound else given.get(parameter.arg)
        names[parameter.arg] = known if known is not None else UNKNOWN_VALUE
    return names
