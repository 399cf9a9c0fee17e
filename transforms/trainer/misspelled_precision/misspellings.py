"""Misspelled precision words, and what they were meant to be.

Only slips of the hand inside one of a few words count: a letter left out, doubled, or swapped with its neighbor.
Digits must be right, so other formats (``float6``, ``bfloat8``) are never taken for slips; neither are other ways to
write a dtype that some trainer reads (``BFLOAT_16``).
"""

from __future__ import annotations

import re
from functools import cache

from ....codemod.source.facts import fact
from ....codemod.source.project import Project

DTYPES = ("bfloat16", "float16", "float32")
SPELLED = (*DTYPES, "bf16", "fp16")
"""What the value of a setting is called; the short names are in no slip but those that are listed."""
WORDS = (*DTYPES, "precision")
REAL = frozenset({"flat16", "flat32", "loat16", "loat32", "precisio", "recision"})
"""Slips that are, or may be, words of their own."""
COMMON = {
    "percision": "precision",
    "percison": "precision",
    "precesion": "precision",
    "precission": "precision",
    "presicion": "precision",
    "precicion": "precision",
    "prescision": "precision",
    "preceision": "precision",
    "presision": "precision",
    "bloat16": "bfloat16",
    "fb16": "bf16",
    "fpb16": "bf16",
    "bpf16": "bf16",
    "pf16": "fp16",
}
"""Slips of more than one letter, and those that could be meant for two words."""
STEMS = ("16", "precision")
"""Parts of words of which every file worth reading holds one."""
BEFORE = frozenset({"mix", "mixd", "mxied", "mixied"})
"""What stands for ``mixed`` in front of ``precision``."""


def respelled(word: str) -> str | None:
    """The name that ``word`` (``mix_precision``, ``bloat16``, ``--mixed-precison``) was meant to be; None: no slip.

    Letter case of the rest, dashes and underscores are kept.
    """
    whole = slips().get(word.lower())
    if whole is not None:
        return _cased(word, whole)
    parts = re.split("([-_.]+)", word)
    fixed = [_cased(part, slips().get(part.lower(), part)) for part in parts]
    for index, part in enumerate(parts):
        if part.lower() in BEFORE and "".join(fixed[index + 2 : index + 3]).lower() == "precision":
            fixed[index] = _cased(part, "mixed")
    meant = "".join(fixed)
    return meant if meant != word else None


def respelled_dtype(text: str) -> str | None:
    """The dtype that a whole string (``bloat16``, ``torch.flaot16``) was meant to be; None: no slip."""
    prefix = "torch." if text.startswith("torch.") else ""
    word = text.removeprefix(prefix)
    meant = slips().get(word.lower())
    return prefix + _cased(word, meant) if meant in SPELLED else None


@fact
def paths_with_slips(project: Project) -> list[str]:
    """The Python files that hold a word that `respelled` would change."""
    sought = (*slips(), *(f"{before}{dash}prec" for before in BEFORE for dash in ("_", "-")))

    def holds_one(text: str) -> bool:
        lowered = text.lower()
        return any(slip in lowered for slip in sought)

    stems = set(project.python_paths(STEMS))
    return [path for path in project.python_paths(sought, where=holds_one) if path in stems]


@cache
def slips() -> dict[str, str]:
    """Slip -> word, in lower case."""
    found: dict[str, str] = {}
    for word in reversed(WORDS):
        letters = word.rstrip("0123456789")
        digits = word[len(letters) :]
        for slip in slips_of(letters):
            found[slip + digits] = word
    right = {*WORDS, *REAL}
    return {slip: word for slip, word in (found | COMMON).items() if slip not in right}


def slips_of(letters: str) -> set[str]:
    """``letters`` with one of them left out or doubled, or two swapped."""
    places = range(len(letters))
    left_out = {letters[:i] + letters[i + 1 :] for i in places}
    doubled = {letters[:i] + letters[i] + letters[i:] for i in places}
    swapped = {letters[:i] + letters[i + 1] + letters[i] + letters[i + 2 :] for i in places[:-1]}
    return (left_out | doubled | swapped) - {letters}


def _cased(word: str, meant: str) -> str:
    return meant.upper() if word.isupper() else meant
