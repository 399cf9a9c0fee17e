"""Upper bounds below one that a 16-bit type rounds to one: ``p.clamp(1e-7, 1 - 1e-7)`` before ``log(1 - p)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.half_here import half_here
from ....codemod.model import Draft
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.names import ModuleNames
from ....codemod.python.numbers import number_of
from ....codemod.python.paths import position
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP16

ROUNDS_TO_ONE = {FP16: 2.0**-12, BF16: 2.0**-9}
"""How far below one a number may be and still become one (measured with PyTorch 2.13)."""
ONE_IN_FLOAT32 = 2.0**-25
"""What is nearer to one than this is one in float32 as well: then 16 bits are not what breaks."""
BREAKS_AT_ZERO = ("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal")
"""What breaks where ``1 - p`` is zero."""
ENDS = {"logit": "logit", "atanh": "atanh", "arctanh": "atanh", "acos": "acos", "arccos": "acos", "asin": "asin"}
"""What breaks, or whose gradient does, where ``p`` is one."""
ROOTS = ("sqrt", "acos", "asin")
"""Of these only the gradient breaks."""


def bounds_near_one(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """Upper bounds of clamps that protect nothing of what is computed with their result."""
    for name, index in (("clamp", 2), ("clip", 2), ("clamp_max", 1)):
        for call in module.calls_by_name.get(name, []):
            found = _bounded(project, module, call, index)
            use = next(_uses(module, call), None) if found is not None else None
            if found is None or use is None:
                continue
            tensor, bound, gap = found
            half = half_here(project, module, tensor)
            dtypes = sorted(item.name for item in half.dtypes if gap <= ROUNDS_TO_ONE[item]) if half else []
            if half is not None and half.reached and dtypes and is_reached(project, module, call):
                named = " and ".join(dtypes)
                what = f"{module.source(bound)} is one in {named}: {use} is not protected {half.when(named)}"
                yield Draft.at(module, bound, what.rstrip(), half.why)


def _bounded(
    project: Project, module: ModuleNames, call: ast.Call, index: int
) -> tuple[ast.expr, ast.expr, float] | None:
    """The tensor, the bound, and how far below one it is."""
    if not isinstance(call.func, ast.Attribute):
        return None
    method = module.qualified(call.func) is None
    arguments = [call.func.value, *call.args] if method else list(call.args)
    named = next((item.value for item in call.keywords if item.arg == "max"), None)
    bound = named if named is not None else arguments[index] if len(arguments) > index else None
    value = number_of(project, module, bound) if arguments and bound is not None else None
    if value is None or bound is None or not ONE_IN_FLOAT32 < 1 - value <= max(ROUNDS_TO_ONE.values()):
        return None
    return arguments[0], bound, 1 - value


def _uses(module: ModuleNames, call: ast.Call) -> Iterator[str]:
    for node in (call, *_later(module, call)):
        parent = module.parents[node]
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
            if _called(module, parent) == "log1p":
                yield "log1p"
        elif isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Sub) and parent.right is node:
            above = module.parents[parent]
            if not isinstance(parent.left, ast.Constant) or parent.left.value != 1:
                continue
            if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Div) and above.right is parent:
                yield "the division"
            elif _called(module, parent) in BREAKS_AT_ZERO:
                yield _named(_called(module, parent))
        elif _called(module, node) in ENDS:
            yield _named(ENDS[_called(module, node)])


def _named(name: str) -> str:
    return f"the gradient of {name}" if name in ROOTS else name


def _later(module: ModuleNames, call: ast.Call) -> Iterator[ast.expr]:
    """The reads of the name that is bound to the clamp and to nothing else."""
    statement = module.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is call else None
    if isinstance(target, ast.Name):
        for node in module.name_loads.get(target.id, ()):
            bindings = module.scope_of(node).lookup(target.id)
            before = [item for item in bindings if position(item.node) < position(node)]
            if before and max(before, key=lambda item: position(item.node)).value is call:
                yield node


def _called(module: ModuleNames, node: ast.expr) -> str:
    """The function that takes ``node`` first, or the method of it that is called."""
    parent = module.parents[node]
    call = module.parents[parent] if isinstance(parent, ast.Attribute) and parent.value is node else parent
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    return call.func.attr if call.func is parent or call.args[:1] == [node] else ""
