"""The optimizer steps inside an autocast region that goes on with the old weights

## What goes wrong

Nothing raises, and the model does not learn. Measured with PyTorch 2.13 on a CPU in bfloat16: a linear model that is
trained for 20 steps goes from a loss of 15.72 to 0.15 with a region for each step, and stays at 15.72 with one region
around the loop: it is asked twenty times what it gave at the start. So it is with a region for each step inside of one
that is off (`enabled=False`), on a CPU and on a GPU.

## Why

autocast keeps the 16-bit copy that it makes of a float32 weight until the outermost region is left, so that a weight
that is used twice is cast once. A step changes the weight and not the copy. The next iteration of a loop in the same
region reads the copy (`cache_enabled`; torch.amp documentation: a region is for the forward pass and the loss).

A copy that was made under `torch.no_grad()` has no history. Where a region runs the model first without gradients (for
pseudo labels, or to recycle) and then to train it, linear and convolution weights get no gradient at all before PyTorch
2.10 (pytorch/pytorch#65766, #112583).

## Fix

`no-cache` [unsafe]: `cache_enabled=False` (PyTorch 1.10) casts each weight each time that it is used: slower where a
weight is used more than once, and right wherever the steps stand. The better repair is a region for each forward pass,
opened inside the loop and closed before the backward pass; it is not written, since it changes the shape of the loop.

## Not flagged

A region that holds one forward pass and its step: PyTorch advises against the backward pass in a region, and nothing is
lost by it. A second loss behind the step of a GAN's critic, which sees weights that are one step old; optimizers of
what no call runs, such as noise that is added. Regions that are off (`enabled=False`), of float32 or with
`cache_enabled=False`, or that a test picks which no stated run is known to pass; code that calls
`torch.clear_autocast_cache()`; loops over optimizers or micro-batches that hold
no forward pass after a step; a pass without gradients behind the trained one, of frozen or other weights, or where the
pins allow PyTorch 2.10.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.optimized_models import models_of
from ....codemod.model import Draft, Finding, Fix, Place, Rule
from ....codemod.purpose.decided import decided
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.steps import entered
from ....codemod.purpose.training import is_aside
from ....codemod.python.arguments import receiver_of
from ....codemod.python.conditions import conditions_in
from ....codemod.python.functions import called_function
from ....codemod.python.names import FunctionNode, ModuleNames, attribute_chain, checked_modules
from ....codemod.python.paths import ScopeNodes, calls_of, exclusive, function_of, loops, position
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts_in, is_float32_island, is_without_gradients
from ....codemod.torch.trained_modules import is_trained

REPAIRED = "2.10"
"""The first release that may know that a copy has no history (pytorch/pytorch#165068); 2.13 was seen to."""
MESSAGE = (
    "the first pass of the model in this autocast region runs without gradients: before PyTorch 2.10 autocast uses its "
    "16-bit copies of the weights again in the pass that is trained, and linear and convolution weights get no gradient"
)

STEPPERS = ("optim", "opt", "scaler")
"""How the names of objects begin, or end after an underscore, whose `step` changes weights; not of schedulers."""
MAX_HOPS = 2
"""How many calls below the region a step is looked for: a trainer's `train_epoch` that calls `train_step`."""

RegionBody = ast.With | ast.AsyncWith | ast.FunctionDef | ast.AsyncFunctionDef
Stale = tuple[Place, Place]
"""A step, and what runs the model again after it in the same region."""


def check(project: Project) -> Iterator[Finding]:
    for module in checked_modules(project, ("autocast",)):
        if is_aside(module):
            continue
        for region in autocasts_in(project, module):
            if _keeps_copies(project, region):
                stale = next(_stale_in(project, region), None)
                found = [_finding(region, stale)] if stale is not None else []
                found += [rule.found(*draft) for draft in passes_without_history(project, region)]
                if found and is_reached(project, module, region.node):
                    yield from found


def _finding(region: Autocast, stale: Stale) -> Finding:
    message = (
        "the optimizer steps inside this autocast region, which then runs the model again: autocast still has the "
        "16-bit copies of the old weights, so what follows does not see the step"
    )
    fix = None
    if region.call is not None and region.form in ("with", "decorator") and region.understood:
        edit = region.module.set_argument(region.call, "cache_enabled", "False")
        text = "cast the weights each time they are used (PyTorch 1.10); a region for each forward pass is faster"
        fix = Fix.unsafe("no-cache", text, edit)
    return rule.at(region.module, region.node, message, stale, [fix])


def _keeps_copies(project: Project, region: Autocast) -> bool:
    """Whether the region lowers something and keeps what it has cast."""
    if is_float32_island(project, region) or is_without_gradients(region.module, region.node):
        return False
    given = region.call.keywords if region.call is not None else []
    cached = not any(item.arg == "cache_enabled" for item in given) and _is_chosen(project, region)
    return cached and "clear_autocast_cache" not in region.module.calls_by_name


def _is_chosen(project: Project, region: Autocast) -> bool:
    """Whether runs that the project states pick ``autocast(...)`` of ``autocast(...) if test else nullcontext()``."""
    module = region.module
    chosen = module.parents.get(region.call) if region.call is not None else None
    if not isinstance(chosen, ast.IfExp):
        return True
    given = conditions_in(project, module).given(chosen.test, chosen.body is region.call)
    known = decided(project, module, given)
    return bool(given) and known is not None and not known.open


def _stale_in(project: Project, region: Autocast) -> Iterator[Stale]:
    module = region.module
    for item in entered(region):
        yield from _stale(project, module, item.block, 0)
    function = module.parents.get(region.node)
    if region.form == "decorator" and isinstance(function, FunctionNode):
        yield from _stale(project, module, function, 0)


def _stale(project: Project, module: ModuleNames, body: RegionBody, hops: int) -> Iterator[Stale]:
    """The steps below ``body`` that something in it follows with a forward pass."""
    calls = sorted(_own_calls(body), key=position)
    backwards = [call for call in calls if receiver_of(call, "backward") is not None]
    for call in calls:
        below = _training_function(project, module, call) if hops < MAX_HOPS else None
        if below is not None:
            yield from _stale(project, *below, hops + 1)
        if below is None and (not _is_step(call) or (hops > 0 and not _is_of_called_model(module, call))):
            continue
        inside = (loop for loop in loops(module, call) if body in module.ancestors(loop))
        loop = next((loop for loop in inside if below or not set(backwards).isdisjoint(ast.walk(loop))), None)
        if loop is not None:
            again = module.place(loop, "here the next iteration runs the model")
            yield module.place(call, "the step stands in the region"), again


def _own_calls(body: RegionBody) -> Iterator[ast.Call]:
    """The calls of a block or function, without those of functions that are defined in it."""
    waiting: list[ast.AST] = list(body.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ScopeNodes):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting.extend(ast.iter_child_nodes(node))


def _is_step(call: ast.Call) -> bool:
    """``optimizer.step()``, ``self.opt_d.step()``, ``scaler.step(optimizer)``."""
    chain = attribute_chain(call.func) or []
    if len(chain) < 2 or chain[-1] != "step":
        return False
    words = [word for name in chain[:-1] for word in name.lower().split("_")]
    return any(word.startswith(STEPPERS) for word in words) and not any("sched" in word for word in words)


def _is_of_called_model(module: ModuleNames, step: ast.Call) -> bool:
    """Whether the optimizer has the weights of a model that the same file calls, not of something that is added."""
    text = ast.unparse(step.args[0] if step.args else receiver_of(step) or step)
    made = [
        item.value
        for item in module.of_type(ast.Assign)
        if isinstance(item.value, ast.Call) and item.value.args and text in map(ast.unparse, item.targets)
    ]
    if not made:
        return True
    models = {ast.unparse(model) for call in made for model in models_of(module, call.args[0]) if model is not None}
    return any(ast.unparse(call.func) in models for call in module.calls)


def _training_function(
    project: Project, module: ModuleNames, call: ast.Call
) -> tuple[ModuleNames, ast.FunctionDef | ast.AsyncFunctionDef] | None:
    """The function of the project that ``call`` runs, where that takes a training step."""
    target = called_function(project, module, call)
    if target is None or not isinstance(target.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if "clear_autocast_cache" in target.module.calls_by_name:
        return None
    calls = list(_own_calls(target.node))
    stepping = any(_is_step(item) and _is_of_called_model(target.module, item) for item in calls)
    steps = stepping and any(receiver_of(item, "backward") is not None for item in calls)
    return (target.module, target.node) if steps else None


def passes_without_history(project: Project, region: Autocast) -> Iterator[Draft]:
    """``with autocast(): with torch.no_grad(): old = model(x)`` before ``new = model(x)`` in the same region."""
    module = region.module
    versions = allowed(project, "torch", near=module.path)
    if versions is None or versions.may_reach(REPAIRED) or "inference_mode" in module.attribute_loads:
        return  # copies of inference mode raise in the backward pass
    for item in entered(region):
        every = calls_of(module, function_of(module, region.node))
        calls = [call for call in every if item.block in module.ancestors(call)]
        quiet = [call for call in calls if is_without_gradients(module, call)]
        for first in quiet:
            same = [call for call in calls if ast.dump(call.func) == ast.dump(first.func) and call not in quiet]
            same = [call for call in same if not exclusive(module, first, call)]
            if same and all(position(call) > position(first) for call in same) and _is_trained(module, region, first):
                trained = module.place(same[0], "the same weights, in the pass that is trained")
                yield Draft.at(module, first, MESSAGE, (trained, module.place(region.node, "the region")))
                return


def _is_trained(module: ModuleNames, region: Autocast, call: ast.Call) -> bool:
    """Whether what is called is a module whose weights the function trains: it is not frozen, and a loss goes back."""
    function = function_of(module, region.node)
    back = isinstance(function, FunctionNode) and bool(module.calls_inside.get((function, "backward")))
    return back and is_trained(module, call.func)


rule = Rule.of("PF806", check)
