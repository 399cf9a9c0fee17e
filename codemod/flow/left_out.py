"""Parameters that a call, or every known caller, leaves out: inside the function they are their default."""

from __future__ import annotations

import ast

from ..python.arguments import hides_arguments
from ..python.bindings import default_of, reaching
from ..python.callers import CallSite, callers_of
from ..python.functions import FunctionTarget
from ..python.names import defaults_in
from .frame import Frame
from .lattice import Kind, Value


def defaults_of(node: ast.Call, target: FunctionTarget) -> dict[str, Value]:
    """The parameters that a call leaves at a default that is a plain value: most often None."""
    if hides_arguments(node):
        return {}
    given = target.arguments(node)
    return {
        name: constant_value(default)
        for name, default in defaults_in(target.node.args).items()
        if isinstance(default, ast.Constant) and name not in given
    }


def constant_value(node: ast.Constant) -> Value:
    """A plain value; which one is kept where tests ask for it."""
    return Value(Kind.NUMBER, label=repr(node.value) if isinstance(node.value, bool | None) else "")


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
