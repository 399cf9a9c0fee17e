"""Autocast regions that the code picks among several, or by a test of the precision: what they compute in is meant."""

from __future__ import annotations

import ast

from ....codemod.purpose.regimes import speaks_of_precision
from ....codemod.purpose.steps import MAX_OTHERS, alternatives, is_crowded
from ....codemod.python.paths import guards
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts_in


def is_chosen(project: Project, region: Autocast) -> bool:
    """Whether the region is one branch or table entry of several, or runs for one precision only."""
    if is_crowded(project, region) or any(item.dtype_node is not None for item in alternatives(project, region)):
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
