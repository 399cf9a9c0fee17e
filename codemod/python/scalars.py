"""Whether an expression is a Python number, which does not change the dtype of a floating tensor it meets."""

from __future__ import annotations

import ast

from ..source.project import Project
from .bindings import default_of, self_stores
from .limits import MAX_DEPTH, MAX_VALUES
from .names import Binding, ModuleNames, attribute_chain

_NUMBER_CALLS = ("float", "int", "len", "min", "max", "round", "abs")
_NUMBER_MODULES = ("math.", "numpy.sqrt", "numpy.log", "numpy.power")


def is_scalar(project: Project, module: ModuleNames, node: ast.expr, depth: int = 0) -> bool:
    """Whether ``node`` is certainly a plain number: ``math.sqrt(d)``, ``x.size(-1) ** -0.5``, ``self.scale``."""
    if depth > MAX_DEPTH:
        return False
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    if isinstance(node, ast.UnaryOp):
        return is_scalar(project, module, node.operand, depth + 1)
    if isinstance(node, ast.BinOp):
        return all(is_scalar(project, module, side, depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.Call):
        return _call(project, module, node, depth)
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and not _is_slice(node.slice)
    if isinstance(node, ast.Name):
        bindings = module.bindings_of(node)
        return 0 < len(bindings) <= MAX_VALUES and all(_bound(project, module, item, depth) for item in bindings)
    return _attribute(project, module, node, depth) if isinstance(node, ast.Attribute) else False


def _is_slice(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice)


def _call(project: Project, module: ModuleNames, node: ast.Call, depth: int) -> bool:
    if isinstance(node.func, ast.Attribute) and node.func.attr == "size":
        return len(node.args) == 1
    name = module.qualified(node.func) or ""
    if name.startswith(_NUMBER_MODULES):
        return all(is_scalar(project, module, item, depth + 1) for item in node.args) or name.startswith("math.")
    builtin = isinstance(node.func, ast.Name) and not module.scope_of(node).lookup(node.func.id)
    if not builtin or not isinstance(node.func, ast.Name) or node.func.id not in _NUMBER_CALLS:
        return False
    converts = node.func.id in ("float", "int", "len")
    return converts or all(is_scalar(project, module, item, depth + 1) for item in node.args)


def _bound(project: Project, module: ModuleNames, binding: Binding, depth: int) -> bool:
    node = binding.node
    if binding.kind == "assign" and binding.value is not None:
        return is_scalar(project, module, binding.value, depth + 1)
    if binding.kind == "unpacked" and isinstance(node, ast.Assign):
        value = node.value
        if isinstance(value, ast.Attribute):
            return value.attr == "shape"
        return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "size"
    if binding.kind != "parameter" or not isinstance(node, ast.arg):
        return False
    return _is_number_parameter(binding, node)


def _is_number_parameter(binding: Binding, node: ast.arg) -> bool:
    """An annotated or defaulted number; and what a constructor takes by a plain name, which is its configuration."""
    if node.annotation is not None:
        return ast.unparse(node.annotation).replace(" ", "").split("|")[0] in ("int", "float")
    default = default_of(binding)
    if default is not None:
        return isinstance(default, ast.Constant) and isinstance(default.value, int | float)
    return getattr(binding.scope.node, "name", "") == "__init__"


def _attribute(project: Project, module: ModuleNames, node: ast.Attribute, depth: int) -> bool:
    chain = attribute_chain(node)
    owner = module.scope_of(node).enclosing_class
    if chain is None or len(chain) < 2:
        return False
    if chain[0] == "self" and len(chain) == 2 and owner is not None:
        stores = self_stores(module, owner, chain[1])
        return 0 < len(stores) <= MAX_VALUES and all(
            value is not None and is_scalar(project, module, value, depth + 1) for value, _ in stores
        )
    return chain[-2] in ("config", "cfg", "args", "hparams")
