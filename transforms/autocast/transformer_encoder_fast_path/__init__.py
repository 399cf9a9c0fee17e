"""nn.TransformerEncoder fails in evaluation under mixed precision, where the device is not a CUDA GPU.

## What goes wrong

Training works; the first validation step stops with `RuntimeError: expected scalar type Float but found BFloat16`
(`... found Half` in float16), or, with PyTorch before 2.6, `mat1 and mat2 must have the same dtype, but got BFloat16
and Float`.

## Why

In `eval()` without gradients, `nn.TransformerEncoder`, `nn.TransformerEncoderLayer` and `nn.Transformer` with
`batch_first=True` hand the whole layer to one fused operation, the fast path. It is skipped under autocast, but asks
`torch.is_autocast_enabled()`, which without an argument answers for CUDA only (still so in PyTorch 2.15). On a CPU, and
on an XPU where the fast path serves it, the operation then meets float32 weights and 16-bit activations. Before PyTorch
2.6 every such layer fails; since then (pytorch#135936) only a stack that is given a left-aligned
`src_key_padding_mask`, which it turns into a nested tensor. Run on a CPU with PyTorch 2.5.1, 2.6.0 and 2.13.0. Reports:
pytorch#132613, pytorch#107663, Lightning#19980.

## Fix

`fastpath-off` [safe]: `torch.backends.mha.set_fastpath_enabled(False)` once, before the Trainer is built or the
evaluation begins. Training computes the same numbers as before, on CUDA nothing changes at all; evaluation elsewhere
runs the ordinary layers. The switch came with PyTorch 2.3: where the requirements allow older releases it is asked for
first (`hasattr`), and those releases keep failing; where they allow nothing newer, this fix is not offered.

`fastpath-off` [unsafe]: the same where no manifest names a release of PyTorch, as one before 2.3 has no such switch.

`bf16-true` [unsafe], for Lightning only: `precision="bf16-true"` (`"16-true"` for float16). The weights and the
optimizer's state are 16 bits wide then, which often trains worse. Needs Lightning 2.1, and precision written down as a
literal.

## Not flagged

A Trainer or loop for CUDA alone, where the fast path is skipped (PyTorch 1.13 and newer), and for MPS, which it does
not serve; `batch_first=False`, `norm_first=True`, an odd number of heads, other activations than relu and gelu;
`nn.MultiheadAttention`; classes of another package, the project's own copies, subclasses with their own `forward`;
a model that is trained only; requirements of PyTorch 2.6 or newer where no padding mask is passed or
`enable_nested_tensor=False` is; projects that switch the fast path off already; tests; a machine whose profile saw the
encoder work. Casting the encoder's input with `.float()` does not help, and neither does `enable_nested_tensor=False`
before PyTorch 2.6: both are still reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ....codemod.model import Finding, Fix, Place, Rule
from ....codemod.profiles.profile import ProfiledDevice
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.purpose.files import is_test
from ....codemod.purpose.imports import imported_modules
from ....codemod.python.exits import blocks_of
from ....codemod.python.names import ModuleNames, modules_with
from ....codemod.python.reach import Reached
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts
from ....codemod.torch.device_tests import needs_cuda
from ....codemod.torch.imported import torch_for
from .evaluation_runs import autocast_runs
from .fast_path_encoders import Encoder, encoders, padded_call
from .fast_path_runs import (
    HAS_FAST_PATH,
    HAS_SWITCH,
    NEEDS_PADDING,
    FastPathRun,
    seen_on_machine,
    torch_may_be_below,
    torch_may_reach,
)
from .lightning_runs import STEPS, lightning_runs

SWITCH = "set_fastpath_enabled"
LIGHTNING_NAMES, HAS_TRUE = ("lightning", "pytorch-lightning"), "2.1"
"""The packages, and the first of their releases with true 16-bit precision."""


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """A run that evaluates encoders with their fast path."""

    run: FastPathRun
    encoders: tuple[Encoder, ...]
    padding: tuple[ModuleNames, ast.expr] | None
    machine: ProfiledDevice | None
    """The device of the profile that was seen to fail."""


def check(project: Project) -> Iterator[Finding]:
    known = [item for item in encoders(project) if not is_test(item.module.document.path)]
    if not known:
        return
    cases = [case for run in _runs(project) for case in _cases(project, run, known)]
    for _, group in groupby(cases, key=lambda case: case.run.module):
        yield _finding(project, list(group))


def _runs(project: Project) -> list[FastPathRun]:
    runs = [*lightning_runs(project), *autocast_runs(project)]
    runs = [run for run in runs if not is_test(run.module.document.path)]
    return sorted(runs, key=lambda run: (run.module.document.path, run.anchor.lineno))


def _cases(project: Project, run: FastPathRun, known: Sequence[Encoder]) -> Iterator[_Case]:
    if not torch_may_reach(project, run, HAS_FAST_PATH):
        return
    reached, built = _used(project, run, known)
    if not built or not _is_evaluated(run, reached) or not _may_leave_cuda(project, run):
        return
    fails, device = seen_on_machine(project.profile, run.devices)
    built = [item for item in built if not _is_safe(project, item)]
    padding = padded_call(reached.modules)
    if not torch_may_be_below(project, run, NEEDS_PADDING):
        built = [item for item in built if item.nests and padding is not None]
    if built and fails is not False and not _is_switched_off(project, reached):
        yield _Case(run, tuple(built), padding, device)


def _used(project: Project, run: FastPathRun, known: Sequence[Encoder]) -> tuple[Reached, list[Encoder]]:
    """What the run uses, and which encoders are among it."""
    for find in (run.reached, run.reached_by_importers):
        reached = find(project)
        built = [item for item in known if reached.holds(item.module, item.call)]
        if built and _is_evaluated(run, reached):
            break
    return reached, built


def _may_leave_cuda(project: Project, run: FastPathRun) -> bool:
    return bool(run.devices) and not needs_cuda(project, run.module, run.anchor)


def _is_evaluated(run: FastPathRun, reached: Reached) -> bool:
    if run.by_hand:
        calls = [call for module in reached.modules for call in module.calls_by_name.get("eval", [])]
        return any(isinstance(call.func, ast.Attribute) and not call.args for call in calls)
    return any(
        isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name in STEPS
        for _, node in reached.classes
        for item in node.body
    )


def _is_safe(project: Project, encoder: Encoder) -> bool:
    """Whether its file needs CUDA anyway, or puts float32 islands (autocast switched off) around models."""
    islands = [item for item in autocasts(project) if item.module is encoder.module and _is_island(item)]
    return bool(islands) or needs_cuda(project, encoder.module, encoder.call)


def _is_island(item: Autocast) -> bool:
    return item.switched_off and item.device != "cuda"


def _is_switched_off(project: Project, reached: Reached) -> bool:
    """Whether the code that is used, or a file of the package's start, already calls the switch."""
    modules = dict.fromkeys(reached.modules)
    for module in modules_with(project, (SWITCH,)):
        if any(_switches_off(call) for call in module.calls_by_name.get(SWITCH, [])):
            if module in modules or module.path.endswith("__init__.py"):
                return True
            if any(module in imported_modules(project, other) for other in modules):
                return True
    return False


