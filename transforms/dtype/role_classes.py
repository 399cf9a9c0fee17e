"""What a class gives its methods: parameters and plain tensors, and layers of torch."""

from __future__ import annotations

import ast

from ...codemod.python.bindings import self_stores
from ...codemod.python.names import resolve
from .role_frame import Frame
from .role_tables import FACTORIES, FULL_LAYERS, LOW_LAYERS
from .roles import FULL, LOW, Role

_KEEPING_LAYERS = ("Dropout", "ReLU", "GELU", "SiLU", "Sigmoid", "Identity")


def made_by_class(frame: Frame, node: ast.Attribute) -> Role | None:
    """A parameter or plain tensor that the class makes in one place."""
    owner = frame.module.scope_of(node).enclosing_class
    stores = self_stores(frame.module, owner, node.attr) if owner is not None else []
    made = stores[0][0] if len(stores) == 1 else None
    name = resolve(frame.project, frame.module, made.func) if isinstance(made, ast.Call) else None
    if not isinstance(made, ast.Call) or name is None:
        return None
    if name == "torch.nn.Parameter" and made.args and isinstance(made.args[0], ast.Call):
        made = made.args[0]
        name = resolve(frame.project, frame.module, made.func) or ""
    plain = name.startswith("torch.") and name.rpartition(".")[2] in FACTORIES
    return Role(FULL) if plain and all(item.arg not in ("dtype", None) for item in made.keywords) else None


def layer_output(frame: Frame, node: ast.Call, func: ast.Attribute, given: Role) -> Role | None:
    """``self.linear(x)``: what a layer of torch gives under autocast, where the class makes it in one place."""
    owner = frame.module.scope_of(node).enclosing_class
    if owner is None or not isinstance(func.value, ast.Name) or func.value.id != "self":
        return None
    stores = self_stores(frame.module, owner, func.attr)
    made = stores[0][0] if len(stores) == 1 else None
    name = resolve(frame.project, frame.module, made.func) if isinstance(made, ast.Call) else None
    if name is None or not name.startswith("torch.nn."):
        return None
    last = name.rpartition(".")[2]
    if frame.autocast and last in (*LOW_LAYERS, *FULL_LAYERS):
        return Role(LOW if last in LOW_LAYERS else FULL)
    return given if last in _KEEPING_LAYERS else None
