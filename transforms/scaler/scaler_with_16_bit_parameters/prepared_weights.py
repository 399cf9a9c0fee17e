"""Models in float16 that accelerate steps with its GradScaler: prepared with their optimizer under ``fp16``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.stepped_weights import SteppedWeights, models_of_optimizer, weights_of_optimizer
from ....codemod.python.creations import only_call
from ....codemod.python.names import ModuleNames, names_of
from ....codemod.python.paths import position
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP16


def prepared_weights(project: Project) -> Iterator[SteppedWeights]:
    """Float16 models that go through ``Accelerator(mixed_precision="fp16").prepare`` together with their optimizer."""
    spelled = (("prepare(",), ("Accelerator(",), ('"fp16"', "'fp16'"))
    for document in project.python_documents(("mixed_precision",), *spelled):
        module = names_of(project, document)
        for call in module.calls_by_name.get("prepare", []):
            if isinstance(call.func, ast.Attribute) and _is_fp16(project, module, call.func.value):
                yield from _prepared(project, module, call)


def _is_fp16(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    made = only_call(project, module, node)
    if made is None or not (module.qualified(made.func) or "").startswith("accelerate."):
        return False
    asked = (item.value for item in made.keywords if item.arg == "mixed_precision")
    return any(isinstance(item, ast.Constant) and item.value == "fp16" for item in asked)


def _prepared(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[SteppedWeights]:
    given = {ast.unparse(argument) for argument in call.args}
    for argument in call.args:
        made = _value_before(module, argument, call)
        models = models_of_optimizer(module, made) if made is not None else []
        if made is not None and any(model is not None and ast.unparse(model) in given for model in models):
            half = weights_of_optimizer(project, module, made, FP16)
            if half is not None:
                yield half


def _value_before(module: ModuleNames, node: ast.expr, before: ast.Call) -> ast.Call | None:
    """The only value that a variable is given above ``before`` (``prepare`` rebinds it)."""
    if not isinstance(node, ast.Name):
        return None
    bindings = [item for item in module.scope_of(node).lookup(node.id) if position(item.node) < position(before)]
    bindings = [item for item in bindings if before not in set(ast.walk(item.node))]
    value = bindings[0].value if len(bindings) == 1 else None
    return value if isinstance(value, ast.Call) else None
