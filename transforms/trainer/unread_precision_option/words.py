"""Which names are those of a precision that can be chosen."""

from __future__ import annotations

from functools import cache

WORDS = (
    "fp16",
    "bf16",
    "float16",
    "amp",
    "mixed_precision",
    "mixed-precision",
    "half_precision",
    "half-precision",
    "tf32",
)
"""A file without any of these words declares no such thing."""
CERTAIN = frozenset(("fp16", "bf16", "float16", "bfloat16", "autocast", "tf32"))
TOGETHER = (frozenset(("mixed", "precision")), frozenset(("half", "precision")), frozenset(("use", "amp")))
SWITCHED = frozenset(("amp",))
"""Names that say a precision only where they switch something: ``amp`` can be an amplitude."""
ASIDE = frozenset(("no", "not", "disable", "path", "file", "dir", "name", "model", "ckpt", "weights", "size", "ratio"))


@cache
def names_precision(name: str, is_switch: bool) -> bool:
    """Whether a parameter or option of this name chooses a precision."""
    words = frozenset(name.lower().replace("-", "_").split("_"))
    if not ASIDE.isdisjoint(words):
        return False
    chosen = not words.isdisjoint(CERTAIN) or any(parts <= words for parts in TOGETHER)
    return chosen or (is_switch and words <= SWITCHED)
