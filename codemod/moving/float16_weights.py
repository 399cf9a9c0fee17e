"""Weights that follow the switch which moves: ``torch.float16 if args.fp16 else torch.bfloat16 if args.bf16 else ...``.

A Trainer whose ``fp16`` is on scales the loss, and no GradScaler unscales float16 gradients.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..model import Place
from ..outcome import Target
from ..purpose.targets import compute_dtype
from ..python.names import ModuleNames, modules_at
from ..python.paths import function_of
from ..source.project import Project
from ..torch.dtype_values import scenarios_of
from ..torch.dtypes import FP16, Constant, as_dtype
from ..trainers.reading.launched_loads import is_ruled_out, is_sharded
from ..trainers.reading.loads import Load, loads_in
from ..trainers.reading.run_code import is_used
from ..trainers.reading.run_members import Run
from ..trainers.reading.trained_loads import ADAPTED, OF_TRAINERS

MOVED: dict[str, Constant] = {"fp16": True, "bf16": False}
"""The switches of a Trainer that computes in float16."""
ADAPTERS = (*ADAPTED, "LoraConfig")
SAID = (
    "these weights follow the trainer's switch and would be float16, whose gradients no GradScaler unscales "
    "('Attempting to unscale FP16 gradients'): load them in float32 first"
)


def float16_weights(after: Project, run: Run | None, target: Target) -> Iterator[Place]:
    """The loads of a run that would train float16 weights under the trainer's scaler."""
    winner = run.winner if run is not None else None
    if run is None or winner is None or compute_dtype(target.regime) != FP16:
        return
    if winner.scope.framework.id not in OF_TRAINERS or is_sharded(run):
        return
    for module in modules_at(after, run.modules):
        for load in loads_in(after, module):
            is_own = is_used(after, run.modules[0], module.path, module.document.span(load.call).row)
            if load.node is not None and is_own and _follows(after, load) and not _is_adapted(load):
                yield module.place(load.node, SAID)


def _follows(project: Project, load: Load) -> bool:
    """Whether the switches choose float16, as they are after the move."""
    for scenario in scenarios_of(project, load.module, load.node) if load.node is not None else ():
        asked = [item for item in scenario.given if item.text.rpartition(".")[2] in MOVED]
        if as_dtype(scenario.value) == FP16 and asked and not any(is_ruled_out(item, MOVED) for item in asked):
            return True
    return False


def _is_adapted(load: Load) -> bool:
    """Whether adapters are trained in place of the loaded weights, in every run."""
    module, function = load.module, function_of(load.module, load.call)
    named = (calls for name, calls in module.calls_by_name.items() if name.startswith(ADAPTERS))
    return any(
        function_of(module, call) is function and not _is_conditional(module, call) for calls in named for call in calls
    )


def _is_conditional(module: ModuleNames, call: ast.Call) -> bool:
    tests = (item.test for item in module.ancestors(call) if isinstance(item, ast.If | ast.IfExp))
    return any("__name__" not in ast.unparse(test) for test in tests)
