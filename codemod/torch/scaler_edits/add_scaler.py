"""The edits that put a GradScaler into a plain training loop."""

from __future__ import annotations

import ast

from ...model import Fix
from ...proof.needs import Known
from ...proof.proving import proved
from ...purpose.imports import connected_modules, reached_from
from ...python.arguments import receiver_of
from ...python.bindings import values_at
from ...python.bound import is_bound_at
from ...python.callers import callers_of
from ...python.functions import called_function, class_of
from ...python.names import FunctionNode, ModuleNames
from ...python.paths import LoopNode, calls_of, function_of, guard_facts, guards, loops, position
from ...releases.pins import allowed
from ...source.project import Project
from ..clipping import clips_of
from ..imported import torch_for
from ..unscaled_steps import LossStep
from .needs_of_disabling import sharded_at

AMP_SINCE = "2.3"
"""The release of PyTorch that has ``torch.amp.GradScaler``."""
NAME = "scaler"
DEVICE = '"cuda"'
EARLIER = ("CUDA_VISIBLE_DEVICES", "multiprocessing", "fork")
"""Words of code that has to run before the first question for CUDA."""
MAX_MODULES = 60
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def fix(project: Project, step: LossStep, condition: str | None = None) -> Fix | None:
    """The fix, or None where the loop is not plain enough to write it.

    ``condition``: source text that is true at module level where the step computes in float16; None: it always does.
    """
    if any(function_of(step.module, item) is not step.function for item in step.steps):
        return None
    asked = project.target in ("fp16-mixed", "portable")
    loop = _outermost_loop(project, step)
    start = loop or _definition_of(step)
    if start is None or not _is_plain(step, asked) or (loop is None and project.target != "fp16-mixed"):
        return None
    module, optimizer = step.module, step.steps[0]
    clips = [clip.call for clip in clips_of(project, module, step.function)]
    if any(not _is_right_before(step, clip) for clip in clips):
        return None
    arguments, torch = _arguments(step, start, condition), torch_for(module, start)
    if arguments is None or torch is None:
        return None
    receiver, loss = receiver_of(optimizer) or optimizer.func, receiver_of(step.backward) or step.backward.func
    birth = f"{NAME} = {_class_of_scaler(project, module, torch[0], arguments, asked)}"
    edits = [
        module.insert(start, birth),
        module.replace(loss, f"{NAME}.scale(", loss, ")"),
        module.replace(optimizer, f"{NAME}.step(", receiver, ")"),
        module.insert(module.statement_of(optimizer), f"{NAME}.update()", "after"),
        *torch[1],
    ]
    if clips:
        unscale = f"{NAME}.unscale_({ast.unparse(receiver)})"
        edits.append(module.insert(module.statement_of(clips[0]), unscale))
    message = "scale the loss with a GradScaler: small gradients survive, steps with inf or NaN gradients are skipped"
    wanted = Known(asked, "steps are scaled and skipped from now on")
    reader = _reader_between(project, step)
    plain = Known(reader is None, f"{reader} reads gradients before the step, which are scaled then")
    lasts = loop is not None or _is_made_at_the_start(project, step)
    lasting = Known(lasts, "the scaler is made with the module, for all that trains there")
    made = [item.func for item in values_at(module, receiver) if isinstance(item, ast.Call)]
    known = not any(class_of(project, module, item) is not None for item in made)
    test = _opens_only_with(step) if condition is None else None
    always = Known(test is None, f"{test} decides whether the region is open, and steps in float32 would be scaled too")
    where = sharded_at(project, (module, *connected_modules(project, module)))
    whole = Known(not where, f"FSDP ({where}) shards a model, whose steps a scaler of its own has to skip together")
    needs = (wanted, plain, lasting, always, whole, Known(known, "the optimizer is the project's own"))
    return proved(project, "scaler", message, edits, *needs)


def _opens_only_with(step: LossStep) -> str | None:
    """The test without which the region is not open, though the step is made: ``if amp:`` around it, or a value."""
    module, region = step.region.module, step.region.node
    around = [guard.test for guard in guards(step.module, step.backward)]
    tests = [guard.test for guard in guards(module, region)]
    tests += [item.test for item in module.ancestors(region) if isinstance(item, ast.IfExp)]
    return next((ast.unparse(test) for test in tests if test not in around and not _opens_both(module, test)), None)


def _opens_both(module: ModuleNames, test: ast.expr) -> bool:
    """Whether both branches of a test open a region."""
    branch = module.parents.get(test)
    opened = [module.statement_of(call) for call in module.calls_by_name.get("autocast", ())]
    sides = (branch.body, branch.orelse) if isinstance(branch, ast.If) else ()
    return bool(sides) and all(any(item in ast.walk(node) for node in side for item in opened) for side in sides)


