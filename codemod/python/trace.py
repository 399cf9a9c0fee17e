"""What an expression can be: followed back through names, attributes, parameters, returns, imports, tables, options.

One tracer for every kind of answer. A `Domain` says what counts as an answer (a dtype, a device, a number, the call
that made an object, the literal that a setting comes from) and what the way to it adds; the tracer walks, within
`limits`. Nothing is executed. A name that leads back to itself adds nothing, so cycles end.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar, cast

from ..purpose.files import is_test
from ..source.facts import memo
from ..source.project import Project
from .arguments import hides_arguments
from .bindings import default_of, position_in_targets, reaching
from .callers import NOBODY_KNOWN, Callers, CallSite, callers_of
from .functions import (
    FunctionTarget,
    attribute_bindings,
    called_function,
    is_property,
    method_of,
)
from .limits import MAX_CALLER_HOPS, MAX_DEPTH, MAX_STEPS, MAX_VALUES
from .names import Binding, FunctionNode, ModuleNames, attribute_chain, definition_named, definition_of
from .options import options_read
from .trace_memory import Reach, TraceMemory, TraceWay
from .trace_steps import (
    Chosen,
    Defaulted,
    Filled,
    FromBinding,
    FromDeclaration,
    LookedUp,
    Passed,
    Returned,
    TraceGap,
    TraceStep,
)

V = TypeVar("V", bound=Hashable)


def _as_they_are(_trace: Trace[V], _step: TraceStep, values: Iterable[V]) -> Iterable[V]:
    return values


def _declared_options(trace: Trace[V], module: ModuleNames, node: ast.Attribute) -> Iterator[V]:
    return trace.options(module, node)


def _nothing_known(_trace: Trace[V], _module: ModuleNames, _call: ast.Call, _position: int) -> Iterable[V] | None:
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Domain(Generic[V]):
    """A kind of answer."""

    leaf: Callable[[Trace[V], ModuleNames, ast.expr], Iterable[V] | None]
    """The answers that an expression is by itself; None: it is followed. Parts of it are asked for with `Trace.of`."""
    gap: Callable[[Trace[V], ModuleNames, ast.AST, TraceGap], Iterable[V]]
    """The answers where the source does not say."""
    carried: Callable[[Trace[V], TraceStep, Iterable[V]], Iterable[V]] = _as_they_are
    """What becomes of answers on one step of the way back to the question."""
    setting: Callable[[Trace[V], ModuleNames, ast.Attribute], Iterable[V]] = _declared_options
    """The answers for an attribute neither stored nor defined in the project: an option, a configuration key."""
    element: Callable[[Trace[V], ModuleNames, ast.Call, int], Iterable[V] | None] = _nothing_known
    """The answers for one of the values that a call of another library gives back together; None: nobody knows."""
    follows_returns: bool = True
    asks_callers: bool = True
    every_default: bool = False
    """Whether a default counts that all known callers overrule: for answers that are places, not values."""
    most: int = MAX_VALUES
    """How many answers are not too many: a setting may stand in as many files as a project has experiments."""


@memo
def trace(project: Project, module: ModuleNames, node: ast.expr | Binding, domain: Domain[V]) -> tuple[V, ...]:
    """Everything that ``node`` (or a name, by one binding) can be; empty only where gaps have none."""
    question = Trace(project, domain)
    found = question.of_binding(module, node) if isinstance(node, Binding) else question.of(module, node)
    place = node.node if isinstance(node, Binding) else node
    return found or tuple(domain.gap(question, module, place, TraceGap.EXPRESSION))


class Trace(Generic[V]):
    """One question on its way: what is being followed, how deep, and how much was looked at."""

    def __init__(self, project: Project, domain: Domain[V], within: Trace[Hashable] | None = None) -> None:
        self.project = project
        self._domain = domain
        self._memory = project.fact(TraceMemory)
        self._way: TraceWay = within._way if within is not None else TraceWay()
        self._depth: int = within._depth if within is not None else 0
        self._callers: int = within._callers if within is not None else 0
        self._steps: int = within._steps if within is not None else 0

    def charge(self, inner: Trace[V]) -> None:
        """Count what a question within this one looked at: a limit that each has for itself bounds no nest of them."""
        self._steps = inner._steps

    def of(self, module: ModuleNames, node: ast.expr) -> tuple[V, ...]:
        """The answers for one expression; none where it is being asked for already."""
        if self._depth >= MAX_DEPTH or self._steps >= MAX_STEPS:
            self._way.is_limited = True
            return tuple(self._domain.gap(self, module, node, TraceGap.LIMIT))
        here = Reach(self._depth, self._steps, self._callers)
        known = self._memory.known(self._domain, node, self._way, here)
        if known is not None:
            self._steps += known.steps
            return cast("tuple[V, ...]", known.values)
        mark = self._memory.begin(self._way, here)
        self._depth += 1
        self._steps += 1
        try:
            found = self._once(node, lambda: self._expression(module, node))
        except BaseException:
            self._memory.leave(mark)
            raise
        self._depth -= 1
        if len(found) > self._domain.most:
            found = tuple(self._domain.gap(self, module, node, TraceGap.LIMIT))
        self._memory.end(self._domain, node, self._way, mark, self._steps, found)
        return found

    def of_binding(self, module: ModuleNames, binding: Binding) -> tuple[V, ...]:
        """The answers for what one binding gives a name."""
        return tuple(dict.fromkeys(self._bound(module, [binding])))

    def _once(self, question: ast.AST | Binding, answers: Callable[[], Iterable[V]]) -> tuple[V, ...]:
        way = self._way
        if question in way.open:
            way.cut = min(way.cut, way.open[question])
            return ()
        way.open[question] = len(way.open)
        way.asked.append(question)
        found = tuple(dict.fromkeys(answers()))
        del way.open[question]
        return found

    def _gap(self, module: ModuleNames, node: ast.AST, why: TraceGap = TraceGap.EXPRESSION) -> Iterable[V]:
        return self._domain.gap(self, module, node, why)

    def _carried(self, step: TraceStep, values: Iterable[V]) -> Iterable[V]:
        return self._domain.carried(self, step, values)

    def _expression(self, module: ModuleNames, node: ast.expr) -> Iterable[V]:
        known = self._domain.leaf(self, module, node)
        if known is not None:
            return known
        if isinstance(node, ast.Name):
            return self._name(module, node)
        if isinstance(node, ast.Attribute):
            return self._attribute(module, node)
        if isinstance(node, ast.IfExp):
            return self._branches(module, node)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            return [found for value in node.values for found in self.of(module, value)]
        if isinstance(node, ast.NamedExpr | ast.Await):
            return self.of(module, node.value)
        if isinstance(node, ast.Subscript):
            return self._looked_up(module, node.value, node.slice)
        return self._call(module, node) if isinstance(node, ast.Call) else self._gap(module, node)

    def _branches(self, module: ModuleNames, node: ast.IfExp) -> Iterator[V]:
        for branch, holds in ((node.body, True), (node.orelse, False)):
            yield from self._carried(Chosen(module, node, holds), self.of(module, branch))

    def _name(self, module: ModuleNames, node: ast.Name) -> Iterable[V]:
        bindings = reaching(module, module.bindings_of(node), node)
        if bindings:
            return self._bound(module, bindings)
        return self._defined(module, node, definition_of(self.project, module, node))

    def _bound(self, module: ModuleNames, bindings: Sequence[Binding]) -> Iterator[V]:
        for binding in bindings:
            values = self._once(binding, lambda item=binding: self._binding(module, item))  # type: ignore[misc]
            yield from self._carried(FromBinding(module, binding, bindings), values)

    def _binding(self, module: ModuleNames, binding: Binding) -> Iterable[V]:
        if binding.kind == "parameter":
            return self._parameter(module, binding)
        if binding.kind == "import":
            found = definition_named(self.project, binding.qualified or "", module.document.path)
            return self._defined(module, binding.node, found)
        if binding.value is not None:
            return self.of(module, binding.value)
        return self._unpacked(module, binding)

    def _defined(self, module: ModuleNames, node: ast.AST, found: tuple[ModuleNames, str] | None) -> Iterable[V]:
        bindings = found[0].defined(found[1]) if found is not None else []
        return self._bound(found[0], bindings) if found is not None and bindings else self._gap(module, node)

    def _unpacked(self, module: ModuleNames, binding: Binding) -> Iterable[V]:
        """``device, dtype = choose(...)``: what stands at that place of what the call gives back."""
        call = binding.node.value if isinstance(binding.node, ast.Assign) else None
        position = position_in_targets(binding.node, binding.name)
        if not isinstance(call, ast.Call) or position is None:
            return self._gap(module, binding.node)
        return self._element(module, call, position)

    def _element(self, module: ModuleNames, node: ast.expr, position: int) -> Iterable[V]:
        if isinstance(node, ast.Tuple) and position < len(node.elts):
            return self.of(module, node.elts[position])
        if not isinstance(node, ast.Call):
            return self._gap(module, node)
        if self._depth >= MAX_DEPTH:
            self._way.is_limited = True
            return self._gap(module, node, TraceGap.LIMIT)
        self._depth += 1
        self._way.farthest.depth = max(self._way.farthest.depth, self._depth)
        found = self._once(node, lambda: self._element_returned(module, node, position))
        self._depth -= 1
        return found

    def _element_returned(self, module: ModuleNames, node: ast.Call, position: int) -> Iterable[V]:
        target = called_function(self.project, module, node) if self._domain.follows_returns else None
        if target is not None:
            return self._returned(module, node, target, position)
        known = self._domain.element(self, module, node, position)
        return known if known is not None else self._gap(module, node)

    def _attribute(self, module: ModuleNames, node: ast.Attribute) -> Iterable[V]:
        chain, owner = attribute_chain(node), module.scope_of(node).enclosing_class
        if chain is not None and len(chain) == 2 and chain[0] in ("self", "cls") and owner is not None:
            holder, stores = attribute_bindings(self.project, module, owner, chain[1])
            if stores:
                return self._bound(holder, stores)
            method = method_of(self.project, module, owner, chain[1]) if self._domain.follows_returns else None
            if method is not None:
                return self._returned(module, None, method) if is_property(method.node) else self._gap(module, node)
        defined = definition_of(self.project, module, node)
        if defined is not None:
            return self._defined(module, node, defined)
        return self._domain.setting(self, module, node)

    def options(self, module: ModuleNames, node: ast.Attribute) -> Iterator[V]:
        """The declared values of the option that an attribute reads."""
        options = options_read(self.project, module, node)
        if not options:
            yield from self._gap(module, node)
        elif not all(option.choices for option in options):
            yield from self._gap(module, node, TraceGap.OPTION)
        for option in options:
            for stated in option.choices or ((option.value,) if option.value is not None else ()):
                yield from self._carried(FromDeclaration(module, node, option), self.of(option.module, stated))

    def _looked_up(self, module: ModuleNames, table: ast.expr, key: ast.expr) -> Iterator[V]:
        tables = Trace(self.project, TABLES, self).of(module, table)  # type: ignore[arg-type]
        if len(tables) != 1 or tables[0] is None:
            yield from self._gap(module, table)
            return
        holder, display = tables[0]
        for entry, value in zip(display.keys, display.values, strict=True):
            if not isinstance(entry, ast.Constant):
                yield from self._gap(module, key)
            elif not isinstance(key, ast.Constant) or key.value == entry.value:
                yield from self._carried(LookedUp(module, key, entry), self.of(holder, value))

    def _parameter(self, module: ModuleNames, binding: Binding) -> Iterator[V]:
        """What callers pass, and the default where one of them leaves it out; what tests pass says nothing."""
        callers = self._callers_of(module, binding)
        sites = [site for site in callers.sites if not is_test(site.module.document.path)] or callers.sites
        self._callers += 1
        yield from [value for site in sites for value in self._passed(site, binding)]
        self._callers -= 1
        default = default_of(binding)
        is_default_used = not sites or any(_leaves_out(site, binding) for site in sites)
        if not callers.complete or (is_default_used and default is None):
            yield from self._gap(module, binding.node, TraceGap.MORE_CALLERS if sites else TraceGap.CALLERS)
        if default is not None and (is_default_used or self._domain.every_default):
            yield from self._carried(Defaulted(module, binding), self.of(module, default))

    def _callers_of(self, module: ModuleNames, binding: Binding) -> Callers:
        function = binding.scope.node
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            return NOBODY_KNOWN
        if self._callers >= MAX_CALLER_HOPS:
            self._way.is_limited = True
            return NOBODY_KNOWN
        self._way.farthest.callers = max(self._way.farthest.callers, self._callers + 1)
        is_passed = self._domain.asks_callers and _can_be_passed(function, binding.name)
        return callers_of(self.project, module, function) if is_passed else NOBODY_KNOWN

    def _passed(self, site: CallSite, binding: Binding) -> Iterable[V]:
        argument = site.target.arguments(site.call).get(binding.name)
        if argument is not None:
            return self._carried(Passed(site, binding), self.of(site.module, argument))
        if not hides_arguments(site.call):
            return ()
        return self._carried(Filled(site, binding), self._gap(site.module, site.call, TraceGap.CALLERS))

    def _call(self, module: ModuleNames, node: ast.Call) -> Iterable[V]:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and 1 <= len(node.args) <= 2:
            default = self.of(module, node.args[1]) if len(node.args) > 1 else ()
            return [*self._looked_up(module, node.func.value, node.args[0]), *default]
        target = called_function(self.project, module, node) if self._domain.follows_returns else None
        return self._returned(module, node, target) if target is not None else self._gap(module, node)

    def _returned(
        self, module: ModuleNames, call: ast.Call | None, target: FunctionTarget, position: int | None = None
    ) -> Iterator[V]:
        is_generator = target.module.is_generator(target.node)
        returned = [] if is_generator else target.module.returns_of(target.node)
        if all(item.value is None for item in returned):
            yield from self._gap(module, call or target.node)
        for item in returned:
            if item.value is not None:
                inner = target.module
                found = self.of(inner, item.value) if position is None else self._element(inner, item.value, position)
                yield from self._carried(Returned(target, item, module, call), found)


def _can_be_passed(function: FunctionNode, parameter: str) -> bool:
    """Whether one argument fills a parameter: none of ``self``, ``*args`` and ``**kwargs``."""
    variadic = (function.args.vararg, function.args.kwarg)
    return parameter not in ("self", "cls") and all(item is None or item.arg != parameter for item in variadic)


def _leaves_out(site: CallSite, binding: Binding) -> bool:
    return binding.name not in site.target.arguments(site.call) and not hides_arguments(site.call)


ModuleDict: TypeAlias = "tuple[ModuleNames, ast.Dict] | None"


def _table(_trace: Trace[ModuleDict], module: ModuleNames, node: ast.expr) -> Iterable[ModuleDict] | None:
    return ((module, node),) if isinstance(node, ast.Dict) else None


TABLES: Domain[ModuleDict] = Domain(_table, lambda *_gap: (None,))
"""The dict display that a lookup reads."""