def _switches_off(call: ast.Call) -> bool:
    values = [*call.args, *(item.value for item in call.keywords)]
    return len(values) == 1 and not (isinstance(values[0], ast.Constant) and values[0].value)


def _finding(project: Project, cases: Sequence[_Case]) -> Finding:
    run = cases[0].run
    runs = [case.run for case in cases]
    fixes = [switch_off(project, runs), true_precision(project, runs)]
    return rule.at(run.module, run.node, _message(cases[0]), _evidence(cases), fixes)


def _message(case: _Case) -> str:
    names = sorted({item.kind if item.stack is None else "TransformerEncoder" for item in case.encoders})
    where = "on a CPU" if case.run.devices != {"xpu"} else "on an XPU"
    when = "" if not _unpadded_only(case) else " with PyTorch before 2.6"
    if case.machine is not None:
        when = f", as {case.machine.label} was seen to do"
    return (
        f"under {case.run.what} nn.{' and nn.'.join(names)} fails in evaluation {where}{when}: its fast path "
        "ignores autocast there"
    )


def _unpadded_only(case: _Case) -> bool:
    return case.padding is None or not any(item.nests for item in case.encoders)


def _evidence(cases: Sequence[_Case]) -> Iterator[Place]:
    shown = cases[0].run.module.document
    seen = {(shown.path, shown.span(cases[0].run.node))}
    for place in (place for case in cases for place in _places(case)):
        if (place.path, place.span) not in seen:
            seen.add((place.path, place.span))
            yield place


def _places(case: _Case) -> Iterator[Place]:
    yield from case.run.places
    for item in case.encoders:
        node = item.stack or item.call
        yield item.module.place(node, f"the {'stack' if item.stack else item.kind} is built here")
    if case.padding is not None:
        module, mask = case.padding
        yield module.place(mask, "the padding mask is passed here")


def switch_off(project: Project, runs: Sequence[FastPathRun]) -> Fix | None:
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


def _anchors(runs: Sequence[FastPathRun]) -> list[FastPathRun]:
    """The runs whose statement no earlier one's block covers: what stands below it finds the switch set."""
    chosen: list[FastPathRun] = []
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


def true_precision(project: Project, runs: Sequence[FastPathRun]) -> Fix | None:
    found = [item for run in runs for item in run.respellings]
    if not found or not all(run.respellings for run in runs) or not _knows_true(project, runs[0]):
        return None
    asked = dict.fromkeys(f"{item.old} becomes {item.new}" for item in found)
    message = f"{', '.join(asked)}: weights and optimizer state in 16 bits, which often trains worse"
    return Fix.unsafe("bf16-true", message, *(item.edit for item in found))


def _knows_true(project: Project, run: FastPathRun) -> bool:
    """Whether every Lightning that the requirements allow has true 16-bit precision."""
    ranges = [allowed(project, name, near=run.module.document.path) for name in LIGHTNING_NAMES]
    return not any(versions is not None and versions.may_be_below(HAS_TRUE) for versions in ranges)


rule = Rule.of("PF306", check, depends_on=("profile",))
