"""What a function returns as its caller sees it: its symbols replaced by what the call hands over."""

from __future__ import annotations

import ast
from dataclasses import replace

from ..python.functions import FunctionTarget
from ..torch.dtypes import HALVES
from .frame import Frame
from .lattice import Atom, MadeHow, Role, Value


def substituted(
    value: Value, bindings: dict[str, tuple[Atom, ...]], frame: Frame, node: ast.Call, target: FunctionTarget
) -> Value:
    """A returned value as the caller sees it."""
    if not value.atoms and value.items is None:
        return value
    items = None
    if value.items is not None:
        items = tuple(substituted(item, bindings, frame, node, target) for item in value.items)
    atoms: list[Atom] = []
    for atom in value.atoms:
        replaced = _replaced(atom, bindings)
        if not replaced:
            return replace(value, atoms=(), items=items)
        atoms += [item for item in replaced if item not in atoms]
    path, text = frame.module.document.path, f"{target.node.name}(...) returns it"
    return replace(value, atoms=tuple(atom.seen_at(path, node, text) for atom in atoms), items=items)


def _replaced(atom: Atom, bindings: dict[str, tuple[Atom, ...]]) -> tuple[Atom, ...]:
    if atom.mixture is not None:
        meant = _replaced(atom.mixture.meant, bindings)
        kept = next((item for item in meant if item.is_half and (item.dtype is None or item.dtype in HALVES)), None)
        mixture = replace(atom.mixture, meant=kept) if kept is not None else None
        return (replace(atom, mixture=mixture),)
    if atom.symbol in bindings:
        made_by_layer = atom.made is MadeHow.LAYER
        return tuple(
            replace(item, made=MadeHow.LAYER) if made_by_layer and item.role is Role.WEIGHTS else item
            for item in bindings[atom.symbol]
        )
    if atom.role is Role.PARAMETER or (atom.role is Role.EXPRESSION):
        return ()
    return (atom,)
