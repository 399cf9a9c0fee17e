"""Command lines that an editor starts: ``"program": "train.py", "args": ["--fp16"]`` in a JSON file of its launches.

Each is a text of the same length as the whole, in which the list of arguments begins with the program: every offset of
an argument is one of the JSON text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .text import ConfigText, TextEntry
from .yaml_commands import InnerCommand

PROGRAM, MODULE, ARGUMENTS = "program", "module", "args"
_FOLDER = re.compile(r"\$\{workspace(?:Folder|Root)\}[/\\]")
"""What stands for the project's own folder."""


def editor_commands(text: str, config: ConfigText) -> Iterator[InnerCommand]:
    """The commands of a JSON text, opened as ``config``, in document order."""
    beside: dict[tuple[str | int, ...], dict[str, TextEntry]] = {}
    for entry in config.entries:
        if entry.name in (PROGRAM, MODULE, ARGUMENTS) and entry.kind == "pair":
            beside.setdefault(entry.key[:-1], {})[str(entry.name)] = entry
    for found in beside.values():
        words, listed = _program(found), found.get(ARGUMENTS)
        if words and listed is not None and listed.container == "sequence":
            front = "".join(("[", *(f'"{word}", ' for word in words)))
            start = listed.start + 1 - len(front)
            if start >= 0 and listed.end - listed.start > len("[]"):
                laid = f"{text[:start]}{front}{text[listed.start + 1 :]}"
                yield InnerCommand(laid, start, listed.end)


def _program(found: dict[str, TextEntry]) -> list[str]:
    program, module = found.get(PROGRAM), found.get(MODULE)
    if program is not None and isinstance(program.value, str) and program.value.endswith(".py"):
        return ["python", _FOLDER.sub("", program.value)]
    return ["python", "-m", module.value] if module is not None and isinstance(module.value, str) else []
