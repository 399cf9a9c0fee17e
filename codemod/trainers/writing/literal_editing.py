"""Keys of dictionary literals and arguments of calls: how one leaves, joins, or is called anew; the others stay.

Worked out on the text of the outermost literal, one step after the other; the results are edits of the document.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...formats.delimited import Members
from ...model import EditRefused, ReplaceText
from ...source.documents import Document, FileKind, Unparsable, Unreadable
from ..reading.mapping_items import Item, items_of
from ..reading.recognition import stands_at
from .text_editing import differences

COMMENT = "#"


class LiteralDraft:
    """The text of one dictionary literal, or of one call, while it is changed."""

    def __init__(self, document: Document, root: ast.expr) -> None:
        span = document.span(root)
        self._start = document.offset(span.row, span.column)
        self._before = document.source(span)
        self._quote = "'" if self._before.count("'") > self._before.count('"') else '"'
        self._piece = _opened(self._before)

    def edits(self) -> list[ReplaceText]:
        """What was changed, as edits of the document."""
        found = differences(self._before, self._piece.text)
        return [ReplaceText(edit.start + self._start, edit.end + self._start, edit.text) for edit in found]

    def set(self, path: str, source: str) -> None:
        """Put other source text in the place of a value. Raises EditRefused."""
        start, end = self._offsets(self._item(path).value)
        self._apply(ReplaceText(start, end, source), self._paths)

    def rename(self, path: str, name: str) -> None:
        """Call a key anew. Raises EditRefused."""
        item = self._item(path)
        new = f"{path.removesuffix(item.key)}{name}"
        wanted = [new if known == path else known for known in self._paths]
        wanted = [f"{new}{known.removeprefix(path)}" if known.startswith(f"{path}.") else known for known in wanted]
        if isinstance(item.holder, ast.Call):
            start = self._offsets(item.holder.keywords[_number(item)])[0]
            self._apply(ReplaceText(start, start + len(item.key), name), wanted)
            return
        assert isinstance(item.holder, ast.Dict)
        key = item.holder.keys[_number(item)]
        assert key is not None
        start, end = self._offsets(key)
        written = self._piece.text[start:end]
        if written[1:-1] != item.key:
            raise EditRefused("the key is written in an unusual way")
        self._apply(ReplaceText(start + 1, end - 1, name), wanted)

    def drop(self, path: str) -> None:
        """Take out a key with its value. Raises EditRefused."""
        item = self._item(path)
        assert isinstance(item.holder, ast.Dict | ast.Call)
        left = [known for known in self._paths if known != path and not known.startswith(f"{path}.")]
        members = self._members(item.holder)
        end = self._offsets(item.value)[1]
        number = next((index for index, span in enumerate(members.spans) if span[1] == end), None)
        if number is None:
            raise EditRefused("the literal is written in an unusual way")
        self._apply(members.remove(number), left)

    def add(self, place: str, source: str) -> bool:
        """Add a key, where the section that a dotted place names is there; whether it is. Raises EditRefused."""
        parent, _, name = place.rpartition(".")
        holder = self._holder(parent)
        if holder is None or not name.isidentifier():
            return False
        key = f"{name}=" if isinstance(holder, ast.Call) else f"{self._quote}{name}{self._quote}: "
        above = next((item.path for item in items_of(self._root) if item.section is holder), "")
        self._apply(self._members(holder).insert(f"{key}{source}"), [*self._paths, f"{above}.{name}".lstrip(".")])
        return True

    # --- the literal as it is by now ----------------------------------------------------------------------------------

    @property
    def _root(self) -> ast.Dict | ast.Call:
        statement = self._piece.tree.body[0]
        root = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(root, ast.Dict | ast.Call):
            raise EditRefused("the result would be something else")
        return root

    @property
    def _paths(self) -> list[str]:
        return [item.path for item in items_of(self._root)]

    def _item(self, path: str) -> Item:
        """The last item of this path: where a key repeats, it wins."""
        found = [item for item in items_of(self._root) if item.path == path]
        if not found:
            raise EditRefused(f"{path} no longer exists")
        return found[-1]

    def _holder(self, pattern: str) -> ast.Dict | ast.Call | None:
        if not pattern:
            return self._root
        found = [item.section for item in items_of(self._root) if item.section and stands_at(item.path, pattern)]
        return found[0] if len(found) == 1 else None

    def _members(self, holder: ast.Dict | ast.Call) -> Members:
        start, end = self._offsets(holder)
        text = self._piece.text
        opening = start if isinstance(holder, ast.Dict) else text.find("(", self._offsets(holder.func)[1])
        return Members(text, opening + 1, end - 1, tuple(self._spans(holder)), COMMENT)

    def _spans(self, holder: ast.Dict | ast.Call) -> Iterator[tuple[int, int]]:
        if isinstance(holder, ast.Call):
            yield from sorted(self._offsets(argument) for argument in (*holder.args, *holder.keywords))
            return
        for key, value in zip(holder.keys, holder.values, strict=True):
            start, end = self._offsets(value)
            yield (self._piece.text.rfind("**", 0, start) if key is None else self._offsets(key)[0]), end

    def _offsets(self, node: ast.AST) -> tuple[int, int]:
        span, piece = self._piece.span(node), self._piece
        return piece.offset(span.row, span.column), piece.offset(span.end_row, span.end_column)

    def _apply(self, edit: ReplaceText, paths: list[str]) -> None:
        """Make an edit after which the literal has these keys. Raises EditRefused when it would have others."""
        text = self._piece.text
        self._piece = _opened(text[: edit.start] + edit.text + text[edit.end :])
        if sorted(self._paths) != sorted(paths):
            raise EditRefused("the literal is written in an unusual way")


def _opened(text: str) -> Document:
    """The literal as a module of its own. Raises EditRefused when it is none any more."""
    try:
        piece = Document("literal.py", FileKind.PYTHON, text.encode("utf-8", "surrogatepass"))
        body = piece.tree.body
    except (Unparsable, Unreadable) as error:
        raise EditRefused(f"the result would not be readable: {error}") from error
    if len(body) != 1 or piece.text != text:
        raise EditRefused("the literal cannot be read by itself")
    return piece


def _number(item: Item) -> int:
    """Which member of its dictionary an item is."""
    holder = item.holder
    values = holder.values if isinstance(holder, ast.Dict) else []
    if isinstance(holder, ast.Call):
        values = [keyword.value for keyword in holder.keywords]
    return next(index for index, value in enumerate(values) if value is item.value)
