"""Gradients of a bfloat16 run are sent in float16, and nothing scales the loss

## What goes wrong

No error. `model.register_comm_hook(None, default_hooks.fp16_compress_hook)` casts the gradients to float16 for the
`all_reduce` of DDP. What is below 6e-8 becomes zero on the way, and what is above 65504 inf: a bfloat16 run has no
GradScaler that keeps its gradients in the range of float16.

## Why

The hook divides by the number of processes, casts to float16, and casts back behind the `all_reduce`
(`torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py`, PyTorch 2.13). Under float16 autocast the scaled
gradients fit; bfloat16 has the range of float32, and `bf16_compress_hook` keeps it for the same number of bytes.

## Fix

`bf16-hook` [unsafe]: `bf16_compress_hook` in its place, where the module is named before it. It needs PyTorch 1.10,
NCCL 2.10 and GPUs that have bfloat16; the gradients lose three bits and keep their range.

## Not flagged

Runs with a scaler, or anything else that scales the loss; programs of which not every training region is bfloat16;
float32 runs, in which the hook is a choice between bytes and small gradients; hooks of the project's own. Tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Fix, Rule
from ...codemod.purpose.checked import checked_code
from ...codemod.purpose.runs import runs_of
from ...codemod.python.names import ModuleNames, last_name
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import BF16
from ...codemod.torch.scalers import scalers
from ...codemod.torch.unscaled_steps import scales_somehow

HOOKS = {"fp16_compress_hook": "bf16_compress_hook", "fp16_compress_wrapper": "bf16_compress_wrapper"}
MODULE = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"
REGISTER = "register_comm_hook"


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, HOOKS, (REGISTER,)):
        for call in module.calls_by_name.get(REGISTER, ()):
            hook = next(_hooks(module, call), None)
            runs = [run for run in runs_of(project, module, call) if run.trains] if hook is not None else []
            scaled = scales_somehow(project, module) or any(scaler.is_used for scaler in scalers(project))
            if hook is None or scaled or not runs or not all(run.dtypes == {BF16} for run in runs):
                continue
            name = last_name(hook)
            message = f"{name} sends gradients in float16 and nothing scales the loss: what is below 6e-8 becomes zero"
            yield rule.at(module, hook, message, [runs[0].place], [_bf16(module, hook, HOOKS[name])])


def _hooks(module: ModuleNames, call: ast.Call) -> Iterator[ast.Name | ast.Attribute]:
    """The hooks of PyTorch that cast to float16 among what is registered, also as a wrapper of another one."""
    for given in (*call.args, *(item.value for item in call.keywords)):
        for node in ast.walk(given):
            if not isinstance(node, ast.Name | ast.Attribute) or last_name(node) not in HOOKS:
                continue
            if module.qualified(node) == f"{MODULE}.{last_name(node)}":
                yield node


def _bf16(module: ModuleNames, hook: ast.Name | ast.Attribute, name: str) -> Fix | None:
    if not isinstance(hook, ast.Attribute):
        return None
    edit = module.replace(hook, hook.value, f".{name}")
    return Fix.unsafe("bf16-hook", f"{name} keeps their range; needs PyTorch 1.10 and NCCL 2.10", edit)


rule = Rule.of("PF703", check)
