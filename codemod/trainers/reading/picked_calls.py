"""Calls that a word for a precision picks: ``elif args.precision == "bf16": policy = MixedPrecision(...)``.

The word is what a run states, and what a move changes; the branch is the code's own. So are the dtypes that branches
give to a variable which is passed to one call.
"""

from __future__ import annotations

import ast

from ...purpose.files import words_of
from ...python.names import ModuleNames
from ...python.paths import guards
from ...python.precision_words import SWITCHING
from ...source.project import Project
from .links import joined_sources
from .scopes import CodeOrigin, SettingScope


def is_picked_by_word(project: Project, scope: SettingScope) -> bool:
    """Whether a call, or what it is passed, stands behind a comparison with a string that names a precision.

    What a word picks for an argument can be followed from there.
    """
    call = scope.call
    if call is None or not isinstance(scope.origin, CodeOrigin):
        return False
    module = scope.origin.module
    passed = [*call.args, *(item.value for item in call.keywords)]
    named = [node for node in passed if isinstance(node, ast.Name) and not _is_followed(project, module, node)]
    bindings = (item for node in named for item in module.bindings_of(node))
    bound = (item.node for item in bindings if item.kind == "assign")
    return any(_is_behind(module, node) for node in (call, *bound))


def _is_followed(project: Project, module: ModuleNames, node: ast.Name) -> bool:
    return any(source.word for source in joined_sources(project, module, node))


def _is_behind(module: ModuleNames, node: ast.AST) -> bool:
    return any(_names_precision(guard.test) for guard in guards(module, node) if guard.holds)


def _names_precision(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq | ast.In):
        return False
    listed = [item for node in test.comparators for item in getattr(node, "elts", [node])]
    words = (item.value for item in listed if isinstance(item, ast.Constant))
    return any(isinstance(word, str) and any(each in words_of(word) for each in SWITCHING) for word in words)
