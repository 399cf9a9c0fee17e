"""Moving averages of weights: those of libraries, classes of the project, and copies that a loop averages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.half.optimized_models import models_of
from ....codemod.python.arguments import receiver_of
from ....codemod.python.bindings import default_at, only_target, only_value
from ....codemod.python.functions import called_function, class_of
from ....codemod.python.names import ModuleNames, defaults_in, parameters_of, resolve
from ....codemod.python.scopes import Scope, is_none
from ....codemod.source.child_fields import within
from ....codemod.source.project import Project
from ..stated_numbers import Stated, largest, stated_numbers
from .averaging import Averaging, averagings_in


@dataclass(frozen=True, slots=True)
class Library:
    """A class of a library that averages weights in their dtype."""

    decay: tuple[str, ...]
    """How the argument with the decay is called."""
    default: float | None
    cast: str | None
    """The statement that makes its average float32."""


LIBRARIES = {
    "diffusers.training_utils.EMAModel": Library(("decay",), 0.9999, "{average}.to(dtype=torch.float32)"),
    "diffusers.EMAModel": Library(("decay",), 0.9999, "{average}.to(dtype=torch.float32)"),
    "timm.utils.ModelEma": Library(("decay",), 0.9999, "{average}.ema.float()"),
    "timm.utils.ModelEmaV2": Library(("decay",), 0.9999, "{average}.module.float()"),
    "ema_pytorch.EMA": Library(("beta",), 0.9999, None),
    "torch_ema.ExponentialMovingAverage": Library(("decay",), None, None),
    "torch.optim.swa_utils.AveragedModel": Library(("multi_avg_fn", "avg_fn"), None, None),
}
"""diffusers 0.42.1, timm 1.0.31, ema-pytorch 0.7.7, torch-ema 0.3, torch 2.13."""
COPIERS = ("copy.deepcopy", "deepcopy")
HALF_NAMES = ("torch.bfloat16", "torch.float16", "torch.half")
WIDENING = {"float", "float32", "double", "float64", "dtype", "master"}
"""Names in a class that may keep its average wider than the weights are."""
HALF = 0.5
DECAYS = ("decay", "ema_decay", "beta", "momentum", "ema_rate", "mu", "alpha")


@dataclass(frozen=True, slots=True, eq=False)
class Average:
    """A place that makes the average of a model's weights."""

    made: ast.Call
    statement: ast.stmt
    model: ast.expr
    decay: Stated
    keeper: str | None
    """The name that it gets."""
    is_copy: bool = False
    """Whether it is a copy of the model, which a loop of the project averages."""
    lerped: tuple[ast.expr, ...] = ()
    """What `lerp_` is given, whose dtype must be that of the average."""
    cast: str | None = None
    owner: ast.AST | None = None
    """The class of the project that makes it."""


def averages_in(project: Project, module: ModuleNames) -> Iterator[Average]:
    """Every average that is made in a file, where its decay is known."""
    for call in module.calls:
        qualified = resolve(project, module, call.func) or ""
        if qualified in LIBRARIES:
            yield from _of_library(project, module, call, LIBRARIES[qualified])
        elif qualified in COPIERS and call.args:
            yield from _of_copy(project, module, call, call.args[0])
        elif receiver_of(call, "clone") is not None:
            yield from _of_clones(project, module, call)
        else:
            owner = class_of(project, module, call.func) if call.args else None
            if owner is not None:
                yield from _of_class(project, module, call, *owner)


def _averagings(_project: Project, asked: tuple[ModuleNames, ast.AST]) -> tuple[Averaging, ...]:
    return tuple(averagings_in(*asked))


def _keeper(module: ModuleNames, call: ast.Call) -> tuple[ast.stmt, str | None]:
    statement = module.statement_of(call)
    target = only_target(statement)
    return statement, ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else None


def _averaged(module: ModuleNames, call: ast.Call) -> ast.expr | None:
    """The model that the first argument is, or whose parameters it is."""
    first = call.args[0] if call.args else None
    if first is None or isinstance(first, ast.Starred):
        return None
    found = models_of(module, first)
    return found[0] if len(found) == 1 and found[0] is not None else first


