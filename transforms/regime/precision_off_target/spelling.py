"""How a module spells a torch dtype, and what has to be imported for it."""

from __future__ import annotations

import ast

from ....codemod.model import Edit
from ....codemod.python.names import ModuleNames
from ....codemod.torch.dtypes import BF16, FP16, FP32, Dtype
from ....codemod.torch.imported import torch_for

CASTS = {FP16: "half", BF16: "bfloat16", FP32: "float"}


def respelled_cast(module: ModuleNames, call: ast.Call, dtype: Dtype) -> Edit:
    """The edit that makes ``x.half()`` the cast to another dtype."""
    assert isinstance(call.func, ast.Attribute)
    return module.replace(call.func, call.func.value, f".{CASTS[dtype]}")


def replaced(module: ModuleNames, node: ast.expr, dtype: Dtype) -> tuple[Edit, ...]:
    """The edits that put ``dtype`` where the expression ``node`` stands; none where torch cannot be named there."""
    torch = torch_for(module, node)
    return (module.replace(node, f"{torch[0]}.{dtype.name}"), *torch[1]) if torch is not None else ()


def argument_set(module: ModuleNames, call: ast.Call, name: str, dtype: Dtype) -> tuple[Edit, ...]:
    """The edits that give ``call`` the keyword ``name`` with ``dtype``; none where torch cannot be named there."""
    torch = torch_for(module, call)
    return (module.set_argument(call, name, f"{torch[0]}.{dtype.name}"), *torch[1]) if torch is not None else ()
