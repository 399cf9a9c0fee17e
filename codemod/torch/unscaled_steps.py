"""Training steps whose loss is made in an autocast region, and what else may scale that loss."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ..python.arguments import receiver_of
from ..python.creations import creations_of
from ..python.functions import FunctionTarget, called_function, class_of, class_of_object, method_of
from ..python.names import FunctionNode, ModuleNames, attribute_chain, modules_with
from ..python.paths import exclusive, function_of, position
from ..source.facts import memo
from ..source.project import Project
from .autocast import Autocast
from .entering_calls import sites_of
from .hand_scaling import multiplied
from .made_with_gradients import GradientsMade, differentiated, made_of
from .scaler import Scaler
from .scalers import scalers
from .steps_beside import is_optimizer_step, steps_beside

SCALING_WORDS = (
    "scaler",
    "loss_scal",
    "lossscal",
    "scale_loss",
    "scaled_loss",
    "scale_factor_loss",
    "accelerat",
    "fabric",
    "deepspeed",
    "lightning",
    "apex",
    "colossal",
    "megatron",
    "msamp",
)
"""Parts of identifiers that say: somebody else may scale the loss."""
CLASS = "GradScaler"
OTHER_SCALERS = frozenset({"standardscaler", "minmaxscaler", "robustscaler", "maxabsscaler"})
"""Scalers of data, not of gradients."""


ASKS_FOR_SCALING = ("fp16-mixed", "portable")
"""Targets whose training steps need a scaler."""
MAX_TAKERS = 20
"""How many later calls that are passed a loss are looked at."""
MAX_HOPS = 2
"""Functions on the way up that give back what they make of a loss."""


@dataclass(frozen=True, slots=True)
class RegionEntry:
    """A ``with`` that enters a region: what stands behind the word; or a decorator, which enters it for a function."""

    module: ModuleNames
    node: ast.expr

    @property
    def function(self) -> ast.AST:
        """The function whose code runs in the region."""
        decorated = self.module.parents[self.node]
        return decorated if isinstance(decorated, FunctionNode) else function_of(self.module, self.node)

    @property
    def block(self) -> ast.stmt:
        """What runs in the region."""
        decorated = self.module.parents[self.node]
        return decorated if isinstance(decorated, FunctionNode) else self.module.statement_of(self.node)


@dataclass(frozen=True, slots=True, eq=False)
class LossStep:
    """A float16 region, the backward of its loss, and the optimizer's steps in the same function."""

    module: ModuleNames
    function: ast.AST
    region: Autocast
    backward: ast.Call
    steps: tuple[ast.Call, ...]


def training_step(project: Project, region: Autocast, entry: RegionEntry | None = None) -> LossStep | None:
    """The ``backward`` of a loss made in the region, or behind it of what it makes, and the ``step`` after it: in the
    function that enters the region (where it is made, if no entry is given), in one that it passes the loss to, or in
    one that it returns the loss to."""
    entry = entry or RegionEntry(region.module, region.node)
    module, function, block = entry.module, entry.function, entry.block
    made = made_of(project, module, function, block)
    start = block.body[0] if isinstance(block, FunctionNode) else block
    here = _step_with(project, region, module, start, made) or _step_of_callee(project, region, module, start, made)
    return here or _step_of_caller(project, region, entry, made)


def plain_steps(project: Project, module: ModuleNames) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The backward passes of a file whose loss nothing scales, each with the optimizer's step in its function."""
    for call in module.calls_by_name.get("backward", ()) if not scales_somehow(project, module) else ():
        function, loss = function_of(module, call), _loss_of(call)
        if not isinstance(loss, ast.Name) or call.args or loss.id in project.memo(multiplied, function):
            continue
        steps = _steps_of(project, module, call)
        if steps:
            yield call, steps[0]


def accelerated_step(region: Autocast, accelerator: str) -> LossStep | None:
    """The same where ``accelerator.backward(loss)`` is called, in the region or below it."""
    module, function = region.module, function_of(region.module, region.node)
    block = module.statement_of(region.node)
    made = stored_in(block)
    backwards = module.calls_inside.get((function, "backward"), [])
    for call in backwards[bisect_left(backwards, position(block), key=position) :]:
        loss = call.args[0] if len(call.args) == 1 else None
        if isinstance(loss, ast.Name) and loss.id in made and ast.unparse(call.func) == f"{accelerator}.backward":
            steps = tuple(item for item in module.calls_inside.get((function, "step"), []) if is_optimizer_step(item))
            return LossStep(module, function, region, call, steps) if steps else None
    return None


def stored_in(statement: ast.stmt) -> set[str]:
    """The variables that a statement gives values."""
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _step_with(
    project: Project, region: Autocast, module: ModuleNames, made_at: ast.stmt, made: GradientsMade
) -> LossStep | None:
    """The ``backward`` of one of the values that ``made_at`` makes, and the ``step`` after it, in its function."""
    function = function_of(module, made_at)
    backwards = module.calls_inside.get((function, "backward"), [])
    for call in backwards[bisect_left(backwards, position(made_at), key=position) :]:
        if not isinstance(call.func, ast.Attribute):
            continue
        loss = _loss_of(call)
        is_scaled = ast.unparse(loss) in project.memo(multiplied, function)
        is_other = is_scaled or exclusive(module, call, made_at) or not made.holds(module, loss)
        steps = () if is_other else _steps_of(project, module, call)
        if steps:
            return LossStep(module, function, region, call, steps)
    return None


