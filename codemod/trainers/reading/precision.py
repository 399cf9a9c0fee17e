"""What a trainer is asked to compute in: the one answer for calls, command lines, files and variables.

A setting that is not written out is followed to every value it can have, and each choice of values is read as the
trainer's table reads it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice, product

from ...model import Place
from ...python.names import ModuleNames
from ...releases.pins import allowed
from ...source.facts import memo
from ...source.project import Project
from ...torch.dtype_values import constants_of
from ...torch.machine_tests import asks_machine
from ..framework import FAMILIES
from .scopes import FALSE, NULL, TRUE, CodeOrigin, Setting, SettingScope, token_of_constant

MAX_CHOICES = 16
"""Choices of values that are read: a place has one or two leading settings, of a few values each."""


class Compute(str, Enum):
    """What a trainer computes in."""

    BF16 = "bfloat16"
    FP16 = "float16"
    HARDWARE = "bfloat16 where the GPU has it"
    FP32 = "float32"
    UNKNOWN = "unknown"


FAMILY = {"bf16": Compute.BF16, "fp16": Compute.FP16, "fp32": Compute.FP32}


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """What one place asks of a trainer, and the setting that decides."""

    scope: SettingScope
    regimes: frozenset[str]
    """Every regime that it can ask for, as far as that is known."""
    compute: Compute
    """What it certainly asks for."""
    setting: Setting | None = None
    """None where no setting asks for anything, or the trainer's default does."""

    @property
    def place(self) -> Place:
        return self.setting.place if self.setting is not None else self.scope.place

    @property
    def module(self) -> ModuleNames:
        """The module of a call."""
        assert isinstance(self.scope.origin, CodeOrigin)
        return self.scope.origin.module

    @property
    def call(self) -> ast.Call:
        assert self.scope.call is not None
        return self.scope.call

    @property
    def node(self) -> ast.expr | None:
        """The value of the argument that decides; None where none does."""
        argument = self.scope.argument(self.setting)
        return argument[1] if argument is not None else None

    @property
    def partitioned(self) -> bool:
        """Whether DeepSpeed or FSDP holds the weights, which then follow its own settings."""
        return any(item.value not in (NULL, FALSE, "") for item in self.scope.of("sharding"))

    def is_changed_in(self, modules: Iterable[ModuleNames]) -> bool:
        """Whether ``args.bf16 = ...`` is written in any of these modules, which are given the object."""
        names = {name for key in self.scope.framework.keys if key.means for name in key.arguments}
        stores = (item for module in modules for name in names for item in module.attribute_stores.get(name, ()))
        return any(receiver is not None for receiver, _, _ in stores)


@memo
def precision_of(project: Project, scope: SettingScope) -> Precision:
    leading = [setting for setting in scope.effective() if setting.key.means]
    values = [tokens_of(project, scope, setting) for setting in leading]
    found: dict[str, Setting | None] = {}
    is_known = True
    for chosen in islice(product(*values), MAX_CHOICES):
        filled = {setting: replace(setting, value=value) for setting, value in zip(leading, chosen, strict=True)}
        tried = replace(scope, settings=tuple(filled.get(setting, setting) for setting in scope.settings))
        asked = tried.regimes or _without_any(tried)
        is_known = is_known and len(asked) == 1 and _is_sure_default(project, tried, asked)
        original = {new: setting for setting, new in filled.items()}
        for regime, setting in asked.items():
            found.setdefault(regime, original.get(setting, setting) if setting is not None else None)
    by_machine = next((item for item in leading if _is_by_machine(project, scope, item)), None)
    if by_machine is not None:
        return Precision(scope, frozenset(found), Compute.HARDWARE, by_machine)
    families = {FAMILIES[regime] for regime in found}
    compute = FAMILY[next(iter(families))] if is_known and len(families) == 1 else Compute.UNKNOWN
    return Precision(scope, frozenset(found), compute, next(iter(found.values()), None))


def tokens_of(project: Project, scope: SettingScope, setting: Setting) -> list[str | None]:
    """Every value that a setting can have, as conditions write it; None among them for one that is not known."""
    argument = scope.argument(setting)
    if setting.value is not None or setting.kind == "section" or argument is None:
        return [setting.value]
    return sorted({token_of_constant(value) for value in constants_of(project, *argument)}, key=str)


def _without_any(scope: SettingScope) -> dict[str, Setting | None]:
    """float32, where every leading key is off: given as such, or left out where that means off."""
    keys = [key for key in scope.framework.keys if key.means and key.arguments]
    values = [setting.value if (setting := scope.last(key.name)) is not None else key.default for key in keys]
    is_off = bool(keys) and not scope.is_open and all(value in (FALSE, NULL) for value in values)
    return {"fp32": None} if is_off else {}


def _is_sure_default(project: Project, scope: SettingScope, asked: dict[str, Setting | None]) -> bool:
    """Whether what is asked for is not the default of a release that the pins may leave out."""
    since, framework = scope.framework.default_since, scope.framework
    if not since or any(setting is not None for setting in asked.values()):
        return True
    versions = allowed(project, framework.packages[0], scope.path)
    return versions is not None and not versions.may_be_below(since)


def _is_by_machine(project: Project, scope: SettingScope, setting: Setting) -> bool:
    """``bf16=torch.cuda.is_bf16_supported()``: a switch for bfloat16 that is on where the machine has it."""
    argument = scope.argument(setting)
    if setting.value is not None or argument is None or FAMILIES.get(setting.key.meaning(TRUE) or "") != "bf16":
        return False
    negated = any(isinstance(item, ast.Not) for item in ast.walk(argument[1]))
    return not negated and asks_machine(project, *argument, for_bf16=True)
