"""Rules that are imported only for a project that holds what they ask for first.

What a rule asks a project without files for is all that it ever asks for while each answer is empty: it knows nothing
of the project but its answers. So where a project has no file for any of these questions, the rule says of it what it
said of the empty one: nothing. The questions are asked once for each installed precfix and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ..codemod.cache import kept
from ..codemod.cache.installed import installed_state
from ..codemod.model import Finding, Rule
from ..codemod.source.discovery import Discovery, Limits
from ..codemod.source.documents import FileKind
from ..codemod.source.project import Project, Terms
from ..codemod.source.question import Question
from ..codemod.source.store import FileStore
from . import load
from .frameworks import read_own


def load_deferred() -> tuple[Rule, ...]:
    """All rules, as `load` has them, imported when they are needed; imported now where nothing can be kept."""
    state = installed_state()
    if not state:
        return load()
    key = f"rules {state}"
    try:
        return _rules_of(kept.read("tables", key))
    except (TypeError, ValueError, KeyError):  # nothing is kept, or something else
        rules = load()
    kept.write("tables", key, [_described(rule) for rule in rules])
    return rules


class _Nowhere(FileStore):
    """No files at all; knows what it was asked, and whether that was more than questions for documents."""

    def __init__(self) -> None:
        super().__init__(Discovery(Path("nowhere").absolute()), Limits())
        self.questions: list[Question] = []
        self.told_more = False

    def __getattribute__(self, name: str) -> Any:
        if name not in ("paths_for", "questions", "told_more", "discovery", "__dict__", "__class__"):
            object.__setattr__(self, "told_more", True)
        return super().__getattribute__(name)

    def paths_for(self, question: Question) -> list[str]:
        self.questions.append(question)
        return []


def questions_of(rule: Rule) -> list[Question] | None:
    """What a rule asks a project without files for; None where it looks at more than that."""
    store = _Nowhere()
    project = Project(store, terms=Terms(frameworks=read_own()))
    store.told_more = False
    found = list(rule.check(project))
    return None if found or store.told_more else [*dict.fromkeys(replace(each, where=None) for each in store.questions)]


def _described(rule: Rule) -> list[object]:
    asked = questions_of(rule)
    plain = None if asked is None else [[[kind.value for kind in each.kinds], each.words, each.also] for each in asked]
    return [rule.check.__module__, rule.code, rule.name, rule.docs, rule.url, rule.depends_on, plain]


def _rules_of(described: Any) -> tuple[Rule, ...]:
    """Raises TypeError, ValueError or KeyError for what `_described` has not made."""
    rules = []
    for module, code, name, docs, url, depends_on, plain in described:
        texts = (module, code, name, docs, url, *depends_on)
        if not {str}.issuperset(map(type, texts)):
            raise TypeError(texts)
        check = _deferred(module, None if plain is None else [_question(*each) for each in plain])
        rules.append(Rule(code, name, docs, check, url, tuple(depends_on)))
    if not rules:
        raise ValueError(described)
    return tuple(rules)


def _question(kinds: Sequence[str], words: Sequence[str], also: Iterable[Sequence[str]]) -> Question:
    groups = tuple(tuple(group) for group in also)
    if not {str}.issuperset(map(type, (*words, *(word for group in groups for word in group)))):
        raise TypeError(words)
    return Question(tuple(FileKind(kind) for kind in kinds), tuple(words), groups)


def _deferred(module: str, asked: list[Question] | None) -> Callable[[Project], Iterable[Finding]]:
    def check(project: Project) -> Iterable[Finding]:
        if asked is not None and _is_plain(project) and not any(map(project.candidates, asked)):
            return ()
        if not module.startswith(f"{__package__}."):
            raise ValueError(module)
        rule: Rule = import_module(module).rule
        return rule.check(project)

    return check


def _is_plain(project: Project) -> bool:
    """Whether nothing is given with the project that the questions were not asked with."""
    return project.profile is None and project.target is None and project.frameworks == read_own()
