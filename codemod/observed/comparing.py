"""Two rehearsals of one command, before and after a change: what is new, what is gone, whether the losses agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .observation import Failure, FailureKind, Observation, TrainingSeen

TOLERANCES = {"bfloat16": 4e-2, "float16": 5e-3, "float32": 1e-4, "float64": 1e-9}
"""By dtype: how far two losses of a few steps may be apart, relative to the larger one. About ten roundings."""
NARROW_FIRST = tuple(TOLERANCES)
RAISING = (FailureKind.DTYPE_MISMATCH, FailureKind.KERNEL_MISSING, FailureKind.WRONG_DEVICE, FailureKind.OTHER)
DIED = ("error", "time", "memory", "interrupted")
ComparedRow = tuple[str, str, str, str]
"""What is compared, before, after, and what is said of it."""


def raising(observation: Observation) -> tuple[Failure, ...]:
    """The failures that would stop the program on its device."""
    return tuple(each for each in observation.failures if each.kind in RAISING)


@dataclass(frozen=True, slots=True)
class RunComparison:
    """What a change did to a program."""

    before: Observation
    after: Observation
    draws_anew: bool = False
    """Whether the same program gives other losses each time: they say nothing then."""

    @property
    def new(self) -> tuple[Failure, ...]:
        """Failures that were not there before; lines may have moved, so they are known by what they say."""
        known = Counter(map(_said, self.before.failures))
        found = []
        for each in self.after.failures:
            if each.kind is FailureKind.NONFINITE and _was_skipped(self.after.training):
                continue
            if known[_said(each)] > 0:
                known[_said(each)] -= 1
            else:
                found.append(each)
        return tuple(found)

    @property
    def still_raises(self) -> bool:
        return bool(raising(self.after)) or self.after.ended in DIED

    @property
    def is_worse(self) -> bool:
        """Whether something goes wrong that went right before."""
        died = self.after.ended in DIED and self.before.ended not in DIED
        return bool(self.new) or died or self.after.steps < self.before.steps or bool(self.apart)

    @property
    def dtype(self) -> str:
        """The narrowest floating dtype that takes part: it decides how far losses may be apart."""
        seen = {dtype for each in (self.before, self.after) for dtype in _dtypes(each)}
        return next((dtype for dtype in NARROW_FIRST if dtype in seen), "float32")

    @property
    def apart(self) -> tuple[int, ...]:
        """The steps, from 1, whose losses differ by more than the dtype explains."""
        if self.draws_anew:
            return ()
        pairs = zip(self.before.training.losses, self.after.training.losses, strict=False)
        far = (step for step, pair in enumerate(pairs, 1) if not _agree(*pair, TOLERANCES[self.dtype]))
        return tuple(step for step in far if step <= self.comparable)

    @property
    def comparable(self) -> int:
        """How many losses say something: what one run only has skipped has other weights behind it, and overflowed."""
        one, other = self.before.training, self.after.training
        return min({*one.skipped_losses} ^ {*other.skipped_losses}, default=max(len(one.losses), len(other.losses)))

    def rows(self) -> list[ComparedRow]:
        """The table: what is compared, before, after, remark."""
        before, after = self.before, self.after
        first, last = before.training, after.training
        rows: list[ComparedRow] = [
            ("raises", _places(before), _places(after), f"new: {self.new[0].said(80)}" if self.new else ""),
            ("steps", str(before.steps), str(after.steps), ""),
        ]
        rows += self._losses()
        later = last.dtypes
        rows += [(name, seen or "none seen", later[name] or "none seen", "") for name, seen in first.dtypes.items()]
        if first.skipped_steps is not None or last.skipped_steps is not None:
            rows.append(("skipped steps", _number(first.skipped_steps), _number(last.skipped_steps), ""))
        return rows

    def _losses(self) -> list[ComparedRow]:
        first, last = self.before.training.losses, self.after.training.losses
        rows = []
        for step in range(max(len(first), len(last))):
            one, other = _at(first, step), _at(last, step)
            rows.append((f"loss {step + 1}", _loss(first, step), _loss(last, step), self._remark(step, one, other)))
        return rows

    def _remark(self, step: int, one: float | None, other: float | None) -> str:
        if self.draws_anew:
            return "other numbers are drawn in each run"
        allowed = TOLERANCES[self.dtype]
        agree = _agree(one, other, allowed)
        if step > self.comparable or (step == self.comparable and not agree):
            return "not compared: one run skipped steps"
        if one is None or other is None:
            return ""
        word = "within" if agree else "not within"
        return f"{word} {allowed:g} ({self.dtype})"


def same_losses(one: Observation, other: Observation) -> bool:
    """Whether two runs of the same program gave the same losses."""
    return not RunComparison(one, other).apart


def _was_skipped(training: TrainingSeen) -> bool:
    """Whether each loss that was not finite is one of a step that a scaler skipped, and the training recovered."""
    bad = {step for step, loss in enumerate(training.losses) if loss is None}
    return bool(bad) and bad <= {*training.skipped_losses} and training.losses[-1] is not None


def _said(failure: Failure) -> tuple[str, str, str, str]:
    return failure.path, failure.error_type, failure.error, failure.op


def _dtypes(observation: Observation) -> set[str]:
    training = observation.training
    seen = {*training.parameter_dtypes, *training.gradient_dtypes, *training.loss_dtypes}
    return seen | {dtype for value in observation.values for dtype in value.dtypes}


def _agree(one: float | None, other: float | None, tolerance: float) -> bool:
    """Whether two losses are as close as rounding explains; one that is not finite agrees with any before it."""
    if one is None:
        return True
    return other is not None and abs(one - other) <= tolerance * max(abs(one), abs(other), 1e-3)


def _places(observation: Observation) -> str:
    found = raising(observation)
    if not found:
        return observation.ended if observation.ended in DIED else "nothing"
    where = dict.fromkeys(f"{each.path}:{each.span.row}" for each in found)
    names = [*where]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _number(value: int | None) -> str:
    return "no scaler" if value is None else str(value)


def _at(losses: Sequence[float | None], step: int) -> float | None:
    return losses[step] if step < len(losses) else None


def _loss(losses: Sequence[float | None], step: int) -> str:
    return loss_told(losses[step]) if step < len(losses) else "-"


def loss_told(value: float | None) -> str:
    """A loss as people read it."""
    return "not finite" if value is None else f"{value:.6g}"
