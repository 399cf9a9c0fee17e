"""Remarks beside what a move has written that still name the old type: comments, and what a shell script prints."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from difflib import SequenceMatcher
from itertools import islice

from ..formats.opening import kind_of
from ..half.weighed_ledger import run_of
from ..model import Fix, Place, Span
from ..outcome import Target
from ..purpose.targets import compute_dtype
from ..source.documents import Document, FileKind
from ..source.project import Project
from ..torch.dtypes import DTYPE_WORDS
from ..trainers.reading.configs import opened
from ..trainers.reading.stated_words import shortened
from .left_behind import IDLE_UNDER, doubtful_scalers, other_halves, scalers_left_on
from .pairs import RunPair
from .spelled import open_arguments
from .still_says import MAX_PLACES

COMMENT = re.compile(r"(?:^|\s)#(?P<said>.*)$")
PRINTED = re.compile(r"^\s*(?:echo|printf)\s(?P<said>.*)$")
NAMES = re.compile(
    r"(?a)(?<!\w)(?:bf16|bfloat16|fp16|float16|half(?=[ -]precision)|fp32|float32|full(?=[ -]precision))(?!\w)"
)
MIXING = re.compile(r"(?ai)(?<!\w)(?:amp|autocast|mixed[ -]precision)(?!\w)")
"""What regions that are off no longer do."""
TRANSLATED = (
    ("half", r"半精度|반정밀도|media precisión|meia precisão|demi-précision|mezza precisione"),
    ("half", r"halbe[rn]? (?:genauigkeit|präzision)|половинн\w+ точност\w+"),
    ("mixed", r"混合精度|혼합 ?정밀도|precisión mixta|precisão mista|précision mixte|precisione mista"),
    ("mixed", r"gemischte[rn]? (?:genauigkeit|präzision)|смешанн\w+ точност\w+"),
    ("full", r"[单単]精度|단정밀도|precisión simple|precisão simples|simple précision|precisione singola"),
    ("full", r"einfache[rn]? (?:genauigkeit|präzision)|одинарн\w+ точност\w+"),
)
"""The usual words for half, mixed and single precision in other languages than English, in lower case."""
MAX_ROWS = 5_000
"""Longer texts are not compared row by row."""
SHOWING = ("cat", "tee", "")
"""Commands that pass the text of a here-document on as it is."""


def told_beside(
    project: Project, after: Project, pair: RunPair, fixes: Iterable[Fix], target: Target
) -> Iterator[Place]:
    """What is told of a run that has moved besides what still names the old type in settings and code."""
    yield from open_arguments(after, run_of(after, pair.after or pair.before))
    yield from doubtful_scalers(after, pair) if target.regime == IDLE_UNDER else ()
    yield from scalers_left_on(pair) if target.regime == "fp32" else ()
    yield from islice(remarks(project, after, fixes, target), MAX_PLACES)


def remarks(project: Project, after: Project, fixes: Iterable[Fix], target: Target) -> Iterator[Place]:
    """Where the files of these fixes say the old type in words, and not the new one."""
    wanted, others = compute_dtype(target.regime), other_halves(target)
    for path in sorted({edit.path for fix in fixes for edit in fix.edits}):
        old, new = project.document(path), after.document(path)
        said = _remarks(after, old, new) if old is not None and new is not None else {}
        for row, text in sorted(said.items()):
            words = _in_english(text)
            named = {DTYPE_WORDS[word] for word in NAMES.findall(words)}
            if not named.isdisjoint(others) and wanted not in named:
                name = min(dtype.name for dtype in named & others)
                yield Place(path, Span(row, 1, row, 1), f"still says {name} in words: {shortened(text.strip())}")
            elif not named and target.regime == "fp32" and MIXING.search(words) is not None:
                yield Place(path, Span(row, 1, row, 1), f"still speaks of mixed precision: {shortened(text.strip())}")


def _in_english(text: str) -> str:
    """A remark in lower case, its words for precisions those of English."""
    words = text.lower()
    for name, pattern in TRANSLATED:
        words = re.sub(pattern, f" {name} precision ", words)
    return words


def _remarks(after: Project, old: Document, new: Document) -> dict[int, str]:
    """The remarks of a file by their rows: near what has changed, and in a script all that it prints."""
    changed = _changed(old.text.splitlines(), new.text.splitlines())
    near = {row for at in changed for row in (at, *_comments_above(new, at))}
    found = {row: match["said"] for row in near if (match := COMMENT.search(new.line(row))) is not None}
    if new.kind is FileKind.SHELL and changed:
        for row, line in enumerate(new.text.splitlines(), 1):
            printed = PRINTED.match(line)
            if printed is not None and row not in changed:
                found[row] = printed["said"]
        found |= {row: new.line(row) for row in _shown(after, new) if row not in changed}
    return found


def _comments_above(document: Document, row: int) -> Iterator[int]:
    """The rows of the comments right above a row, or above the first row of its command."""
    while document.line(row - 1).endswith("\\"):
        row -= 1
    while document.line(row - 1).lstrip().startswith("#"):
        row -= 1
        yield row


def _changed(old: list[str], new: list[str]) -> Collection[int]:
    """The rows of the new text that are not those of the old one."""
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if max(len(old), len(new)) < MAX_ROWS else ()
    return {row for tag, _, _, first, last in blocks if tag != "equal" for row in range(first + 1, last + 1)}


def _shown(after: Project, document: Document) -> Iterator[int]:
    """The rows of here-documents that are passed on as texts: no configurations, no code."""
    for config in opened(after, document):
        for body in config.text.heredocs if config.within is None else ():
            if body.command in SHOWING and kind_of(body.target_name) is None and not body.target_name.endswith(".py"):
                first, last = document.position(body.start)[0], document.position(body.end)[0]
                yield from range(first, last)
