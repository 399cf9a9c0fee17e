"""Flags of precision that a run has only where a user types them: nothing shows how the program is started.

``--amp`` with ``action="store_true"``: what stands behind it is what the flag is there for.
"""

from __future__ import annotations

from ..python.identifiers import words_of
from ..python.options import Option
from ..python.precision_words import SWITCHING
from ..source.project import Project
from .training_switches import is_seen_started


def may_be_typed(project: Project, option: Option) -> bool:
    """Whether an option is such a flag: off by default, and none of its programs is seen to be started."""
    is_off = option.is_switched and not option.value_when_absent and option.kind == "option"
    said = words_of(option.flag_for(True)) if is_off else frozenset()
    return not said.isdisjoint(SWITCHING) and not project.memo(is_seen_started, option.module)
