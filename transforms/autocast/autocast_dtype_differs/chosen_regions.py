"""Autocast regions that the code picks among several, or by a test of the precision: what they compute in is meant."""

from __future__ import annotations

import ast

from ....codemod.purpose.regimes import speaks_of_precision
from ....codemod.purpose.regions import regions_beside
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import exclusive, guards
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts_in

MAX_OTHERS = 100
"""In a function with more regions all count as chosen: comparing each with each takes too long; nobody wrote it."""
_TABLES = (ast.Dict, ast.List, ast.Tuple, ast.Lambda)


def is_chosen(project: Project, region: Autocast) -> bool:
    """Whether the region is one branch or table entry of several, or runs for one precision only."""
    module = region.module
    others = regions_beside(project, region)
    if len(others) > MAX_OTHERS:
        return True
    for other in others:
        if other.node is region.node:
            continue
        if _share_table(module, region.node, other.node) or (
            other.dtype_node is not None and exclusive(module, other.node, region.node)
        ):
            return True
    return is_behind_precision_test(project, region)


def is_behind_precision_test(project: Project, region: Autocast) -> bool:
    """Whether a test of the precision decides about the region; not where it is a switch (``enabled=args.fp16``)
    that a region with another dtype has as well."""
    tests = [test for test in _tests(region) if speaks_of_precision(project, region.module, test)]
    return bool(tests) and not _asks_the_same(project, region, tests)


def _tests(region: Autocast) -> list[ast.expr]:
    tests = [guard.test for guard in guards(region.module, region.node)]
    return [*tests, region.enabled_node] if region.enabled_node is not None else tests


def _asks_the_same(project: Project, region: Autocast, tests: list[ast.expr]) -> bool:
    switches = {_last_name(test) for test in tests}
    for other in autocasts_in(project, region.module)[:MAX_OTHERS]:
        differs = (other.dtype_node is None) != (region.dtype_node is None)
        if differs and switches <= {_last_name(test) for test in _tests(other)}:
            return True
    return False


def _last_name(test: ast.expr) -> str:
    return ast.unparse(test).rpartition(".")[2]


def _share_table(module: ModuleNames, first: ast.expr, second: ast.expr) -> bool:
    mine = {parent for parent in module.ancestors(first) if isinstance(parent, _TABLES)}
    return any(parent in mine for parent in module.ancestors(second))