def _step_of_callee(
    project: Project, region: Autocast, module: ModuleNames, made_at: ast.stmt, made: GradientsMade
) -> LossStep | None:
    """``step(loss, optimizer)``: pass and step of a function, or an object's ``__call__``, that is given what
    ``made_at`` makes."""
    function = function_of(module, made_at)
    takers = project.memo(_takers, module)
    listed = (takers.get((function, name), []) for name in sorted(made.names))
    later = (item for each in listed for item in each[bisect_left(each, position(made_at), key=_place) :][:MAX_TAKERS])
    for call, argument in later:
        if exclusive(module, call, made_at) or not made.holds(module, argument):
            continue
        found = _step_taken(project, region, module, call, argument)
        if found is not None and argument.id not in project.memo(multiplied, function):
            return found
    return None


def _step_taken(
    project: Project, region: Autocast, module: ModuleNames, call: ast.Call, argument: ast.expr
) -> LossStep | None:
    """The pass of a function that is given a loss, and the step in it or in another method of its object."""
    target = called_function(project, module, call) or _called_object(project, module, call)
    name = target.parameter_for(call, argument) if target is not None else None
    if target is None or name is None or scales_somehow(project, target.module):
        return None
    for backward in target.module.calls_inside.get((target.node, "backward"), ()):
        is_it = ast.unparse(_loss_of(backward)) == name and name not in project.memo(multiplied, target.node)
        if is_it and not backward.args:
            beside = (step for _, step in steps_beside(project, module, call, target))
            others = (step for step in beside if not _is_own_optimizer(project, target.module, step))
            steps = _steps_of(project, target.module, backward) or tuple(others)
            if steps:
                return LossStep(target.module, target.node, region, backward, steps)
    return None


def _takers(_: Project, module: ModuleNames) -> dict[tuple[ast.AST, str], list[tuple[ast.Call, ast.Name]]]:
    """Where variables are passed on, by function and variable, from the top down."""
    found: dict[tuple[ast.AST, str], list[tuple[ast.Call, ast.Name]]] = {}
    for call in module.calls:
        for item in (*call.args, *(each.value for each in call.keywords)):
            if isinstance(item, ast.Name):
                found.setdefault((function_of(module, call), item.id), []).append((call, item))
    for each in found.values():
        each.sort(key=_place)
    return found


def _place(taken: tuple[ast.Call, ast.Name]) -> tuple[int, int]:
    return position(taken[0])


def _called_object(project: Project, module: ModuleNames, call: ast.Call) -> FunctionTarget | None:
    """The ``__call__`` of the project's class of which the called object is."""
    chain = attribute_chain(call.func)
    found = class_of_object(project, module, call.func, chain) if chain is not None else None
    return method_of(project, *found, "__call__") if found is not None else None


def _steps_of(project: Project, module: ModuleNames, backward: ast.Call) -> tuple[ast.Call, ...]:
    """The steps of optimizers in the function of a backward pass, where none is the project's own."""
    called = module.calls_inside.get((function_of(module, backward), "step"), [])
    steps = tuple(item for item in called if is_optimizer_step(item) and not exclusive(module, item, backward))
    return () if any(_is_own_optimizer(project, module, item) for item in steps) else steps


def _step_of_caller(project: Project, region: Autocast, entry: RegionEntry, made: GradientsMade) -> LossStep | None:
    """``loss = criterion(model(x), y)``, then ``loss.backward()``, where ``forward`` returns what the region makes."""
    function = entry.function
    if not isinstance(function, FunctionNode) or not _returns_one_of(project, entry, function, made.names):
        return None
    for module, call in _flowing(project, entry.module, function, MAX_HOPS):
        statement = module.statement_of(call)
        behind = made_of(project, module, function_of(module, call), statement)
        made_here = (project, region, module, statement, behind)
        found = _step_with(*made_here) or _step_of_callee(*made_here)
        if found is not None:
            return found
    return _step_of_taker(project, region, entry, function)


def _step_of_taker(project: Project, region: Autocast, entry: RegionEntry, function: FunctionNode) -> LossStep | None:
    """``stepper.backward(loss_of(batch).mean())``: what the function returns is passed on where it is called."""
    for module, call in sites_of(project, entry.module, function):
        above = {item: None for item in module.ancestors(call) if isinstance(item, ast.Call)}
        for taker in above if not scales_somehow(project, module) else ():
            for given in (*taker.args, *(item.value for item in taker.keywords)):
                plain = call in differentiated(given) and not project.memo(multiplied, given)
                found = _step_taken(project, region, module, taker, given) if plain else None
                if found is not None:
                    return found
    return None