def _reader_between(project: Project, step: LossStep) -> str | None:
    """The function of the project that is called between backward and step and looks at gradients."""
    module = step.module
    for call in calls_of(module, step.function):
        if position(step.backward) < position(call) < position(step.steps[0]):
            target = called_function(project, module, call)
            if target is not None and any(getattr(node, "attr", "") == "grad" for node in ast.walk(target.node)):
                return f"{target.node.name} ({target.module.path}:{target.node.lineno})"
    return None


def _outermost_loop(project: Project, step: LossStep) -> LoopNode | None:
    """The loop to make the scaler before: of at least two, or of code that runs once, so that it lasts all epochs."""
    around = loops(step.module, step.backward)
    outer = loops(step.module, step.steps[0])
    if not around or not outer or around[-1] is not outer[-1]:
        return None
    enough = min(len(around), len(outer)) >= 2 or _runs_once(project, step)
    return around[-1] if enough else None


def _definition_of(step: LossStep) -> ast.stmt | None:
    """The definition at the top of the file that the step stands in, of a function that runs again and again."""
    above = [step.backward, *step.module.ancestors(step.backward)]
    return next((item for item in above if isinstance(item, DEFINITIONS) and item in step.module.tree.body), None)


def _is_made_at_the_start(project: Project, step: LossStep) -> bool:
    """Whether the function belongs to a program, and no process asks for CUDA too early where its file is imported.

    A scaler looks for CUDA when it is made: what chooses devices later, or forks, would find it asked already.
    """
    module, function = step.module, step.function
    if not isinstance(function, FunctionNode):
        return False
    is_of_program = "__name__" in module.name_loads or callers_of(project, module, function).complete
    near = reached_from(project, connected_modules(project, module), MAX_MODULES + 1) if is_of_program else ()
    return 0 < len(near) <= MAX_MODULES and not any(word in item.document.text for item in near for word in EARLIER)


def _runs_once(project: Project, step: LossStep) -> bool:
    """Whether the step stands in a script, or in a function that scripts call, not in a loop."""
    if not isinstance(step.function, FunctionNode):
        return isinstance(step.function, ast.Module)
    callers = callers_of(project, step.module, step.function)
    scopes = [(site.module, site.call) for site in callers.sites if not loops(site.module, site.call)]
    at_top = all(module.scope_of(call) is module.module_scope for module, call in scopes)
    return callers.complete and at_top and len(scopes) == len(callers.sites)


def _is_plain(step: LossStep, asked: bool) -> bool:
    """One backward of a plain name, one step without a closure, no look at gradients, the scaler's name free."""
    module = step.module
    others = (call for call in calls_of(module, step.function) if call is not step.backward)
    if any(receiver_of(call, "backward") is not None for call in others):
        return False
    if len(step.steps) != 1 or step.steps[0].args or step.steps[0].keywords:
        return False
    statements = all(isinstance(module.parents[call], ast.Expr) for call in (step.backward, step.steps[0]))
    loss = receiver_of(step.backward)
    free = not any(NAME in scope.bindings for scope in (module.module_scope, module.scope_of(step.backward)))
    reads = any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in ast.walk(step.function))
    bf16 = module.mentions("bfloat16", "bf16")
    return statements and isinstance(loss, ast.Name) and free and not reads and (asked or not bf16)


def _is_right_before(step: LossStep, clip: ast.Call) -> bool:
    """Whether the clip stands between backward and step, and every clip is followed by the step."""
    module, following = step.module, step.steps[0]
    between = position(step.backward) < position(clip) < position(following)
    same = loops(module, clip) == loops(module, following)
    return between and same and guard_facts(module, following) <= guard_facts(module, clip)


def _arguments(step: LossStep, start: ast.stmt, condition: str | None) -> str | None:
    region = step.region
    enabled = region.enabled_node
    if enabled is not None and function_of(region.module, region.node) is not step.function:
        return None
    if enabled is None or (isinstance(enabled, ast.Constant) and enabled.value is True):
        return f"{DEVICE}, enabled={condition}" if condition is not None else DEVICE
    for node in ast.walk(enabled):
        if isinstance(node, ast.Call):
            return None
        if isinstance(node, ast.Name) and not is_bound_at(step.module, node.id, start):
            return None
    switch = ast.unparse(enabled)
    if condition is not None:
        switch = f"({switch})" if isinstance(enabled, ast.BoolOp | ast.IfExp | ast.Lambda) else switch
        switch = f"{switch} and {condition}"
    return f"{DEVICE}, enabled={switch}"


def _class_of_scaler(project: Project, module: ModuleNames, torch: str, arguments: str, asked: bool) -> str:
    """The constructor's call in the spelling that every allowed torch has (``torch.amp.GradScaler`` came with 2.3)."""
    versions = allowed(project, "torch", module.document.path)
    if asked if versions is None else versions.may_be_below(AMP_SINCE):
        return f"{torch}.cuda.amp.GradScaler({arguments.removeprefix(DEVICE).removeprefix(', ')})"
    return f"{torch}.amp.GradScaler({arguments})"
