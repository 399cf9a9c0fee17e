"""How a module spells a torch dtype, and what has to be imported for it."""

from __future__ import annotations

import ast

from ....codemod.model import Edit
from ....codemod.python.names import ModuleNames
from ....codemod.torch.dtypes import Dtype


def name_of_torch(module: ModuleNames) -> str | None:
    """The name that ``import torch`` has at module level, whatever it is called."""
    for name, bindings in module.module_scope.bindings.items():
        if all(item.kind == "import" and item.qualified == "torch" for item in bindings):
            return name
    return None


def spelled(module: ModuleNames, dtype: Dtype) -> tuple[str, tuple[Edit, ...]]:
    """``torch.bfloat16`` as ``module`` would write it, and the import that needs."""
    name = name_of_torch(module)
    if name is not None:
        return f"{name}.{dtype.name}", ()
    return f"torch.{dtype.name}", (module.add_import("import torch"),)


def replaced(module: ModuleNames, node: ast.expr, dtype: Dtype) -> tuple[Edit, ...]:
    """The edits that put ``dtype`` where the expression ``node`` stands."""
    text, imports = spelled(module, dtype)
    return (_edit(module, module.replace(node, text)), *imports)


def argument_set(module: ModuleNames, call: ast.Call, name: str, dtype: Dtype) -> tuple[Edit, ...]:
    """The edits that give ``call`` the keyword ``name`` with ``dtype``."""
    text, imports = spelled(module, dtype)
    return (_edit(module, module.set_argument(call, name, text)), *imports)


def _edit(module: ModuleNames, operation: Edit) -> Edit:
    return operation
