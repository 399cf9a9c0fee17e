"""The words of messages, manuals and documentation: plain American English, one term for one thing.

The glossary is in CONTRIBUTING.md. A phrase is listed here when it was written once and read wrong by somebody.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

BANNED = {
    r"is not all there": "only partly configured",
    r"left to you\b": "not changed automatically",
    r"\bis no (?:file|web|argument|number|flag|string|path|table|dtype|module|tensor|link)\b": "is not a",
    r"\bstops? (?:it )?with an? (?:Type|Value|Attribute|Key)Error": "raises",
    r"\btold (?:again|apart)\b": "reported, distinguished",
    r"\b(?:is|are) told (?:fp|bf|to)": "is configured for, is set to",
    r"\bmended\b": "fixed",
    r"\bhas come back\b": "exists again",
    r"\bleads in a circle\b": "circular",
    r"\bhanded (?:to|on|over)\b": "passed",
    r"\bgives? it (?:the|a)\b": "pass",
    r"\bgoes with (?:-|the only)": "requires",
    r"\bexclude each other\b": "cannot be combined",
    r"\bto be found any ?more\b": "no longer exists",
    r"\bNumPy has (?:not|no bfloat16)\b": "NumPy does not support bfloat16",
    r"\bmade (?:but never|anew|and dropped)\b": "created",
    r"\bown precision of\b": "precision of its own",
}
"""What is not written, and what to write instead."""

BRITISH = re.compile(
    r"(?:spelt|colour|behaviour|neighbour|favour|honour|quantis|recognis|initialis|optimis(?!tic|m)|serialis|normalis"
    r"|organis(?!m)|summaris|generalis|synchronis|artefact|catalogue|judgement|licence)\w*",
    re.IGNORECASE,
)

SOURCES = sorted(path for folder in ("codemod", "transforms", "probes") for path in (REPOSITORY / folder).rglob("*.py"))
PAGES = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "fixtures/README.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
TABLES = sorted(path for folder in ("codemod", "transforms") for path in (REPOSITORY / folder).rglob("*.yaml"))


def _messages(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module, f-strings with ``{}`` for what is filled in, without its docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_bytes())))
    skipped = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    skipped |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page, without tables of contrast: the glossary names what it replaces."""
    inside = False
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        inside = line.startswith("### Words") or (inside and not line.startswith("## "))
        if not inside:
            yield number, line


@cache
def _texts() -> tuple[tuple[Path, int, str], ...]:
    """Every message and every line of documentation, read once."""
    texts = [(path, *each) for path in SOURCES for each in _messages(path)]
    return (*texts, *((path, *each) for path in (*PAGES, *TABLES) for each in _prose(path)))


@pytest.mark.parametrize("phrase", BANNED)
def test_messages_and_documentation_say_it_plainly(phrase: str) -> None:
    wrong = re.compile(phrase)
    found = [f"{path.relative_to(REPOSITORY)}:{row}: {text[:90]}" for path, row, text in _texts() if wrong.search(text)]
    assert not found, f"write: {BANNED[phrase]}"


def test_spelling_is_american() -> None:
    texts = {path: path.read_text("utf-8") for path in (*SOURCES, *PAGES, *TABLES)}
    found = [
        f"{path.relative_to(REPOSITORY)}:{text.count(chr(10), 0, word.start()) + 1}: {word.group()}"
        for path, text in texts.items()
        for word in BRITISH.finditer(text)
    ]
    assert not found
