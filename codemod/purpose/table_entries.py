"""What stands in a dictionary of settings that the program fills itself: ``{"lr": args.lr}``, ``vars(args)``."""

from __future__ import annotations

import ast

from ..python.names import ModuleNames
from ..python.trace import TABLES, trace
from ..source.project import Project


def entry_of(project: Project, module: ModuleNames, node: ast.expr) -> tuple[ModuleNames, ast.expr] | None:
    """The value behind ``config["lr"]`` or ``config.get("lr")``, where the dictionary is written down."""
    key, owner = _asked(node)
    tables = trace(project, module, owner, TABLES) if owner is not None else ()
    if len(tables) != 1 or tables[0] is None:
        return None
    holder, display = tables[0]
    pairs = zip(display.keys, display.values, strict=True)
    found = [value for name, value in pairs if isinstance(name, ast.Constant) and name.value == key]
    return (holder, found[-1]) if found and not is_changed(module, node) else None


def is_changed(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a look-up reads a dictionary in which the same file stores something else."""
    table = _asked(node)[1]
    name = table.id if isinstance(table, ast.Name) else ""
    for load in module.name_loads.get(name, []):
        parent = module.parents[load]
        stores = isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load)
        if stores or (isinstance(parent, ast.Attribute) and parent.attr in ("update", "setdefault", "pop")):
            return True
    return False


def option_read(module: ModuleNames, node: ast.expr) -> str | None:
    """``lr`` of ``config["lr"]`` where ``config = vars(args)``."""
    key, owner = _asked(node)
    bindings = module.scope_of(owner).lookup(owner.id) if isinstance(owner, ast.Name) else []
    value = bindings[0].value if len(bindings) == 1 else None
    of_options = isinstance(value, ast.Call) and ast.unparse(value.func) == "vars" and len(value.args) == 1
    return key if of_options else None


def _asked(node: ast.expr) -> tuple[str, ast.expr | None]:
    """The key and the dictionary of a look-up by a literal."""
    if isinstance(node, ast.Subscript):
        key: ast.expr | None = node.slice
        owner: ast.expr | None = node.value
    else:
        is_get = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        key = node.args[0] if is_get and node.args else None  # type: ignore[attr-defined]
        owner = node.func.value if is_get else None  # type: ignore[attr-defined]
    text = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
    return (text, owner) if text else ("", None)
