"""What stays as it was in a run that has moved, and has to move with it."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Place
from ..outcome import Declaration, Target
from ..purpose.regimes import regime_of
from ..purpose.targets import compute_dtype
from ..source.project import Project
from ..torch.dtypes import BF16, HALVES, Constant, as_dtype
from ..torch.scalers import scalers
from ..trainers.reading.stated_casts import names_model
from .pairs import Pair


def left_behind(after: Project, pair: Pair, target: Target) -> Iterator[Place]:
    """The places of a run, in its new texts, that do not fit what it computes in now."""
    yield from _other_weights(pair, target)
    yield from _other_arguments(pair, target)
    if compute_dtype(target.regime) == BF16:
        yield from _scalers(after, pair)


def _other_weights(pair: Pair, target: Target) -> Iterator[Place]:
    """Weights that are still cast to the other 16-bit dtype, which a run of mixed precision then computes with."""
    wanted = compute_dtype(target.regime)
    told = [entry.declaration for entry in pair.entries if entry.declaration.role == "weights"]
    found = [item for item in told if " " not in item.value and not item.condition]  # not ``x if args.bf16 else None``
    found = [item for item in found if not item.key.endswith("()") or names_model(item.key.rpartition(".")[0])]
    for item in found if wanted in HALVES else ():
        if dtype_of(item) in {*HALVES} - {wanted}:
            yield Place(item.path, item.span, f"{item.key} stays {item.value}: move it by hand")


def _other_arguments(pair: Pair, target: Target) -> Iterator[Place]:
    """Entries of dictionaries that give a setting which the run has moved its old 16-bit value."""
    wanted = compute_dtype(target.regime)
    moved = {_last(entry.declaration.key) for entry in pair.entries if entry.status == "wins"}
    told = (entry.declaration for entry in pair.entries if entry.declaration.role == "entry" and not entry.note)
    for item in told if wanted in HALVES else ():
        if _last(item.key) in moved and dtype_of(item) in {*HALVES} - {wanted}:
            yield Place(item.path, item.span, f"{item.key} stays {item.value}: move it by hand")


def _last(key: str) -> str:
    return key.rpartition(".")[2].lstrip("-")


def _scalers(after: Project, pair: Pair) -> Iterator[Place]:
    """Scalers around steps in bfloat16 whose switch is not known to be off; of one that is on, a rule tells."""
    for scaler in scalers(after):
        if scaler.module.document.path in pair.paths and scaler.is_used and not scaler.switched_off:
            regime = regime_of(after, scaler)
            if regime.verdict == "always-bf16" and regime.active is None:
                yield scaler.module.place(scaler.call, "this GradScaler may stay on, which bfloat16 does not need")


def dtype_of(item: Declaration) -> Constant:
    """The dtype that a value names, as code or a file writes it."""
    return as_dtype(item.value.strip("\"'"))
