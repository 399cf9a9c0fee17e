"""The answer of a run, told again while nothing that it looked at has changed.

An answer is what the run wrote (to its two streams and to the files that were asked for) and its exit code, kept under
all that was asked: the words, the folder, precfix, Python, the streams. So every format is told byte for byte, and no
rule is loaded. It holds the state of every file and folder whose content, presence or absence the run could have seen.
"""

from __future__ import annotations

import json
import os
import sys

from . import kept
from .installed import installed_state
from .states import FileState, is_still, metadata

TYPE_CHECKING = False  # `typing` is not imported: that takes longer than to tell an answer
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

COMMANDS = ("check", "migrate", "audit")
MAX_TOLD_BYTES = 16_000_000
"""Longer answers are not kept."""
VARIABLES = ("COLORTERM", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""The environment variables on which a report may depend."""


class Looked:
    """What a run looked at. Not a dataclass: to import that takes longer than to tell an answer."""

    def __init__(self, seen: dict[str, FileState], places: dict[str, str], kinds: dict[str, str]) -> None:
        """``places``: paths and where they really lead. ``kinds``: paths of which only the kind counts, and it."""
        self.seen = seen
        self.places = places
        self.kinds = kinds

    def now(self) -> dict[str, FileState] | None:
        """The present states when everything is as it was, else None."""
        if any(os.path.realpath(path) != place for path, place in self.places.items()):
            return None
        if any(kind_at(path) != kind for path, kind in self.kinds.items()):
            return None
        states = {}
        for path, known in self.seen.items():
            present = is_still(path, known)
            if present is None:
                return None
            states[path] = present
        return states


class KeptRun:
    """What a run did."""

    def __init__(self, code: int, told: Sequence[tuple[int, bytes]], written: Sequence[tuple[str, bytes]]) -> None:
        """``told``: standard output (1) or error (2), and bytes, in order. ``written``: files that were asked for."""
        self.code = code
        self.told: list[tuple[int, bytes]] = []
        self.written = written
        for number, data in told:
            if self.told and self.told[-1][0] == number:
                data = self.told.pop()[1] + data
            self.told.append((number, data))


def key_of(words: list[str]) -> str:
    """All that the answer to these words depends on, besides files of the project; empty where it cannot be told."""
    own = installed_state()
    if not own or not words or words[0] not in COMMANDS:
        return ""
    try:
        here, folders = os.getcwd(), [(path, metadata(path)) for path in sys.path]
    except OSError:  # the current folder is gone
        return ""
    streams = [_stream(sys.stdout), _stream(sys.stderr), [os.environ.get(name) for name in VARIABLES]]
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    return json.dumps([words, here, own, folders, sys.version, list(sys.flags), user, streams])


def _stream(stream: object) -> list[object]:
    """What of a stream decides on colors, widths and characters."""
    is_terminal = getattr(stream, "isatty", bool)()
    size: object = None
    if is_terminal:
        try:
            size = [*os.get_terminal_size(stream.fileno())]  # type: ignore[attr-defined]
        except (OSError, ValueError):
            size = 0
    return [is_terminal, size, getattr(stream, "encoding", None), getattr(stream, "errors", None)]


def keep(key: str, answer: KeptRun, looked: Looked) -> None:
    """Keep the answer of a run that has ended."""
    if sum(len(data) for _, data in (*answer.told, *answer.written)) <= MAX_TOLD_BYTES:
        kept.write("answers", key, _plain(answer, looked))


def told_again(words: list[str]) -> int | None:
    """Tell the answer to these words again and return its exit code; None when the run has to be made."""
    key = key_of(words)
    known = _known(kept.read("answers", key)) if key else None
    if known is None:
        return None
    answer, looked = known
    seen = looked.now()
    if seen is None or not all(_takes(path) for path, _ in answer.written):
        return None
    if seen != looked.seen:
        looked.seen = seen
        kept.write("answers", key, _plain(answer, looked))
    _tell(answer)
    return answer.code


def kind_at(path: str) -> str:
    """What lies at a path, links not followed: ``link``, ``folder``, ``file`` (anything else), or nothing."""
    if os.path.islink(path):
        return "link"
    return "folder" if os.path.isdir(path) else "file" if os.path.lexists(path) else ""


def _takes(path: str) -> bool:
    """Whether a result can surely be written to a file again; what stands in the way is told by a run."""
    folder = os.path.dirname(path) or "."
    if os.path.lexists(path):
        return kind_at(path) == "file" and os.path.isfile(path) and os.access(path, os.W_OK)
    return os.path.isdir(folder) and os.access(folder, os.W_OK)


def _tell(answer: KeptRun) -> None:
    for path, data in answer.written:
        with open(path, "wb") as file:
            file.write(data)
    for number, data in answer.told:
        stream = sys.stdout if number == 1 else sys.stderr
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def _plain(answer: KeptRun, looked: Looked) -> object:
    told = [(number, data.decode("latin-1")) for number, data in answer.told]
    written = [(path, data.decode("latin-1")) for path, data in answer.written]
    return [answer.code, told, written, looked.seen, looked.places, looked.kinds]


def _known(plain: Any) -> tuple[KeptRun, Looked] | None:
    """What a kept value stands for; None when it is damaged."""
    try:
        code, told, written, seen, places, kinds = plain
        answer = KeptRun(
            code,
            [(int(number), data.encode("latin-1")) for number, data in told],
            [(str(path), data.encode("latin-1")) for path, data in written],
        )
        states = {path: (str(known), str(held), fresh is True) for path, (known, held, fresh) in seen.items()}
        looked = Looked(states, {**places}, {**kinds})
    except (TypeError, ValueError, AttributeError):
        return None
    is_sound = type(code) is int and 0 <= code < 128 and all(number in (1, 2) for number, _ in answer.told)
    return (answer, looked) if is_sound else None
