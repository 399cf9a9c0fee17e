"""autocast is called with arguments that it does not take.

## What goes wrong

The call raises: `torch.autocast(dtype=...)` (`TypeError: ... missing 1 required positional argument: 'device_type'`), a
`torch.device` where its `.type` is wanted (`ValueError: Expected `device_type` of type `str`, got: `<class
'torch.device'>``), `torch.cuda.amp.autocast(device_type=...)` (`TypeError: ... unexpected keyword argument
'device_type'`), a dtype or a switch in the place of another argument or as a string (`TypeError: set_autocast_dtype():
argument 'dtype' (position 2) must be torch.dtype, not str`), a device for the old scaler, which takes it for the scale
that it starts with (`torch.cuda.amp.GradScaler("cuda")`: `scale` raises TypeError), `custom_fwd` or `custom_bwd` of
`torch.amp` without a device (`TypeError: custom_fwd() missing 1 required keyword-only argument: 'device_type'`), a
model for the region of accelerate (`accelerator.autocast(model)`: `AttributeError: 'Net' object has no attribute
'to_kwargs'`; before its 1.0 a model counts as `cache_enabled`), and before PyTorch 2.4 a device with an
index (`RuntimeError: User specified an unsupported autocast device_type 'cuda:0'`).

A switch in the place of the scale raises nothing: `torch.cuda.amp.GradScaler(args.amp)` starts with the scale `True`,
which is 1.0 and scales nothing, or with `False`, which is 0.0: the weights become NaN.
`torch.amp.GradScaler(args.amp)` takes it for a device, and is on in each run.

## Why

The old API takes the switch first and knows its device; the new one takes the device first, then the dtype (checked
with PyTorch 2.13). `torch.autocast("cuda")` turns itself off where there is no CUDA, so a wrong dtype or switch stops
the run on a GPU only.

## Fix

`argument` [safe]: the argument as autocast wants it, where the call is a certain crash. `argument` [unsafe] where it
is none on every device, where nothing shows that a decorator is to run on CUDA, and for the switch of a scaler,
which begins to scale.

## Not flagged

Autocast for CUDA in code that can also choose another accelerator: there it warns and changes nothing. Tests; arguments
that are unpacked from elsewhere than a dictionary that is written down; a scaler of which no run comes to what it
scales. An autocast that one of several imports names, where the run decides which; but what `try` imports from
`torch.amp` is what every newer release calls, and needs its device. A device with an index that only a launcher's runs
have (`LOCAL_RANK`), in a notebook or where nothing shows such a launch, and any index where the project allows PyTorch
2.4 or says nothing of its release.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Edit, Finding, Fix, Rule
from ....codemod.proof.needs import Known, Release
from ....codemod.proof.proving import proved
from ....codemod.purpose.files import is_test
from ....codemod.python.editing import EditPlace
from ....codemod.python.keywords import keywords_of
from ....codemod.python.names import ModuleNames, checked_modules, resolve, string_of
from ....codemod.python.paths import guards
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.accelerators import accelerator_at
from ....codemod.torch.api import ACCELERATOR
from ....codemod.torch.autocast import Autocast, checked_autocasts
from ....codemod.torch.device_tests import needs_cuda
from ....codemod.torch.devices import DeviceValue, devices_in_runs
from ....codemod.torch.dtypes import TORCH_DTYPES
from ....codemod.torch.imported import torch_at
from .decorator_arguments import arguments_of_decorators
from .named_by_imports import imports_of, is_new_where_it_is
from .scaler_arguments import OLD, arguments_of_scalers, is_text, of_new_api

INDEX_SINCE = "2.4"
"""The release of PyTorch from which ``autocast("cuda:0")`` is accepted."""
HANDLER_ALONE_SINCE = "1.0.0"
"""The release of accelerate whose ``autocast`` takes a handler alone; before, ``cache_enabled`` came first."""
CACHE_DEPRECATED_SINCE = "0.22.0"
"""The release that warns of ``cache_enabled``."""
OF_MODELS = ("parameters", "named_parameters", "train", "eval", "state_dict")
DEVICES = ("cuda", "cpu", "mps", "xpu", "npu", "hpu")
_SWITCHES = {0: "False", 1: "True"}


def check(project: Project) -> Iterator[Finding]:
    for region in checked_autocasts(project):
        if not is_test(region.module.document.path):
            yield from (rule.found(*mistake) for mistake in mistakes(project, region))
    for module in checked_modules(project, (".autocast(",), ("ccelerat",)):
        yield from (rule.found(*mistake) for mistake in _models_for_accelerate(project, module))
    for draft in (*arguments_of_scalers(project), *arguments_of_decorators(project)):
        yield rule.found(*draft)


def _models_for_accelerate(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``with accelerator.autocast(model)``."""
    for call in module.calls_by_name.get("autocast", ()) if not is_test(module.path) else ():
        used = accelerator_at(project, module, call) if len(call.args) == 1 and not call.keywords else None
        if used is None or not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) != used.text:
            continue
        is_accelerates = all(resolve(project, made.module, made.call.func) in ACCELERATOR for made in used.made_by)
        versions = allowed(project, "accelerate", near=module.path)
        if not is_accelerates or used.text == "fabric" or not _is_model(module, call.args[0]):
            continue
        if versions is None or versions.may_reach(HANDLER_ALONE_SINCE):
            what = f"this raises AttributeError since accelerate {HANDLER_ALONE_SINCE}"
        elif versions.may_reach(CACHE_DEPRECATED_SINCE):
            what = "it counts as cache_enabled, with a FutureWarning at each step"
        else:
            continue
        since = Release("accelerate", HANDLER_ALONE_SINCE, module.path, "autocast without cache_enabled")
        fix = proved(project, "argument", "leave it out", [module.remove_argument(call, 0)], since)
        yield Draft.at(module, call, f"{used.text}.autocast takes no model: {what}", fixes=(fix,))


