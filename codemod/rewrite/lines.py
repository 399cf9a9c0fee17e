"""Comment lines and blank lines between statements: which belong together, and what remains when one side goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

_TOPIC_WORDS = {"scaler", "gradscaler", "unscale", "unscales", "unscaled", "unscaling", "amp", "autocast"}
_TOPIC_PHRASES = ("loss scal", "gradient scal", "grad scal", "update the scale", "updates the scale", "scale factor")
_PRAGMAS = ("noqa", "type:", "pylint:", "pragma", "fmt:", "isort:", "yapf:", "ruff:", "mypy:", "pyright:", "nosec")
_MARKERS = ("#!", "# %%", "#%%", "# @", "#@", "# region", "#region", "# endregion", "#endregion", "# <", "# In[")


def is_blank(line: cst.EmptyLine) -> bool:
    """Whether the line is empty; a form feed is content, as editors page by it."""
    return line.comment is None and "\f" not in line.whitespace.value


def is_pragma(comment: str) -> bool:
    """Whether a comment speaks to a tool about its own line or block, not to a reader."""
    return comment.lstrip("# ").lower().startswith(_PRAGMAS) or comment.startswith(_MARKERS)


def joined(above: Sequence[cst.EmptyLine], below: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Both runs of lines, where they meet with as many blank lines as the larger side had."""
    head, upper = _split_trailing_blanks(above)
    tail = list(without_leading_blanks(below))
    lower = list(below[: len(below) - len(tail)])
    return [*head, *(upper if len(upper) > len(lower) else lower), *tail]


def without_leading_blanks(lines: Sequence[cst.EmptyLine]) -> Sequence[cst.EmptyLine]:
    """The lines from the first one that is not blank."""
    for index, line in enumerate(lines):
        if not is_blank(line):
            return lines[index:]
    return []


def without_trailing_blanks(lines: Sequence[cst.EmptyLine]) -> Sequence[cst.EmptyLine]:
    """The lines up to the last one that is not blank."""
    return _split_trailing_blanks(lines)[0]


def own_comment(lines: Sequence[cst.EmptyLine], indent: str = "") -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """(what stands above, the comment lines directly above the code at the same indentation).

    ``indent`` is how much deeper than its statement the code stands (inside brackets).
    """
    index = len(lines)
    while index and lines[index - 1].comment is not None and lines[index - 1].indent:
        if lines[index - 1].whitespace.value != indent:
            break
        index -= 1
    return list(lines[:index]), list(lines[index:])


def kept_without(lines: Sequence[cst.EmptyLine], *, emptied: bool, indent: str = "") -> list[cst.EmptyLine]:
    """The lines that stay when the statement below them goes: all but a comment that plainly speaks of it."""
    above, comment = own_comment(lines, indent)
    texts = [line.comment.value for line in comment if line.comment is not None]
    if any(is_pragma(text) for text in texts) or not (emptied or speaks_of_scaling(texts)):
        return list(lines)
    return above


def speaks_of_scaling(comments: Iterable[str]) -> bool:
    """Whether the comment is about loss scaling, which statements are removed for."""
    text = " ".join(comments).lower()
    words = "".join(char if char.isalnum() else " " for char in text).split()
    return not _TOPIC_WORDS.isdisjoint(words) or any(phrase in " ".join(words) for phrase in _TOPIC_PHRASES)


def comment_lines(comments: Iterable[cst.Comment | None]) -> list[cst.EmptyLine]:
    """Comments as lines of their own, less those that only meant the line they stood on."""
    return [cst.EmptyLine(comment=each) for each in comments if each is not None and not is_pragma(each.value)]


class _Deepener(cst.CSTTransformer):
    def leave_EmptyLine(self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine) -> cst.EmptyLine:
        bare = updated_node.comment is None and not updated_node.whitespace.value
        return updated_node.with_changes(indent=False) if bare else updated_node


def deepened(node: cst.CSTNodeT) -> cst.CSTNodeT:
    """A statement of module level for a deeper block: its blank lines, "indented" by nothing, must stay bare."""
    result = node.visit(_Deepener())
    assert isinstance(result, type(node))
    return result


def _split_trailing_blanks(lines: Sequence[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    index = len(lines)
    while index and is_blank(lines[index - 1]):
        index -= 1
    return list(lines[:index]), list(lines[index:])
