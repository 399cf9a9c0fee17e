"""Options that reach a GradScaler and nothing else: it scales the loss of a run in float32."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence

from ....codemod.purpose.imports import imported_names
from ....codemod.python.names import ModuleNames
from ....codemod.python.options import Option
from ....codemod.python.paths import guard_facts
from ....codemod.python.scopes import text_of
from ....codemod.source.project import Project
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.torch.tables.packages import OF_OTHER_THINGS

PACKAGES = frozenset({"torch", "torchvision", *OF_OTHER_THINGS, *sys.stdlib_module_names})
"""Packages that open no region of their own, and cast nothing without being told."""
SPEAKING = ("autocast", "half", "float16", "fp16", "bf16")
"""Parts of names and texts of which one might stand for a precision that something computes in."""
HIDING = frozenset(("amp", "hub", "jit", "exec", "import_module", "__import__", "cpp_extension", "load_library"))
"""Names of what may run code that is not seen, or compute in 16 bits."""


def switched_scaler(project: Project, program: Sequence[ModuleNames], option: Option) -> Scaler | None:
    """The scaler that an option switches, where nothing in the program can compute in 16 bits."""
    found = [item for item in scalers(project) if item.module in program]
    mine = [item for item in found if _is_switched(item, option.name)]
    if not mine or len(mine) < len(found) or not mine[0].uses_of("scale"):
        return None
    return mine[0] if not any(_may_be_low(project, module, option, mine) for module in program) else None


def _is_switched(scaler: Scaler, name: str) -> bool:
    switch = scaler.enabled_node
    texts = [text for text, holds in guard_facts(scaler.module, scaler.call) if holds]
    return any(text.rpartition(".")[2] == name for text in [*texts, ast.unparse(switch) if switch is not None else ""])


def _may_be_low(project: Project, module: ModuleNames, option: Option, own: Sequence[Scaler]) -> bool:
    if not imports_only_known(project, module):
        return True
    if any(call.args and text_of(call.args[0]) == "torch" for call in module.calls_by_name.get("getattr", ())):
        return True
    declared = {*ast.walk(option.node), *(node for scaler in own for node in ast.walk(scaler.call))}
    return any(_speaks(word, option.name) for node in module.nodes if node not in declared for word in _said(node))


def imports_only_known(project: Project, module: ModuleNames) -> bool:
    """Whether all that a file imports is the project's own, or computes nothing in 16 bits without being told."""
    other = (name for name in imported_names(module) if name.partition(".")[0] not in PACKAGES)
    return all(
        any(project.python_path(each, module.path) for each in (name, name.rpartition(".")[0])) for name in other
    )


def _speaks(word: str, option: str) -> bool:
    rest = word.lower().replace("-", "_").replace(option.lower(), "")
    return rest in HIDING or any(part in rest for part in SPEAKING)


def _said(node: ast.AST) -> Iterator[str]:
    """The names and texts of a piece of code; what is imported of torch's scaler says nothing."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.keyword | ast.arg):
        yield node.arg or ""
    elif isinstance(node, ast.alias):
        yield node.name
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
