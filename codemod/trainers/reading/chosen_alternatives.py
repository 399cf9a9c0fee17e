"""Which of several ready-made settings a launch chooses: ``fpSixteen`` and ``bfSixteen``, of which code returns one.

The tests around each use of a name are asked with what the launch gives their switches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ...python.conditions import conditions_in
from ...python.identifiers import words_of
from ...python.names import ModuleNames, definition_of, modules_with
from ...python.options import Option
from ...python.paths import guards
from ...source.project import Project
from ...torch.dtypes import TextCondition
from .command_options import declared_options, values_given
from .declarations import scopes_of
from .handed import Launch, values_in
from .links import sources
from .picked_words import TWINS, module_of
from .scopes import CodeOrigin, SettingScope
from .source import ValueSource


def given_name(project: Project, scope: SettingScope) -> str:
    """The name that a module gives to what a call makes, for other modules or a branch to use; else empty."""
    module, target = _assigned(scope)
    if module is None or target is None or module.scope_of(target) is not module.module_scope:
        return ""
    uses = module.name_loads.get(target.id, ())
    is_named = all(guards(module, node) for node in uses) if uses else _is_named_elsewhere(project, scope, target.id)
    return target.id if is_named else ""


def choice_of(scope: SettingScope) -> ast.AST | None:
    """The function, or module, in which a test decides whether a call is made."""
    if scope.call is None or not isinstance(scope.origin, CodeOrigin) or not guards(scope.origin.module, scope.call):
        return None
    return scope.origin.module.scope_of(scope.call).node


def is_unnamed(project: Project, scope: SettingScope) -> bool:
    """Whether nothing names what a module makes."""
    module, target = _assigned(scope)
    if module is None or target is None or module.scope_of(target) is not module.module_scope:
        return False
    return target.id not in module.name_loads and not _is_named_elsewhere(project, scope, target.id)


def is_unused(project: Project, scope: SettingScope) -> bool:
    """Whether nothing names a ready-made setting, and code names one that stands beside it."""
    if not is_unnamed(project, scope):
        return False
    beside = (item for item in scopes_of(project) if item.path == scope.path and item.title == scope.title)
    return any(_assigned(item)[1] is not None and not is_unnamed(project, item) for item in beside)


def _assigned(scope: SettingScope) -> tuple[ModuleNames | None, ast.Name | None]:
    """The name that what a call makes is given as it is."""
    if scope.call is None or not isinstance(scope.origin, CodeOrigin):
        return None, None
    module = scope.origin.module
    statement = module.statement_of(scope.call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is scope.call else None
    return module, target if isinstance(target, ast.Name) else None


def _is_named_elsewhere(project: Project, scope: SettingScope, name: str) -> bool:
    return any(path != scope.path for path in project.python_paths((name,), (name,)))


def is_chosen(project: Project, scope: SettingScope, launch: Launch | None) -> bool | None:
    """Whether a launch comes to a use of a ready-made setting; None for what is none, or where nobody can tell."""
    if is_unused(project, scope):
        return False
    tests = _tests_of(project, scope)
    answers = [[_holds(project, module, item, launch) for item in given] for module, given in tests]
    if not answers or not all(given for _, given in tests):
        return None
    if any(all(item is True for item in each) for each in answers):
        return True
    return False if all(False in each for each in answers) else None


def switches_of_choice(project: Project, scope: SettingScope) -> Iterator[ValueSource]:
    """What gives the switches their values that choose a ready-made setting, or one of those made beside it.

    Also those of options that no test asks: ``--bf16`` beside ``if args.fp16``.
    """
    for module, given in _tests_of(project, scope):
        for item in given:
            owner = module_of(project, module, item.scope)
            found = sources(project, owner, item.node) if owner is not None else ()
            yield from found
            for option in dict.fromkeys(source.option for source in found if source.option is not None):
                yield from _of_twins(project, option)


def word_choosing(project: Project, scope: SettingScope, source: ValueSource) -> str | None:
    """The word that chooses a ready-made setting where ``source`` gives another one: ``bf16``; None without a test."""
    words = {
        word
        for module, given in _tests_of(project, scope)
        for item in given
        if item.equal and (owner := module_of(project, module, item.scope)) is not None
        if any(_is_same(source, other) for other in sources(project, owner, item.node))
        for word in item.values
        if isinstance(word, str)
    }
    return words.pop() if len(words) == 1 else None


def _is_same(source: ValueSource, other: ValueSource) -> bool:
    return (source.path, source.span, source.key) == (other.path, other.span, other.key)


def _of_twins(project: Project, option: Option) -> Iterator[ValueSource]:
    for word, other in TWINS.items():
        if word in words_of(option.name):
            for twin in declared_options(project, option.module, option.name.replace(word, other)):
                yield from (replace(source, option=twin) for source in values_given(project, twin))


def _tests_of(project: Project, scope: SettingScope) -> tuple[tuple[ModuleNames, tuple[TextCondition, ...]], ...]:
    """What has to hold for a branch that makes settings, or for each use of those made for all."""
    if scope.call is not None and isinstance(scope.origin, CodeOrigin) and choice_of(scope) is not None:
        module = scope.origin.module
        return ((module, conditions_in(project, module).path_given(scope.call)),)
    name = given_name(project, scope)
    return project.memo(_tests_of_uses, (scope.path, name)) if name else ()


def _tests_of_uses(
    project: Project, asked: tuple[str, str]
) -> tuple[tuple[ModuleNames, tuple[TextCondition, ...]], ...]:
    """What has to hold for each use of a name, but where it is made or brought in by an import."""
    return tuple(_uses(project, *asked))


def _uses(project: Project, path: str, name: str) -> Iterator[tuple[ModuleNames, tuple[TextCondition, ...]]]:
    for module in modules_with(project, (name,)):
        for node in (*module.name_loads.get(name, ()), *module.attribute_loads.get(name, ())):
            made = definition_of(project, module, node) if module.path != path else None
            if module.path != path and (made is None or made[0].path != path):
                continue
            yield module, conditions_in(project, module).path_given(node)


def _holds(project: Project, module: ModuleNames, item: TextCondition, launch: Launch | None) -> bool | None:
    owner = module_of(project, module, item.scope)
    found = sources(project, owner, item.node) if owner is not None else ()
    answers = {(value in item.values) is item.equal for value in values_in(found, launch)}
    return answers.pop() if len(answers) == 1 else None
