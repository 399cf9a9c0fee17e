"""The words between a check and the process that runs it: task, step, failure, result. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Protocol, TypeAlias, cast

from ..codemod.profiles.profile import ProfileJson, Status

Numbers: TypeAlias = "dict[str, ProfileJson]"
"""What a step measured: names to JSON values."""
ProbeStep: TypeAlias = "tuple[str, Callable[[], Numbers]]"
"""A name and what to run. The name is written down before it runs, so that a crash can be told from the others."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a check is asked: the device as torch spells it, and whether time is short."""

    device: str
    quick: bool = False

    @property
    def kind(self) -> str:
        """``cuda`` for ``cuda:0``."""
        return self.device.partition(":")[0]


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Why a step or a whole check failed: a class, what to do about it, and what was raised."""

    kind: str
    sentence: str
    message: str = ""
    sticky: bool = False
    """The process cannot go on: CUDA answers every later call with the same error."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step measured, or why it did not."""

    numbers: Mapping[str, ProfileJson] = field(default_factory=dict)
    failure: StepFailure | None = None
    status: Status = Status.OK

    def number(self, name: str) -> float | None:
        """A measured number; None when it was not measured or is not a number."""
        value = self.numbers.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self, name: str) -> str:
        """A measured text, or an empty one."""
        value = self.numbers.get(name)
        return value if isinstance(value, str) else ""

    def flag(self, name: str) -> bool | None:
        """A measured yes or no; None when unknown."""
        value = self.numbers.get(name)
        return value if isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Judgment:
    """What the steps of a check amount to: whether the bounds hold, and one sentence."""

    ok: bool
    sentence: str
    failure: str = ""
    """The class, when it is not ok: a step's, or ``out-of-bounds``."""


class Check(Protocol):
    """A module of ``checks/``. ``steps`` runs in the child and imports torch, ``judge`` in the parent and does not."""

    def steps(self, task: Task) -> Iterator[ProbeStep]:
        """The steps, in order; made lazily, so that building one may fail as part of running it."""
        ...

    def judge(self, results: Mapping[str, StepResult], task: Task) -> Judgment: ...


def as_check(module: ModuleType) -> Check:
    return cast(Check, module)


def first_failure(results: Mapping[str, StepResult]) -> Judgment | None:
    """The judgment of a check in which a step failed; None when none did."""
    for name, result in results.items():
        if result.failure is not None:
            return Judgment(False, f"{name}: {result.failure.sentence}", result.failure.kind)
    return None
