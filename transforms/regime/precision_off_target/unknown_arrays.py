"""Arrays of what an autocast region computes, where nobody can tell that it is no bfloat16: NumPy lacks the type."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ....codemod.flow.encounters import applications
from ....codemod.flow.lattice import Kind, Value
from ....codemod.half.integer_words import speaks_of_integers
from ....codemod.model import Place
from ....codemod.purpose.files import is_test
from ....codemod.python.paths import function_of
from ....codemod.python.reach import reached
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast

COLLECTING = ("append", "extend", "add", "update")
"""Methods with which a list, a set or a meter takes what it is given."""
CONVERTING = ("numpy", "asarray", "array")
PASSES = 3
"""How often the statements of a function are read for what their values are computed from."""


def array_of_unknown(project: Project, region: Autocast) -> Place | None:
    """A ``x.numpy()`` in what a region runs, or behind it in its function, of a tensor whose dtype is not known."""
    return project.memo(_array, region)


def _array(project: Project, region: Autocast) -> Place | None:
    inside = {
        call: module
        for part, module in reached(project, [(region.module, node) for node in _body(region)]).parts.items()
        for call in _conversions(part)
    }
    calls = {*inside, *_behind(region)}
    if not calls:
        return None
    for item in applications(project, CONVERTING, lambda module, call: call in calls and not is_test(module.path)):
        func, receiver, value = item.node.func, next(iter(item.node.args), None), None
        if isinstance(func, ast.Attribute) and func.attr == "numpy":
            receiver, value = func.value, item.receiver
        else:
            value = next((given for node, given in item.arguments if node is receiver), None)
        if receiver is not None and _is_unknown(value) and not speaks_of_integers(receiver):
            return item.module.place(item.node, f"{ast.unparse(receiver)} may then be bfloat16, which NumPy lacks")
    return None


def _body(region: Autocast) -> list[ast.stmt]:
    block = region.module.statement_of(region.node)
    return block.body if isinstance(block, ast.With | ast.AsyncWith) else []


def _conversions(part: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(part):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CONVERTING:
            yield node


def _is_unknown(value: Value | None) -> bool:
    if value is None or value.kind is Kind.UNKNOWN:
        return True
    return value.kind is Kind.TENSOR and (not value.atoms or any(atom.dtype is None for atom in value.atoms))


def _behind(region: Autocast) -> Iterator[ast.Call]:
    """The conversions in a region's function of what is computed, directly or not, from what the region computes."""
    function = function_of(region.module, region.node)
    names = {name for node in _body(region) for name in _given(node)}
    for _ in range(PASSES):
        names |= {name for node in ast.walk(function) if _reads(node, names) for name in _given(node)}
    for call in _conversions(function) if names else ():
        if names & _names(call):
            yield call


def _given(node: ast.AST) -> Iterator[str]:
    """The variables that a statement gives something to: by assignment, as a loop's, by ``seen.append(x)``."""
    for inner in (
        ast.walk(node) if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.With) else ()
    ):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        called = inner.func if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) else None
        if called is not None and called.attr in COLLECTING and isinstance(called.value, ast.Name):
            yield called.value.id


def _reads(node: ast.AST, names: Iterable[str]) -> bool:
    return isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr) and not _names(node).isdisjoint(
        names
    )


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)}
