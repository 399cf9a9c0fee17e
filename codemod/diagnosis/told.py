"""The words of an answer, the same for text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator

from ..python.precision_words import CHOOSING
from ..report.printable import printable
from .answer import Explanation, Explanations
from .deciding import FaultSeen, Judged, Sureness
from .tracebacks import Raised, StackFrame

MAX_MESSAGE = 300
PRECISION_WORDS = (*CHOOSING, "scalar type", "autocast", "scaler")
SEND_ALONG = (
    "the whole traceback, from `Traceback (most recent call last)` of the first rank that failed to its last line",
    "the command that started the run, its configuration files, and `pip list`",
    "what `precfix probe --json` says of the machine",
)
"""What is missing where nothing is known."""


def message_of(answer: Explanation) -> str:
    """The message as the log has it, on one line."""
    return short(answer.evidence.match.statement.text)


def short(text: str) -> str:
    """A text on one line, cut."""
    flat = " ".join(text.split())
    return printable(flat if len(flat) <= MAX_MESSAGE else f"{flat[:MAX_MESSAGE]} ...")


def at_row(answer: Explanation) -> str:
    """``line 12 of the log``, and from how many ranks."""
    statement = answer.evidence.match.statement
    ranks = f", from {len(statement.streams)} ranks" if len(statement.streams) > 1 else ""
    times = f", {statement.times} times" if statement.times > 1 and not ranks else ""
    return f"line {statement.row} of the log{ranks}{times}"


COUNTED = 5
"""Shares of fewer threads only order the causes of an entry."""


def where(frame: StackFrame) -> str:
    function = f" in {frame.function}" if frame.function else ""
    code = f": `{frame.code}`" if frame.code else ""
    return printable(f"{frame.path}:{frame.row}{function}{code}")


def sureness_of(judged: Judged) -> str:
    """How sure a cause is, in words."""
    cause = judged.cause
    counted = f"the cause in {cause.seen} of {cause.of} public threads" if cause.seen and cause.of >= COUNTED else ""
    if judged.sureness is Sureness.POSSIBLE and not judged.reasons and counted:
        return f"possible; {counted}"
    return judged.sureness.value


def fault_line(seen: FaultSeen) -> str:
    """What a library's fault means for the reader."""
    fault = seen.fault
    if seen.certain:
        return (
            f"{fault.library} {seen.version} is at fault: {fault.says}. Upgrade it to {fault.below} or newer"
            f" ({fault.source})."
        )
    return f"If {fault.library} is older than {fault.below}, it is at fault: {fault.says} ({fault.source})."


def speaks_of_precision(text: str) -> bool:
    """Whether a message that the catalog does not know may be one that is missing there."""
    lowered = text.lower()
    return any(word in lowered for word in PRECISION_WORDS)


def unknown_lines(failure: Raised | None, answers: Explanations) -> Iterator[str]:
    """What is said where the error is not known."""
    if failure is None:
        yield "Unknown: precfix finds no message of mixed precision in this text."
    else:
        yield f"Unknown: precfix knows nothing of `{short(f'{failure.kind}: {failure.message}')}`."
        yield (
            "It speaks of precision, but the catalog does not hold it; precfix does not guess."
            if speaks_of_precision(failure.message)
            else "It is probably not a matter of precision; precfix does not guess."
        )
        if failure.frames:
            yield f"It was raised at {where(failure.frames[-1])}"
    if not answers.known:
        yield "If you think that it is about precision, send along:"
        yield from (f"  - {item}" for item in SEND_ALONG)
