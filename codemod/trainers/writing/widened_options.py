"""An option that takes some precisions only takes the target's too: a word joins its ``choices``, ``int`` is ``str``.

The program's own code may know no other word. So nothing may read the option but the arguments of trainers' calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...model import Edit, EditRefused, ReplaceExpression
from ...purpose.imports import connected_modules
from ...python.names import ModuleNames, modules_at, string_of
from ...python.options import NUMBERS, Option, options_in
from ...source.project import Project
from ..framework import FrameworkKey
from ..reading.declarations import scopes_of
from ..reading.loaded_files import loaders_of
from ..reading.picked_words import SPELLINGS
from ..reading.source import ValueSource

OTHER_READERS = "other code reads the word as well, and may not know the new one"
WIDENED = "the option takes a word then that it did not take"


def widened(
    project: Project,
    module: ModuleNames,
    key: FrameworkKey,
    word: str,
    source: ValueSource,
    found: Sequence[ValueSource],
) -> tuple[Edit, ...]:
    """The edits that give a setting ``word`` where its option takes other words only, with those of its declaration.

    ``module`` passes the setting on. Raises EditRefused where other code reads it, or it is declared in an unusual way.
    """
    option = source.option
    if option is None or not key.accepts(word) or read_elsewhere(project, module, key, option.name, found):
        raise EditRefused("other code may need what it takes today")
    quote = '"' if option.module.document.text.count('"') > option.module.document.text.count("'") else "'"
    edits = [Edit(option.module.path, operation) for operation in _declared(option, f"{quote}{word}{quote}")]
    if source.kind in ("option", "field") and source.text.isdigit():
        return (*edits, Edit(source.path, ReplaceExpression(source.span, (f"{quote}{word}{quote}",))))
    return (*edits, replace(source, option=None).respelled(word))


def _declared(option: Option, word: str) -> Iterator[ReplaceExpression]:
    """The declaration of an option that takes ``word`` besides, a string as code writes it."""
    node, document = option.node, option.module.document
    kind = None
    if isinstance(node, ast.Call):
        kind = next((item.value for item in node.keywords if item.arg == "type"), None)
    elif isinstance(node, ast.AnnAssign):
        kind = node.annotation
    if option.choices:
        listed = kind if isinstance(kind, ast.Subscript) else option.module.parents[option.choices[-1]]
        if not option.words or not isinstance(listed, ast.List | ast.Tuple | ast.Set | ast.Subscript):
            raise EditRefused("the option is declared in an unusual way")
        yield ReplaceExpression(document.span(listed), (_with_word(option, listed, word),))
    if option.is_number:
        if not isinstance(kind, ast.Name) or kind.id not in NUMBERS:
            raise EditRefused("the option is declared in an unusual way")
        yield ReplaceExpression(document.span(kind), ("str",))


def _with_word(option: Option, listed: ast.expr, word: str) -> str:
    """The source of a list of choices with one more; numbers become strings, as the words of a command line are."""
    document, quote = option.module.document, word[0]
    start = document.offset(document.span(listed).row, document.span(listed).column)
    text = document.source(document.span(listed))
    rows = [document.span(item).row for item in option.choices]
    apart = f",\n{' ' * (document.span(option.choices[-1]).column - 1)}" if len({*rows}) == len(rows) > 1 else ", "
    for item in reversed(option.choices):
        span = document.span(item)
        end = document.offset(span.end_row, span.end_column) - start
        written = document.source(span)
        kept = f"{quote}{written}{quote}" if written.isdigit() else written
        more = f"{apart}{word}" if item is option.choices[-1] else ""
        text = f"{text[: end - len(written)]}{kept}{more}{text[end:]}"
    return text


def read_elsewhere(
    project: Project, module: ModuleNames, key: FrameworkKey, name: str, found: Sequence[ValueSource]
) -> bool:
    """Whether code reads the setting ``name`` for anything but this argument of trainers' calls."""
    known: set[ast.AST] = set()
    for scope in scopes_of(project):
        for setting in scope.settings if scope.kind == "call" else ():
            argument = scope.argument(setting) if setting.key.name == key.name else None
            known |= set(ast.walk(argument[1])) if argument is not None else set()
    loading = {path for item in found if item.kind == "entry" for path in loaders_of(project, item.path)}
    others = modules_at(project, sorted(loading))
    for other in dict.fromkeys((*connected_modules(project, module), *others)):
        for option in options_in(project, other).get(name, ()):
            known |= set(ast.walk(option.node))
        said = (node for node in other.of_type(ast.Constant) if node.value == name)
        read = (node for node in other.of_type(ast.Attribute) if node.attr == name)
        if any(node not in known for node in (*said, *read)):
            return True
    return False


def is_read_otherwise(project: Project, module: ModuleNames, passed: ast.expr, source: ValueSource) -> bool:
    """Whether code near what a trainer is passed does anything else with a setting's word but compare it."""
    name, known = source.key.rpartition(".")[2].lstrip("-").replace("-", "_"), set(ast.walk(passed))
    for other in connected_modules(project, module):
        reads = [node for node in other.of_type(ast.Attribute) if node.attr == name]
        reads += [node for node in other.of_type(ast.Subscript) if string_of(node.slice) == name]  # type: ignore[misc]
        reads += [node for node in other.of_type(ast.Name) if node.id == name]  # type: ignore[misc]
        loads = (node for node in reads if isinstance(node.ctx, ast.Load) and node not in known)
        if any(not _is_compared(other, node) for node in loads):
            return True
    return False


def _is_compared(module: ModuleNames, node: ast.expr) -> bool:
    """Whether an expression is compared with words, as it is or in another spelling."""
    above = module.parents.get(node)
    while isinstance(above, ast.Attribute | ast.Call) and _is_spelled(above):
        above = module.parents.get(above)
    return isinstance(above, ast.Compare)


def _is_spelled(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else node
    return isinstance(function, ast.Attribute) and function.attr in SPELLINGS
