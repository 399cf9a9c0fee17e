"""autocast is created for a different device type than the tensors, or with arguments it does not take.

## What goes wrong

`torch.autocast("cuda")` in code that can also choose another accelerator, such as Apple's `mps` or `xpu`: there the
region has no effect, and each entry warns: `UserWarning: CUDA is not available or torch_xla is imported. Disabling
autocast.` (before PyTorch 2.4: `User provided device_type of 'cuda', but CUDA is not available. Disabling`).

`torch.autocast("cuda" if torch.cuda.is_available() else "cpu")` beside a device that is known: a run on the CPU of a
machine with a GPU gets autocast for CUDA, which has no effect on CPU tensors. No warning at all.

Wrong arguments stop the run: `torch.autocast(dtype=...)` (`TypeError: ... missing 1 required positional argument:
'device_type'`), a `torch.device` where its `.type` is wanted (`ValueError: Expected `device_type` of type `str`, got:
`<class 'torch.device'>``), `torch.cuda.amp.autocast(device_type=...)` (`TypeError: ... unexpected keyword argument
'device_type'`), a dtype or a switch in the place of another argument or as a string (`TypeError: set_autocast_dtype():
argument 'dtype' (position 2) must be torch.dtype, not str`), and before PyTorch 2.4 a device with an index
(`RuntimeError: User specified an unsupported autocast device_type 'cuda:0'`).

## Why

autocast acts on the operations of one device type and leaves the others alone (checked with PyTorch 2.13).

## Fix

`device-type` [unsafe]: `torch.autocast(device.type, ...)`. Nothing changes on CUDA. Elsewhere the region takes effect:
without a dtype it is bfloat16 on a CPU, float16 on `mps` and `xpu`. A dtype that is float16 stays off on a CPU, which
is slow in it. `device-type` [display-only] where the project's pins allow a PyTorch without autocast on `mps` (2.5),
and for `torch.cuda.amp.autocast`, which PF301 respells first.

`argument` [safe]: the argument as autocast wants it, where the call is a certain crash. `argument` [unsafe] where it
is none on every device.

## Not flagged

Devices that are CUDA or the CPU, or that only an option names: where the region falls away on a CPU, the run is in
float32, as it should be there. Projects that run on CUDA alone (`.cuda()`, `torch.device("cuda")`, kernels of their own
that they compile for CUDA); regions behind a test of the device or with `enabled=` depending on it, or behind a switch
that a constant keeps off; `enabled=False` and float32 islands; decorators; tests; devices of which nothing is known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from packaging.version import Version

from ....codemod.model import Applicability, Edit, Finding, Fix, Rule
from ....codemod.purpose.cuda_kernels import runs_own_kernels
from ....codemod.purpose.files import is_test
from ....codemod.python.conditions import never_reached
from ....codemod.python.names import ModuleNames
from ....codemod.releases.gates import is_gated
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, checked_autocasts, dtype_scenarios, is_float32_island
from ....codemod.torch.device_tests import asks_for_device, depends_on_device, needs_cuda
from ....codemod.torch.dtypes import BF16
from ....codemod.torch.imported import torch_at
from .autocast_arguments import mistakes
from .guessed_device import device_beside_guess
from .run_time_device import RegionDevice, device_around, where_it_may_be

MPS_SINCE = "2.5"
"""The release of PyTorch from which autocast accepts ``mps`` at all."""
_MADE = ("with", "value")


def check(project: Project) -> Iterator[Finding]:
    for region in checked_autocasts(project):
        if is_test(region.module.document.path):
            continue
        wrong = list(mistakes(project, region))
        yield from (rule.found(*mistake) for mistake in wrong)
        if region.form in _MADE and region.understood and not wrong:
            yield from _on_another_device(project, region)


def _on_another_device(project: Project, region: Autocast) -> Iterator[Finding]:
    if is_float32_island(project, region) or never_reached(project, region.module, region.node):
        return
    if region.is_old_api and is_gated(region.module, region.node):
        return  # for old releases, beside a branch for the others
    if region.device == "cuda":
        device = device_around(project, region)
        if device is not None and device.can_be_cuda_or_accelerator and not _is_meant_for_cuda(project, region):
            message = f"autocast is for CUDA alone while {device.text} {where_it_may_be(device)}"
            yield _device_finding(project, region, device, f"{message}: elsewhere the region has no effect")
    elif region.device is None:
        yield from _guessed(project, region)


def _device_finding(project: Project, region: Autocast, device: RegionDevice, message: str) -> Finding:
    place = region.module.place(device.node, "the device that is chosen when the program runs")
    fixes = [_follow(project, region, device)] if _is_written_in_place(region) else []
    return rule.at(region.module, region.node, message, (place,), fixes)


def _is_written_in_place(region: Autocast) -> bool:
    """Whether the arguments stand in the call itself, not in a table that it unpacks."""
    return region.call is not None and all(item.arg is not None for item in region.call.keywords)


def _guessed(project: Project, region: Autocast) -> Iterator[Finding]:
    message = "autocast's device is guessed from torch.cuda.is_available(): tensors on the CPU of a machine with a GPU"
    device = device_beside_guess(project, region)
    if device is not None:
        yield _device_finding(project, region, device, f"{message} are on {device.text} and not reached")


def _is_meant_for_cuda(project: Project, region: Autocast) -> bool:
    module = region.module
    if region.enabled_node is not None and asks_for_device(project, module, region.enabled_node):
        return True
    uses = [region.node, *_later_uses(module, region)]
    if any(depends_on_device(project, module, use) for use in uses):
        return True
    return needs_cuda(project, module, region.node) or runs_own_kernels(project, module)


def _later_uses(module: ModuleNames, region: Autocast) -> Iterator[ast.expr]:
    """Where the variable or attribute that holds the object is read."""
    statement = module.statement_of(region.node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    for target in targets if region.form == "value" else []:
        if isinstance(target, ast.Name):
            yield from module.name_loads.get(target.id, [])
        elif isinstance(target, ast.Attribute):
            yield from module.attribute_loads.get(target.attr, [])


# --- the fix ----------------------------------------------------------------------------------------------------------


def _follow(project: Project, region: Autocast, device: RegionDevice) -> Fix:
    torch = torch_at(region.module, region.node)
    wanted = device.type_text(torch or "torch")
    half = region.dtype_node is not None and _may_be_half(project, region) and bool(device.kinds & {"cpu", "*"})
    message = "create it for the device in use; nothing changes on CUDA"
    if half:
        message += "; a CPU stays in float32"
    elif region.dtype_node is None:
        message += "; without a dtype it is bfloat16 on a CPU, float16 on mps and xpu"
    operations = _operations(region, wanted, half) if not region.is_old_api else [_respelled(region, wanted, half)]
    if torch is None and "torch." in wanted:
        operations.append(region.module.add_import("import torch"))
    applicability = Applicability.DISPLAY_ONLY if region.is_old_api else Applicability.UNSAFE
    if "mps" in device.kinds and _may_lack_mps(project, region):
        applicability = Applicability.DISPLAY_ONLY
        message += f"; before PyTorch {MPS_SINCE}, which the project allows, autocast stops on mps"
    return Fix.of("device-type", applicability, message, *operations)


def _may_be_half(project: Project, region: Autocast) -> bool:
    return any(item.value != BF16 for item in dtype_scenarios(project, region))


def _may_lack_mps(project: Project, region: Autocast) -> bool:
    versions = allowed(project, "torch", near=region.module.document.path)
    return versions is not None and versions.may_be_below(str(Version(MPS_SINCE)))


def _operations(region: Autocast, wanted: str, half: bool) -> list[Edit]:
    assert region.device_node is not None
    assert region.call is not None
    operations: list[Edit] = [region.module.replace(region.device_node, wanted)]
    if half:
        operations.append(region.module.set_argument(region.call, "enabled", _not_on_cpu(region, wanted)))
    return operations


def _not_on_cpu(region: Autocast, wanted: str) -> str:
    node = region.enabled_node
    if node is None or (isinstance(node, ast.Constant) and node.value is True):
        return f'{wanted} != "cpu"'
    return f'({ast.unparse(node)}) and {wanted} != "cpu"'


def _respelled(region: Autocast, wanted: str, half: bool) -> Edit:
    call = region.call
    assert call is not None
    given = [wanted]
    if region.dtype_node is not None:
        given.append(f"dtype={ast.unparse(region.dtype_node)}")
    if half or region.enabled_node is not None:
        given.append("enabled=" + (_not_on_cpu(region, wanted) if half else ast.unparse(region.enabled_node or call)))
    given += [f"{item.arg}={ast.unparse(item.value)}" for item in call.keywords if item.arg == "cache_enabled"]
    return region.module.replace(call, f"torch.amp.autocast({', '.join(given)})")


rule = Rule.of("PF303", check)
