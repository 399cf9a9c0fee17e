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

`fp16` [unsafe]: a transformers trainer gets `bf16=False` and `fp16=True`, Lightning `precision="16-mixed"` instead of
`"bf16-mixed"`, accelerate `mixed_precision="fp16"`: these frameworks scale the loss on their own. Only where the
machine has native float16 and the file loads no weights in 16 bit. Configuration files, launch lines and variables get
the float16 spelling of the trainer that reads them. float16 overflows above 65504, so a model that was
trained in bfloat16 (T5, Gemma) may diverge. An autocast region of a hand-written loop and a dtype that weights are
loaded in are reported: they also need a GradScaler, or float32 weights.

## Not flagged

Everything, where no profile says what the machine can do; a device type that the profile does not have; a dtype chosen
at run time; places that ask for support before (`is_bf16_supported`, the compute capability); tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Edit, Finding, Fix, Rule
from ...codemod.profiles.profile import Device, Profile, Support
from ...codemod.purpose.files import is_test
from ...codemod.python.names import ModuleNames, attribute_chain, names_of
from ...codemod.python.paths import guards
from ...codemod.source.project import Project
from ...codemod.torch.api import LIGHTNING, LOAD_KEYS, LOADERS
from ...codemod.torch.autocast import autocasts, dtype_scenarios
from ...codemod.torch.dtype_values import scenarios_of
from ...codemod.torch.dtypes import BF16, Scenario
from ...codemod.trainers.framework import FAMILIES
from ...codemod.trainers.reading.declarations import scopes_of
from ...codemod.trainers.reading.scopes import Scope
from ...codemod.trainers.writing.edits import change_of

LACKING = (Support.EMULATED, Support.ABSENT)
WORDS = ("bf16", "bfloat16")
ASKING = ("bf16", "bfloat16", "capability", "is_ampere", "compute_cap")
"""Words of a test that has looked at what the GPU can do."""
TRAINER_LIBRARIES = ("transformers", "trl", "sentence_transformers", "setfit", "optimum", "peft", "adapters")


def check(project: Project) -> Iterator[Finding]:
    profile = project.profile
    if profile is None or not any(device.support("bf16") in LACKING for device in profile.devices):
        return
    yield from _autocasts(project, profile)
    device = profile.weakest("bf16")
    if device is None or device.support("bf16") not in LACKING:
        return
    for document in project.checked_documents(WORDS):
        if not is_test(document.path):
            yield from _in_calls(project, names_of(project, document), device)
    for scope in scopes_of(project):
        if scope.kind in ("file", "command", "environment") and not is_test(scope.path):
            yield from _in_text(project, scope, device)


def _autocasts(project: Project, profile: Profile) -> Iterator[Finding]:
    for item in autocasts(project):
        if item.switched_off or item.dtype_node is None or is_test(item.module.document.path):
            continue
        device = profile.weakest("bf16", item.device)
        lacks = device is not None and device.support("bf16") in LACKING
        always = dtype_scenarios(project, item) == (Scenario(BF16),)
        if device is not None and lacks and always and not _has_asked(item.module, item.node):
            yield _finding(item.module, item.dtype_node, device, "autocast computes in bfloat16")


def _in_calls(project: Project, module: ModuleNames, device: Device) -> Iterator[Finding]:
    for call in module.calls:
        for argument in call.keywords:
            said = _declares(project, module, call, argument)
            if said and not _has_asked(module, call):
                fix = _fix(module, call, argument, device)
                yield _finding(module, argument.value, device, said, fix)


def _in_text(project: Project, scope: Scope, device: Device) -> Iterator[Finding]:
    """A configuration file, a command line or a variable that asks for bfloat16."""
    stating = [setting for regime, setting in scope.regimes.items() if FAMILIES[regime] == "bf16"]
    setting = next((item for item in stating if item is not None), None)
    if setting is None:
        return
    message = f"{scope.framework.title} is configured to compute in bfloat16, but {device.label} {_lack(device)}"
    yield rule.found(setting.place.saying(message), fixes=_text_fixes(project, scope, device))


