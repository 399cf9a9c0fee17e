"""A model in training that is cast to 16 bits, to be saved or evaluated, and back: each time it is rounded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.optimized_models import models_of_optimizer
from ....codemod.model import Draft
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import receiver_of
from ....codemod.python.exits import after
from ....codemod.python.names import ModuleNames, checked_modules
from ....codemod.python.paths import function_of, loops
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP32, HALVES
from ....codemod.torch.weights import cast_dtype
from .rounded_by_evaluations import is_trained_between, stands_so


def rounded_by_saves(project: Project) -> Iterator[Draft]:
    """``model.half()``, ``torch.save(...)``, ``model.float()`` in the loop that trains the model."""
    for module in checked_modules(project, (".half(", "float16"), ("backward(",), ("optim",)):
        for cast in (call for name in ("half", "to", "bfloat16") for call in module.calls_by_name.get(name, ())):
            model, dtype = receiver_of(cast), cast_dtype(project, module, cast)
            if dtype not in HALVES or not isinstance(model, ast.Name | ast.Attribute) or not stands_so(module, cast):
                continue
            if not (_is_trained(project, module, cast) or is_trained_between(project, module, cast)):
                continue
            back = next((call for call in _below(module, cast) if _widens(project, module, call)), None)
            if back is not None and is_reached(project, module, cast):
                name = ast.unparse(model)
                saved = _is_trained(project, module, cast)
                way_out = f"cast a copy of {name}.state_dict()" if saved else "evaluate a copy, or under autocast"
                message = (
                    f"{name} is cast to {dtype.name} and back while it is trained: its weights, which the optimizer"
                    f" steps, are rounded each time, and small updates are lost; {way_out}"
                )
                yield Draft.at(module, cast, message, (module.place(back, "the rounded weights are float32 again"),))


def _below(module: ModuleNames, cast: ast.Call) -> Iterator[ast.Call]:
    """The calls of methods of the same object that stand alone further down in the same block."""
    statement, name = module.statement_of(cast), ast.unparse(receiver_of(cast) or cast)
    for item in after(module.parents[statement], statement):
        call = item.value if isinstance(item, ast.Expr) else None
        receiver = receiver_of(call) if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and receiver is not None and ast.unparse(receiver) == name:
            yield call


def _widens(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    return receiver_of(call, "float") is not None or cast_dtype(project, module, call) == FP32


def _is_trained(project: Project, module: ModuleNames, cast: ast.Call) -> bool:
    """Whether an optimizer of the function is given its parameters, and a loop around it runs the backward pass."""
    name, function = ast.unparse(receiver_of(cast) or cast), function_of(module, cast)
    passes = module.calls_inside.get((function, "backward"), ())
    if not any(not set(loops(module, cast)).isdisjoint(loops(module, each)) for each in passes):
        return False
    made = (call for call in module.calls if function_of(module, call) is function)
    models = (item for call in made for item in models_of_optimizer(module, call, project))
    return any(item is not None and ast.unparse(item) == name for item in models)
