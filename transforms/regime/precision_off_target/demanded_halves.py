"""Code that demands the 16-bit type of today of what a region computes: it raises in float32."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ....codemod.model import Place
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.reach import reached
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.dtypes import BF16, FP16, HALVES, TORCH_DTYPES, Dtype
from .region_results import arrays_behind, block_of


def demanded_half(project: Project, region: Autocast) -> Place | None:
    """An assertion, a look-up by dtype or other bits that a region in float32 does not fit."""
    held = arrays_behind(project, block_of(project, region)).held
    for (module, function), _ in held.items():
        for node in ast.walk(function):
            if _looks_up(node) or _reads_bits(module, node):
                return module.place(node, f"{ast.unparse(node)} depends on the dtype")
    for part, module in reached(project, tuple(held)).parts.items():
        for node in ast.walk(part):
            if isinstance(node, ast.Assert | ast.If) and _refuses(node) and _asks(module, node.test):
                return module.place(node.test, f"{ast.unparse(node.test)} demands 16 bits")
    return None


def demanded_float16(held: Iterable[tuple[ModuleNames, ast.AST]]) -> Place | None:
    """An assertion, or a look-up by dtype, in functions that get bfloat16 where they got float16."""
    for module, function in held:
        for node in ast.walk(function):
            told = _dtypes(module, node.test) if isinstance(node, ast.Assert | ast.If) and _refuses(node) else set()
            if _looks_up(node) or (FP16 in told and BF16 not in told):
                return module.place(node, f"{ast.unparse(node).splitlines()[0]} does not know bfloat16")
    return None


def _dtypes(module: ModuleNames, test: ast.expr) -> set[Dtype | None]:
    names = (item for item in ast.walk(test) if isinstance(item, ast.Name | ast.Attribute))
    return {TORCH_DTYPES.get(module.qualified(item) or "") for item in names}


def _looks_up(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Attribute) and node.slice.attr == "dtype"


def _reads_bits(module: ModuleNames, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    is_view = node.func.attr == "view" and any(
        (module.qualified(item) or "").startswith("torch.") for item in node.args
    )
    return is_view or node.func.attr in ("frombuffer", "untyped_storage")


def _refuses(node: ast.Assert | ast.If) -> bool:
    return isinstance(node, ast.Assert) or any(isinstance(item, ast.Raise) for item in node.body)


def _asks(module: ModuleNames, test: ast.expr) -> bool:
    """Whether a condition names a 16-bit dtype and no float32, or asks for autocast itself."""
    names = [item for item in ast.walk(test) if isinstance(item, ast.Name | ast.Attribute)]
    qualified = {module.qualified(item) or "" for item in names}
    dtypes = {TORCH_DTYPES.get(item) for item in qualified} - {None}
    is_half = "numpy.float16" in qualified or (bool(dtypes) and dtypes <= set(HALVES))
    return is_half or any((attribute_chain(item) or [""])[-1] == "is_autocast_enabled" for item in names)
