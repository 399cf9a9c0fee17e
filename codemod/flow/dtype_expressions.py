"""What a dtype-valued expression says: a concrete type, or a symbol with what the project lets it be."""

from __future__ import annotations

import ast
from dataclasses import replace

from ..python.names import ModuleNames, last_name
from ..python.scopes import text_of
from ..source.project import Project
from ..torch.dtype_values import scenarios_of
from ..torch.dtypes import FP32, HALVES, TORCH_DTYPES, Dtype, as_dtype
from .frame import Frame
from .lattice import BOOL, INT64, Atom, DtypeSource, MadeHow, Role

INTEGER_NAMES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "short", "int", "long",
)  # fmt: skip
COMPLEX_DTYPES = tuple(
    f"torch.{name}" for name in ("complex32", "complex64", "complex128", "chalf", "cfloat", "cdouble")
)
OTHER_DTYPES = {"torch.bool": BOOL, **{f"torch.{name}": INT64 for name in INTEGER_NAMES}}
"""All integer types count as one: they never widen a floating tensor."""
DTYPE_NAMES = {name.rpartition(".")[2] for name in (*TORCH_DTYPES, *OTHER_DTYPES)}
MAX_TEXT = 120


def written_dtype(frame: Frame, node: ast.expr) -> Dtype | None:
    """The dtype that a name of torch (``torch.half``), a string or a builtin (``dtype=int``) stands for."""
    name = last_name(node)
    if name in DTYPE_NAMES or (isinstance(node, ast.Name) and _is_imported_dtype(frame, node)):
        qualified = frame.analysis.qualified(frame.module, node)
        found = TORCH_DTYPES.get(qualified or "") or OTHER_DTYPES.get(qualified or "")
        if found is not None:
            return found
        if isinstance(node, ast.Name) and not frame.module.bindings_of(node):
            return {"int": INT64, "bool": BOOL, "float": Dtype("float64")}.get(node.id)
    return None


def _is_imported_dtype(frame: Frame, node: ast.Name) -> bool:
    """``from torch import float16 as half_type``."""
    bindings = frame.module.bindings_of(node)
    return any((item.qualified or "").rpartition(".")[2] in DTYPE_NAMES for item in bindings if item.kind == "import")


def dtype_atoms(frame: Frame, node: ast.expr) -> tuple[Atom, ...]:
    """The atoms of ``dtype=<node>``, where the interpretation itself knows no value for it."""
    written = written_dtype(frame, node)
    text = text_of(node)[:MAX_TEXT]
    source = DtypeSource(frame.module.document.path, node, f"{text} is given")
    if written is not None:
        return (Atom(written, source=source, made=MadeHow.CAST),)
    if isinstance(node, ast.Constant):
        word = as_dtype(node.value) if isinstance(node.value, str) else None
        return (Atom(word, source=source, made=MadeHow.CAST),) if isinstance(word, Dtype) else ()
    if _is_complex(frame, node):
        return ()
    if isinstance(node, ast.Call) and frame.analysis.qualified(frame.module, node.func) == "torch.get_default_dtype":
        return () if frame.analysis.changes_default_dtype else (Atom(FP32, source=source, made=MadeHow.CAST),)
    named, complete = named_dtypes(frame.project, frame.module, node)
    if complete and len(named) == 1:
        return (Atom(next(iter(named)), source=source, made=MadeHow.CAST),)
    can_be_half = not complete or not named.isdisjoint(HALVES)
    symbol = Atom(symbol=text, role=Role.EXPRESSION, can_be_half=can_be_half, source=source, expression=node)
    return (replace(symbol, candidates=named),)


def _is_complex(frame: Frame, node: ast.expr) -> bool:
    """Whether a complex dtype is written, which promotion in the tables does not know."""
    name = frame.analysis.qualified(frame.module, node) if isinstance(node, ast.Name | ast.Attribute) else None
    return name in COMPLEX_DTYPES


def named_dtypes(project: Project, module: ModuleNames, node: ast.expr) -> tuple[frozenset[Dtype], bool]:
    """The dtypes that the source names for the expression, and whether these are all it can be."""
    values = [as_dtype(scenario.value) for scenario in scenarios_of(project, module, node)]
    named = frozenset(value for value in values if isinstance(value, Dtype))
    return named, bool(named) and all(isinstance(value, Dtype) for value in values)
