"""Models that are trained in 16-bit weights although the target is mixed, or in float32 weights under ``bf16-true``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.half_weights import weights_of_optimizer
from ....codemod.half.optimized_models import models_of_optimizer
from ....codemod.model import Edit
from ....codemod.outcome import Declaration
from ....codemod.purpose.training import training_modules
from ....codemod.python.names import ModuleNames, last_name
from ....codemod.python.paths import calls_of, function_of, guards, position
from ....codemod.source.project import Project
from ....codemod.torch.api import WEIGHT_CASTS
from ....codemod.torch.autocast import Autocast, autocasts_in
from ....codemod.torch.dtypes import BF16, FP16, FP32, HALVES, TORCH_DTYPES, Dtype, as_dtype
from ....codemod.torch.weights import cast_dtype
from ....codemod.trainers.reading.followed import followed_declarations
from ....codemod.trainers.reading.trained_loads import trainer_calls
from ....codemod.trainers.writing.moves import Move
from .half_kernels import half_only_kernel
from .loaded_weights import SETTERS
from .spelling import argument_set, replaced, respelled_cast
from .training_autocasts import training_regions

WITHOUT_INPUTS = (
    *("parameters", "named_parameters", "modules", "named_modules", "children", "requires_grad_", "apply"),
    *("train", "eval", "training", "to", "cuda", "zero_grad", "state_dict", "load_state_dict"),
)
"""What a model is asked for without computing anything."""
KEPT_WIDE = "keep them in float32: a scaler cannot unscale float16 gradients, and small updates count"
OF_MEMORY = "weights and gradients take twice the memory"
WORD = {"bf16-mixed": FP16, "fp16-mixed": BF16}
"""Target -> the 16-bit dtype whose cast of a trained model belongs to the other one."""


def moves(project: Project) -> Iterator[Move]:
    """Casts of trained models that contradict the target, and those that ``bf16-true`` needs."""
    for module in training_modules(project):
        for made in _optimizers(module):
            if project.target in WORD:
                yield from _cast_weights(project, module, made, WORD[project.target])
            elif project.target == "bf16-true":
                yield from _float32_weights(project, module, made)
        dtype = WORD.get(project.target or "")
        yield from _weights_of_trainers(project, module, dtype) if dtype is not None else ()
        for made in module.calls_by_name.get("initialize", ()):
            if dtype is not None:
                yield from _engine_weights(module, made, dtype)


def _engine_weights(module: ModuleNames, made: ast.Call, dtype: Dtype) -> Iterator[Move]:
    """``model.half()`` of a model that DeepSpeed trains, which keeps weights of 16 bits beside its own in float32."""
    given = [item.value for item in made.keywords if item.arg == "model"] or made.args[1:2]
    if (module.qualified(made.func) or "") != "deepspeed.initialize" or not given:
        return
    wanted, name = FP16 if dtype == BF16 else BF16, ast.unparse(given[0])
    casts = [call for cast in WEIGHT_CASTS for call in module.calls_by_name.get(cast, ()) if not call.args]
    for call in casts:
        if not isinstance(call.func, ast.Attribute) or WEIGHT_CASTS[call.func.attr] != dtype:
            continue
        if ast.unparse(call.func.value) == name and function_of(module, call) is function_of(module, made):
            message = f"{name} is cast to {dtype.name} for an engine that computes in {wanted.name} then"
            edits = (respelled_cast(module, call, wanted),)
            place = module.place(made, "DeepSpeed gets the model here")
            path, span = module.document.path, module.document.span(call)
            yield Move(path, span, message, f"cast it to {wanted.name}", edits, (place,), "inputs may be cast like it")


def _optimizers(module: ModuleNames) -> Iterator[ast.Call]:
    for call in module.calls:
        if (module.qualified(call.func) or "").startswith("torch.optim."):
            yield call


def _cast_weights(project: Project, module: ModuleNames, made: ast.Call, dtype: Dtype) -> Iterator[Move]:
    half = weights_of_optimizer(project, module, made, dtype)
    if half is None or (isinstance(half.change.node, ast.Call) and last_name(half.change.node.func) in SETTERS):
        return  # the default dtype is moved where loaded weights are
    message = (
        f"{half.weights.name} is trained in {dtype.name} weights, which {project.target} keeps in float32: remove the "
        f"cast unless {dtype.name} weights are meant"
    )
    place = module.place(made, "the optimizer gets its parameters here")
    cast = half.change.module.place(half.change.node, message)
    edits = _kept_wide(half.change.module, half.change.node)
    yield Move(cast.path, cast.span, message, KEPT_WIDE, edits, (place,), OF_MEMORY)


def _weights_of_trainers(project: Project, module: ModuleNames, dtype: Dtype) -> Iterator[Move]:
    """``model = model.bfloat16()`` before a trainer gets the model."""
    for made, model, _, is_adapted in trainer_calls(project, module):
        name, above = ast.unparse(model), calls_of(module, function_of(module, made)) if not is_adapted else ()
        for call in (item for item in above if position(item) < position(made)):
            is_cast = _is_of(module, call, name) and cast_dtype(project, module, call) == dtype
            edits = _kept_wide(module, call) if is_cast else ()
            if edits:
                message = f"{name} is trained in {dtype.name} weights, which {project.target} keeps in float32"
                place = module.place(made, "the trainer gets the model here")
                yield Move(module.path, module.document.span(call), message, KEPT_WIDE, edits, (place,), OF_MEMORY)


def _is_of(module: ModuleNames, call: ast.Call, name: str) -> bool:
    """``model.half()`` by itself, or ``model = model.half()``."""
    statement, holder = module.statement_of(call), call.func.value if isinstance(call.func, ast.Attribute) else call
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    is_whole = isinstance(statement, ast.Assign | ast.Expr) and statement.value is call
    return is_whole and {ast.unparse(item) for item in (holder, *targets)} == {name}


def _kept_wide(module: ModuleNames, cast: ast.AST) -> tuple[Edit, ...]:
    """``model.float()`` for ``model.half()``, where no test decides about the cast."""
    if not isinstance(cast, ast.Call) or not isinstance(cast.func, ast.Attribute) or guards(module, cast):
        return ()
    if cast.func.attr in WEIGHT_CASTS and not cast.args and not cast.keywords:
        return (respelled_cast(module, cast, FP32),)
    given = [*cast.args, *(item.value for item in cast.keywords)] if cast.func.attr == "to" else []
    named = next((node for node in given if TORCH_DTYPES.get(module.qualified(node) or "") in HALVES), None)
    return replaced(module, named, FP32) if named is not None else ()


def _float32_weights(project: Project, module: ModuleNames, made: ast.Call) -> Iterator[Move]:
    """The model is cast where it is moved to its device; only where autocast makes the inputs fit."""
    models = {ast.unparse(item) if item is not None else "": item for item in models_of_optimizer(module, made)}
    model = next(iter(models.values())) if len(models) == 1 else None
    if model is None or weights_of_optimizer(project, module, made, BF16) is not None:
        return
    document = module.document
    name = ast.unparse(model)
    place = module.place(made, "the optimizer gets its parameters here")
    message = f"{name} is trained in the weights it is made with; bf16-true keeps them in bfloat16"
    setting = _setting_of_load(project, module, model)
    if setting is not None:
        message = f"{name} is trained in {FP32.name} weights, as {setting.key} says; bf16-true keeps them in bfloat16"
        message += f": set it to {BF16.name}, and cast the inputs with it"
        yield Move(setting.path, setting.span, message, evidence=(place,))
        return
    moved = [call for call in _moved(module, made, name) if not _names_dtype(call)]
    regions = [item for item in training_regions(project) if item.module is module]
    if len(moved) != 1 or not regions or half_only_kernel(project, module) is not None:
        message += ": cast it before the optimizer is created, and its inputs with it"
        yield Move(document.path, document.span(made), message)
        return
    effect = "cast it here: half the memory for weights and optimizer state, updates below 1/256 of a weight are lost"
    edits = argument_set(module, moved[0], "dtype", BF16)
    used = _used_outside(project, module, name)
    where = f"{document.path}:{used.lineno}" if used is not None else ""
    unproved = f"{where} uses {name} where no region is sure to cast its inputs" if used is not None else ""
    yield Move(document.path, document.span(moved[0]), message, effect, edits, (place,), unproved)


def _setting_of_load(project: Project, module: ModuleNames, model: ast.expr) -> Declaration | None:
    """The setting that says float32 where the model is loaded or cast: ``dtype=DTYPES[cfg.torch_dtype]``."""
    spans = [module.document.span(item.node) for item in module.bindings_of(model) if isinstance(item.node, ast.stmt)]
    rows = {row for span in spans for row in range(span.row, span.end_row + 1)}
    ends = tuple(f" ({module.document.path}:{row})" for row in rows)
    fed = (item for item in followed_declarations(project) if ends and item.feeds.endswith(ends))
    return next((item for item in fed if as_dtype(item.value.strip("'\"")) == FP32), None)


def _used_outside(project: Project, module: ModuleNames, name: str) -> ast.expr | None:
    """A use of the model that may compute, and stands in no autocast region which is always on."""
    regions = [module.statement_of(item.node) for item in autocasts_in(project, module) if _is_always_on(module, item)]
    named: list[ast.expr] = [*module.name_loads.get(name, ()), *module.attribute_loads.get(name.rpartition(".")[2], ())]
    for node in named:
        if ast.unparse(node) != name or any(region in module.ancestors(node) for region in regions):
            continue
        parent = module.parents.get(node)
        if not isinstance(parent, ast.Attribute) or parent.attr not in WITHOUT_INPUTS:
            return node
    return None


def _is_always_on(module: ModuleNames, item: Autocast) -> bool:
    statement = module.statement_of(item.node)
    given = (each.context_expr for each in statement.items) if isinstance(statement, ast.With) else ()
    return item.enabled_node is None and item.understood and item.node in given


def _moved(module: ModuleNames, made: ast.Call, name: str) -> Iterator[ast.Call]:
    """``model.to(device)`` and ``model = Net().to(device)`` before the optimizer is created."""
    for call in calls_of(module, function_of(module, made)):
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "to" or position(call) >= position(made):
            continue
        statement = module.statement_of(call)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        assigned = bool(targets) and statement.value is call and ast.unparse(targets[0]) == name  # type: ignore[attr-defined]
        alone = isinstance(statement, ast.Expr) and ast.unparse(call.func.value) == name
        if assigned or alone:
            yield call


def _names_dtype(call: ast.Call) -> bool:
    return len(call.args) != 1 or bool(call.keywords) or "float" in ast.unparse(call) or "dtype" in ast.unparse(call)
