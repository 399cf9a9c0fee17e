"""``loss.backward()`` where a trainer's own scaler steps the optimizer: accelerate, Lightning's manual optimization.

Both scale in their own method alone, and ask their GradScaler in ``optimizer.step()`` (``accelerate/optimizer.py``,
1.15.0; ``lightning/pytorch/plugins/precision/amp.py``, 2.6.6), which raises where nothing has been scaled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Place
from ....codemod.purpose.files import is_test
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import owner_of
from ....codemod.python.creations import creations_of
from ....codemod.python.functions import all_bases
from ....codemod.python.names import ModuleNames, attribute_chain, checked_modules, last_name
from ....codemod.python.paths import exclusive, function_of, position
from ....codemod.source.project import Project
from ..engines import float16_of_accelerate
from ..lightning_precision import float16_of_fabric, float16_of_lightning

ERROR = "the optimizer's step raises AssertionError in float16, as its scaler has scaled nothing"

SETUPS = ("setup", "setup_optimizers")
"""Methods of a Fabric that give optimizers which step with its scaler."""
RAISED_BY_FABRIC = "newer releases of Lightning raise RuntimeError here, older ones AssertionError in the step"


def passes_of_trainers(project: Project) -> Iterator[Draft]:
    yield from _past_accelerate(project)
    yield from _past_lightning(project)
    yield from _past_fabric(project)


def _past_accelerate(project: Project) -> Iterator[Draft]:
    """Where a stated run computes in float16, and no pass of the file goes through the Accelerator."""
    for module in checked_modules(project, ("ccelerat",), ("prepare(",), ("backward(",)):
        passes = module.calls_by_name.get("backward", [])
        plain = [call for call in passes if isinstance(call.func, ast.Attribute) and not call.args]
        if len(plain) < len(passes) or "backward" in module.name_loads:
            continue
        for step in module.calls_by_name.get("step", []):
            made = _prepared(project, module, step)
            before = [call for call in plain if _leads_to(module, call, step)] if made is not None else []
            stated = float16_of_accelerate(project, module, made, step) if made is not None and before else None
            if stated is not None and is_reached(project, module, step):
                message = f"the loss is not scaled, as `accelerator.backward(loss)` does: {ERROR}"
                yield Draft.at(module, before[-1], message, _evidence(module, step, stated))
                break


def _prepared(project: Project, module: ModuleNames, step: ast.Call) -> ast.Call | None:
    """The ``accelerator.prepare(...)`` that gave the optimizer of a step."""
    owner = step.func.value if isinstance(step.func, ast.Attribute) and not step.args else None
    made = creations_of(project, module, owner) if owner is not None else ()
    optimizers = [item for item in made if (item.module.qualified(item.call.func) or "").startswith("torch.optim.")]
    schedulers = any("lr_scheduler" in (item.module.qualified(item.call.func) or "") for item in made)
    prepares = [call for item in optimizers for call in item.through if last_name(call.func) == "prepare"]
    alone = len(made) == len(optimizers) == len(prepares) == 1 and not schedulers
    return prepares[0] if alone and prepares[0] in module.calls_by_name.get("prepare", []) else None


def _past_fabric(project: Project) -> Iterator[Draft]:
    """Where a Fabric is in 16-mixed, and no pass of the file is ``fabric.backward(loss)``."""
    for module in checked_modules(project, ("abric",), SETUPS, ("backward(",)):
        plain = [call for call in module.calls_by_name.get("backward", []) if not call.args]
        passed_on = len(plain) < len(module.attribute_loads.get("backward", [])) or "backward" in module.name_loads
        for step in () if passed_on or is_test(module.path) else module.calls_by_name.get("step", []):
            setup = next((call for name in SETUPS for call in _giving(module, name, owner_of(step))), None)
            before = [call for call in plain if _leads_to(module, call, step)] if setup is not None else []
            stated = float16_of_fabric(project, module, setup) if setup is not None and before else None
            if stated is not None and is_reached(project, module, step):
                message = f"the loss is not scaled, as `fabric.backward(loss)` does: {RAISED_BY_FABRIC}"
                yield Draft.at(module, before[-1], message, _evidence(module, step, stated))
                break


def _giving(module: ModuleNames, method: str, optimizer: str) -> Iterator[ast.Call]:
    """The calls of ``setup`` that give an optimizer: behind the model, or all that ``setup_optimizers`` gives."""
    for call in module.calls_by_name.get(method, []):
        statement = module.statement_of(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is call else None
        given = target.elts if isinstance(target, ast.Tuple) else [target] if target is not None else []
        if optimizer in map(ast.unparse, given[1:] if method == "setup" else given):
            yield call


def _past_lightning(project: Project) -> Iterator[Draft]:
    """Where every trainer of the project computes in float16, and no pass of the class is ``manual_backward``."""
    for module in checked_modules(project, ("automatic_optimization",), ("optimizers(",), ("backward(",)):
        scaled = "scaler" in module.document.text or "manual_backward" in module.attribute_loads
        if scaled or is_test(module.path):
            continue
        for call in module.calls_by_name.get("backward", []):
            step = _step_of_lightning(project, module, call)
            stated = project.fact(float16_of_lightning) if step is not None else None
            if step is not None and stated is not None and is_reached(project, module, call):
                message = f"the loss is not scaled, as `self.manual_backward(loss)` does: {ERROR}"
                place = stated.saying("float16 is chosen here")
                yield Draft.at(module, call, message, _evidence(module, step, place))


def _step_of_lightning(project: Project, module: ModuleNames, call: ast.Call) -> ast.Call | None:
    """The step behind a plain backward pass, of an optimizer that ``self.optimizers()`` gives."""
    owner = module.scope_of(call).enclosing_class
    if owner is None or call.args or not isinstance(call.func, ast.Attribute) or not _is_manual(owner.node):
        return None
    bases = [attribute_chain(base) or [""] for _, base in all_bases(project, module, owner)]
    if not any(chain[-1] == "LightningModule" for chain in bases):
        return None
    given = _given_optimizers(module, function_of(module, call))
    steps = [item for item in module.calls_by_name.get("step", []) if _leads_to(module, call, item)]
    return next((item for item in steps if owner_of(item) in given), None)


def _is_manual(node: ast.AST) -> bool:
    """``self.automatic_optimization = False``."""
    stores = (item for item in ast.walk(node) if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant))
    return any(
        item.value.value is False and ast.unparse(item.targets[0]) == "self.automatic_optimization"  # type: ignore[attr-defined]
        for item in stores
    )


def _given_optimizers(module: ModuleNames, function: ast.AST) -> set[str]:
    """The names that a function gives to what ``self.optimizers()`` returns."""
    calls = [call for call in module.calls_inside.get((function, "optimizers"), []) if not (call.args or call.keywords)]
    stores = [module.statement_of(call) for call in calls if ast.unparse(call.func) == "self.optimizers"]
    targets = [store.targets[0] for store in stores if isinstance(store, ast.Assign) and store.value in calls]
    return {ast.unparse(each) for item in targets for each in getattr(item, "elts", [item])}


def _leads_to(module: ModuleNames, first: ast.Call, second: ast.Call) -> bool:
    same = function_of(module, first) is function_of(module, second)
    return same and position(first) < position(second) and not exclusive(module, first, second)


def _evidence(module: ModuleNames, step: ast.Call, stated: Place) -> tuple[Place, ...]:
    return (module.place(step, "the optimizer steps here, with the trainer's scaler"), stated)
