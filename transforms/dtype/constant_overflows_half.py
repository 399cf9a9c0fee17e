"""A constant does not fit the 16-bit tensor it is written into.

## What goes wrong

`scores.masked_fill(mask, -1e9)` on a float16 tensor stops with
`RuntimeError: value cannot be converted to type c10::Half without overflow`. So do `masked_fill_`, `fill_`,
`index_fill`, `scatter`, `torch.full(..., -1e9, dtype=torch.float16)` and `F.pad(value=...)`, and on a GPU
`torch.where(mask, scores, -1e9)`, which gives `-inf` on a CPU. With `torch.finfo(torch.float32).min` bfloat16 stops
as well (`... c10::BFloat16 without overflow`).

## Why

float16 ends at 65504 and bfloat16 just below the end of float32 (3.39e38 against 3.40e38). PyTorch refuses to convert
a scalar that does not fit. Attention scores are float16 under autocast, because `matmul` is, although the
weights are float32: the line works until mixed precision is switched on (measured with PyTorch 2.13).

## Fix

`finfo` [safe]: the constant becomes `torch.finfo(<tensor>.dtype).min` (or `.max`). Offered where the constant already
was the limit of float32, where the tensor has a 16-bit dtype in every run, or where nothing but a softmax reads the
result: masked places stay zero there, in float32 too. `finfo-elsewhere` [unsafe] is the same edit where other code
reads the masked values, which change in float32 runs, and for `torch.where`, which a CPU takes. Two such masks must not
be added: the sum is `-inf`, and a row that is masked as a whole becomes NaN.

## Not flagged

bfloat16 and -1e9, which fit; -1e4 and infinities; scores that were cast to float32 before; code in a disabled autocast
or behind a test of the dtype; classes that no file names; tensors whose dtype is not certain; a project that never
computes in 16 bits. A constant that is added or written by `t[mask] = -1e9` silently becomes `-inf`, which a mask can
bear; the bounds of a `clamp` are as good as none on a GPU, and refused by a CPU only (both measured with PyTorch 2.11).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.half.enclosed import is_named
from ...codemod.half.half_here import Half, half_here
from ...codemod.model import Edit, Finding, Fix, Rule
from ...codemod.proof.needs import SameResult
from ...codemod.proof.proving import proved
from ...codemod.purpose.proved_reach import is_reached
from ...codemod.python.arguments import argument, receiver_of
from ...codemod.python.exits import blocks_of
from ...codemod.python.glimpses import calls_seen
from ...codemod.python.names import ModuleNames, attribute_chain, checked_modules, last_name
from ...codemod.python.numbers import finfo_dtype, number_of
from ...codemod.python.paths import function_of, position
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import BF16, FP16, Dtype
from ...codemod.torch.imported import torch_for

LIMITS = {FP16: 65504.0, BF16: 3.3895313892515355e38}
C_NAMES = {FP16: "c10::Half", BF16: "c10::BFloat16"}
CHOICE = "where"
METHODS = {
    "masked_fill": (("value", 1),),
    "masked_fill_": (("value", 1),),
    "fill_": (("value", 0),),
    "index_fill": (("value", 2),),
    "index_fill_": (("value", 2),),
    "fill_diagonal_": (("fill_value", 0),),
    "new_full": (("fill_value", 1),),
    "full_like": (("fill_value", 0),),
    "full": (("fill_value", 0),),
    "pad": (("value", 2),),
    "scatter": (("value", 2),),
    "scatter_": (("value", 2),),
    CHOICE: (("input", 0), ("other", 1)),
}
"""Calls that refuse a number their tensor cannot hold: name and position of the number, the tensor left out."""
INFINITE = ("inf", "-inf", "+inf", "infinity", "-infinity")
"""What ``float`` is passed for a number that every floating type can hold."""
WORDS = ("masked_fill", "fill_(", "index_fill", "full(", "full_like(", "pad(", "scatter", "where(")
ELSEWHERE = ("onnx", "export", "infer", "data", "preprocess", "frontend", "convert", "deprecated")
"""Words in paths of code that prepares data or serves a model."""
PASSING = ("view", "reshape", "transpose", "permute", "contiguous", "float", "to")
"""Methods between the scores and their softmax."""


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """A number on its way into a tensor."""

    module: ModuleNames
    call: ast.Call
    tensor: ast.expr
    """The tensor, or the call itself where it makes one."""
    number: ast.expr
    value: float

    @property
    def source(self) -> str:
        return self.module.source(self.number)

    @property
    def is_method(self) -> bool:
        return self.module.qualified(self.call.func) is None


def check(project: Project) -> Iterator[Finding]:
    for module in checked_modules(project, WORDS, ("torch",), where=_may_overflow):
        yield from _in_module(project, module)


def _may_overflow(text: str) -> bool:
    """Whether a call passes a number that is, or may be, too large: a file without any is not parsed."""
    return any(_passes_large(call, name) for name in METHODS if name in text for call in calls_seen(text, name))


def _passes_large(call: ast.Call | None, name: str) -> bool:
    """The same of one call, whose tensor may stand before it or be its first argument; None: nobody knows."""
    if call is None:
        return True
    places = ((keyword, index + skip) for keyword, index in METHODS[name] for skip in (0, 1))
    given = (argument(call, keyword, position=index) for keyword, index in places)
    return any(number is not None and not _is_small(number) for number in given)


def _is_small(node: ast.expr) -> bool:
    """Whether a literal certainly fits, or is infinite."""
    if isinstance(node, ast.UnaryOp):
        return _is_small(node.operand)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float":
        only = node.args[0] if len(node.args) == 1 and not node.keywords else None
        return isinstance(only, ast.Constant) and only.value in INFINITE
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return abs(node.value) <= LIMITS[FP16]
    return isinstance(node, ast.Constant | ast.Tuple | ast.List)


def _in_module(project: Project, module: ModuleNames) -> Iterator[Finding]:
    for write in _writes(project, module):
        half = half_here(project, module, write.tensor)
        if half is not None and (half.reached or _is_trained(project, module, write)):
            overflows = [dtype for dtype in (FP16, BF16) if dtype in half.dtypes and abs(write.value) > LIMITS[dtype]]
            if overflows and is_reached(project, module, write.call):
                yield _finding(project, write, half, overflows)


def _is_trained(project: Project, module: ModuleNames, write: Write) -> bool:
    """Whether the code is part of a network, for those that a registry builds; not preparation or export."""
    owner = module.scope_of(write.call).enclosing_class
    if owner is None or not isinstance(owner.node, ast.ClassDef):
        return False
    if any(word in module.document.path.lower() for word in ELSEWHERE):
        return False
    return any("Module" in ast.unparse(base) for base in owner.node.bases) and is_named(project, owner)


def _writes(project: Project, module: ModuleNames) -> Iterator[Write]:
    for name, places in METHODS.items():
        for call in module.calls_by_name.get(name, []):
            tensor, skip = _tensor(project, module, call, name)
            if tensor is None:
                continue
            for keyword, index in places:
                number = argument(call, keyword, position=index + skip)
                value = number_of(project, module, number) if number is not None else None
                if number is not None and value is not None and math.isfinite(value) and abs(value) > LIMITS[FP16]:
                    yield Write(module, call, tensor, number, value)


def _tensor(project: Project, module: ModuleNames, call: ast.Call, name: str) -> tuple[ast.expr | None, int]:
    """The tensor that is written, and how many positional arguments stand before those of the method."""
    qualified = module.qualified(call.func)
    if qualified is not None:
        known = qualified in (f"torch.{name}", f"torch.nn.functional.{name}", f"torch.special.{name}")
        if not known or any(isinstance(item, ast.Starred) for item in call.args):
            return None, 0
        if name == CHOICE:
            chosen = [each for each in call.args[1:3] if number_of(project, module, each) is None]
            return (chosen[0] if len(chosen) == 1 else None), 1
        makes = name in ("full", "full_like")
        return (call if makes else call.args[0] if call.args else None), 1
    if not isinstance(call.func, ast.Attribute) or name in ("full", "full_like", "pad"):
        return None, 0
    return (call if name == "new_full" else call.func.value), 0


def _finding(project: Project, write: Write, half: Half, overflows: list[Dtype]) -> Finding:
    names = " and ".join(dtype.name for dtype in overflows)
    error = f"value cannot be converted to type {C_NAMES[overflows[0]]} without overflow"
    when = half.when(names) or "always"
    where = " on a GPU" if last_name(write.call.func) == CHOICE else ""
    message = f"{write.source} does not fit {names}: {when} this raises '{error}'{where}"
    return rule.at(write.module, write.number, message, half.why, _fixes(project, write, half))


def _fixes(project: Project, write: Write, half: Half) -> list[Fix]:
    dtype = _dtype_text(write)
    if dtype is None or "torch.jit.script" in write.module.document.text:
        return []  # TorchScript knows no torch.finfo of a tensor's dtype
    limit = finfo_dtype(write.module, write.number)
    torch = torch_for(write.module, write.number)
    if limit is not None and write.module.qualified(limit) is not None:
        edit, imported = write.module.replace(limit, dtype), tuple[Edit, ...]()
    elif torch is None:
        return []
    else:
        end = "min" if write.value < 0 else "max"
        edit, imported = write.module.replace(write.number, f"{torch[0]}.finfo({dtype}).{end}"), torch[1]
    raises = last_name(write.call.func) != CHOICE
    safe = raises and (limit is not None or half.certain or only_softmax_reads(write.module, write.call))
    if safe:
        why = SameResult("the number raises in the 16-bit runs, and only a softmax, or no run in float32, sees it")
        return [proved(project, "finfo", f"use the limit of {dtype}", [edit, *imported], why)]
    message = f"use the limit of {dtype}; float32 runs then see -3.4e38 where they saw {write.source}"
    return [Fix.unsafe("finfo-elsewhere", message, edit, *imported)]


def _dtype_text(write: Write) -> str | None:
    """The dtype of the tensor in source text, where evaluating it twice does no harm."""
    node: ast.expr | None = write.tensor
    if node is write.call:
        given = argument(write.call, "dtype")
        if given is not None:
            return ast.unparse(given) if attribute_chain(given) is not None else None
        like = write.call.args[0] if write.call.args else None
        node = receiver_of(write.call) if write.is_method else like
    return f"{ast.unparse(node)}.dtype" if node is not None and attribute_chain(node) is not None else None


# --- what reads the result --------------------------------------------------------------------------------------------


def only_softmax_reads(module: ModuleNames, call: ast.Call) -> bool:
    """Whether the tensor that ``call`` masks goes into a softmax next and nowhere else.

    In place (``scores.masked_fill_(...)``), assigned to one name, or handed over directly.
    """
    parent = module.parents[call]
    if _is_softmax_of(module, call):
        return True
    target: ast.expr | None = None
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target = parent.targets[0]
    elif isinstance(parent, ast.Expr) and isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_"):
        target = call.func.value
    if not isinstance(target, ast.Name):
        return False
    here = [
        item for item in module.name_loads.get(target.id, []) if function_of(module, item) is function_of(module, call)
    ]
    reads = [node for node in here if position(node) > _end(module, call)]
    first = _first_overwritten(module, target.id, call)
    seen = [node for node in reads if first is None or position(node) <= first]
    return bool(seen) and all(_is_softmax_of(module, node) for node in seen)


def _end(module: ModuleNames, node: ast.AST) -> tuple[int, int]:
    statement = module.statement_of(node)
    return statement.end_lineno or statement.lineno, statement.end_col_offset or 0


def _first_overwritten(module: ModuleNames, name: str, call: ast.Call) -> tuple[int, int] | None:
    """Where the name next gets a new value in the same block, which hides the masked one from what follows."""
    block = module.parents[module.statement_of(call)]
    scope = module.scope_of(call)
    ends = [
        _end(module, binding.node)
        for binding in scope.bindings.get(name, [])
        if isinstance(binding.node, ast.Assign)
        and position(binding.node) > position(call)
        and (module.parents[binding.node] is block or binding.node in _siblings_of_parents(module, call))
    ]
    return min(ends, default=None)


def _siblings_of_parents(module: ModuleNames, call: ast.Call) -> set[ast.AST]:
    """The statements of the blocks around ``call``, inside its function: they run whatever branch was taken."""
    found: set[ast.AST] = set()
    for parent in module.ancestors(call):
        found.update(item for block in blocks_of(parent) for item in block)
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            break
    return found


def _is_softmax_of(module: ModuleNames, node: ast.expr) -> bool:
    """Whether ``node`` is what a softmax is taken of, reshaping and casts between aside."""
    parent = module.parents[node]
    while isinstance(parent, ast.Attribute):
        outer = module.parents[parent]
        if not isinstance(outer, ast.Call) or outer.func is not parent or parent.attr not in PASSING:
            return parent.attr == "softmax" and isinstance(outer, ast.Call) and outer.func is parent
        node, parent = outer, module.parents[outer]
    if not isinstance(parent, ast.Call) or not parent.args or parent.args[0] is not node:
        return False
    name = last_name(parent.func)
    return name == "Softmax" or (name.endswith("softmax") and not name.startswith("log"))


rule = Rule.of("PF209", check)
