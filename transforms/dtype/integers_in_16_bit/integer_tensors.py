"""Tensors that hold integers for certain, and how large those can be."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass

from ....codemod.python.bindings import reaching
from ....codemod.python.names import ModuleNames

IDS = ("input_ids", "token_ids", "decoder_input_ids", "prompt_ids", "generated_ids", "output_ids")
"""What token ids are called, as a variable, attribute or key of a batch."""
KEEPING = ("to", "cuda", "cpu", "view", "reshape", "unsqueeze", "squeeze", "expand", "repeat", "flatten", "contiguous")
_MAX_DEPTH = 6


@dataclass(frozen=True, slots=True, eq=False)
class IntegerSource:
    """Why a tensor holds integers."""

    node: ast.expr
    largest: float
    """The largest integer it can hold; infinity where that is not known but large."""
    why: str


def integer_source(module: ModuleNames, node: ast.expr, depth: int = 0) -> IntegerSource | None:
    """The source of the integers in ``node``; None when it may hold anything else."""
    if depth > _MAX_DEPTH:
        return None
    if _called(node) in IDS:
        return IntegerSource(node, math.inf, "token ids")
    if isinstance(node, ast.Name):
        return _bound(module, node, depth)
    if not isinstance(node, ast.Call):
        return None
    if module.qualified(node.func) == "torch.randint":
        return _random(node)
    if module.qualified(node.func) == "torch.multinomial" and _names_timesteps(module, node):
        return IntegerSource(node, 999, "indices, a thousand or so different ones")
    if isinstance(node.func, ast.Attribute):
        if node.func.attr in ("long", "int") and not node.args:
            return integer_source(module, node.func.value, depth + 1)
        if node.func.attr in KEEPING and not _names_dtype(node):
            return integer_source(module, node.func.value, depth + 1)
    return None


def named_ids(module: ModuleNames, cast: ast.Call) -> IntegerSource | None:
    """``input_ids = batch[0].to(device, dtype)``: the result is called token ids."""
    parent = module.parents[cast]
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    return IntegerSource(target, math.inf, "token ids") if target is not None and _called(target) in IDS else None


def _names_timesteps(module: ModuleNames, node: ast.Call) -> bool:
    statement = module.statement_of(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any("timestep" in ast.unparse(target) for target in targets)


def _called(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    key = node.slice if isinstance(node, ast.Subscript) else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _names_dtype(node: ast.Call) -> bool:
    given = [*node.args, *(item.value for item in node.keywords)]
    return any("dtype" in (text := ast.unparse(item)) or "float" in text or "half" in text for item in given)


def _bound(module: ModuleNames, node: ast.Name, depth: int) -> IntegerSource | None:
    bindings = reaching(module, module.scope_of(node).lookup(node.id), module.statement_of(node))
    if not 0 < len(bindings) <= 4 or any(item.kind != "assign" or item.value is None for item in bindings):
        return None
    found = [integer_source(module, item.value, depth + 1) for item in bindings if item.value is not None]
    return found[0] if all(item is not None for item in found) else None


def _random(node: ast.Call) -> IntegerSource | None:
    """``torch.randint(low, high, ...)``: the end where it is written, a thousand for diffusion's timesteps."""
    if any(item.arg == "dtype" for item in node.keywords):
        return None
    high = next((item.value for item in node.keywords if item.arg == "high"), None)
    if high is None and node.args:
        pair = len(node.args) > 1 and not isinstance(node.args[1], ast.Tuple | ast.List)
        high = node.args[1] if pair else node.args[0]
    if isinstance(high, ast.Constant) and isinstance(high.value, int):
        return IntegerSource(node, high.value - 1, f"integers below {high.value}")
    named = ast.unparse(high) if high is not None else ""
    if any(word in named for word in ("num_train_timesteps", "num_timesteps", "vocab")):
        return IntegerSource(node, 999, "integers, a thousand or so different ones")
    return None
