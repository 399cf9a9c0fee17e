"""Carries out steps in a configuration text: one after the other, each against the text as it is by then."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from ...formats.text import ConfigText, ConfigUnreadable, Scalar, TextEntry
from ...model import Edit, EditRefused, ReplaceText
from ..reading.recognition import stands_at
from ..reading.scopes import FALSE, NULL, TRUE, Setting, SettingScope, TextOrigin
from .steps import ChangeStep


def text_edits(scope: SettingScope, origin: TextOrigin, steps: Sequence[ChangeStep]) -> tuple[Edit, ...]:
    """The edits that make all steps. Raises EditRefused."""
    draft = _Draft(origin)
    present = [(step.setting, step) for step in steps if step.setting is not None]
    # From the end of the text: what was changed behind an entry does not move it.
    for setting, step in sorted(present, key=lambda pair: pair[0].index, reverse=True):
        draft.change(scope, setting, step)
    for step in steps:
        if step.setting is None:
            draft.add(scope, step)
    return tuple(origin.config.edit(edit) for edit in differences(origin.config.document.text, draft.text))


class _Draft:
    def __init__(self, origin: TextOrigin) -> None:
        self._origin = origin
        self._top = origin.section.key if origin.section is not None else ()
        self._current: ConfigText = origin.config.text
        self.text = origin.config.document.text

    def change(self, scope: SettingScope, setting: Setting, step: ChangeStep) -> None:
        entry = self._current.entries[setting.index]
        if step.verb == "rename":
            if entry.kind == "override":
                _refuse_within_section(scope, setting)
            inside = (item for item in self._current.entries if item.key[:-1][: len(entry.key)] == entry.key)
            if any(not entry.start <= item.start < entry.end for item in inside):  # ``[a]`` ... ``[a.b]``
                raise EditRefused("the section goes on elsewhere in the file")
            self._apply(renamed(self.text, self._flag_of(setting, entry), step.value))
        elif step.verb == "drop" or (step.value == FALSE and (_is_bare(step, entry) or _is_on_by_itself(step, entry))):
            self._apply(self._current.remove(entry, with_value=not _is_bare(step, entry)))
        else:
            self._apply(self._current.set(entry, self._scalar(step.value)))

    def _flag_of(self, setting: Setting, entry: TextEntry) -> TextEntry:
        """What is named like the setting: of ``FP16=True`` before ``--fp16 $FP16`` the flag, not the variable."""
        if not setting.name.startswith("-") or entry.name == setting.name:
            return entry
        flags = [item for item in self._current.entries if item.kind == "flag" and self._origin.holds(item)]
        named = [item for item in flags if item.name == setting.name]
        if len(named) != 1:
            raise EditRefused(f"the value of {setting.name} comes from {entry.name}")
        return named[0]

    def add(self, scope: SettingScope, step: ChangeStep) -> None:
        if scope.kind == "command":
            self._add_flag(scope, step)
        elif scope.kind == "environment":
            if not step.key.variables:
                raise EditRefused(f"{step.key.name} has no environment variable")
            self._apply(self._current.insert(None, step.key.variables[0], step.value))
        else:
            self._add_key(scope, step)

    def _add_flag(self, scope: SettingScope, step: ChangeStep) -> None:
        names = [setting.name for setting in scope.settings]
        if not step.key.flags or (names and not any(name.startswith("-") for name in names)):
            for setting in scope.settings:
                _refuse_within_section(scope, setting)
            return self._add_override(step)
        flags = [entry for entry in self._current.entries if self._origin.holds(entry) and entry.kind == "flag"]
        if not flags:
            raise EditRefused(f"there is no place to add {step.key.name}")
        present = {setting.key.role for setting in scope.settings}
        behind = next((self._last_of(scope, flags) for _ in present), None) or flags[-1]
        dashes = any("-" in entry.name.lstrip("-") for entry in flags)
        flag = step.key.flags[0]
        if not dashes and any("_" in entry.name for entry in flags):
            flag = f"--{flag.lstrip('-').replace('-', '_')}"
        self._apply(self._current.insert(behind, flag, None if step.key.is_switch else _shell_text(step.value)))

    def _add_override(self, step: ChangeStep) -> None:
        """``a.b=value`` behind the last word of this kind."""
        words = [entry for entry in self._current.entries if self._origin.holds(entry) and entry.kind == "override"]
        name = next((place for place in step.key.places if not set("*{") & set(place)), None)
        if not words or name is None:
            raise EditRefused(f"there is no place to add {step.key.name}")
        lower = any(entry.raw in (TRUE, FALSE) for entry in words)  # as the words beside it write it
        self._apply(self._current.insert(words[-1], name, step.value if lower else _shell_text(step.value)))

    def _last_of(self, scope: SettingScope, flags: Sequence[TextEntry]) -> TextEntry | None:
        """The last flag that speaks of precision: the new one belongs beside it."""
        names = {setting.name for setting in scope.settings}
        return next((entry for entry in reversed(flags) if entry.name in names), None)

    def _add_key(self, scope: SettingScope, step: ChangeStep) -> None:
        dashes = any(setting.name.startswith("--") for setting in scope.settings)
        for place in self._near_first(scope, step.key.places):
            parent, _, name = place.rpartition(".")
            if "*" in name or "{" in name:
                continue
            section = self._section(parent)
            if section is not None or not (parent or self._top):
                written = f"--{name}" if dashes and not name.startswith("--") else name
                self._apply(self._current.insert(section, written, self._scalar(step.value)))
                return
        raise EditRefused(f"there is no section to add {step.key.name} to")

    def _near_first(self, scope: SettingScope, places: Sequence[str]) -> list[str]:
        """The places in sections that speak of precision already, as they are named there, then all the others."""
        above = "".join(f"{part}." for part in self._top)
        names = (setting.name.removeprefix(above) for setting in scope.settings)
        parents = dict.fromkeys(name.rpartition(".")[0] for name in names)
        near = [
            f"{parent}.{place.rpartition('.')[2]}".lstrip(".")
            for parent in parents
            for place in places
            if stands_at(parent, place.rpartition(".")[0]) or parent == place.rpartition(".")[0]
        ]
        return [*near, *places]

    def _section(self, pattern: str) -> TextEntry | None:
        """The one mapping at a place below the top; the top itself where it is no whole text."""
        depth = len(self._top)
        below = [entry for entry in self._current.entries if entry.container == "mapping" and entry.key]
        below = [entry for entry in below if entry.key[:depth] == self._top]
        found = [entry for entry in below if stands_at(".".join(map(str, entry.key[depth:])), pattern)]
        if not pattern:
            found = [entry for entry in below if len(entry.key) == depth]
        return found[0] if len(found) == 1 else None

    def _scalar(self, value: str) -> Scalar:
        """The value that a token stands for, as this format writes it."""
        if value in (TRUE, FALSE):
            return value == TRUE
        if self._origin.config.is_shell:
            return value
        if value == NULL:
            return None
        if re.fullmatch(r"\d{1,4}", value):
            return int(value)
        return value

    def _apply(self, edit: ReplaceText) -> None:
        self.text = self.text[: edit.start] + edit.text + self.text[edit.end :]
        try:
            self._current = self._origin.config.opened_again(self.text)
        except ConfigUnreadable as error:
            raise EditRefused(f"the result would not be readable: {error}") from error


def _refuse_within_section(scope: SettingScope, setting: Setting) -> None:
    """``trainer.fp16=true`` of a section that code passes on: whether its file has the other key, too, is not known."""
    known = {place for key in scope.framework.keys for place in key.places}
    if "." in setting.name and setting.key.means and setting.name not in known:
        raise EditRefused(f"another key than {setting.name} may have to be added to a file first")


def _is_bare(step: ChangeStep, entry: TextEntry) -> bool:
    """Whether a flag is a switch without a value: a word behind it is another one's, unless it is ``True`` or so."""
    return step.key.is_switch and entry.kind == "flag" and str(entry.value).lower() not in (TRUE, FALSE)


