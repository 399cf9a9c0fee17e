"""Tables of angles in float32: a product that autocast leaves alone, or positions that are made in float32."""

from __future__ import annotations

import ast

from ....codemod.model import Fix
from ....codemod.python.arguments import argument, receiver_of
from ....codemod.python.names import ModuleNames
from .angle_origins import AngleOrigin

USED_TO_IT = "weights that were trained with the old numbers may have got used to them"


def fix_of(module: ModuleNames, origin: AngleOrigin, *, certain: bool) -> Fix | None:
    """The fix for the ways into it whose end can be seen."""
    return _outer(module, origin) if not certain else _in_float32(module, origin)


def _outer(module: ModuleNames, origin: AngleOrigin) -> Fix | None:
    """``torch.einsum("i,j->ij", t, inv_freq)`` as ``torch.outer(t, inv_freq)``."""
    node = origin.node
    is_einsum = isinstance(node, ast.Call) and module.qualified(node.func) == "torch.einsum"
    if not is_einsum or not isinstance(node, ast.Call) or len(node.args) != 3 or node.keywords:
        return None
    equation = node.args[0]
    if not isinstance(equation, ast.Constant) or not _is_outer(equation.value):
        return None
    function = ast.unparse(node.func).rpartition(".")[0]
    edit = module.replace(
        node, f"{function}.outer(" if function else "torch.outer(", node.args[1], ", ", node.args[2], ")"
    )
    edits = [edit] if function else [edit, module.add_import("import torch")]
    return Fix.unsafe("outer", f"torch.outer stays in float32 under autocast; {USED_TO_IT}", *edits)


def _is_outer(equation: object) -> bool:
    text = equation.replace(" ", "") if isinstance(equation, str) else ""
    given, arrow, result = text.partition("->")
    first, comma, second = given.partition(",")
    return bool(arrow and comma) and len(first) == len(second) == 1 and first != second and result == first + second


def _in_float32(module: ModuleNames, origin: AngleOrigin) -> Fix | None:
    """``arange(n, dtype=x.dtype)`` in float32, and each sine and cosine cast to ``x.dtype``."""
    counted = origin.counted
    asked = argument(counted, "dtype") if counted is not None else None
    if counted is None or asked is None or not isinstance(asked, ast.Name | ast.Attribute):
        return None
    scope = module.scope_of(counted).function
    turned = [call for name in ("cos", "sin") for call in module.calls_by_name.get(name, [])]
    here = [call for call in turned if module.scope_of(call).function is scope]
    if not here or module.scope_of(origin.node).function is not scope:
        return None
    text = ast.unparse(asked)
    casts = [module.append(call, f".to({text})") for call in here]
    kept = [module.replace(item, inner) for item in origin.factors if (inner := _before_cast(item, text)) is not None]
    edits = [module.set_argument(counted, "dtype", "torch.float32"), module.add_import("import torch"), *kept, *casts]
    return Fix.unsafe("float32", f"positions in float32, sine and cosine cast to {text}; {USED_TO_IT}", *edits)


def _before_cast(node: ast.expr, dtype: str) -> ast.expr | None:
    """``x`` of ``x.to(dtype)``."""
    only = isinstance(node, ast.Call) and not node.keywords and [ast.unparse(item) for item in node.args] == [dtype]
    return receiver_of(node, "to") if only else None
