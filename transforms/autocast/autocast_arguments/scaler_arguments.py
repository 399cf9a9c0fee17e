"""What a scaler is given in the place of another argument: a device for the scale, a switch for the scale or device."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Edit, Fix
from ....codemod.proof.needs import Release
from ....codemod.proof.proving import proved
from ....codemod.purpose.files import is_test
from ....codemod.purpose.given import is_used
from ....codemod.python.bindings import reaching
from ....codemod.python.names import ModuleNames, last_name
from ....codemod.source.project import Project
from ....codemod.torch.dtype_values import scenarios_of
from ....codemod.torch.imported import dropped_import, torch_at
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.trainers.reading.links import sources

SCALER_SINCE = "2.3"
"""The release that has ``torch.amp.GradScaler``."""
OLD = ("torch.cuda.amp.", "torch.cpu.amp.")
QUESTIONS = ("is_available", "is_bf16_supported", "is_autocast_available", "bool", "isinstance", "hasattr")
"""Functions that answer with a truth value."""


def arguments_of_scalers(project: Project) -> Iterator[Draft]:
    for scaler in scalers(project):
        if scaler.kind != "direct" or is_test(scaler.module.path) or not scaler.arguments:
            continue
        name = "init_scale" if scaler.api.startswith(OLD) else "device"
        given = scaler.arguments.get(name)
        if given is None or not is_used(project, scaler):
            continue
        if name == "init_scale" and is_text(project, scaler.module, given):
            yield _device_for_old_scaler(project, scaler, given is next(iter(scaler.call.args), None))
        elif _is_truth(project, scaler.module, given) and not (name == "device" and _is_true(given)):
            yield _switch_for_other(scaler, name, given)


def _switch_for_other(scaler: Scaler, name: str, given: ast.expr) -> Draft:
    """``GradScaler(args.amp)``: what comes first is no switch."""
    module, call = scaler.module, scaler.call
    if name == "init_scale":
        what = "init_scale: True is 1.0, which scales nothing, and False, 0.0, turns the weights into NaN"
    else:
        what = "the device: the scaler is on, also where the switch is False"
    message = f"a switch is passed to {scaler.api} as {what}"
    fixes = []
    if given in call.args and scaler.enabled_node is None:
        edit = module.name_argument(call, call.args.index(given), "enabled")
        fixes.append(Fix.unsafe("argument", "pass it as enabled; the loss is scaled by 65536 at the start then", edit))
    return Draft.at(module, given, message, fixes=fixes)


def _is_true(node: ast.expr) -> bool:
    """``True``, with which nothing changes in the place of a device."""
    return isinstance(node, ast.Constant) and node.value is True


def _is_truth(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether a value is certainly True or False."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool)
    if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return True
    if isinstance(node, ast.BoolOp):
        return all(_is_truth(project, module, item) for item in node.values)
    if isinstance(node, ast.Call):
        return last_name(node.func) in QUESTIONS
    found = sources(project, module, node)
    return bool(found) and all(isinstance(item.value, bool) for item in found)


def _device_for_old_scaler(project: Project, scaler: Scaler, is_first: bool) -> Draft:
    message = f"{scaler.api} takes the initial scale first, no device: the first scale() on CUDA raises TypeError"
    edits = of_new_api(scaler.module, scaler.call, "GradScaler")
    since = Release("torch", SCALER_SINCE, scaler.module.path, "torch.amp.GradScaler")
    fix = proved(project, "argument", "call torch.amp.GradScaler, which takes it", edits, since) if is_first else None
    return Draft.at(scaler.module, scaler.call, message, fixes=(fix,))


def of_new_api(module: ModuleNames, call: ast.Call, name: str) -> list[Edit]:
    """The edits that call the class of ``torch.amp`` instead."""
    torch = torch_at(module, call)
    edits: list[Edit] = [module.replace(call.func, f"{torch or 'torch'}.amp.{name}")]
    if torch is None:
        edits.append(module.add_import("import torch"))
    return edits + dropped_import(module, call.func)


def is_text(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether the value is certainly a string: one written here, or in the variable that is read."""
    if isinstance(node, ast.Name):
        bindings = reaching(module, module.bindings_of(node), node)
        if not bindings or any(binding.value is None for binding in bindings):
            return False
        return all(isinstance(item.value, str) for item in scenarios_of(project, module, node))
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
