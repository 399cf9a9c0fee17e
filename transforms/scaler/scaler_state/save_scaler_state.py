"""The edits that add a scaler to a checkpoint that is written and read beside it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ....codemod.model import Edit, Fix
from ....codemod.python.bound import is_bound_at
from ....codemod.python.names import ModuleNames, Scope
from ....codemod.python.paths import function_of, guard_facts, position
from ....codemod.torch.scalers import AttributeAlias, NameAlias, Scaler
from .checkpoints import Transfer

KEY = "scaler"


def fix(scaler: Scaler, saves: Sequence[Transfer], loads: Sequence[Transfer]) -> Fix | None:
    """The fix, when every save and load is a plain one in the scaler's own function or class; else None."""
    name = _name(scaler)
    if name is None or not all(_sees(scaler, item) for item in (*saves, *loads)):
        return None
    edits = [*(_saved(item, name) for item in saves), *(_loaded(item, name) for item in loads)]
    message = "save the scaler's state beside the optimizer's, and load it back where the checkpoint has one"
    return _of("save", message, edits)


def loading_fix(scaler: Scaler, loads: Sequence[Transfer], key: str) -> Fix | None:
    """The same for a state that is saved as ``key`` already: only the loading is added."""
    name = _name(scaler)
    if name is None or not all(_sees(scaler, item) for item in loads):
        return None
    edits = [_loaded(item, name, key) for item in loads]
    return _of("load", "load the scaler's state beside the optimizer's, where the checkpoint has one", edits)


def _of(name: str, message: str, edits: Sequence[Edit | None]) -> Fix | None:
    """The fix, where every edit can be written and is another one."""
    written = [edit for edit in edits if edit is not None]
    return Fix.unsafe(name, message, *written) if len(set(written)) == len(edits) else None


def _name(scaler: Scaler) -> str | None:
    """What the scaler is called where it lives: one variable, or one attribute of ``self``."""
    if len(scaler.aliases) != 1 or scaler.routes & {"conditional", "none-test", "other-file"}:
        return None
    alias = scaler.aliases[0]
    if isinstance(alias, NameAlias):
        return alias.name if len(alias.scope.bindings.get(alias.name, [])) == 1 else None
    return f"self.{alias.name}" if isinstance(alias, AttributeAlias) and alias.owner is not None else None


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


def _saved(item: Transfer, name: str) -> Edit | None:
    """A new last item in the dictionary."""
    table = item.table
    if table is None or any(isinstance(key, ast.Constant) and key.value == KEY for key in table.keys):
        return None
    return item.module.set_argument(table, KEY, f"{name}.state_dict()")


def _loaded(item: Transfer, name: str, key: str = KEY) -> Edit | None:
    """Two lines after ``optimizer.load_state_dict(checkpoint["optimizer"])``."""
    module = item.module
    statement, source = module.statement_of(item.call), item.call.args[0]
    if not isinstance(statement, ast.Expr) or statement.value is not item.call or not isinstance(source, ast.Subscript):
        return None
    if not isinstance(source.value, ast.Name) or not isinstance(source.slice, ast.Constant):
        return None
    quote, table = '"' if '"' in module.source(source) else "'", source.value.id
    key = f"{quote}{key}{quote}"
    return module.insert(statement, f"if {table}.get({key}):\n    {name}.load_state_dict({table}[{key}])\n", "after")
