"""Which flag a condition waits for, of those that only a user types: told by the sources of its value."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..source.project import Project
from ..torch.dtypes import TextCondition
from ..trainers.reading.source import ValueSource
from .typed_flags import may_be_typed


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
