"""Adding to and taking from comma-separated lists: call arguments, dictionary items, imported names.

A `Listing` tells the items apart from the gaps between them, so that one pair of operations serves all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import libcst as cst

from .lines import kept_without

ListedArgument: TypeAlias = cst.Arg | cst.BaseDictElement
ListedItem: TypeAlias = ListedArgument | cst.ImportAlias
ListGap: TypeAlias = cst.BaseParenthesizableWhitespace

_NO_GAP = cst.SimpleWhitespace("")


@dataclass(frozen=True)
class Listing:
    """``gaps[i]`` stands before item ``i``, the last gap before the closing bracket."""

    items: tuple[ListedItem, ...]
    commas: tuple[cst.Comma | None, ...]
    """The comma after each item; None only for the last one."""
    gaps: tuple[ListGap, ...]

    def without(self, index: int) -> Listing:
        """The list less one item, with the comments that are not the item's own."""
        last = index == len(self.items) - 1
        gap = _merged(self.gaps[index], self.gaps[index + 1], first=index == 0, last=last)
        commas = list(self.commas)
        if last and commas[index] is None and index:
            commas[index - 1] = None
        del commas[index]
        items = self.items[:index] + self.items[index + 1 :]
        return Listing(items, tuple(commas), (*self.gaps[:index], gap, *self.gaps[index + 2 :]))

    def with_last(self, item: ListedItem) -> Listing:
        """The list and one more item, on a line of its own where the others have one."""
        if not self.items:
            return self._with_only(item)
        between, tail = self._joint(), self.gaps[-1]
        comma = cst.Comma() if self.commas[-1] is not None else None
        if isinstance(between, cst.ParenthesizedWhitespace):
            between, tail = _broken(tail, between), _plain(tail)
        commas = (*self.commas[:-1], self.commas[-1] or cst.Comma(), comma)
        return Listing((*self.items, item), commas, (*self.gaps[:-1], between, tail))

    def with_item(self, index: int, item: ListedItem) -> Listing:
        """The list and one more item before the one at ``index``, spaced as that one is; behind all others the last."""
        if index >= len(self.items):
            return self.with_last(item)
        gap = self.gaps[index]
        between = _plain(gap) if isinstance(gap, cst.ParenthesizedWhitespace) else cst.SimpleWhitespace(" ")
        commas = (*self.commas[:index], cst.Comma(), *self.commas[index:])
        gaps = (*self.gaps[: index + 1], between, *self.gaps[index + 1 :])
        return Listing((*self.items[:index], item, *self.items[index:]), commas, gaps)

    def _joint(self) -> ListGap:
        if len(self.items) == 1:
            gap = self.gaps[0]
            return gap if isinstance(gap, cst.ParenthesizedWhitespace) else cst.SimpleWhitespace(" ")
        gap = self.gaps[-2]
        return gap if isinstance(gap, cst.ParenthesizedWhitespace) else cst.SimpleWhitespace(" ")

    def _with_only(self, item: ListedItem) -> Listing:
        gap = self.gaps[0]
        if not isinstance(gap, cst.ParenthesizedWhitespace):
            return Listing((item,), (None,), (_NO_GAP, _NO_GAP))
        inner = gap.with_changes(last_line=cst.SimpleWhitespace(gap.last_line.value + "    "))
        return Listing((item,), (cst.Comma(),), (inner, _plain(gap)))


def _merged(before: ListGap, after: ListGap, *, first: bool, last: bool) -> ListGap:
    """What stands between the neighbors of an item that goes."""
    if isinstance(before, cst.ParenthesizedWhitespace):
        kept = kept_without(before.empty_lines, emptied=False, indent=before.last_line.value)
        if isinstance(after, cst.ParenthesizedWhitespace):
            if first and last and before.first_line.comment is None and not (kept or after.empty_lines):
                return _NO_GAP
            lines = [*kept, *after.empty_lines]
            return before.with_changes(empty_lines=lines, indent=after.indent, last_line=after.last_line)
        plain = before.first_line.comment is None and not kept
        return after if last and plain else before.with_changes(empty_lines=kept)
    if isinstance(after, cst.ParenthesizedWhitespace):
        plain = after.first_line.comment is None and not after.empty_lines
        return before if first and plain else after
    if first and last:
        return _NO_GAP
    return after if last else before


def _broken(tail: ListGap, model: cst.ParenthesizedWhitespace) -> ListGap:
    """A line break like ``model``, with the comments that stood after the item that was last."""
    if isinstance(tail, cst.ParenthesizedWhitespace):
        return tail.with_changes(indent=model.indent, last_line=model.last_line)
    return model.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])


def _plain(tail: ListGap) -> ListGap:
    if isinstance(tail, cst.ParenthesizedWhitespace):
        return tail.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
    return tail


