"""What every kind of misspelt precision hands to the rule."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from ...codemod.model import Applicability, Edit, Fix, Operation, Place, ReplaceExpression, Span
from ...codemod.python.names import ModuleNames

SPELLING = "spelling"
"""The name of every fix that only changes how something is spelt."""


@dataclass(frozen=True, slots=True)
class Slip:
    """One slip: what it does, where it stands, and what it should be."""

    message: str
    path: str
    span: Span
    evidence: tuple[Place, ...] = ()
    fixes: tuple[Fix, ...] = ()


def slip_at(
    module: ModuleNames, node: ast.AST, message: str, evidence: Sequence[Place] = (), fixes: Sequence[Fix] = ()
) -> Slip:
    """A slip at one node of a module."""
    return Slip(message, module.document.path, module.document.span(node), tuple(evidence), tuple(fixes))


def place_of(module: ModuleNames, node: ast.AST, message: str) -> Place:
    return Place(module.document.path, module.document.span(node), message)


def fix_of(module: ModuleNames, message: str, safe: bool, operations: Sequence[Operation], name: str = SPELLING) -> Fix:
    """One fix in one file; ``safe`` where what stands there now certainly raises."""
    edits = tuple(Edit(module.document.path, operation) for operation in operations)
    return Fix(name, message, Applicability.SAFE if safe else Applicability.UNSAFE, edits)


def renamed_attribute(module: ModuleNames, node: ast.Attribute, name: str) -> ReplaceExpression:
    """``x.<name>`` for ``x.y``."""
    document = module.document
    return ReplaceExpression(document.span(node), (document.span(node.value), f".{name}"))


def respelt_string(module: ModuleNames, node: ast.Constant, wrong: str, right: str) -> ReplaceExpression | None:
    """The string with its quotes kept; None where its source does not show it plainly (escapes, pieces)."""
    span = module.document.span(node)
    source = module.document.source(span)
    if source.count(wrong) != 1 or len(source) > len(wrong) + 4:
        return None
    return ReplaceExpression(span, (source.replace(wrong, right),))
