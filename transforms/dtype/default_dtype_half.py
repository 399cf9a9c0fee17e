"""Training code makes float16 the default dtype, so that weights and every new tensor are float16.

## What goes wrong

After `torch.set_default_dtype(torch.float16)` each layer is built with float16 weights and `torch.zeros(...)` is
float16. A GradScaler stops with `ValueError: Attempting to unscale FP16 gradients.` Without one nothing is raised:
gradients below 6e-8 are zero, the epsilon of Adam (1e-8) is zero, and updates smaller than half a unit in the last
place of a weight are lost, so that the loss stays where it is or becomes nan.

## Why

The default dtype is what factories, `torch.Tensor(...)` and the parameters of `torch.nn` get where no dtype is given
(PyTorch 2.13; `set_default_tensor_type` is its older name). Mixed precision needs float32 weights: only they keep small
updates, and only their gradients can be unscaled.

## Fix

Reported only: without the line the weights are float32, and inputs that the project casts to float16 itself no longer
match them. Autocast with a GradScaler is what replaces it.

## Not flagged

Files that do not train; bfloat16, which some trainers use for whole runs on purpose; a default that the same file sets
to another dtype as well (it is put back); a dtype that is chosen when the program runs; optimizers that scale the loss
themselves; tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.purpose.files import is_test
from ...codemod.purpose.imports import connected_modules
from ...codemod.purpose.training import training_modules
from ...codemod.python.names import ModuleNames, resolve
from ...codemod.source.project import Project
from ...codemod.torch.api import DEFAULT_SETTERS
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import FP16

OWN_SCALING = ("loss_scal", "lossscal", "fp16_optimizer", "master_param")
"""Parts of names of optimizers that scale the loss, or keep float32 weights, by themselves."""
HALF_TYPES = ("torch.HalfTensor", "torch.cuda.HalfTensor")
"""What ``set_default_tensor_type`` takes, as an object or as a string."""


def check(project: Project) -> Iterator[Finding]:
    for module in training_modules(project):
        calls = list(_settings(project, module))
        if is_test(module.path) or not all(_is_half(project, module, call) for call in calls):
            continue
        if calls and any(other.mentions(*OWN_SCALING) for other in connected_modules(project, module)):
            continue
        for call in calls:
            yield rule.at(
                module,
                call,
                "float16 becomes the default dtype of a training program: its weights are float16, which loses small "
                "gradients and updates and cannot be unscaled",
            )


def _settings(project: Project, module: ModuleNames) -> Iterator[ast.Call]:
    """Every call of one of torch's two setters."""
    for name in DEFAULT_SETTERS:
        for call in module.calls_by_name.get(name, []):
            if resolve(project, module, call.func) == f"torch.{name}":
                yield call


def _is_half(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether the one argument is certainly float16."""
    given = [*call.args, *(item.value for item in call.keywords)]
    if len(given) != 1 or isinstance(given[0], ast.Starred):
        return False
    named = isinstance(given[0], ast.Attribute | ast.Name) and resolve(project, module, given[0]) in HALF_TYPES
    return named or constants_of(project, module, given[0]) in ({FP16}, *({text} for text in HALF_TYPES))


rule = Rule.of("PF215", check)
