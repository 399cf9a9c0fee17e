"""Whether some run that the project states meets a condition: a default, a launch line, a file, a read-me."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ..model import Finding, Span
from ..python.bindings import only_value
from ..python.conditions import conditions_in
from ..python.names import ModuleNames, attribute_chain, names_of
from ..python.paths import EXITS_OF_PROCESS
from ..source.documents import FileKind
from ..source.project import Project
from ..torch.dtype_values import scenarios_of
from ..torch.dtypes import BF16, UNKNOWN, Dtype, TextCondition
from ..torch.scalers import Scaler
from ..trainers.reading.links import sources, unfollowed_argument
from .decided import documented, fits, is_ruled_out, of_machine, settings_asked, stated
from .files import purpose_of
from .imports import importers_of
from .outcomes import may_be_passed
from .proved_reach import can_run, has_programs, is_reached
from .regimes import Regime, conditions_of
from .regions import bf16_givens
from .set_elsewhere import given_elsewhere, holder_of
from .switches import is_spelled
from .words import Purpose


def acts(project: Project, finding: Finding) -> bool:
    """Whether a run that the project gives comes to the place of a finding; not asked where it gives none."""
    document = project.document(finding.path)
    if document is None or document.kind not in (FileKind.PYTHON, FileKind.NOTEBOOK):
        return True
    module = names_of(project, document)
    is_retired = purpose_of(finding.path) is Purpose.RETIRED and not importers_of(project, module)
    if is_retired and not is_spelled(project, finding.path):
        return False
    node = node_around(module, finding.span) if has_programs(project) else None
    return node is None or is_run(project, module, node)


def node_around(module: ModuleNames, span: Span) -> ast.AST | None:
    """The innermost expression or statement that holds a place."""
    tried: list[ast.AST] = [*module.of_parts(_statements).get(span.row, ())]
    while tried:
        found = [node for each in tried for node in _holding(module, each, span)]
        if found:
            return max(found, key=_depth)
        tried = [module.parents[tried[0]]] if tried[0] in module.parents else []
    return None


def _statements(module: ModuleNames) -> dict[int, list[ast.stmt]]:
    """For each row its innermost statements, with their decorators."""
    found: dict[int, list[ast.stmt]] = {}
    for node in module.nodes:
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
            for row in range(first, (node.end_lineno or node.lineno) + 1):
                beside = row in found and module.parents[found[row][0]] is module.parents[node]
                found[row] = [*found[row], node] if beside else [node]
    return found


def _holding(module: ModuleNames, statement: ast.AST, span: Span) -> Iterator[ast.expr | ast.stmt]:
    """Of a statement, and the expressions in it that are in none of those that it holds, what holds a place."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        holds = isinstance(node, ast.expr | ast.stmt) and _holds(module, node, span)
        if isinstance(node, ast.expr | ast.stmt) and holds:
            yield node
        if holds or not isinstance(node, ast.expr):  # decorators stand above what they decorate
            waiting += (item for item in ast.iter_child_nodes(node) if not isinstance(item, ast.stmt))


def _holds(module: ModuleNames, node: ast.expr | ast.stmt, span: Span) -> bool:
    inside = node.lineno <= span.row and (node.end_lineno or 0) >= span.end_row
    return inside and module.span(node).contains(span)


def _depth(node: ast.expr | ast.stmt) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, -(node.end_lineno or 0), -(node.end_col_offset or 0)


