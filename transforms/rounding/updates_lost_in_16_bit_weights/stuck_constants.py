"""Parameters that start at a constant, a gate or a scale, from which no step of Adam reaches another 16-bit number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Place
from ....codemod.purpose.decided import has_run
from ....codemod.python.arguments import argument
from ....codemod.python.functions import class_of, lineage
from ....codemod.python.names import ModuleNames, Scope, last_name, modules_with
from ....codemod.python.numbers import number_of
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16
from ..certain_halves import owners_of
from ..grids import never_moves
from ..half_optimizers import HalfOptimizer
from ..learning_rates import rates_of_groups, rates_set
from ..stated_numbers import Stated, largest

BOUNDED = ("torch.optim.Adam", "torch.optim.AdamW")
PARAMETERS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
FEW = 4
"""Elements of a parameter of ones that is a gate: more are the weights of a norm, which pass on their input anyway."""
MAX_PARTS = 100


def stuck_constants(project: Project, item: HalfOptimizer, rates: tuple[Stated, ...]) -> Iterator[tuple[Place, float]]:
    """Where parameters are made that the optimizer never moves at these rates, and their numbers."""
    rate = largest(rates)
    groups, _ = rates_of_groups(item.module, item.parameters, "")
    varied = (
        any(groups) or "betas" in {*item.given, *item.uncertain} or any(True for _ in rates_set(item.module, item.call))
    )
    if (
        rate is None
        or varied
        or item.weights.dtype != BF16
        or item.weights.adapted
        or not set(BOUNDED) & set(item.row.names)
    ):
        return
    parts = dict.fromkeys(part for owner in owners_of(project, item) for part in _parts(project, owner))
    if any("load_state_dict" in module.attribute_loads for module in (item.module, *(part[0] for part in parts))):
        return
    for module, scope in parts:
        for name, init in _parameters(module, scope):
            start = _constant(project, module, init)
            stuck = start is not None and never_moves(start, rate.value, item.weights.dtype)
            stuck = stuck and has_run(project, module, init, item.weights.decided)
            if start is not None and stuck and not _is_set_anew(project, name):
                yield module.place(init, f"{name} starts at {start:g} here"), start


def _parts(
    project: Project, owner: tuple[ModuleNames, Scope], above: tuple[Scope, ...] = ()
) -> Iterator[tuple[ModuleNames, Scope]]:
    """A class, its bases, and those of which its constructor makes objects."""
    for module, scope in lineage(project, *owner):
        if scope in above or len(above) > MAX_PARTS:
            continue
        yield module, scope
        for call in (item for item in _constructor(scope) if isinstance(item, ast.Call)):
            part = class_of(project, module, call.func)
            if part is not None:
                yield from _parts(project, part, (*above, scope))


def _constructor(scope: Scope) -> Iterator[ast.AST]:
    for item in getattr(scope.node, "body", ()):
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            yield from ast.walk(item)


def _parameters(module: ModuleNames, scope: Scope) -> Iterator[tuple[str, ast.expr]]:
    """``self.gate = nn.Parameter(...)``: the name, and what it starts as."""
    for store in (item for item in _constructor(scope) if isinstance(item, ast.Assign)):
        target, call = store.targets[0], store.value
        given = call.args if isinstance(call, ast.Call) and module.qualified(call.func) in PARAMETERS else []
        if isinstance(target, ast.Attribute) and len(given) == 1 and not getattr(call, "keywords", ()):
            yield target.attr, given[0]


def _constant(project: Project, module: ModuleNames, node: ast.expr) -> float | None:
    """The one number that all of ``torch.full((1,), -4.0)``, ``torch.tensor(2.0)`` or ``torch.ones(1)`` is."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        factors = [
            _constant(project, module, item) or number_of(project, module, item) for item in (node.left, node.right)
        ]
        return factors[0] * factors[1] if factors[0] is not None and factors[1] is not None else None
    name = module.qualified(node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or not node.args:
        return None
    if name == "torch.ones":
        return 1.0 if _is_small(project, module, node.args) else None
    value = argument(node, "fill_value", position=1) if name == "torch.full" else None
    if name == "torch.tensor":
        value = (
            node.args[0].elts[0] if isinstance(node.args[0], ast.List) and len(node.args[0].elts) == 1 else node.args[0]
        )
    start = number_of(project, module, value) if value is not None else None
    return (
        start if name == "torch.tensor" or abs(start or 0) != 1 or _is_small(project, module, node.args[:1]) else None
    )


def _is_small(project: Project, module: ModuleNames, sizes: list[ast.expr]) -> bool:
    """Whether a shape is that of a gate."""
    inner = [each for item in sizes for each in (item.elts if isinstance(item, ast.Tuple | ast.List) else [item])]
    known, count = [number_of(project, module, item) for item in inner], 1.0
    for size in known:
        count *= size if size is not None else FEW + 1
    return count <= FEW


def _is_set_anew(project: Project, name: str) -> bool:
    """Whether something writes into a parameter of this name: ``nn.init.zeros_(self.gate)``, ``self.gate.data = x``."""
    for module in modules_with(project, (name,)):
        if len(module.attribute_stores.get(name, ())) > 1:
            return True
        for load in module.attribute_loads.get(name, ()):
            above = module.parents.get(load)
            changed = isinstance(above, ast.Attribute) and (above.attr == "data" or above.attr.endswith("_"))
            if changed or (isinstance(above, ast.Call) and last_name(above.func).endswith("_")):
                return True
        if any(_initializes_all(module, loop) for loop in module.of_type(ast.For)):
            return True
    return False


def _initializes_all(module: ModuleNames, loop: ast.For) -> bool:
    """``for p in self.parameters(): nn.init.normal_(p)``."""
    calls = [item for item in ast.walk(loop) if isinstance(item, ast.Call)]
    return "parameters()" in ast.unparse(loop.iter) and any(last_name(item.func).endswith("_") for item in calls)