def _is_model(module: ModuleNames, node: ast.expr) -> bool:
    """Whether the file trains what is passed, or asks it for parameters."""
    reads = (read for name in OF_MODELS for read in module.attribute_loads.get(name, ()))
    return any(ast.unparse(read.value) == ast.unparse(node) for read in reads)


def mistakes(project: Project, region: Autocast) -> Iterator[Draft]:
    """The arguments of one autocast that it does not take, at most one of each kind."""
    if region.call is None or region.form in ("partial", "reference") or not region.understood:
        return
    imports = imports_of(region)
    if len(imports) > 1 and not (region.device_node is None and is_new_where_it_is(project, region, imports)):
        return
    given = keywords_of(region.module, region.call)
    if not given.complete:  # the arguments stand elsewhere
        return
    device = given.values.get("device")
    if device is not None and not region.is_old_api:
        yield _misnamed_device(project, region, region.call, device)
        return
    if region.is_old_api:
        if not region.api.startswith(OLD):
            return
        if region.device_node is not None:
            yield _device_for_old_api(project, region, region.call)
            return
    elif region.device_node is None:
        plain = len(imports) == 1 and all(item.arg is not None for item in region.call.keywords)
        yield _without_device(project, region, region.call, fixable=plain)
        return
    else:
        yield from _wrong_device(project, region, region.device_node)
    yield from _wrong_dtype(project, region)
    yield from _wrong_switch(project, region)


def _fix(project: Project, message: str, *edits: Edit, certain: bool = True) -> Fix:
    raises = Known(certain, "elsewhere than on CUDA the call may go through today")
    return proved(project, "argument", message, edits, raises)


def _device_for_old_api(project: Project, region: Autocast, call: ast.Call) -> Draft:
    message = f"{region.api} does not take device_type: this raises TypeError"
    if call.args:
        return Draft.at(region.module, call, message)
    edits = of_new_api(region.module, call, "autocast")
    return Draft.at(
        region.module, call, message, fixes=(_fix(project, "call torch.amp.autocast, which takes it", *edits),)
    )


def _misnamed_device(project: Project, region: Autocast, call: ast.Call, node: ast.expr) -> Draft:
    message = "autocast has no argument device, only device_type: this raises TypeError"
    is_type = string_of(node) in DEVICES and region.device_node is None
    if not is_type or not any(item.value is node for item in call.keywords):
        return Draft.at(region.module, node, message)
    edit = region.module.name_argument(call, "device", "device_type")
    return Draft.at(region.module, node, message, fixes=(_fix(project, "call it device_type", edit),))


def _without_device(project: Project, region: Autocast, call: ast.Call, *, fixable: bool) -> Draft:
    message = "autocast without a device_type raises TypeError"
    if not fixable or not needs_cuda(project, region.module, call):
        return Draft.at(region.module, call, message)
    fix = _fix(project, 'pass "cuda"', region.module.set_argument(call, "device_type", '"cuda"'))
    return Draft.at(region.module, call, message, fixes=[fix])


def _wrong_device(project: Project, region: Autocast, node: ast.expr) -> Iterator[Draft]:
    if isinstance(node, ast.Attribute) and node.attr == "type":
        return
    values = devices_in_runs(project, region.module, node)
    if all(value.form == "object" for value in values):
        message = "autocast expects the device type as a string; a torch.device raises ValueError"
        is_atom = isinstance(node, ast.Name | ast.Attribute | ast.Call)
        parts = (node, ".type") if is_atom else ("(", node, ").type")
        yield Draft.at(
            region.module,
            node,
            message,
            fixes=(_fix(project, "pass the device type", region.module.replace(node, *parts)),),
        )
    elif all(value.kind for value in values) and any(value.indexed for value in values):
        if not _lacks_index(project, region) or _is_respelled(region.module, node):
            return
        message = f"autocast rejects a device index before PyTorch {INDEX_SINCE}: pass only the device type"
        yield Draft.at(region.module, node, message, fixes=_without_index(project, region, node, values))


