"""What a finding says of the flags without which its place, or the scaler or region that it speaks of, does nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..model import Finding, Span
from ..python.bindings import only_value
from ..python.callers import callers_of
from ..python.conditions import conditions_in
from ..python.names import FunctionNode, ModuleNames, names_of
from ..python.paths import function_of
from ..source.documents import FileKind
from ..source.project import Project
from ..torch.autocast import Autocast, autocasts
from ..torch.dtypes import TextCondition
from ..torch.scalers import Scaler, scalers
from .decided import settings_asked, stated_values
from .flag_sources import typed_flag
from .given import is_run, node_around
from .regimes import conditions_of
from .typed_flags import has_typed_flags

MAX_HOPS = 3
"""How many calls up a place is followed."""
CODE = (FileKind.PYTHON, FileKind.NOTEBOOK)
SAID = "which is off by default"
"""What rules say that tell of a switch themselves."""
Facts: TypeAlias = "frozenset[tuple[str, bool]]"
"""Flags that a place needs, and those that it must not have."""
NONE: Facts = frozenset()


def as_flagged(project: Project, finding: Finding, *, anywhere: bool) -> Finding | None:
    """``finding`` with the flags that it needs, ``--amp``, where nothing shows how the program is started.

    None where one of its places needs a flag without which another one runs.
    """
    if not has_typed_flags(project):
        return finding
    own, _ = _at(project, finding.path, finding.span, anywhere=anywhere)
    beside = [_at(project, place.path, place.span, anywhere=anywhere) for place in finding.evidence]
    every = own.union(*(facts for facts, _ in beside))
    if any((flag, not holds) in every for flag, holds in every):
        return None
    acting = [facts for facts, acts in beside if acts]
    needed = own.union(frozenset.intersection(*acting) if acting else NONE)
    said = _said(sorted(flag for flag, holds in needed if holds)) if SAID not in finding.message else ""
    return replace(finding, message=f"{finding.message}{said}") if said else finding


def _said(flags: Sequence[str]) -> str:
    are = "which is" if len(flags) == 1 else "which are"
    return f"; it takes effect only with {' and '.join(flags)}, {are} off by default" if flags else ""


def is_stated_run(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a given run comes to a place without a flag that only a user may type."""
    needed = _around(project, module, node, MAX_HOPS) if has_typed_flags(project) else NONE
    return not any(holds for _, holds in needed) and is_run(project, module, node)


def is_run_at(project: Project, path: str, span: Span) -> bool:
    """The same of a place in the code of a file; what is no code is not asked about."""
    document = project.document(path)
    if document is None or document.kind not in CODE:
        return True
    module = names_of(project, document)
    node = node_around(module, span)
    return node is None or is_stated_run(project, module, node)


def _at(project: Project, path: str, span: Span, *, anywhere: bool) -> tuple[Facts, bool]:
    """The flags of a place, and whether a scaler or a region acts there."""
    document = project.document(path)
    if document is None or document.kind not in CODE:
        return NONE, False
    module = names_of(project, document)
    node = node_around(module, span)
    if node is None:
        return NONE, False
    used = (scaler for scaler in project.fact(_scalers_by_module).get(module, ()))
    ways = [_of_scaler(project, scaler) for scaler in used if _is_used_at(scaler, module, span, made=not anywhere)]
    opened = project.fact(_regions_by_place).get((module, span), ()) if not anywhere else ()
    ways += [_of_region(project, each) for each in opened]
    acting = frozenset.intersection(*ways) if ways else NONE
    return acting | _around(project, module, node, MAX_HOPS), bool(ways)


def _regions_by_place(project: Project) -> dict[tuple[ModuleNames, Span], list[Autocast]]:
    found: dict[tuple[ModuleNames, Span], list[Autocast]] = {}
    for region in autocasts(project):
        found.setdefault((region.module, region.module.span(region.node)), []).append(region)
    return found


def _scalers_by_module(project: Project) -> dict[ModuleNames, list[Scaler]]:
    """The scalers that each module makes or uses."""
    found: dict[ModuleNames, list[Scaler]] = {}
    for scaler in scalers(project):
        uses = scaler.uses_of("scale", "step", "unscale_", "update")
        for module in dict.fromkeys((scaler.module, *(use.module for use in uses))):
            found.setdefault(module, []).append(scaler)
    return found


def _is_used_at(scaler: Scaler, module: ModuleNames, span: Span, *, made: bool) -> bool:
    if made and scaler.module is module and span.contains(module.span(scaler.call)):
        return True
    uses = scaler.uses_of("scale", "step", "unscale_", "update")
    return any(use.module is module and span.contains(module.span(use.node)) for use in uses)


def _of_scaler(project: Project, scaler: Scaler) -> Facts:
    found: set[tuple[str, bool]] = set()
    for module, test, holds in conditions_of(project, scaler):
        asked = conditions_in(project, module).given(only_value(module, test) or test, holds)
        found |= _of(project, module, asked)
    return frozenset(found)


def _of_region(project: Project, region: Autocast) -> Facts:
    module, switch = region.module, region.enabled_node
    asked = conditions_in(project, module).given(only_value(module, switch) or switch, True) if switch else ()
    return _of(project, module, asked)


def _around(project: Project, module: ModuleNames, node: ast.AST, hops: int) -> Facts:
    """The flags behind which a place stands, and each call of its function."""
    own = _of(project, module, conditions_in(project, module).path_given(node))
    function = function_of(module, node)
    sites = callers_of(project, module, function).sites if hops and isinstance(function, FunctionNode) else ()
    above = [_around(project, site.module, site.call, hops - 1) for site in sites]
    return own | (frozenset.intersection(*above) if above else NONE)


def _of(project: Project, module: ModuleNames, asked: Iterable[TextCondition]) -> Facts:
    return frozenset(_facts(project, module, asked))


def _facts(project: Project, module: ModuleNames, asked: Iterable[TextCondition]) -> Iterator[tuple[str, bool]]:
    for item in asked:
        for each in settings_asked(project, module, item):
            flag = typed_flag(project, replace(each, equal=True), stated_values(project, module, each) or ())
            if flag:
                yield flag, each.equal
