"""Which names a module still uses, wherever Python or a type checker looks for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..model import EditRefused
from ..source.parsing import tree_of


def used_names(text: str) -> set[str]:
    """Names that code, ``__all__``, quoted annotations or type comments of a module mention; not what imports bind."""
    names: set[str] = set()
    for node in ast.walk(parse_edited(text)):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Global):
            names.update(node.names)
        elif _holds_names(node):
            names.update(word for each in _strings(node) for word in _words(each))
    for line in text.split("\n"):
        if "# type:" in line or "#type:" in line:
            names.update(_words(line.partition("type:")[2]))
    return names


def _holds_names(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return isinstance(node, ast.AnnAssign) or any(_is_all(target) for target in targets)
    if isinstance(node, ast.Call):
        called = node.func
        owner = called.value if isinstance(called, ast.Attribute) else called
        return isinstance(owner, ast.Name) and owner.id in ("__all__", "cast", "TypeVar")
    return isinstance(node, ast.arg | ast.FunctionDef | ast.AsyncFunctionDef)


def _strings(node: ast.AST) -> Iterator[str]:
    roots: list[ast.AST | None] = [node]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        roots = [node.returns]
    elif isinstance(node, ast.arg) or (isinstance(node, ast.AnnAssign) and not _is_all(node.target)):
        roots = [node.annotation]
    for root in roots:
        for each in ast.walk(root) if root is not None else ():
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def _words(text: str) -> list[str]:
    return "".join(char if char.isidentifier() or char.isdigit() else " " for char in text).split()


def _is_all(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "__all__"


def parse_edited(text: str) -> ast.Module:
    """The tree of a text that precfix has written; raises `EditRefused` when it is not Python."""
    try:
        return tree_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EditRefused(f"the edited file would not be valid Python: {error}") from error
