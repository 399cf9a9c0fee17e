"""Binary cross entropy of probabilities is computed inside a CUDA autocast region.

## What goes wrong

The first step stops with `RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to
autocast.` It does so in float16 and in bfloat16, on every CUDA or XPU device, and never on a CPU, so a test on a laptop
passes.

## Why

A probability that a 16-bit sigmoid rounds to 0 or 1 makes the loss and its gradient infinite. CUDA's autocast therefore
refuses the operation, whatever the dtype of its arguments: `.float()` alone does not help (PyTorch, "Prefer
binary_cross_entropy_with_logits over binary_cross_entropy"). CPU autocast computes it in float32 instead.

## Fix

`float32` [unsafe]: the loss is computed with autocast switched off and its arguments in float32. It raised before;
without autocast nothing changes for float32 tensors. One of four findings on projects that nobody had used was right
without doubt (the entry script may choose another branch), so read the place first.

`logits` [unsafe]: where a sigmoid stands right before the loss and feeds nothing else, both become
`binary_cross_entropy_with_logits`, which autocast allows. It is the better way; its numbers differ a little from those
of a run without mixed precision.

## Not flagged

A loss after the region, behind `autocast(enabled=False)` (an island, also in a function around it), in a region on a
CPU or on MPS; `BCEWithLogitsLoss`; a class of the project that is only called BCELoss; a criterion whose calls are not
found inside of any region, or that no configuration asks for; regions that nothing switches on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Finding, Rule
from ....codemod.purpose.entered import Inside, way_inside
from ....codemod.purpose.files import is_test
from ....codemod.purpose.outcomes import runs_with
from ....codemod.purpose.proved_reach import can_run, is_reached
from ....codemod.purpose.runs import can_be_open
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import guard_facts, guards, tries
from ....codemod.python.seen import raised_at
from ....codemod.source.project import Project
from ....codemod.torch.entering_calls import births_of
from ....codemod.torch.object_calls import calls_of_object
from .bce_calls import BceCall, bce_calls
from .bce_fixes import fixes_of


def check(project: Project) -> Iterator[Finding]:
    for found in bce_calls(project):
        path = found.module.document.path
        if is_test(path) or not project.is_checked(path) or _is_spared(found):
            continue
        inside = _way_inside(project, found)
        seen = raised_at(project, found.module, found.call, "are unsafe to autocast")
        if seen is not None:
            yield _finding(project, found, inside or Inside(None, (seen,), False))
            continue
        if inside is None or _is_without(found, inside) or not is_reached(project, found.module, found.call):
            continue
        if found.birth is not None and not can_run(project, *found.birth):
            continue  # no configuration asks for this criterion
        if inside.region is None or can_be_open(project, inside.region):
            yield _finding(project, found, inside)


def _way_inside(project: Project, found: BceCall) -> Inside | None:
    """How the call comes to run under autocast; of a criterion that constructors may make, by an object that has it."""
    owner, born = found.module.scope_of(found.call).enclosing_class, found.birth
    of_object = born is not None and born[0] is found.module and owner is not None
    function = found.module.scope_of(found.call).function.node
    inside = way_inside(project, found.module, found.call)
    if not of_object or inside is None or inside.direct or getattr(function, "name", "") != "forward":
        return inside
    if born is None or owner is None or not isinstance(owner.node, ast.ClassDef) or not _is_constructed(*born):
        return inside
    for other, made in births_of(project, owner.node):
        for site in calls_of_object(project, other, made) if runs_with(project, *born, (other, made)) else ():
            way = way_inside(project, *site)
            if way is not None:
                place = site[0].place(site[1], f"{owner.node.name} is called here")
                return Inside(way.region, (*way.places, place), False)
    return None


def _is_constructed(module: ModuleNames, birth: ast.expr) -> bool:
    """Whether a constructor makes the criterion in a branch."""
    return getattr(module.scope_of(birth).function.node, "name", "") == "__init__" and bool(guards(module, birth))


def _is_spared(found: BceCall) -> bool:
    """Whether the tensors are on the CPU, or the code asks for autocast, or catches what is raised."""
    module, call = found.module, found.call
    if any(isinstance(node, ast.Attribute) and node.attr == "cpu" for item in call.args for node in ast.walk(item)):
        return True
    if any("autocast_enabled" in text for text, _ in guard_facts(module, call)):
        return True
    return any(module.statement_of(call) in item.body for item in tries(module, call))


def _is_without(found: BceCall, inside: Inside) -> bool:
    """Whether the call only runs while the region is switched off: ``if not amp: loss = bce(...)``."""
    switch = inside.region.enabled_node if inside.region is not None and inside.direct else None
    return switch is not None and (ast.unparse(switch), False) in guard_facts(found.module, found.call)


def _finding(project: Project, found: BceCall, inside: Inside) -> Finding:
    evidence = [*inside.places]
    if found.birth is not None:
        owner, node = found.birth
        evidence.append(owner.place(node, "the criterion is a BCELoss"))
    return rule.at(
        found.module,
        found.call,
        "binary cross entropy of probabilities inside an autocast region: CUDA refuses it with 'binary_cross_entropy "
        "and torch.nn.BCELoss are unsafe to autocast'",
        evidence,
        fixes_of(project, found, inside),
    )


rule = Rule.of("PF212", check)