def is_run(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a run that the project gives comes to ``node``: no value that it states switches off each way there."""
    return is_reached(project, module, node, _is_given_here)


def _is_given_here(project: Project, asked: tuple[ModuleNames, ast.AST]) -> bool:
    return can_run(project, *asked) and not is_switched_off(project, *asked)


def is_switched_off(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a test of a setting around a place does not hold with any value that the project states."""
    asked = conditions_in(project, module).path_given(node)
    settings = (item for item in asked if _is_setting(project, module, item) and not is_check(module, item.node))
    return not is_given(project, module, settings)


def _is_setting(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    """Whether a test asks what a run is given: what the code computes on the way decides itself."""
    if isinstance(item.node, ast.Attribute):
        stores = module.attribute_stores.get(item.node.attr, ())
        chain = attribute_chain(item.node.value)
        return not any(value is None and owner == chain for owner, value, _ in stores)  # ``self.ready |= True``
    if isinstance(item.node, ast.Subscript):
        return True
    bindings = item.scope.lookup(item.text) if isinstance(item.node, ast.Name) else []
    if [each.kind for each in bindings] != ["parameter"]:
        return False
    found = sources(project, module, item.node)
    return any(each.kind != "parameter" for each in found) and unfollowed_argument(project, module, item.node) is None


def given_in_bf16(project: Project, regime: Regime) -> bool:
    """Whether what the project states lets a region of a scaler compute in bfloat16."""
    return any(
        scenario.value == BF16 and is_given(project, region.autocast.module, bf16_givens(project, region, scenario))
        for region in regime.regions
        for scenario in region.scenarios
    )


def may_be_on(project: Project, scaler: Scaler) -> bool:
    """Whether nothing that the project states leaves the scaler, or all that it scales, off in each of its runs."""
    return is_used(project, scaler) and all(
        is_given(project, module, conditions_in(project, module).given(only_value(module, test) or test, holds))
        for module, test, holds in conditions_of(project, scaler)
        if not is_check(module, test)
    )


def is_used(project: Project, scaler: Scaler) -> bool:
    """Whether a given run comes to something that the scaler scales; nothing seen counts as used."""
    scales = scaler.uses_of("scale", "called")
    return not scales or any(_is_scaled(project, use.module, use.node) for use in scales)


def _is_scaled(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a given run comes to a place; what a file does as it is loaded runs for whoever imports it, too."""
    if module.scope_of(node).function is module.module_scope:
        return not is_switched_off(project, module, node)
    return is_run(project, module, node)


def is_given(project: Project, module: ModuleNames, asked: Iterable[TextCondition]) -> bool:
    """Whether no value that the project states, on a GPU that has bfloat16, keeps these conditions from holding."""
    return all(
        not _is_of_old_machine(project, module, each)
        and not _is_never_chosen(project, module, each)
        and (not is_ruled_out(project, module, each) or documented(project, module, each))
        for item in asked
        if not _may_be_passed_here(project, module, item)
        if not _is_given_elsewhere(project, module, item)
        for each in settings_asked(project, module, item)
    )


def _is_never_chosen(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    """Whether a dtype is asked for, and all that is stated chooses another: ``dtype == torch.float16``."""
    if not item.equal or not all(isinstance(value, Dtype) for value in item.values) or item.node not in module.parents:
        return False
    found = scenarios_of(project, module, item.node)
    is_known = bool(found) and not any(each.value is UNKNOWN for each in found)
    return is_known and not any(is_given(project, module, each.given) for each in found if fits(each.value, item))


def _may_be_passed_here(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    """Whether calls that cannot be followed fill a parameter of which only the default is known: ``model(x, True)``."""
    bindings = item.scope.lookup(item.text) if isinstance(item.node, ast.Name) and item.node in module.parents else []
    parameter = bindings[0].node if [each.kind for each in bindings] == ["parameter"] else None
    if not isinstance(parameter, ast.arg) or not project.memo(may_be_passed, (module, parameter)):
        return False
    return all(each.kind == "parameter" for each in stated(sources(project, module, item.node)))


def _is_given_elsewhere(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    """Whether code beside a class or module gives one of its names a value with which a condition can hold."""
    held = holder_of(project, module, item)
    given = given_elsewhere(project, *held) if held is not None else ()
    return any(value is None or _may_fit(project, other, value, item) for other, value in given)


def _may_fit(project: Project, module: ModuleNames, value: ast.expr, item: TextCondition) -> bool:
    found = stated(sources(project, module, value))
    return not found or any(fits(source.value, item) for source in found)


def _is_of_old_machine(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    """Whether a condition only holds without a GPU, or on one without bfloat16: ``"float16"`` of a choice by a test."""
    if of_machine(project, module, item) is False:
        return True
    scenarios = scenarios_of(project, module, item.node) if isinstance(item.node, ast.Name | ast.Attribute) else ()
    picked = (
        each for each in scenarios if each.given and all(of_machine(project, module, given) for given in each.given)
    )
    if any(each.value is UNKNOWN and not each.given for each in scenarios):
        return False  # ``args.dtype or ("bfloat16" if is_bf16_supported() else "float16")``
    return any(each.value is not UNKNOWN and not fits(each.value, item) for each in picked)


def is_check(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a test above refuses what it is given: ``if len(size) != 2: raise``. Runs that are given pass it."""
    statement = module.statement_of(node) if node in module.parents else None
    if not isinstance(statement, ast.If) or node not in ast.walk(statement.test):
        return isinstance(statement, ast.Assert)
    return any(_ends_process(last) for last in (statement.body[-1], *statement.orelse[-1:]))


def _ends_process(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(node, ast.Raise) or (isinstance(call, ast.Call) and ast.unparse(call.func) in EXITS_OF_PROCESS)
