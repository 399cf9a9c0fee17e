"""An autocast without a dtype computes in float16 in a project that runs bfloat16.

## What goes wrong

Usually no error: one part of the program computes in float16 and the rest in bfloat16. Activations above 65504 become
inf there (a bfloat16 model never had to stay below), losses of the two parts do not agree, and
gradients below 6e-8 vanish, because bfloat16 runs have no GradScaler. Tensors of both types that meet in a
region raise `Unexpected floating ScalarType in at::autocast::prioritize` where autocast promotes (`addcmul` on a GPU,
`cat` on a CPU).

## Why

Without a dtype autocast computes in float16 on CUDA, XPU and MPS, whatever the weights are
(`torch.get_autocast_dtype("cuda")` in PyTorch 2.13). accelerate's `mixed_precision` does not change that: only
`accelerator.autocast()` follows it, and `torch.autocast("cuda")` computes in float16 even under `mixed_precision="no"`.

## Fix

`dtype` [unsafe]: `dtype=` with the project's own variable where the region can see it, else `torch.bfloat16` where
nothing else is possible. `accelerator` [unsafe]: the call becomes `accelerator.autocast()` (also of a Fabric).
Unsafe, because results change: that is what the finding is about.

## Not flagged

Regions outside a training step: validation, sampling and inference in the other 16-bit type rarely differ in anything
that matters, and no backward pass follows what is drawn when the steps are done. Functions that nothing calls. A region
that a test of the precision chooses (`if precision == "fp16"`, `enabled=mixed_precision == "fp16"`), unless that test
lets bfloat16 pass (`enabled=dtype in (torch.float16, torch.bfloat16)`); one of several branches or table entries;
`enabled=False`; regions that a constant keeps from running; bfloat16 that no default, launch line, configuration or
value in code asks for; regions on the CPU; regions inside another one, whose dtype they inherit; float32 islands;
tests; projects that call `set_autocast_dtype`; weights that are loaded quantized.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Finding, Fix, Rule
from ....codemod.purpose.files import is_test
from ....codemod.purpose.steps import function_scope, is_in_context
from ....codemod.python.conditions import never_reached
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, checked_autocasts, dtype_scenarios
from ....codemod.torch.dtypes import FP16
from ....codemod.torch.imported import dropped_import
from .declared_dtype import DeclaredDtype, declared_near

FORWARDS = (
    "forward",
    "__call__",
    "training_step",
    "validation_step",
    "test_step",
    "predict_step",
    "compute_loss",
    "prediction_step",
)
"""Functions that a trainer calls, perhaps inside a region of its own."""


def check(project: Project) -> Iterator[Finding]:
    for region in checked_autocasts(project):
        if (
            not _computes_in_default(project, region)
            or _may_inherit(region)
            or never_reached(project, region.module, region.node)
        ):
            continue
        declared = declared_near(project, region)
        if declared is not None:
            yield _finding(region, declared)


def _computes_in_default(project: Project, region: Autocast) -> bool:
    if region.dtype_node is not None or region.switched_off or region.device not in ("cuda", None):
        return False
    if not region.understood or region.form not in ("with", "value", "decorator", "partial"):
        return False
    if is_test(region.module.document.path):
        return False
    if never_reached(project, region.module, region.node):
        return False
    return {item.value for item in dtype_scenarios(project, region)} == {FP16}


def _may_inherit(region: Autocast) -> bool:
    """Whether the region can stand inside another one: then it has that one's dtype, or is an island in it."""
    module = region.module
    if region.form == "decorator":
        return False
    if is_in_context(module, region.node):
        return True
    name = getattr(function_scope(module, region.node).node, "name", "")
    if name in FORWARDS:
        return not region.is_old_api
    return any(is_in_context(module, call) for call in module.calls_by_name.get(name, []))


def _finding(region: Autocast, declared: DeclaredDtype) -> Finding:
    message = f"without a dtype this autocast computes in float16 on CUDA, while {declared.what}"
    return rule.at(region.module, region.node, message, declared.places, _fixes(region, declared))


def _fixes(region: Autocast, declared: DeclaredDtype) -> list[Fix]:
    module, found = region.module, list[Fix]()
    if declared.context is not None and _can_be_replaced(region):
        text = f"{declared.context}.autocast()"
        message = f"{text} follows the precision that is chosen"
        edits = [module.replace(region.node, text), *dropped_import(module, region.reference)]
        found.append(Fix.unsafe("accelerator", message, *edits))
    if declared.dtype is not None and region.call is not None:
        message = f"pass dtype={declared.dtype}; results change where that is not float16"
        found.append(Fix.unsafe("dtype", message, module.set_argument(region.node, "dtype", declared.dtype)))
    return found


def _can_be_replaced(region: Autocast) -> bool:
    """Only where each entry makes a new object, as accelerate's can be entered once, and nothing else is asked for."""
    if region.form not in ("with", "decorator") or region.call is None:
        return False
    item = region.module.parents[region.call]
    if isinstance(item, ast.withitem) and item.optional_vars is not None:
        return False
    given = [keyword.arg for keyword in region.call.keywords]
    on = region.enabled_node is None or (
        isinstance(region.enabled_node, ast.Constant) and region.enabled_node.value is True
    )
    return on and "cache_enabled" not in given


rule = Rule.of("PF302", check)
