"""Items that the project's data code puts into a batch in float32, told by how they are made."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ..purpose.files import is_test
from ..python.bindings import reaching
from ..python.names import ModuleNames, modules_with, string_of
from ..source.facts import memo
from ..source.project import Project
from ..torch.tables.libraries import ITEM_WRITERS, TO_TENSOR
from ..torch.tables.operations import keeps_dtype
from .lattice import DtypeSource

CONSTANT = ("zeros", "ones")
"""Factories of masks that say the same everywhere."""
MAX_STEPS = 6
"""How many names, moves and modules lie between what is made and the item: data code is short."""


@memo
def stored_mask(project: Project, key: str) -> DtypeSource | None:
    """Where the item ``key`` is made: a comparison that is cast to float32, zeros or ones, an image's ``ToTensor``.

    Or a module of a library's data pipeline, that writes it or the item whose dtype it has.
    """
    for module in (item for item in modules_with(project, (f'"{key}"', f"'{key}'")) if not is_test(item.path)):
        makers = [_maker(module, value) for value in project.memo(_stored, module).get(key, [])]
        for maker in (*makers, _written(module, key)):
            if maker is not None:
                return DtypeSource(module.path, maker, f"{key} is made in float32 here, whatever the model computes in")
    return None


def _written(module: ModuleNames, key: str, step: int = 0) -> ast.Call | None:
    """The call that makes the pipeline module, which writes float32."""
    for name, writer in ITEM_WRITERS.items():
        for call in module.calls_by_name.get(name.rpartition(".")[2], []):
            given = {item.arg: item.value for item in call.keywords}
            if None in given or string_of(given.get(writer.item)) != key or module.qualified(call.func) != name:
                continue
            followed = string_of(given.get(writer.follows))
            found = call if not writer.follows and writer.dtype not in given else None
            if followed is not None and step < MAX_STEPS:
                found = _written(module, followed, step + 1)
            if found is not None:
                return found
    return None


def _stored(_project: Project, module: ModuleNames) -> dict[str, list[ast.expr]]:
    """The values of ``{key: value}`` and ``item[key] = value``, by key."""
    found: dict[str, list[ast.expr]] = {}
    for node in module.nodes:
        pairs: Iterable[tuple[ast.expr | None, ast.expr]] = ()
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            pairs = [(node.targets[0].slice, node.value)]
        for key, value in pairs:
            name = string_of(key)
            if name is not None:
                found.setdefault(name, []).append(value)
    return found


def _maker(module: ModuleNames, node: ast.expr, step: int = 0) -> ast.expr | None:
    """The expression that makes a mask, behind names and what keeps a dtype."""
    if step > MAX_STEPS:
        return None
    if isinstance(node, ast.Name):
        bindings = reaching(module, module.bindings_of(node), node)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
        return _maker(module, value, step + 1) if value is not None else None
    if not isinstance(node, ast.Call) or any(item.arg in ("dtype", None) for item in node.keywords):
        return None
    if isinstance(node.func, ast.Call):
        return node if module.qualified(node.func.func) in TO_TENSOR else None
    name = module.qualified(node.func) or ""
    if name.startswith("torch."):
        return node if name.rpartition(".")[2] in CONSTANT else None
    if not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr == "float":
        return node if isinstance(node.func.value, ast.Compare) else None
    return _maker(module, node.func.value, step + 1) if _keeps_dtype(node, node.func.attr) else None


def _keeps_dtype(node: ast.Call, name: str) -> bool:
    return keeps_dtype(name) or (name == "to" and not node.args)
