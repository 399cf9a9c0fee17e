"""Where float32 leaves the function that made it: the place at which a repair usually belongs."""

from __future__ import annotations

import ast
from dataclasses import replace

from ..torch.dtypes import FP32
from .frame import Frame
from .lattice import Atom, Value


def leaving(frame: Frame, node: ast.expr, value: Value) -> Value:
    """A returned value; what was made float32 further up says where it leaves the function, as it may be cast there."""
    if value.items is not None:
        if not isinstance(node, ast.Tuple | ast.List) or len(node.elts) != len(value.items):
            return value
        items = zip(node.elts, value.items, strict=True)
        return replace(value, items=tuple(leaving(frame, part, item) for part, item in items))
    path = frame.module.document.path
    atoms = tuple(
        atom.seen_at(path, node, "it is returned here in float32") if _is_born_above(atom, path, node) else atom
        for atom in value.atoms
    )
    return replace(value, atoms=atoms) if value.atoms else value


def _is_born_above(atom: Atom, path: str, node: ast.expr) -> bool:
    source = atom.source
    if atom.dtype != FP32 or source is None or source.before is not None or source.path != path:
        return False
    return getattr(source.node, "lineno", node.lineno) < node.lineno
