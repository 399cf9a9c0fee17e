"""The words that a name is made of: ``useAmp``, ``--amp-dtype`` and ``TRAIN.AMP`` speak of amp, ``sample`` does not."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")


@lru_cache(maxsize=8192)
def words_of(name: str) -> frozenset[str]:
    """The words of an identifier, a flag or a dotted key, in lower case; a number belongs to the word before it."""
    return frozenset(word.lower() for word in _WORD.findall(name))