def call_listing(call: cst.Call) -> Listing:
    gaps: list[ListGap] = [call.whitespace_before_args]
    commas: list[cst.Comma | None] = []
    for arg in call.args:
        comma = arg.comma if isinstance(arg.comma, cst.Comma) else None
        commas.append(comma)
        gaps.append(comma.whitespace_after if comma is not None else arg.whitespace_after_arg)
    return Listing(tuple(call.args), tuple(commas), tuple(gaps))


def call_with(call: cst.Call, listing: Listing) -> cst.Call:
    """The call with these arguments."""
    args = [
        item.with_changes(comma=comma, whitespace_after_arg=_NO_GAP if isinstance(comma, cst.Comma) else gap)
        for item, comma, gap in _with_commas(listing)
    ]
    return call.with_changes(whitespace_before_args=listing.gaps[0], args=args)


def _with_commas(listing: Listing) -> list[tuple[ListedItem, cst.Comma | cst.MaybeSentinel, ListGap]]:
    rows: list[tuple[ListedItem, cst.Comma | cst.MaybeSentinel, ListGap]] = []
    for item, comma, gap in zip(listing.items, listing.commas, listing.gaps[1:], strict=True):
        spelled = cst.MaybeSentinel.DEFAULT if comma is None else comma.with_changes(whitespace_after=gap)
        rows.append((item, spelled, gap))
    return rows


def keyword_of(argument: ListedArgument) -> str | None:
    """The keyword of an argument, or the string that is the key of an item; None where there is none."""
    if isinstance(argument, cst.Arg):
        return argument.keyword.value if argument.keyword is not None else None
    key = argument.key if isinstance(argument, cst.DictElement) else None
    value = key.evaluated_value if isinstance(key, cst.SimpleString | cst.ConcatenatedString) else None
    return value if isinstance(value, str) else None


def dict_listing(display: cst.Dict) -> Listing:
    """The items of a dictionary display."""
    commas = tuple(item.comma if isinstance(item.comma, cst.Comma) else None for item in display.elements)
    between = (comma.whitespace_after for comma in commas[:-1] if comma is not None)
    gaps = (display.lbrace.whitespace_after, *between, display.rbrace.whitespace_before)
    return Listing(tuple(display.elements), commas, gaps if commas else gaps[:1])


def dict_with(display: cst.Dict, listing: Listing) -> cst.Dict:
    """The display with these items."""
    rows = _with_commas(replace(listing, gaps=(*listing.gaps[:-1], _NO_GAP)))
    lbrace = display.lbrace.with_changes(whitespace_after=listing.gaps[0])
    rbrace = display.rbrace.with_changes(whitespace_before=listing.gaps[-1] if listing.items else _NO_GAP)
    elements = [item.with_changes(comma=comma) for item, comma, _ in rows]
    return display.with_changes(elements=elements, lbrace=lbrace, rbrace=rbrace)


def bound_name(alias: cst.ImportAlias, *, is_from: bool) -> str:
    """The name an alias binds: ``b`` of ``import a as b``, ``a`` of ``import a.c``."""
    if alias.asname is not None:
        return cast(cst.Name, alias.asname.name).value
    return alias.evaluated_name if is_from else alias.evaluated_name.split(".", 1)[0]


def without_names(statement: cst.Import | cst.ImportFrom, names: set[str]) -> cst.Import | cst.ImportFrom:
    """The import less the aliases that bind ``names``; at least one alias must remain."""
    listing = _alias_listing(statement)
    is_from = isinstance(statement, cst.ImportFrom)
    for index, item in reversed(tuple(enumerate(listing.items))):
        if isinstance(item, cst.ImportAlias) and bound_name(item, is_from=is_from) in names:
            listing = listing.without(index)
    aliases = [item.with_changes(comma=comma) for item, comma, _ in _with_commas(listing)]
    if isinstance(statement, cst.Import) or statement.lpar is None or statement.rpar is None:
        return statement.with_changes(names=aliases)
    last = aliases[-1].comma
    before = statement.rpar.whitespace_before if isinstance(last, cst.Comma) else listing.gaps[-1]
    rpar = statement.rpar.with_changes(whitespace_before=before)
    lpar = statement.lpar.with_changes(whitespace_after=listing.gaps[0])
    return statement.with_changes(names=aliases, lpar=lpar, rpar=rpar)


def _alias_listing(statement: cst.Import | cst.ImportFrom) -> Listing:
    aliases = [] if isinstance(statement.names, cst.ImportStar) else list(statement.names)
    brackets = isinstance(statement, cst.ImportFrom) and statement.lpar is not None and statement.rpar is not None
    gaps: list[ListGap] = [_NO_GAP]
    end: ListGap = _NO_GAP
    if isinstance(statement, cst.ImportFrom) and statement.lpar is not None and statement.rpar is not None and brackets:
        gaps, end = [statement.lpar.whitespace_after], statement.rpar.whitespace_before
    commas = tuple(alias.comma if isinstance(alias.comma, cst.Comma) else None for alias in aliases)
    gaps += [end if comma is None else comma.whitespace_after for comma in commas]
    return Listing(tuple(aliases), commas, tuple(gaps))
