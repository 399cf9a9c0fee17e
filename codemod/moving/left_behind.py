"""What stays as it was in a run that has moved, and has to move with it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from ..model import Place, Span
from ..outcome import Declaration, RunEntry, Target
from ..purpose.files import purpose_of, words_of
from ..purpose.flagged import is_run_at
from ..purpose.proved_reach import is_reached
from ..purpose.regimes import regime_of
from ..purpose.targets import compute_dtype
from ..python.names import modules_at
from ..source.project import Project
from ..torch.api import WEIGHT_CASTS
from ..torch.dtypes import BF16, DTYPE_WORDS, FP16, HALVES, Constant, Dtype, as_dtype
from ..torch.scaler_edits.needs_of_disabling import scaled_clips
from ..torch.scalers import Scaler, scalers
from ..trainers.reading.configs import opened
from ..trainers.reading.run_files import is_built_config
from ..trainers.reading.run_settings import TEXT
from ..trainers.reading.stated_casts import AFTERWARDS, NOT_TRAINED, PARTS
from ..trainers.reading.stated_words import speaks
from .pairs import RunPair

CODE = (".py", ".ipynb")
GIVEN = ("entry", "argument")
"""The roles of what a file or a call states for others to read."""
APEX_LEVELS = ("O1", "O2", "O3")
"""Levels of apex, all of them float16."""
SECTION = "16.enabled"
"""How the key of a section of DeepSpeed's ends whose switch code decides."""
TRUTH = ("true", "1", "yes", "on")
UNSET = ("auto", "false")
"""Values of switches that ask for nothing."""
SAVED = frozenset(("save", "saved", "export", "checkpoint", "storage"))
"""Words of settings for what is written to disk, which a run does not compute in."""
DECIDED = ("wins", "overridden")
IDLE_UNDER = "bf16-mixed"
"""The regime under which a scaler may stay on."""


def left_behind(after: Project, pair: RunPair, target: Target) -> Iterator[Place]:
    """The places of a run, in its new texts, that do not fit what it computes in now.

    Casts and loads in the other 16-bit dtype, which it then computes with or beside; entries of files and dictionaries
    whose reader is not followed; variables that are the other dtype on every path that names one.
    """
    others = other_halves(target) if compute_dtype(target.regime) in HALVES else frozenset()
    entries = pair.entries
    moved = {last_part(entry.declaration.key) for entry in entries if entry.status == "wins"}
    told = [entry.declaration for entry in entries]
    arrived = {(item.path, last_part(item.key)) for item in told if dtype_of(item) in {*HALVES} - others}
    counting = ("", NOT_TRAINED, AFTERWARDS, PARTS)
    found = [item for item in told if item.role in ("weights", "cast") and item.condition in counting]
    found += [entry.declaration for entry in entries if _counts(after, entry, moved, arrived)]
    stays = [item for item in found if dtype_of(item) in others and is_run_at(after, item.path, item.span)]
    stays = [item for item in stays if not is_cast_for_nobody(after, item.path, item.span)]
    paths = {item.path for item in stays}
    constants = [item for item in told if item.role == "constant" and item.path not in paths]
    stays += [item for item in constants if dtype_of(item) in others and (item.path, item.key) not in arrived]
    for item in dict.fromkeys(stays):
        yield Place(item.path, item.span, f"{item.key} stays {item.value}: move it by hand")
    if pair.before.title == pair.before.path and not pair.before.path.endswith(CODE):
        yield from _in_file(after, pair, others)
    if compute_dtype(target.regime) == BF16:
        yield from doubtful_scalers(after, pair) if target.regime != IDLE_UNDER else ()


def is_cast_for_nobody(project: Project, path: str, span: Span) -> bool:
    """Whether a place is a cast in a function that nothing calls, whatever tests say."""
    for module in modules_at(project, [path]):
        casts = (call for name in WEIGHT_CASTS for call in module.calls_by_name.get(name, ()))
        for call in (call for call in casts if module.document.span(call) == span):
            return not is_reached(project, module, call, lambda _project, _place: True)
    return False


def _in_file(after: Project, pair: RunPair, others: Collection[Dtype]) -> Iterator[Place]:
    """What a file that nothing is seen to read names beside what the trainer takes: quantized weights' dtype."""
    path = pair.before.path
    document = after.document(path)
    known = {entry.declaration.span.row for entry in pair.entries if entry.declaration.path == path}
    for config in opened(after, document) if document is not None else ():
        for entry in config.text.entries:
            told = entry.kind == "pair" and entry.is_scalar and speaks(entry.name)
            is_others = told and SAVED.isdisjoint(words_of(entry.name)) and as_dtype(str(entry.value)) in others
            if is_others and config.span(entry).row not in known:
                yield Place(path, config.span(entry), f"{entry.name} stays {entry.value}: move it by hand")


