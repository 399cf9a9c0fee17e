"""float16 is used where bfloat16 is supported, or bfloat16 where it is not.

## What goes wrong

`fp16=torch.cuda.is_bf16_supported(), bf16=not torch.cuda.is_bf16_supported()` asks the right question and swaps the
answers. New GPUs train in float16, with its overflows (`loss: nan`, a scale that keeps falling); on those without
bfloat16 a trainer refuses to start (`ValueError: Your setup doesn't support bf16/gpu`) or emulates it, much slower.
A branch for bfloat16 that was copied from the one for float16 (`if mode == "bf16": dtype = torch.float16`) casts models
to float16 in a run in bfloat16: activations meet weights of another type, and large ones overflow.
`torch.float16 if torch.cuda.is_bf16_supported() else torch.float32` asks about a type that is then not used: float16
needs no such test, and GPUs without bfloat16 run in float32 although they have float16.

## Why

`torch.cuda.is_bf16_supported()` is true where bfloat16 can be used: compute capability 8.0 on, and since PyTorch 2.3
wherever it can be emulated. float16 runs on every GPU that PyTorch supports.

## Fix

`swap` [unsafe]: the two values, or branches, change places; the run changes its precision. Where only one side names a
16-bit type the finding has no fix. `bfloat16` [unsafe]: the copied branch picks bfloat16.

## Not flagged

`fp16=not is_bf16_supported()`; answers that other tests help to decide; switches whose names say that something is
supported (`fp16_supported`); a branch for bfloat16 that is no copy of one for float16, or asks DeepSpeed for what no
file configures; branches in which it cannot be seen which dtype is chosen; tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Edit, Finding, Fix, Rule
from ....codemod.purpose.checked import checked_code
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP16, FP32
from ..choices import WORDS, Choice, choices_by, flag_dtype, is_bf16_gate
from .copied_branches import copied_branches


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, WORDS):
        for call in module.calls:
            if is_bf16_gate(project, module, call.func):
                for choice in choices_by(project, module, call):
                    yield from _judged(module, call, choice)
    for module in checked_code(project, ("bf16", "bfloat16"), ("torch.float16", "torch.half")):
        yield from (rule.found(*draft) for draft in copied_branches(project, module))


def _judged(module: ModuleNames, call: ast.Call, choice: Choice) -> Iterator[Finding]:
    message = _message(choice) if choice.is_plain else ""
    if message:
        apart = choice.node not in (call, *module.ancestors(call))
        evidence = [module.place(call, "the question")] if apart else []
        yield rule.at(module, choice.flag or choice.node, message, evidence, [_swap(module, choice)])


def _message(choice: Choice) -> str:
    fp16, bf16 = frozenset({FP16}), frozenset({BF16})
    if choice.yes == fp16 and choice.no == bf16:
        return "float16 is used where bfloat16 is supported, and bfloat16 where it is not"
    if choice.no == bf16 and BF16 not in choice.yes and (choice.yes or choice.flag is not None):
        return "bfloat16 is used where it is not supported"
    if choice.yes == fp16 and choice.no <= {FP32}:
        return "float16 is used where bfloat16 is supported; float16 itself does not need it"
    return ""


def _swap(module: ModuleNames, choice: Choice) -> Fix | None:
    edits: tuple[Edit, ...] = ()
    if isinstance(choice.node, ast.IfExp) and {FP16, BF16} == choice.yes | choice.no:
        edits = _exchanged(module, choice.node.body, choice.node.orelse)
    elif isinstance(choice.node, ast.keyword) and choice.flag is not None:
        other = _opposite(module, choice.node)
        edits = _exchanged(module, choice.node.value, other) if other is not None else ()
    return Fix.unsafe("swap", "swap the two; the run changes its precision", *edits) if edits else None


def _exchanged(module: ModuleNames, first: ast.expr, second: ast.expr) -> tuple[Edit, ...]:
    return module.replace(first, module.source(second)), module.replace(second, module.source(first))


def _opposite(module: ModuleNames, flag: ast.keyword) -> ast.expr | None:
    """The value of the other switch of the same call, where it is the opposite of this one."""
    call = module.parents.get(flag)
    mine, dtype = ast.unparse(flag.value), flag_dtype(flag.arg or "")
    for item in call.keywords if isinstance(call, ast.Call) else []:
        theirs = ast.unparse(item.value)
        is_opposite = f"not {mine}" == theirs or mine == f"not {theirs}"
        if is_opposite and flag_dtype(item.arg or "") not in (None, dtype):
            return item.value
    return None


rule = Rule.of("PF605", check)
