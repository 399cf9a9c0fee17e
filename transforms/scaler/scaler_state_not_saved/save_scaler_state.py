"""The text edits that add a scaler to a checkpoint that is written and read beside it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ....codemod.model import Edit, Fix, Span
from ....codemod.python.bound import is_bound_at
from ....codemod.python.names import ModuleNames, Scope
from ....codemod.python.paths import function_of, guard_facts, position
from ....codemod.source.documents import Document
from ....codemod.torch.scalers import AttributeAlias, NameAlias, Scaler
from .checkpoints import Transfer

KEY = "scaler"


def fix(scaler: Scaler, saves: Sequence[Transfer], loads: Sequence[Transfer]) -> Fix | None:
    """The fix, when every save and load is a plain one in the scaler's own function or class; else None."""
    name = _name(scaler)
    if name is None or not all(_sees(scaler, item) for item in (*saves, *loads)):
        return None
    edits = [_saved(item, name) for item in saves] + [_loaded(item, name) for item in loads]
    flat = [edit for group in edits if group is not None for edit in group]
    if None in edits or len(set(flat)) != len(flat):
        return None
    return Fix.unsafe(
        "save",
        "save the scaler's state beside the optimizer's, and load it back where the checkpoint has one",
        *flat,
    )


def loading_fix(scaler: Scaler, loads: Sequence[Transfer], key: str) -> Fix | None:
    """The same for a state that is saved as ``key`` already: only the loading is added."""
    name = _name(scaler)
    if name is None or not all(_sees(scaler, item) for item in loads):
        return None
    edits = [_loaded(item, name, key) for item in loads]
    flat = [edit for group in edits if group is not None for edit in group]
    if None in edits or len(set(flat)) != len(flat):
        return None
    return Fix.unsafe("load", "load the scaler's state beside the optimizer's, where the checkpoint has one", *flat)


def _name(scaler: Scaler) -> str | None:
    """What the scaler is called where it lives: one variable, or one attribute of ``self``."""
    if len(scaler.aliases) != 1 or scaler.routes & {"conditional", "none-test", "other-file"}:
        return None
    alias = scaler.aliases[0]
    if isinstance(alias, NameAlias):
        return alias.name if len(alias.scope.bindings.get(alias.name, [])) == 1 else None
    return f"self.{alias.name}" if alias.owner is not None else None


def _sees(scaler: Scaler, item: Transfer) -> bool:
    """Whether the scaler certainly exists, under its name, at this place."""
    if not item.direct or item.module is not scaler.module:
        return False
    alias, module = scaler.aliases[0], scaler.module
    if guard_facts(module, module.statement_of(scaler.call)) - guard_facts(module, item.call):
        return False
    same = function_of(module, item.call) is function_of(module, scaler.call)
    if same:
        bound = isinstance(alias, AttributeAlias) or is_bound_at(module, alias.name, item.call)
        return bound and position(scaler.call) < position(item.call)
    return isinstance(alias, AttributeAlias) and _in_class(module, alias.owner, item.call) and _is_constructor(scaler)


def _in_class(module: ModuleNames, owner: Scope | None, node: ast.AST) -> bool:
    return owner is not None and module.scope_of(node).enclosing_class is owner


def _is_constructor(scaler: Scaler) -> bool:
    return getattr(function_of(scaler.module, scaler.call), "name", "") == "__init__"


# --- the two edits ----------------------------------------------------------------------------------------------------


def _saved(item: Transfer, name: str) -> list[Edit] | None:
    """A new last item in the dictionary."""
    table, document = item.table, item.module.document
    if table is None or any(isinstance(key, ast.Constant) and key.value == KEY for key in table.keys):
        return None
    quote = _quote(document, table)
    text = f"{quote}{KEY}{quote}: {name}.state_dict()"
    last = document.span(table.values[-1])
    end = document.offset(last.end_row, last.end_column)
    if last.end_row == document.span(table).end_row:
        return [item.module.replace_text(end, end, f", {text}")]
    code = _rest_of_line(document, last).partition("#")[0].strip()
    indent = _indent(document, table.keys[-1]) if table.keys[-1] is not None else None
    if code not in ("", ",") or indent is None:
        return None
    following = document.offset(last.end_row + 1, 1)
    added = item.module.replace_text(following, following, f"{indent}{text},{document.newline}")
    return [added] if code else [item.module.replace_text(end, end, ","), added]


def _loaded(item: Transfer, name: str, key: str = KEY) -> list[Edit] | None:
    """Two lines after ``optimizer.load_state_dict(checkpoint["optimizer"])``."""
    module, document = item.module, item.module.document
    statement, source = module.statement_of(item.call), item.call.args[0]
    if not isinstance(statement, ast.Expr) or statement.value is not item.call or not isinstance(source, ast.Subscript):
        return None
    if not isinstance(source.value, ast.Name) or not isinstance(source.slice, ast.Constant):
        return None
    span, indent = document.span(statement), _indent(document, statement)
    if indent is None or _rest_of_line(document, span).partition("#")[0].strip():
        return None
    quote, table = _quote(document, source), source.value.id
    deeper = "\t" if indent.endswith("\t") else "    "
    end = document.offset(span.end_row, len(document.line(span.end_row)) + 1)
    text = (
        f"{document.newline}{indent}if {table}.get({quote}{key}{quote}):"
        f"{document.newline}{indent}{deeper}{name}.load_state_dict({table}[{quote}{key}{quote}])"
    )
    return [item.module.replace_text(end, end, text)]


def _quote(document: Document, node: ast.AST) -> str:
    return '"' if '"' in document.source(document.span(node)) else "'"


def _rest_of_line(document: Document, span: Span) -> str:
    return document.line(span.end_row)[span.end_column - 1 :]


def _indent(document: Document, node: ast.AST) -> str | None:
    """The white space before ``node``, when nothing else stands before it on its line."""
    span = document.span(node)
    before = document.line(span.row)[: span.column - 1]
    return before if not before.strip() else None
