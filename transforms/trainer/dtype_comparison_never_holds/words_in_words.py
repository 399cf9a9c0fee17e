"""``"bfloat16" in name`` behind ``"float16" in name``, which holds for both."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import guards
from ....codemod.source.project import Project

MAKING_STRINGS = ("lower", "upper", "strip", "replace", "removeprefix", "casefold", "join", "format")
STRING_ANNOTATIONS = ("str", "'str'")
STRING_NAMES = ("_str", "_string", "_name")
"""How parameters are called that certainly hold strings."""


def shadowed_words(_project: Project, module: ModuleNames) -> Iterator[Draft]:
    """Every part of a string that is asked for where a part of that part is known not to be in the string."""
    for node in module.of_type(ast.Compare):
        word = _asked(node)
        if word is None or "float16" not in word.lower() or not _is_string(module, node.comparators[0]):
            continue
        text = ast.unparse(node.comparators[0])
        for guard in guards(module, node):
            shorter = _asked(guard.test) if isinstance(guard.test, ast.Compare) and not guard.holds else None
            if shorter and shorter in word and ast.unparse(guard.test.comparators[0]) == text:  # type: ignore[attr-defined]
                message = f"never true: {shorter!r} is a part of {word!r}, and is asked for first"
                yield Draft.at(module, node, message, [module.place(guard.test, f"takes {word} too")])
                break


def _asked(node: ast.Compare) -> str | None:
    """The string that ``"..." in text`` looks for."""
    is_word = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    return str(node.left.value) if is_word and len(node.ops) == 1 and isinstance(node.ops[0], ast.In) else None  # type: ignore[attr-defined]


def _is_string(module: ModuleNames, node: ast.expr) -> bool:
    """Whether an expression is certainly a string, so that ``in`` looks for a part of it."""
    if isinstance(node, ast.Name):
        bindings = module.scope_of(node).lookup(node.id)
        declared = bindings[0].node if len(bindings) == 1 else None
        if isinstance(declared, ast.arg):
            annotation = ast.unparse(declared.annotation) if declared.annotation is not None else ""
            return annotation in STRING_ANNOTATIONS or (not annotation and declared.arg.endswith(STRING_NAMES))
        value = only_value(module, node)
        return value is not None and not isinstance(value, ast.Name) and _is_string(module, value)
    if isinstance(node, ast.JoinedStr):
        return True
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "str" and not module.scope_of(node).lookup("str")
    return isinstance(node.func, ast.Attribute) and node.func.attr in MAKING_STRINGS
