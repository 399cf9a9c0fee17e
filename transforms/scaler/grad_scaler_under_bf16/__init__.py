"""A GradScaler is active while gradients are bfloat16.

## What goes wrong

With bfloat16 weights the step dies on CUDA:
`"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'` (a `NotImplementedError`, in older
releases a `RuntimeError`). With float32 weights under bfloat16 autocast it runs, but for nothing: each step passes over
all gradients once more and waits for the GPU to know whether they hold inf, a growth of the scale may cost a step, and
a clip without `unscale_` works on gradients that are 65536 times too large. The same holds for a scaler by hand beside
`accelerate launch --mixed_precision bf16`.

## Why

Loss scaling exists because float16 gradients underflow below 6e-8. bfloat16 has the exponent range of float32, so there
is nothing to scale. The CUDA unscale kernel has no bfloat16 version in PyTorch 2.13 (pytorch#127176); the CPU kernel
has one, so a run on a CPU does not show the crash.

## Fix

`drop` [safe]: where the scaler is local and the step always runs in bf16, the scaler goes: `scaler.scale(loss)` becomes
`loss`, `scaler.step(optimizer)` becomes `optimizer.step()`, `unscale_` and `update` are deleted with the `if`s they
leave empty, and so is the import. Clipping, closures and `retain_graph` stay.

`disable` [safe]: where the scaler crosses files, is a parameter, is saved, passed as a value or tested for None, it is
created with `enabled=False`; where the dtype is chosen at run time, with `enabled=<that dtype> == torch.float16`, or
with the setting that chooses it (`enabled=args.precision == "fp16"`) where the dtype is not known yet. A disabled
scaler passes everything through. It is never replaced by None. Where the project reads the scaler's inner state
(`scaler._scale`, `get_growth_factor()`), which a disabled scaler does not have, or where nothing that is known when it
is made tells float16 from bfloat16, the finding has no fix. A scaler that sits in a wrapper without a switch is
disabled in there, where all that make such a wrapper always run bf16.

Weights in bfloat16 under `autocast()` without a dtype: the scaler is disabled and the region computes in bfloat16 too.

`drop` [unsafe], `disable` [unsafe]: the same where gradients are clipped without `unscale_`: the clip works on scaled
gradients today, and its limit begins to hold; near FSDP, where a scaler that is not made for shards, or an optimizer
built before the model is wrapped, raises today and would be silent; and where the allowed releases of PyTorch may lack
what is written.

What changes: steps whose gradients are inf or NaN are no longer skipped, and clipping acts on them: one inf makes every
gradient that `clip_grad_norm_` scales 0 or NaN, unless `error_if_nonfinite=True`. A checkpoint written by a disabled
scaler holds an empty scaler state, which an enabled scaler refuses to load.

## Not flagged

Runs that nothing chooses: an option, launch line or file that states another dtype, or that leaves the scaler off;
bfloat16 where there is no GPU, where the scaler switches itself off;
benchmarks and tests; scalers whose `enabled=` or surrounding `if` asks for float16; float16 autocast (`autocast()`
without a dtype on CUDA is float16); quantized or float16 paths; a switch for the scaler alone
(`cfg.use_grad_scaler`); bf16 and fp16 regions in one step; a bf16 region that a test picks in place of an fp16 one,
where the scaler's own calls stand behind that test, too; a model with `nn.LSTM`, `nn.GRU` or `nn.RNN`, which cuDNN
computes in float16 under any autocast; a scaler with which nothing scales, unscales, steps or
updates (only saved, logged, or passed to `accelerator.prepare`); a scaler whose regime cannot be determined from the
source; bfloat16 weights under float16 autocast where a profile says that the machine's PyTorch
unscales bfloat16 gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....codemod.model import Finding, Fix, Place, Rule
from ....codemod.purpose.decided import decided, of_machine, settings_asked
from ....codemod.purpose.given import is_given, may_be_on
from ....codemod.purpose.regimes import Regime, regime_of
from ....codemod.purpose.regions import Region, bf16_givens
from ....codemod.purpose.targets import compute_dtype
from ....codemod.purpose.training import is_aside
from ....codemod.python.conditions import conditions_in
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import exclusive, tries
from ....codemod.python.seen import raised
from ....codemod.source.facts import of_each
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, TextCondition
from ....codemod.torch.scaler_edits import disable_scaler, drop_scaler
from ....codemod.torch.scaler_edits.needs_of_disabling import scaled_clips
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.torch.weights import WeightChoice, weight_choice_of
from ....codemod.trainers.reading.reach_of_runs import recurrent_layer
from ..given_runs import steps_of_accelerate
from . import bf16_weights, follow_weights

LOST = "each step passes over all gradients once more and waits for the GPU, for nothing"


def check(project: Project) -> Iterator[Finding]:
    read = [*_read(project)]
    yield from read
    for place in raised(
        project, "_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'", read
    ):
        message = "GradScaler unscales bfloat16 gradients, which CUDA cannot and bfloat16 does not need"
        yield rule.found(Place(place.path, place.span, message), (place,))


def _read(project: Project) -> Iterator[Finding]:
    """One finding per scaler; ``except TypeError: GradScaler()`` makes the one of ``try`` for another release."""
    found = {scaler: [*of_each(project, _of_scaler, (scaler,))] for scaler in scalers(project)}
    for scaler, findings in found.items():
        others = [(other, item) for other in found if _replaces(other, scaler) for item in found[other]]
        for finding in findings:
            for other, item in [each for each in others if each[1].message == finding.message]:
                found[other].remove(item)
                places = (*finding.evidence, other.module.place(other.call, "it is created here for other releases"))
                fixes = (_both(fix, same) for fix in finding.fixes for same in item.fixes if fix.name == same.name)
                finding = replace(finding, evidence=places, fixes=tuple(fix for fix in fixes if fix is not None))
            yield finding


def _replaces(other: Scaler, scaler: Scaler) -> bool:
    """Whether ``other`` is made where what makes ``scaler`` raises."""
    handlers = (item for each in tries(scaler.module, scaler.call) for item in each.handlers)
    return other.module is scaler.module and not set(handlers).isdisjoint(other.module.ancestors(other.call))


def _both(fix: Fix, other: Fix) -> Fix | None:
    """The repair of both places, where both may be trusted alike."""
    if fix.applicability is not other.applicability:
        return None
    return replace(fix, edits=tuple(dict.fromkeys((*fix.edits, *other.edits))))


def _of_scaler(project: Project, scaler: Scaler) -> Iterator[Finding]:
    if scaler.switched_off or not scaler.is_used or is_aside(scaler.module):
        return
    regime = regime_of(project, scaler)
    if regime.verdict in ("always-bf16", "run-time") and regime.active:
        chosen = _choice(project, scaler, regime)
        if chosen is not None and recurrent_layer(project, scaler.module) is None:
            yield _under_autocast(project, scaler, regime, chosen)
    elif regime.active is None:
        yield from _with_weights(project, scaler, regime)
        yield from _beside_accelerate(project, scaler, regime)


def _choice(project: Project, scaler: Scaler, regime: Regime) -> list[Place] | None:
    """Where settings stand by which a run on a GPU computes in bfloat16 with the scaler on; None without such a run.

    On the way to bfloat16 also a run that nobody states: what moved the region by its switch moves the scaler, too.
    """
    is_asked = regime.verdict == "always-bf16" and compute_dtype(project.target) == BF16
    if not is_asked and not may_be_on(project, scaler):
        return None
    for region, scenario in ((each, item) for each in regime.regions for item in each.scenarios):
        module = region.autocast.module
        if scenario.value != BF16 or _is_for_others(project, scaler, regime, region):
            continue
        given = bf16_givens(project, region, scenario)
        if (is_asked or is_given(project, module, given)) and _is_on_gpu(project, module, given):
            words = (item for item in given if BF16 not in item.values)  # a dtype by itself is no setting
            asked = (each for item in words for each in settings_asked(project, module, item))
            found = (decided(project, module, [each]) for each in asked)
            return list(dict.fromkeys(place for item in found if item is not None for place in item.places))
    return None


def _is_for_others(project: Project, scaler: Scaler, regime: Regime, region: Region) -> bool:
    """Whether a test that the scaler's uses stand behind as well picks the region, in place of one that is float16.

    ``if kind == "ddp": autocast() else: autocast(dtype=dtype)`` here, ``if kind == "deepspeed": ... else: scaler.step``
    there: with the scaler the other one runs, for all that is known.
    """
    module, node = region.autocast.module, region.autocast.node
    others = (item.autocast for item in regime.regions if BF16 not in item.values)
    if not any(other.module is module and exclusive(module, other.node, node) for other in others):
        return False
    asked = {item.text for item in conditions_in(project, module).path_given(node)}
    handed_on = [(module, call) for call in module.calls_by_name.get("scale", ())]  # of a parameter, which is no use
    places = [*((use.module, use.node) for use in scaler.uses), *handed_on]
    given = (item for owner, use in places for item in conditions_in(project, owner).path_given(use))
    return any(item.text in asked for item in given)


def _is_on_gpu(project: Project, module: ModuleNames, asked: tuple[TextCondition, ...]) -> bool:
    """Without a GPU the scaler switches itself off, so bfloat16 that is for other devices alone does not count."""
    return all(of_machine(project, module, item) is not False for item in asked)


def _with_weights(project: Project, scaler: Scaler, regime: Regime) -> Iterator[Finding]:
    """Autocast does not compute in bf16, but the weights, and so their gradients, are bfloat16."""
    if _unscales_bf16(project):
        return
    weights = weight_choice_of(project, scaler, regime) if regime.verdict == "never-bf16" else None
    if weights is not None:
        yield _under_weights(project, scaler, regime, weights)
        return
    model = bf16_weights.model_in_bf16(project, scaler)
    if model is not None:
        yield rule.at(
            scaler.module,
            scaler.call,
            f"GradScaler steps the optimizer of {model.weights.name}, whose weights are bfloat16: their gradients are "
            f"bfloat16, and on CUDA unscaling them raises {bf16_weights.ERROR}",
            (*bf16_weights.places(model), *_evidence(regime), *_use_places(scaler)),
            bf16_weights.fixes(project, scaler, regime),
        )


def _beside_accelerate(project: Project, scaler: Scaler, regime: Regime) -> Iterator[Finding]:
    """What accelerate prepared computes in bfloat16 in each run, by what launches it, and a scaler steps it by hand."""
    steps, runs = steps_of_accelerate(project, scaler) if not regime.regions else ((), ())
    if steps and all(run.dtypes == {BF16} for run in runs) and may_be_on(project, scaler):
        message = f"GradScaler is active although accelerate computes in bfloat16: {LOST}"
        yield rule.at(scaler.module, scaler.call, message, (runs[0].place, *_use_places(scaler)))


def _unscales_bf16(project: Project) -> bool:
    """Whether the profile's CUDA devices were seen to unscale bfloat16 gradients: a later PyTorch may learn it."""
    devices = [item for item in project.profile.devices if item.backend == "cuda"] if project.profile else []
    tried = [fact.holds for item in devices for fact in item.facts if fact.name == "scaler-with-bf16-gradients"]
    return bool(tried) and all(holds is False for holds in tried)


