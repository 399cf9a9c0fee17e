"""The one-line fix: the scaler stays, and is switched on for float16 only."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...codemod.facts.bindings import reaching
from ...codemod.facts.dtypes import BF16, FP16, Dtype, Given, Scenario, as_dtype
from ...codemod.facts.names import Binding, ModuleNames, Scope
from ...codemod.facts.regimes import Regime, Region, bf16_givens
from ...codemod.facts.scalers import Scaler
from ...codemod.facts.values import values_of
from ...codemod.model import AddImport, Applicability, Edit, Fix, Operation, ReplaceExpression, SetArgument
from ...codemod.project import Project
from .can_disable import can_disable

SAVED = " A bf16 checkpoint then holds an empty scaler state, which an enabled scaler refuses to load."


def fix(project: Project, scaler: Scaler, regime: Regime) -> Fix | None:
    """``enabled=False`` (always bf16) or ``enabled=<dtype is float16>``; None where neither can be written."""
    if not can_disable(project, scaler):
        return None
    if regime.own_condition is not None:
        return _inverted(project, scaler, regime.own_condition)
    condition = "False" if regime.verdict == "always-bf16" else half_condition(project, scaler, regime.regions)
    return with_condition(scaler, condition) if condition is not None else None


def with_condition(scaler: Scaler, condition: str, extra: Sequence[Edit] = ()) -> Fix:
    """The fix that creates ``scaler`` with ``enabled=<condition>`` (and what it was enabled by before)."""
    before = scaler.enabled_node
    keeps = condition != "False" and before is not None and not isinstance(before, ast.Constant)
    value = f"{_operand(scaler.module, before)} and {condition}" if keeps and before is not None else condition
    operations: list[Operation] = [_set_enabled(scaler, before, value)]
    if "torch." in value and not _binds_torch(scaler.module, scaler.module.scope_of(scaler.call)):
        operations.append(AddImport("import torch"))
    path = scaler.module.document.path
    effect = "a disabled scaler passes everything through; inf or NaN steps are no longer skipped."
    message = f"create the scaler with enabled={value}: {effect}" + (SAVED if "stored" in scaler.routes else "")
    edits = (*(Edit(path, operation) for operation in operations), *extra)
    return Fix("disable", message, Applicability.SAFE, edits)


def _set_enabled(scaler: Scaler, before: ast.expr | None, value: str) -> Operation:
    document = scaler.module.document
    if before is not None and before in scaler.call.args:
        return ReplaceExpression(document.span(before), (value,))
    return SetArgument(document.span(scaler.call), "enabled", value)


def _operand(module: ModuleNames, node: ast.expr | None) -> str:
    if node is None:
        return ""
    text = module.document.source(module.document.span(node))
    loose = isinstance(node, ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr) and not text.startswith("(")
    return f"({text})" if loose or "\n" in text else text


def _inverted(project: Project, scaler: Scaler, test: ast.expr) -> Fix | None:
    """``enabled=(dtype == "bfloat16")`` compares with the wrong type: compare with float16 instead."""
    if test is not scaler.enabled_node or not isinstance(test, ast.Compare):
        return with_condition(scaler, "False")
    right = test.comparators[0]
    spelling = _half_spelling(values_of(project, scaler.module).operand_values(right), right, scaler.module)
    if spelling is None:
        return with_condition(scaler, "False")
    document = scaler.module.document
    edit = Edit(document.path, ReplaceExpression(document.span(right), (spelling,)))
    message = f"compare with {spelling}: float16 needs the scaler, bfloat16 does not"
    return Fix("disable", message, Applicability.SAFE, (edit,))


HALF_NAMES = {"bfloat16": "float16", "bf16": "fp16", "torch.bfloat16": "torch.float16", "bf16-mixed": "16-mixed"}


def _half_spelling(values: Sequence[object], node: ast.expr, module: ModuleNames) -> str | None:
    if not values:
        return None
    source = module.document.source(module.document.span(node))
    if isinstance(values[0], str) and values[0] in HALF_NAMES:
        return source.replace(values[0], HALF_NAMES[values[0]])
    return source.replace("bfloat16", "float16") if values[0] == BF16 and source.endswith(".bfloat16") else None


def half_condition(project: Project, scaler: Scaler, regions: Sequence[Region]) -> str | None:
    """Source text that is true for float16 and false for bfloat16 where the scaler is made; None if there is none."""
    for region in regions:
        named = _dtype_comparison(scaler, region)
        if named is not None:
            return named
    for region in regions:
        chosen = _selector(project, scaler, region)
        if chosen is not None:
            return chosen
    return None


def _dtype_comparison(scaler: Scaler, region: Region) -> str | None:
    node = region.autocast.dtype_node
    if not isinstance(node, ast.Name | ast.Attribute) or not is_available(scaler, region.autocast.module, node):
        return None
    if not {FP16, BF16} & region.values:
        return None
    return f"({ast.unparse(node)} == {torch_name(scaler)}.float16)"


def torch_name(scaler: Scaler) -> str:
    """The name that ``torch`` itself has where the scaler is made (``th`` for ``import torch as th``)."""
    return _binds_torch(scaler.module, scaler.module.scope_of(scaler.call)) or "torch"


def _binds_torch(module: ModuleNames, scope: Scope) -> str | None:
    for candidate in (scope, module.module_scope):
        for name, bindings in candidate.bindings.items():
            if all(item.kind == "import" and item.qualified == "torch" for item in bindings):
                return name
    return None


def _selector(project: Project, scaler: Scaler, region: Region) -> str | None:
    half = [item for item in region.scenarios if item.value == FP16]
    bf16 = [item for item in region.scenarios if item.value == BF16]
    for scenario in half:
        for given in reversed(scenario.given):
            excluded = all(_excludes(given, bf16_givens(project, region, other)) for other in bf16)
            if bf16 and excluded and is_available(scaler, region.autocast.module, given.node, given.text):
                return _condition(given)
    return _not_bf16(scaler, region, bf16)


def _not_bf16(scaler: Scaler, region: Region, bf16: Sequence[Scenario]) -> str | None:
    """No float16 case is written down: everything but bf16 keeps its scaler."""
    for scenario in bf16:
        for given in reversed(scenario.given):
            named = {as_dtype(value) for value in given.values} == {BF16}
            if given.equal and named and is_available(scaler, region.autocast.module, given.node, given.text):
                return _condition(Given(given.text, given.values, False, given.node, given.scope))
    return None


def _excludes(given: Given, others: Sequence[Given]) -> bool:
    for other in others:
        if other.text != given.text:
            continue
        mine, theirs = {as_dtype(value) for value in given.values}, {as_dtype(value) for value in other.values}
        if given.equal and other.equal and not mine & theirs:
            return True
        if given.equal != other.equal and mine == theirs:
            return True
    return False


def _condition(given: Given) -> str | None:
    if len(given.values) != 1:
        return None
    value = given.values[0]
    if value is True:
        return given.text if given.equal else f"not {given.text}"
    if isinstance(value, Dtype):
        return None
    spelled = f'"{value}"' if isinstance(value, str) and '"' not in value else repr(value)
    return f"({given.text} {'==' if given.equal else '!='} {spelled})"


def is_available(scaler: Scaler, module: ModuleNames, node: ast.expr, text: str | None = None) -> bool:
    """Whether the expression means the same where the scaler is made, and is bound there already."""
    root = (text or ast.unparse(node)).partition(".")[0]
    if not root.isidentifier() or scaler.module is not module:
        return False
    scope = scaler.module.scope_of(scaler.call)
    here, there = scope.lookup(root), module.scope_of(node).lookup(root)
    if not here or here is not there:
        return False
    if root == "self" or not _same_value(scaler, here, node):
        return False
    if here[0].scope is not scope or isinstance(here[0].node, ast.arg):
        return True
    return any(
        item.node is not None and _line(item.node) < scaler.call.lineno for item in reaching(module, here, scaler.call)
    )


def _same_value(scaler: Scaler, bindings: list[Binding], node: ast.AST) -> bool:
    """Whether no assignment between the scaler's creation and ``node`` gives the name another value."""
    made, used = (reaching(scaler.module, bindings, place) for place in (scaler.call, node))
    return {id(item) for item in made} == {id(item) for item in used}


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
