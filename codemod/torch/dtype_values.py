"""Which dtypes and other constants an expression can be, and under which conditions: what stands behind
``autocast(dtype=...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from ..python.conditions import Conditions, conditions_in
from ..python.functions import stored_on_object
from ..python.limits import MAX_VALUES
from ..python.names import Binding, ModuleNames, Scope, resolve
from ..python.options import options_read
from ..python.paths import guards
from ..python.trace import Domain, Trace, trace
from ..python.trace_steps import Chosen, Defaulted, FromBinding, FromDeclaration, LookedUp, Returned, TraceStep
from ..source.project import Project
from .dtypes import (
    BF16,
    FP16,
    FP32,
    HALVES,
    TORCH_DTYPES,
    UNKNOWN,
    Constant,
    Dtype,
    Scenario,
    TextCondition,
    Unknown,
    as_dtype,
)

SPELLINGS = ("lower", "strip")
"""Methods that give back the text they are called on, as far as settings go."""


def scenarios_of(project: Project, module: ModuleNames, node: ast.expr | Binding) -> tuple[Scenario, ...]:
    """All values that ``node`` can have, each with what must hold for it; an unknown one where the source is silent."""
    return trace(project, module, node, DTYPES)


def constants_of(project: Project, module: ModuleNames, node: ast.expr | Binding) -> set[Constant]:
    """All values that ``node`` can have, whatever must hold; holds UNKNOWN where the source does not say."""
    return {scenario.value for scenario in scenarios_of(project, module, node)}


def only_dtype(project: Project, module: ModuleNames, node: ast.expr | None) -> Dtype | None:
    """The one dtype that ``node`` certainly is, or names; None for what is chosen later, and for anything else."""
    found = [as_dtype(value) for value in constants_of(project, module, node)] if node is not None else []
    only = found[0] if len(set(found)) == 1 else None
    return only if isinstance(only, Dtype) else None


def only_half(project: Project, module: ModuleNames, node: ast.expr | None) -> Dtype | None:
    """The same for a 16-bit dtype; None for float32 as well."""
    only = only_dtype(project, module, node)
    return only if only in HALVES else None


def _leaf(question: Trace[Scenario], module: ModuleNames, node: ast.expr) -> Iterable[Scenario] | None:
    if isinstance(node, ast.Name | ast.Attribute):
        named = TORCH_DTYPES.get(resolve(question.project, module, node) or "")
        return (Scenario(named),) if named is not None else None
    if isinstance(node, ast.Constant):
        return (Scenario(_plain(node)),)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return _first_that_is_true(question, module, node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        return _attribute_of_torch(question, module, node)
    return None


def _plain(node: ast.Constant) -> Constant:
    return node.value if isinstance(node.value, str | bool | int | float) or node.value is None else UNKNOWN


def _first_that_is_true(question: Trace[Scenario], module: ModuleNames, node: ast.BoolOp) -> Iterator[Scenario]:
    """``dtype or torch.float16``: the second under what makes the first None; both where the first is not known."""
    *firsts, last = node.values
    givens: list[tuple[TextCondition, ...]] = [()]
    for first in firsts:
        asked = Trace(question.project, WITH_NONE, question)  # type: ignore[arg-type]
        found = asked.of(module, first) or (Scenario(UNKNOWN),)
        yield from (item.under(*given) for item in found if item.value for given in givens)
        open_ones = [() if isinstance(item.value, Unknown) else item.given for item in found if _may_be_false(item)]
        givens = [(*given, *more) for given in givens for more in dict.fromkeys(open_ones)][:MAX_VALUES]
    yield from (item.under(*given) for item in (question.of(module, last) if givens else ()) for given in givens)


def _may_be_false(item: Scenario) -> bool:
    return isinstance(item.value, Unknown) or not item.value


def _attribute_of_torch(question: Trace[Scenario], module: ModuleNames, node: ast.Call) -> Iterator[Scenario]:
    """``getattr(torch, name)``: the dtype of each name; any of the three where the name is not known."""
    if len(node.args) < 2 or module.qualified(node.args[0]) != "torch":
        yield Scenario(UNKNOWN)
        return
    key = node.args[1]
    for scenario in question.of(module, key) or (Scenario(UNKNOWN),):
        if isinstance(scenario.value, str):
            yield Scenario(TORCH_DTYPES.get(f"torch.{scenario.value}", UNKNOWN), scenario.given)
        elif isinstance(scenario.value, Unknown):
            for dtype in (BF16, FP16, FP32):
                yield Scenario(
                    dtype, (TextCondition(ast.unparse(key), (dtype.name,), True, key, module.scope_of(node)),)
                )


def _carried(question: Trace[Scenario], step: TraceStep, values: Iterable[Scenario]) -> Iterable[Scenario]:
    if isinstance(step, Chosen):
        conditions, test = conditions_in(question.project, step.module), step.node.test
        said = conditions.given(test, step.holds)
        return [item.under(*said, *conditions.left_by(test, step.holds, item.given)) for item in values]
    if isinstance(step, FromBinding):
        return _under(values, _given_of_binding(question.project, step))
    if isinstance(step, Returned):
        return _from_function(question.project, step, values)
    if isinstance(step, LookedUp):
        scope = step.module.scope_of(step.key)
        return _under(values, (TextCondition(ast.unparse(step.key), (_plain(step.entry),), True, step.key, scope),))
    if isinstance(step, FromDeclaration):
        return [_stated(step, scenario) for scenario in values]
    return values


def _decided(question: Trace[Scenario], step: TraceStep, values: Iterable[Scenario]) -> Iterable[Scenario]:
    if isinstance(step, Defaulted):  # None as a default means that the function decides
        return [scenario for scenario in values if scenario.value is not None]
    return _carried(question, step, values)


def _under(values: Iterable[Scenario], given: Sequence[TextCondition]) -> Iterable[Scenario]:
    return [scenario.under(*given) for scenario in values]


def _stated(step: FromDeclaration, scenario: Scenario) -> Scenario:
    if isinstance(scenario.value, Unknown):
        return Scenario(scenario.value)
    scope = step.module.scope_of(step.node)
    return Scenario(scenario.value, (TextCondition(ast.unparse(step.node), (scenario.value,), True, step.node, scope),))


def _given_of_binding(project: Project, step: FromBinding) -> tuple[TextCondition, ...]:
    """What must hold for a binding to run, tests of the value that the name had before aside, and to be kept."""
    binding, conditions = step.binding, conditions_in(project, step.module)
    given = conditions.path_given(binding.node) if binding.value is not None else ()
    return (*(item for item in given if item.text != binding.name), *_given_that_it_stays(conditions, step))


def _given_that_it_stays(conditions: Conditions, step: FromBinding) -> Iterator[TextCondition]:
    """What must hold for a first value to be seen although later ``if`` s overwrite it: that none of them ran."""
    first = step.binding
    if len(step.rivals) < 2 or first is not step.rivals[0] or not isinstance(first.node, ast.stmt):
        return
    known = {(ast.unparse(guard.test), guard.holds) for guard in guards(step.module, first.node)}
    for later in step.rivals[1:]:
        tests = [item for item in guards(step.module, later.node) if (ast.unparse(item.test), item.holds) not in known]
        if len(tests) == 1 and later.scope is first.scope:
            known.add((ast.unparse(tests[0].test), not tests[0].holds))
            yield from conditions.given(tests[0].test, not tests[0].holds)


def _from_function(project: Project, step: Returned, values: Iterable[Scenario]) -> Iterable[Scenario]:
    """The values of a ``return`` as the caller sees them: under its tests, with arguments in place of parameters."""
    target, call = step.target, step.call
    arguments = target.arguments(call) if call is not None else {}
    scope = step.caller.scope_of(call) if call is not None else target.scope
    conditions = conditions_in(project, target.module)
    given = conditions.path_given(step.statement)
    for scenario in values:
        inner = (_of_parameter(target.scope, item) for item in (*scenario.given, *given))
        outer = tuple(_renamed(item, arguments, scope) for item in inner)
        yield Scenario(scenario.value, outer)


def _of_parameter(scope: Scope, item: TextCondition) -> TextCondition:
    """``item`` about the parameter that a local name is another spelling of: ``name = dtype.lower()``."""
    bindings = scope.bindings.get(item.text, []) if isinstance(item.node, ast.Name) else []
    value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
    spelled = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in SPELLINGS
    inner = value.func.value if spelled else None  # type: ignore[union-attr]
    if not isinstance(inner, ast.Name) or [each.kind for each in scope.bindings.get(inner.id, [])] != ["parameter"]:
        return item
    return TextCondition(f"{inner.id}.{value.func.attr}()", item.values, item.equal, inner, item.scope)  # type: ignore[union-attr]


def _renamed(item: TextCondition, arguments: dict[str, ast.expr], scope: Scope) -> TextCondition:
    """``item`` as the caller sees it: a parameter's name replaced by the argument passed for it."""
    root, dot, rest = item.text.partition(".")
    argument = arguments.get(root)
    if argument is None:
        return item
    whole = not dot or rest in [f"{name}()" for name in SPELLINGS]
    return TextCondition(
        ast.unparse(argument) + dot + rest, item.values, item.equal, argument if whole else item.node, scope
    )


def _setting(question: Trace[Scenario], module: ModuleNames, node: ast.Attribute) -> Iterator[Scenario]:
    """What an option declares, else what any code stores on such an object (``settings.region_dtype = ...``)."""
    options = options_read(question.project, module, node)
    stored = stored_on_object(question.project, module, node) if not options else ()
    for holder, value in stored:
        yield from question.of(holder, value)
    if not stored:
        yield from question.options(module, node)


DTYPES: Domain[Scenario] = Domain(_leaf, lambda *_asked: (Scenario(UNKNOWN),), _decided, setting=_setting)
"""A dtype, or a constant that may name one, with what must hold for it."""
WITH_NONE: Domain[Scenario] = Domain(_leaf, lambda *_asked: (Scenario(UNKNOWN),), _carried)
"""The same with None where that is a default."""
