"""Whether the weights of a module are trained, by what its file does with it."""

from __future__ import annotations

import ast

from ..python.bindings import only_value
from ..python.names import ModuleNames

OF_MODULES = ("parameters", "named_parameters", "train")
"""Methods of modules that code asks for where it trains one."""


def is_trained(module: ModuleNames, node: ast.expr) -> bool:
    """Whether ``node`` is a module whose weights the file trains: it asks for them, and does not freeze them."""
    first = only_value(module, node)  # `net` of `self.net = net`
    names = {ast.unparse(item) for item in (node, first) if item is not None}
    asked = [item for name in OF_MODULES for item in module.attribute_loads.get(name, []) if _of(item) in names]
    frozen = any(
        _of(item) in names and _freezes(module, item) for item in module.attribute_loads.get("requires_grad_", [])
    )
    return bool(asked) and not frozen and not any(_is_switched(module, item) for item in asked)


def _freezes(module: ModuleNames, asked: ast.Attribute) -> bool:
    """``x.requires_grad_(False)``, or what is not known to be something else."""
    call = module.parents[asked]
    given = [*call.args, *(item.value for item in call.keywords)] if isinstance(call, ast.Call) else [call]
    return bool(given) and not (isinstance(given[0], ast.Constant) and given[0].value is True)


def _is_switched(module: ModuleNames, asked: ast.Attribute) -> bool:
    """``for p in x.parameters(): p.requires_grad = False``."""
    loop = module.statement_of(asked)
    stored = (statement for _, _, statement in module.attribute_stores.get("requires_grad", ()))
    return isinstance(loop, ast.For) and any(loop in module.ancestors(statement) for statement in stored)


def _of(node: ast.Attribute) -> str:
    return ast.unparse(node.value)