def _under_autocast(project: Project, scaler: Scaler, regime: Regime, chosen: list[Place]) -> Finding:
    if regime.own_condition is not None:
        message = "GradScaler is switched on for bfloat16, which needs no loss scaling"
    elif regime.verdict == "always-bf16":
        is_switched = any(region.autocast.enabled_node is not None for region in regime.regions)
        how = "never computes in float16" if is_switched else "always computes in bfloat16"
        message = f"GradScaler is active although the training step {how}"
    else:
        message = "GradScaler stays active when the run chooses bfloat16"
    clip = next(scaled_clips(project, scaler), None)
    lost = f"{clip.words} ({clip.module.path}:{clip.call.lineno}) may clip scaled gradients" if clip else LOST
    return rule.at(
        scaler.module,
        scaler.call,
        f"{message}: {lost}",
        (*_evidence(regime), *chosen[:2], *_use_places(scaler)),
        _fixes(project, scaler, regime),
    )


def _under_weights(project: Project, scaler: Scaler, regime: Regime, weights: WeightChoice) -> Finding:
    place = weights.module.place(weights.node, f"weights are loaded in {weights.description}")
    return rule.at(
        scaler.module,
        scaler.call,
        "GradScaler is active with float16 autocast while the weights may be loaded in bfloat16: "
        "their gradients are bfloat16, and unscaling them fails on CUDA",
        (place, *_evidence(regime), *_use_places(scaler)),
        follow_weights.fixes(project, scaler, regime, weights),
    )


def _fixes(project: Project, scaler: Scaler, regime: Regime) -> list[Fix | None]:
    if project.target == "portable" and regime.verdict == "always-bf16":
        return []  # it will be needed where the region then computes in float16
    dropped = drop_scaler.fix(project, scaler) if regime.verdict == "always-bf16" else None
    disabled = disable_scaler.fix(project, scaler, regime)
    return [dropped, disabled]


def _evidence(regime: Regime) -> Iterator[Place]:
    for region in regime.regions[:3]:
        words = sorted({value.name for value in region.values if hasattr(value, "name")})
        said = " or ".join(words) if words else "a dtype decided elsewhere"
        how = "" if region.autocast.dtype_node is not None or region.values == {BF16} else " (no dtype given)"
        yield region.autocast.module.place(region.autocast.node, f"autocast computes in {said}{how}")


def _use_places(scaler: Scaler) -> Iterator[Place]:
    for use in scaler.uses_of("scale", "step", "called")[:2]:
        yield use.module.place(use.node, "the scaler is used here")


rule = Rule.of("PF101", check)
