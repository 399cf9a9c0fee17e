"""What one trainer is told in one place: a configuration file, a command line, a call, a mapping in Python code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...model import Edit, Place, Span
from ..framework import Framework, Key

TRUE, FALSE, NULL = "true", "false", "null"


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """One key of a framework with the value it has at one place."""

    key: Key
    value: str | None
    """As conditions write it: ``true``, ``bf16``, ``bfloat16`` for ``torch.bfloat16``; None where it is not known."""
    kind: str
    """``string bool number null dtype section`` · ``unknown`` (a variable, a placeholder)."""
    place: Place
    name: str
    """The key as it stands there."""
    index: int
    """Which of the scope's entries it is, for its editor."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a scope, with all choices made."""

    verb: str
    """``set`` and ``drop`` (of ``setting``), ``put`` (``key`` is absent), ``rename``."""
    key: Key
    value: str = ""
    setting: Setting | None = None


class Editor(Protocol):
    """How a scope is rewritten."""

    def edits(self, scope: Scope, steps: Sequence[Step]) -> tuple[Edit, ...]:
        """The edits that make all the steps. Raises EditRefused when one of them cannot be made."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """One place that a framework reads, with every known key in it."""

    framework: Framework
    path: str
    kind: str
    """``file`` · ``command`` · ``environment`` · ``call`` · ``mapping``."""
    span: Span
    title: str
    """For people: ``accelerate launch train.py``, ``TrainingArguments(...)``, the file's name."""
    settings: tuple[Setting, ...]
    is_open: bool
    """Keys may come from elsewhere (``**kwargs``, a config file named on the command line): absent is not default."""
    editor: Editor
    command_start: int | None = None
    """For the scopes of one command line: where it begins in its file."""
    words: tuple[str, ...] = ()
    """For the scopes of one command line: its words, variables of the same text filled in."""
    script: str = ""
    """For the scopes of one command line: what it runs behind the launchers; empty when it is not to be seen."""

    def of(self, key_name: str) -> list[Setting]:
        """The settings of one key, in text order."""
        return [setting for setting in self.settings if setting.key.name == key_name]

    def last(self, key_name: str) -> Setting | None:
        """The setting that counts where a key repeats."""
        found = self.of(key_name)
        return found[-1] if found else None

    @property
    def place(self) -> Place:
        return Place(self.path, self.span, self.title)

    @property
    def regimes(self) -> dict[str, Setting | None]:
        """Every regime that is asked for here and by which setting; None: by the framework's default."""
        found: dict[str, Setting | None] = {}
        off = {name for setting in self.effective() if setting.value == FALSE for name in setting.key.yields_to}
        for setting in self.effective():
            regime = setting.key.meaning(setting.value) if setting.value is not None else None
            if setting.key.name in off:
                continue
            if regime is not None and not (regime != "fp32" and self._is_refined(setting.key)):
                found.setdefault(regime, setting)
        if len(found) > 1 and "fp32" in found:
            found.pop("fp32")  # one switch is off, another one is on
        for family in ("bf16", "fp16"):
            if f"{family}-true" in found:
                found.pop(f"{family}-mixed", None)  # autocast over weights that are half already
        if not found and not self.is_open and self.framework.default_regime and self.is_decided:
            found[self.framework.default_regime] = None
        return found

    @property
    def regime(self) -> str | None:
        """The one regime that is asked for here; None: none, several, or not to be told."""
        found = list(self.regimes)
        return found[0] if len(found) == 1 and self.is_decided else None

    @property
    def is_decided(self) -> bool:
        """Whether every leading key has a known value."""
        return all(setting.value is not None for setting in self.effective() if setting.key.means)

    def _is_refined(self, key: Key) -> bool:
        """Whether a key beside this one says more, here or in what this place builds on."""
        return any(self.of(name) or self.is_open for name in key.yields_to)

    def effective(self) -> Iterator[Setting]:
        """The settings that count: of a key that repeats at the same place, the last one."""
        last = {(setting.key.name, setting.name): setting for setting in self.settings}
        return iter(last.values())