def _is_on_by_itself(step: ChangeStep, entry: TextEntry) -> bool:
    """Whether a flag without a value is off where it is left out: a parser may know no other way to switch it off."""
    return entry.kind == "flag" and entry.style == "absent" and step.key.default == FALSE


def renamed(text: str, entry: TextEntry, new: str) -> ReplaceText:
    """The edit that gives an entry or flag another name. Raises EditRefused."""
    raw = text[entry.key_start : entry.key_end]
    at = raw.rfind(entry.name)
    if at < 0:
        raise EditRefused("the key is written in an unusual way")
    if entry.kind == "flag":
        new = entry.name[: len(entry.name) - len(entry.name.lstrip("-"))] + new.lstrip("-")
    start = entry.key_start + at
    return ReplaceText(start, start + len(entry.name), new)


def _shell_text(value: str) -> str:
    return value.capitalize() if value in (TRUE, FALSE) else value


def differences(before: str, after: str) -> list[ReplaceText]:
    """The edits that turn one text into the other, as small as lines allow."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    found = []
    for tag, first, last, new_first, new_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            found.append(_trimmed(before, starts[first], starts[last], "".join(new[new_first:new_last])))
    return found


def _trimmed(before: str, start: int, end: int, text: str) -> ReplaceText:
    """Without what both have at their ends."""
    most = min(end - start, len(text))
    head = next((i for i in range(most) if before[start + i] != text[i]), most)
    most -= head
    tail = next((i for i in range(most) if before[end - 1 - i] != text[len(text) - 1 - i]), most)
    return ReplaceText(start + head, end - tail, text[head : len(text) - tail])
