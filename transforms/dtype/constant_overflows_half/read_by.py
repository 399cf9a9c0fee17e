"""What happens to a value next inside its function."""

from __future__ import annotations

import ast

from ....codemod.python.exits import blocks_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import function_of, position

_PASSING = ("view", "reshape", "transpose", "permute", "contiguous", "float", "to")


def only_softmax_reads(module: ModuleNames, call: ast.Call) -> bool:
    """Whether the tensor that ``call`` masks goes into a softmax next and nowhere else.

    In place (``scores.masked_fill_(...)``), assigned to one name, or handed over directly.
    """
    parent = module.parents[call]
    if _is_softmax_of(module, call):
        return True
    target: ast.expr | None = None
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target = parent.targets[0]
    elif isinstance(parent, ast.Expr) and isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_"):
        target = call.func.value
    if not isinstance(target, ast.Name):
        return False
    reads = [node for node in module.name_loads.get(target.id, []) if _runs_after(module, node, call)]
    first = _first_overwritten(module, target.id, call)
    seen = [node for node in reads if first is None or position(node) <= first]
    return bool(seen) and all(_is_softmax_of(module, node) for node in seen)


def _runs_after(module: ModuleNames, node: ast.Name, call: ast.Call) -> bool:
    return function_of(module, node) is function_of(module, call) and position(node) > _end(module, call)


def _end(module: ModuleNames, node: ast.AST) -> tuple[int, int]:
    statement = module.statement_of(node)
    return statement.end_lineno or statement.lineno, statement.end_col_offset or 0


def _first_overwritten(module: ModuleNames, name: str, call: ast.Call) -> tuple[int, int] | None:
    """Where the name next gets a new value in the same block, which hides the masked one from what follows."""
    block = module.parents[module.statement_of(call)]
    scope = module.scope_of(call)
    ends = [
        _end(module, binding.node)
        for binding in scope.bindings.get(name, [])
        if isinstance(binding.node, ast.Assign)
        and position(binding.node) > position(call)
        and (module.parents[binding.node] is block or binding.node in _siblings_of_parents(module, call))
    ]
    return min(ends, default=None)


def _siblings_of_parents(module: ModuleNames, call: ast.Call) -> set[ast.AST]:
    """The statements of the blocks around ``call``, inside its function: they run whatever branch was taken."""
    found: set[ast.AST] = set()
    for parent in module.ancestors(call):
        found.update(item for block in blocks_of(parent) for item in block)
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            break
    return found


def _is_softmax_of(module: ModuleNames, node: ast.expr) -> bool:
    """Whether ``node`` is what a softmax is taken of, reshaping and casts between aside."""
    parent = module.parents[node]
    while isinstance(parent, ast.Attribute) and parent.attr in _PASSING:
        outer = module.parents[parent]
        if not isinstance(outer, ast.Call) or outer.func is not parent:
            return False
        node, parent = outer, module.parents[outer]
    if isinstance(parent, ast.Attribute):
        outer = module.parents[parent]
        return parent.attr == "softmax" and isinstance(outer, ast.Call) and outer.func is parent
    if not isinstance(parent, ast.Call) or not parent.args or parent.args[0] is not node:
        return False
    func = parent.func
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    return name in ("softmax", "Softmax") or (name.endswith("softmax") and not name.startswith("log"))
