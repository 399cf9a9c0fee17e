"""Reads a framework's YAML file and says precisely what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ..source.reading import FileRefused, read_regular_file
from .framework import (
    REGIMES,
    ROLES,
    SEVERITIES,
    TARGETS,
    Action,
    Condition,
    Contradiction,
    Framework,
    FrameworkKey,
    Recognition,
)
from .framework_yaml import FrameworkInvalid, plain_data

__all__ = ["FrameworkInvalid", "framework_of", "read_framework", "read_frameworks"]

T = TypeVar("T")

MAX_BYTES = 200_000
TOP_LEVEL = ("id", "title", "formats", "recognize", "keys", "contradictions", "targets")
RECOGNITION_ENTRIES = "files unasked strong weak sections unless programs launchers calls mappings"
KEY_ENTRIES = "role at flags env arguments launcher means yields_to choices default switch since note"
TOP_LEVEL_EXTRAS = (
    "default_regime",
    *("default_since", "default_unless"),
    "packages",
    "sources",
    "aside",
    *("parsed_by_scripts", "scales_loss", "since_by_pins", "notes"),
)
_COMPARED = re.compile(r"(any |all )?(\S+) (==|!=|is) (.+)")
_LISTED = re.compile(r"(any |all )?(\S+) (not in|in) \[(.*)\]")
_BARE = re.compile(r"(any |all )?(\S+) (present|absent|truthy|falsy)")
_PACKAGE = re.compile(r"package (\S+) (<|>=|(?:not )?surely >=) (\d+(?:\.\d+)*)")
_SCOPE = re.compile(r"place is (file|command|environment|call|mapping)")
_PROGRAM = re.compile(r"program in \[(.*)\]")
_ACTION = re.compile(r"(set|put|add) ([^=\s]+)=(.*?)(?: from \[(.*)\])?")
_OTHER_ACTION = re.compile(r"(drop) (\S+)|(rename) ([^=\s]+)=(\S+)")
_ID = re.compile(r"[a-z][a-z0-9_-]*")
_RULE = re.compile(r"PF\d{3}")
FORMATS = ("yaml", "json", "toml", "cli", "env", "shell", "python")
MAX_PATTERN = 300
"""Characters of a mark, a glob or another listed text."""
TYPES = ("string", "bool", "number", "null", "section")


def read_frameworks(paths: Iterable[Path]) -> tuple[Framework, ...]:
    """The frameworks in these files, in order; of two with the same id the later one counts.

    Raises FrameworkInvalid for a file that cannot be read or does not follow the schema.
    """
    found: dict[str, Framework] = {}
    for path in paths:
        framework = read_framework(path)
        found[framework.id] = framework
    return tuple(found.values())


def read_framework(path: Path) -> Framework:
    """The framework in one file. Raises FrameworkInvalid."""
    try:
        text = read_regular_file(str(path), MAX_BYTES).decode("utf-8-sig")
    except (OSError, FileRefused, UnicodeDecodeError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", None) or error
        raise FrameworkInvalid(f"{path}: cannot be read: {reason}") from error
    return framework_of(text, str(path))


def framework_of(text: str, origin: str) -> Framework:
    """The framework that a YAML text describes. Raises FrameworkInvalid."""
    return _Reader(origin).framework(plain_data(text, origin))


class _Reader:
    """One file; every complaint names the file and the path inside it."""

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def framework(self, data: object) -> Framework:
        top = self._mapping(data, "the file", (*TOP_LEVEL, *TOP_LEVEL_EXTRAS))
        for required in ("id", "title", "recognize", "keys"):
            if required not in top:
                raise self._wrong("the file", f"{required!r} is missing")
        keys = tuple(self._each(top["keys"], "keys", self._key))
        names = {key.name for key in keys}
        framework = Framework(
            id=self._shaped(top["id"], "id", _ID),
            title=self._text(top["title"], "title"),
            formats=self._words(top.get("formats"), "formats", FORMATS),
            recognize=self._recognition(top["recognize"]),
            keys=keys,
            contradictions=tuple(self._each(top.get("contradictions") or {}, "contradictions", self._contradiction)),
            targets=tuple(self._each(top.get("targets") or {}, "targets", self._target)),
            default_regime=self._regime(top.get("default_regime"), "default_regime"),
            default_since=str(top.get("default_since") or ""),
            default_unless=self._texts(top.get("default_unless"), "default_unless"),
            packages=self._texts(top.get("packages"), "packages"),
            sources=self._texts(top.get("sources"), "sources"),
            aside=self._conditions(top.get("aside"), "aside"),
            parsed_by_scripts=self._truth(top.get("parsed_by_scripts"), "parsed_by_scripts"),
            scales_loss=self._truth(top.get("scales_loss", True), "scales_loss"),
            since_by_pins=self._truth(top.get("since_by_pins"), "since_by_pins"),
            origin=self._origin,
        )
        self._check_names(framework, names)
        return framework

    def _recognition(self, data: object) -> Recognition:
        parts = RECOGNITION_ENTRIES.split()
        given = self._mapping(data, "recognize", [*parts, "generic"])
        lists = {part: self._texts(given.get(part), f"recognize.{part}") for part in parts}
        return Recognition(**lists, generic=self._truth(given.get("generic"), "recognize.generic"))

    def _key(self, name: str, data: object, where: str) -> FrameworkKey:
        known = KEY_ENTRIES.split()
        given = self._mapping(data, where, known)
        role = self._text(given.get("role"), f"{where}.role")
        if role not in ROLES:
            raise self._wrong(f"{where}.role", f"{role!r} is none of {', '.join(ROLES)}")
        last = name.rpartition(".")[2]
        means = self._mapping(given.get("means") or {}, f"{where}.means", None)
        since = self._mapping(given.get("since") or {}, f"{where}.since", None)
        for value, regime in means.items():
            self._regime(regime or "nothing", f"{where}.means.{value}")
        return FrameworkKey(
            name=name,
            role=role,
            places=self._texts(given.get("at", [name]), f"{where}.at"),
            flags=self._texts(given.get("flags", [f"--{last}"]), f"{where}.flags"),
            variables=self._texts(given.get("env"), f"{where}.env"),
            arguments=self._texts(given.get("arguments", [last]), f"{where}.arguments"),
            launcher_flags=self._texts(given.get("launcher"), f"{where}.launcher"),
            means=tuple((_token(value), str(regime)) for value, regime in means.items()),
            yields_to=self._texts(given.get("yields_to"), f"{where}.yields_to"),
            choices=self._texts(given.get("choices"), f"{where}.choices"),
            default=self._scalar(given["default"], f"{where}.default") if "default" in given else None,
            is_switch=self._truth(given.get("switch"), f"{where}.switch"),
            since=tuple((_token(value), self._text(item, f"{where}.since.{value}")) for value, item in since.items()),
        )

    def _contradiction(self, name: str, data: object, where: str) -> Contradiction:
        known = ["rule", "when", "message", "severity", "patch", "applicability", "sources"]
        given = self._mapping(data, where, known)
        severity = self._text(given.get("severity"), f"{where}.severity")
        if severity not in SEVERITIES:
            raise self._wrong(f"{where}.severity", f"{severity!r} is none of {', '.join(SEVERITIES)}")
        applicability = str(given.get("applicability") or "")
        if applicability not in ("", "safe", "unsafe", "display-only"):
            raise self._wrong(f"{where}.applicability", f"{applicability!r} is none of safe, unsafe, display-only")
        when = self._conditions(given.get("when"), f"{where}.when")
        if not when:
            raise self._wrong(f"{where}.when", "no condition")
        return Contradiction(
            id=name,
            rule=self._shaped(given.get("rule"), f"{where}.rule", _RULE),
            when=when,
            message=" ".join(self._text(given.get("message"), f"{where}.message").split()),
            severity=severity,
            patches=tuple(self._each(given.get("patch") or {}, f"{where}.patch", self._patch)),
            applicability=applicability,
            sources=self._texts(given.get("sources"), f"{where}.sources"),
        )

    def _patch(self, name: str, data: object, where: str) -> tuple[str, tuple[Action, ...]]:
        if name not in ("any", "bf16", "fp16", "fp32"):
            raise self._wrong(where, "a patch is for bf16, fp16, fp32 or any")
        return name, self._actions(data, where)

    def _target(self, name: str, data: object, where: str) -> tuple[str, tuple[Action, ...]]:
        if name not in TARGETS:
            raise self._wrong(where, f"{name!r} is none of {', '.join(TARGETS)}")
        return name, self._actions(data, where)

    # --- the two small languages --------------------------------------------------------------------------------------

    def _conditions(self, data: object, where: str) -> tuple[Condition, ...]:
        listed = data if isinstance(data, list) else [] if data is None else [data]
        return tuple(self._condition(item, f"{where}[{index}]") for index, item in enumerate(listed))

    def _condition(self, data: object, where: str) -> Condition:
        if isinstance(data, dict):
            given = self._mapping(data, where, ["any", "none"])
            if len(given) != 1:
                raise self._wrong(where, "one of 'any' and 'none' is expected")
            which = "none" if "none" in given else "any"
            inner = self._conditions(given[which], f"{where}.{which}")
            if not inner:
                raise self._wrong(where, f"no condition under {which!r}")
            return Condition(" or ".join(item.text for item in inner), f"{which}-of", alternatives=inner)
        text = " ".join(self._text(data, where).split())
        if match := _PACKAGE.fullmatch(text):
            return Condition(text, "package", match[1], (match[2], match[3]))
        if match := _SCOPE.fullmatch(text):
            return Condition(text, "place", values=(match[1],))
        if match := _PROGRAM.fullmatch(text):
            return Condition(text, "program", values=_list(match[1]))
        if match := _LISTED.fullmatch(text):
            operator = "in" if match[3] == "in" else "not-in"
            return Condition(text, operator, match[2], _list(match[4]), (match[1] or "any").strip())
        if match := _BARE.fullmatch(text):
            return Condition(text, match[3], match[2], quantifier=(match[1] or "any").strip())
        if match := _COMPARED.fullmatch(text):
            if match[3] == "is" and match[4] not in TYPES:
                raise self._wrong(where, f"'is' tests for one of {', '.join(TYPES)}")
            return Condition(text, match[3], match[2], (_unquoted(match[4]),), (match[1] or "any").strip())
        raise self._wrong(where, f"{text!r} is not a condition")

    def _actions(self, data: object, where: str, inherited: tuple[Condition, ...] = ()) -> tuple[Action, ...]:
        listed = data if isinstance(data, list) else [] if data is None else [data]
        found: list[Action] = []
        for index, item in enumerate(listed):
            place = f"{where}[{index}]"
            if isinstance(item, dict):
                given = self._mapping(item, place, ["if", "do", "report"])
                conditions = (*inherited, *self._conditions(given.get("if"), f"{place}.if"))
                if "report" in given:
                    said = " ".join(self._text(given["report"], f"{place}.report").split())
                    found.append(Action("report", value=said, conditions=conditions))
                found += self._actions(given.get("do"), f"{place}.do", conditions)
            else:
                found.append(self._action(self._text(item, place), place, inherited))
        return tuple(found)

    def _action(self, text: str, where: str, conditions: tuple[Condition, ...]) -> Action:
        text = " ".join(text.split())
        if match := _ACTION.fullmatch(text):
            only_from = _list(match[4]) if match[4] is not None else ()
            return Action(match[1], match[2], _unquoted(match[3]), only_from, conditions)
        if match := _OTHER_ACTION.fullmatch(text):
            if match[1]:
                return Action("drop", match[2], conditions=conditions)
            return Action("rename", match[4], match[5], conditions=conditions)
        raise self._wrong(where, f"{text!r} is not an action (set K=V, put K=V, add K=V, drop K, rename K=NEW)")

    def _check_names(self, framework: Framework, names: set[str]) -> None:
        """Conditions and actions speak of declared keys."""
        for item in framework.contradictions:
            for condition in item.when:
                self._check_condition(condition, names, f"contradictions.{item.id}")
            for _, actions in item.patches:
                self._check_actions(actions, names, f"contradictions.{item.id}")
        for condition in framework.aside:
            self._check_condition(condition, names, "aside")
        for target, actions in framework.targets:
            self._check_actions(actions, names, f"targets.{target}")

    def _check_actions(self, actions: Iterable[Action], names: set[str], where: str) -> None:
        for action in actions:
            if action.verb != "report" and action.key not in names:
                raise self._wrong(where, f"no key {action.key!r}")
            for condition in action.conditions:
                self._check_condition(condition, names, where)

    def _check_condition(self, condition: Condition, names: set[str], where: str) -> None:
        if condition.operator in ("any-of", "none-of"):
            for item in condition.alternatives:
                self._check_condition(item, names, where)
        elif condition.operator not in ("package", "place", "program") and condition.key not in names:
            raise self._wrong(where, f"no key {condition.key!r} (in {condition.text!r})")

    def _mapping(self, data: object, where: str, known: Sequence[str] | None) -> Mapping[object, object]:
        if not isinstance(data, dict):
            raise self._wrong(where, "a mapping is expected")
        for name in data:
            if known is not None and name not in known:
                raise self._wrong(where, f"unknown entry {name!r}; there are {', '.join(known)}")
        return data

    def _each(self, data: object, where: str, read: Callable[[str, object, str], T]) -> list[T]:
        given = self._mapping(data, where, None)
        return [read(self._text(name, f"{where}.{name}"), value, f"{where}.{name}") for name, value in given.items()]

    def _text(self, data: object, where: str) -> str:
        if not isinstance(data, str) or not data:
            raise self._wrong(where, "must be a string")
        return data

    def _texts(self, data: object, where: str) -> tuple[str, ...]:
        if data is None:
            return ()
        if not isinstance(data, list) or not all(isinstance(item, str | bool | int | float) for item in data):
            raise self._wrong(where, "must be a list of strings")
        found = tuple(_token(item) for item in data)
        if any(len(item) > MAX_PATTERN for item in found):
            raise self._wrong(where, f"a string longer than {MAX_PATTERN} characters")
        return found

    def _words(self, data: object, where: str, known: Sequence[str]) -> tuple[str, ...]:
        found = self._texts(data, where)
        for word in found:
            if word not in known:
                raise self._wrong(where, f"{word!r} is none of {', '.join(known)}")
        return found

    def _shaped(self, data: object, where: str, shape: re.Pattern[str]) -> str:
        text = self._text(data, where)
        if not shape.fullmatch(text):
            raise self._wrong(where, f"{text!r} does not look like {shape.pattern}")
        return text

    def _scalar(self, data: object, where: str) -> str:
        if data is not None and not isinstance(data, str | bool | int | float):
            raise self._wrong(where, "must be a string, a number, true, false or null")
        return _token(data)

    def _truth(self, data: object, where: str) -> bool:
        if data is not None and not isinstance(data, bool):
            raise self._wrong(where, "true or false is expected")
        return data is True

    def _regime(self, data: object, where: str) -> str | None:
        if data is None or data in REGIMES:
            return data if isinstance(data, str) else None
        raise self._wrong(where, f"{data!r} is none of {', '.join(REGIMES)}")

    def _wrong(self, where: str, what: str) -> FrameworkInvalid:
        return FrameworkInvalid(f"{self._origin}: {where}: {what}")


def _token(value: object) -> str:
    """A YAML scalar as conditions write it: ``true false null``, numbers and texts as they are."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _list(text: str) -> tuple[str, ...]:
    return tuple(_unquoted(item.strip()) for item in text.split(",") if item.strip())


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
