"""gitignore rules, as git applies them to one entry at a time.

The walk never enters an ignored directory, so a pattern is only ever asked about the entry itself: that is git's own
"a file cannot be re-included if a parent directory is excluded". Matching is linear, whatever the pattern.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .reading import FileRefused, read_regular_file

MAX_IGNORE_BYTES = 1_000_000
MAX_PATTERNS = 20_000
MAX_LENGTH = 10_000
"""Characters of one pattern; no path is as long, and compiling a million takes a minute."""
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_BODY = r"\]?(?:\[:[a-z]+:\]|\\.|[^\]\\])*"
_BRACKET = re.compile(rf"\[([!^]?)({_BODY})\]", re.DOTALL)
_TOKEN = re.compile(rf"\[[!^]?{_BODY}\]|\\.|.", re.DOTALL)
_ITEM = re.compile(r"\[:([a-z]+):\]|(\\?.)(?:-(\\?[^\]]))?", re.DOTALL)
_Segment = re.Pattern[str] | None  # None stands for **
SkipRecorder = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of a gitignore file."""

    negated: bool
    directory_only: bool
    anchored: bool
    """Matched against the path below the file's directory rather than against the name alone."""
    segments: tuple[_Segment, ...]
    literal: str | None
    """The name itself when the pattern has no wildcards and is not anchored."""
    suffix: str | None
    """``.pyc`` for ``*.pyc``."""

    def matches(self, path: str, is_directory: bool) -> bool:
        """Whether the entry at ``path`` (relative to the gitignore file) is meant."""
        if self.directory_only and not is_directory:
            return False
        return _match_segments(self.segments, path.split("/") if self.anchored else [path.rpartition("/")[2]])


def _match_segments(segments: tuple[_Segment, ...], names: list[str]) -> bool:
    """Glob matching over whole path segments; going back to the last ``**`` alone suffices."""
    at = name_at = 0
    star_at, star_name = -1, 0
    while name_at < len(names):
        segment = segments[at] if at < len(segments) else _NOTHING
        if segment is None:
            if at + 1 == len(segments):
                return True
            star_at, star_name = at, name_at
            at += 1
        elif segment.fullmatch(names[name_at]):
            at, name_at = at + 1, name_at + 1
        elif star_at >= 0:
            star_name += 1
            at, name_at = star_at + 1, star_name
        else:
            return False
    return at == len(segments)


class IgnoreRules:
    """The patterns of one gitignore file (``base`` is the directory it stands in, with a slash, or "")."""

    def __init__(self, base: str, patterns: tuple[Pattern, ...]) -> None:
        self._base = len(base)
        self._patterns = patterns[::-1]  # the last pattern that matches decides
        self._literals = frozenset(pattern.literal for pattern in patterns if pattern.literal is not None)
        self._suffixes = tuple({pattern.suffix for pattern in patterns if pattern.suffix is not None})
        self._others = tuple(pattern for pattern in patterns if pattern.literal is None and pattern.suffix is None)

    def verdict(self, path: str, is_directory: bool) -> bool | None:
        """True: ignored; False: explicitly not ignored; None: these rules say nothing."""
        below = path[self._base :]
        name = below.rpartition("/")[2]
        if not (
            name in self._literals
            or name.endswith(self._suffixes)
            or any(pattern.matches(below, is_directory) for pattern in self._others)
        ):
            return None
        return next(
            (not pattern.negated for pattern in self._patterns if pattern.matches(below, is_directory)),
            None,
        )


def compile_patterns(lines: Iterable[str], skip: SkipRecorder, source: str = "exclude") -> list[Pattern]:
    """The patterns of a gitignore file's lines; lines that mean nothing are left out, as git does."""
    patterns: list[Pattern] = []
    for line in lines:
        if len(patterns) >= MAX_PATTERNS:
            skip(source, f"more than {MAX_PATTERNS} ignore patterns: the rest is not used")
            break
        if len(line) > MAX_LENGTH:
            skip(source, f"an ignore pattern of more than {MAX_LENGTH} characters is not used")
            continue
        pattern = _compile(line)
        if pattern is not None:
            patterns.append(pattern)
    return patterns


