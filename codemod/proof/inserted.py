"""What the code that an edit writes needs: names with a value, attributes that exist, releases that have the interface.

Read off the edits themselves, so no rule has to say it and none can forget it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..model import (
    AddDecorator,
    AddImport,
    Edit,
    InsertArgument,
    InsertStatement,
    ReplaceExpression,
    SetArgument,
    WrapStatements,
)
from ..python.bound import always_sets, is_bound_at
from ..python.names import ModuleNames, attribute_chain
from ..source.project import Project
from .attributes import has_attribute, is_not_none, replaced_at
from .needed_today import KEYWORDS_SINCE, is_newer_anyway, since
from .needs import Known, Need, Release
from .nodes import module_of, node_at

_KEPT = "_kept_by_the_edit_"
"""Stands for an expression that an edit leaves as it is written."""


@dataclass(frozen=True, slots=True, eq=False)
class _Written:
    """New code, and the node at which it will run."""

    module: ModuleNames
    code: ast.AST
    node: ast.AST
    keyword: str = ""
    """The keyword of the call ``node`` that gets this value."""
    follows: bool = False
    """Whether it is put behind the statement ``node``."""


def needs_of(project: Project, edits: Sequence[Edit], beside: Sequence[ModuleNames] = ()) -> Iterator[Need]:
    """What has to be known of the code that ``edits`` write into Python files; the modules ``beside`` run with them."""
    imports: dict[str, dict[str, str]] = {}
    for edit in edits:
        if isinstance(edit.operation, AddImport):
            imports.setdefault(edit.path, {}).update(_bound_by(edit.operation.statement))
    made = set(_made_by(edits))
    for edit in edits:
        written = _written(project, edit)
        if written is None:
            continue
        if isinstance(written, Known):
            yield written
            continue
        added = imports.get(edit.path, {})
        yield from _names(written, added, made)
        yield from _modules(project, written)
        yield from _interfaces(project, written, added, beside)


def _bound_by(statement: str) -> dict[str, str]:
    """What each name of an import statement stands for."""
    found: dict[str, str] = {}
    for node in ast.parse(statement).body:
        if isinstance(node, ast.Import):
            found.update({item.asname or item.name.partition(".")[0]: item.name for item in node.names})
        elif isinstance(node, ast.ImportFrom):
            found.update({item.asname or item.name: f"{node.module}.{item.name}" for item in node.names})
    return found


def _made_by(edits: Iterable[Edit]) -> Iterator[str]:
    """The variables to which inserted statements give a value: the fix itself sees to where they stand."""
    for edit in edits:
        tree = _parsed(edit.operation.text) if isinstance(edit.operation, InsertStatement) else None
        for item in ast.walk(tree) if tree is not None else ():
            if isinstance(item, ast.FunctionDef):
                yield item.name
            elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
                yield item.id


# --- what is written, and where ---------------------------------------------------------------------------------------


def _written(project: Project, edit: Edit) -> _Written | Known | None:
    """The code that an edit writes; None where it writes none."""
    operation = edit.operation
    if isinstance(operation, ReplaceExpression):
        parts = (part if isinstance(part, str) else f"({_KEPT})" for part in operation.parts)
        span, text, keyword = operation.span, "".join(parts), ""
    elif isinstance(operation, SetArgument):
        span, text, keyword = operation.span, operation.value, operation.name
    elif isinstance(operation, InsertArgument):
        span, text, keyword = operation.span, operation.value, ""
    elif isinstance(operation, InsertStatement):
        span, text, keyword = operation.span, operation.text, ""
    elif isinstance(operation, WrapStatements):
        span, text, keyword = operation.first, f"{operation.header}\n    pass", ""
    elif isinstance(operation, AddDecorator):
        span, text, keyword = operation.span, operation.text, ""
    else:
        return None
    module = module_of(project, edit)
    kind = ast.expr if isinstance(operation, ReplaceExpression | SetArgument | InsertArgument) else ast.stmt
    node = node_at(project, module, span, kind) if module is not None else None
    code = _parsed(text)
    if module is None or node is None or code is None:
        return Known(False, "the new code cannot be read by itself")
    follows = isinstance(operation, InsertStatement) and operation.where == "after"
    return _Written(module, code, node, keyword, follows)


def _parsed(text: str) -> ast.AST | None:
    for form in (text, f"(\n{text}\n)"):
        try:
            return ast.parse(form)
        except (SyntaxError, ValueError):
            continue
    return None


def _names(written: _Written, added: dict[str, str], made: set[str]) -> Iterator[Need]:
    """That each name and each attribute of ``self`` that the new code reads has a value where it runs."""
    evaluated = [*_evaluated_with(written.module, written.node), *_moved_along(written)]
    read = {item.id for item in evaluated if isinstance(item, ast.Name)}
    own = {item.id for item in ast.walk(written.code) if isinstance(item, ast.Name) and not _is_read(item)}
    own |= {item.arg for item in ast.walk(written.code) if isinstance(item, ast.arg)}
    for name in sorted({item.id for item in ast.walk(written.code) if isinstance(item, ast.Name) and _is_read(item)}):
        if name not in read | own | made | {_KEPT}:
            known = _can_be_read(written, name, added)
            yield Known(known, f"{name} may have no value here on some path")
    for name in sorted(_asked_in(written.code) - own - made - set(added)):
        known = is_not_none(written.module, name, written.node, evaluated)
        yield Known(known, f"{name} may be None here")
    for attribute, used in _attributes_of_self(written.code):
        known = has_attribute(written.module, attribute, written.node, evaluated, used=used)
        yield Known(known, f"self.{attribute} may {'be None, or ' if used else ''}not exist here")


def _moved_along(written: _Written) -> Iterator[ast.AST]:
    """What stood under a condition inside the old code, and stands under one again in the new code."""
    if isinstance(written.node, ast.expr):
        again = {ast.dump(item) for item in ast.walk(written.code) if isinstance(item, _BRANCHING)}
        for branch in ast.walk(written.node):
            if isinstance(branch, _BRANCHING) and ast.dump(branch) in again:
                yield from ast.walk(branch)


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _can_be_read(written: _Written, name: str, added: dict[str, str]) -> bool:
    module, node = written.module, written.node
    if name in added:
        bindings = module.scope_of(node).lookup(name)
        return all(item.kind == "import" and item.qualified == added[name] for item in bindings)
    follows = written.follows and always_sets(module, ast.Module([node], []), name)  # type: ignore[list-item]
    return follows or is_bound_at(module, name, node)


def _modules(project: Project, written: _Written) -> Iterator[Need]:
    """That nobody puts another module where the new code asks one of ``self`` for its weights."""
    chains = (attribute_chain(item) for item in ast.walk(written.code) if isinstance(item, ast.Attribute))
    asked = {chain[1] for chain in chains if chain is not None and chain[0] == "self" and chain[2:3] in _OF_WEIGHTS}
    for name in sorted(asked):
        owner = written.module.scope_of(written.node).enclosing_class
        place = replaced_at(project, getattr(owner and owner.node, "name", ""), name)
        said = f"{place.path}:{place.span.row}" if place is not None else ""
        yield Known(place is None, f"{said} may put another module at self.{name}")


_OF_WEIGHTS = (["weight"], ["bias"], ["parameters"])


def _asked_in(code: ast.AST) -> set[str]:
    """The variables of which the new code asks for an attribute."""
    owners = (item.value for item in ast.walk(code) if isinstance(item, ast.Attribute))
    return {item.id for item in owners if isinstance(item, ast.Name)} - {"self", _KEPT} - _tested_in(code)


def _tested_in(code: ast.AST) -> set[str]:
    """What the new code itself tests for None."""
    tests = (item for item in ast.walk(code) if isinstance(item, ast.Compare) and isinstance(item.ops[0], ast.IsNot))
    return {ast.unparse(item.left) for item in tests}


def _attributes_of_self(code: ast.AST) -> list[tuple[str, bool]]:
    """The attributes of ``self`` that are read, and whether something is asked of their value."""
    found = (attribute_chain(item) for item in ast.walk(code) if isinstance(item, ast.Attribute))
    chains = [chain for chain in found if chain is not None and len(chain) > 1 and chain[0] == "self"]
    used = {chain[1] for chain in chains if len(chain) > 2 and ".".join(chain[:2]) not in _tested_in(code)}
    return sorted((name, name in used) for name in {chain[1] for chain in chains})


_BRANCHING = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _evaluated_with(module: ModuleNames, node: ast.AST) -> Iterator[ast.AST]:
    """The expressions that are evaluated whenever ``node`` is: what they read has a value, or the run has ended."""
    if not isinstance(node, ast.expr):
        return
    top: ast.AST = node
    parent = module.parents.get(top)
    while isinstance(parent, ast.expr | ast.keyword) and not isinstance(parent, _BRANCHING):
        top, parent = parent, module.parents.get(parent)
    pending = [top]
    while pending:
        item = pending.pop()
        yield item
        if not isinstance(item, _BRANCHING):
            pending += ast.iter_child_nodes(item)


def _interfaces(
    project: Project, written: _Written, added: dict[str, str], beside: Sequence[ModuleNames]
) -> Iterator[Need]:
    """The releases of torch that have what the new code names."""
    near = written.module.path
    if isinstance(written.node, ast.Call) and written.keyword:
        called = written.module.qualified(written.node.func) or ""
        release = KEYWORDS_SINCE.get((called, written.keyword))
        if release is not None and not any(
            is_newer_anyway(project, module, "torch", release) for module in (written.module, *beside)
        ):
            yield Release("torch", release, near, f"{written.keyword}= of {called}")
    if _asks_first(written.code):
        return
    for name in sorted(set(_qualified_in(written, added))):
        found = since(name)
        running = (written.module, *beside)
        if found is not None and not any(is_newer_anyway(project, module, "torch", found[1]) for module in running):
            yield Release("torch", found[1], near, found[0])


def _asks_first(code: ast.AST) -> bool:
    """``if hasattr(torch.backends, "mha"): ...``: older releases go past it."""
    tests = (item.test for item in ast.walk(code) if isinstance(item, ast.If | ast.IfExp))
    calls = (item for test in tests for item in ast.walk(test) if isinstance(item, ast.Call))
    return any(getattr(call.func, "id", "") == "hasattr" for call in calls)


def _qualified_in(written: _Written, added: dict[str, str]) -> Iterator[str]:
    """The full names below torch that the new code spells."""
    scope = written.module.scope_of(written.node)
    inner = {item.value for item in ast.walk(written.code) if isinstance(item, ast.Attribute)}
    for node in ast.walk(written.code):
        chain = attribute_chain(node) if isinstance(node, ast.Name | ast.Attribute) and node not in inner else None
        if chain is None:
            continue
        imports = [item.qualified for item in scope.lookup(chain[0]) if item.kind == "import"]
        root = added.get(chain[0]) or next((name for name in imports if name), None)
        if root is not None and root.partition(".")[0] == "torch":
            yield ".".join([root, *chain[1:]])
