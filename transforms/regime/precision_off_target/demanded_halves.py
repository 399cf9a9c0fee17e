"""Code that demands the 16-bit type of today of what a region computes: it raises in float32."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from ....codemod.model import Place
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.options import options_read
from ....codemod.python.reach import reached
from ....codemod.python.scopes import last_name
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.dtypes import BF16, FP16, HALVES, TORCH_DTYPES, Dtype
from .readers_of_results import chain
from .region_results import arrays_behind, block_of

CHAINED = ast.Name | ast.Attribute
NAMES = frozenset(dtype.name for dtype in HALVES) | {"half"}
GROWING = ast.Mult | ast.Add | ast.Sub
LARGEST = 65504
EXACT = 257
"""How many integers bfloat16 counts without a gap; float16 counts to 2048."""
NO_COUNT = f"counts in bfloat16 then, which holds no odd number above {EXACT - 1}"


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
            if _compares_text(node) and not _asks_option(project, module, node):
                return module.place(node, f"{ast.unparse(node)} depends on the dtype")
    return None


def demanded_float16(held: Mapping[tuple[ModuleNames, ast.AST], Collection[str]]) -> Place | None:
    """An assertion, a look-up by dtype or a count in functions that get bfloat16 where they got float16."""
    for (module, function), names in held.items():
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _is_counted_for(node, names):
                return module.place(node, f"{ast.unparse(node)} {NO_COUNT}")
            told = _dtypes(module, node.test) if isinstance(node, ast.Assert | ast.If) and _refuses(node) else set()
            is_text = _compares_text(node) or _reads_bits(module, node)
            if is_text or _looks_up(node) or (FP16 in told and BF16 not in told):
                return module.place(node, f"{ast.unparse(node).splitlines()[0]} does not know bfloat16")
    return None


def overflowing(held: Mapping[tuple[ModuleNames, ast.AST], Collection[str]]) -> Place | None:
    """``x * 1e5`` of a region's tensor."""
    for (module, function), names in held.items():
        for node in ast.walk(function):
            sides = (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, GROWING) else ()
            big = any(isinstance(item, ast.Constant) and _is_big(item.value) for item in sides)
            if big and any(chain(item) in names for item in sides if isinstance(item, CHAINED)):
                return module.place(node, f"{ast.unparse(node)} may overflow in float16")
    return None


def _is_big(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) > LARGEST


def counts_far(node: ast.AST | None) -> bool:
    """Whether ``arange`` goes by ones to an end that may be too far, and counts what is not divided at once."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "arange" or not 1 <= len(node.args) <= 2:
        return False
    end = node.args[-1]
    is_near = isinstance(end, ast.Constant) and isinstance(end.value, int) and end.value <= EXACT
    return not is_near and all(item.arg not in (None, "step", "start", "end") for item in node.keywords)


def _is_counted_for(call: ast.Call, names: Collection[str]) -> bool:
    """``torch.arange(n, dtype=x.dtype)``, ``torch.arange(n).type_as(x)``, where ``x`` is of a region."""
    is_cast = isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "type_as")
    given = call.args if is_cast else [item.value for item in call.keywords if item.arg == "dtype"]
    counted = call.func.value if isinstance(call.func, ast.Attribute) and is_cast else call
    owners = (item.value if isinstance(item, ast.Attribute) and item.attr == "dtype" else item for item in given)
    return counts_far(counted) and any(chain(item) in names for item in owners if isinstance(item, CHAINED))


def _dtypes(module: ModuleNames, test: ast.expr) -> set[Dtype | None]:
    names = (item for item in ast.walk(test) if isinstance(item, ast.Name | ast.Attribute))
    return {TORCH_DTYPES.get(module.qualified(item) or "") for item in names}


def _looks_up(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Attribute) and node.slice.attr == "dtype"


def _compares_text(node: ast.AST) -> bool:
    """``str(x.dtype) == "torch.float16"``"""
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    texts = (item.value for side in sides for item in ast.walk(side) if isinstance(item, ast.Constant))
    asked = any(getattr(item, "attr", "") == "dtype" for side in sides for item in ast.walk(side))
    return asked and any(isinstance(text, str) and text.removeprefix("torch.") in NAMES for text in texts)


def _asks_option(project: Project, module: ModuleNames, compared: ast.AST) -> bool:
    """Whether the ``dtype`` of ``args.dtype == "float16"`` is an option, which moves with the region."""
    asked = [item for item in ast.walk(compared) if isinstance(item, ast.Attribute) and item.attr == "dtype"]
    return all(options_read(project, module, item) for item in asked)


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
