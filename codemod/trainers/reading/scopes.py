"""What one trainer is told in one place: a configuration file, a command line, a call, a mapping in Python code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...formats.text import CommandLine
from ...model import Place, Span
from ...python.names import ModuleNames
from ...torch.dtypes import UNKNOWN, Constant, Dtype
from ..framework import Framework, FrameworkKey
from ..parsers.interface import Interface
from .configs import ConfigFile, TextEntry
from .mapping_items import MappingItem

TRUE, FALSE, NULL, AUTO = "true", "false", "null", "auto"


SettingKind: TypeAlias = Literal["string", "bool", "number", "null", "dtype", "section", "name", "unknown"]


ScopeKind: TypeAlias = Literal["file", "command", "environment", "call", "mapping"]


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """One key of a framework with the value it has at one place."""

    key: FrameworkKey
    value: str | None
    """As conditions write it: ``true``, ``bf16``, ``bfloat16`` for ``torch.bfloat16``; None where it is not known."""
    kind: SettingKind
    """``name``: a member of an enumeration; ``unknown``: a variable, a placeholder."""
    place: Place
    name: str
    """The key as it stands there."""
    index: int
    """Which entry of its text, or item of its code, it is."""


@dataclass(frozen=True, slots=True, eq=False)
class TextOrigin:
    """The part of a configuration text that a scope was read from."""

    config: ConfigFile
    section: TextEntry | None = None
    """The mapping that is its top level; None: the whole text."""
    call: int | None = None
    """The command line, by number, whose words it holds."""
    first: int = 0
    """The entry it begins with: those of a launcher before it belong to another scope."""

    def holds(self, entry: TextEntry) -> bool:
        """Whether an entry of the text, changed or not, belongs to the scope."""
        return self.call in (entry.call, *entry.also) and entry.index >= self.first


@dataclass(frozen=True, slots=True, eq=False)
class CodeOrigin:
    """The Python code that a scope was read from."""

    module: ModuleNames
    items: tuple[MappingItem, ...]
    node: ast.Call | ast.Dict | None
    """The call or the dictionary; None: the variables of the module."""


@dataclass(frozen=True, slots=True, eq=False)
class SettingScope:
    """One place that a framework reads, with every known key in it."""

    framework: Framework
    path: str
    kind: ScopeKind
    """``file`` · ``command`` · ``environment`` · ``call`` · ``mapping``."""
    span: Span
    title: str
    """For people: ``accelerate launch train.py``, ``TrainingArguments(...)``, the file's name."""
    settings: tuple[Setting, ...]
    is_open: bool
    """Keys may come from elsewhere (``**kwargs``, a config file named on the command line): absent is not default."""
    origin: TextOrigin | CodeOrigin
    command: CommandLine | None = None
    """For the scopes of one command line: that line, variables of the same text filled in."""
    readers: tuple[Interface, ...] = ()
    """The programs whose parser reads it; empty where none is seen."""

    def takes(self, key: FrameworkKey) -> bool:
        """Whether what reads this place accepts a key, or may accept it."""
        return not self.readers or any(reader.takes_key(key, self.framework) for reader in self.readers)

    def is_of_launcher(self, setting: Setting) -> bool:
        """Whether a flag stands before the script, so that the launcher reads it."""
        origin = self.origin
        return isinstance(origin, TextOrigin) and origin.call is not None and setting.index < origin.first

    def of(self, key_name: str) -> list[Setting]:
        """The settings of one key, in text order."""
        return [setting for setting in self.settings if setting.key.name == key_name]

    def last(self, key_name: str) -> Setting | None:
        """The setting that counts where a key repeats."""
        found = self.of(key_name)
        return found[-1] if found else None

    def argument(self, setting: Setting | None) -> tuple[ModuleNames, ast.expr] | None:
        """The module and the expression that gives an argument of a call, or a key of a dictionary, its value.

        None for other settings.
        """
        is_written = isinstance(self.origin, CodeOrigin) and self.origin.node is not None
        if setting is None or self.kind not in ("call", "mapping") or not is_written:
            return None
        assert isinstance(self.origin, CodeOrigin)
        return self.origin.module, self.origin.items[setting.index].value

    @property
    def call(self) -> ast.Call | None:
        """The call that it was read from; None for other kinds."""
        node = self.origin.node if self.kind == "call" and isinstance(self.origin, CodeOrigin) else None
        return node if isinstance(node, ast.Call) else None

    def is_replaced(self, names: Set[str]) -> bool:
        """Whether other values of these variables take the place of all that a module decides."""
        leading = {item.name.partition(".")[0] for item in self.settings if item.key.means}
        return self.is_of_module and bool(leading) and leading <= names

    @property
    def is_of_module(self) -> bool:
        """Whether it is the variables of a Python file."""
        return isinstance(self.origin, CodeOrigin) and self.origin.node is None

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
        if found.keys() == {"fp32"} and self.is_filled_in:
            return {}  # one switch is off, the other one is the trainer's
        default = self.framework.default_regime if not self.is_left_open else None
        if not found and not self.is_open and default and self.is_decided:
            stated = (item for item in self.effective() if item.value == FALSE)
            refused = next((item for item in stated if item.key.meaning(TRUE) == default), None)  # ``bf16: false``
            found["fp32" if refused is not None else default] = refused
        return found

    @property
    def regime(self) -> str | None:
        """The one regime that is asked for here; None: none, several, or not to be told."""
        found = list(self.regimes)
        return found[0] if len(found) == 1 and self.is_decided else None

    @property
    def is_left_open(self) -> bool:
        """Whether nobody knows what runs where nothing is said, because of a key that is on here."""
        return any(item.value != FALSE for name in self.framework.default_unless for item in self.of(name))

    @property
    def is_filled_in(self) -> bool:
        """Whether a switch is left to the trainer, which fills in what it is itself asked for."""
        return any(item.value == AUTO and item.key.means for item in self.effective())

    @property
    def is_decided(self) -> bool:
        """Whether every leading key has a known value, or is a section with another one in it."""
        leading = [item for item in self.effective() if item.key.means]
        open_ones = (item for item in leading if item.value is None)
        return all(item.kind == "section" and any(_is_in(other, item) for other in leading) for item in open_ones)

    def _is_refined(self, key: FrameworkKey) -> bool:
        """Whether a key beside this one says more, here or in what this place builds on."""
        return any(self.of(name) or self.is_open for name in key.yields_to)

    def effective(self) -> Iterator[Setting]:
        """The settings that count: of a key that repeats at the same place, the last one."""
        last = {(setting.key.name, setting.name): setting for setting in self.settings}
        return iter(last.values())


def _is_in(setting: Setting, section: Setting) -> bool:
    """Whether a setting with a value stands in a section."""
    return setting.value is not None and setting.name.startswith(f"{section.name}.")


def token_of_constant(value: Constant) -> str | None:
    """A constant as conditions write it."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, Dtype):
        return value.name
    return None if value == UNKNOWN else str(value)