def _of_library(project: Project, module: ModuleNames, call: ast.Call, library: Library) -> Iterator[Average]:
    model = _averaged(module, call)
    decay = _decay_given(project, module, call, library)
    if model is not None and decay is not None:
        statement, keeper = _keeper(module, call)
        yield Average(call, statement, model, decay, keeper, cast=library.cast)


def _decay_given(project: Project, module: ModuleNames, call: ast.Call, library: Library) -> Stated | None:
    given = {item.arg: item.value for item in call.keywords}
    node = next((given[name] for name in library.decay if name in given), None)
    if None in given or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    if isinstance(node, ast.Call):  # get_ema_multi_avg_fn(0.999)
        node = node.args[0] if node.args and "ema" in ast.unparse(node.func) else None
    elif node is None and len(call.args) > 1 and isinstance(call.args[1], ast.Constant):
        node = call.args[1]
    if node is not None:
        return largest(stated_numbers(project, module, node, "the decay"))
    if library.default is None or len(call.args) > 1:
        return None
    return Stated(library.default, module.place(call, f"the decay is the default, {library.default:g}"))


def _of_copy(project: Project, module: ModuleNames, call: ast.Call, model: ast.expr) -> Iterator[Average]:
    """``ema = deepcopy(model)``, which a loop over both sets of parameters averages, here or in a function."""
    statement, keeper = _keeper(module, call)
    held = receiver_of(model, "state_dict")
    model = held or model
    if keeper is None or not isinstance(model, ast.Name | ast.Attribute):
        return
    is_model = held is None and not isinstance(statement.value, ast.ListComp | ast.DictComp)  # type: ignore[attr-defined]
    both = {keeper, ast.unparse(model)}
    averagings = project.memo(_averagings, (module, module.tree))
    near = [item for item in averagings if "self." in keeper or _is_seen(module, call, item.decay)]
    here = [(module, item) for item in near if both <= set(item.between)]
    decays = [(there, item.decay) for there, item in here] or _by_function(project, module, module.tree, both)
    asked = [(there, _end_of_ramp(there, decay)) for there, decay in decays]
    known = [largest(stated_numbers(project, there, decay, "the decay")) for there, decay in asked]
    slow = largest(tuple(item for each in known if each and (item := _of_average(each)).value < 1))
    if slow is not None:
        lerped = tuple(item for _, averaging in here for item in averaging.lerped) if is_model else ()
        yield Average(call, statement, model, slow, keeper, is_model, lerped)


def _is_seen(module: ModuleNames, made: ast.Call, decay: ast.expr) -> bool:
    """Whether a name of the function that makes the copy is known where the averaging stands."""
    function = module.scope_of(made).function.node
    return function is module.tree or function in module.ancestors(decay)


def _end_of_ramp(module: ModuleNames, decay: ast.expr) -> ast.expr:
    """``end`` of ``min(end, (1 + step) / (10 + step))``, to which a decay rises."""
    value = only_value(module, decay) or decay
    named = isinstance(value, ast.Call) and ast.unparse(value.func) == "min" and len(value.args) == 2
    sides = value.args if named and isinstance(value, ast.Call) else []
    rising = [item for item in sides if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Div)]
    return next(item for item in sides if item not in rising) if len(rising) == 1 else decay


def _of_average(decay: Stated) -> Stated:
    """The factor of the average: below a half it is that of the weights (``tau`` of a target network)."""
    if decay.value >= HALF:
        return decay
    place = decay.place.saying(f"the weights count for {decay.value:g} here")
    return Stated(1 - decay.value, place)


def _of_clones(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Average]:
    """``shadow = [p.detach().clone() for p in model.parameters()]``, or a dictionary of them."""
    inside = module.parents.get(call)
    if isinstance(inside, ast.ListComp | ast.DictComp) and len(inside.generators) == 1:
        found = models_of(module, inside.generators[0].iter)
        if len(found) == 1 and found[0] is not None:
            yield from _of_copy(project, module, call, found[0])


