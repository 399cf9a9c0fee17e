"""The one LibCST transformer: goes only where the plan leads, inside out, so that nested edits add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import libcst as cst

from ..model import EditRefused
from .expressions import bracketed, comments_of, composed, level, parsed, required, seated
from .lines import comment_lines, deepened
from .listing import (
    ListedArgument,
    Listing,
    call_listing,
    call_with,
    dict_listing,
    dict_with,
    keyword_of,
    without_names,
)
from .locate import ParsedText, Suite
from .plan import CallPlan, EditPlan
from .statements import BlockWriter, StatementLine, leading_lines

_Inner = cst.IndentedBlock | cst.SimpleStatementSuite
Box = cst.Call | cst.Dict
"""What holds arguments, or items by their keys."""


class Editor(cst.CSTTransformer):
    """Carries out a plan."""

    def __init__(self, source: ParsedText, plan: EditPlan) -> None:
        super().__init__()
        self.source = source
        self.plan = plan
        self._done: dict[cst.CSTNode, cst.BaseExpression] = {}
        self._lifted: dict[cst.CSTNode, list[cst.EmptyLine]] = {}

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self.plan.touched

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> cst.CSTNodeT:
        if original_node not in self.plan.touched:
            return updated_node
        result: cst.CSTNode = self._left(original_node, updated_node)
        lifted = self._lifted.get(original_node)
        if lifted:
            result = result.with_changes(leading_lines=[*leading_lines(result), *lifted])
        return result  # type: ignore[return-value]

    def _left(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if isinstance(original, Box) and isinstance(updated, Box) and original in self.plan.calls:
            updated = self._call(original, updated, self.plan.calls[original])
        if isinstance(original, cst.BaseExpression) and isinstance(updated, cst.BaseExpression):
            return self._expression(original, updated)
        if isinstance(updated, cst.FunctionDef):
            return self._function(original, updated)
        if isinstance(updated, cst.Import | cst.ImportFrom) and original in self.plan.imports:
            return updated if original in self.plan.removed else without_names(updated, self.plan.imports[original])
        if isinstance(original, cst.If) and isinstance(updated, cst.If):
            return self._elif(original, updated)
        if isinstance(original, cst.Module) and isinstance(updated, cst.Module):
            return self._module(original, updated)
        if isinstance(original, cst.IndentedBlock | cst.SimpleStatementSuite):
            assert isinstance(updated, cst.IndentedBlock | cst.SimpleStatementSuite)
            return self._suite(original, updated)
        return updated

    def _expression(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        self._done[original] = updated
        plan = self.plan.replaced.get(original)
        if plan is None:
            return updated
        kept = [self._done.get(node, node) for node in plan.kept]
        new = composed(self.source, plan.parts, kept, plan.starred)
        new = seated(self.source, original, new, plan.edges)
        self._lift_comments(original, updated, new)
        self._done[original] = new
        return new

    def _lift_comments(self, original: cst.CSTNode, old: cst.CSTNode, new: cst.CSTNode) -> None:
        """Comments that stood between the parts that go are put above the statement."""
        present = Counter(comment.value for comment in comments_of(new))
        lost: list[cst.Comment] = []
        for comment in comments_of(old):
            if present[comment.value]:
                present[comment.value] -= 1
            else:
                lost.append(comment)
        holder = next((node for node in self.source.ancestors(original) if hasattr(node, "leading_lines")), None)
        if lost and holder is not None:
            self._lifted.setdefault(holder, []).extend(comment_lines(lost))

    def _call(self, original: Box, updated: Box, plan: CallPlan) -> Box:
        pairs = zip(_items(original), _items(updated), strict=True)
        now = {old: _named(plan.named[old], new) if old in plan.named else new for old, new in pairs}
        updated = _with_items(updated, [*now.values()]) if plan.named else updated
        listing = _listing(updated)
        for item in plan.removed:
            listing = listing.without(next(i for i, each in enumerate(listing.items) if each is now[item]))
        updated = _listed(updated, listing) if plan.removed else updated
        for index, value in sorted(plan.inserted.items(), reverse=True):
            updated = _with_item(updated, index, cst.Arg(self._argument_value(value)))
        for name, value in plan.set.items():
            updated = self._with_argument(updated, name, self._argument_value(value))
        return updated

    def _argument_value(self, text: str) -> cst.BaseExpression:
        value = parsed(text, self.source.module)
        return value if level(value) >= required(cst.Arg(value), value, value) else bracketed(value)

    def _with_argument(self, call: Box, name: str, value: cst.BaseExpression) -> Box:
        items = _items(call)
        for index in reversed(range(len(items))):
            if keyword_of(items[index]) == name:
                return _with_items(call, [*items[:index], items[index].with_changes(value=value), *items[index + 1 :]])
        if isinstance(call, cst.Call):
            return _with_item(call, len(items), _named(name, cst.Arg(value)))
        code = self.source.module.code_for_node(call)
        quote = "'" if code.count("'") > code.count('"') else '"'
        return _with_item(call, len(items), cst.DictElement(cst.SimpleString(f"{quote}{name}{quote}"), value))

    def _function(self, original: cst.CSTNode, function: cst.FunctionDef) -> cst.FunctionDef:
        texts = self.plan.decorators.get(original, [])
        added = [cst.Decorator(parsed(text, self.source.module)) for text in texts]
        return function.with_changes(decorators=[*function.decorators, *added]) if added else function

    def _elif(self, original: cst.If, updated: cst.If) -> cst.If:
        is_gone = isinstance(original.orelse, cst.If) and original.orelse in self.plan.removed
        return updated.with_changes(orelse=None) if is_gone else updated

    def _module(self, original: cst.Module, updated: cst.Module) -> cst.Module:
        if not self._is_concerned(original):
            return updated
        writer = self._writer(original, updated)
        block = writer.write(self.plan.wraps.get(original, ()), updated.header, updated.footer)
        empty = not (block.body or block.footer or updated.header)
        ends = updated.has_trailing_newline and not empty
        return updated.with_changes(body=block.body, footer=block.footer, has_trailing_newline=ends)

    def _suite(self, original: _Inner, updated: _Inner) -> cst.BaseSuite:
        if not self._is_concerned(original):
            return updated
        writer = self._writer(original, updated)
        footer = updated.footer if isinstance(updated, cst.IndentedBlock) else ()
        block = writer.write(self.plan.wraps.get(original, ()), (), footer)
        if isinstance(updated, cst.IndentedBlock):
            if block.body:
                return updated.with_changes(body=block.body, footer=block.footer)
            stop = len(block.footer) - len(footer)
            lines = block.footer[: max(stop, 0)]
            line = cst.SimpleStatementLine([cst.Pass()], lines)
            return updated.with_changes(body=[line], footer=block.footer[max(stop, 0) :])
        return _one_line(updated, block.body)

    def _is_concerned(self, suite: Suite) -> bool:
        plan = self.plan
        nodes: list[cst.CSTNode] = []
        for each in suite.body:
            nodes += each.body if isinstance(each, cst.SimpleStatementLine) else (each,)
        wishes = (plan.removed, plan.before, plan.after)
        return suite in plan.wraps or any(node in wish for node in nodes for wish in wishes)

    def _writer(self, original: Suite, updated: Suite) -> BlockWriter:
        return BlockWriter(self.plan, self._parsed_lines, (original, updated))

    def _parsed_lines(self, text: str) -> list[StatementLine]:
        """Statements from new text, whose newlines and indentation become those of the file."""
        module = self.source.module
        try:
            parsed_text = cst.parse_module(text.replace("\r\n", "\n").replace("\n", module.default_newline))
        except (cst.ParserSyntaxError, ValueError, RecursionError) as error:
            raise EditRefused(f"{text!r} is not a statement") from error
        if not parsed_text.body or parsed_text.footer:
            raise EditRefused(f"{text!r} is not a statement")
        first, *rest = parsed_text.body
        first = first.with_changes(leading_lines=[*parsed_text.header, *first.leading_lines])
        return [deepened(each) for each in (first, *rest)]


def _items(call: Box) -> Sequence[ListedArgument]:
    return call.args if isinstance(call, cst.Call) else call.elements


def _with_items(call: Box, items: Sequence[ListedArgument]) -> Box:
    return call.with_changes(**{"args" if isinstance(call, cst.Call) else "elements": items})


def _listing(call: Box) -> Listing:
    return call_listing(call) if isinstance(call, cst.Call) else dict_listing(call)


def _listed(call: Box, listing: Listing) -> Box:
    return call_with(call, listing) if isinstance(call, cst.Call) else dict_with(call, listing)


def _with_item(call: Box, index: int, item: ListedArgument) -> Box:
    """The call with one more argument; a generator that stood alone gets parentheses."""
    if len(_items(call)) == 1:
        call = _with_items(call, [_bracketed_generator(_items(call)[0])])
    return _listed(call, _listing(call).with_item(index, item))


def _named(name: str, item: ListedArgument) -> ListedArgument:
    """The argument, passed by keyword ``name``; the item, with that key in the old quotes."""
    if isinstance(item, cst.Arg):
        plain = cst.SimpleWhitespace("")
        equal = cst.AssignEqual(whitespace_before=plain, whitespace_after=plain) if item.keyword is None else item.equal
        return _bracketed_generator(item).with_changes(keyword=cst.Name(name), equal=equal)
    key = item.key if isinstance(item, cst.DictElement) else None
    if not isinstance(key, cst.SimpleString) or key.prefix:
        raise EditRefused("the key is written in an unusual way")
    return item.with_changes(key=key.with_changes(value=f"{key.quote}{name}{key.quote}"))


def _bracketed_generator(item: ListedArgument) -> ListedArgument:
    alone = isinstance(item, cst.Arg) and isinstance(item.value, cst.GeneratorExp) and not item.value.lpar
    return item.with_changes(value=bracketed(item.value)) if alone else item


def _one_line(suite: cst.SimpleStatementSuite, body: list[StatementLine]) -> cst.BaseSuite:
    """A block after ``:`` stays there while it is one line of small statements."""
    if not body:
        return suite.with_changes(body=[cst.Pass()])
    only = body[0]
    if len(body) == 1 and isinstance(only, cst.SimpleStatementLine) and not only.leading_lines:
        return suite.with_changes(body=only.body, trailing_whitespace=only.trailing_whitespace)
    return cst.IndentedBlock(body=body)
