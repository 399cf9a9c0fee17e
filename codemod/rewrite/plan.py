"""From operations to a plan: which node is meant, what absorbs what, and which wishes contradict each other."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import libcst as cst

from ..model import (
    AddDecorator,
    AddImport,
    DropImport,
    EditRefused,
    InsertArgument,
    InsertStatement,
    NameArgument,
    PythonOperation,
    RemoveArgument,
    RemoveStatement,
    ReplaceExpression,
    SetArgument,
    Span,
    WrapStatements,
)
from .listing import ListedArgument, bound_name, keyword_of
from .locate import CstStatement, ParsedText, where


@dataclass(frozen=True)
class Replacement:
    """A new expression: its parts, the nodes kept in it, and which of them are written with a star."""

    parts: tuple[str | Span, ...]
    kept: tuple[cst.BaseExpression, ...]
    starred: tuple[bool, ...]
    edges: tuple[str, str]
    """The characters directly before and after the old expression."""


@dataclass
class CallPlan:
    """What happens to the arguments of one call, or to the items of one dictionary display."""

    set: dict[str, str] = field(default_factory=dict)
    removed: list[ListedArgument] = field(default_factory=list)
    named: dict[ListedArgument, str] = field(default_factory=dict)
    inserted: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wrap:
    """Statements ``first`` to ``last`` of one block that go under ``header``."""

    first: CstStatement
    last: CstStatement
    header: str


@dataclass
class EditPlan:
    removed: set[cst.CSTNode] = field(default_factory=set)
    before: dict[cst.CSTNode, list[str]] = field(default_factory=dict)
    after: dict[cst.CSTNode, list[str]] = field(default_factory=dict)
    wraps: dict[cst.CSTNode, list[Wrap]] = field(default_factory=dict)
    """By the block that holds the statements."""
    replaced: dict[cst.CSTNode, Replacement] = field(default_factory=dict)
    calls: dict[cst.CSTNode, CallPlan] = field(default_factory=dict)
    decorators: dict[cst.CSTNode, list[str]] = field(default_factory=dict)
    imports: dict[cst.CSTNode, set[str]] = field(default_factory=dict)
    touched: set[cst.CSTNode] = field(default_factory=set)
    """The nodes to be edited and all around them: nothing else is visited."""


def make_plan(source: ParsedText, operations: Sequence[PythonOperation]) -> EditPlan:
    """Look up the target of every operation; raises `EditRefused` when one is missing or two contradict."""
    planner = _Planner(source, tuple(dict.fromkeys(operations)))
    for operation in planner.operations:
        if not isinstance(operation, AddImport) and not planner.is_absorbed(operation):
            planner.add(operation)
    return planner.plan


def target_of(operation: PythonOperation) -> Span | None:
    """What the operation is about; None for `AddImport`."""
    if isinstance(operation, AddImport):
        return None
    if isinstance(operation, WrapStatements):
        first, last = operation.first, operation.last
        return Span(first.row, first.column, last.end_row, last.end_column)
    return operation.span


OnCall = SetArgument | RemoveArgument | NameArgument | InsertArgument
_ON_CALLS = (SetArgument, RemoveArgument, NameArgument, InsertArgument)
_ON_EXPRESSIONS = (ReplaceExpression, *_ON_CALLS)


class _Planner:
    def __init__(self, source: ParsedText, operations: tuple[PythonOperation, ...]) -> None:
        self.source = source
        self.operations = operations
        self.plan = EditPlan()
        self._gone = list(self._gone_spans())
        self._refuse_lost_edits()

    def is_absorbed(self, operation: PythonOperation) -> bool:
        """Whether the target goes away with a statement or an argument that is removed."""
        target = target_of(operation)
        return target is not None and any(
            whole.contains(target) and owner != operation and not _is_about(operation, target, owner)
            for owner, whole in self._gone
        )

    def _gone_spans(self) -> Iterable[tuple[PythonOperation, Span]]:
        for operation in self.operations:
            if isinstance(operation, RemoveStatement):
                yield operation, self._with_decorators(operation.span)
            elif isinstance(operation, RemoveArgument):
                yield operation, self._argument(operation)

    def _with_decorators(self, span: Span) -> Span:
        node = self.source.ast_statement(span)
        decorators = getattr(node, "decorator_list", [])
        start = self.source.span_of(decorators[0]) if decorators else span
        return Span(start.row, start.column, span.end_row, span.end_column)

    def _argument(self, operation: RemoveArgument) -> Span:
        return self.source.span_of(_ast_argument(self._call_at(operation), operation))

    def _call_at(self, operation: OnCall) -> ast.Call | ast.Dict:
        call = self.source.ast_expression(operation.span)
        if not isinstance(call, ast.Call | ast.Dict):
            raise EditRefused(f"there is no call at {where(operation.span)}")
        return call

    def _refuse_lost_edits(self) -> None:
        for outer in self.operations:
            if not isinstance(outer, ReplaceExpression) or self.is_absorbed(outer):
                continue
            kept = [part for part in outer.parts if isinstance(part, Span)]
            for inner in self.operations:
                if not isinstance(inner, _ON_EXPRESSIONS) or inner == outer or not outer.span.contains(inner.span):
                    continue
                if inner.span == outer.span and isinstance(inner, ReplaceExpression):
                    raise EditRefused(f"the expression at {where(outer.span)} cannot be replaced by two others")
                if not any(part.contains(inner.span) for part in kept):
                    raise EditRefused(f"two edits of the expression at {where(outer.span)} cannot be combined")

    def add(self, operation: PythonOperation) -> None:
        """Put one operation into the plan."""
        if isinstance(operation, RemoveStatement):
            self._add_removal(operation)
        elif isinstance(operation, InsertStatement):
            self._add_insertion(operation)
        elif isinstance(operation, WrapStatements):
            self._add_wrap(operation)
        elif isinstance(operation, ReplaceExpression):
            self._add_replacement(operation)
        elif isinstance(operation, _ON_CALLS):
            self._add_call(operation)
        elif isinstance(operation, AddDecorator):
            self._add_decorator(operation)
        elif isinstance(operation, DropImport):
            self._add_dropped_import(operation)

    def _touch(self, node: cst.CSTNode) -> None:
        self.plan.touched.add(node)
        for above in self.source.ancestors(node):
            if above in self.plan.touched:
                return
            self.plan.touched.add(above)

    def _add_removal(self, operation: RemoveStatement) -> None:
        node = self.source.statement(operation.span)
        self._touch(node)
        self.plan.removed.add(node)

    def _add_insertion(self, operation: InsertStatement) -> None:
        if operation.where not in ("before", "after"):
            raise EditRefused(f"a statement cannot be inserted {operation.where!r}")
        node = self.source.statement(operation.span)
        self.source.suite_of(node)
        if operation.where == "before" and self._must_be_first(node) and not self._is_removed(operation.span):
            raise EditRefused(f"nothing may be inserted before the statement at {where(operation.span)}")
        self._touch(node)
        wishes = self.plan.before if operation.where == "before" else self.plan.after
        wishes.setdefault(node, []).append(operation.text)

    def _is_removed(self, span: Span) -> bool:
        return any(isinstance(other, RemoveStatement) and other.span == span for other in self.operations)

    def _add_wrap(self, operation: WrapStatements) -> None:
        first, last = self.source.statement(operation.first), self.source.statement(operation.last)
        suite = self.source.suite_of(first)
        if suite is not self.source.suite_of(last) or operation.last < operation.first:
            raise EditRefused(f"the statements from {where(operation.first)} are not of one block")
        if self._must_be_first(first):
            raise EditRefused(f"the statement at {where(operation.first)} must stay the first one")
        for node in (first, last):
            self._touch(node)
        self.plan.wraps.setdefault(suite, []).append(Wrap(first, last, operation.header))

    def _must_be_first(self, node: CstStatement) -> bool:
        """Whether the statement is a docstring or a ``from __future__`` import."""
        if isinstance(node, cst.ImportFrom):
            return isinstance(node.module, cst.Name) and node.module.value == "__future__"
        if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.SimpleString | cst.ConcatenatedString):
            return False
        suite = self.source.suite_of(node)
        first = suite.body[0] if suite.body else None
        owner = suite if isinstance(suite, cst.Module) else self.source.parents[suite]
        documented = isinstance(owner, cst.Module | cst.FunctionDef | cst.ClassDef)
        return documented and first in (node, self.source.parents[node])

    def _add_replacement(self, operation: ReplaceExpression) -> None:
        node = self.source.expression(operation.span)
        if isinstance(self.source.ast_expression(operation.span), ast.Starred):
            raise EditRefused(f"a starred expression cannot be replaced ({where(operation.span)})")
        spans = [part for part in operation.parts if isinstance(part, Span)]
        if not all(operation.span.contains(span) for span in spans):
            raise EditRefused(f"a part to keep is not inside the expression at {where(operation.span)}")
        kept = tuple(self.source.expression(span) for span in spans)
        starred = tuple(isinstance(self.source.ast_expression(span), ast.Starred) for span in spans)
        self._touch(node)
        edges = self.source.around(operation.span)
        self.plan.replaced[node] = Replacement(operation.parts, kept, starred, edges)

    def _add_call(self, operation: OnCall) -> None:
        node = self.source.expression(operation.span)
        if not isinstance(node, cst.Call | cst.Dict):
            raise EditRefused(f"there is no call at {where(operation.span)}")
        self._touch(node)
        plan = self.plan.calls.setdefault(node, CallPlan())
        if isinstance(operation, SetArgument):
            self._set_argument(operation, node, plan)
        elif isinstance(operation, RemoveArgument):
            plan.removed.append(_cst_argument(node, operation))
        elif isinstance(operation, NameArgument):
            _ast_argument(self._call_at(operation), operation)
            plan.named[_cst_argument(node, operation)] = operation.name
        elif isinstance(node, cst.Dict):
            raise EditRefused(f"there is no call at {where(operation.span)}")
        elif plan.inserted.setdefault(operation.index, operation.value) != operation.value:
            raise EditRefused(f"two arguments {operation.index} of the call at {where(operation.span)}")
        if any(keyword_of(arg) in plan.set for arg in plan.removed):
            raise EditRefused(f"an argument of the call at {where(operation.span)} is to be set and removed")

    def _set_argument(self, operation: SetArgument, node: cst.Call | cst.Dict, plan: CallPlan) -> None:
        name = operation.name
        if isinstance(node, cst.Call) and not name.isidentifier():
            raise EditRefused(f"{name!r} is not an argument name")
        if plan.set.setdefault(name, operation.value) != operation.value:
            raise EditRefused(f"{name} of the call at {where(operation.span)} cannot have two values")
        args = node.args if isinstance(node, cst.Call) else ()
        if any(arg.star == "**" for arg in args) and not any(keyword_of(arg) == name for arg in args):
            raise EditRefused(f"the ** of the call at {where(operation.span)} may already hold {name}")
        values = [self.source.span_of(value) for value in _ast_values(self._call_at(operation), name)]
        for other in self.operations:
            target = target_of(other)
            if target is not None and any(value.contains(target) for value in values):
                raise EditRefused(f"two edits of {name} in the call at {where(operation.span)}")

    def _add_decorator(self, operation: AddDecorator) -> None:
        node = self.source.statement(operation.span)
        if not isinstance(node, cst.FunctionDef):
            raise EditRefused(f"there is no function at {where(operation.span)}")
        self._touch(node)
        self.plan.decorators.setdefault(node, []).append(operation.text)

    def _add_dropped_import(self, operation: DropImport) -> None:
        node = self.source.statement(operation.span)
        if not isinstance(node, cst.Import | cst.ImportFrom):
            raise EditRefused(f"there is no import at {where(operation.span)}")
        if isinstance(node.names, cst.ImportStar) or self._is_guarded(node) or node in self.plan.removed:
            return
        is_from = isinstance(node, cst.ImportFrom)
        bound = [bound_name(alias, is_from=is_from) for alias in node.names]
        again = any(alias.evaluated_alias == alias.evaluated_name == operation.name for alias in node.names)
        if operation.name not in bound or again:  # "import a as a" hands the name on (PEP 484)
            return
        names = self.plan.imports.setdefault(node, set())
        names.add(operation.name)
        self._touch(node)
        if names.issuperset(bound):
            self.plan.removed.add(node)

    def _is_guarded(self, node: cst.CSTNode) -> bool:
        """Whether something may hang on the import itself: ``try: import x`` asks whether x exists."""
        for above in self.source.ancestors(node):
            if isinstance(above, cst.Try | cst.TryStar | cst.With):
                return True
            if isinstance(above, cst.FunctionDef | cst.ClassDef):
                return False
        return False


def _is_about(operation: PythonOperation, target: Span, owner: PythonOperation) -> bool:
    """Whether both mean the same node: then they are combined, or contradict, but one does not hide the other."""
    if isinstance(operation, DropImport) or isinstance(owner, RemoveArgument):
        return False
    same = target_of(owner) == target
    if isinstance(operation, WrapStatements) and isinstance(owner, RemoveStatement):
        return same or owner.span in (operation.first, operation.last)
    return same and isinstance(operation, RemoveStatement | InsertStatement)


def _ast_values(call: ast.Call | ast.Dict, name: str) -> list[ast.expr]:
    """The values that are passed by one keyword, or stand at one key; of these the last counts."""
    if isinstance(call, ast.Call):
        return [each.value for each in call.keywords if each.arg == name]
    pairs = zip(call.keys, call.values, strict=True)
    return [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name]


def _ast_argument(call: ast.Call | ast.Dict, operation: RemoveArgument | NameArgument) -> ast.expr:
    index, args = operation.argument, call.args if isinstance(call, ast.Call) else []
    if isinstance(index, str):
        values = _ast_values(call, index)
        if not values:
            raise EditRefused(f"the call at {where(operation.span)} has no argument {index}")
        if len(values) > 1:
            raise EditRefused(f"{index} stands more than once at {where(operation.span)}")
        return values[0]
    if not 0 <= index < len(args):
        raise EditRefused(f"the call at {where(operation.span)} has no argument {index}")
    if any(isinstance(arg, ast.Starred) for arg in args[: index + 1]):
        raise EditRefused(f"which argument {index} is depends on a * in the call at {where(operation.span)}")
    return args[index]


def _cst_argument(call: cst.Call | cst.Dict, operation: RemoveArgument | NameArgument) -> ListedArgument:
    items: Sequence[ListedArgument] = call.args if isinstance(call, cst.Call) else call.elements
    if isinstance(operation.argument, str):
        found = [item for item in items if keyword_of(item) == operation.argument]
        if not found:
            raise EditRefused(f"the argument {operation.argument} at {where(operation.span)} is spelled in another way")
        return found[-1]
    positional = [item for item in items if isinstance(item, cst.Arg) and item.keyword is None and item.star != "**"]
    return positional[operation.argument]
