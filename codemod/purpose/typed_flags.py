"""Flags of precision that a run has only where a user types them: nothing shows how the program is started.

``--amp`` with ``action="store_true"``: what stands behind it is what the flag is there for.
"""

from __future__ import annotations

from ..python.identifiers import words_of
from ..python.names import modules_with
from ..python.options import Option, options_in
from ..python.precision_words import SWITCHING
from ..source.facts import fact
from ..source.project import Project
from .training_switches import is_seen_started

DECLARING = ("add_argument", ".option(")
"""What declares flags."""


@fact
def has_typed_flags(project: Project) -> bool:
    """Whether the project has such a flag at all."""
    declared = (options_in(project, module).values() for module in modules_with(project, DECLARING))
    return any(may_be_typed(project, option) for named in declared for options in named for option in options)


def may_be_typed(project: Project, option: Option) -> bool:
    """Whether an option is such a flag: off by default, and none of its programs is seen to be started."""
    is_off = option.is_switched and not option.value_when_absent and option.kind == "option"
    said = words_of(option.flag_for(True)) if is_off else frozenset()
    return not said.isdisjoint(SWITCHING) and not project.memo(is_seen_started, option.module)
