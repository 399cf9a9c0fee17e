"""What a run says as data: declarations and runs of the ledger, what was skipped or silenced, changes, the report.

Like `model`, frozen and free of imports beyond the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from .model import Finding, Fix, Place, Rule, Span


@dataclass(frozen=True, slots=True)
class Declaration:
    """One place that states a precision: which framework's key or call, which role, which value."""

    path: str
    span: Span
    framework: str
    """A framework's id, or ``torch`` for plain code."""
    key: str
    role: str
    value: str
    """As written; for what is decided at run time the expression or the alternatives."""
    regime: str = ""
    """The regime that it asks for by itself; empty for most roles."""
    condition: str = ""
    """What must hold for it to count (``enabled=args.amp``); empty: nothing that is known."""
    feeds: str = ""
    """Where the value acts and how it comes there, for what is followed; empty for the others."""

    @property
    def said(self) -> str:
        """What it says, in words: ``bf16 is true``; where a cast names its dtype (``model.half()``) only that."""
        if self.role in ("weights", "cast") and self.key.endswith(".to()"):
            return f"{self.key[:-1]}{self.value})"
        is_named = self.key.endswith((".half()", ".bfloat16()", ".float()")) or self.key == self.value.strip("'\"")
        return self.key if is_named else f"{self.key} is {self.value}"


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A declaration as a part of one run."""

    declaration: Declaration
    link: str
    """How its place belongs to the run."""
    status: str
    """``wins``, ``overridden``, ``contradicts``, or empty: it stands beside the others."""
    note: str = ""
    """By what it is overridden, which rule contradicts."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """One way a project is started, and what every place says about it."""

    title: str
    path: str
    row: int
    regime: str
    """What runs; ``unknown`` where no place says it."""
    effective: tuple[tuple[str, str], ...]
    """Role -> the value that counts."""
    entries: tuple[RunEntry, ...]
    otherwise: str = ""
    """What else it can run, and when: ``fp16-mixed with amp``; by default what is said beside it."""
    default: str = ""
    """What runs as long as nobody asks for ``otherwise``; empty where that is ``regime``."""
    trains: bool = True
    """False where its code is seen, and no training step in it."""

    @property
    def shown(self) -> str:
        """For people: ``fp32; fp16-mixed with amp``."""
        return "; ".join(part for part in (self.default or self.regime, self.otherwise) if part)


class MoveState(str, Enum):
    """What became of a run on the way to a target."""

    MOVED = "moved"
    """All of it has arrived."""
    THERE = "there"
    """It was at the target before."""
    LEFT = "left"
    """It is not at the target, and nothing of it was moved."""
    WITHDRAWN = "withdrawn"
    """It is left: with its edits it would not have arrived, so they were taken back."""
    PARTLY = "partly"
    """A part of it was moved, and a part is left, because somebody chose so."""
    UNSTATED = "unstated"
    """Nothing in it says what it computes in, and nothing in it asks for another 16-bit dtype."""
    LOOSE = "loose"
    """A file that names another 16-bit dtype, and that nothing is seen to read."""
    APART = "apart"
    """It stays: it trains nothing, by its name or its code, or computes on a CPU."""


@dataclass(frozen=True, slots=True)
class RunMove:
    """One run of a project, before and after a move."""

    title: str
    path: str
    row: int
    before: str
    """The regime that the ledger read before; ``unknown`` where no place says it."""
    after: str
    state: MoveState
    why: tuple[Place, ...] = ()
    """What is in the way, and what a person has to do there."""
    still: tuple[Place, ...] = ()
    """What names the 16-bit type that it was to leave, and is not known to count or not to count."""

    @property
    def is_left(self) -> bool:
        """Whether something is still to be done."""
        return self.state in (MoveState.LEFT, MoveState.WITHDRAWN, MoveState.PARTLY)


@dataclass(frozen=True, slots=True, order=True)
class Skipped:
    """A file that was not read or not edited, a rule that failed, a fix that was refused: one reason each."""

    path: str
    reason: str


class Silence(str, Enum):
    """Why a finding does not count."""

    COMMENT = "comment"
    """A ``# precfix: ignore[...]`` in the file."""
    SETTINGS = "settings"
    """``per-file-ignores``."""
    BASELINE = "baseline"
    """It is in the baseline file: known, and not to be repaired now."""
    UNCHANGED = "unchanged"
    """No line it speaks of has changed since ``--diff-base``."""


UNUSED_SUPPRESSION = "PF002"
"""The rule about comments that silence nothing; its fixes wait until everything else has settled."""


@dataclass(frozen=True, slots=True)
class Silenced:
    """A finding that somebody has said not to count, and how."""

    finding: Finding
    by: Silence
    reason: str = ""
    """What the comment gives as its reason; empty when it gives none."""


@dataclass(frozen=True, slots=True)
class Screened:
    """Findings, parted into those that count and those that do not."""

    findings: tuple[Finding, ...]
    silenced: tuple[Silenced, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """The regime to arrive at, and which source said so (flag, settings, profile, the project itself)."""

    regime: str
    source: str

    @classmethod
    def declared(cls, regime: str) -> Target:
        """What a project itself declares; ``unknown`` where that is not one regime."""
        is_known = regime != "unknown"
        return cls(regime, "declared by the project itself" if is_known else "the project declares no single precision")

    @property
    def said(self) -> str:
        """The target in words for people."""
        if self.regime == "unknown":
            return f"no target: {self.source}"
        return f"target {self.regime} ({self.source})"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after, as bytes."""

    path: str
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found, what it would change, and everything it could not do."""

    target: Target
    findings: tuple[Finding, ...]
    """What was found in the project as it is on disk."""
    remaining: tuple[Finding, ...] = ()
    """What is still found after the changes."""
    changes: tuple[FileChange, ...] = ()
    applied: tuple[tuple[Finding, Fix], ...] = ()
    """The findings whose fix is part of ``changes``, with the fix that was chosen."""
    skipped: tuple[Skipped, ...] = ()
    files_seen: int = 0
    files_parsed: int = 0
    failed_rules: tuple[Skipped, ...] = field(default=())
    """Rules that raised: ``path`` is the rule's code. Exit code 3 when nothing else is wrong."""
    silenced: tuple[Silenced, ...] = ()
    """What was found on disk and does not count, by comments, settings, a baseline or ``--diff-base``."""
    rules: tuple[Rule, ...] = ()
    """The rules that ran."""
    moves: tuple[RunMove, ...] = ()
    """With a target that was asked for: every run, before and after."""
    left_out: tuple[Skipped, ...] = ()
    """Files, and folders with a slash at the end, that were passed over on purpose: by ignore rules, settings, name."""
