"""Which entries of the catalog a log speaks of, and what their messages say of dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from .catalog import KINDS, KnownMessage, words_of
from .log import Log, LogStatement

MAX_MATCHED = 4_000
"""Characters of a text that patterns are tried on: they are linear, this keeps their constant small."""
CANONICAL = {
    "half": "float16", "float16": "float16", "fp16": "float16",
    "bfloat16": "bfloat16", "bf16": "bfloat16",
    "float": "float32", "float32": "float32", "fp32": "float32",
    "double": "float64", "float64": "float64", "fp64": "float64",
}  # fmt: skip
_MARKUP = str.maketrans("", "", "`*")
"""What Markdown adds to a message: patterns are tried with it, as messages have backticks too, and without it."""
_DTYPE_WORD = re.compile(r"bfloat16|float16|half|float64|double|float32|float|bf16|fp16|fp32|fp64", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Match:
    """An entry, and where the log speaks of it."""

    entry: KnownMessage
    statement: LogStatement
    first: str = ""
    """The first dtype that the message names; empty where it names none."""
    second: str = ""
    operation: str = ""


def telling(entries: Sequence[KnownMessage]) -> Callable[[str], tuple[str, ...]]:
    """Gives the words that stand in a text in lower case and that some entry asks for."""
    words = words_of(entries)

    def told(text: str) -> tuple[str, ...]:
        plain = text.translate(_MARKUP) if "`" in text or "*" in text else text
        return tuple(word for word in words if word in text or word in plain)

    return told


def matches(log: Log, entries: Sequence[KnownMessage]) -> list[Match]:
    """One match for each entry that the log speaks of: what stopped the run first, then warnings, then symptoms."""
    found: dict[str, Match] = {}
    for statement in log.statements:
        for match in _of_statement(statement, entries):
            known = found.get(match.entry.id)
            found[match.entry.id] = match if known is None else _better(known, match)
    superseded = {
        match.entry.id
        for match in found.values()
        for name in match.entry.after
        if name in found and found[name].statement.text == match.statement.text
    }
    kept = [match for match in found.values() if match.entry.id not in superseded]
    return sorted(kept, key=_order)


def _order(match: Match) -> tuple[int, bool, bool, int]:
    failure = match.statement.failure
    is_cause = failure is not None and not failure.chained
    return KINDS.index(match.entry.kind), failure is None, not is_cause, match.statement.row


def _better(known: Match, other: Match) -> Match:
    """Of two places with the same message the one that tells more."""
    keys = [(_frames(match), bool(match.first)) for match in (known, other)]
    best, rest = (other, known) if keys[1] > keys[0] else (known, other)
    if best.first or not rest.first:
        return best
    return replace(best, first=rest.first, second=rest.second, operation=best.operation or rest.operation)


def _frames(match: Match) -> int:
    return len(match.statement.failure.frames) if match.statement.failure is not None else 0


def _of_statement(statement: LogStatement, entries: Iterable[KnownMessage]) -> list[Match]:
    text = statement.text[:MAX_MATCHED].translate(_MARKUP)
    lowered = text.lower()
    found = [
        match
        for entry in entries
        if any(word.translate(_MARKUP) in lowered for word in entry.words)
        and (match := _match(entry, statement, text)) is not None
    ]
    ids = {match.entry.id for match in found}
    return [match for match in found if not ids & set(match.entry.after)]


def _match(entry: KnownMessage, statement: LogStatement, text: str) -> Match | None:
    for pattern in entry.patterns:
        match = pattern.search(statement.text[:MAX_MATCHED]) or pattern.search(text)
        if match is not None:
            named = match.groupdict()
            first, second = canonical(named.get("first")), canonical(named.get("second"))
            if first and first == second:  # the same dtype on two devices
                continue
            return Match(entry, statement, first, second, named.get("op") or "")
    return None


def canonical(dtype: str | None) -> str:
    """``float32`` for ``c10::Float``, ``torch.cuda.FloatTensor`` and the like; empty for nothing."""
    word = _DTYPE_WORD.search(dtype or "")
    return CANONICAL[word.group().lower()] if word is not None else ""
