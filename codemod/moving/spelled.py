"""What texts and code still spell of the type that a run has left, where no setting says it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from ..formats.shell_launchers import is_argument_list
from ..formats.text import TextEntry
from ..model import Place, Span
from ..outcome import Target
from ..python.identifiers import words_of
from ..python.names import modules_at
from ..source.project import Project
from ..torch.dtypes import DTYPE_WORDS
from ..trainers.reading.run_members import Run
from ..trainers.reading.stated_words import text_of
from .left_behind import CODE, other_halves
from .pairs import RunPair

OFF = re.compile(
    r"""(?ix) (?:--?[\w.-]*16[\w.-]*(?:\s+|=) | [\w.]*16[\w.]*["']?\s*[=:]\s*(?:\{\s*["']?enabled["']?\s*:\s*)?)
    ["']?(?:false|no|off|0|null|none)\b"""
)
"""What is given as off: ``--fp16 false``, ``bf16=false``, ``"fp16": {"enabled": false}``."""
CALLERS = re.compile(r"\$\{?(?:[@*]|\d)")
"""What a script is given."""
GIVEN = ("$@", "$*", "${@", "${*")
NAME = re.compile(r"\w+")
MIXING = frozenset(("amp", "autocast", "native", "mixed", "precision", "apex"))
"""Words of values that ask for regions of which the dtype is left open: ``native_amp``."""
IN_TEXT = re.compile(
    r"(?i)(?:--[\w-]*|torch\.|dtype=\W*)(?<![a-z0-9])"
    r"(?:fp16|bf16|b?float16|half|amp|autocast|mixed[_-]precision)(?![a-z0-9])|\.half\(\)"
)
"""How code and command lines in strings speak of precision."""


def spelled_in_texts(after: Project, pair: RunPair, target: Target, modules: Collection[str]) -> Iterator[Place]:
    """Where texts around a launch line, and paths in the code, spell the old type: ``grep fp16``, ``runs/fp16/``."""
    words = "|".join(word for word, dtype in DTYPE_WORDS.items() if dtype in other_halves(target) and "16" in word)
    document = after.document(pair.before.path) if words else None
    spelled = re.compile(rf"(?i)(?<![a-z0-9])({words})(?![a-z0-9])")
    rows = document.text.splitlines() if document is not None and not document.path.endswith(CODE) else ()
    for row, line in enumerate(rows, 1):
        found = spelled.search(OFF.sub("", line)) if pair.says(pair.before.path, row) else None
        if found is not None and not line.lstrip().startswith("#"):
            start = line.index(found[0]) + 1
            span = Span(row, start, row, start + len(found[0]))
            yield Place(pair.before.path, span, f"still says {found[0]}: {line.strip()}")
    for module in modules_at(after, modules) if words else ():
        for node in module.of_type(ast.Constant):
            if (
                isinstance(node.value, str)
                and "/" in node.value
                and " " not in node.value
                and spelled.search(node.value)
            ):
                yield module.place(node, f"still says {spelled.findall(node.value)[0]}: {text_of(node)}")


def open_arguments(after: Project, run: Run | None) -> Iterator[Place]:
    """A launch line that passes on arguments which nobody sees: they may ask for the old type again."""
    document = after.document(run.place.path) if run is not None and run.command is not None else None
    if run is None or run.command is None or document is None:
        return
    for word in run.command.words:
        name = NAME.search(word)
        is_unknown = name is not None and is_argument_list(word) and _is_open(document.text, name[0])
        if word.startswith(GIVEN) or is_unknown:
            yield run.place.saying(f"passes on {word}, which may ask for the old precision: {run.title}")
            return


def is_prose(entry: TextEntry) -> bool:
    """Whether a value is no setting but a text: of a list of records, or with a half of something else in it."""
    text = entry.value if isinstance(entry.value, str) else ""
    if " " not in text.strip() or IN_TEXT.search(text):
        return False
    words = words_of(text)
    named = {word for word in words if word in DTYPE_WORDS}
    return isinstance(entry.key[0], int) or (named <= {"half"} and words.isdisjoint(MIXING))


def _is_open(text: str, name: str) -> bool:
    """Whether a variable of a script holds what the script is given, or is never set in it."""
    set_to = re.findall(rf"(?m)(?:^|[\s;]){name}\+?=(.*)", text)
    return not set_to or any(CALLERS.search(value) for value in set_to)
