"""What is no tensor of a region any more: numbers, stated dtypes, variables that a test has made numbers of, sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.python.exits import blocks_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.scopes import last_name
from .readers_of_results import chain

LOSING = frozenset({
    "item", "tolist", "float", "double", "int", "long", "bool", "argmax", "argmin", "argsort", "size", "dim", "numel",
    "backward", "len", "str", "isinstance", "numpy", "no_grad", "autocast", "range", "print", "type", "keys",
})  # fmt: skip
"""Calls whose result is no floating tensor of a dtype that somebody chose before."""
LOST = frozenset({"shape", "dtype", "device", "ndim", "requires_grad"})
"""Attributes of the same kind."""
TESTS = ("isinstance", "is_tensor")
NUMBERS = ("float", "int", "bool", "str")
SIZED = frozenset({"repeat", "view", "reshape", "expand", "topk", "chunk"})
"""Methods of tensors that raise TypeError for sizes and counts that are floating tensors."""


def call_name(call: ast.Call) -> str:
    return chain(call.func).rpartition(".")[2] if not isinstance(call.func, ast.Attribute) else call.func.attr


def loses(node: ast.AST) -> bool:
    """Whether an expression gives a number, an integer tensor, or one whose dtype it states itself."""
    if isinstance(node, ast.Call):
        return call_name(node) in LOSING
    return isinstance(node, ast.Compare | ast.Constant) or (isinstance(node, ast.Attribute) and node.attr in LOST)


def is_narrowed(module: ModuleNames, node: ast.AST) -> bool:
    """Behind ``if isinstance(v, torch.Tensor): v = v.item()``, or where it is a number for certain."""
    if not isinstance(node, ast.Name):
        return False
    if is_made_a_number(module, node):
        return True
    for statement in _before(module, node):
        if isinstance(statement, ast.If) and _is_tensor(statement.test, node.id) and not statement.orelse:
            return _ends_as_number(statement.body, node.id)
        if _is_given(statement, node.id):
            return False
    return False


def is_made_a_number(module: ModuleNames, node: ast.AST) -> bool:
    """Behind an assertion that it is a number, or ``v = v > 0.5``: it is no list of tensors either."""
    if not isinstance(node, ast.Name):
        return False
    if _is_size(module, node):
        return True
    for statement in _before(module, node):
        if isinstance(statement, ast.Assert) and _is_number(statement.test, node.id):
            return True
        if _is_given(statement, node.id):
            return _ends_as_number([statement], node.id)
    return False


def _is_given(statement: ast.stmt, name: str) -> bool:
    return any(isinstance(item, ast.Name) and item.id == name and _stores(item) for item in ast.walk(statement))


def _is_size(module: ModuleNames, node: ast.Name) -> bool:
    """Whether it has been a size before, itself or in a list: ``sizes[dim] = n``, ``x = x.repeat(*sizes)``."""
    above: list[ast.stmt] = []
    for statement in _before(module, node):
        stored = (item for item in ast.walk(statement) if isinstance(item, ast.Name) and _stores(item))
        if any(item.id == node.id for item in stored):
            break
        if not hasattr(statement, "body"):  # what stands in a block may not have run
            above.append(statement)
    names = {node.id, *(name for item in above for name in _lists_with(item, node.id))}
    return any(_takes_size(module, item, names) for statement in above for item in ast.walk(statement))


def _lists_with(statement: ast.stmt, name: str) -> Iterator[str]:
    """The lists of which ``name`` becomes an item."""
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name) and statement.value.id == name:
        yield from (
            item.value.id
            for item in statement.targets
            if isinstance(item, ast.Subscript) and isinstance(item.value, ast.Name)
        )


def _takes_size(module: ModuleNames, node: ast.AST, names: set[str]) -> bool:
    """``range(n)``, and methods of tensors; functions of the same name, as in itertools, take anything."""
    if not isinstance(node, ast.Call):
        return False
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr in SIZED and not module.qualified(node.func)
    is_range = isinstance(node.func, ast.Name) and node.func.id == "range"
    given = (item.value if isinstance(item, ast.Starred) else item for item in node.args)
    return (is_method or is_range) and any(isinstance(item, ast.Name) and item.id in names for item in given)


def _before(module: ModuleNames, node: ast.AST) -> Iterator[ast.stmt]:
    """The statements above an expression that run before it whenever it is come to, the nearest first."""
    below = module.statement_of(node)
    for parent in module.ancestors(below):
        block = next((item for item in blocks_of(parent) if below in item), [])
        yield from reversed(block[: block.index(below)] if block else [])
        if not isinstance(parent, ast.stmt) or isinstance(
            parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            return
        if isinstance(parent, ast.For | ast.AsyncFor | ast.While):
            return
        below = parent


def _stores(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _is_tensor(test: ast.expr, name: str) -> bool:
    if not isinstance(test, ast.Call) or last_name(test.func) not in TESTS or not test.args:
        return False
    is_asked = isinstance(test.args[0], ast.Name) and test.args[0].id == name
    return is_asked and all(last_name(item) == "Tensor" for item in test.args[1:])


def _is_number(test: ast.expr, name: str) -> bool:
    if not isinstance(test, ast.Call) or last_name(test.func) != "isinstance" or len(test.args) != 2:
        return False
    asked, kinds = test.args
    each = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    return isinstance(asked, ast.Name) and asked.id == name and all(last_name(item) in NUMBERS for item in each)


def _ends_as_number(body: list[ast.stmt], name: str) -> bool:
    last = body[-1]
    is_given = isinstance(last, ast.Assign) and any(
        isinstance(item, ast.Name) and item.id == name for item in last.targets
    )
    return isinstance(last, ast.Assign) and is_given and loses(last.value)