def _flowing(
    project: Project, module: ModuleNames, function: FunctionNode, hops: int
) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The calls of a function that gradients flow back to; ``return criterion(self(x), y)`` leads to its callers."""
    for other, call in sites_of(project, module, function):
        statement, outer = other.statement_of(call), function_of(other, call)
        value = statement.value if isinstance(statement, ast.Assign | ast.Return) else None
        if value is None or call not in differentiated(value) or scales_somehow(project, other):
            continue
        if isinstance(statement, ast.Assign):
            yield other, call
        if hops and isinstance(outer, FunctionNode) and _returns_it(project, other, outer, statement):
            yield from _flowing(project, other, outer, hops - 1)


def _returns_it(project: Project, module: ModuleNames, function: FunctionNode, statement: ast.stmt) -> bool:
    """Whether each return of a function gives back what a statement makes, not scaled by hand."""
    made = made_of(project, module, function, statement).names
    returned = [item for item in module.returns_of(function) if item.value is not None]
    return not project.memo(multiplied, function) and all(
        item is statement or any(isinstance(each, ast.Name) and each.id in made for each in differentiated(item.value))
        for item in returned
        if item.value is not None
    )


def _returns_one_of(project: Project, entry: RegionEntry, function: FunctionNode, made: Collection[str]) -> bool:
    """Whether all that a function returns is one of these variables, not scaled by hand, or made in the region."""
    module, block = entry.module, entry.block
    returned = [item for item in module.returns_of(function) if item.value is not None]
    plain = set(made) - project.memo(multiplied, function)
    return bool(returned) and all(
        (isinstance(item.value, ast.Name) and item.value.id in plain) or block in module.ancestors(item)
        for item in returned
    )


def _loss_of(call: ast.Call) -> ast.expr:
    """``loss`` of ``(loss / 4).backward()`` and ``losses[0].backward()``."""
    receiver = receiver_of(call) or call.func
    if isinstance(receiver, ast.BinOp) and isinstance(receiver.op, ast.Div):
        receiver = receiver.left
    if isinstance(receiver, ast.Subscript) and isinstance(receiver.slice, ast.Constant):
        receiver = receiver.value  # one of several losses
    return receiver


def _is_own_optimizer(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether the optimizer is, or may be, an object of the project that scales by itself."""
    made = creations_of(project, module, receiver_of(call) or call.func)
    if not made:
        return bool(scalers(project))
    own = [found[0] for item in made if (found := class_of(project, item.module, item.call.func)) is not None]
    return any(scales_somehow(project, item) for item in own) if project.target in ASKS_FOR_SCALING else bool(own)


@memo
def scales_somehow(project: Project, module: ModuleNames) -> bool:
    """Whether the code names something that may scale a loss."""
    named = module.identifiers - OTHER_SCALERS - _only_of_torch(module) - _only_bound(project, module)
    return any(word in name for name in named for word in SCALING_WORDS)


def names_scaling(code: ast.AST) -> bool:
    """The same of a piece of code."""
    names = {item.id for item in ast.walk(code) if isinstance(item, ast.Name)}
    names |= {item.attr for item in ast.walk(code) if isinstance(item, ast.Attribute)}
    return any(word in name.lower() for name in names for word in SCALING_WORDS)


def idle_scalers(project: Project, module: ModuleNames) -> list[Scaler]:
    """The scalers made in a module with which nothing scales, steps or updates, though they may be passed and saved."""
    return [scaler for scaler in scalers(project) if scaler.module is module and not scaler.is_used]


def _only_bound(project: Project, module: ModuleNames) -> frozenset[str]:
    """What binds a name that nothing but idle scalers reads; ``GradScaler`` where it makes only these."""
    idle = [scaler for scaler in scalers(project) if not scaler.is_used]
    made = {scaler.call.func for scaler in idle}
    uses = {use.node for scaler in idle for use in scaler.uses}
    classes = [*module.name_loads.get(CLASS, ()), *module.attribute_loads.get(CLASS, ())]
    bound = {item.arg for item in module.of_type(ast.arg)} | {item.id for item in module.of_type(ast.Name)}
    stored = {name for name in module.attribute_stores if any(word in name.lower() for word in SCALING_WORDS)}
    loads = {name: [*module.name_loads.get(name, ()), *module.attribute_loads.get(name, ())] for name in bound | stored}
    for name in stored:
        for other in modules_with(project, (name,)):
            loads[name] += other.attribute_loads.get(name, ())
    unread = {name for name, found in loads.items() if uses.issuperset(found)}
    unused = {CLASS} if all(item in made for item in classes) else set()
    return frozenset(map(str.lower, unread | unused))


def _only_of_torch(module: ModuleNames) -> frozenset[str]:
    """Words of ``torch.accelerator``, torch's name for its devices, that name nothing else in the file."""
    chains = [item for item in module.of_type(ast.Attribute) if "accelerator" in item.attr]
    of_torch = {item for item in chains if (module.qualified(item) or "").startswith("torch.accelerator")}
    others = {item.attr for item in chains if item not in of_torch}
    others.update(item.id for item in module.of_type(ast.Name))
    others.update(item.arg for item in module.of_type(ast.arg))
    return frozenset(item.attr for item in of_torch) - others
