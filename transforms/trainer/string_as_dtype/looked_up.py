"""Names of dtypes that are looked up in torch or in a table, and that an option can have though they are not there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames, resolve, string_of
from ....codemod.python.options import Option, options_read
from ....codemod.python.paths import guards
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import HALVES, TORCH_DTYPES, as_dtype

KNOWN = frozenset(name.removeprefix("torch.") for name in TORCH_DTYPES)
"""Names that torch has for floating-point types."""
SPELLINGS = KNOWN | {"fp16", "bf16", "fp32", "fp64"}


def names_torch_lacks(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    """``getattr(torch, args.dtype)`` where ``--dtype`` accepts, or defaults to, what torch does not have."""
    if len(call.args) != 2 or call.keywords or module.qualified(call.args[0]) != "torch":
        return
    key = call.args[1]
    if not isinstance(key, ast.Attribute) or _is_looked_after(module, call, key):
        return
    for option in options_read(project, module, key):
        wrong = [item for item in _stated(option) if string_of(item) not in KNOWN and string_of(item) in SPELLINGS]
        if wrong:
            message = f"torch has no {ast.unparse(wrong[0])}, which {ast.unparse(key)} can be (AttributeError)"
            yield Draft.at(module, call, message, [option.module.place(wrong[0], "stated here")])
            return


def names_table_lacks(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    """``{"fp16": torch.float16}.get(args.dtype)`` where ``--dtype`` accepts another 16-bit type."""
    key = call.args[0] if len(call.args) == 1 and not call.keywords else None
    names = _table(project, module, call)
    if not names or not isinstance(key, ast.Attribute) or _is_looked_after(module, call, key):
        return
    if isinstance(module.parents.get(call), ast.BoolOp | ast.Compare):
        return
    for option in options_read(project, module, key):
        stated = _stated(option)
        wrong = [item for item in stated if string_of(item) not in names and as_dtype(string_of(item)) in HALVES]
        if wrong:
            message = f"None for {ast.unparse(wrong[0])}, which {ast.unparse(key)} can be: the table does not have it"
            yield Draft.at(module, call, message, [option.module.place(wrong[0], "stated here")])
            return


def _table(project: Project, module: ModuleNames, call: ast.Call) -> frozenset[str]:
    """The names in a table of dtypes; none where it is not written down, or holds anything else."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    table = only_value(module, owner) if isinstance(owner, ast.Name) else owner
    if not isinstance(table, ast.Dict) or None in table.keys:
        return frozenset()
    values = [resolve(project, module, value) in TORCH_DTYPES for value in table.values]
    names = [string_of(item) or "" for item in table.keys]
    return frozenset(names) if all(values) and all(names) else frozenset()


def _stated(option: Option) -> list[ast.expr]:
    """The choices and the default of an option whose text arrives as it is written."""
    if option.kind != "option" or not isinstance(option.node, ast.Call):
        return []
    kinds = [item.value for item in option.node.keywords if item.arg in ("type", "action", "callback", None)]
    is_text = all(isinstance(kind, ast.Name) and kind.id == "str" for kind in kinds)
    return [item for item in (*option.choices, option.default) if item is not None] if is_text else []


def _is_looked_after(module: ModuleNames, call: ast.Call, key: ast.Attribute) -> bool:
    """Whether a test, an exception or an assignment deals with names that are not there."""
    if is_caught(module, call):
        return True
    text = ast.unparse(key)
    if any(text in ast.unparse(guard.test) for guard in guards(module, call)):
        return True
    asked = (other.args[0] for other in module.calls_by_name.get("hasattr", []) if other.args)
    return bool(module.attribute_stores.get(key.attr)) or any(ast.unparse(item) == "torch" for item in asked)


def is_caught(module: ModuleNames, node: ast.AST) -> bool:
    """Whether an exception that is raised here may be expected."""
    return any(isinstance(above, ast.Try) and above.handlers for above in module.ancestors(node))
