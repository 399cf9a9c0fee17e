"""Steps whose result nobody keeps, on random tensors or under a profiler: what they measure, rounding leaves alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...codemod.python.names import ModuleNames

DRAWN = frozenset({"torch.randint", "torch.randn", "torch.rand", "torch.randperm"})
PLAIN = frozenset(f"torch.{name}" for name in ("zeros", "ones", "full", "arange", "empty", "tensor", "eye"))
"""What stands beside random inputs: masks and positions."""
KEEPING = ("save", "save_pretrained", "save_model", "save_file", "state_dict", "push_to_hub", "save_checkpoint")
PROFILERS = frozenset({"torch.profiler.profile", "torch.autograd.profiler.profile", "torch.cuda.profiler.profile"})
MAX_HOPS = 4
"""Names and methods between an argument and what draws it."""


def only_measures(module: ModuleNames, models: Sequence[ast.expr | None], optimizer: ast.Call) -> bool:
    """Whether nothing is saved, and each call of the models is given random tensors alone, or a profiler is open."""
    if any(name in module.calls_by_name for name in KEEPING):
        return False
    names = {ast.unparse(item) for item in models if item is not None}
    holder = module.scope_of(optimizer).function
    opened = module.calls_by_name.get("profile", [])
    if any(module.scope_of(call).function is holder and module.qualified(call.func) in PROFILERS for call in opened):
        return True
    calls = [call for call in module.calls if ast.unparse(call.func) in names]
    given = [_given(call) for call in calls if module.scope_of(call).function is holder]
    drawn = [[_is_drawn(module, item, 0) for item in each] for each in given]
    return bool(drawn) and all(True in each and None not in each for each in drawn)


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(item.value for item in call.keywords)]


def _is_drawn(module: ModuleNames, node: ast.expr, hops: int) -> bool | None:
    """True for a random tensor, False for a constant one, None for anything else."""
    if isinstance(node, ast.Constant):
        return False
    if hops > MAX_HOPS:
        return None
    found = [_is_drawn(module, item, hops + 1) if item is not None else None for item in _behind(module, node)]
    if found:
        return None if None in found else True in found
    name = (module.qualified(node.func) or "") if isinstance(node, ast.Call) else ""
    return True if name in DRAWN else False if name in PLAIN else None


def _behind(module: ModuleNames, node: ast.expr) -> Iterator[ast.expr | None]:
    """What a name, a part of a tensor, a dictionary, or a method of a tensor is taken from."""
    if isinstance(node, ast.Name):
        yield from (item.value for item in module.scope_of(node).lookup(node.id))
    elif isinstance(node, ast.Dict):
        yield from node.values
    elif isinstance(node, ast.Subscript):
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and module.qualified(node.func) is None:
        yield node.func.value