def other_halves(target: Target) -> frozenset[Dtype]:
    """The 16-bit dtypes that a run is to leave."""
    wanted = compute_dtype(target.regime)
    return frozenset(HALVES) - {wanted} if wanted is not None else frozenset()


def _counts(project: Project, entry: RunEntry, moved: Collection[str], arrived: Collection[tuple[str, str]]) -> bool:
    """Whether a value reaches the run: of a file that it reads, or the very setting that has moved."""
    item = entry.declaration
    if entry.status in DECIDED or item.role not in GIVEN or item.condition or purpose_of(item.path).is_left_alone:
        return False
    if not SAVED.isdisjoint(words_of(last_part(item.key))):
        return False
    if item.framework == TEXT and (item.path, last_part(item.key)) in arrived:
        return False
    is_of_file = not item.path.endswith(CODE) or is_built_config(project, item.path)
    return is_of_file or (item.role == "entry" and last_part(item.key) in moved)


def last_part(key: str) -> str:
    """The name of a key without the sections that it stands in."""
    return key.rpartition(".")[2].lstrip("-")


def idle_scalers(after: Project, target: Target) -> Iterator[Place]:
    """Scalers that stay on around steps in bfloat16 and the float32 weights of a mixed run: they cost only time.

    Not those whose gradients are clipped while they are scaled: nothing overflows, so the scale grows on and on, and
    the threshold shrinks with it.
    """
    if target.regime == IDLE_UNDER:
        for scaler, place, is_on in _around_bf16(after):
            if is_on is not False and not any(scaled_clips(after, scaler)):
                yield place


def clipped_scaled(project: Project) -> set[tuple[str, str]]:
    """The clips that work on scaled gradients, as code says them: of scalers that are on, whatever computes there."""
    on = (item for item in scalers(project) if item.is_used and not item.switched_off)
    on = (item for item in on if regime_of(project, item).active is True)
    clips = (clip for item in on for clip in scaled_clips(project, item))
    return {(clip.module.document.path, ast.unparse(clip.call)) for clip in clips}


def doubtful_scalers(after: Project, pair: RunPair) -> Iterator[Place]:
    """Scalers around steps in bfloat16 whose switch is not known to be off; of one that is on, a rule tells."""
    return (place for _, place, is_on in _around_bf16(after) if is_on is None and place.path in pair.paths)


def scalers_left_on(pair: RunPair) -> Iterator[Place]:
    """Scalers of a run in float32 that no switch turns off."""
    for item in (entry.declaration for entry in pair.entries):
        if item.role == "scaler" and item.value == "on" and not item.condition:
            yield Place(item.path, item.span, "this GradScaler stays on, which float32 does not need")


def _around_bf16(after: Project) -> Iterator[tuple[Scaler, Place, bool | None]]:
    for scaler in scalers(after):
        if scaler.is_used and not scaler.switched_off:
            regime = regime_of(after, scaler)
            if regime.verdict == "always-bf16":
                said = "this GradScaler may stay on, which bfloat16 does not need"
                yield scaler, scaler.module.place(scaler.call, said), regime.active


def dtype_of(item: Declaration) -> Constant:
    """The dtype that a value names, as code or a file writes it; None for a choice between several, or ``args.x``."""
    is_one = " " not in item.value and "." not in item.value.removeprefix("torch.")
    return as_dtype(item.value.strip("\"'")) if is_one else None


def named_by(item: Declaration) -> Constant:
    """The dtype that a value names, or the switch that it turns on: ``--use_fp16 True``, ``Arguments(fp16=True)``."""
    if item.role == "scaler" or item.value.lower() in UNSET:
        return None
    if item.value in APEX_LEVELS:
        return FP16
    if item.value.lower() not in TRUTH and not item.key.endswith(SECTION):
        return dtype_of(item)
    return section_dtype(item)


def section_dtype(item: Declaration) -> Constant:
    """The dtype that a key names: ``fp16.enabled``, ``--use_bf16``."""
    return next((DTYPE_WORDS[word] for word in words_of(item.key) if word in DTYPE_WORDS), None)
