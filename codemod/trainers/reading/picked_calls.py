"""Calls in a branch that a word for a precision picks: ``elif args.precision == "bf16": policy = MixedPrecision(...)``.

The word is what a run states, and what a move changes; the branch is the code's own.
"""

from __future__ import annotations

import ast

from ...purpose.files import words_of
from ...python.paths import guards
from .scopes import CodeOrigin, Scope
from .stated_words import SWITCHING


def is_picked_by_word(scope: Scope) -> bool:
    """Whether a call stands behind a comparison with a string that names a precision."""
    call = scope.call
    if call is None or not isinstance(scope.origin, CodeOrigin):
        return False
    tests = (guard.test for guard in guards(scope.origin.module, call) if guard.holds)
    return any(_names_precision(test) for test in tests)


def _names_precision(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    words = (item.value for item in test.comparators if isinstance(item, ast.Constant))
    return any(isinstance(word, str) and not SWITCHING.isdisjoint(words_of(word)) for word in words)
