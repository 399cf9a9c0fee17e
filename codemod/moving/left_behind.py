"""What stays as it was in a run that has moved, and has to move with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..model import Place
from ..outcome import Declaration, Target
from ..purpose.files import purpose_of, words_of
from ..purpose.regimes import regime_of
from ..purpose.targets import compute_dtype
from ..source.project import Project
from ..torch.dtypes import BF16, DTYPE_WORDS, HALVES, Constant, as_dtype
from ..torch.scalers import scalers
from ..trainers.reading.run_files import is_built_config
from ..trainers.reading.run_settings import TEXT
from .pairs import Pair

CODE = (".py", ".ipynb")
GIVEN = ("entry", "argument")
"""The roles of what a file or a call states for others to read."""
FEEDS = "feeds"
"""How it begins where a value is followed to the place at which it acts."""
TRUTH = ("true", "1", "yes", "on")
DECIDED = ("wins", "overridden")


def left_behind(after: Project, pair: Pair, target: Target) -> Iterator[Place]:
    """The places of a run, in its new texts, that do not fit what it computes in now."""
    found = [*_other_weights(pair, target), *_other_arguments(after, pair, target)]
    told = {place.path for place in found}
    yield from found
    yield from (place for place in _other_constants(pair, target) if place.path not in told)
    if compute_dtype(target.regime) == BF16:
        yield from _scalers(after, pair)


def _other_weights(pair: Pair, target: Target) -> Iterator[Place]:
    """What is still cast to the other 16-bit dtype, which a run of mixed precision then computes with or beside."""
    wanted = compute_dtype(target.regime)
    told = [entry.declaration for entry in pair.entries if entry.declaration.role == "weights"]
    for item in told if wanted in HALVES else ():
        if not item.condition and dtype_of(item) in {*HALVES} - {wanted}:
            yield Place(item.path, item.span, f"{item.key} stays {item.value}: move it by hand")


def _other_arguments(after: Project, pair: Pair, target: Target) -> Iterator[Place]:
    """Entries of files and dictionaries that keep the old 16-bit value: what reads them is not followed."""
    wanted = compute_dtype(target.regime)
    moved = {_last(entry.declaration.key) for entry in pair.entries if entry.status == "wins"}
    told = [entry.declaration for entry in pair.entries if entry.status not in DECIDED]
    here = {(item.path, _last(item.key)) for item in told if dtype_of(item) == wanted and item.feeds.startswith(FEEDS)}
    told = [item for item in told if item.framework != TEXT or (item.path, _last(item.key)) not in here]
    for item in told if wanted in HALVES else ():
        if _counts(after, item, moved) and dtype_of(item) in {*HALVES} - {wanted}:
            yield Place(item.path, item.span, f"{item.key} stays {item.value}: move it by hand")


def _other_constants(pair: Pair, target: Target) -> Iterator[Place]:
    """Variables that are the other 16-bit dtype on every path that names one: no branch picks the target."""
    wanted = compute_dtype(target.regime)
    told = [entry.declaration for entry in pair.entries if entry.declaration.role == "constant"]
    known = {(item.path, item.key) for item in told if dtype_of(item) == wanted}
    for item in told if wanted in HALVES else ():
        if dtype_of(item) in {*HALVES} - {wanted} and (item.path, item.key) not in known:
            yield Place(item.path, item.span, f"{item.key} stays {item.value}: move it by hand")


def _counts(project: Project, item: Declaration, moved: Collection[str]) -> bool:
    """Whether a value reaches the run: of a file that it reads, or the very setting that has moved."""
    if item.role not in GIVEN or item.condition or purpose_of(item.path).is_left_alone:
        return False
    is_of_file = not item.path.endswith(CODE) or is_built_config(project, item.path)
    return is_of_file or (item.role == "entry" and _last(item.key) in moved)


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
    """The dtype that a value names, as code or a file writes it; None for a choice between several."""
    return as_dtype(item.value.strip("\"'")) if " " not in item.value else None


def named_by(item: Declaration) -> Constant:
    """The dtype that a value names, or the switch that it turns on: ``--use_fp16 True``, ``Arguments(fp16=True)``."""
    if item.value.lower() not in TRUTH:
        return dtype_of(item)
    return next((DTYPE_WORDS[word] for word in words_of(item.key) if word in DTYPE_WORDS), None)
