"""The edits that compute one operation in float32: its tensors are cast before, its result is cast back."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ....codemod.model import Edit
from ....codemod.python.names import ModuleNames


def float_around(module: ModuleNames, call: ast.Call, tensors: Sequence[ast.expr], result: str) -> tuple[Edit, ...]:
    """Append ``.float()`` to each of ``tensors`` (parts of ``call``), and ``.to(result)`` to the call."""
    edits = [module.append(node, ".float()") for node in tensors]
    return (*edits, module.append(call, f".to({result})")) if result else tuple(edits)
