"""Text of a hostile project inside GitHub's Markdown: it is shown as it is, links nowhere and calls nobody."""

from __future__ import annotations

import re

from .printable import printable

LONGEST = 1000
"""Characters of one text that are kept."""
_LINK = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&*+,;=%-]+")
_BREAK = "&#8203;"
"""A space of no width: what is looked for in the finished page (``@name``, ``#1``, ``www.``) is found no more."""
_PAGE_MARKS = re.compile(r"@|#(?=\w)|\bGH-|\bwww(?=\.)|:(?=//)|\b(?:mailto|xmpp):", re.IGNORECASE)


def escaped(text: str) -> str:
    """``text`` on one line that holds no markup: no HTML, links, mentions, references, tables or formulas."""
    shown = _PAGE_MARKS.sub(lambda mark: mark[0] + "\0", printable(clipped(text)))
    shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = re.sub(r"([\\`*_\[\]|~])", r"\\\1", shown)
    return shown.replace("$", "<span>$</span>").replace("\0", _BREAK)


def code(text: str) -> str:
    """``text`` as a code span, between more backticks than stand in a row inside."""
    shown = printable(clipped(text))
    if not shown.strip():
        return "` `"
    if "`" not in shown:
        return f"`{shown}`"
    marks = "`" * (_longest_run(shown) + 1)
    return f"{marks} {shown} {marks}"


def link(text: str, url: str) -> str:
    """``text`` as a link, or as text when ``url`` is none that is safe to write."""
    return f"[{escaped(text)}]({url})" if is_link(url) else escaped(text)


def is_link(url: str) -> bool:
    """Whether ``url`` is a plain web address."""
    return _LINK.fullmatch(url) is not None


def fenced(text: str, language: str) -> str:
    """A block of code, in a fence that nothing inside can close."""
    marks = "`" * max(3, _longest_run(text) + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def clipped(text: str, longest: int = LONGEST) -> str:
    """``text``, or its start with a mark of what is missing."""
    return text if len(text) <= longest else f"{text[:longest]} ... ({len(text) - longest} more characters)"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
