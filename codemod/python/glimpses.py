"""What is seen in the text of a file that is not parsed: enough to tell that nothing in it is worth parsing.

Of calls, only what stands between the parentheses is read. Where that is not clear (a bracket in a string, a
comment), the answer is that nobody knows; names in strings and comments are seen too. So who asks can be led to parse
a file for nothing, and never to pass over one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

MAX_LENGTH = 2000
"""Arguments longer than this are not read."""

_LONG = r"{0}[^{1}\\]*(?:(?:\\.|{1}(?!{1}{1}))[^{1}\\]*)*(?:{0}|\\?\Z)"
_SHORT = r"{0}[^{0}\\\r\n]*(?:\\(?:\r\n|.)[^{0}\\\r\n]*)*(?:{0}|\\?(?=[\r\n]|\Z))"
_STRINGS = (_LONG.format('"""', '"'), _LONG.format("'''", "'"), _SHORT.format('"'), _SHORT.format("'"))
_UNREAD = re.compile("|".join((r"#[^\r\n]*", *_STRINGS)), re.DOTALL)
"""Comments and strings. One that is never closed counts as well, or a text of them would cost its square."""


_GAP = r"(?:[\s\\]|#[^\r\n]*[\r\n])*"
_SETTING = rf"\.{_GAP}{{0}}\b{_GAP}(?:[^=\s\w(.\[]|=[^=]|in\b)|\b{{0}}{_GAP}=[^=]"
"""``.name =``, ``name=`` and more."""


def is_in_code(text: str, words: Iterable[str]) -> bool:
    """Whether a Python text holds one of some words, in lower case, outside of its comments and long strings."""
    code = _UNREAD.sub(_but_plain_strings, text).lower()
    return any(word in code for word in words)


def may_set(text: str, name: str) -> bool:
    """Whether a text may give an attribute or an argument a value, or hold it as a flag (``--name``)."""
    if re.search(_SETTING.format(name), text):
        return True
    strings = [item for item in _UNREAD.findall(text) if not item.startswith("#")] if "--" in text else []
    return any("--" in item for item in strings) and any(name in item.replace("-", "_") for item in strings)


def _but_plain_strings(found: re.Match[str]) -> str:
    """Nothing for a comment or a long string without code in it; a dtype may be named by a short one."""
    said, at = found[0], found.start()
    is_long = said.startswith(('"""', "'''")) and "f" not in found.string[max(at - 2, 0) : at].lower()
    return "" if is_long or said.startswith("#") else said


_WITH, _WORD = re.compile(r"\bwith\b"), re.compile(r"\w+")


def contexts_seen(text: str) -> Iterator[list[str] | None]:
    """The words in what each ``with`` enters, strings and comments left out, f-strings not; None: it is too long."""
    code = _UNREAD.sub(_words_of_fields, text)
    for found in _WITH.finditer(code):
        start, depth = found.end(), 0
        for end in range(start, min(len(code), start + MAX_LENGTH)):
            depth += (code[end] in "([{") - (code[end] in ")]}")
            if code[end] == ":" and depth <= 0:
                yield _WORD.findall(code[start:end])
                break
        else:
            yield None


def _words_of_fields(found: re.Match[str]) -> str:
    start = found.start()
    before = found.string[max(start - 2, 0) : start]
    is_field = ("f" in before or "F" in before) and found.string[start] != "#"
    return f" {' '.join(_WORD.findall(found[0]))} " if is_field else ""


_IMPORTS = re.compile(r"\b(?:from|import)\b(?:\\(?:\r\n?|\n)|[^\r\n(;])*(?:\((?:#[^\r\n]*|[^)#])*)?")
"""Import statements to their end, and whatever else begins with such a word."""


def words_of_imports(text: str) -> frozenset[str]:
    """The words of all import statements in a text, and some others."""
    return frozenset(_WORD.findall("\n".join(_IMPORTS.findall(text))))


def calls_seen(text: str, name: str) -> Iterator[ast.Call | None]:
    """What is passed wherever something whose last name is ``name`` may be called; None where it cannot be told."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not _goes_on(text[at - 1 : at]) and not _goes_on(text[end : end + 1]):
            while text[end : end + 1] in _BETWEEN:
                end += 1
            if text[end : end + 1] == "#":
                yield None
            elif text[end : end + 1] == "(":
                yield _read(text, end)
        at = text.find(name, at + len(name))


_BETWEEN = frozenset(" \t\r\n\f\\")
"""What may stand between a name and its parenthesis, besides a comment."""


def _goes_on(character: str) -> bool:
    """Whether a name goes on with a character ("" at the ends of the text)."""
    return character == "_" or character.isalnum()


def _read(text: str, start: int) -> ast.Call | None:
    depth = 0
    for at in range(start, min(len(text), start + MAX_LENGTH)):
        character = text[at]
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return _parsed(text[start : at + 1])
    return None


def _parsed(arguments: str) -> ast.Call | None:
    try:
        read = ast.parse(f"f{arguments}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return read if isinstance(read, ast.Call) and isinstance(read.func, ast.Name) else None
