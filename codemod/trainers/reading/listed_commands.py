"""Command lines that Python code starts as lists of words: ``subprocess.run([sys.executable, "train.py", "--fp16"])``.

Each is a text of the same length as the whole in which the list holds plain words in double quotes: what code computes
is a variable there. A list that code changes, or that nobody is seen to start, is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...formats.shell_launchers import starts_programs
from ...python.names import ModuleNames, attribute_chain
from ...source.documents import Document, FileKind

STARTING = frozenset(("run", "call", "check_call", "check_output", "Popen", "execv", "execvp"))
"""Functions that start the words of a list."""
MODULES = ("subprocess", "execv", "Popen")
"""What stands in code that calls one of them."""
CHANGING = frozenset(("append", "extend", "insert", "remove", "pop"))
INTERPRETER = ["sys", "executable"]
VARIABLE = "$_"


@dataclass(frozen=True, slots=True)
class ListedCommand:
    """Such a list: the text that holds it, and where it begins and ends."""

    text: str
    start: int
    end: int


def commands_listed(document: Document) -> tuple[ListedCommand, ...]:
    """The command lines of a Python document, in the order of its lists."""
    return tuple(_commands(document))


def commands_again(text: str) -> tuple[ListedCommand, ...]:
    """Those of a changed text."""
    return commands_listed(Document("again.py", FileKind.PYTHON, text.encode("utf-8", "surrogatepass")))


def _commands(document: Document) -> Iterator[ListedCommand]:
    for node in _started(document.part_fact(ModuleNames)) if document.parses else ():
        text, words = document.text, []
        for item in node.elts:
            start, end = _place(document, item)
            word = _word(item, document.text[start:end])
            start -= len(word) + 2 > end - start and text[start - 1] == " "  # for the quotes of ``, lr``
            if len(word) + 2 > end - start:
                break
            words.append(word)
            text = f'{text[:start]}"{word}"{" " * (end - start - len(word) - 2)}{text[end:]}'
        is_whole = len(words) == len(node.elts) > 1 and starts_programs(words[0])
        if is_whole and any(word.endswith(".py") or word == "-m" for word in words):
            yield ListedCommand(text, *_place(document, node))


def _place(document: Document, node: ast.AST) -> tuple[int, int]:
    span = document.span(node)
    return document.offset(span.row, span.column), document.offset(span.end_row, span.end_column)


def _word(node: ast.expr, written: str) -> str:
    """A string as it is; the interpreter by its name; a variable for all that code computes."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, str) and "\\" not in value and written in (f'"{value}"', f"'{value}'") and '"' not in value:
        return value
    return "python" if attribute_chain(node) == INTERPRETER else VARIABLE


def _started(module: ModuleNames) -> list[ast.List]:
    """The lists that a call starts, also by a variable that nothing else changes."""
    calls = (call for name in STARTING for call in module.calls_by_name.get(name, ()) if call.args)
    given = [call.args[0] for call in calls if attribute_chain(call.func)]
    parts = (node.value for node in module.of_type(ast.Attribute) if node.attr in CHANGING)
    changed = {node.id for node in parts if isinstance(node, ast.Name)}
    targets = (node.target for node in module.of_type(ast.AugAssign))
    changed |= {target.id for target in targets if isinstance(target, ast.Name)}
    held: dict[str, list[ast.expr]] = {}
    for node in module.of_type(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                held.setdefault(target.id, []).append(node.value)
    names = {item.id for item in given if isinstance(item, ast.Name)} - changed
    only = [held[name][0] for name in sorted(names) if len(held.get(name, ())) == 1]
    found = [item for item in (*given, *only) if isinstance(item, ast.List)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))
