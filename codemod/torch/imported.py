"""What torch is called where new code would name it, and the import that it may take."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..model import Edit
from ..python.bound import always_sets, is_bound_at
from ..python.names import ModuleNames, Scope


def torch_at(module: ModuleNames, node: ast.AST) -> str | None:
    """The name that torch itself certainly has where ``node`` runs; ``torch`` where it has several."""
    return next((name for name in _names(module.scope_of(node)) if _is_torch(module, name, node)), None)


def torch_for(module: ModuleNames, node: ast.AST) -> tuple[str, tuple[Edit, ...]] | None:
    """`torch_at`, else ``torch`` with the import that binds it; None where that name means something else."""
    name = torch_at(module, node)
    if name is not None:
        return name, ()
    return None if module.scope_of(node).lookup("torch") else ("torch", (module.add_import("import torch"),))


def torch_of(module: ModuleNames) -> str | None:
    """The name that torch has at the end of the module, whatever ran; for code that is put below the imports."""
    names = _names(module.module_scope)
    return next((name for name in names if _is_import(module.module_scope, name) and _stays(module, name)), None)


def dropped_import(module: ModuleNames, reference: ast.expr) -> list[Edit]:
    """Of ``from torch.cuda.amp import autocast``, which nothing may need any more."""
    imports = module.imports_seen(module.bindings_of(reference), reference) if isinstance(reference, ast.Name) else []
    return [module.drop_import(item.node, item.name) for item in imports]


def _names(scope: Scope | None) -> Iterator[str]:
    yield "torch"
    while scope is not None:
        yield from (name for name in scope.bindings if name != "torch" and _is_import(scope, name))
        scope = scope.parent


def _is_torch(module: ModuleNames, name: str, node: ast.AST) -> bool:
    scope = module.scope_of(node)
    if not _is_import(scope, name):
        return False
    runs_later = scope.function is not module.module_scope and name not in scope.function.bindings
    return is_bound_at(module, name, node) or (runs_later and _stays(module, name))


def _is_import(scope: Scope, name: str) -> bool:
    bindings = scope.lookup(name)
    return bool(bindings) and all(item.kind == "import" and item.qualified == "torch" for item in bindings)


def _stays(module: ModuleNames, name: str) -> bool:
    """Whether the module binds the name at its top level; one that tries to import torch does nothing without it."""
    tried = (item for item in module.tree.body if isinstance(item, ast.Try))
    bindings = module.module_scope.bindings.get(name, [])
    return always_sets(module, module.tree, name) or any(item.node in each.body for each in tried for item in bindings)
