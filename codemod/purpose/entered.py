"""Whether code runs inside an autocast region: around it in its own function, or around a call that leads to it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..model import Place
from ..python.functions import called_function
from ..python.names import FunctionNode, ModuleNames, attribute_chain, modules_with
from ..python.trace import Domain, Trace, trace
from ..source.project import Project
from ..torch.accelerators import accelerator_at
from ..torch.autocast import Autocast, autocasts_in
from ..torch.dtypes import BF16, FP16, UNKNOWN, as_dtype
from ..torch.entering_calls import sites_of
from ..torch.unscaled_steps import RegionEntry
from .files import is_test
from .lightning import step_runs
from .steps import contexts_around, may_be_autocast, may_enter_autocast

MAX_HOPS = 5
"""How many calls up a region is looked for: further away it is another program's business."""
ACCELERATED = frozenset({None, "cuda", "xpu"})
"""The devices that share CUDA's list of operations; one that is chosen at run time counts as CUDA."""


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """A way into the code under autocast."""

    region: Autocast | None
    """None for a trainer that opens the region itself."""
    places: tuple[Place, ...]
    """The region first, then the calls that lead to the code."""
    direct: bool
    """Whether the region stands in the function of the code."""


def regions_around(project: Project, module: ModuleNames, node: ast.AST) -> Iterator[Autocast]:
    """The autocasts entered around ``node`` in its function or as a decorator of it, innermost first."""
    for context in contexts_around(module, node):
        yield from trace(project, module, context, MADE)


def way_inside(project: Project, module: ModuleNames, node: ast.AST, hops: int = 0) -> Inside | None:
    """How ``node`` comes to run under autocast; None when no way is found, or an island is around it."""
    for context in contexts_around(module, node):
        regions = list(trace(project, module, context, MADE))
        opened = [item for item in regions if not item.switched_off and item.device in ACCELERATED]
        if opened:  # the others are what it is instead: `autocast(...) if amp else autocast(enabled=False)`
            return Inside(opened[0], (_place(module, opened[0].node, "the autocast region"),), True)
        if regions:
            return None
        called = context.func if isinstance(context, ast.Call) else context
        if "autocast" in (attribute_chain(called) or [""])[-1]:
            if not _is_accelerated(project, module, called):
                return None
            return Inside(None, (_place(module, context, "accelerate opens its autocast region here"),), True)
    function = module.scope_of(node).function.node
    if hops >= MAX_HOPS or not isinstance(function, FunctionNode):
        return None
    return project.memo(_way_into, (module, function, hops))


def _made_by(question: Trace[Autocast], module: ModuleNames, context: ast.expr) -> Iterable[Autocast] | None:
    """The autocasts in an expression, or around the ``yield`` of a function that it calls; None: it is followed."""
    if isinstance(context, ast.BoolOp) and isinstance(context.op, ast.And):
        return question.of(module, context.values[-1])  # contexts are true: `and` gives the last one
    nodes = set(ast.walk(context))
    found = [item for item in autocasts_in(question.project, module) if item.node in nodes]
    target = called_function(question.project, module, context) if isinstance(context, ast.Call) else None
    if not found and target is not None:
        around = _around_yields(target.module, target.node)
        found = [item for each in around for item in question.of(target.module, each)]
    elif not found and isinstance(context, ast.Call) and not (context.args or context.keywords):
        return question.of(module, context.func)  # the class, or a lambda: `amp = get_autocast("amp")`
    return found or None


MADE: Domain[Autocast] = Domain(_made_by, lambda _question, _module, _node, _why: ())
"""The autocasts that a context manager can be: made in place, held by a name, or made by a helper function, or by a
name of the class (`autocast = torch.cuda.amp.autocast if fp16 else nullcontext`)."""


def entries_of(project: Project, region: Autocast) -> Sequence[RegionEntry]:
    """Where a region is entered: in place, as a decorator, by a name, or by a function that makes no other region."""
    in_place = region.form == "with" or (region.form == "decorator" and region.call is not None)
    here = (RegionEntry(region.module, region.node),) if in_place else ()
    return (*here, *project.fact(_named_entries).get(region, ()))


def _named_entries(project: Project) -> dict[Autocast, list[RegionEntry]]:
    found: dict[Autocast, list[RegionEntry]] = {}
    for module in modules_with(project, ("backward",), ("with ",), where=may_enter_autocast):
        for item in module.of_type(ast.withitem):
            regions = trace(project, module, item.context_expr, MADE) if may_be_autocast(item.context_expr) else ()
            if len(regions) == 1 and regions[0].node is not item.context_expr:
                found.setdefault(regions[0], []).append(RegionEntry(module, item.context_expr))
    return found


def _is_accelerated(project: Project, module: ModuleNames, called: ast.expr) -> bool:
    """``accelerator.autocast()`` of an Accelerator that is asked for a 16-bit type, or lets the user choose."""
    if not isinstance(called, ast.Attribute) or called.attr != "autocast":
        return False
    found = accelerator_at(project, module, called)
    if found is None or found.text != ast.unparse(called.value):
        return False
    return bool({as_dtype(value) for value in found.values} & {BF16, FP16, UNKNOWN})


def _around_yields(module: ModuleNames, function: FunctionNode) -> Iterator[ast.expr]:
    """The contexts that a generator-based context manager is inside of while its caller's block runs."""
    for node in ast.walk(function):
        if isinstance(node, ast.Yield):
            yield from (item for item in contexts_around(module, node) if item not in function.decorator_list)


def _way_into(project: Project, asked: tuple[ModuleNames, FunctionNode, int]) -> Inside | None:
    module, function, hops = asked
    trainer = next(iter(step_runs(project, module, function)), None)
    if trainer is not None:
        return Inside(None, (trainer.place,), False)
    for other, call in sites_of(project, module, function):
        found = None if is_test(other.document.path) else way_inside(project, other, call, hops + 1)
        if found is not None:
            name = _spoken_name(module, function)
            return Inside(found.region, (*found.places, _place(other, call, f"{name} is called here")), False)
    return None


def _spoken_name(module: ModuleNames, function: FunctionNode) -> str:
    """What a call of the function names: for ``forward`` and its like the class."""
    owner = module.scopes[function].parent
    of_object = function.name in ("forward", "__call__", "__init__")
    return (
        owner.node.name if of_object and owner is not None and isinstance(owner.node, ast.ClassDef) else function.name
    )


def _place(module: ModuleNames, node: ast.AST, message: str) -> Place:
    return Place(module.document.path, module.document.span(node), message)
