"""What ``type=`` of an option makes of its words, and of a default that is a string: argparse converts that as well."""

from __future__ import annotations

import ast
from typing import Literal, TypeAlias

from ..source.project import Project
from .functions import named_function
from .names import ModuleNames, last_name

Conversion: TypeAlias = Literal["", "truth", "other"]
"""Of a function of the project: the word itself, checked or in another spelling; a truth value; anything."""
SPELLING = ("lower", "upper", "strip")
"""Methods after which a word still says what it said."""
EVALUATING = ("eval", "ast.literal_eval")


def conversion_by(project: Project, module: ModuleNames, kind: ast.expr | None) -> Conversion:
    """What a function of the project, or a lambda, makes of a word; what is not one keeps it as far as is known."""
    if isinstance(kind, ast.Lambda):
        return _of_returned([kind.body], {item.arg for item in kind.args.args})
    target = named_function(project, module, kind, module.scope_of(kind)) if kind is not None else None
    if target is None or target.node.name == "__init__":
        return ""
    returned = [item.value for item in target.module.returns_of(target.node)]
    return _of_returned(returned, {item.arg for item in target.node.args.args})


def _of_returned(returned: list[ast.expr | None], names: set[str]) -> Conversion:
    known = [item for item in returned if item is not None and not _is_none(item)]
    if known and all(_is_word(item, names) for item in known):
        return ""
    return "truth" if known and all(_is_word(item, names) or _is_truth(item) for item in known) else "other"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_word(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return node.func.attr in SPELLING and _is_word(node.func.value, names)
    if isinstance(node, ast.IfExp):
        return all(_is_none(item) or _is_word(item, names) for item in (node.body, node.orelse))
    return isinstance(node, ast.Name) and node.id in names


def _is_truth(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return last_name(node.func) in ("bool", "strtobool")
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    is_literal = isinstance(node, ast.Constant) and isinstance(node.value, bool)
    return is_not or is_literal or isinstance(node, ast.Compare)


def read_by_python(module: ModuleNames, kind: ast.expr | None, default: ast.expr | None) -> ast.expr | None:
    """The default itself, or what ``eval`` and ``bool`` make of a string: ``default="False", type=eval`` is False."""
    text = default.value if isinstance(default, ast.Constant) else None
    is_own = isinstance(kind, ast.Name) and bool(module.scope_of(kind).lookup(kind.id))
    name = (
        kind.id if isinstance(kind, ast.Name) and not is_own else module.qualified(kind) if kind is not None else None
    )
    if default is None or not isinstance(text, str) or name not in (*EVALUATING, "bool"):
        return default
    try:
        value = bool(text) if name == "bool" else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return default
    is_plain = isinstance(value, bool | int | float | str | None)
    return ast.copy_location(ast.Constant(value), default) if is_plain else default
