"""What libraries hand out by name: an activation of a table, the attention function that a configuration asks for."""

from __future__ import annotations

import ast
from functools import reduce

from ..purpose.outcomes import known_texts
from ..python.functions import class_of
from ..python.names import ModuleNames
from ..torch.tables.layers import LAYERS
from ..torch.tables.libraries import ACTIVATIONS, ATTENTION_FUNCTIONS, LAYER_CLASSES
from .classes import ProjectClass, TorchLayer
from .frame import Frame
from .lattice import BY_NAME, UNKNOWN_VALUE, Kind, Value, join

ATTENTION = "scaled_dot_product_attention"
"""The operation that every attention function of a table stands for; as a detail of a value, any one of these."""
LOOKUPS = ("get", "get_interface")


def handed_out(frame: Frame, node: ast.expr, called: tuple[str | None] | None = None) -> Value:
    """``ACT2FN[name]``, ``get_activation(name)``, ``ALL_ATTENTION_FUNCTIONS.get_interface(name, default)``.

    ``called``: the qualified name of what a call calls, where it is known.
    """
    source = node.value if isinstance(node, ast.Subscript) else node.func if isinstance(node, ast.Call) else node
    if isinstance(source, ast.Attribute) and source.attr in LOOKUPS and isinstance(node, ast.Call):
        source, called = source.value, None
    name = frame.analysis.qualified(frame.module, source) if called is None else called[0]
    if name in ACTIVATIONS:
        return Value(Kind.MODULE, (), detail=TorchLayer("SiLU"), label=BY_NAME)
    if name in ATTENTION_FUNCTIONS:
        return Value(Kind.MODULE, (), detail=ATTENTION)
    key = node.slice if isinstance(node, ast.Subscript) else None
    return _of_table(frame, source, key) if isinstance(source, ast.Name) else UNKNOWN_VALUE


def _of_table(frame: Frame, name: ast.Name, key: ast.expr | None) -> Value:
    """``ATTENTION_CLASSES[config.kind]``: one of the classes that a dictionary of the file holds for what is asked."""
    if name.id not in frame.module.of_parts(_tables):
        return UNKNOWN_VALUE
    bindings = frame.module.scope_of(name).lookup(name.id)
    table = bindings[0].value if len(bindings) == 1 and frame.module.is_of_module(bindings[0].scope) else None
    if not isinstance(table, ast.Dict) or not table.values:
        return UNKNOWN_VALUE
    if all(_is_activation(frame, item) for item in table.values):
        return Value(Kind.MODULE, (), detail=TorchLayer("SiLU"), label=BY_NAME)
    found = [class_value(frame, item) for item in table.values]
    if all(item.detail is None for item in found):
        return UNKNOWN_VALUE  # before what the key can be, which costs more
    asked = known_texts(frame.project, frame.module, key) if key is not None else None
    pairs = zip(table.keys, found, strict=True)
    chosen = [value for item, value in pairs if asked and isinstance(item, ast.Constant) and item.value in asked]
    found = chosen or found
    return reduce(join, found) if all(item.detail is not None for item in found) else UNKNOWN_VALUE


def _tables(module: ModuleNames) -> frozenset[str]:
    """The names that stand for a dictionary in some scope of a file."""
    return frozenset(item.name for item in module.all_bindings if isinstance(item.value, ast.Dict))


def _is_activation(frame: Frame, node: ast.expr) -> bool:
    """``nn.GELU()``: a module without weights that gives back the dtype that it is given."""
    made = class_value(frame, node.func).detail if isinstance(node, ast.Call) else None
    layer = LAYERS.get(made.name) if isinstance(made, TorchLayer) else None
    return layer is not None and layer.role == "passing" and layer.returns == "tensor" and not layer.autocast("cuda")


def class_value(frame: Frame, node: ast.expr) -> Value:
    """A class that is named and not called: one of the project, or a layer of torch, or one that treats dtypes so."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if not name[:1].isupper():
        return UNKNOWN_VALUE
    qualified = frame.analysis.qualified(frame.module, node) or ""
    if (name in LAYERS and qualified.startswith("torch.nn.")) or qualified in LAYER_CLASSES:
        return Value(detail=TorchLayer(LAYER_CLASSES.get(qualified, name)))
    found = class_of(frame.project, frame.module, node)
    return Value(detail=ProjectClass(*found)) if found is not None else UNKNOWN_VALUE
