"""Models of Lightning in float16 whose trainers are all asked for ``16-mixed``: Lightning unscales before each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.half_weights import SteppedWeights, half_weights, weights_of_optimizer
from ....codemod.half.lightning_weights import CONFIGURING, MODULES
from ....codemod.half.optimized_models import models_of_optimizer
from ....codemod.model import Place
from ....codemod.purpose.files import is_test
from ....codemod.python.functions import all_bases
from ....codemod.python.names import FunctionNode, ModuleNames, Scope, attribute_chain, modules_with
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP16
from ....codemod.trainers.reading.trained_loads import FROZEN, mentions
from ..lightning_precision import float16_of_lightning

TRAINING = ("training_step", "forward")
"""Methods of which Lightning takes gradients."""


def lightning_weights(project: Project) -> Iterator[tuple[SteppedWeights, Place]]:
    """What the optimizers of such models are given in float16, and what says ``16-mixed``."""
    modules = modules_with(project, (CONFIGURING,), (".half(", "float16"))
    stated = project.fact(float16_of_lightning) if modules else None
    for module in modules if stated is not None else ():
        for call in module.calls if not is_test(module.path) else ():
            half = _stepped(project, module, call) if _configures(project, module, call) else None
            if half is not None and stated is not None:
                yield half, stated.saying("float16 is chosen here: Lightning scales the loss")


def _stepped(project: Project, module: ModuleNames, call: ast.Call) -> SteppedWeights | None:
    """The float16 weights that an optimizer is given: of a part, or with ``self.parameters()`` of any part of it."""
    half = weights_of_optimizer(project, module, call, FP16)
    models = models_of_optimizer(module, call, project)
    if half is not None or [ast.unparse(model) for model in models if model is not None] != ["self"]:
        return half
    owner = module.scope_of(call).enclosing_class
    if owner is None:
        return None
    for name in sorted({each for holder, each in module.stores_by_class if holder is owner}):
        parts = (node for node in module.attribute_loads.get(name, ()) if ast.unparse(node) == f"self.{name}")
        part = next((node for node in parts if _is_trained_with(module, node, owner)), None)
        is_frozen = any(mentions(statement, FROZEN) for _, _, statement in module.stores_by_class[owner, name])
        found = half_weights(project, module, part, call) if part is not None and not is_frozen else None
        if found is not None and found.dtype == FP16 and found.change is not None and not found.adapted:
            return SteppedWeights(module, call, found, found.change)
    return None


def _is_trained_with(module: ModuleNames, part: ast.Attribute, owner: Scope) -> bool:
    """Whether a training step, or a forward pass, calls a part of the model and wants gradients of it."""
    scope, call = module.scope_of(part), module.parents[part]
    function = scope.function.node
    if scope.enclosing_class is not owner or not isinstance(call, ast.Call) or call.func is not part:
        return False
    outer = [item for item in module.ancestors(part) if isinstance(item, ast.With)]
    around = [item.context_expr for block in outer for item in block.items] + [*getattr(function, "decorator_list", ())]
    above = module.parents[call]
    detached = isinstance(above, ast.Attribute) and above.attr in ("detach", "data")
    return getattr(function, "name", "") in TRAINING and not detached and not any(map(_stops_gradients, around))


def _stops_gradients(context: ast.expr) -> bool:
    return any(word in ast.unparse(context) for word in ("grad", "inference"))


def _configures(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether a call may make an optimizer of a model of Lightning."""
    scope = module.scope_of(call)
    function, owner = scope.function.node, scope.enclosing_class
    if not isinstance(function, FunctionNode) or function.name != CONFIGURING or owner is None:
        return False
    bases = (attribute_chain(base) or [""] for _, base in all_bases(project, module, owner))
    return any(base[-1] in MODULES for base in bases)
