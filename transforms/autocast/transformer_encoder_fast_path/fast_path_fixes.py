"""The two ways out: switch the fast path off before it is asked, or train with 16-bit weights."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ....codemod.model import Fix
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.python.exits import blocks_of
from ....codemod.python.names import ModuleNames
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.imported import torch_for
from .fast_path_releases import HAS_SWITCH, torch_may_be_below, torch_may_reach
from .fast_path_runs import Run

SWITCH = "set_fastpath_enabled"
LIGHTNING_NAMES, HAS_TRUE = ("lightning", "pytorch-lightning"), "2.1"
"""The packages, and the first of their releases with true 16-bit precision."""


def switch_off(project: Project, runs: Sequence[Run]) -> Fix | None:
    run = runs[0]
    if not torch_may_reach(project, run, HAS_SWITCH):
        return None
    anchors = _anchors(runs)
    names = [named for item in anchors if (named := torch_for(item.module, item.anchor)) is not None]
    if len(names) < len(anchors):
        return None
    guarded = torch_may_be_below(project, run, HAS_SWITCH, unpinned=False)
    edits = [
        item.module.insert(item.anchor, _statement(name, guarded))
        for item, (name, _) in zip(anchors, names, strict=True)
    ]
    edits += dict.fromkeys(edit for _, imports in names for edit in imports)
    message = (
        "switch the fast path off: training and CUDA compute the same as before; "
        "evaluation elsewhere runs the plain layers"
    )
    if guarded:
        message += "; needs PyTorch 2.3, older releases that the requirements allow keep failing"
    why = SameResult("the fast path fails in these runs")
    return proved(project, "fastpath-off", message, edits, why)


def _statement(name: str, guarded: bool) -> str:
    switch = f"{name}.backends.mha.{SWITCH}(False)"
    return f'if hasattr({name}.backends, "mha"):\n    {switch}' if guarded else switch


def _anchors(runs: Sequence[Run]) -> list[Run]:
    """The runs whose statement no earlier one's block covers: what stands below it finds the switch set."""
    chosen: list[Run] = []
    for run in runs:
        around = {run.module.parents[run.anchor], *run.module.ancestors(run.anchor)}
        if not any(_covers(run.module, item.anchor, run.anchor, around) for item in chosen):
            chosen.append(run)
    return chosen


def _covers(module: ModuleNames, first: ast.stmt, second: ast.stmt, around: set[ast.AST]) -> bool:
    """Whether ``first`` stands earlier in the block of ``second``, or in a block around it, of the same function."""
    same = module.scope_of(first).function is module.scope_of(second).function
    block = module.parents[first]
    if not same or block not in around:
        return False
    path = (second, *module.ancestors(second))
    return any(first in statements and any(item in statements for item in path) for statements in blocks_of(block))


def true_precision(project: Project, runs: Sequence[Run]) -> Fix | None:
    found = [item for run in runs for item in run.respellings]
    if not found or not all(run.respellings for run in runs) or not _knows_true(project, runs[0]):
        return None
    asked = dict.fromkeys(f"{item.old} becomes {item.new}" for item in found)
    message = f"{', '.join(asked)}: weights and optimizer state in 16 bits, which often trains worse"
    return Fix.unsafe("bf16-true", message, *(item.edit for item in found))


def _knows_true(project: Project, run: Run) -> bool:
    """Whether every Lightning that the requirements allow has true 16-bit precision."""
    ranges = [allowed(project, name, near=run.module.document.path) for name in LIGHTNING_NAMES]
    return not any(versions is not None and versions.may_be_below(HAS_TRUE) for versions in ranges)
