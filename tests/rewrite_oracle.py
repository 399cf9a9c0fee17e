"""The operations once more, on bare `ast` trees (what the rewritten text must mean), and random ones to compare."""

from __future__ import annotations

import ast
import io
import random
import tokenize
from collections import Counter

from precfix.codemod.model import (
    AddDecorator,
    AddImport,
    DropImport,
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

from .rewrite_targets import span_of

Body = list[ast.stmt]


def shape(tree: ast.AST) -> str:
    """A text that is equal for trees of equal meaning."""
    return ast.dump(tree)


class Oracle:
    """Carries out operations on the tree of a text."""

    def __init__(self, text: str, operations: list[PythonOperation]) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.operations = list(dict.fromkeys(operations))
        self._alive = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt | ast.expr)]
        self.spans = {id(node): span_of(text, node) for node in self._alive}

    def expected(self) -> str:
        self.tree.body = self._body(self.tree.body)
        return shape(self.tree)

    def _of(self, node: ast.AST, kind: type) -> list[PythonOperation]:
        span = self.spans.get(id(node))
        return [each for each in self.operations if isinstance(each, kind) and each.span == span]

    def _visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                body = self._body(value)
                chained = name == "orelse" and isinstance(node, ast.If) and self._is_elif(node, value[0])
                setattr(node, name, body if body or chained else [ast.Pass()])
            elif isinstance(value, list):
                setattr(node, name, [self._expr(each) if isinstance(each, ast.AST) else each for each in value])
            elif isinstance(value, ast.AST):
                setattr(node, name, self._expr(value))

    def _is_elif(self, node: ast.AST, child: ast.stmt) -> bool:
        return isinstance(child, ast.If) and self.spans[id(child)].column == self.spans[id(node)].column

    def _body(self, body: Body) -> Body:
        wraps = [each for each in self.operations if isinstance(each, WrapStatements)]
        wraps.sort(key=lambda each: (each.last.end_row, each.last.end_column), reverse=True)
        return self._wrapped(body, wraps)

    def _wrapped(self, body: Body, wraps: list[WrapStatements]) -> Body:
        result: Body = []
        at = 0
        while at < len(body):
            span = self.spans[id(body[at])]
            wrap = next((each for each in wraps if each.first == span), None)
            if wrap is None:
                result += self._statement(body[at])
                at += 1
                continue
            stop = next(i for i, node in enumerate(body) if self.spans[id(node)] == wrap.last) + 1
            before, after = self._inserts(body[at], "before"), self._inserts(body[stop - 1], "after")
            inner = self._wrapped(body[at:stop], [each for each in wraps if each is not wrap])
            if inner:
                header = ast.parse(wrap.header + " pass").body[0]
                header.body = inner  # type: ignore[attr-defined]
                result += [*before, header, *after]
            else:
                result += [*before, *after]
            at = stop
        return result

    def _inserts(self, node: ast.stmt, where: str) -> Body:
        """New statements beside ``node``, taken from the list: they stand outside of what wraps the node."""
        found: Body = []
        for each in self._of(node, InsertStatement):
            if isinstance(each, InsertStatement) and each.where == where:
                found += ast.parse(each.text).body
                self.operations.remove(each)
        return found

    def _change_header(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in self._of(node, AddDecorator):
            assert isinstance(each, AddDecorator)
            node.decorator_list.append(ast.parse(each.text, mode="eval").body)

    def _change_import(self, node: ast.Import | ast.ImportFrom) -> Body:
        gone = {each.name for each in self._of(node, DropImport) if isinstance(each, DropImport)}
        node.names = [alias for alias in node.names if _bound(node, alias) not in gone]
        return [node] if node.names else []

    def _statement(self, node: ast.stmt) -> Body:
        before, after = self._inserts(node, "before"), self._inserts(node, "after")
        middle: Body = [node]
        if self._of(node, RemoveStatement):
            middle = []
        elif isinstance(node, ast.Import | ast.ImportFrom):
            middle = self._change_import(node)
        else:
            self._visit(node)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._change_header(node)
        return [*before, *middle, *after]

    def _expr(self, node: ast.AST) -> ast.AST:
        replaced = self._of(node, ReplaceExpression)
        span = self.spans.get(id(node))
        if isinstance(node, ast.Call):
            self._change_arguments(node)
            for each in self._of(node, SetArgument):
                assert isinstance(each, SetArgument)
                value = ast.parse(each.value, mode="eval").body
                present = [kw for kw in node.keywords if kw.arg == each.name]
                for keyword in present:
                    keyword.value = value
                if not present:
                    node.keywords.append(ast.keyword(each.name, value))
        inside = {self.spans[id(each)]: each for each in reversed(list(ast.walk(node))) if id(each) in self.spans}
        self._visit(node)
        if not replaced:
            return node
        operation = replaced[0]
        assert isinstance(operation, ReplaceExpression)
        fills: list[ast.AST] = []
        text = ""
        for part in operation.parts:
            if isinstance(part, str):
                text += part
            else:
                text += f"fill_{len(fills)}"
                kept = inside[part]
                fills.append(kept if part == span else self._replaced_already(kept, node))
        return _filled(ast.parse(text, mode="eval").body, fills)

    def _change_arguments(self, node: ast.Call) -> None:
        taken = [each for kind in (RemoveArgument, NameArgument) for each in self._of(node, kind)]
        values = {each: _argument(node, each.argument) for each in taken}  # type: ignore[union-attr]
        positional = [value for value in values.values() if value in node.args]
        gone = [value for each, value in values.items() if isinstance(each, RemoveArgument)]
        for each, value in values.items():
            if isinstance(each, NameArgument) and value in gone:
                continue  # what is taken out needs no name
            if isinstance(each, NameArgument) and isinstance(each.argument, str):
                value.arg = each.name  # type: ignore[union-attr]
            elif isinstance(each, NameArgument):
                node.keywords.insert(0, ast.keyword(each.name, value))  # type: ignore[arg-type]
            elif isinstance(value, ast.keyword):
                node.keywords.remove(value)
        node.args = [value for value in node.args if value not in positional]
        inserted = [each for each in self._of(node, InsertArgument) if isinstance(each, InsertArgument)]
        for each in sorted(inserted, key=lambda each: -each.index):
            node.args.insert(each.index, ast.parse(each.value, mode="eval").body)

    def _replaced_already(self, kept: ast.AST, _: ast.AST) -> ast.AST:
        return kept if not self._of(kept, ReplaceExpression) else self._expr(kept)


def _argument(node: ast.Call, argument: str | int) -> ast.expr | ast.keyword:
    if isinstance(argument, int):
        return node.args[argument]
    return next(keyword for keyword in node.keywords if keyword.arg == argument)


def _bound(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    name = alias.asname or alias.name
    return name if alias.asname or isinstance(node, ast.ImportFrom) else name.partition(".")[0]


def expected_shapes(text: str, operations: list[PythonOperation]) -> set[str]:
    """What the result may mean: an import that is to be dropped stays where its name is still used."""
    drops = [each for each in dict.fromkeys(operations) if isinstance(each, DropImport)]
    rest = [each for each in operations if not isinstance(each, DropImport)]
    chosen = [[each for bit, each in enumerate(drops) if number >> bit & 1] for number in range(1 << len(drops))]
    return {Oracle(text, [*rest, *some]).expected() for some in chosen}


def without_imports(tree: ast.Module) -> tuple[str, set[tuple[str, str]]]:
    """The shape of a module less its top-level imports, and what these bind: name, and where it comes from."""
    bound: set[tuple[str, str]] = set()
    rest = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            bound |= {(_bound(node, alias), f"{module}:{alias.name}") for alias in node.names}
        else:
            rest.append(node)
    return shape(ast.Module(rest, tree.type_ignores)), bound


def _filled(tree: ast.expr, fills: list[ast.AST]) -> ast.AST:
    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return fills[int(node.id[5:])] if node.id.startswith("fill_") else node

    result: ast.AST = Fill().visit(tree)
    return result


def comments(text: str) -> Counter[str]:
    """The comments of a text."""
    reader = io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n")).readline
    tokens = tokenize.generate_tokens(reader)
    return Counter(token.string.rstrip("\r\n") for token in tokens if token.type == tokenize.COMMENT)


# --- random operations ------------------------------------------------------------------------------------------------


class Chooser:
    """Random operations that the text has targets for."""

    def __init__(self, text: str, source: random.Random) -> None:
        self.text = text
        self.random = source
        tree = ast.parse(text)
        hidden = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in ast.walk(node)}
        parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.bodies = [
            body
            for node in ast.walk(tree)
            for name in ("body", "orelse", "finalbody")
            if isinstance(body := getattr(node, name, None), list) and body
        ]
        statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        self.statements = statements
        self.expressions = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.expr)
            and id(node) not in hidden
            and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
            and not isinstance(node, ast.Slice | ast.Starred)
            and not isinstance(parents[id(node)], ast.MatchValue)
        ]
        self.calls = [node for node in self.expressions if isinstance(node, ast.Call)]
        self.functions = [node for node in statements if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        self.imports = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]

    def operation(self) -> PythonOperation | None:
        makers = (self.remove, self.insert, self.wrap, self.set_argument, self.remove_argument)
        makers = (*makers, self.name_argument, self.insert_argument)
        headers = (self.decorate, self.drop_import, self.add_import)
        return self.random.choice((*makers, *headers, self.replace, self.replace))()

    def _pick(self, nodes: list[ast.AST] | list[ast.stmt] | list[ast.expr]) -> Span:
        return span_of(self.text, self.random.choice(nodes))  # type: ignore[arg-type]

    def remove(self) -> PythonOperation:
        return RemoveStatement(self._pick(self.statements))

    def insert(self) -> PythonOperation:
        text = self.random.choice(("inserted()", "if inserted:\n    # inside\n    a()\n\n    b()\nc()\n"))
        return InsertStatement(self._pick(self.statements), text, self.random.choice(("before", "after")))

    def wrap(self) -> PythonOperation:
        body = self.random.choice(self.bodies)
        start = self.random.randrange(len(body))
        stop = self.random.randrange(start, len(body))
        return WrapStatements(span_of(self.text, body[start]), span_of(self.text, body[stop]), "with wrapped(1):")

    def set_argument(self) -> PythonOperation | None:
        if not self.calls:
            return None
        call = self.random.choice(self.calls)
        names = ["added", *(keyword.arg for keyword in call.keywords if keyword.arg)]
        value = self.random.choice(("1", "a if b else c", "lambda: (yield)", "[\n1]"))
        return SetArgument(span_of(self.text, call), self.random.choice(names), value)

    def remove_argument(self) -> PythonOperation | None:
        calls = [call for call in self.calls if call.args or call.keywords]
        if not calls:
            return None
        call = self.random.choice(calls)
        names = [*range(len(call.args)), *(keyword.arg for keyword in call.keywords if keyword.arg)]
        return RemoveArgument(span_of(self.text, call), self.random.choice(names or [0]))

    def name_argument(self) -> PythonOperation | None:
        """The last argument by position, or a keyword: no other argument follows by position."""
        calls = [call for call in self.calls if call.args or call.keywords]
        if not calls:
            return None
        call = self.random.choice(calls)
        names = [*range(len(call.args))[-1:], *(keyword.arg for keyword in call.keywords if keyword.arg)]
        return NameArgument(span_of(self.text, call), self.random.choice(names or [0]), "named")

    def insert_argument(self) -> PythonOperation | None:
        if not self.calls:
            return None
        value = self.random.choice(("'cuda'", "a if b else c"))
        return InsertArgument(span_of(self.text, self.random.choice(self.calls)), 0, value)

    def replace(self) -> PythonOperation | None:
        if not self.expressions:
            return None
        node = self.random.choice(self.expressions)
        inside = [each for each in ast.walk(node) if each in self.expressions]
        kept = span_of(self.text, self.random.choice(inside))  # type: ignore[arg-type]
        frames = (("", ""), ("f(", ")"), ("", ".g()"), ("not ", ""), ("2 ** ", ""), ("a if ", " else b"), ("-", ""))
        head, tail = self.random.choice(frames)
        parts = self.random.choice(((head, kept, tail), ("new or 1",), ("(", kept, ", 1)")))
        return ReplaceExpression(span_of(self.text, node), tuple(part for part in parts if part != ""))

    def decorate(self) -> PythonOperation | None:
        if not self.functions:
            return None
        text = self.random.choice(("added", "added.by(1, a=[])"))
        return AddDecorator(span_of(self.text, self.random.choice(self.functions)), text)

    def drop_import(self) -> PythonOperation | None:
        imports = [node for node in self.imports if node.names[0].name != "*"]
        if not imports:
            return None
        node = self.random.choice(imports)
        return DropImport(span_of(self.text, node), _bound(node, self.random.choice(node.names)))

    def add_import(self) -> PythonOperation:
        statements = ("import torch", "from torch import added", "from os import added as b, c2")
        return AddImport(self.random.choice(statements))
