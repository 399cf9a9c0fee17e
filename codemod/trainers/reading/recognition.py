"""Which trainer reads a text, told by marks: names of files, keys, flags, programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import count, groupby

from ...source.documents import SHELL_ENDINGS, Document
from ..framework import Framework

ENOUGH = 3
"""Points that make a text a framework's own."""


MAX_PATH = 2_000
"""Characters of a dotted path or a word of a command line; longer ones are nothing that a table knows."""


@lru_cache(maxsize=4096)
def _dotted(pattern: str) -> re.Pattern[str]:
    """``**.trainer.precision`` -> an expression; ``*`` is one part, ``**`` any number of parts."""
    fresh = count()
    first, *others = [list(parts) for is_any, parts in groupby(pattern.split("."), "**".__eq__) if not is_any] or [[]]
    runs = [first, *others] if not pattern.startswith("**") else [[], first, *others]
    if pattern.endswith("**") and runs[-1]:
        runs.append([])
    texts = ["".join(_part(part, fresh) for part in run) for run in runs]
    found = texts[0]
    for number, text in enumerate(texts[1:], 1):
        gap = f"(?:[^.]*[.])*{'' if number == len(texts) - 1 else '?'}{text}"
        found += gap if number == len(texts) - 1 else _settled(gap, fresh)
    return re.compile(found, re.DOTALL)


def _part(part: str, fresh: Iterator[int]) -> str:
    return f"(?:{'|'.join(_starred(word, '[^.]', fresh) for word in _braces(part))})[.]"


def _starred(word: str, any_of: str, fresh: Iterator[int]) -> str:
    """``a*b*c`` -> an expression that takes time in proportion to the text; ``*`` is any number of ``any_of``."""
    first, *others = [re.escape(piece) for piece in re.split(r"\*+", word)]
    middle = "".join(_settled(f"{any_of}*?{piece}", fresh) for piece in others[:-1])
    return first + middle + (f"{any_of}*{others[-1]}" if others else "")


def _settled(expression: str, fresh: Iterator[int]) -> str:
    """The expression without a way back into it: where the first place that fits is as good as any other."""
    name = f"g{next(fresh)}"
    return f"(?=(?P<{name}>{expression}))(?P={name})"


def _braces(part: str) -> list[str]:
    match = re.fullmatch(r"(.*)\{(.*)\}(.*)", part)
    return [f"{match[1]}{word}{match[3]}" for word in match[2].split(",")] if match else [part]


def stands_at(path: str, pattern: str) -> bool:
    """Whether a dotted path matches a dotted glob."""
    return len(path) <= MAX_PATH and _dotted(pattern).fullmatch(f"{path}.") is not None


@dataclass(frozen=True, slots=True)
class KeyMarks:
    """The keys of a text (dotted path or flag) with their values, found by the words of a glob."""

    values: Mapping[str, str | None]
    _by_part: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in self.values:
            for part in dict.fromkeys(path.split(".")) if len(path) <= MAX_PATH else ():
                self._by_part.setdefault(part, []).append(path)

    def hold(self, pattern: str, wanted: str | None) -> bool:
        """Whether a key stands there, with a value that fits the glob ``wanted`` if there is one."""
        if "*" not in pattern and "{" not in pattern:
            return pattern in self.values and len(pattern) <= MAX_PATH and _fits(self.values[pattern], wanted)
        words = _words_of_glob(pattern)
        paths = self.values if words is None else [path for word in words for path in self._by_part.get(word, ())]
        return any(stands_at(path, pattern) and _fits(self.values[path], wanted) for path in paths)


@lru_cache(maxsize=4096)
def _words_of_glob(pattern: str) -> tuple[str, ...] | None:
    """Words of which every path that fits holds one as a part of its own; None where any part may be anything."""
    parts = [_braces(part) for part in pattern.split(".")]
    plain = [words for words in parts if not any("*" in word for word in words)]
    fewest = min(reversed(plain), key=len, default=None)
    return tuple(fewest) if fewest is not None else None


def stands_inside(document: Document, row: int) -> bool:
    """Whether a row of a shell script is indented: inside a condition, a loop or a function."""
    return document.path.endswith(SHELL_ENDINGS) and row in document.fact(_indented_rows)


