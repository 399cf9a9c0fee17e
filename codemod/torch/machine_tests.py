"""Whether an expression is decided by a test of the hardware: ``is_bf16_supported()``, ``get_device_capability()``."""

from __future__ import annotations

import ast

from ..python.functions import called_function
from ..python.names import Binding, ModuleNames, definition_of
from ..source.project import Project

MAX_HOPS = 3
"""Names and functions between an expression and such a test; projects wrap the test once or twice."""

_ASKS_FOR_BF16 = (
    *(f"{dtype}_{asked}" for dtype in ("bf16", "bfloat16") for asked in ("supported", "available", "gpu_available")),
    "device_capability",
)
"""Parts of the names of functions and flags that tell whether there is bfloat16 (torch, accelerate, transformers)."""
_ASKS_MACHINE = (*_ASKS_FOR_BF16, "is_available")


def tells_of_bf16(text: str) -> bool:
    """Whether source code names a test that tells whether there is bfloat16."""
    return any(word in text for word in _ASKS_FOR_BF16)


def asks_machine(project: Project, module: ModuleNames, node: ast.AST, for_bf16: bool = False) -> bool:
    """Whether an expression, or what its names stand for, is decided by a test of the hardware.

    ``for_bf16``: by one that tells whether there is bfloat16, not only whether there is a device.
    """
    return _Asker(project, _ASKS_FOR_BF16 if for_bf16 else _ASKS_MACHINE).asks(module, node, 0)


def picked_by_machine(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """The same for a test that tells whether there is bfloat16, also of branches of a function that is called."""
    return _Asker(project, _ASKS_FOR_BF16, enters_branches=True).asks(module, node, 0)


class _Asker:
    """Looks for words of such tests through names and functions of the project."""

    def __init__(self, project: Project, words: tuple[str, ...], enters_branches: bool = False) -> None:
        self._project = project
        self._words = words
        self._enters_branches = enters_branches

    def asks(self, module: ModuleNames, node: ast.AST, hops: int) -> bool:
        """Whether anything in ``node`` does."""
        return any(self._one(module, item, hops) for item in ast.walk(node))

    def _one(self, module: ModuleNames, node: ast.AST, hops: int) -> bool:
        if isinstance(node, ast.Attribute):
            return self._says(node.attr)
        if isinstance(node, ast.Name):
            bindings = module.scope_of(node).lookup(node.id) if hops < MAX_HOPS else []
            return self._says(node.id) or any(self._binding(module, node, item, hops) for item in bindings)
        if isinstance(node, ast.Call) and hops < MAX_HOPS:
            target = called_function(self._project, module, node)
            values = (
                [item.value for item in target.module.returns_of(target.node) if item.value is not None]
                if target is not None
                else []
            )
            if target is not None and self._enters_branches:
                values += [item.test for item in ast.walk(target.node) if isinstance(item, ast.If)]
            return target is not None and any(self.asks(target.module, value, hops + 1) for value in values)
        return False

    def _says(self, name: str) -> bool:
        return any(word in name for word in self._words)

    def _binding(self, module: ModuleNames, name: ast.Name, binding: Binding, hops: int) -> bool:
        if binding.kind != "import":
            value = binding.value
            if value is None and self._enters_branches:  # ``dtype, scaled = settings(device)``
                statement = module.statement_of(binding.node)
                value = statement.value if isinstance(statement, ast.Assign) else None
            return value is not None and self.asks(module, value, hops + 1)
        found = definition_of(self._project, module, name)
        bindings = found[0].module_scope.lookup(found[1]) if found is not None else []
        values = [item.value for item in bindings if item.value is not None]
        return found is not None and any(self.asks(found[0], value, hops + 1) for value in values)
