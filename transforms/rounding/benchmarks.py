"""Steps whose result nobody keeps, on random tensors or under a profiler: what they measure, rounding leaves alone."""

from __future__ import annotations

import ast

from ...codemod.python.names import ModuleNames

DRAWN = frozenset({"torch.randint", "torch.randn", "torch.rand", "torch.randperm"})
PROFILERS = frozenset({"torch.profiler.profile", "torch.autograd.profiler.profile"})
KEEPING = ("save", "save_pretrained", "save_model", "save_file", "state_dict", "push_to_hub", "save_checkpoint")


def only_measures(module: ModuleNames, optimizer: ast.Call) -> bool:
    """Whether a file saves nothing, and the function of the optimizer opens a profiler, or only counts steps on tensors
    that it draws itself."""
    holder = module.scope_of(optimizer).function
    called = {module.qualified(call.func) for call in module.calls if module.scope_of(call).function is holder}
    iterated = [loop.iter for loop in module.of_type(ast.For) if module.scope_of(loop).function is holder]
    counts = all(isinstance(item, ast.Call) and ast.unparse(item.func) == "range" for item in iterated)
    keeps = any(name in module.calls_by_name for name in KEEPING)
    return not keeps and bool(called & PROFILERS or (counts and called & DRAWN))
