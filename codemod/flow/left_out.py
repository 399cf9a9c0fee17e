"""Optional parameters that no caller fills: inside the function they are their default, None."""

from __future__ import annotations

import ast

from ..python.bindings import default_of, reaching
from ..python.callers import CallSite, callers_of
from .frame import Frame


def is_left_out(frame: Frame, node: ast.expr) -> bool:
    """Whether ``node`` is a parameter whose default is None and which no known caller fills."""
    module = frame.module
    if not isinstance(node, ast.Name):
        return False
    bindings = reaching(module, module.scope_of(node).lookup(node.id), node)
    if len(bindings) != 1 or bindings[0].kind != "parameter":
        return False
    function, default = bindings[0].scope.node, default_of(bindings[0])
    if not isinstance(function, ast.FunctionDef) or not (isinstance(default, ast.Constant) and default.value is None):
        return False
    sites = callers_of(frame.project, module, function).sites
    return bool(sites) and not any(_may_fill(site, node.id) for site in sites)


def _may_fill(site: CallSite, name: str) -> bool:
    unpacked = any(isinstance(each, ast.Starred) for each in site.call.args)
    return unpacked or any(each.arg is None for each in site.call.keywords) or name in site.target.arguments(site.call)
