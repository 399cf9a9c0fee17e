"""Rules of other distributions, found through the entry-point group ``precfix.rules``.

A plugin is code that the user has installed; the scanned project never is. What is wrong with a plugin is reported,
and everything else goes on. docs/plugins.md says how to write one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Rule
from ..outcome import Skipped
from ..source.flaws import said
from .distributions import Distribution, declaring, editable_folder, is_below, real_paths, site_folders

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "precfix.rules"
MAX_RULES = 1000
"""Rules taken from one entry point."""

_OBJECT = re.compile(r"[\w.]+\s*:\s*[\w.]+\s*(\[.*\])?")
_CODE = re.compile(r"[A-Z]{2,8}[0-9]{3,4}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_URL = re.compile(r"https?://[!-~]+")


@dataclass(frozen=True, slots=True)
class LoadedRules:
    """All rules, and why some are missing."""

    rules: tuple[Rule, ...]
    """By code."""
    problems: tuple[Skipped, ...] = ()
    """``path`` is the name of a distribution. They belong into ``Report.failed_rules``."""


@dataclass(slots=True)
class _Collection:
    rules: dict[str, Rule]
    owners: dict[str, str] = field(default_factory=dict)
    problems: list[Skipped] = field(default_factory=list)

    def refuse(self, found: Distribution, reason: str) -> None:
        version = f"version {found.version}: " if found.version else ""
        self.problems.append(Skipped(found.name, f"{version}{reason}"))

    def add(self, found: Distribution, where: str, item: object) -> None:
        flaw = _rule_flaw(item) or (self._clash(item) if isinstance(item, Rule) else "")
        if flaw:
            self.refuse(found, f"{where}: {flaw}")
        elif isinstance(item, Rule):
            self.rules[item.code] = item
            self.owners[item.code] = self.owners[item.name] = found.name

    def _clash(self, rule: Rule) -> str:
        other = self.rules.get(rule.code) or next(
            (each for each in self.rules.values() if each.name == rule.name), None
        )
        if other is None:
            return ""
        word = rule.code if other.code == rule.code else rule.name
        return f"{word} is a rule of {self.owners.get(other.code, 'precfix')} already"


def with_plugins(own: Iterable[Rule], scanned: Iterable[Path] = ()) -> LoadedRules:
    """``own`` and the rules of all plugins that are installed.

    ``scanned`` are the folders of the project: from them, and from the current folder, nothing is loaded that the user
    has not installed. Never raises for a plugin; what is printed while one is imported goes to stderr.
    """
    collected = _Collection({rule.code: rule for rule in own})
    guarded = real_paths([*map(str, scanned), *_current_folder()])
    found = declaring(GROUP, guarded)
    for each in found.refused:
        reason = "not loaded because it is in the scanned project or current folder; install it, or leave it out of "
        collected.refuse(each, f"{reason}sys.path (PYTHONPATH)")
    for each in found.installed:
        with redirect_stdout(sys.stderr), _not_importing_from(guarded, editable_folder(each)):
            _load(each, collected)
    ordered = tuple(collected.rules[code] for code in sorted(collected.rules))
    return LoadedRules(ordered, tuple(sorted(collected.problems, key=lambda item: (item.path, item.reason))))


def _current_folder() -> list[str]:
    """It is guarded as well, unless it is the root of the file system: everything lies below that."""
    return [path for path in real_paths([""]) if os.path.dirname(path) != path]


@contextmanager
def _not_importing_from(guarded: Sequence[str], editable: str | None) -> Iterator[None]:
    """A module of the project must not be imported in place of a plugin's, where PYTHONPATH leads into the project."""
    asked = real_paths(["", *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    own = (*site_folders(), *([editable] if editable else []))
    hidden = {path for path in asked if is_below(path, guarded) and not is_below(path, own)}
    before = list(sys.path)
    sys.path[:] = [entry for entry in before if hidden.isdisjoint(real_paths([entry]))]
    try:
        yield
    finally:
        sys.path[:] = before


def _load(found: Distribution, collected: _Collection) -> None:
    try:
        from importlib.metadata import Distribution as Metadata

        points = sorted(Metadata.at(found.metadata).entry_points.select(group=GROUP))
    except Exception as error:  # whatever may be written there
        collected.refuse(found, f"its entry points cannot be read: {said(error)}")
        return
    for point in points:
        where = f"entry point {point.name!r} ({point.value})"
        try:
            for item in _items(point):
                collected.add(found, where, item)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # foreign code: it may raise anything, SystemExit as well
            collected.refuse(found, f"{where}: {said(error)}")


def _items(point: EntryPoint) -> list[object]:
    """What an entry point stands for: a rule, several, or a function that makes them."""
    if not _OBJECT.fullmatch(point.value):
        raise ValueError("not written as module:name")
    value: object = point.load()
    if callable(value):
        value = value()
    if isinstance(value, Rule):
        return [value]
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"neither a Rule nor an iterable of rules, but of type {type(value).__name__}")
    items: list[object] = list(islice(value, MAX_RULES + 1))
    if len(items) > MAX_RULES:
        raise ValueError(f"more than {MAX_RULES} rules")
    return items


def _rule_flaw(item: object) -> str:
    """Why this cannot be a plugin's rule; empty when it can."""
    if not isinstance(item, Rule):
        return f"not a Rule, but of type {type(item).__name__}"
    words = (item.code, item.name, item.docs, item.url)
    if not all(isinstance(word, str) for word in words):
        return "a rule's code, name, docs and url are strings"
    return next((said for is_flaw, said in _FLAWS if is_flaw(item)), "").format(item)


_FLAWS: tuple[tuple[Callable[[Rule], bool], str], ...] = (
    (
        lambda rule: not _CODE.fullmatch(rule.code),
        "code {0.code!r} is not two to eight capital letters and three or four digits",
    ),
    (lambda rule: rule.code.startswith("PF"), "code {0.code!r}: PF belongs to precfix itself"),
    (lambda rule: not _NAME.fullmatch(rule.name), "{0.code}: name {0.name!r} is not lower-case words joined by dashes"),
    (lambda rule: not rule.title.strip(), "{0.code}: its docs do not begin with a title line"),
    (lambda rule: bool(rule.url) and not _URL.fullmatch(rule.url), "{0.code}: url {0.url!r} is not a web address"),
    (lambda rule: not callable(rule.check), "{0.code}: its check is not callable"),
)
