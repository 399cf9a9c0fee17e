"""The autocast region around one place, and whether it computes in bfloat16."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.model import Place
from ...codemod.python.names import ModuleNames
from ...codemod.source.project import Project
from ...codemod.torch.autocast import Autocast, autocasts_in, dtype_scenarios, is_float32_island
from ...codemod.torch.dtypes import BF16
from .lightning_steps import lightning_precision

_LIGHTNING = ("bf16", "bf16-mixed")


@dataclass(frozen=True, slots=True)
class Bf16Region:
    """A region whose results are, or can be, bfloat16; regions are equal when they are the same one."""

    place: Place
    always: bool
    """Whether bfloat16 is the only dtype that the source names for it."""
    device: str


def bf16_region(project: Project, module: ModuleNames, node: ast.AST) -> Bf16Region | None:
    """The innermost region around ``node`` in its function, where that can compute in bfloat16."""
    innermost = next(regions_around(project, module, node), None)
    if innermost is None:
        return _lightning_step(project, module, node)
    if is_float32_island(project, innermost):
        return None
    values = {scenario.value for scenario in dtype_scenarios(project, innermost)}
    if BF16 not in values:
        return None
    document, always = innermost.module.document, values == {BF16}
    text = f"autocast {'computes' if always else 'can compute'} in bfloat16"
    return Bf16Region(Place(document.path, document.span(innermost.node), text), always, innermost.device or "cuda")


def _lightning_step(project: Project, module: ModuleNames, node: ast.AST) -> Bf16Region | None:
    """The step of a LightningModule that a Trainer runs in ``bf16-mixed``."""
    function = module.scope_of(node).function.node
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    places = lightning_precision(project, module, function, _LIGHTNING)
    return Bf16Region(places[0], False, "cuda") if places else None


def regions_around(project: Project, module: ModuleNames, node: ast.AST) -> Iterator[Autocast]:
    """The autocasts entered around ``node`` in its function or as a decorator of it, innermost first."""
    if "autocast" not in module.document.text:
        return
    made = {item.node: item for item in autocasts_in(project, module)}
    for parent in module.ancestors(node):
        if isinstance(parent, ast.With | ast.AsyncWith):
            for item in reversed(parent.items):
                yield from _entered(module, made, item.context_expr)
        elif isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (made[item] for item in parent.decorator_list if item in made)
            return


def _entered(module: ModuleNames, made: dict[ast.expr, Autocast], expression: ast.expr) -> Iterator[Autocast]:
    """The autocast itself, or the one that a name holds: ``amp = nullcontext() if ... else torch.autocast(...)``."""
    if expression in made:
        yield made[expression]
        return
    if isinstance(expression, ast.Name):
        for binding in module.scope_of(expression).lookup(expression.id):
            if binding.value is not None:
                yield from (made[node] for node in ast.walk(binding.value) if node in made)
