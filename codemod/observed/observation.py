"""An observation: what ``precfix rehearse`` saw while a program ran, as plain data (docs/rehearsal.md).

Known without torch. `observed_file` reads it. It speaks of one run: what other runs do is for the rules to say.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ..model import Place, Span

MAX_COMMAND = 80
"""Characters of the command that a message shows."""
_LINES_ONLY = ("3.9", "3.10")


class FailureKind(str, Enum):
    """What went wrong."""

    DTYPE_MISMATCH = "dtype_mismatch"
    KERNEL_MISSING = "kernel_missing"
    NONFINITE = "nonfinite"
    WRONG_DEVICE = "wrong_device"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SeenValue:
    """The tensors that one expression gave, over all times that it ran."""

    path: str
    span: Span
    dtypes: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Birth:
    """One step of how a tensor got its dtype: the oldest comes first."""

    path: str
    row: int
    column: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class SeenOperand:
    """A tensor that an operation was given when it failed."""

    dtype: str
    shape: tuple[int, ...] = ()
    device: str = ""
    born: tuple[Birth, ...] = ()
    role: str = ""
    """``parameter`` or ``buffer`` where a module owns it; ``argument``, ``other`` or empty elsewhere."""
    names: tuple[str, ...] = ()
    """What it is called where the call stands: ``x``, ``self.scale``."""

    @property
    def is_owned(self) -> bool:
        """Whether it is a parameter or a buffer of some module."""
        return self.role in ("parameter", "buffer")

    def __str__(self) -> str:
        return f"{self.dtype} [{', '.join(map(str, self.shape))}]" if self.shape else self.dtype


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that went wrong at one place of the user's code."""

    kind: FailureKind
    path: str
    span: Span
    error: str = ""
    error_type: str = ""
    op: str = ""
    phase: str = ""
    step: int = 0
    operands: tuple[SeenOperand, ...] = ()
    stack: tuple[Place, ...] = ()
    """The calls of the user's code that led here, innermost first."""
    module: str = ""
    """The path of the module that was running: ``model.layers.0.fc``."""
    module_class: str = ""
    """The class of the module that the place calls: ``torch.nn.modules.linear.Linear``; empty for a function."""
    autocast: str = ""
    """The dtype of the autocast region that was open; empty where none was."""
    count: int = 1
    assumed: bool = False
    """Whether it was seen behind an earlier failure that the rehearsal had cast away."""

    def said(self, most: int) -> str:
        """The error on one line of at most so many characters."""
        return " ".join(self.error.split())[:most]


@dataclass(frozen=True, slots=True)
class TrainingSeen:
    """What the training steps had and gave."""

    losses: tuple[float | None, ...] = ()
    loss_dtypes: tuple[str, ...] = ()
    parameter_dtypes: Mapping[str, int] = field(default_factory=dict)
    gradient_dtypes: Mapping[str, int] = field(default_factory=dict)
    optimizer_state_dtypes: Mapping[str, int] = field(default_factory=dict)
    autocast: Mapping[str, int] = field(default_factory=dict)
    """Device and dtype of the regions that were entered -> how many there were."""
    skipped_steps: int | None = None
    """Steps that a scaler skipped; None without an enabled scaler."""
    skipped_losses: tuple[int, ...] = ()
    """Which of the losses, from 0, belong to such steps."""

    @property
    def dtypes(self) -> dict[str, str]:
        """How many tensors of which dtype there were, by what they are: ``"weights": "12 bfloat16"``."""
        named = (self.parameter_dtypes, self.gradient_dtypes, self.optimizer_state_dtypes)
        said = (", ".join(f"{count} {name}" for name, count in sorted(each.items())) for each in named)
        return dict(zip(("weights", "gradients", "optimizer state"), said, strict=True))


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of one command."""

    command: tuple[str, ...] = ()
    torch: str = ""
    python: str = ""
    device: str = ""
    simulated: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    """User file -> SHA-256 of its bytes."""
    steps: int = 0
    ended: str = ""
    error: str = ""
    """What the program died of, where that was no failure of a dtype."""
    died: Failure | None = None
    """What ended the program, where that was in its own files."""
    values: tuple[SeenValue, ...] = ()
    failures: tuple[Failure, ...] = ()
    training: TrainingSeen = field(default_factory=TrainingSeen)
    notes: tuple[str, ...] = ()

    @property
    def has_columns(self) -> bool:
        """Whether a place is that of an expression: Python says only the line before 3.11."""
        return self.python not in _LINES_ONLY

    @property
    def name(self) -> str:
        """The command as a message calls it."""
        text = shlex.join(self.command)
        return f"`{text if len(text) <= MAX_COMMAND else f'{text[: MAX_COMMAND - 3]}...'}`"
