"""The dtype flow of a project: each function is interpreted once, with symbols for what it is given."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from ..python.functions import FunctionTarget, lineage, method_of
from ..python.names import FunctionNode, ModuleNames, attribute_chain, parameters_of, resolve
from ..source.project import Project
from ..torch.api import DEFAULT_SETTERS
from ..torch.half_words import weights_can_be_half
from . import statements
from .circles import Circles
from .classes import (
    ProjectClass,
    constructed,
    is_set_outside_constructor,
    is_stored_elsewhere,
    is_torch_module,
    set_later,
    weights_atom,
)
from .contexts import decorated
from .elements import each_of, holds_data
from .frame import OUTSIDE, Autocasting, AutocastState, CallFollower, FlowRecord, Frame, TooLarge
from .handed import handed_over, lacks_dtypes
from .lattice import UNKNOWN_VALUE, Atom, Kind, Value, join
from .meetings import NodeValue, report_input
from .parameters import parameter_symbol, parameter_value
from .recasts import PARTS, applied_with_parts
from .sizes import is_too_large
from .substitution import substituted

MAX_DEPTH = 12
"""How many calls deep summaries are made of summaries."""


@dataclass(frozen=True, slots=True, eq=False)
class Interpretation:
    """What one function did: its meetings, and what it returns in terms of what it is given."""

    record: FlowRecord
    returned: Value
    names: dict[str, Value]


NOTHING = Interpretation(FlowRecord(), UNKNOWN_VALUE, {})


class FlowAnalysis:
    """All interpretations of one project, made when asked for; get it by `flow_of`."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._circles = Circles(project.looks)
        self.changes_default_dtype = any(True for _ in project.python_documents(DEFAULT_SETTERS))

    def function(self, module: ModuleNames, node: FunctionNode) -> Interpretation:
        """The interpretation of a function or method of the project."""
        if self._circles.depth >= MAX_DEPTH and not self._circles.may_answer(node):
            self._circles.cut_short()
            return NOTHING
        return self._circles.answer(node, lambda: self._interpret(module, node), NOTHING)

    def module_body(self, module: ModuleNames) -> Interpretation:
        """The interpretation of the statements of a module: a script."""
        return self._circles.answer(module, lambda: self._script(module, FlowRecord()), NOTHING)

    def observed(
        self, module: ModuleNames, node: FunctionNode, state: AutocastState, names: Mapping[str, Value] | None = None
    ) -> Interpretation:
        """The interpretation of a function in ``state``, with what each expression and product in it was.

        ``names``: what parameters hold, where more is known of them than the function tells. A decorator that opens a
        region counts more than ``state``.
        """
        own = decorated(self.project, module, node)
        state = state if own.state is Autocasting.MAYBE else own
        if names is not None:
            return self._interpret(module, node, state, FlowRecord(observed=True), names)
        return self._circles.answer(
            (node, state, "observed"), lambda: self._interpret(module, node, state, FlowRecord(observed=True)), NOTHING
        )

    def specially(self, target: FunctionTarget, names: Mapping[str, Value], own: Atom | None) -> Interpretation:
        """A function outside of autocast, on objects of which ``names`` tell more; ``own``: its weights' dtype."""
        module, node = target.module, target.node
        opened = decorated(self.project, module, node)
        state = OUTSIDE if opened.state is Autocasting.MAYBE else opened
        key = ("specially", node, state, own, tuple(sorted(names.items(), key=lambda item: item[0])))
        return self._circles.answer(
            key, lambda: self._interpret(module, node, state, FlowRecord(), names, own, special=True), NOTHING
        )

    def with_names(
        self, module: ModuleNames, node: FunctionNode, names: Mapping[str, Value], state: AutocastState | None = None
    ) -> Interpretation:
        """The same where ``names`` hold what is given, remembered for it."""
        key = (node, state, tuple(sorted(names.items(), key=lambda item: item[0])))
        return self._circles.answer(
            key, lambda: self._interpret(module, node, state, FlowRecord(observed=True), names), NOTHING
        )

    def value_at(self, module: ModuleNames, node: ast.expr, state: AutocastState) -> Value:
        """What ``node`` is, where its function runs in ``state``; a script's own statements run in none."""
        holder = module.scope_of(node).function.node
        if isinstance(holder, FunctionNode):
            return self.observed(module, holder, state).record.values.get(node, UNKNOWN_VALUE)
        if not isinstance(holder, ast.Module):
            return UNKNOWN_VALUE
        return self.observed_script(module).record.values.get(node, UNKNOWN_VALUE)

    def observed_script(self, module: ModuleNames) -> Interpretation:
        """The interpretation of a module's own statements, with what each expression was."""
        return self._circles.answer(
            (module, "observed"), lambda: self._script(module, FlowRecord(observed=True)), NOTHING
        )

    def _script(self, module: ModuleNames, record: FlowRecord) -> Interpretation:
        return self._run(Frame(self, module, None, record, OUTSIDE), module.tree.body)

    def _interpret(
        self,
        module: ModuleNames,
        node: FunctionNode,
        state: AutocastState | None = None,
        record: FlowRecord | None = None,
        names: Mapping[str, Value] | None = None,
        own: Atom | None = None,
        special: bool = False,
    ) -> Interpretation:
        state = state if state is not None else decorated(self.project, module, node)
        frame = self._entered(module, node, state, record or FlowRecord())
        frame.own_weights, frame.run = own or frame.own_weights, PARTS if special else None
        frame.names.update(names or {})
        return self._run(frame, node.body)

    def followed(
        self,
        run: CallFollower,
        record: FlowRecord,
        target: FunctionTarget,
        state: AutocastState,
        names: Mapping[str, Value],
    ) -> Interpretation:
        """The interpretation of a function that ``run`` enters, with what its parameters hold there."""
        own = decorated(self.project, target.module, target.node)
        frame = self._entered(target.module, target.node, state if own.state is Autocasting.MAYBE else own, record)
        frame.run = run
        frame.names.update(names)
        return self._run(frame, target.node.body)

    def followed_from(self, run: CallFollower, module: ModuleNames, holder: FunctionNode | None) -> None:
        """Follow a function that calls the models of ``run``, outside of autocast; None: the statements of a script."""
        if holder is not None:
            self.followed(run, run.record, FunctionTarget(module, holder, bound=False), OUTSIDE, {})
            return
        frame = Frame(self, module, None, run.record, OUTSIDE)
        frame.run = run
        self._run(frame, module.tree.body)

    def _entered(self, module: ModuleNames, node: FunctionNode, state: AutocastState, record: FlowRecord) -> Frame:
        owner = self.owner(module, node)
        frame = Frame(self, module, node, record, state)
        frame.own_weights = self.own_weights(owner) if owner is not None and self.is_module(owner) else None
        frame.names.update(self._closed_over(module, node))
        for parameter in parameters_of(node):
            frame.names[parameter.arg] = parameter_value(frame, node, parameter, owner)
        return frame

    def _run(self, frame: Frame, body: list[ast.stmt]) -> Interpretation:
        if self._circles.depth >= MAX_DEPTH or is_too_large(body):
            return NOTHING
        self._circles.depth += 1
        try:
            statements.execute(frame, body)
        except (TooLarge, RecursionError):
            return NOTHING
        finally:
            self._circles.depth -= 1
        returned = reduce(join, frame.returned) if frame.returned else UNKNOWN_VALUE
        if frame.yielded:
            returned = each_of(reduce(join, frame.yielded))
        return Interpretation(frame.record, returned, frame.names if _names_are_asked_for(frame) else {})

    def _closed_over(self, module: ModuleNames, node: FunctionNode) -> dict[str, Value]:
        """What the names of the enclosing function hold when it ends: a nested function sees these."""
        parent = module.scopes[node].parent
        outer = parent.node if parent is not None else None
        if not isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return {}
        return self.function(module, outer).names

    def owner(self, module: ModuleNames, node: FunctionNode) -> ProjectClass | None:
        scope = module.scopes[node]
        parent = scope.parent
        return ProjectClass(module, parent) if parent is not None and isinstance(parent.node, ast.ClassDef) else None

    def is_module(self, found: ProjectClass) -> bool:
        return self.project.once((is_torch_module, found), lambda: is_torch_module(self.project, found))

    def qualified(self, module: ModuleNames, node: ast.expr) -> str | None:
        """`names.resolve`, remembered for each import."""
        chain = attribute_chain(node) if module.may_be_imported(node) else None
        if chain is None:
            return None
        bindings = module.scope_of(node).lookup(chain[0])
        if not bindings:
            return resolve(self.project, module, node) if module.star_imports else None
        if bindings[0].kind != "import":
            return resolve(self.project, module, node) if len(bindings) > 1 else None
        key = (resolve, bindings[0], tuple(chain))
        return self.project.once(key, lambda: resolve(self.project, module, node))

    def own_weights(self, found: ProjectClass) -> Atom:
        return self.project.once(
            (weights_atom, found), lambda: weights_atom(found, can_be_half=weights_can_be_half(self.project))
        )

    def method(self, found: ProjectClass, name: str) -> FunctionTarget | None:
        """A method of a class or of its bases inside the project."""
        key = (method_of, found, name)
        return self.project.once(key, lambda: method_of(self.project, found.module, found.scope, name))

    def attributes(self, found: ProjectClass) -> dict[str, Value]:
        """What the constructor of a class leaves in its attributes, and one method that alone sets one."""
        return self._circles.answer((found, "attributes"), lambda: self._constructed(found), {})

    def _constructed(self, found: ProjectClass) -> dict[str, Value]:
        target = self.method(found, "__init__")
        names = self.function(target.module, target.node).names if target is not None else {}
        known = constructed(self, found, names)
        if target is not None and self.owner(target.module, target.node) == found:
            for above in list(lineage(self.project, found.module, found.scope))[1:2]:
                known = {**self.attributes(ProjectClass(*above)), **known}
        kept = {name: value for name, value in known.items() if not self._is_replaced(found, name, value)}
        return kept | set_later(self, found)

    def _is_replaced(self, found: ProjectClass, name: str, value: Value) -> bool:
        """Whether an attribute may hold something else than the constructor left there; a module has its weights."""
        is_plain = value.kind is Kind.TENSOR and self.own_weights(found) not in value.atoms
        return is_set_outside_constructor(self.project, found, name) or (
            is_plain and is_stored_elsewhere(self.project, found, name)
        )

    # --- calls of the project's own functions -------------------------------------------------------------------------

    def applied(
        self,
        frame: Frame,
        node: ast.Call,
        target: FunctionTarget,
        positional: list[NodeValue],
        named: list[tuple[str, ast.expr, Value]],
        receiver: Value | None,
    ) -> Value:
        """What a call returns: the function's summary with its symbols replaced by what this call hands over."""
        handed = handed_over(target, node, positional, named)
        given = {name: value for name, (_, value) in handed.items()}
        if frame.run is not None and not frame.is_special:
            return frame.run.applied(frame, node, target, given, receiver)
        done = self._called(frame, target)
        bindings = {parameter_symbol(target.node, name): value.atoms for name, (_, value) in handed.items()}
        owner = self.owner(target.module, target.node)
        if receiver is not None and owner is not None:
            bindings[self.own_weights(owner).symbol] = receiver.atoms
        special = applied_with_parts(frame, node, target, given, receiver)
        if special is not None:
            return substituted(special.returned, bindings, frame, node, target)
        self._inputs(frame, node, target, done, handed, bindings, receiver)
        returned = self._returned(frame, target, done, handed)
        return substituted(returned, bindings, frame, node, target)

    def _returned(
        self, frame: Frame, target: FunctionTarget, done: Interpretation, handed: dict[str, NodeValue]
    ) -> Value:
        """What the function returns; what it makes of a batch or a model that it is passed, only this call tells."""
        batch = handed["batch"][1] if "batch" in handed else None
        if batch is not None and batch.kind is not Kind.BATCH and holds_data(done.returned):
            return self.with_names(target.module, target.node, {"batch": batch}).returned
        models = {name: value for name, (_, value) in handed.items() if value.kind is Kind.MODULE and value.atoms}
        if not models or not lacks_dtypes(done.returned):
            return done.returned
        state = frame.autocast if frame.autocast.state is Autocasting.ON else None
        return self.with_names(target.module, target.node, models, state).returned

    def _called(self, frame: Frame, target: FunctionTarget) -> Interpretation:
        """The interpretation of a function as ``frame`` calls it: inside an open region it runs under autocast."""
        known, state = self.function(target.module, target.node), frame.autocast
        if state.state is not Autocasting.ON:
            return known
        if decorated(self.project, target.module, target.node).state is not Autocasting.MAYBE:
            return known
        key = (target.node, state, state.region)
        return self._circles.answer(key, lambda: self._interpret(target.module, target.node, state), known)

    def _inputs(
        self,
        frame: Frame,
        node: ast.Call,
        target: FunctionTarget,
        done: Interpretation,
        handed: dict[str, NodeValue],
        bindings: dict[str, tuple[Atom, ...]],
        receiver: Value | None,
    ) -> None:
        """Arguments that the function hands to its weights as they are meet these weights at this call."""
        if not done.record.inputs:
            return
        symbols = {parameter_symbol(target.node, name): given for name, given in handed.items()}
        for symbol, (expression, value) in symbols.items():
            for entry in done.record.inputs:
                if entry.symbol == symbol:
                    weights = bindings.get(entry.weights.symbol, (entry.weights,))
                    _, model = symbols.get(entry.weights.symbol, (expression, value))
                    norm = entry.takes_narrow
                    report_input(frame, node, expression, value, weights, receiver, handed_on=model, takes_narrow=norm)


def _names_are_asked_for(frame: Frame) -> bool:
    """Whether somebody looks at the names a function leaves: its class, or a function nested in it."""
    function = frame.function
    if function is None or function.name == "__init__" or frame.record.observed or frame.is_special:
        return True
    return any(isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) for item in function.body)


def flow_of(project: Project) -> FlowAnalysis:
    return project.fact(FlowAnalysis)
