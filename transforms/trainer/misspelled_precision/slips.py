"""What every kind of misspelled precision hands to the rule."""

from __future__ import annotations

import ast

from ....codemod.model import Edit
from ....codemod.python.names import ModuleNames

SPELLING = "spelling"
"""The name of every fix that only changes how something is spelled."""


def renamed_attribute(module: ModuleNames, node: ast.Attribute, name: str) -> Edit:
    """``x.<name>`` for ``x.y``."""
    return module.replace(node, node.value, f".{name}")


def respelled_string(module: ModuleNames, node: ast.Constant, wrong: str, right: str) -> Edit | None:
    """The string with its quotes kept; None where its source does not show it plainly (escapes, pieces)."""
    span = module.document.span(node)
    source = module.document.source(span)
    if source.count(wrong) != 1 or len(source) > len(wrong) + 4:
        return None
    return module.replace(span, source.replace(wrong, right))
