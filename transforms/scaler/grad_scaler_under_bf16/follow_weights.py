"""The fix for a scaler whose weights may be bfloat16: scaler and autocast follow the setting that loads the weights."""

from __future__ import annotations

import ast

from ....codemod.model import Edit, Fix
from ....codemod.purpose.regimes import Regime
from ....codemod.python.names import attribute_chain
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts, is_float32_island
from ....codemod.torch.imported import torch_for
from ....codemod.torch.scaler_edits.can_disable import can_disable
from ....codemod.torch.scaler_edits.disable_scaler import with_condition
from ....codemod.torch.scalers import Scaler
from ....codemod.torch.weights import WeightChoice


def fixes(project: Project, scaler: Scaler, regime: Regime, weights: WeightChoice) -> list[Fix]:
    """One fix: ``enabled=<setting is not bfloat16>`` and the matching dtype in every autocast of the same switch."""
    if not can_disable(project, scaler) or len(weights.given.values) != 1:
        return []
    setting, value = weights.given.text, f'"{weights.given.values[0]}"'
    dtype = f"{{torch}}.bfloat16 if {setting} == {value} else {{torch}}.float16"
    regions = _same_switch(project, regime, weights)
    edits = [edit for item in regions for edit in _with_dtype(item, dtype)]
    return [with_condition(project, scaler, f"({setting} != {value})", edits)]


def _same_switch(project: Project, regime: Regime, weights: WeightChoice) -> list[Autocast]:
    """The training regions, and regions elsewhere that the same setting switches on and that see the weights' one."""
    training = [region.autocast for region in regime.regions if region.autocast.dtype_node is None]
    switches = {ast.unparse(item.enabled_node) for item in training if item.enabled_node is not None}
    found = list(training)
    for item in autocasts(project):
        if item in found or item.dtype_node is not None or is_float32_island(project, item):
            continue
        if item.enabled_node is not None and ast.unparse(item.enabled_node) in switches:
            found.append(item)
    return [item for item in found if item.call is not None and _sees_setting(item, weights)]


def _sees_setting(item: Autocast, weights: WeightChoice) -> bool:
    chain = attribute_chain(weights.given.node) or [""]
    return bool(item.module.scope_of(item.node).lookup(chain[0]))


def _with_dtype(item: Autocast, dtype: str) -> list[Edit]:
    if item.call is None:
        return []
    torch = torch_for(item.module, item.call)
    return [item.module.set_argument(item.call, "dtype", dtype.format(torch=torch[0])), *torch[1]] if torch else []
