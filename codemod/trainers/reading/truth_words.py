"""Words that parsers read as truth values (``type=str2bool``, fields of type ``bool``), in pairs."""

from __future__ import annotations

from ...torch.dtypes import Constant

PAIRS = (("true", "false"), ("yes", "no"), ("on", "off"), ("1", "0"), ("t", "f"), ("y", "n"))
_TRUTH = {word: holds for yes, no in PAIRS for word, holds in ((yes, True), (no, False))}
_OTHER = {word: other for yes, no in PAIRS for word, other in ((yes, no), (no, yes))}


def truth_of(value: Constant) -> bool | None:
    """The truth value that a word stands for; None for other words."""
    return value if isinstance(value, bool) else _TRUTH.get(value.lower()) if isinstance(value, str) else None


def other_word(word: str) -> str | None:
    """The other word of its pair, written alike: ``False`` -> ``True``, ``no`` -> ``yes``."""
    other = _OTHER.get(word.lower())
    if other is None or word.islower() or word.isdigit():
        return other
    return other.upper() if word.isupper() and len(word) > 1 else other.capitalize()
