"""Whether a framework's condition holds in one place: yes, no, or not to be told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from ...model import Place
from ...releases.pins import allowed
from ...source.project import Project
from ..framework import Condition
from .scopes import FALSE, TRUE, Setting, SettingScope

TRUTHLESS = ("false", "null", "", "0", "0.0")


def all_hold(project: Project, scope: SettingScope, conditions: Iterable[Condition]) -> bool | None:
    """Whether all conditions hold; None when none fails and some cannot be told."""
    outcomes = [holds(project, scope, condition) for condition in conditions]
    if False in outcomes:
        return False
    return None if None in outcomes else True


def holds(project: Project, scope: SettingScope, condition: Condition) -> bool | None:
    if condition.operator == "any-of":
        outcomes = [holds(project, scope, item) for item in condition.alternatives]
        return True if True in outcomes else None if None in outcomes else False
    if condition.operator == "none-of":
        outcomes = [holds(project, scope, item) for item in condition.alternatives]
        return False if True in outcomes else None if None in outcomes else True
    if condition.operator == "package":
        return _version_holds(project, scope, condition)
    if condition.operator == "place":
        return scope.kind == condition.values[0]
    if condition.operator == "program":
        program = scope.title.removesuffix("(...)").replace("\\", "/").rpartition("/")[2]
        if scope.kind == "call":
            program = program.rpartition(".")[2]
        return scope.kind in ("command", "call") and any(fnmatchcase(program, known) for known in condition.values)
    settings = scope.of(condition.key)
    if condition.operator in ("present", "absent"):
        if scope.is_open and not settings:
            return None
        return bool(settings) is (condition.operator == "present")
    if not settings:
        return _default_holds(scope, condition)
    if condition.quantifier == "any" and len({setting.name for setting in settings}) == 1:
        settings = settings[-1:]  # the same key again: the last one counts
    outcomes = [_setting_holds(setting, condition) for setting in settings]
    if condition.quantifier == "all":
        return False if False in outcomes else None if None in outcomes else True
    return True if True in outcomes else None if None in outcomes else False


def settings_in(scope: SettingScope, conditions: Iterable[Condition]) -> list[Setting]:
    """The settings that conditions speak of and that agree with them, for evidence."""
    found: list[Setting] = []
    for condition in conditions:
        if condition.operator == "any-of":
            found += settings_in(scope, condition.alternatives)
        elif condition.operator not in ("package", "place", "program", "none-of"):
            found += [
                setting
                for setting in scope.of(condition.key)
                if condition.operator == "present" or _setting_holds(setting, condition)
            ]
    return list(dict.fromkeys(found))


def pins_in_conditions(project: Project, scope: SettingScope, conditions: Iterable[Condition]) -> Iterator[Place]:
    """Where a manifest says which releases there are of a package that conditions speak of."""
    for condition in conditions:
        yield from pins_in_conditions(project, scope, condition.alternatives)
        range_ = allowed(project, condition.key, scope.path) if condition.operator == "package" else None
        yield from (pin.place for pin in range_.pins if len(pin.specifiers)) if range_ is not None else ()


def _default_holds(scope: SettingScope, condition: Condition) -> bool | None:
    key = scope.framework.key(condition.key)
    if key is None or key.default is None or scope.is_open or scope.kind == "command":
        return None if scope.is_open and condition.operator in ("!=", "not-in", "falsy") else False
    if condition.operator == "is":
        return False
    return _value_holds(key.default, condition)


def _setting_holds(setting: Setting, condition: Condition) -> bool | None:
    if condition.operator == "is":
        return setting.kind == condition.values[0] if setting.kind != "unknown" else None
    if setting.kind == "section":
        return condition.operator == "truthy"
    if setting.value is None:
        return None
    if setting.kind == "string" and condition.operator in ("truthy", "falsy") and setting.value:
        return condition.operator == "truthy"
    if setting.kind == "string" and setting.value.lower() in (TRUE, FALSE):
        return condition.operator in ("!=", "not-in")  # a text that only looks like a boolean
    return _value_holds(setting.value, condition)


def _value_holds(value: str, condition: Condition) -> bool:
    if condition.operator == "truthy":
        return value not in TRUTHLESS
    if condition.operator == "falsy":
        return value in TRUTHLESS
    found = any(fnmatchcase(value, wanted) for wanted in condition.values)
    return found is (condition.operator in ("==", "in"))


def _version_holds(project: Project, scope: SettingScope, condition: Condition) -> bool:
    """``package p >= 2``: unless the project allows only older ones. ``< 2``: only where it does allow some.

    ``surely >= 2``: only where its pins allow no older one.
    """
    operator, version = condition.values
    range_ = allowed(project, condition.key, scope.path)
    if operator.endswith("surely >="):
        is_sure = range_ is not None and not range_.may_be_below(version)
        return is_sure is not operator.startswith("not")
    if range_ is None:
        return operator == ">="
    return range_.may_reach(version) if operator == ">=" else range_.may_be_below(version)
