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
from collections.abc import Iterator

from ....codemod.model import Finding, Fix, Rule
from ....codemod.purpose.files import is_test
from ....codemod.python.names import ModuleNames, names_of
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16
from ..choices import Choice, choices_by
from .capabilities import ASKS, FIRST_NATIVE, GPUS, PROPERTIES, Comparison, comparisons

WORDS = ("get_device_capability", "get_device_properties")
MORE = ("capab", "major", "minor", "bf16", "bfloat16", "support", "ampere")
"""Parts of other conditions that ask for bfloat16 too."""
HIGHEST = 20
"""Numbers above are no major numbers: 80 stands for 8.0."""


def check(project: Project) -> Iterator[Finding]:
    for document in project.checked_documents(WORDS):
        if is_test(document.path):
            continue
        module = names_of(project, document)
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


def _pair_with_number(module: ModuleNames, comparison: Comparison) -> Finding:
    node, bound = comparison.node, comparison.bound
    effect = "TypeError" if comparison.is_order else "it is never equal to one number"
    message = f"{ast.unparse(node.left)} is a pair such as (8, 0): {effect}"
    fixes = []
    if isinstance(bound, int) and bound < HIGHEST and isinstance(node.ops[0], ast.GtE | ast.Lt):
        edit = module.replace(node.comparators[0], f"({bound}, 0)")
        fixes = [Fix.unsafe("pair", f"compare with ({bound}, 0)", edit)]
    return rule.at(module, node, message, fixes=fixes)


def _wrong_bound(project: Project, module: ModuleNames, comparison: Comparison) -> Iterator[Finding]:
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


def _message(comparison: Comparison, chosen: frozenset[tuple[int, int]]) -> str:
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


def _fix(module: ModuleNames, comparison: Comparison) -> Fix:
    node = comparison.node
    asks = ">=" if isinstance(node.ops[0], ast.Gt | ast.GtE) else "<"
    bound = "(8, 0)" if comparison.is_pair else "8"
    edit = module.replace(node, f"{module.source(node.left)} {asks} {bound}")
    return Fix.unsafe("bound", "ask for compute capability 8.0; some GPUs take the other branch", edit)


rule = Rule.of("PF607", check)
