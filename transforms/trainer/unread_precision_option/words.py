"""Which names are those of a precision that can be chosen, and whether a step has it without being asked."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache

from ....codemod.purpose.decided import OFF
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import Guard
from ....codemod.source.project import Project
from ....codemod.torch.autocast import autocasts_in, dtype_scenarios, is_float32_island, runs_without_gradients
from ....codemod.torch.dtypes import BF16, FP16, FP32, Constant, Dtype, as_dtype

WORDS = (
    "fp16",
    "bf16",
    "float16",
    "amp",
    "mixed_precision",
    "mixed-precision",
    "half_precision",
    "half-precision",
)
"""A file without any of these words declares no such thing."""
CERTAIN = frozenset(("fp16", "bf16", "float16", "bfloat16", "autocast"))
TOGETHER = (frozenset(("mixed", "precision")), frozenset(("half", "precision")), frozenset(("use", "amp")))
SWITCHED = frozenset(("amp",))
"""Names that say a precision only where they switch something: ``amp`` can be an amplitude."""
OTHERS: dict[str, Dtype] = {"fp16": BF16, "float16": BF16, "bf16": FP16, "bfloat16": FP16}
"""Words that ask for a 16-bit type, and the one that they do not ask for."""
ASIDE = frozenset(("no", "not", "disable", "path", "file", "dir", "name", "model", "ckpt", "weights", "size", "ratio"))


@cache
def names_precision(name: str, is_switch: bool) -> bool:
    """Whether a parameter or option of this name chooses a precision."""
    words = _words(name)
    if not ASIDE.isdisjoint(words):
        return False
    chosen = not words.isdisjoint(CERTAIN) or any(parts <= words for parts in TOGETHER)
    return chosen or (is_switch and words <= SWITCHED)


def _words(name: str) -> frozenset[str]:
    return frozenset(name.lower().replace("-", "_").split("_"))


def is_refused(name: str, functions: Iterable[ast.AST]) -> bool:
    """Whether a function refuses the precision that a name belongs to: ``assert not use_fp16`` beside ``fp16_window``.

    Nothing is left then for the choice to act on.
    """
    words = _words(name) & CERTAIN
    return bool(words) and any(
        not holds and words <= _words(text.rpartition(".")[2])
        for function in functions
        for guard in _checks(function)
        for text, holds in guard.facts
    )


def _checks(function: ast.AST) -> Iterator[Guard]:
    """What must hold for a function not to raise, whatever else it is passed."""
    for statement in () if isinstance(function, ast.Lambda) else getattr(function, "body", ()):
        if isinstance(statement, ast.Assert):
            yield Guard(statement.test, True)
        elif isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise):
            yield Guard(statement.test, False)


def is_asked(value: Constant) -> bool:
    """Whether a value asks for 16 bits: neither off nor float32."""
    return bool(value) and str(value).lower() not in OFF and as_dtype(value) != FP32


def is_on_anyway(project: Project, module: ModuleNames, scope: ast.AST, name: str = "") -> bool:
    """Whether a step in ``scope`` always runs under autocast: an unread switch for that is left over, and harmless.

    Not where it is the other 16-bit type that ``name`` asks for: ``--bf16`` beside a region in float16.
    """
    other = next((dtype for word, dtype in OTHERS.items() if word in _words(name)), None)
    return any(
        item.enabled_node is None
        and (other is None or {scenario.value for scenario in dtype_scenarios(project, item)} != {other})
        and (scope is module.tree or scope in module.ancestors(item.node))
        and not (is_float32_island(project, item) or runs_without_gradients(item))
        for item in autocasts_in(project, module)
    )
