"""Loads and trainers of one run that disagree about the dtype."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ....codemod.model import Draft, Fix, Place, Span
from ....codemod.proof.needs import RAISES
from ....codemod.proof.proving import proved
from ....codemod.purpose.targets import compute_dtype
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP16, FP32, Dtype
from ....codemod.trainers.reading.launched_loads import launched_loads
from ....codemod.trainers.reading.precision import Compute
from ....codemod.trainers.reading.trained_loads import TrainedLoad, trained_loads
from ..load_dtype_fixes import as_trained, by_hardware, let_unsloth_choose, place_of, retype

SCALED = "a GradScaler steps"
UNSCALE_ERROR = "'Attempting to unscale FP16 gradients'"
BF16_SCALER_ERROR = "\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'"
REFUSES = "Unsloth refuses to train it (TypeError)"
WANTED = {Compute.BF16: BF16, Compute.FP16: FP16}


def load_clashes(project: Project) -> Iterator[Draft]:
    seen: set[tuple[str, Span]] = set()
    for run in (*trained_loads(project), *launched_loads(project)):
        found = _of_run(project, run)
        where = (found.place.path, found.place.span) if found is not None else None
        if found is not None and where not in seen:
            seen.add((found.place.path, found.place.span))
            yield found if _goes_there(project, run) else found._replace(fixes=())


def _goes_there(project: Project, run: TrainedLoad) -> bool:
    """Whether the trainer computes in what the target asks for, if there is one: else the trainer itself moves."""
    target = compute_dtype(project.target)
    return target is None or WANTED.get(run.precision.compute, target) == target


def _of_run(project: Project, run: TrainedLoad) -> Draft | None:
    load, compute = run.load, run.precision.compute
    if compute in (Compute.UNKNOWN, Compute.FP32):
        return None
    if load.unsloth:
        return _unsloth(project, run)
    if load.quantized or load.node is None or run.recast or run.frozen or run.precision.partitioned:
        return None
    half = {dtype for dtype in load.dtypes if dtype in (BF16, FP16)}
    if len(half) != 1:
        return None
    weights = half.pop()
    if weights == WANTED.get(compute):
        return _half_weights(project, run, load.node) if weights == FP16 else None
    if run.adapted or (compute is Compute.HARDWARE and weights != FP16):
        return None  # what PEFT trains is float32, and the frozen base runs in autocast's dtype
    return _differs(run, load.node, weights)


def _differs(run: TrainedLoad, node: ast.expr, weights: Dtype) -> Draft:
    module, precision = run.load.module, run.precision
    told = f"the model is loaded in {weights.name} and trained in {precision.compute.value}"
    if precision.compute is Compute.FP16:
        message = f"{told}: {SCALED} it, which on CUDA raises {BF16_SCALER_ERROR}"
        return _at(module, node, message, _evidence(run), _full_weights(run, node))
    end = "its gradients are float16 and nothing scales them, so that small ones become zero and large ones infinite"
    return _at(module, node, f"{told}: {end}", _evidence(run), _follow(run, node))


def _half_weights(project: Project, run: TrainedLoad, node: ast.expr) -> Draft | None:
    """float16 weights under a GradScaler; adapters are float32 unless PEFT is told otherwise."""
    raises = f"the first step raises {UNSCALE_ERROR}"
    if not run.adapted:
        if not run.is_scaled_float16:
            return None  # what accelerate prepares together with its optimizer is PF107's
        message = f"the model is float16 and {SCALED} it: {raises} [hf-fp16-weights-fp16-amp]"
        return _at(run.load.module, node, message, _evidence(run), _full_weights(run, node))
    for call in run.adapters:
        switch = next((item.value for item in call.keywords if item.arg == "autocast_adapter_dtype"), None)
        if isinstance(switch, ast.Constant) and switch.value is False:
            module = _module_of(run, call)
            span = module.document.span(call)
            edit = module.remove_argument(span, "autocast_adapter_dtype")
            text = "let PEFT make the adapters float32: the scaler can then unscale their gradients"
            fix = proved(project, "float32-adapters", text, [edit], RAISES)
            loaded = run.load.module.place(node, "the model they adapt is loaded in float16 here")
            message = f"the adapters stay float16 and {SCALED} them: {raises} [peft-fp16-trainable]"
            return Draft.at(module, switch, message, (loaded, *_evidence(run)), (fix,))
    return None


def _at(
    module: ModuleNames, node: ast.expr, message: str, evidence: tuple[Place, ...], fixes: tuple[Fix, ...]
) -> Draft:
    """The report, where the dtype is to be changed."""
    where = place_of(module, node)
    used = () if where is node else (module.place(node, "it is passed to the load here"),)
    return Draft.at(module, where, message, (*used, *evidence), fixes)


def _module_of(run: TrainedLoad, call: ast.Call) -> ModuleNames:
    return run.module if call in run.module.parents else run.load.module


def _follow(run: TrainedLoad, node: ast.expr) -> tuple[Fix, ...]:
    precision = run.precision
    if len(run.load.dtypes) != 1:
        return ()
    wanted = WANTED.get(precision.compute)
    if wanted is not None:
        return as_trained(run.load.module, node, wanted, f"load the weights in {wanted.name}, as they are trained")
    if precision.node is None or precision.module is not run.load.module:
        return ()
    return by_hardware(run.load.module, node, precision.node)


def _full_weights(run: TrainedLoad, node: ast.expr) -> tuple[Fix, ...]:
    edit = retype(run.load.module, node, FP32) if len(run.load.dtypes) == 1 else None
    if edit is None:
        return ()
    message = (
        "load the weights in float32; autocast makes the float16 copies. Weights and gradients take twice the memory"
    )
    return (Fix.unsafe("float32-weights", message, edit),)


def _evidence(run: TrainedLoad) -> tuple[Place, ...]:
    computes = replace(run.precision.place, message=f"the trainer computes in {run.precision.compute.value}")
    return (computes, run.module.place(run.trainer, "the model is passed to the trainer here"))


def _unsloth(project: Project, run: TrainedLoad) -> Draft | None:
    load, compute = run.load, run.precision.compute
    if load.node is None or len(load.dtypes) != 1:
        return None
    weights = next(iter(load.dtypes))
    told = f"the model is loaded in {weights.name} and trained in {compute.value}"
    if weights == FP16 and compute in (Compute.BF16, Compute.HARDWARE):
        fixes = let_unsloth_choose(project, load.module, load.node)
    elif weights == BF16 and compute is Compute.FP16:
        edit = retype(load.module, load.node, FP16)
        text = "load the weights in float16, as they are trained"
        fixes = (proved(project, "unsloth-dtype", text, [edit], RAISES),) if edit is not None else ()
    else:
        return None
    return _at(load.module, load.node, f"{told}: {REFUSES}", _evidence(run), fixes)