def _by_function(
    project: Project, module: ModuleNames, where: ast.AST, both: set[str]
) -> Iterator[tuple[ModuleNames, ast.expr]]:
    """The decays of functions that are given the average and the model, or their parameters."""
    last = min(both).rpartition(".")[2]
    loads = (*module.name_loads.get(last, ()), *module.attribute_loads.get(last, ()))
    above = {item for load in loads for item in module.ancestors(load)}
    for call in (
        item for item in module.calls if item in above and (where is module.tree or where in module.ancestors(item))
    ):
        # ``model`` of ``model``, ``model.module`` and ``list(model.parameters())``
        nodes = (part for item in (*call.args, *call.keywords) for part in ast.walk(item))
        given = {ast.unparse(item) for item in nodes if isinstance(item, ast.Name | ast.Attribute)}
        target = called_function(project, module, call) if both <= given else None
        if target is None:
            continue
        for averaging in project.memo(_averagings, (target.module, target.node)):
            passed = target.arguments(call).get(ast.unparse(averaging.decay))
            default = default_at(target.module, averaging.decay)
            yield (module, passed) if passed is not None else (target.module, default or averaging.decay)


# --- classes of the project -------------------------------------------------------------------------------------------


def _of_class(
    project: Project, module: ModuleNames, call: ast.Call, there: ModuleNames, owner: Scope
) -> Iterator[Average]:
    """``ema = EMA(model, 0.999)`` of a class that clones the weights as they are and averages them."""
    averages = bool(project.memo(_averagings, (there, owner.node)))
    model = _averaged(module, call)
    if model is None or not _clones_as_they_are(module, call, owner.node):
        return
    if not averages and not any(True for _ in _by_function(project, there, owner.node, {"self"})):
        return
    decay = _decay_of_class(project, module, call, owner.node)
    if decay is not None:
        statement, keeper = _keeper(module, call)
        yield Average(call, statement, model, decay, keeper, owner=owner.node)


def _clones_as_they_are(module: ModuleNames, call: ast.Call, node: ast.AST) -> bool:
    """Whether a class copies weights, and this call makes it speak of no wider dtype.

    ``new.to(kept.dtype)`` and ``x.dtype.is_floating_point`` speak of the dtype that is there, ``decay: float`` of none,
    and a ``dtype`` of ``__init__`` that is none where nobody gives it is only one where the call gives it.
    """
    nodes = within(node)
    given = {item.arg: item.value for item in call.keywords}
    maker = _maker(node)
    defaults = defaults_in(maker.args) if maker is not None else {}
    absent = {name for name, default in defaults.items() if is_none(default) and name not in given}
    halves = {str(name) for name, value in given.items() if module.qualified(value) in HALF_NAMES}
    known = (absent | halves) if len(call.args) <= 1 and None not in given else set()
    attributes = {item.attr for item in nodes if isinstance(item, ast.Attribute) and not _is_there(item)}
    passed = (part for item in nodes if isinstance(item, ast.Call) for part in item.args)
    names = {item.id for item in nodes if isinstance(item, ast.Name) and item.id != "float"} - known
    names |= {item.id for item in passed if isinstance(item, ast.Name) and item.id == "float"}
    return bool(attributes & {"clone", "deepcopy"} or "deepcopy" in names) and not (attributes | names) & WIDENING


def _is_there(node: ast.Attribute) -> bool:
    """Whether it is the dtype of a tensor, ``kept.dtype``, ``x[name].dtype``; ``self.dtype`` may be any."""
    return node.attr == "dtype" and not (isinstance(node.value, ast.Name) and node.value.id == "self")


def _maker(node: ast.AST) -> ast.FunctionDef | None:
    body = node.body if isinstance(node, ast.ClassDef) else []
    return next((item for item in body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)


def _decay_of_class(project: Project, module: ModuleNames, call: ast.Call, node: ast.AST) -> Stated | None:
    """What the call passes for the parameter of ``__init__`` that is called like a decay, or its default."""
    maker = _maker(node)
    names = [item.arg for item in parameters_of(maker)][1:] if maker is not None else []
    name = next((item for item in names if item in DECAYS), None)
    if maker is None or name is None:
        return None
    given: dict[str | None, ast.expr] = {item.arg: item.value for item in call.keywords}
    given.update(zip(names, call.args, strict=False))
    node_given = given.get(name)
    if node_given is not None:
        return largest(stated_numbers(project, module, node_given, "the decay"))
    default = defaults_in(maker.args).get(name)
    if isinstance(default, ast.Constant) and isinstance(default.value, float):
        return Stated(default.value, module.place(call, f"the decay is the default, {default.value:g}"))
    return None
