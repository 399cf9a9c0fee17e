"""Runs that the project gives in which a region is open and a scaler beside it is off."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....codemod.purpose.decided import CERTAIN, Decided, decided, fits
from ....codemod.purpose.regimes import conditions_of
from ....codemod.python.bindings import default_of, only_value
from ....codemod.python.callers import CallSite, callers_of
from ....codemod.python.conditions import conditions_in, same_operand
from ....codemod.python.names import FunctionNode, ModuleNames, last_name
from ....codemod.python.paths import function_of
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.dtypes import TextCondition
from ....codemod.torch.scalers import Scaler

MAX_HOPS = 4
"""Names that stand for a test."""


def left_off(project: Project, scaler: Scaler, region: Autocast) -> Decided | None:
    """What is set in such a run."""
    around = conditions_in(project, region.module).path_given(region.node)
    if region.enabled_node is not None:
        return _beside_switch(project, scaler, region, region.enabled_node, around)
    for module, test, holds in conditions_of(project, scaler):
        given = conditions_in(project, module).given(test, not holds)
        found = decided(project, module, given) if given else None
        found = decided(project, region.module, around, found) if found is not None else None
        if found is not None and not found.open:
            return found
    return None


def _beside_switch(
    project: Project, scaler: Scaler, region: Autocast, switch: ast.expr, around: Sequence[TextCondition]
) -> Decided | None:
    """``autocast(enabled=on)`` with ``GradScaler(enabled=on and not private)``, both made in one function."""
    module, function = region.module, function_of(region.module, region.node)
    if scaler.module is not module or scaler.enabled_node is None or function_of(module, scaler.call) is not function:
        return None
    conditions, ons = conditions_in(project, module), list(_operands(module, switch, MAX_HOPS))
    texts = [ast.unparse(item) for item in ons]
    offs = list(_operands(module, scaler.enabled_node, MAX_HOPS))
    if not set(texts) <= {ast.unparse(item) for item in offs}:
        return None
    # Of tests of data, as one for an empty batch, nothing is known: some batch passes them.
    met = [item for item in around if _is_parameter(item) or decided(project, module, [item]) is not None]
    is_on = [*met, *(each for item in ons for each in conditions.given(item, True))]
    for operand in offs:
        is_off = conditions.given(operand, False)
        alike = any(same_operand(each.text, other.text) for each in is_off for other in is_on)
        if is_off and not alike and ast.unparse(operand) not in texts:
            found = _in_one_run(project, module, function, [*is_on, *is_off])
            if found is not None:
                return found
    return None


def _operands(module: ModuleNames, test: ast.expr, hops: int) -> Iterator[ast.expr]:
    """The tests of which all must hold, those behind names among them."""
    value = only_value(module, test) if isinstance(test, ast.Name) and hops else None
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for item in test.values:
            yield from _operands(module, item, hops)
    elif isinstance(test, ast.Call) and last_name(test.func) == "bool" and len(test.args) == 1:
        yield from _operands(module, test.args[0], hops)
    elif value is not None:
        yield from _operands(module, value, hops - 1)
    else:
        yield test


def _in_one_run(
    project: Project, module: ModuleNames, function: ast.AST, asked: Sequence[TextCondition]
) -> Decided | None:
    """What is set where all conditions hold together: of parameters with what one call passes for them."""
    own = [item for item in asked if _is_parameter(item)]
    sites = callers_of(project, module, function).sites if own and isinstance(function, FunctionNode) else ()
    ways = [_at_call(project, site, own) for site in sites] if own else [CERTAIN]
    for way in ways:
        found = decided(project, module, [item for item in asked if item not in own], way) if way is not None else None
        if found is not None and not found.open:
            return found
    return None


def _at_call(project: Project, site: CallSite, asked: Sequence[TextCondition]) -> Decided | None:
    passed = [item for each in asked if (item := _passed(site, each)) is not None]
    written = {item: item.node.value for item in passed if isinstance(item.node, ast.Constant)}
    if len(passed) < len(asked) or not all(
        isinstance(value, bool | str | int | float | None) and fits(value, item) for item, value in written.items()
    ):
        return None
    around = conditions_in(project, site.module).path_given(site.call)
    return decided(project, site.module, [*around, *(item for item in passed if item not in written)])


def _is_parameter(item: TextCondition) -> bool:
    bindings = item.scope.lookup(item.text)
    return len(bindings) == 1 and bindings[0].kind == "parameter"


def _passed(site: CallSite, item: TextCondition) -> TextCondition | None:
    """The same condition on what a call passes for the parameter, or leaves to its default."""
    given = site.target.arguments(site.call).get(item.text) or default_of(item.scope.lookup(item.text)[0])
    if given is None:
        return None
    return TextCondition(ast.unparse(given), item.values, item.equal, given, site.module.scope_of(site.call))
