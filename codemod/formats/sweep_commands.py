"""The command line that a sweep of W&B starts: ``program``, the words of ``command``, and a value of each parameter.

It is laid over the text of the file, so that what it gives stands in the row of its parameter; nobody writes to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .text import ConfigText, TextEntry

METHODS = ("grid", "random", "bayes")
ENVIRONMENT, INTERPRETER, PROGRAM = "${env}", "${interpreter}", "${program}"
ARGUMENTS = {"${args}": "--{}={}", "${args_no_boolean_flags}": "--{}={}", "${args_no_hyphens}": "{}={}"}
"""How the parameters are given; ``${args_no_boolean_flags}`` gives a true one as its flag alone."""
HALF = re.compile(r"(?i)true|.*(?:16|half|amp).*")
"""Values that are told of several."""


def sweep_command(text: str, config: ConfigText) -> tuple[str, int, int] | None:
    """The text with the command laid over it, and where that begins and ends; None where there is none or no room."""
    top = {entry.key[0]: entry for entry in config.entries if len(entry.key) == 1}
    program, method = top.get("program"), top.get("method")
    if program is None or method is None or method.value not in METHODS or "parameters" not in top:
        return None
    listed = [item for item in config.entries if len(item.key) == 2 and item.key[0] == "command"]
    words = [(item.start, str(item.value)) for item in listed]
    words = words or [(program.start, word) for word in (ENVIRONMENT, INTERPRETER, PROGRAM, "${args}")]
    form = next((word for _, word in words if word in ARGUMENTS), "")
    named = {INTERPRETER: "python", PROGRAM: str(program.value)}
    fixed = [(start, named.get(word, word)) for start, word in words if word not in (ENVIRONMENT, *ARGUMENTS)]
    begun = next((at for at, (_, word) in enumerate(fixed, 1) if word == program.value), 0)
    given = sorted([*fixed[begun:], *(_parameters(config, form) if form else ())])
    front, at = " ".join(word for _, word in fixed[:begun]), program.start
    if given and given[0][0] <= at + len(front):
        at = given[0][0] - len(front) - 1
    pieces, end = [front], at + len(front)
    for start, word in given:
        if start > end:
            pieces += [" " * (start - end), word]
            end = start + len(word)
    is_told = begun > 0 and at >= 0 and end <= len(text)
    return (f"{text[:at]}{''.join(pieces)}{text[end:]}", at, end) if is_told else None


def _parameters(config: ConfigText, form: str) -> Iterator[tuple[int, str]]:
    """What each parameter gives, and where it may stand; of several values one that switches 16 bits on."""
    found: dict[str, list[TextEntry]] = {}
    for entry in config.entries:
        section, *inner = entry.key
        if section == "parameters" and len(inner) > 1 and inner[1] in ("value", "values") and entry.is_scalar:
            found.setdefault(str(inner[0]), []).append(entry)
    for name, values in found.items():
        entry = next((item for item in values if HALF.fullmatch(str(item.value))), values[0])
        word = ARGUMENTS[form].format(name, str(entry.value))
        is_flag = "boolean" in form and isinstance(entry.value, bool)
        if " " not in word and not (is_flag and not entry.value):
            yield entry.end - len(word), f"--{name}" if is_flag else word
