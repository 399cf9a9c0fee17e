"""Models whose precision in a run is certain, followed on abstract values from the script's call through all of theirs.

Either the weights are 16-bit, or they are float32 and a certain autocast region is open around the call. A summary of a
function speaks of "the dtype of its parameter"; here each call is followed with what it is really given, so that a
tensor that one layer leaves in float32 is seen in the next one, and so is what the script does with the result. Only
what is certain is kept: a value that two paths gave different dtypes meets nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..flow.analysis import NOTHING, FlowAnalysis, Interpretation, flow_of
from ..flow.classes import ProjectClass
from ..flow.frame import Application, Autocasting, AutocastState, FlowRecord, Frame
from ..flow.lattice import UNKNOWN_VALUE, Atom, DtypeSource, Kind, MadeHow, Value
from ..flow.left_out import defaults_of
from ..flow.substitution import substituted
from ..model import Place
from ..python.functions import FunctionTarget, lineage
from ..python.names import FunctionNode, ModuleNames, parameters_of
from ..source.facts import fact
from ..source.project import Project
from ..torch.dtypes import FP32, Dtype
from ..torch.weights import cast_dtype
from .engine_classes import certain_engines
from .half_classes import certain_casts, certain_regions, entries_of

MAX_CALLS = 800
"""Calls that are followed in one model; what is called then is unknown."""
MAX_CLASSES = 40


@dataclass(frozen=True, slots=True, eq=False)
class HalfRun:
    """One model that a program certainly runs in 16 bits: its weights are, or autocast computes in them."""

    owner: ProjectClass
    module: ModuleNames
    call: ast.Call
    """What gave its weights their dtype."""
    cast: Place
    dtype: Dtype | None
    """What the weights are cast to; None for those that stay in float32."""
    record: FlowRecord
    """float32 tensors that meet 16-bit ones, in the order they run."""
    parts: tuple[ProjectClass, ...]
    """The classes of its modules that are entered, its own among them."""
    functions: frozenset[ast.AST]
    """The functions that are entered, and those that call the model."""


@fact
def half_runs(project: Project) -> tuple[HalfRun, ...]:
    """The models that programs certainly run in 16 bits, one of each class."""
    found: dict[ProjectClass, HalfRun] = {}
    for module, call, owner in certain_casts(project):
        dtype = cast_dtype(project, module, call)
        if owner not in found and len(found) < MAX_CLASSES and dtype is not None:
            calls = entries_of(project, module, call, owner)
            found[owner] = _followed(project, module, owner, calls, (module, call), dtype)
    for module, calls, owner, call, dtype in certain_engines(project):
        if owner not in found and len(found) < MAX_CLASSES:
            found[owner] = _followed(project, module, owner, calls, (module, call), dtype)
    for module, calls, owner, made in certain_regions(project):
        if owner not in found and len(found) < MAX_CLASSES:
            found[owner] = _followed(project, module, owner, calls, (made.module, made.call), None)
    return tuple(found.values())


@fact
def weights_in_half(project: Project) -> Mapping[str, HalfRun]:
    """The symbols of weights (`classes.weights_atom`) that are 16-bit in some run, with that run."""
    found: dict[str, HalfRun] = {}
    for run in half_runs(project):
        if run.dtype is not None:
            for part in run.parts:
                found.setdefault(flow_of(project).own_weights(part).symbol, run)
    return found


@fact
def applied_in_runs(project: Project) -> Mapping[ast.AST, Application]:
    """The operations that rules ask about, where a run comes to them, with what they are given there."""
    return {node: item for run in half_runs(project)[::-1] for node, item in run.record.applications.items()}


def _followed(
    project: Project,
    module: ModuleNames,
    owner: ProjectClass,
    calls: Sequence[ast.Call],
    made: tuple[ModuleNames, ast.Call],
    dtype: Dtype | None,
) -> HalfRun:
    """The functions that call the model, followed; ``made``: what gave its weights their dtype."""
    text = f"{owner.name} is cast to {dtype.name} here" if dtype is not None else f"{owner.name} is made in float32"
    source = DtypeSource(made[0].document.path, made[1], text)
    atom = Atom(dtype or FP32, made=MadeHow.CAST if dtype is not None else MadeHow.MODULE, source=source)
    run = ModelRun(flow_of(project), dict.fromkeys(calls, Value(Kind.MODULE, (atom,), detail=owner)))
    holders = dict.fromkeys(module.scope_of(call).function.node for call in calls)
    for holder in holders:
        flow_of(project).followed_from(run, module, holder if isinstance(holder, FunctionNode) else None)
    parts = tuple(dict.fromkeys((owner, *run.owners)))
    functions = frozenset((*holders, *run.functions))
    return HalfRun(owner, *made, made[0].place(made[1], text), dtype, run.record, parts, functions)


class ModelRun:
    """One model being run: each function once for every kind of arguments that it is given."""

    of_parts = False

    def __init__(self, analysis: FlowAnalysis, models: Mapping[ast.Call, Value]) -> None:
        self.record = FlowRecord()
        self.models = models
        self._analysis = analysis
        self._done: dict[tuple[FunctionNode, object], Interpretation] = {}
        self._followed = 0
        self._is_inside = False
        """Whether one of the models is entered, not only the code around it."""
        self.owners: dict[ProjectClass, None] = {}
        """The classes of the modules whose methods were entered, and those that these inherit from."""

    @property
    def functions(self) -> Iterator[ast.AST]:
        """The functions that were entered."""
        return (key[0] for key in self._done)

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
    def recording(self, record: FlowRecord) -> Iterator[None]:
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
        key = (target.node, (open_state, receiver, tuple(sorted(given.items(), key=lambda item: item[0]))))
        if key not in self._done:
            self._followed += 1
            if self._followed > MAX_CALLS:
                return NOTHING
            self._done[key], outside = NOTHING, self._is_inside
            self._is_inside = outside or receiver in self.models.values()
            self._enter(receiver)
            self._done[key] = self._analysis.followed(self, self.record, target, state, _held(target, given, receiver))
            self._is_inside = outside
        return self._done[key]

    def _enter(self, receiver: Value | None) -> None:
        detail = receiver.detail if receiver is not None and self._is_inside else None
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
