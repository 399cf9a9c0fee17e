"""Whether the optimizer steps loaded weights themselves: a GradScaler cannot unscale gradients that are float16."""

from __future__ import annotations

import ast

from ....codemod.half.half_weights import weights_of_optimizer
from ....codemod.proof.needs import Known, Need, Release
from ....codemod.purpose.training import training_modules
from ....codemod.python.arguments import owner_of
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.api import QUANTIZING
from ....codemod.torch.dtypes import HALVES
from ....codemod.trainers.reading.trained_loads import mentions, trained_loads
from ....codemod.trainers.writing.unscaled import UNSCALED, has_unscaled_step

FROZEN = ("peft", "lora", *QUANTIZING, "freeze")
"""Parts of names that code uses which say that loaded weights are not what the optimizer steps."""
COPIED = ("state_dict", "config")
ALONE = (*COPIED, "to", "cuda", "cpu", "eval", "set_progress_bar_config")
"""Members of a model or pipeline that give copies, and those that give it itself back or nothing."""
FLOAT32_ADAPTERS = "0.12"
"""The first PEFT that keeps the adapters of 16-bit weights in float32."""


def looks_frozen(project: Project, module: ModuleNames, load: ast.Call) -> bool:
    """Whether adapters are trained in place of the loaded weights, or code (no import alone) speaks of freezing."""
    if load in project.fact(_stepped):
        return False
    if _is_kept_apart(module, load):
        return True
    runs = [run for run in trained_loads(project) if run.load.call is load]
    if runs:
        return all(run.adapted or run.load.quantized or (run.frozen and not _trains_parts(module)) for run in runs)
    switched = (item for call in module.calls_by_name.get("requires_grad_", []) for item in call.args)
    off = any(isinstance(item, ast.Constant) and item.value is False for item in switched)
    return off or mentions(module.tree, FROZEN) or mentions(module.tree, tuple(word.title() for word in FROZEN))


def _stepped(project: Project) -> frozenset[ast.AST]:
    """The loads of 16-bit weights that an optimizer steps as they are, whatever is frozen beside them."""
    found = set()
    for module in training_modules(project):
        made = (call for call in module.calls if (module.qualified(call.func) or "").startswith("torch.optim."))
        halves = (weights_of_optimizer(project, module, call, dtype) for call in made for dtype in HALVES)
        found |= {half.change.node for half in halves if half is not None}
    return frozenset(found)


def _trains_parts(module: ModuleNames) -> bool:
    """``parameter.requires_grad = True``: what was frozen before is trained in part."""
    values = (value for _, value, _ in module.attribute_stores.get("requires_grad", ()))
    return any(isinstance(value, ast.Constant) and value.value is True for value in values)


def only_adapters(project: Project, module: ModuleNames, load: ast.Call) -> Need:
    """What has to be known for float16 weights to be safe under a GradScaler: all that is trained is float32."""
    if _is_frozen(module, load) or _is_kept_apart(module, load):
        return Known(True, "")
    if has_unscaled_step(project, module):
        return scaled_loss(project, module)
    runs = [run for run in trained_loads(project) if run.load.call is load]
    if runs and all(run.adapted for run in runs):
        return float32_adapters(module)
    return Known(False, "nothing proves that these weights are not what the optimizer steps")


def float32_adapters(module: ModuleNames) -> Release:
    """The PEFT that keeps adapters in float32, whatever the weights are that they stand on."""
    return Release("peft", FLOAT32_ADAPTERS, module.document.path, "float32 adapters on 16-bit weights")


def scaled_loss(project: Project, module: ModuleNames) -> Need:
    """What has to be known for gradients to go through float16."""
    return Known(not has_unscaled_step(project, module), UNSCALED)


def _is_frozen(module: ModuleNames, load: ast.Call) -> bool:
    """``vae.requires_grad_(False)``, and no adapters on it but those that are cast to float32."""
    name = _name_of(module, load)
    if not name or _trains_parts(module):
        return False
    if any(owner_of(call) == name for call in module.calls_by_name.get("add_adapter", [])):
        return "cast_training_params" in module.calls_by_name
    calls = [call for call in module.calls_by_name.get("requires_grad_", []) if owner_of(call) == name]
    values = [item.value for call in calls for item in call.args if isinstance(item, ast.Constant)]
    return bool(calls) and len(values) == len(calls) and not any(values)


def _is_kept_apart(module: ModuleNames, load: ast.Call) -> bool:
    """``net.load_state_dict(saved.state_dict())``, ``images = pipeline(prompt).images``: a function loads weights that
    nothing gets but itself, so that no optimizer steps them."""
    statement, scope = module.statement_of(load), module.scope_of(load)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is load else None
    if not isinstance(target, ast.Name) or not isinstance(scope.node, FunctionNode):
        return False
    reads = [node for node in module.name_loads.get(target.id, ()) if module.scope_of(node).function is scope]
    return bool(reads) and all(_only_runs(module, node) for node in reads)


def _only_runs(module: ModuleNames, node: ast.Name) -> bool:
    parent = module.parents.get(node)
    if isinstance(parent, ast.Call):
        return parent.func is node
    statement = module.statement_of(node)
    given = [item.id for item in getattr(statement, "targets", ()) if isinstance(item, ast.Name)]
    is_moved = isinstance(statement, ast.Expr) or given == [node.id]
    kept = ALONE if is_moved else COPIED
    return isinstance(parent, ast.Attribute) and parent.attr in kept


def _name_of(module: ModuleNames, load: ast.Call) -> str:
    """The variable that a cast is called on, or that holds what is loaded."""
    if isinstance(load.func, ast.Attribute) and load.func.attr == "to" and not isinstance(load.func.value, ast.Call):
        return ast.unparse(load.func.value)
    statement = module.statement_of(load)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""
