"""The functions that answer whether there is bfloat16."""

from __future__ import annotations

import ast

from ...codemod.python.names import ModuleNames, last_name, resolve
from ...codemod.source.project import Project

WORDS = ("is_bf16_supported", "is_bfloat16_supported", "is_bf16_available", "is_torch_bf16_")
"""What files hold that ask for bfloat16."""
NAMES = frozenset(
    {
        "is_bf16_supported",
        "is_bfloat16_supported",
        "is_bf16_available",
        "is_torch_bf16_available",
        "is_torch_bf16_gpu_available",
    }
)
LIBRARIES = frozenset({"torch", "unsloth", "accelerate", "transformers"})


def is_bf16_gate(project: Project, module: ModuleNames, function: ast.expr) -> bool:
    """Whether an expression names such a function of torch, accelerate, transformers or Unsloth."""
    last = last_name(function)
    if not isinstance(function, ast.Name | ast.Attribute) or module.is_ambiguous(function):
        return False
    if last not in NAMES and not module.qualified(function):
        return False
    qualified = resolve(project, module, function) or ""
    root, _, _ = qualified.partition(".")
    return root in LIBRARIES and qualified.rpartition(".")[2] in NAMES
