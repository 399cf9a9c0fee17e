"""Command lines that Python code builds: ``cmd += " --fp16 True"``, ``["--mixed_precision", "bf16"]``, f-strings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import zip_longest

from ...outcome import Declaration
from ...python.arguments import receiver_of
from ...python.names import ModuleNames
from .stated_words import SHOWN, is_precision_word, is_switch, speaks

ASKING = frozenset({"add_argument", "option", "startswith", "endswith", "index", "count", "replace", "split", "remove"})
"""Calls whose strings declare a flag or look for one."""
MAX_TEXT = 20_000


def stated_commands(module: ModuleNames) -> Iterator[Declaration]:
    """Every flag with its value in the strings of one module."""
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "--" in node.value[:MAX_TEXT]:
            if not isinstance(module.parents.get(node), ast.JoinedStr | ast.Expr):
                yield from _told(module, node, node.value)
        elif isinstance(node, ast.JoinedStr):
            yield from _told(module, node, _joined(node))


def _told(module: ModuleNames, node: ast.expr, text: str) -> Iterator[Declaration]:
    parent = module.parents.get(node)
    words = text[:MAX_TEXT].split()
    alone = len(words) == 1 and "=" not in text
    filled = alone or isinstance(node, ast.JoinedStr)
    if alone and "/" not in text and isinstance(parent, ast.List | ast.Tuple):
        words = [*words, *_following(parent, node)]
    elif (alone and receiver_of(parent, "append") is None) or _is_asked(parent) or not _is_command(words):
        return
    for flag, value in _flags(words, filled):
        yield Declaration(module.document.path, module.document.span(node), "torch", flag, "flag", value)


def _is_command(words: list[str]) -> bool:
    """Whether a text is (a part of) a command line; in prose a flag stands among other words."""
    first = next((at for at, word in enumerate(words) if word.startswith("--")), len(words))
    launched = bool(words) and words[0] in ("python", "python3", "accelerate", "torchrun", "deepspeed", "uv", "srun")
    return first == 0 or launched


def _flags(words: list[str], is_filled_in: bool) -> Iterator[tuple[str, str]]:
    for word, after in zip_longest(words, words[1:], fillvalue=""):
        flag, equals, value = word.partition("=")
        if not flag.startswith("--") or not speaks(flag):
            continue
        value = value if equals else after if not after.startswith("-") else ""
        value = value.strip("\"'")
        if is_precision_word(value) or (is_switch(flag) and value.lower() in ("", "true", "false")):
            yield flag, value or "true"
        elif value.startswith("{") and is_filled_in:
            yield flag, value[:SHOWN]


def _following(holder: ast.List | ast.Tuple, node: ast.expr) -> list[str]:
    at = next(number for number, item in enumerate(holder.elts) if item is node)
    item = holder.elts[at + 1] if at + 1 < len(holder.elts) else None
    if isinstance(item, ast.Constant):
        return [str(item.value)]
    return [] if item is None else [f"{{{ast.unparse(item)}}}"]


def _joined(node: ast.JoinedStr) -> str:
    """The text of an f-string; what is filled in stands in braces, without blanks."""
    parts = []
    for item in node.values:
        if isinstance(item, ast.FormattedValue):
            parts.append("{" + "".join(ast.unparse(item.value).split()) + "}")
        elif isinstance(item, ast.Constant):
            parts.append(str(item.value))
    return "".join(parts)


def _is_asked(parent: ast.AST | None) -> bool:
    called = parent.func if isinstance(parent, ast.Call) else None
    return isinstance(parent, ast.Compare) or getattr(called, "attr", getattr(called, "id", "")) in ASKING
