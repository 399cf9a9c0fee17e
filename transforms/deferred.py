"""Rules that are imported only for a project that holds what they ask for first.

What a rule asks a project without files for is all that it ever asks for while each answer is empty: it knows nothing
of the project but its answers. So where a project has no file for any of these questions, the rule says of it what it
said of the empty one: nothing. The questions are asked once for each installed precfix and kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ..codemod.cache import kept
from ..codemod.cache.installed import installed_state
from ..codemod.model import Finding, Rule
from ..codemod.source.discovery import Discovery, Limits
from ..codemod.source.documents import FileKind
from ..codemod.source.project import Project, Terms
from ..codemod.source.question import FileQuestion
from ..codemod.source.store import FileStore
from . import load
from .frameworks import read_own

T = TypeVar("T")


def load_deferred() -> tuple[Rule, ...]:
    """All rules, as `load` has them, imported when they are needed; imported now where nothing can be kept."""
    state = installed_state()
    if not state:
        return load()
    key = f"rules {state}"
    try:
        return _rules_of(kept.read("tables", key))
    except (TypeError, ValueError):  # nothing is kept, or something else
        rules = load()
    kept.write("tables", key, [_described(rule) for rule in rules])
    return rules


def declared(project: Project) -> str:
    """The regime that a project declares, as `declared_regime` says, which is only imported where it has to look."""
    state = installed_state()
    key = f"declared {state}"
    known: Any = kept.read("tables", key) if state else None
    try:
        regime, plain = known
        asked = _questions(plain)
    except (TypeError, ValueError):  # nothing is kept, or something else
        regime, asked = "", None
    if asked is not None and type(regime) is str and _is_without(project, asked):
        return regime
    from ..codemod.trainers.reading.declared import declared_regime

    if state and not regime:
        of_nothing, asked = _asked(declared_regime)
        kept.write("tables", key, [of_nothing, _plain(asked)])
    return declared_regime(project)


class _Nowhere(FileStore):
    """No files at all; knows what it was asked, and whether that was more than questions for documents."""

    def __init__(self) -> None:
        super().__init__(Discovery(Path(os.sep, "nowhere")), Limits())
        self.questions: list[FileQuestion] = []
        self.told_more = False

    def __getattribute__(self, name: str) -> Any:
        if name not in ("paths_for", "questions", "told_more", "discovery", "__dict__", "__class__"):
            object.__setattr__(self, "told_more", True)
        return super().__getattribute__(name)

    def paths_for(self, question: FileQuestion) -> list[str]:
        self.questions.append(question)
        return []


def questions_of(rule: Rule) -> list[FileQuestion] | None:
    """What a rule asks a project without files for; None where it looks at more than that."""
    found, asked = _asked(lambda project: list(rule.check(project)))
    return None if found else asked


def _asked(compute: Callable[[Project], T]) -> tuple[T, list[FileQuestion] | None]:
    """What is said of a project without files, and what is asked for; None where more than that is looked at."""
    store = _Nowhere()
    project = Project(store, terms=Terms(frameworks=read_own()))
    store.told_more = False
    found = compute(project)
    asked = [*dict.fromkeys(replace(each, where=None) for each in store.questions)]
    return found, None if store.told_more else asked


def _is_without(project: Project, asked: Iterable[FileQuestion]) -> bool:
    """Whether a project has no file for any of the questions, and nothing else that they were not asked with."""
    is_untold = project.profile is None and project.target is None and project.observation is None
    is_plain = is_untold and project.frameworks == read_own()
    return is_plain and not any(map(project.candidates, asked))


def _deferred(module: str, asked: list[FileQuestion] | None) -> Callable[[Project], Iterable[Finding]]:
    def check(project: Project) -> Iterable[Finding]:
        if asked is not None and _is_without(project, asked):
            return ()
        if not module.startswith(f"{__package__}."):
            raise ValueError(module)
        rule: Rule = import_module(module).rule
        return rule.check(project)

    return check


def _described(rule: Rule) -> list[object]:
    asked = _plain(questions_of(rule))
    return [rule.check.__module__, rule.code, rule.name, rule.docs, rule.url, rule.depends_on, rule.needs_run, asked]


def _rules_of(described: Any) -> tuple[Rule, ...]:
    """Raises TypeError or ValueError for what `_described` has not made."""
    rules = []
    for module, code, name, docs, url, depends_on, needs_run, asked in described:
        texts = (module, code, name, docs, url, *depends_on)
        if not {str}.issuperset(map(type, texts)) or type(needs_run) is not bool:
            raise TypeError(texts)
        rules.append(Rule(code, name, docs, _deferred(module, _questions(asked)), url, tuple(depends_on), needs_run))
    if not rules:
        raise ValueError(described)
    return tuple(rules)


def _plain(asked: list[FileQuestion] | None) -> object:
    if asked is None:
        return None
    return [[[kind.value for kind in each.kinds], each.words, each.also] for each in asked]


def _questions(plain: Any) -> list[FileQuestion] | None:
    """Raises TypeError or ValueError for what `_plain` has not made."""
    return None if plain is None else [_question(*each) for each in plain]


def _question(kinds: Sequence[str], words: Sequence[str], also: Iterable[Sequence[str]]) -> FileQuestion:
    groups = tuple(tuple(group) for group in also)
    if not {str}.issuperset(map(type, (*words, *(word for group in groups for word in group)))):
        raise TypeError(words)
    return FileQuestion(tuple(FileKind(kind) for kind in kinds), tuple(words), groups)