def _is_respelled(module: ModuleNames, node: ast.expr) -> bool:
    """Whether the variable is given a new value by what it held: ``device = "cuda" if "cuda" in device else "cpu"``."""
    bindings = module.bindings_of(node)
    for binding in bindings:
        tests = [guard.test for guard in guards(module, binding.node)] if binding.kind == "assign" else []
        read = (item for part in (binding.value, *tests) if part is not None for item in ast.walk(part))
        if any(isinstance(item, ast.Name) and item.id == binding.name for item in read):
            return True
    return False


def _lacks_index(project: Project, region: Autocast) -> bool:
    """Whether every release that the project allows rejects an index: an install takes the newest one."""
    versions = allowed(project, "torch", near=region.module.document.path)
    return versions is not None and not versions.may_reach(INDEX_SINCE)


def _without_index(
    project: Project, region: Autocast, node: ast.expr, values: frozenset[DeviceValue]
) -> tuple[Fix, ...]:
    torch = torch_at(region.module, node)
    if isinstance(node, ast.Constant | ast.JoinedStr) and len(values) == 1:
        wanted: tuple[str | EditPlace, ...] = (f'"{next(iter(values)).kind}"',)
    elif torch is not None:
        wanted = (f"{torch}.device(", node, ").type")
    else:
        return ()
    return (_fix(project, "pass only the device type", region.module.replace(node, *wanted)),)


# --- the dtype and the switch -----------------------------------------------------------------------------------------


def _wrong_dtype(project: Project, region: Autocast) -> Iterator[Draft]:
    node, call = region.dtype_node, region.call
    if node is None or call is None:
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        message = "the second argument of autocast is the dtype, not the switch: this raises TypeError on CUDA"
        fixes = (_fix(project, "pass it as enabled", _named(region, call, node, "enabled"), certain=_on_cuda(region)),)
        yield Draft.at(
            region.module, node, message, fixes=fixes if node in call.args and region.enabled_node is None else ()
        )
        return
    if is_text(project, region.module, node):
        yield Draft.at(
            region.module,
            node,
            "autocast expects a torch.dtype; a string raises an error on CUDA",
            fixes=_real_dtype(project, region, node),
        )


def _real_dtype(project: Project, region: Autocast, node: ast.expr) -> tuple[Fix, ...]:
    torch = torch_at(region.module, node)
    text = string_of(node) or ""
    name = text.removeprefix("torch.")
    if torch is None or f"torch.{name}" not in TORCH_DTYPES:
        return ()
    operation = region.module.replace(node, f"{torch}.{name}")
    return (_fix(project, "pass the dtype", operation, certain=_on_cuda(region)),)


def _wrong_switch(project: Project, region: Autocast) -> Iterator[Draft]:
    node, call = region.enabled_node, region.call
    if node is None or call is None:
        return
    message = "autocast's enabled must be True or False: this raises TypeError"
    if TORCH_DTYPES.get(region.module.qualified(node) or "") is not None:
        fix = _fix(project, "pass it as dtype", _named(region, call, node, "dtype"), certain=_on_cuda(region))
        fixes = _if(region.dtype_node is None, (fix,))
        yield Draft.at(region.module, node, f"a dtype is passed as enabled; {message}", fixes=fixes)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield Draft.at(
            region.module,
            node,
            f"a string is passed as enabled; {message}",
            fixes=_without_text(project, region, call, node),
        )
    elif isinstance(node, ast.Constant) and not isinstance(node.value, bool):
        right = _SWITCHES.get(node.value) if isinstance(node.value, int) else None
        operation = region.module.replace(node, right or "")
        yield Draft.at(
            region.module, node, message, fixes=_if(right is not None, (_fix(project, f"write {right}", operation),))
        )


def _without_text(project: Project, region: Autocast, call: ast.Call, node: ast.Constant) -> tuple[Fix, ...]:
    """``torch.cuda.amp.autocast("cuda")``: the device is what the API is for, the argument can go."""
    if node.value != region.device or len(call.args) > (1 if region.is_old_api else 2):
        return ()
    argument: str | int = call.args.index(node) if node in call.args else "enabled"
    if argument == 1 or (argument == "enabled" and region.is_old_api):
        return ()
    return (_fix(project, "leave it out", region.module.remove_argument(call, argument), certain=_on_cuda(region)),)


def _if(holds: bool, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    return fixes if holds else ()


def _on_cuda(region: Autocast) -> bool:
    return region.device == "cuda"


def _named(region: Autocast, call: ast.Call, node: ast.expr, name: str) -> Edit:
    """The argument ``node`` of the call, passed as keyword ``name``."""
    keyword = next((item.arg for item in call.keywords if item.value is node), None)
    return region.module.name_argument(call, call.args.index(node) if keyword is None else keyword, name)


rule = Rule.of("PF303", check)
