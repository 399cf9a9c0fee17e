"""Which format a file is read as, and texts inside other texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ..model import EditRefused, ReplaceText
from .placeholders import open_with_holes
from .text import ConfigText, ConfigUnreadable, Heredoc, Overlaid, TextEntry


def open_config(text: str, kind: str) -> ConfigText:
    """Read ``text`` as ``yaml json toml shell env makefile dockerfile list`` or ``notebook`` (one cell's source).

    Raises ConfigUnreadable when it cannot be understood, ValueError for an unknown kind.
    """
    opener = _opener(kind)
    try:
        return opener(text)
    except ConfigUnreadable as error:
        try:
            filled = open_with_holes(text, opener) if kind in ("yaml", "json", "toml") else None
        except ConfigUnreadable:
            filled = None
        if filled is None:
            raise error
        return filled


def open_within(text: str, start: int, end: int, kind: str, *, literal: bool = True) -> ConfigText:
    """Read ``text[start:end]`` alone; offsets of entries and edits are those of the whole text.

    ``literal=False`` says that the shell still expands the body, so edits may not write ``$``, backquotes, backslashes.
    """
    return _Within(text, start, open_config(text[start:end], kind), literal)


BY_HAND = "the parameters of a sweep are changed by hand"
_FILLED_IN = r"(\.(example|sample|dist|j2|jinja2?|tmpl|tpl|template))?"
_NAMES: tuple[tuple[str, str], ...] = (
    (r"(.*\.)?env(\..+)?|.*\.env|\.envrc", "env"),
    (r"(gnu)?makefile|.*\.mk|makefile\..+", "makefile"),
    (r"(dockerfile|containerfile)(\..*)?|.*\.(dockerfile|containerfile)", "dockerfile"),
    (rf".*\.ya?ml{_FILLED_IN}", "yaml"),
    (rf".*\.(json|jsonc|json5){_FILLED_IN}|.*\.conf", "json"),
    (rf".*\.toml{_FILLED_IN}", "toml"),
    (r".*\.(sh|bash|zsh|ksh|slurm|sbatch|job|qsub|sub|pbs|lsf|cmd\.sh)", "shell"),
)


def kind_of(file_name: str) -> str | None:
    """The kind that a file of this name is read as, or None. Only the last path component counts."""
    name = file_name.replace("\\", "/").rpartition("/")[2].lower()
    return next((kind for pattern, kind in _NAMES if re.fullmatch(pattern, name, re.DOTALL)), None)


def _opener(kind: str) -> Callable[[str], ConfigText]:
    # The formats are imported one by one: PyYAML alone costs a fifth of a start.
    if kind == "yaml":
        from .yaml_text import open_yaml

        return open_yaml
    if kind == "json":
        from .json_text import open_json

        return open_json
    if kind == "toml":
        from .toml_text import open_toml

        return open_toml
    if kind in {"shell", "env", "makefile", "dockerfile", "notebook", "list"}:
        from .shell_text import open_shell

        return lambda text: open_shell(text, kind)
    raise ValueError(f"unknown kind of configuration: {kind}")


class ReadOnly(Overlaid):
    """A text that is read as it is, and changed by hand."""

    def _passed_on(self, edit: Callable[[], ReplaceText]) -> ReplaceText:
        raise EditRefused(BY_HAND)


class _Within(Overlaid):
    """A text inside another one, seen with the outer text's offsets."""

    def __init__(self, text: str, start: int, inner: ConfigText, literal: bool) -> None:
        super().__init__(inner)
        self._text = text
        self._start = start
        self._literal = literal
        self.entries = tuple(_moved(entry, start) for entry in inner.entries)
        self.heredocs = tuple(
            Heredoc(doc.target_name, doc.start + start, doc.end + start, doc.quoted, doc.command)
            for doc in inner.heredocs
        )
        self.commands = tuple(replace(each, start=each.start + start) for each in inner.commands)

    def _passed_on(self, edit: Callable[[], ReplaceText]) -> ReplaceText:
        made = edit()
        start, end = made.start + self._start, made.end + self._start
        # Text that the edit only moves was there before; what it adds must not be expanded by the shell.
        if not self._literal and any(
            made.text.count(mark) > self._text.count(mark, start, end) for mark in ("$", "`", "\\")
        ):
            raise EditRefused("the shell would expand the new value inside this here-document")
        return ReplaceText(start, end, made.text)


def _moved(entry: TextEntry, by: int) -> TextEntry:
    return replace(
        entry,
        start=entry.start + by,
        end=entry.end + by,
        key_start=entry.key_start + by,
        key_end=entry.key_end + by,
    )
