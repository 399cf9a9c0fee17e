"""Which precision words a file holds, judged on its bytes with letter case ignored."""

from __future__ import annotations

from collections.abc import Iterable

_GROUPS: dict[str, tuple[str, ...]] = {
    # Files without the shorter key need not be searched for the words: half the time on real projects.
    "scale": ("gradscaler", "nativescaler", "scaler", "unscale_", "loss_scale"),
    "16": ("bfloat16", "float16", "bf16", "fp16"),
    ".amp": (".amp", "cuda.amp", "cpu.amp"),
    "precision": ("precision", "mixed_precision"),
    "autocast": ("autocast",),
    "custom_": ("custom_fwd", "custom_bwd"),
    "apex": ("apex",),
    ".half(": (".half(",),
    "deepspeed": ("deepspeed",),
    "clip_grad": ("clip_grad",),
}
_OWN = "precfix"
_ENCODED = [
    (key.encode(), [(word, word.encode()) for word in words], frozenset(words))
    for key, words in {**_GROUPS, _OWN: (_OWN,)}.items()
]

PRECISION_WORDS: frozenset[str] = frozenset(word for words in _GROUPS.values() for word in words)
"""What makes a file worth a look, in lower case."""
SEARCHED: frozenset[str] = PRECISION_WORDS | {_OWN}
"""What every file is searched for when first read: asking for these again costs nothing."""


def words_in(data: bytes, more: Iterable[str] = ()) -> frozenset[str]:
    """The words of `SEARCHED`, and those of ``more`` (lower case), that ``data`` holds."""
    lowered = data.lower()
    held: set[str] = set()
    for key, words, names in _ENCODED:
        if key in lowered:
            held.update(names if len(words) == 1 else (word for word, encoded in words if encoded in lowered))
    return frozenset(held) | those_in(lowered, more)


def those_in(lowered: bytes, words: Iterable[str]) -> frozenset[str]:
    """The words (lower case) that bytes in lower case hold."""
    return frozenset(word for word in words if word.encode("utf-8", "surrogatepass") in lowered)


def vocabulary_of(data: bytes) -> bytes:
    """What stands between spaces in ``data``, in lower case and each once: it holds the same words without a space."""
    return b"\n".join(set(data.lower().split()))
