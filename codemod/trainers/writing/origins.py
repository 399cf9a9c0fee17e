"""Where a value stands that a place only passes on, as far as it is seen: somebody has to change it there."""

from __future__ import annotations

from collections.abc import Iterator

from ...formats.shell_variables import REFERENCE
from ...source.project import Project
from ..reading.links import joined_sources, sources, unfollowed_argument
from ..reading.picked_words import OTHERS, pick_of
from ..reading.scopes import FALSE, TRUE, Setting, SettingScope, TextOrigin, token_of_constant
from ..reading.stated_shell import assigned_to
from .steps import ChangeStep

UNSEEN = "elsewhere"
MAX_SHOWN = 3
"""Places that are named."""


def set_at_origin(project: Project, scope: SettingScope, step: ChangeStep) -> str:
    """What a person has to write, and where, for a setting to get its value: the opposite where that is read."""
    assert step.setting is not None
    origin = origin_of(project, scope, step.setting)
    argument = scope.argument(step.setting)
    found = joined_sources(project, *argument) if argument is not None else ()
    opposite = {source.key for source in found if source.is_negated}
    if len(opposite) != 1 or not all(source.is_negated or source.value is None for source in found):
        wanted, picking = step.key.meaning(step.value), [source for source in found if source.word]
        picked = {step.key.meaning(token_of_constant(item) or "") for source in picking for item in source.offered}
        word = next((source.key for source in picking), "")
        pick = pick_of(project, *argument) if argument is not None and word and step.value == FALSE else None
        if pick is not None and pick.value(OTHERS[0]) is False:
            return f"{word} from {origin} picks {step.setting.name}, and a word for no 16-bit type switches it off"
        if word and wanted not in picked:
            asked = f"{word} from {origin} picks {step.setting.name}, and no word of it {step.value}"
            return f"{asked}: give the code a branch for it"
        refused = (source.option.why_not(step.value) for source in found if source.option is not None)
        why = next((f"; {reason}: let it take {step.value} first" for reason in refused if reason), "")
        return f"{step.setting.name} comes from {origin}, make it {step.value} there{why}"
    name, value = opposite.pop(), FALSE if step.value == TRUE else TRUE
    return f"{step.setting.name} is the opposite of {name} from {origin}, make {name} {value} there"


def origin_of(project: Project, scope: SettingScope, setting: Setting) -> str:
    """The places that give a setting its value, in words: ``config.py:8``; ``elsewhere`` where none is seen."""
    found = list(dict.fromkeys(_places(project, scope, setting)))
    if not found:
        return UNSEEN
    shown = found[:MAX_SHOWN]
    more = [f"{len(found) - len(shown)} more"] if len(found) > len(shown) else []
    *first, last = [*shown, *more]
    return f"{', '.join(first)} and {last}" if first else last


def is_unset(project: Project, scope: SettingScope, setting: Setting) -> bool:
    """Whether all that gives a call's argument its value gives None, as an option does that nobody passes."""
    argument = scope.argument(setting)
    found = sources(project, *argument) if argument is not None else ()
    return (
        argument is not None
        and bool(found)
        and all(source.value is None for source in found)
        and unfollowed_argument(project, *argument) is None
    )


def _places(project: Project, scope: SettingScope, setting: Setting) -> Iterator[str]:
    argument = scope.argument(setting)
    for source in joined_sources(project, *argument) if argument is not None else ():
        if (source.value is not None or source.word) and not source.is_guessed:
            yield f"{source.path}:{source.span.row}"
    if not isinstance(scope.origin, TextOrigin) or scope.origin.section is not None:
        return
    config = scope.origin.config
    entry = config.text.entries[setting.index]
    for other in assigned_to(config, entry.raw):
        yield f"{config.document.path}:{config.span(other).row}"
    if any(match[3] for match in REFERENCE.finditer(entry.raw)):
        yield f"{config.document.path}:{config.span(entry).row}"