def _indented_rows(document: Document) -> frozenset[int]:
    return frozenset(row for row, line in enumerate(document.text.splitlines(), 1) if line[:1].isspace())


def plain_flag(flag: str) -> str:
    """``--Mixed-Precision`` and ``--mixed_precision`` are one flag."""
    return flag.lstrip("-").replace("-", "_")


def points(framework: Framework, path: str, marks: KeyMarks) -> int:
    """How sure it is that ``framework`` reads a text at ``path`` with these keys."""
    known = framework.recognize
    if any(_is_marked(mark, marks) for mark in known.unless):
        return 0
    total = 3 if any(is_file_named(path, pattern) for pattern in known.files) else 0
    total += sum(3 for mark in known.strong if _is_marked(mark, marks))
    return total + sum(1 for mark in known.weak if _is_marked(mark, marks))


def is_file_named(path: str, pattern: str) -> bool:
    """Whether a path fits a glob of names, or of paths where it has a slash."""
    name = path.rpartition("/")[2]
    return fnmatchcase(path if "/" in pattern else name, pattern) or (
        "/" in pattern and fnmatchcase(f"/{path}", f"*/{pattern.removeprefix('**/')}")
    )


def _is_marked(mark: str, marks: KeyMarks) -> bool:
    """``a.b`` stands there; ``a.b: glob`` stands there with such a value; ``a + b``: both."""
    return all(marks.hold(pattern, wanted) for pattern, wanted in _parts_of(mark))


@lru_cache(maxsize=4096)
def _parts_of(mark: str) -> tuple[tuple[str, str | None], ...]:
    """The keys that a mark asks for, each with the glob of its value, if there is one."""
    found = []
    for part in mark.split(" + "):
        pattern, colon, wanted = part.partition(": ")
        key = f"--{plain_flag(pattern)}" if pattern.startswith("--") else pattern
        found.append((key, wanted if colon else None))
    return tuple(found)


def _fits(value: str | None, wanted: str | None) -> bool:
    return wanted is None or (value is not None and fnmatchcase(value, wanted))


def words_of_mark(mark: str) -> tuple[str, ...]:
    """The words that a text with this mark must hold; none where the mark is all wildcards."""
    found: list[str] = []
    for part in mark.split(" + "):
        pattern, _, value = part.partition(": ")
        found += re.findall(r"[A-Za-z_]\w{2,}", re.sub(r"\{[^}]*\}", "", pattern))
        found += [] if value in ("true", "false", "null") else re.findall(r"[A-Za-z_]\w{2,}", value)
    return tuple(found)


def owner_of(frameworks: Iterable[Framework], path: str, values: Mapping[str, str | None]) -> Framework | None:
    """The framework that most surely reads a text with these keys; None where none is sure enough."""
    marks = KeyMarks(values)
    best: Framework | None = None
    most = (False, ENOUGH - 1)
    for framework in frameworks:
        score = points(framework, path, marks)
        if score >= ENOUGH and (not framework.recognize.generic, score) > most:
            best, most = framework, (not framework.recognize.generic, score)
    return best


def owner_of_section(frameworks: Iterable[Framework], path: str) -> Framework | None:
    """The framework of which a mapping at a dotted path is a text of its own."""
    return next((item for item in frameworks if any(stands_at(path, place) for place in item.recognize.sections)), None)


def runs_program(framework: Framework, words: Iterable[str]) -> bool:
    """Whether one of the framework's programs is among the words of a command line."""
    text = " ".join(word for word in words if len(word) <= MAX_PATH)
    return any(_is_program(text, pattern) for pattern in framework.recognize.programs)


@lru_cache(maxsize=4096)
def _program(pattern: str) -> re.Pattern[str]:
    """A program may stand anywhere among the words, with any folder before it."""
    fresh = count()
    words = [r"(?:\S*/)?" + _starred(word, r"\S", fresh) for word in pattern.split()]
    if "*" in pattern:
        words = [_settled(rf"{word}(?=\s|$)", fresh) for word in words]
    return re.compile(r"(?:^|\s)" + r"\s+".join(words) + r"(?=\s|$)")


def _is_program(text: str, pattern: str) -> bool:
    return _program(pattern).search(text) is not None