def read_rules(file: str, base: str, folder: str, skip: SkipRecorder) -> list[IgnoreRules]:
    """The rules of a gitignore file, or nothing when there is none or it cannot be used (recorded)."""
    try:
        data = read_regular_file(file, MAX_IGNORE_BYTES)
    except (FileNotFoundError, NotADirectoryError):  # .git is a file in work trees and submodules
        return []
    except (FileRefused, OSError) as error:
        reason = (error.strerror or "error").lower() if isinstance(error, OSError) else str(error)
        skip(folder + os.path.basename(file), f"ignore rules not used: {reason}")
        return []
    text = os.fsdecode(data.removeprefix(b"\xef\xbb\xbf"))
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return [IgnoreRules(base, tuple(compile_patterns(lines, skip, folder + os.path.basename(file))))]


def outer_rules(start: str, skip: SkipRecorder) -> tuple[str, tuple[IgnoreRules, ...]]:
    """The git work tree that ``start`` lies in (or itself), and the rules that hold from outside ``start``.

    In a linked work tree or a submodule ``.git`` is a file that points elsewhere: its exclude file is not followed.
    """
    top = start
    while not os.path.lexists(os.path.join(top, ".git")):
        parent = os.path.dirname(top)
        if parent == top:
            return start, ()
        top = parent
    git = os.path.join(top, ".git")
    rules = read_rules(os.path.join(git, "info", "exclude"), "", ".git/info/", skip) if os.path.isdir(git) else []
    folders: list[str] = []
    folder = start
    while folder != top:
        folder = os.path.dirname(folder)
        folders.append(folder)
    for folder in reversed(folders):
        below = os.path.relpath(folder, top).replace(os.sep, "/")
        base = "" if below == "." else below + "/"
        rules += read_rules(os.path.join(folder, ".gitignore"), base, base, skip)
    return top, tuple(rules)


def _compile(line: str) -> Pattern | None:
    text = _without_trailing_spaces(line)
    if text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[1:] if negated else text
    directory_only = text.endswith("/")
    text = text[:-1] if directory_only else text
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    segments: list[_Segment] = []
    for part in _split(text):
        if anchored and len(part) > 1 and not part.strip("*"):
            if not segments or segments[-1] is not None:
                segments.append(None)
            continue
        regex = _segment_regex(part)
        if regex is None:
            return None
        segments.append(regex)
    plain = not anchored and not any(char in text for char in "*?[\\")
    suffixed = not anchored and text.startswith("*") and not any(char in text[1:] for char in "*?[\\")
    return Pattern(
        negated, directory_only, anchored, tuple(segments), text if plain else None, text[1:] if suffixed else None
    )


def _split(text: str) -> list[str]:
    """The path segments of a pattern; a slash in brackets is part of the brackets."""
    parts = [""]
    for match in _TOKEN.finditer(text):  # one by one: looking for the end of every bracket would be quadratic
        token = match[0]
        if token in ("/", "\\/"):
            parts.append("")
        else:
            parts[-1] += token
            if token == "[":
                return ["["]  # never closed: git matches nothing with it
    return parts


def _without_trailing_spaces(line: str) -> str:
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if escapes % 2 and bare != line else bare


_NOTHING = re.compile(r"(?!)")


def _segment_regex(part: str) -> re.Pattern[str] | None:
    """The regular expression of one path segment of a pattern; None when git would never match it."""
    chunks: list[str] = [""]  # the parts between stars
    at = 0
    while at < len(part):
        char = part[at]
        if char == "*":
            if chunks[-1] or len(chunks) == 1:
                chunks.append("")
            at += 1
        elif char == "[":
            match = _BRACKET.match(part, at)
            if match is None:
                return None
            chunks[-1] += _bracket_regex(match[1] != "", match[2])
            at = match.end()
        elif char == "\\":
            if at + 1 == len(part):
                return None
            chunks[-1] += re.escape(part[at + 1])
            at += 2
        else:
            chunks[-1] += "." if char == "?" else re.escape(char)
            at += 1
    return re.compile(_joined(chunks), re.DOTALL)


def _joined(chunks: list[str]) -> str:
    """Chunks with stars between them. A lookahead makes each star settle for its first match: never exponential."""
    if len(chunks) == 1:
        return chunks[0]
    first, *middle, last = chunks
    steps = "".join(f"(?=(?P<g{number}>.*?{chunk}))(?P=g{number})" for number, chunk in enumerate(middle))
    return f"{first}{steps}.*{last}"


def _bracket_regex(negated: bool, body: str) -> str:
    items: list[str] = []
    for name, first, last in _ITEM.findall(body):
        if name:
            items.append(_CLASSES.get(name, ""))
        elif not last:
            items.append(re.escape(first[-1]))
        elif first[-1] <= last[-1]:
            items.append(f"{re.escape(first[-1])}-{re.escape(last[-1])}")
    if not any(items):
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{''.join(items)}]"
