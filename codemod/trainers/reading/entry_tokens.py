"""The values of texts as the conditions of tables write them, and their kinds."""

from __future__ import annotations

import re

from ...formats.text import TextEntry
from .scopes import FALSE, NULL, TRUE, SettingKind

LONGEST_VALUE = 200
_TORCH_EXPRESSION = re.compile(r"\$torch\.\w+")
_BOOLEANS = {"true": TRUE, "false": FALSE}


def token_of(entry: TextEntry) -> tuple[str | None, SettingKind]:
    """The value as conditions write it, and its kind."""
    value = entry.value
    if entry.container:
        return None, "section"
    if entry.style in ("template", "alias", "mixed"):
        return None, "unknown"
    if value is None:
        return NULL, "null"
    if isinstance(value, bool):
        return (TRUE if value else FALSE), "bool"
    if isinstance(value, int | float):
        return str(value), "number"
    if _TORCH_EXPRESSION.fullmatch(value):
        return value, "string"
    if "${" in value or "{{" in value or value.startswith(("$", "@", "!")) or len(value) > LONGEST_VALUE:
        return None, "unknown"
    return value, "string"


def shell_token(entry: TextEntry) -> tuple[str | None, SettingKind]:
    """The same of a shell, where all is text."""
    if entry.style == "absent" and entry.kind == "flag":
        return TRUE, "bool"
    if entry.value is None or entry.style in ("mixed", "block", "template"):
        return None, "unknown"
    text = str(entry.value)
    if "$" in text or "`" in text or len(text) > LONGEST_VALUE:
        return None, "unknown"
    boolean = _BOOLEANS.get(text.lower())
    return (boolean, "bool") if boolean is not None else (text, "string")
