"""Fixes that would undo what somebody chose on purpose are not offered, whatever they are called.

Float32 that a comment above it explains ("in float32 to avoid NaN losses"), and float32 that an option of the project
switches on (``if args.upcast_vae:``): to lower it would leave a comment that lies, or a switch without effect.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ..model import Edit, Finding, Fix, Place, RemoveArgument, RemoveStatement, ReplaceExpression, SetArgument, Span
from ..python.names import ModuleNames
from ..source.project import Project
from .nodes import module_of, node_at

WIDE = ("float32", ".float()", "fp32", "float64", ".double()")
"""How code asks for float32."""
REASONS = ("nan", "inf", "overflow", "underflow", "float32", "fp32", "full precision", "stability", "stable", "accura")
"""Words of a comment that says why."""
CHOICES = ("upcast", "fp32", "float32", "full_precision", "precision", "keep", "force", "stable")
"""Words in the name of an option that chooses float32."""
MAX_COMMENT_ROWS = 6


def as_intended(project: Project, finding: Finding) -> Finding:
    """``finding`` without the fixes that go against what the code says is intended, and with the place that says it."""
    kept: list[Fix] = []
    told: list[Place] = []
    for fix in finding.fixes:
        against = next((place for edit in fix.edits for place in _against(project, edit)), None)
        if against is None:
            kept.append(fix)
        else:
            told.append(against)
    if not told:
        return finding
    evidence = tuple(dict.fromkeys((*finding.evidence, *told)))
    return replace(finding, fixes=tuple(kept), evidence=evidence)


def _against(project: Project, edit: Edit) -> Iterator[Place]:
    """What the edit goes against, if it takes float32 away."""
    operation = edit.operation
    if not isinstance(operation, ReplaceExpression | SetArgument | RemoveArgument | RemoveStatement):
        return
    module = module_of(project, edit)
    if module is None or not _takes_float32(project, module, operation):
        return
    kind = ast.stmt if isinstance(operation, RemoveStatement) else ast.expr
    node = node_at(project, module, operation.span, kind)
    if node is None:
        return
    yield from _explained(module, module.statement_of(node))
    yield from _chosen(module, node)


def _takes_float32(project: Project, module: ModuleNames, operation: object) -> bool:
    """Whether the code asked for float32 before the edit, and does not any more."""
    if isinstance(operation, ReplaceExpression):
        new = "".join(part if isinstance(part, str) else module.source(part) for part in operation.parts)
        return _is_wide(module.source(operation.span)) and not _is_wide(new)
    if isinstance(operation, SetArgument | RemoveArgument):
        call = node_at(project, module, operation.span, ast.Call)
        name = operation.name if isinstance(operation, SetArgument) else operation.argument
        values = [item.value for item in getattr(call, "keywords", ()) if item.arg == name]
        new = operation.value if isinstance(operation, SetArgument) else ""
        return any(_is_wide(module.source(value)) for value in values) and not _is_wide(new)
    return isinstance(operation, RemoveStatement) and _is_wide(module.source(operation.span))


def _is_wide(text: str) -> bool:
    return any(word in text for word in WIDE)


def _explained(module: ModuleNames, statement: ast.stmt) -> Iterator[Place]:
    """The comment on the row of a statement, or right above it, that gives a reason."""
    row = statement.lineno
    _, mark, beside = module.document.line(row).partition(" #")
    lines = [(row, beside)] if mark else []
    for above in range(row - 1, max(row - 1 - MAX_COMMENT_ROWS, 0), -1):
        text = module.document.line(above).strip()
        if not text.startswith("#"):
            break
        lines.append((above, text))
    for at, text in lines:
        words = text.lower()
        if any(word in words for word in REASONS) and "precfix:" not in words:
            yield Place(module.path, Span(at, 1, at, len(module.document.line(at)) + 1), "this comment says why")
            return


def _chosen(module: ModuleNames, node: ast.AST) -> Iterator[Place]:
    """The test of the ``if`` whose only business is this float32."""
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.IfExp) and child is not parent.test:
            yield module.place(parent.test, "this chooses float32")
            return
        if isinstance(parent, ast.If) and child in (*parent.body, *parent.orelse):
            if _is_choice(parent):
                yield module.place(parent.test, "this chooses float32")
            return
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        child = parent


def _is_choice(node: ast.If) -> bool:
    """Whether the arms differ in their dtypes only, or the one arm is a cast that a named option asks for."""
    if len(node.body) == 1 and len(node.orelse) == 1 and type(node.body[0]) is type(node.orelse[0]):
        return _without_dtypes(node.body[0]) == _without_dtypes(node.orelse[0])
    named = ast.unparse(node.test).lower()
    return not node.orelse and len(node.body) == 1 and any(word in named for word in CHOICES)


def _without_dtypes(statement: ast.stmt) -> str:
    """A statement with the dtypes that it names left out."""
    copied = ast.parse(ast.unparse(statement))
    for item in ast.walk(copied):
        if isinstance(item, ast.Call):
            item.keywords = [each for each in item.keywords if each.arg not in ("dtype", "torch_dtype")]
            item.args = [each for each in item.args if "dtype" not in ast.unparse(each) and not _is_dtype(each)]
    return ast.dump(copied)


def _is_dtype(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("float32", "float16", "bfloat16", "half", "float")
