"""The one-line fix: the scaler stays, and is switched on for float16 only."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...model import Edit, Fix
from ...proof.needs import Known, Need
from ...proof.proving import proved
from ...purpose.regimes import Regime, regime_of
from ...python.conditions import conditions_in
from ...python.names import ModuleNames
from ...source.project import Project
from ..autocast import Autocast
from ..dtypes import BF16
from ..imported import torch_at
from ..scalers import Scaler
from .can_disable import can_disable, held_scalers
from .half_condition import half_condition
from .needs_of_disabling import needs_of_disabling, no_longer_skipped

SAVED = " A bf16 checkpoint then holds an empty scaler state, which an enabled scaler refuses to load."


def fix(project: Project, scaler: Scaler, regime: Regime) -> Fix | None:
    """``enabled=False`` (always bf16) or ``enabled=<dtype is float16>``; None where neither can be written."""
    if scaler.kind == "wrapper" and not scaler.switch:
        return _held(project, scaler, regime)
    if not can_disable(project, scaler):
        return None
    if regime.own_condition is not None:
        return _inverted(project, scaler, regime.own_condition)
    condition = "False" if regime.verdict == "always-bf16" else half_condition(project, scaler, regime.regions)
    if condition is None or _asks_already(scaler, condition):
        return None
    if condition == "False":
        return with_condition(project, scaler, condition, replaces=True)
    return with_condition(project, scaler, condition, needs=[_sees_regions(scaler, regime)])


def _sees_regions(scaler: Scaler, regime: Regime) -> Need:
    """The scaler and its regions belong to one function or one object, so the same setting decides on both."""
    apart = next((item.autocast for item in regime.regions if not _is_beside(scaler, item.autocast)), None)
    if apart is None:
        return Known(True, "")
    place = f"{apart.module.path}:{apart.node.lineno}"
    return Known(False, f"the region at {place} may get its dtype from another setting than is asked here")


def _is_beside(scaler: Scaler, region: Autocast) -> bool:
    if region.module is not scaler.module:
        return False
    here, there = scaler.module.scope_of(scaler.call), region.module.scope_of(region.node)
    owner = here.enclosing_class
    if owner is not None or there.enclosing_class is not None:
        return owner is there.enclosing_class
    return here.function is there.function or here.function.node in region.module.ancestors(region.node)


def _held(project: Project, scaler: Scaler, regime: Regime) -> Fix | None:
    """The scaler inside a wrapper without a switch, where everything that makes such a wrapper always runs bf16."""
    alike = held_scalers(project, scaler)
    regimes = [regime, *(regime_of(project, item) for item in alike)]
    if not alike or not all(item.verdict == "always-bf16" and item.own_condition is None for item in regimes):
        return None
    module, call = scaler.inner[0]
    edit = module.set_argument(call, "enabled", "False")
    message = (
        "create the scaler that the wrapper holds with enabled=False: a disabled scaler passes everything through; "
        f"{no_longer_skipped(project, scaler)}." + SAVED
    )
    return proved(project, "disable", message, [edit], *needs_of_disabling(project, scaler))


def _asks_already(scaler: Scaler, condition: str) -> bool:
    """Whether the scaler's switch holds the condition as it is: writing it once more would change nothing."""
    return scaler.enabled_node is not None and condition.strip("()") in ast.unparse(scaler.enabled_node)


def with_condition(
    project: Project,
    scaler: Scaler,
    condition: str,
    extra: Sequence[Edit] = (),
    replaces: bool = False,
    needs: Sequence[Need] = (),
) -> Fix:
    """The fix that creates ``scaler`` with ``enabled=<condition>``, and (unless it ``replaces``) the switch it had."""
    before = scaler.enabled_node
    keeps = not replaces and before is not None and not isinstance(before, ast.Constant)
    value = f"{_operand(scaler.module, before)} and {condition}" if keeps and before is not None else condition
    edits = [_set_enabled(scaler, before, value)]
    if "torch." in value and torch_at(scaler.module, scaler.call) is None:
        edits.append(scaler.module.add_import("import torch"))
    effect = f"a disabled scaler passes everything through; {no_longer_skipped(project, scaler)}."
    message = f"create the scaler with {scaler.switch}={value}: {effect}" + (SAVED if "stored" in scaler.routes else "")
    return proved(project, "disable", message, [*edits, *extra], *needs, *needs_of_disabling(project, scaler))


def _set_enabled(scaler: Scaler, before: ast.expr | None, value: str) -> Edit:
    if before is not None and before in scaler.call.args:
        return scaler.module.replace(before, value)
    return scaler.module.set_argument(scaler.call, scaler.switch, value)


def _operand(module: ModuleNames, node: ast.expr | None) -> str:
    if node is None:
        return ""
    text = module.source(node)
    loose = isinstance(node, ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr) and not text.startswith("(")
    return f"({text})" if loose or "\n" in text else text


def _inverted(project: Project, scaler: Scaler, test: ast.expr) -> Fix | None:
    """``enabled=(dtype == "bfloat16")`` compares with the wrong type: compare with float16 instead."""
    if test is not scaler.enabled_node or not isinstance(test, ast.Compare):
        return with_condition(project, scaler, "False", replaces=True)
    right = test.comparators[0]
    spelling = _half_spelling(conditions_in(project, scaler.module).operand_values(right), right, scaler.module)
    if spelling is None:
        return with_condition(project, scaler, "False", replaces=True)
    edit = scaler.module.replace(right, spelling)
    message = f"compare with {spelling}: float16 needs the scaler, bfloat16 does not"
    return proved(project, "disable", message, [edit], *needs_of_disabling(project, scaler))


HALF_NAMES = {"bfloat16": "float16", "bf16": "fp16", "torch.bfloat16": "torch.float16", "bf16-mixed": "16-mixed"}


def _half_spelling(values: Sequence[object], node: ast.expr, module: ModuleNames) -> str | None:
    if not values:
        return None
    source = module.source(node)
    if isinstance(values[0], str) and values[0] in HALF_NAMES:
        return source.replace(values[0], HALF_NAMES[values[0]])
    return source.replace("bfloat16", "float16") if values[0] == BF16 and source.endswith(".bfloat16") else None
