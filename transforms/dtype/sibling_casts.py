"""Functions of one file that do the same operation: one casts its tensor to float32 for it, the other forgot."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...codemod.flow.frame import Application
from ...codemod.flow.lattice import Kind, Role, Value
from ...codemod.model import Place
from ...codemod.python.names import FunctionNode
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import FP32
from ...codemod.torch.tables.halves import weights_can_be_half
from .half_operands import operand_of

_PRECISION = ("dtype", "float(", "half", "bfloat16", "autocast")


def careful_sibling(project: Project, item: Application, others: Sequence[Application]) -> Place | None:
    """The cast of another function of the file that does the same to what it is given, and gives the dtype back."""
    found = operand_of(item)
    if found is None or item.function is None or not _is_given(found[1]) or not weights_can_be_half(project):
        return None
    body = "\n".join(ast.unparse(statement) for statement in item.function.body)
    if any(word in body for word in _PRECISION) or _is_handed_float32(item):
        return None
    return next(_casts(item, others), None)


def _is_handed_float32(item: Application) -> bool:
    """Whether a function of the file that calls this one casts to float32 itself."""
    calls = item.module.calls_by_name.get(item.function.name, []) if item.function is not None else []
    callers = [item.module.scope_of(call).function.node for call in calls]
    functions = [ast.unparse(caller) for caller in callers if isinstance(caller, FunctionNode)]
    return any(word in text for text in functions for word in (".float(", "float32"))


def _is_given(value: Value) -> bool:
    """Whether the tensor is what the function was given, in whatever dtype."""
    return value.kind is Kind.TENSOR and bool(value.atoms) and all(atom.role is Role.PARAMETER for atom in value.atoms)


def _casts(item: Application, others: Sequence[Application]) -> Iterator[Place]:
    for other in others:
        if other.module is not item.module or other.operation != item.operation or other.function is item.function:
            continue
        found = operand_of(other)
        atom = found[1].atoms[0] if found is not None and len(found[1].atoms) == 1 else None
        if atom is None or atom.dtype != FP32 or atom.made != "cast" or atom.source is None or other.function is None:
            continue
        gives_back = any(".dtype" in ast.unparse(statement) for statement in other.function.body)
        if gives_back and atom.source.path == item.module.document.path:
            document, text = item.module.document, f"{other.function.name} casts to float32 for it"
            yield Place(document.path, document.span(atom.source.node), text)
