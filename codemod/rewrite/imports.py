"""Adding an import where it belongs. Reads with `ast`, writes whole lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..model import EditRefused
from ..source.magics import MARKER
from .locate import line_starts
from .names import parse_edited

_CELL = "__precfix_cell_"
_LONGEST_LINE = 100
_Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class ImportBinding:
    """What an import makes a name mean."""

    name: str
    target: str
    """Dotted path of what ``name`` becomes."""
    loads: str
    """The module that is loaded on the way: ``torch.nn`` for ``import torch.nn``, which binds ``torch``."""
    statement: str
    """The import of this name alone."""

    @property
    def package(self) -> str:
        """The first part of the dotted path; "" for a relative import."""
        return self.target.split(".", 1)[0]


def bindings_of(statements: Sequence[str]) -> dict[str, str]:
    """The names that the imports bind, and what they mean. Raises `EditRefused` for anything but an import."""
    return {binding.name: binding.target for each in statements for binding in _wanted(each)}


def add_imports(text: str, statements: Sequence[str]) -> str:
    """Make each import hold at module level; raises `EditRefused` when its name already means something else there."""
    for statement in statements:
        for binding in _wanted(statement):
            text = _with_import(text, binding)
    return text


def _wanted(statement: str) -> list[ImportBinding]:
    body = parse_edited(statement).body
    if len(body) != 1 or not isinstance(body[0], _Import) or any(alias.name == "*" for alias in body[0].names):
        raise EditRefused(f"{statement!r} is not an import that can be added")
    return list(_bindings(body[0]))


def _bindings(node: _Import) -> Iterator[ImportBinding]:
    for alias in node.names:
        spelled = alias.name + (f" as {alias.asname}" if alias.asname else "")
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            target = f"{module}.{alias.name}" if node.module else f"{module}{alias.name}"
            yield ImportBinding(alias.asname or alias.name, target, module, f"from {module} import {spelled}")
        else:
            root = alias.name.split(".", 1)[0]
            target = alias.name if alias.asname else root
            yield ImportBinding(alias.asname or root, target, alias.name, f"import {spelled}")


def _with_import(text: str, binding: ImportBinding) -> str:
    tree = parse_edited(text)
    same = False
    other = False
    for held, always in _module_bindings(tree.body, always=True):
        if isinstance(held, ImportBinding) and held.name == binding.name:
            alike = held.target == binding.target
            loaded = binding.target != binding.package or f"{held.loads}.".startswith(f"{binding.loads}.")
            same = same or (alike and always and loaded)
            other = other or not alike
        other = other or held == binding.name
    if same:
        return text
    if other or _assigned_in_functions(tree, binding.name):
        raise EditRefused(f"{binding.name} already means something else in this file: {binding.statement!r} not added")
    return _Place(text, tree, binding).text_with_import()


def _module_bindings(body: Sequence[ast.stmt], *, always: bool) -> Iterator[tuple[ImportBinding | str, bool]]:
    """What module-level statements bind, names for all but imports, and whether that happens in every run."""
    for node in body:
        if isinstance(node, _Import):
            yield from ((each, always) for each in _bindings(node))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, always
        elif isinstance(node, ast.With | ast.AsyncWith):
            yield from _stored([item.optional_vars for item in node.items])
            yield from _module_bindings(node.body, always=always)
        elif isinstance(node, ast.Try):
            yield from _module_bindings([*node.body, *node.finalbody], always=always)
            for handler in node.handlers:
                yield from _module_bindings(handler.body, always=False)
            yield from _module_bindings(node.orelse, always=False)
        elif isinstance(node, ast.If | ast.For | ast.AsyncFor | ast.While):
            yield from _stored([node.test if isinstance(node, ast.If | ast.While) else node.target])
            yield from _module_bindings([*node.body, *node.orelse], always=False)
        else:
            yield from _stored([node])


def _stored(nodes: Sequence[ast.AST | None]) -> Iterator[tuple[str, bool]]:
    for node in nodes:
        for each in ast.walk(node) if node is not None else ():
            if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
                yield each.id, True


def _assigned_in_functions(tree: ast.Module, name: str) -> bool:
    return any(isinstance(node, ast.Global) and name in node.names for node in ast.walk(tree))


class _Place:
    """Looks for the line of one new import."""

    def __init__(self, text: str, tree: ast.Module, binding: ImportBinding) -> None:
        self.text = text
        self.binding = binding
        self.body = tree.body
        self.starts = line_starts(text)
        self.newline = next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")
        uses = (index for index, node in enumerate(self.body) if _mentions(node, binding.name))
        self.first_use = next(uses, len(self.body))

    def text_with_import(self) -> str:
        if not self.body:
            return self._inserted(len(self.text), self.binding.statement)
        cells = [cell for cell in self._cells() if cell.start <= self.first_use] or [self._cells()[0]]
        run = self._same_package_run(cells)
        mergeable = next((node for node in run if self._can_take(node)), None)
        if mergeable is not None:
            return self._merged(mergeable)
        if run:
            return self._below(self.body.index(run[-1]))
        for cell in cells:
            anchor = self._end_of_imports(cell)
            if anchor is not None and isinstance(self.body[anchor], _Import):
                return self._below(anchor)
        cell = cells[-1]
        anchor = self._end_of_imports(cell)
        return self._above(cell) if anchor is None else self._below(anchor)

    def _cells(self) -> list[range]:
        """Index ranges of the statements of each notebook cell; of the whole module for a file."""
        borders = [index for index, node in enumerate(self.body) if _is_border(node)]
        starts = [0, *(index + 1 for index in borders)]
        stops = [*borders, len(self.body)]
        return [range(start, stop) for start, stop in zip(starts, stops, strict=True)]

    def _same_package_run(self, cells: Sequence[range]) -> list[_Import]:
        """The first imports from the same package, as long as only imports stand between them."""
        if not self.binding.package:
            return []
        for cell in cells:
            run: list[_Import] = []
            for index in cell[: max(self.first_use - cell.start, 0)]:
                node = self.body[index]
                if isinstance(node, _Import):
                    run += [node] if any(each.package == self.binding.package for each in _bindings(node)) else []
                elif run:
                    break
            if run:
                return run
        return []

    def _end_of_imports(self, cell: range) -> int | None:
        """The last import of the block of imports that opens a cell, else its docstring; None when there is none."""
        anchor: int | None = None
        for index in cell[: max(self.first_use - cell.start, 0)]:
            node = self.body[index]
            documents = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, _Import) or documents or self._is_magic(node):
                anchor = index
            elif not _only_imports(node):
                break
        return anchor

    def _is_magic(self, node: ast.stmt) -> bool:
        return isinstance(node, ast.Pass) and MARKER in self._row(node.lineno)

    def _can_take(self, node: _Import) -> bool:
        """Whether the name can simply be put at the end of an existing ``from`` import."""
        if not isinstance(node, ast.ImportFrom) or not self.binding.statement.startswith("from "):
            return False
        row = self._row(node.lineno)
        plain = node.lineno == node.end_lineno and not any(char in row for char in "()\\;*#")
        alike = "." * node.level + (node.module or "") == self.binding.loads
        return plain and alike and len(row) + len(self._name()) + 2 <= _LONGEST_LINE

    def _name(self) -> str:
        return self.binding.statement.partition(" import ")[2]

    def _merged(self, node: _Import) -> str:
        row = self._row(node.lineno)
        at = self.starts[node.lineno - 1] + len(row.encode()[: node.end_col_offset].decode())
        return f"{self.text[:at]}, {self._name()}{self.text[at:]}"

    def _below(self, index: int) -> str:
        end = self.body[index].end_lineno or 1
        for node in self.body[index + 1 :]:
            if node.lineno > end:
                break
            end = node.end_lineno or end
        statement = self.binding.statement
        if not isinstance(self.body[index], _Import | ast.Pass):  # a docstring
            blank_follows = not self._row(end + 1).strip()
            statement = f"{self.newline}{statement}" + ("" if blank_follows else self.newline)
        return self._inserted(self._row_after(end), statement)

    def _above(self, cell: range) -> str:
        """Before the first statement, but below the comments that open the file or the cell."""
        if not cell:
            return self._inserted(self._row_after(self.body[cell.start - 1].end_lineno or 1), self.binding.statement)
        node = self.body[cell.start]
        decorators = getattr(node, "decorator_list", [])
        row = top = min(each.lineno for each in (node, *decorators))
        while top > 1 and self._row(top - 1).lstrip().startswith("#"):
            top -= 1
        opens_file = top == 1 or (cell.start > 0 and top == (self.body[cell.start - 1].end_lineno or 0) + 1)
        row = row if opens_file else top
        return self._inserted(self.starts[row - 1], self.binding.statement + self.newline)

    def _inserted(self, at: int, statement: str) -> str:
        before, after = self.text[:at], self.text[at:]
        if before and not before.endswith(("\n", "\r")):
            return f"{before}{self.newline}{statement}"
        return f"{before}{statement}{self.newline}{after}"

    def _row_after(self, number: int) -> int:
        return self.starts[number] if number < len(self.starts) else len(self.text)

    def _row(self, number: int) -> str:
        if number > len(self.starts):
            return ""
        end = self.starts[number] if number < len(self.starts) else len(self.text)
        return self.text[self.starts[number - 1] : end].rstrip("\r\n")


def _is_border(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Name) and node.value.id.startswith(_CELL)


def _mentions(node: ast.stmt, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


def _only_imports(node: ast.stmt) -> bool:
    """Whether a compound statement belongs to a block of imports (``try: import x``, ``if TYPE_CHECKING:``)."""
    return isinstance(node, ast.Try | ast.If) and any(isinstance(each, _Import) for each in node.body)
