"""Whether a module certainly owns parameters; ``next(module.parameters())`` raises StopIteration where it does not."""

from __future__ import annotations

import ast

from ..python.bindings import self_stores
from ..torch.tables.layers import LAYERS
from .analysis import FlowAnalysis
from .classes import LibraryModel, ProjectClass, TorchLayer
from .containers import LISTS
from .lattice import Kind, Value

MAX_DEPTH = 4
"""Classes inside classes that are looked into; deeper ones count as not known."""


def owns_parameters(analysis: FlowAnalysis, value: Value | None, depth: int = 0) -> bool:
    """Whether every object that ``value`` can be has a parameter: of its own, or in one of its modules."""
    if value is None or value.kind is not Kind.MODULE or depth > MAX_DEPTH:
        return False
    detail = value.detail
    if isinstance(detail, TorchLayer) and detail.name in LISTS:
        return any(owns_parameters(analysis, item, depth + 1) for item in value.items or ())
    if isinstance(detail, TorchLayer):
        layer = LAYERS.get(detail.name)
        return layer is not None and layer.has_weights and not layer.affine
    if isinstance(detail, ProjectClass):
        return _class_owns(analysis, detail, depth)
    return isinstance(detail, LibraryModel) and detail.name[:1].isupper()


def _class_owns(analysis: FlowAnalysis, found: ProjectClass, depth: int) -> bool:
    """Whether the constructor gives each object a parameter, or a module that has one, whatever its arguments are."""
    for name, value in analysis.attributes(found).items():
        stores = self_stores(found.module, found.scope, name)
        in_constructor = [getattr(found.module.parents.get(item), "name", "") == "__init__" for _, item in stores]
        made = [expression for expression, _ in stores]
        if stores and all(in_constructor) and all(isinstance(expression, ast.Call) for expression in made):
            if owns_parameters(analysis, value, depth + 1):
                return True
            if all(_is_parameter(found, expression) for expression in made):
                return True
    return False


def _is_parameter(found: ProjectClass, expression: ast.expr | None) -> bool:
    named = isinstance(expression, ast.Call) and found.module.qualified(expression.func)
    return named in ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
