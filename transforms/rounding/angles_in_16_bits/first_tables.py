"""Tables that a constructor makes, where no region is open, and that are made again only where they are too short."""

from __future__ import annotations

import ast

from ....codemod.python.callers import callers_of
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import guards
from ....codemod.source.project import Project

MAX_HOPS = 4


def is_made_at_construction(project: Project, module: ModuleNames, node: ast.AST, hops: int = 0) -> bool:
    """Whether ``node`` runs in a constructor, and later only where a comparison of sizes asks for it."""
    function = module.scope_of(node).function.node
    if not isinstance(function, FunctionNode):
        return True
    if function.name == "__init__" or _is_compared(module, node):
        return True
    sites = [(item.module, item.call) for item in callers_of(project, module, function).sites]
    sites += [(module, call) for call in module.calls_by_name.get(function.name, []) if (module, call) not in sites]
    first = any(_in_constructor(*site) for site in sites)
    later = [site for site in sites if not _in_constructor(*site) and not (first and _is_compared(*site))]
    if not sites or hops >= MAX_HOPS:
        return False
    return all(is_made_at_construction(project, *site, hops + 1) for site in later)


def _in_constructor(module: ModuleNames, node: ast.AST) -> bool:
    return getattr(module.scope_of(node).function.node, "name", "") == "__init__"


def _is_compared(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a comparison of sizes decides whether this runs: ``if length > self.longest``."""
    tests = (guard.test for guard in guards(module, node))
    compared = (item for test in tests for item in ast.walk(test) if isinstance(item, ast.Compare))
    return any(isinstance(operator, ast.Gt | ast.Lt | ast.GtE | ast.LtE) for item in compared for operator in item.ops)
