"""bfloat16 is chosen by a compute capability that does not mean bfloat16.

## What goes wrong

`torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 7 else torch.float16` chooses bfloat16 on V100 and T4, which
only emulate it: many times slower, and some operations have no kernel. `> 8` leaves out A100 and RTX 30 (8.0, 8.6),
which have it: they train in float16. `torch.cuda.get_device_capability() >= 8` raises `TypeError: '>=' not supported
between instances of 'tuple' and 'int'`, and `== 8` is never true. `torch.cuda.get_device_capability[0]` raises
`TypeError: 'function' object is not subscriptable`.

## Why

NVIDIA computes natively in bfloat16 from compute capability 8.0 on. `get_device_capability` returns a pair of numbers,
`(8, 0)` for an A100.

## Fix

`bound` [unsafe]: the comparison asks for 8 (`8, 0` where pairs are compared); on some GPUs the other branch is taken
from then on. `pair` [unsafe]: a pair is compared with a pair, `>= (8, 0)`. `call` [unsafe]: the function is called.

## Not flagged

Comparisons that decide about float16, float8, kernels or attention; bounds from 8.0 up that are written with `>=`;
tests that ask for more than the capability (`and torch.cuda.is_bf16_supported()`); test files.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ...codemod.model import Finding, Fix, Rule
from ...codemod.purpose.checked import checked_code
from ...codemod.python.bindings import only_value, position_in_targets
from ...codemod.python.names import ModuleNames
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import BF16
from .choices import Choice, choices_by

WORDS = ("get_device_capability", "get_device_properties")
MORE = ("capab", "major", "minor", "bf16", "bfloat16", "support", "ampere")
"""Parts of other conditions that ask for bfloat16 too."""
HIGHEST = 20
"""Numbers above are no major numbers: 80 stands for 8.0."""


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, WORDS):
        yield from _subscripted(module)
        for comparison in comparisons(module):
            if comparison.fails:
                yield _pair_with_number(module, comparison)
            else:
                yield from _wrong_bound(project, module, comparison)


def _subscripted(module: ModuleNames) -> Iterator[Finding]:
    for node in module.of_type(ast.Subscript):
        if module.qualified(node.value) in (ASKS, PROPERTIES) and not module.is_ambiguous(node.value):
            what = ast.unparse(node.value)
            fix = Fix.unsafe("call", f"call {what}", module.append(node.value, "()"))
            fixes = [fix] if module.qualified(node.value) == ASKS else []
            yield rule.at(module, node, f"{what} is a function that is not called (TypeError)", fixes=fixes)


def _pair_with_number(module: ModuleNames, comparison: CapabilityComparison) -> Finding:
    node, bound = comparison.node, comparison.bound
    effect = "TypeError" if comparison.is_order else "it is never equal to one number"
    message = f"{ast.unparse(node.left)} is a pair such as (8, 0): {effect}"
    fixes = []
    if isinstance(bound, int) and bound < HIGHEST and isinstance(node.ops[0], ast.GtE | ast.Lt):
        edit = module.replace(node.comparators[0], f"({bound}, 0)")
        fixes = [Fix.unsafe("pair", f"compare with ({bound}, 0)", edit)]
    return rule.at(module, node, message, fixes=fixes)


def _wrong_bound(project: Project, module: ModuleNames, comparison: CapabilityComparison) -> Iterator[Finding]:
    if not comparison.is_order:
        return
    for choice in choices_by(project, module, comparison.node):
        bf16 = frozenset({BF16})
        if choice.yes == bf16:
            chosen = comparison.held_by()
        elif choice.no == bf16 and choice.is_plain:
            chosen = frozenset(GPUS) - comparison.held_by()
        else:
            continue
        message = _message(comparison, chosen)
        if message and not _asks_more(module, comparison.node, choice):
            is_near = choice.node in (comparison.node, *module.ancestors(comparison.node))
            where = [] if is_near else [module.place(choice.node, "the choice")]
            yield rule.at(module, comparison.node, message, where, [_fix(module, comparison)])
            return


def _message(comparison: CapabilityComparison, chosen: frozenset[tuple[int, int]]) -> str:
    if FIRST_NATIVE in chosen and any(gpu < FIRST_NATIVE for gpu in chosen):
        lowest = min(chosen)
        return f"bfloat16 is chosen from compute capability {lowest[0]}.{lowest[1]} on; native bfloat16 starts at 8.0"
    is_open = isinstance(comparison.node.ops[0], ast.Gt | ast.LtE)
    if is_open and FIRST_NATIVE not in chosen and (9, 0) in chosen and comparison.bound in (8, 8.0, FIRST_NATIVE):
        return "GPUs of compute capability 8.0 (A100), which have bfloat16, are left out"
    return ""


def _asks_more(module: ModuleNames, node: ast.expr, choice: Choice) -> bool:
    """Whether another condition, beside the comparison, asks for bfloat16."""
    if choice.is_plain:
        return False
    whole = node
    while isinstance(above := module.parents.get(whole), ast.BoolOp | ast.UnaryOp):
        whole = above
    others = ast.unparse(whole).replace(ast.unparse(node), "").lower()
    return any(word in others for word in MORE)


def _fix(module: ModuleNames, comparison: CapabilityComparison) -> Fix:
    node = comparison.node
    asks = ">=" if isinstance(node.ops[0], ast.Gt | ast.GtE) else "<"
    bound = "(8, 0)" if comparison.is_pair else "8"
    edit = module.replace(node, f"{module.source(node.left)} {asks} {bound}")
    return Fix.unsafe("bound", "ask for compute capability 8.0; some GPUs take the other branch", edit)


# --- comparisons of a compute capability ------------------------------------------------------------------------------


ASKS = "torch.cuda.get_device_capability"
PROPERTIES = "torch.cuda.get_device_properties"
FIRST_NATIVE = (8, 0)
GPUS = ((6, 0), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
"""Compute capabilities of GPUs in use: P100, GTX 10, V100, T4, A100, RTX 30, RTX 40, H100, B200, RTX 50."""
OPERATORS = {
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
CapabilityBound: TypeAlias = "int | float | tuple[int, ...]"


@dataclass(frozen=True, slots=True, eq=False)
class CapabilityComparison:
    """``capability <operator> bound``, of the pair of numbers or of the major one."""

    node: ast.Compare
    is_pair: bool
    bound: CapabilityBound

    @property
    def fails(self) -> bool:
        """Whether a pair is compared with a single number."""
        return self.is_pair and not isinstance(self.bound, tuple)

    @property
    def is_order(self) -> bool:
        """Whether it asks for more or less."""
        return not isinstance(self.node.ops[0], ast.Eq | ast.NotEq)

    def held_by(self) -> frozenset[tuple[int, int]]:
        """The GPUs that it holds for."""
        compare = OPERATORS[self.node.ops[0].__class__]
        return frozenset(gpu for gpu in GPUS if compare(gpu if self.is_pair else gpu[0], self.bound))


def comparisons(module: ModuleNames) -> Iterator[CapabilityComparison]:
    """Every comparison of a capability with a number, or numbers, that is written there."""
    for node in module.of_type(ast.Compare):
        if len(node.ops) != 1 or node.ops[0].__class__ not in OPERATORS:
            continue
        bound = _bound(node.comparators[0])
        if bound is None:
            continue
        if _is_pair(module, node.left):
            yield CapabilityComparison(node, True, bound)
        elif _is_major(module, node.left) and not isinstance(bound, tuple):
            yield CapabilityComparison(node, False, bound)


def _bound(node: ast.expr) -> CapabilityBound | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Tuple) and len(node.elts) == 2:
        values = [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, int)]
        return tuple(values) if len(values) == 2 else None
    return None


def _is_pair(module: ModuleNames, node: ast.expr) -> bool:
    value = only_value(module, node) if isinstance(node, ast.Name) else node
    return isinstance(value, ast.Call) and module.qualified(value.func) == ASKS and not module.is_ambiguous(value.func)


def _is_major(module: ModuleNames, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        value = only_value(module, node)
        return _reads_major(module, value) if value is not None else _is_unpacked(module, node)
    return _reads_major(module, node)


def _reads_major(module: ModuleNames, node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == 0 and _is_pair(module, node.value)
    if isinstance(node, ast.Attribute) and node.attr == "major":
        owner = only_value(module, node.value) if isinstance(node.value, ast.Name) else node.value
        return isinstance(owner, ast.Call) and module.qualified(owner.func) == PROPERTIES
    return False


def _is_unpacked(module: ModuleNames, node: ast.Name) -> bool:
    """``major, minor = torch.cuda.get_device_capability()``."""
    bindings = module.bindings_of(node)
    statement = bindings[0].node if len(bindings) == 1 else None
    if not isinstance(statement, ast.Assign) or position_in_targets(statement, node.id) != 0:
        return False
    return _is_pair(module, statement.value)


rule = Rule.of("PF607", check)
