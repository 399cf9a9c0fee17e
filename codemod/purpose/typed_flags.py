"""Flags of precision that a run has only where a user types them: nothing shows how the program is started.

``--amp`` with ``action="store_true"``: what stands behind it is what the flag is there for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from ..python.identifiers import words_of
from ..python.options import Option
from ..python.precision_words import SWITCHING
from ..source.project import Project
from ..torch.dtypes import TextCondition
from ..trainers.reading.source import ValueSource
from .training_switches import is_seen_started


def typed_flag(project: Project, item: TextCondition, found: Sequence[ValueSource]) -> str:
    """The flag that makes a condition hold, where that is all that decides it, and no launch line is seen."""
    asks_for_it = item.equal and item.values == (True,) and isinstance(item.node, ast.Name | ast.Attribute)
    flags = {_flag_of(project, source) for source in found} if asks_for_it else set()
    return flags.pop() if len(flags) == 1 else ""


def _flag_of(project: Project, source: ValueSource) -> str:
    """The flag that is left out where this is the value; empty for any other value."""
    is_left_out = source.kind == "option" and source.is_switch and source.value is False and not source.is_negated
    option = source.option if is_left_out else None
    return option.flag_for(True) if option is not None and may_be_typed(project, option) else ""


def may_be_typed(project: Project, option: Option) -> bool:
    """Whether an option is such a flag."""
    is_off = option.is_switched and not option.value_when_absent and option.kind == "option"
    said = words_of(option.flag_for(True)) if is_off else frozenset()
    return not said.isdisjoint(SWITCHING) and not project.memo(is_seen_started, option.module)


def said_of(flags: Iterable[str]) -> str:
    """What a message says of the flags that it speaks of."""
    each = list(dict.fromkeys(flags))
    are = "which is" if len(each) == 1 else "which are"
    return f"; it takes effect only with {' and '.join(each)}, {are} off by default" if each else ""