def _text_fixes(project: Project, scope: Scope, device: Device) -> list[Fix]:
    change = change_of(project, scope, scope.framework.actions("fp16-mixed") or ())
    if device.support("fp16") is not Support.NATIVE or change is None:
        return []
    because = f": {device.name} has float16 natively; values above 65504 overflow"
    return [change.unsafe("fp16", because)]


def _declares(project: Project, module: ModuleNames, call: ast.Call, argument: ast.keyword) -> str:
    """What a keyword argument says about bfloat16, if it says so in so many words; else empty."""
    name = (attribute_chain(call.func) or [""])[-1]
    value = argument.value
    if name in LOADERS and argument.arg in LOAD_KEYS:
        found = scenarios_of(project, module, value)
        return "the weights are loaded in bfloat16" if tuple(found) == (Scenario(BF16),) else ""
    if not isinstance(value, ast.Constant):
        return ""
    library = (module.qualified(call.func) or "").partition(".")[0]
    if argument.arg == "bf16" and value.value is True and library in TRAINER_LIBRARIES:
        return "the trainer computes in bfloat16"
    if argument.arg == "precision" and library in LIGHTNING and value.value in ("bf16-mixed", "bf16-true", "bf16"):
        return "Lightning computes in bfloat16"
    if argument.arg == "mixed_precision" and library == "accelerate" and value.value == "bf16":
        return "accelerate computes in bfloat16"
    return ""


def _has_asked(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a test on the way here looks at what the machine can do, or chooses the precision."""
    tests = (ast.unparse(guard.test).lower() for guard in guards(module, node))
    return any(word in test for test in tests for word in ASKING)


def _fix(module: ModuleNames, call: ast.Call, argument: ast.keyword, device: Device) -> Fix | None:
    """The float16 spelling of a framework that scales the loss by itself."""
    if device.support("fp16") is not Support.NATIVE or _loads_16_bit(module):
        return None
    span = module.document.span(call)
    value = argument.value.value if isinstance(argument.value, ast.Constant) else None
    edits: tuple[Edit, ...]
    if argument.arg == "bf16":
        others = {item.arg: item.value for item in call.keywords}
        if None in others or not _is_off(others.get("fp16")) or "bf16_full_eval" in others:
            return None
        edits = (
            module.set_argument(span, "bf16", "False"),
            module.set_argument(span, "fp16", "True"),
        )
    elif value in ("bf16-mixed", "bf16") and not (argument.arg == "precision" and value == "bf16"):
        spelling = '"16-mixed"' if argument.arg == "precision" else '"fp16"'
        edits = (module.replace(argument.value, spelling),)
    else:
        return None
    return Fix.unsafe(
        "fp16", f"train in float16, which {device.name} has natively; values above 65504 overflow", *edits
    )


def _is_off(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and not value.value)


def _loads_16_bit(module: ModuleNames) -> bool:
    names = {node.attr for node in module.nodes if isinstance(node, ast.Attribute)}
    words = {node.value for node in module.nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return not names.isdisjoint({"bfloat16", "float16", "half"}) or not words.isdisjoint(
        {"bfloat16", "float16", "auto"}
    )


def _finding(module: ModuleNames, node: ast.expr, device: Device, said: str, fix: Fix | None = None) -> Finding:
    fixes = [fix]
    message = f"{said}, but {device.label} {_lack(device)}"
    return rule.at(module, node, message, (), fixes)


def _lack(device: Device) -> str:
    how = "only emulates it" if device.support("bf16") is Support.EMULATED else "does not have it"
    if device.support("fp16") is Support.NATIVE:
        how += "; its native 16-bit type is float16, with a GradScaler"
    return how


rule = Rule.of("PF601", check, depends_on=("profile",))
