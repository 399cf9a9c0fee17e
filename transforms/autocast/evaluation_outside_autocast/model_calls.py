"""Where a file runs its models: inside autocast while it trains, and outside while it evaluates."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.purpose.steps import Entered, entered, function_scope, is_in_context, trains
from ....codemod.python.names import ModuleNames, Scope, attribute_chain
from ....codemod.source.project import Project
from ....codemod.torch.autocast import is_float32_island, is_without_gradients, training_autocasts

OTHER_PURPOSES = ("bench", "compar", "export", "onnx", "trace", "profil", "warm", "fp32", "float32", "full", "debug")
"""Parts of the names of functions that leave autocast for a reason, or measure both ways."""
METHODS = ("generate", "sample")
"""Methods that run the model itself."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelCall:
    """A call that runs a model."""

    module: ModuleNames
    call: ast.Call
    model: ast.expr
    """What names the model: ``model`` of ``model(x)`` and ``model.generate(x)``, ``self.net``."""

    @property
    def name(self) -> str:
        return ast.unparse(self.model)

    @property
    def function(self) -> Scope:
        return function_scope(self.module, self.call)


Regions = dict[ModuleNames, tuple[Entered, ...]]


def regions_of_training_files(project: Project) -> Regions:
    """The regions that are entered, float32 islands left out, of files that train inside one of them."""
    return project.fact(_regions)


def _regions(project: Project) -> Regions:
    found: Regions = {}
    for item in training_autocasts(project):
        if not is_float32_island(project, item):
            found[item.module] = (*found.get(item.module, ()), *entered(item))
    return {module: regions for module, regions in found.items() if any(map(is_training, regions))}


def is_training(region: Entered) -> bool:
    """Whether the region holds the forward pass of a training step."""
    return trains(region.autocast.module, region.context)


def calls_inside(region: Entered) -> Iterator[ModelCall]:
    """The model calls in the region's block."""
    module = region.autocast.module
    for statement in region.block.body:
        for node in ast.walk(statement):
            model = model_of(module, node) if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Call) and model is not None:
                yield ModelCall(module, node, model)


def evaluations_outside(module: ModuleNames, names: set[str]) -> Iterator[ModelCall]:
    """The calls of the models called ``names`` that evaluate, outside of anything that may be autocast."""
    for call in module.calls:
        model = model_of(module, call)
        if model is None or ast.unparse(model) not in names or not is_without_gradients(module, call):
            continue
        found = ModelCall(module, call, model)
        if not may_be_inside(module, call) and not _has_another_purpose(found):
            yield found


def model_of(module: ModuleNames, call: ast.Call) -> ast.expr | None:
    """The variable or attribute that ``call`` runs like a model; None for functions, methods and libraries."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in METHODS and attribute_chain(func.value) != ["self"]:
        func = func.value
    chain = attribute_chain(func)
    scope = module.scope_of(call)
    if chain is None or len(chain) > 2:
        return None
    if len(chain) == 1:
        kinds = {binding.kind for binding in scope.lookup(chain[0])}
        return func if kinds and kinds <= {"parameter", "assign", "unpacked", "for"} else None
    owner = scope.enclosing_class
    return func if chain[0] == "self" and owner is not None and chain[1] not in owner.bindings else None


def may_be_inside(module: ModuleNames, node: ast.AST) -> bool:
    """Whether ``node`` may run inside an autocast region: of its function, or of a caller in the file."""
    if is_in_context(module, node):
        return True
    function = function_scope(module, node).node
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(is_in_context(module, call) for call in module.calls_by_name.get(function.name, []))


def _has_another_purpose(call: ModelCall) -> bool:
    name = getattr(call.function.node, "name", "").lower()
    return any(word in name for word in OTHER_PURPOSES)
