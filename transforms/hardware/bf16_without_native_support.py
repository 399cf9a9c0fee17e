"""The project asks for bfloat16 on a machine that has no native bfloat16.

Needs to know the machine: `--profile FILE`, `--probe`, or a profile saved in the project.

## What goes wrong

On a T4, V100, P100 or RTX 20 training runs several times slower than in float16, often slower than in float32, or an
operation fails: `"..." not implemented for 'BFloat16'`, `Bfloat16 is only supported on GPUs with compute capability of
at least 8.0`, `ValueError: Your setup doesn't support bf16/gpu`; on a Mac before macOS 14: `MPS BFloat16 is only
supported on MacOS 14 or newer`.

## Why

NVIDIA computes natively in bfloat16 from compute capability 8.0 on. Since PyTorch 2.3 older GPUs convert to float32
and back instead of refusing, so nothing says that the setting is wrong for the machine.

## Fix

`fp16` [unsafe]: calls, configuration files, launch lines and variables get the float16 spelling of the trainer that
reads them (`fp16=True`, `precision="16-mixed"`, `mixed_precision="fp16"`), which scales the loss on its own. Only where
the machine has native float16 and no weights are loaded or kept in 16 bits. float16 overflows above 65504, so a model
that was trained in bfloat16 (T5, Gemma) may diverge. An autocast region of a hand-written loop and a dtype that weights
are loaded in are reported: they also need a GradScaler, or float32 weights.

## Not flagged

Everything, where no profile says what the machine can do; a device type that the profile does not have; a dtype chosen
at run time; places that ask for support before (`is_bf16_supported`, the compute capability); tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Fix, Rule
from ...codemod.profiles.profile import Profile, ProfiledDevice, Support
from ...codemod.purpose.checked import checked_code
from ...codemod.purpose.files import is_test
from ...codemod.python.arguments import argument
from ...codemod.python.names import ModuleNames
from ...codemod.python.paths import guards
from ...codemod.source.project import Project
from ...codemod.torch.api import LOAD_KEYS, LOADERS
from ...codemod.torch.autocast import autocasts, dtype_scenarios
from ...codemod.torch.dtype_values import scenarios_of
from ...codemod.torch.dtypes import BF16, Scenario
from ...codemod.trainers.framework import FAMILIES
from ...codemod.trainers.reading.declarations import checked_scopes
from ...codemod.trainers.reading.scopes import SettingScope
from ...codemod.trainers.writing.edits import change_of

LACKING = (Support.EMULATED, Support.ABSENT)
WORDS = ("bf16", "bfloat16")
ASKING = ("bf16", "bfloat16", "capability", "is_ampere", "compute_cap")
"""Words of a test that has looked at what the GPU can do."""


def check(project: Project) -> Iterator[Finding]:
    profile = project.profile
    if profile is None or not any(device.support("bf16") in LACKING for device in profile.devices):
        return
    yield from _autocasts(project, profile)
    device = profile.weakest("bf16")
    if device is None or device.support("bf16") not in LACKING:
        return
    for module in checked_code(project, WORDS, LOADERS):
        yield from _weights(project, module, device)
    for scope in checked_scopes(project):
        if scope.kind != "mapping" and not is_test(scope.path):
            yield from _configured(project, scope, device)


def _autocasts(project: Project, profile: Profile) -> Iterator[Finding]:
    for item in autocasts(project):
        if item.switched_off or item.dtype_node is None or is_test(item.module.document.path):
            continue
        device = profile.weakest("bf16", item.device)
        lacks = device is not None and device.support("bf16") in LACKING
        always = dtype_scenarios(project, item) == (Scenario(BF16),)
        if device is not None and lacks and always and not _has_asked(item.module, item.node):
            yield _finding(item.module, item.dtype_node, device, "autocast computes in bfloat16")


def _weights(project: Project, module: ModuleNames, device: ProfiledDevice) -> Iterator[Finding]:
    for call in (call for name in LOADERS for call in module.calls_by_name.get(name, [])):
        given = argument(call, *LOAD_KEYS)
        always = given is not None and tuple(scenarios_of(project, module, given)) == (Scenario(BF16),)
        if given is not None and always and not _has_asked(module, call):
            yield _finding(module, given, device, "the weights are loaded in bfloat16")


def _configured(project: Project, scope: SettingScope, device: ProfiledDevice) -> Iterator[Finding]:
    """A call, a configuration file, a command line or a variable that asks a trainer for bfloat16."""
    asked = {regime: setting for regime, setting in scope.regimes.items() if FAMILIES[regime] == "bf16"}
    setting = next((item for item in asked.values() if item is not None), None)
    module, node = scope.argument(setting) or (None, None)
    if setting is None or (module is not None and node is not None and _has_asked(module, node)):
        return
    message = f"{scope.framework.title} is configured to compute in bfloat16, but {device.label} {_lack(device)}"
    keeps_weights = "bf16-true" not in asked and (module is None or not _loads_16_bit(module))
    fixes = _fixes(project, scope, device) if keeps_weights else []
    yield rule.found(setting.place.saying(message), fixes=fixes)


def _fixes(project: Project, scope: SettingScope, device: ProfiledDevice) -> list[Fix]:
    change = change_of(project, scope, scope.framework.actions("fp16-mixed") or ())
    if device.support("fp16") is not Support.NATIVE or change is None:
        return []
    because = f": {device.name} has float16 natively; values above 65504 overflow"
    return [change.unsafe("fp16", because)]


def _has_asked(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a test on the way here looks at what the machine can do, or chooses the precision."""
    tests = (ast.unparse(guard.test).lower() for guard in guards(module, node))
    return any(word in test for test in tests for word in ASKING)


def _loads_16_bit(module: ModuleNames) -> bool:
    named = any(node.attr in ("bfloat16", "float16", "half") for node in module.of_type(ast.Attribute))
    return named or any(node.value in ("bfloat16", "float16", "auto") for node in module.of_type(ast.Constant))


def _finding(module: ModuleNames, node: ast.expr, device: ProfiledDevice, said: str) -> Finding:
    return rule.at(module, node, f"{said}, but {device.label} {_lack(device)}")


def _lack(device: ProfiledDevice) -> str:
    how = "only emulates it" if device.support("bf16") is Support.EMULATED else "does not have it"
    if device.support("fp16") is Support.NATIVE:
        how += "; its native 16-bit type is float16, with a GradScaler"
    return how


rule = Rule.of("PF601", check, depends_on=("profile",))
