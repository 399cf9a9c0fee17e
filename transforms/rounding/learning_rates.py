"""Learning rates beside the optimizer's own: what schedules multiply with or state, and those of groups."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

from ...codemod.half.optimized_models import listed, models_of
from ...codemod.python.arguments import argument, receiver_of
from ...codemod.python.bindings import names_given, values_at
from ...codemod.python.names import ModuleNames, attribute_chain, resolve
from ...codemod.source.project import Project

PEAKS = {"torch.optim.lr_scheduler.OneCycleLR": 1, "torch.optim.lr_scheduler.CyclicLR": 2}
"""Schedules that ignore the optimizer's rate, and where among their arguments their largest one stands."""
ARGUMENT = "max_lr"
GROUPS, RATE = "param_groups", "['lr']"
MAX_HOPS = 4
BY_FUNCTION = ("torch.optim.lr_scheduler.LambdaLR", "torch.optim.lr_scheduler.MultiplicativeLR")
"""Schedules that multiply with what a function gives, which may be more than 1."""
LIBRARIES = ("torch.optim.lr_scheduler.", "transformers.", "diffusers.optimization.")
"""Whose other schedules never go above the rate of the optimizer, or state their own peak."""


def schedules_of(module: ModuleNames, optimizer: ast.Call) -> Iterator[ast.Call]:
    """The calls of the same file that make a schedule for an optimizer."""
    names = names_given(module.statement_of(optimizer))
    for call in module.calls:
        given = [*call.args[:1], *(item.value for item in call.keywords if item.arg == "optimizer")]
        named = [item for item in given if isinstance(item, ast.Name | ast.Attribute) and ast.unparse(item) in names]
        if (
            any(not _is_another(module, item, optimizer) for item in named)
            and _makes_schedule(call)
            and _is_near(module, optimizer, call)
        ):
            yield call


def _is_another(module: ModuleNames, node: ast.expr, optimizer: ast.Call) -> bool:
    """Whether a name certainly stands for other optimizers where it is read."""
    values = values_at(module, node) if isinstance(node, ast.Name) else []
    others = [value for value in values if isinstance(value, ast.Call) and value is not optimizer]
    made = all((module.qualified(value.func) or "").startswith("torch.optim.") for value in others)
    return bool(values) and len(others) == len(values) and made


def rates_set(module: ModuleNames, optimizer: ast.Call) -> Iterator[ast.expr]:
    """What the same function or class gives the groups by hand: ``for group in optimizer.param_groups: ...``."""
    groups = {f"{name}.{GROUPS}" for name in names_given(module.statement_of(optimizer))}
    yield from (store.value for store in _set_in(module, groups) if _is_near(module, optimizer, store))


def _set_in(module: ModuleNames, groups: Container[str]) -> Iterator[ast.Assign]:
    """The statements that give these groups a rate, one after the other or by index."""
    loops = [loop for loop in module.of_type(ast.For) if ast.unparse(loop.iter) in groups]
    for store in (item for item in module.of_type(ast.Assign) if ast.unparse(item.targets[0]).endswith(RATE)):
        target = store.targets[0]
        holder = target.value if isinstance(target, ast.Subscript) else target
        around = [loop for loop in loops if loop in module.ancestors(store)]
        looped = any(ast.unparse(loop.target) == ast.unparse(holder) for loop in around)
        indexed = isinstance(holder, ast.Subscript) and ast.unparse(holder.value) in groups
        if looped or indexed:
            yield store


def _makes_schedule(call: ast.Call) -> bool:
    name = (attribute_chain(call.func) or [""])[-1]
    return "schedule" in name.lower() or name.endswith(("LR", "ReduceLROnPlateau"))


def _is_near(module: ModuleNames, optimizer: ast.expr, schedule: ast.AST) -> bool:
    """Whether both stand in one function, or in one class, where attributes are the same."""
    here, there = module.scope_of(optimizer), module.scope_of(schedule)
    owner = here.enclosing_class
    return here.function is there.function or (owner is not None and owner is there.enclosing_class)


def stated_peak(project: Project, module: ModuleNames, schedules: list[ast.Call]) -> list[ast.expr | None]:
    """The rates that cycles state in place of the optimizer's; None for one that is not seen."""
    found: list[ast.expr | None] = []
    for call in schedules:
        place = PEAKS.get(resolve(project, module, call.func) or "")
        if place is not None:
            found.append(argument(call, ARGUMENT, position=place))
    return found


def keeps_below(project: Project, module: ModuleNames, schedule: ast.Call) -> bool:
    """Whether the rate of the optimizer, or the one that a cycle states, is certainly the largest one."""
    name = resolve(project, module, schedule.func) or ""
    return name.startswith(LIBRARIES) and name not in BY_FUNCTION


def rates_of_groups(module: ModuleNames, parameters: ast.expr, model: str) -> tuple[list[ast.expr | None], bool]:
    """What each of ``[{"params": p, "lr": 1e-5}]`` says of its rate; None for the optimizer's, or without groups.

    Of the groups of ``model`` alone, where some are known to be; whether they are.
    """
    groups = list(_groups(module, parameters, 0))
    own = [rate for rate, held in groups if model in [ast.unparse(item) for item in models_of(module, held) if item]]
    return own or [rate for rate, _ in groups] or [None], bool(own)


def _groups(module: ModuleNames, node: ast.expr, hops: int) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        entries = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
        if "params" in entries:
            yield entries.get("lr"), entries["params"]
        else:
            for item in node.values:
                yield from _groups(module, item, hops)
    elif isinstance(node, ast.List | ast.Tuple):
        for item in node.elts:
            yield from _groups(module, item, hops)
    elif isinstance(node, ast.Call):
        given = {item.arg: item.value for item in node.keywords}
        if "params" in given:
            yield given.get("lr"), given["params"]
        inner = receiver_of(node, "items", "values")
        for item in node.args if inner is None else (inner,):
            yield from _groups(module, item, hops)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
        looped = node.generators[0]
        plain = ast.unparse(looped.target) == ast.unparse(node.elt)
        yield from _groups(module, looped.iter if plain else node.elt, hops)
    elif isinstance(node, ast.Name) and hops < MAX_HOPS:
        anew = [item for item in _set_in(module, (node.id,)) if _is_near(module, node, item)]
        yield from ((item.value, node) for item in anew)
        for value in listed(module, node, empty=True) if not anew else ():
            yield from _groups(module, value, hops + 1)
