"""A flag for one 16-bit type gives way to the program's flag for the other one: ``--bf16`` becomes ``--fp16``."""

from __future__ import annotations

from ....codemod.model import Edit, EditRefused
from ....codemod.purpose.files import words_of
from ....codemod.python.options import Option
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import DTYPE_WORDS, HALVES, Dtype
from ....codemod.trainers.reading.command_options import declared_options, values_given
from ....codemod.trainers.reading.picked_words import TWINS
from ....codemod.trainers.reading.source import ValueSource
from ....codemod.trainers.writing.text_editing import renamed

OTHER_USES = "what else the program does with its other flag is not known"


def twin_flag(project: Project, source: ValueSource, wanted: Dtype) -> Edit | None:
    """The edit after which a line gives the program its flag for ``wanted`` in place of the one for the other type.

    ``source`` is either of them on that line, or what it leaves out; None where the program defines no such flags.
    """
    option = source.option
    twin = twin_of(project, option) if option is not None else None
    if option is None or twin is None:
        return None
    if named_half(option) != wanted:
        return _exchanged(source, twin) if source.kind == "flag" and source.value is True else None
    lines = (given for given in values_given(project, twin) if given.value is True and given.kind == "flag")
    there = next((given for given in lines if not source.lines.isdisjoint(given.lines)), None)
    return _exchanged(there, option) if there is not None and source.value is False else None


def _exchanged(source: ValueSource, option: Option) -> Edit | None:
    if source.entry is None or source.config is None:
        return None
    try:
        return source.config.edit(renamed(source.config.document.text, source.entry, option.flag_for(True)))
    except EditRefused:
        return None


def twin_of(project: Project, option: Option) -> Option | None:
    """The switch that is named for the other 16-bit type, both off where nothing says so."""
    words = [word for word in words_of(option.name) if DTYPE_WORDS.get(word) in HALVES and word in TWINS]
    name = option.name.replace(words[0], TWINS[words[0]]) if len(words) == 1 and _is_off(option) else ""
    found = declared_options(project, option.module, name) if name else ()
    return found[0] if len(found) == 1 and _is_off(found[0]) else None


def named_half(option: Option) -> Dtype | None:
    """The 16-bit type that an option is named for."""
    return next((DTYPE_WORDS[word] for word in words_of(option.name) if word in TWINS), None)


def _is_off(option: Option) -> bool:
    return option.switch is False and not option.value_when_absent
