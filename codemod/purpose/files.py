"""What a file is for, by its path: the one answer to "is this a test, other people's code, or inference"."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from ..source.documents import SHELL_ENDINGS
from .words import (
    AFTER_TRAINING_WORDS,
    CHECKPOINTS,
    COPIED_LIBRARIES,
    FOREIGN_WORDS,
    LOGS,
    NOT_TRAINING,
    NUMBERED,
    RESULTS,
    RETIRED_WORDS,
    REWRITES,
    TEST_NAMES,
    TEST_WORDS,
    TRAINING_WORDS,
    WRITTEN,
    WRITTEN_FOLDERS,
    WRITTEN_NAMES,
    Purpose,
    Words,
)

CONFIG_ENDINGS = (".yaml", ".yml", ".json", ".jsonc", ".json5", ".toml", ".conf")
"""Files of which the folder tells whose they are, and what reads them what they are for."""
MAX_KNOWN = 65536
"""How many paths are remembered: rules ask about each file of a project many times."""


@lru_cache(MAX_KNOWN)
def purpose_of(path: str) -> Purpose:
    """What the file at ``path`` is for; a test whatever else it says, training before what follows training."""
    *folders, name = path.lower().split("/")
    stem = name.rpartition(".")[0] or name
    words = words_of(stem)
    is_told_by_others = name.endswith((*CONFIG_ENDINGS, *SHELL_ENDINGS))
    named = () if is_told_by_others else words  # what a configuration is named after is its data: genomic_benchmark
    foreign = _stated(FOREIGN_WORDS, folders, named)
    if _is_test(folders, stem, words):
        return Purpose.TEST
    if foreign is not None or _is_copied_library(folders):
        return foreign or Purpose.VENDORED
    if not says_training(stem):
        after = _after_training(folders, words)
        if after is not None:
            return after
    is_copy = stem.rstrip(" ()0123456789").endswith((" copy", "(copy"))  # as file managers name one
    if is_copy or any(not RETIRED_WORDS.isdisjoint(words_of(part)) for part in (*folders, stem)):
        return Purpose.RETIRED
    return Purpose.TRAINING if says_training(stem) else Purpose.UNSTATED


@lru_cache(MAX_KNOWN)
def is_record(path: str) -> bool:
    """Whether a file of settings is what a run has written of itself: the outcome of a declaration, and none."""
    *folders, name = path.lower().split("/")
    stem, _, ending = name.rpartition(".")
    if f".{ending}" not in CONFIG_ENDINGS:
        return False
    if not WRITTEN_FOLDERS.isdisjoint(folders) or any(re.fullmatch(WRITTEN, folder) for folder in folders):
        return True
    words = {word for folder in folders for word in words_of(folder)}
    if not LOGS.isdisjoint(words) and any(re.fullmatch(NUMBERED, folder) for folder in folders):
        return True
    if not RESULTS.isdisjoint(words) and ending == "json" and stem in ("config", *WRITTEN_NAMES):
        return True
    is_beside = not CHECKPOINTS.isdisjoint(words)
    return stem == "trainer_state" or (is_beside and stem in WRITTEN_NAMES)


def is_test(path: str) -> bool:
    """Whether the file only tests others: what stands in it may be wrong on purpose, and says nothing of a run."""
    return purpose_of(path) is Purpose.TEST


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, split where anything but a letter or digit stands."""
    return tuple(word for word in re.split(r"[^a-z0-9]+", name.lower()) if word)


def says_training(name: str) -> bool:
    """Whether a name holds a word for training."""
    for chance in NOT_TRAINING:
        name = name.replace(chance, "")
    return any(word in name for word in TRAINING_WORDS)


def _after_training(folders: list[str], words: tuple[str, ...]) -> Purpose | None:
    if words == ("test",):
        return Purpose.EVALUATION
    if len(words) > 1 and words[0] in REWRITES:
        return Purpose.EXPORT
    return _stated(AFTER_TRAINING_WORDS, folders, words)


def _is_test(folders: list[str], stem: str, words: tuple[str, ...]) -> bool:
    if stem in TEST_NAMES or (len(words) > 1 and not TEST_WORDS.isdisjoint((words[0], words[-1]))):
        return True
    return any((words_of(folder) or ("",))[-1] in ("tests", "unittests") for folder in folders)


def _stated(table: tuple[Words, ...], folders: list[str], words: tuple[str, ...]) -> Purpose | None:
    for row in table:
        if not row.folders.isdisjoint(folders) or not row.names.isdisjoint(words):
            return row.purpose
    return None


def _is_copied_library(folders: list[str]) -> bool:
    """``net/annotator/mmcv`` is a copy; ``mmcv/`` and ``src/mmcv/`` are the library's own repository."""
    return any(folder in COPIED_LIBRARIES and above != "src" for above, folder in pairwise(folders))
