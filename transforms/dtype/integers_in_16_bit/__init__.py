"""Token ids, labels, timesteps or positions are kept in 16 bits, where most integers do not exist.

## What goes wrong

`{k: v.to(torch.bfloat16) for k, v in batch.items()}` casts `input_ids` and `labels` too. An embedding then stops with
`Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int`, a loss with `expected
target dtype to be Long or Byte`, on a GPU with `"nll_loss_forward_reduce_cuda_kernel_2d_index" not implemented for
'BFloat16'`. Where the ids are made integers again, nothing stops: token 32001 has become 32000, timestep 999 has become
1000. `torch.arange(n, dtype=torch.bfloat16)` counts 256, 256, 258, 260: 4096 positions have 769 values.

## Why

bfloat16 has 8 significant bits and holds all integers up to 256, float16 has 11 and holds them up to 2048 (and nothing
beyond 65504). Autocast does not touch integers; explicit casts do.

## Fix

`floating-only` [safe]: in a comprehension over a batch that holds token ids, only floating-point tensors are cast; the
embedding stopped before. `spare-integers` [unsafe]: the same edit where only labels are known, where a later
`.long()` hides the mistake (the numbers change), or in a function that is passed the batch, as others may pass it
integers that are to be cast. `keep-integers` [unsafe]: the cast of ids goes away.
`count-in-float32` [display-only]: `arange` counts in float32; where 16-bit tensors meet what is computed from it, a
cast belongs, which is the owner's to place.

## Not flagged

Casts that test `is_floating_point`; batches of which no integer entry is known; a processor's or tokenizer's own `.to`,
which knows; timesteps that are continuous or made as floats; embeddings of timesteps; `arange` of up to 257 (bfloat16)
or 2049 (float16) numbers, of an unknown number in float16, with a step, or divided at once (frequencies); dtypes that
are not certain; places that no run comes to.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.frame import Autocasting, AutocastState
from ....codemod.flow.lattice import INT64
from ....codemod.half.atom_places import chain_of
from ....codemod.model import Finding, Fix, Rule
from ....codemod.proof.needs import Known
from ....codemod.proof.proving import proved
from ....codemod.purpose.checked import checked_code
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import argument, receiver_of
from ....codemod.python.keywords import key_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.numbers import number_of
from ....codemod.source.project import Project
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import BF16, Dtype
from ....codemod.torch.tables.libraries import COUNTS, TOKEN_IDS
from .batch_casts import LAST_EXACT, BatchCast, batch_casts, coarsest

WORDS = ("bfloat16", "float16", ".half(", "cast_dtype", "weight_dtype")
CASTS = ("half", "bfloat16", "to")

OTHERS = ("pixel", "image", "feature", "embed", "audio")
"""Words in the names of what holds no integers."""
INTEGERS = ("arange", ".items()", "input_ids", "randint", ".long()", "labels", "argmax")


def check(project: Project) -> Iterator[Finding]:
    for module in checked_code(project, WORDS, INTEGERS):
        for batch in batch_casts(project, module):
            if is_reached(project, module, batch.cast):
                yield _cast_batch(project, batch)
        yield from _cast_integers(project, module)
        yield from _counted(project, module)


def _cast_batch(project: Project, batch: BatchCast) -> Finding:
    document = batch.module.document
    message = (
        f"this casts every tensor of the batch to {batch.dtype.name}, {batch.entry} too: ids above"
        f" {LAST_EXACT[batch.dtype]} are rounded, and an embedding or a loss refuses them"
    )
    evidence = (batch.there.place(batch.evidence, f"the batch holds {batch.entry}"),)
    fixes = []
    if batch.value is not None:
        span = document.span(batch.cast)
        kept = batch.without_dtype or document.source(document.span(batch.value))
        tested = document.source(document.span(batch.value))
        edit = batch.module.replace(span, span, f" if {tested}.is_floating_point() else {kept}")
        stops = Known(batch.stops, "runs that round the integers go on today")
        name = "floating-only" if batch.stops else "spare-integers"
        fixes.append(proved(project, name, "cast only floating-point tensors", [edit], stops))
    return rule.at(batch.module, batch.cast, message, evidence, fixes)


def _cast_integers(project: Project, module: ModuleNames) -> Iterator[Finding]:
    for name in CASTS:
        for call in module.calls_by_name.get(name, []):
            tensor = receiver_of(call)
            if tensor is None or not _may_matter(module, call):
                continue
            dtype = coarsest(project, module, call)  # before the flow, which costs more
            if dtype is None:
                continue
            source = _source(project, module, tensor) or _named_ids(module, call)
            if source is None or source.largest <= LAST_EXACT[dtype] or not is_reached(project, module, call):
                continue
            text = module.document.source(module.document.span(tensor))
            message = (
                f"{text} holds integers, and {dtype.name} is exact up to {LAST_EXACT[dtype]} only:"
                " larger ones are rounded"
            )
            evidence = (module.place(source.node, source.why),)
            yield rule.at(module, call, message, evidence, _without_cast(module, call, tensor))


def _may_matter(module: ModuleNames, call: ast.Call) -> bool:
    """Whether what a cast gives stands for itself, and still for integers.

    Not where it only joins a computation with 16-bit tensors (``mask * ids.to(dtype)``, ``ids.half() / n``), or where
    the result is called by another name: ``pixel_values=input_ids.to(dtype)``.
    """
    parent = module.parents[call]
    name = (parent.arg if isinstance(parent, ast.keyword) else key_of(parent, call)) or ""
    return not isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Compare) and not any(word in name for word in OTHERS)


@dataclass(frozen=True, slots=True, eq=False)
class IntegerSource:
    """Why a tensor holds integers."""

    node: ast.AST
    largest: float
    """The largest integer it can hold; infinity where that is not known but large."""
    why: str


def _source(project: Project, module: ModuleNames, node: ast.expr) -> IntegerSource | None:
    """Where the flow saw the integers in ``node`` begin; None where it may hold anything else, or few numbers."""
    atom = flow_of(project).value_at(module, node, AutocastState(Autocasting.MAYBE)).only
    steps = chain_of(atom) if atom is not None and atom.dtype == INT64 else []
    if not steps or atom is None:
        return None
    start = steps[0].node
    if isinstance(start, ast.Call):
        return _random(start) if getattr(start.func, "attr", "") == "randint" else None
    return IntegerSource(start, math.inf, steps[0].text) if steps[0].path == module.document.path else None


def _random(node: ast.Call) -> IntegerSource | None:
    """``torch.randint(low, high, ...)``: the end where it is written, or what a library's count is by default."""
    high = argument(node, "high")
    if high is None and node.args:
        pair = len(node.args) > 1 and not isinstance(node.args[1], ast.Tuple | ast.List)
        high = node.args[1] if pair else node.args[0]
    if isinstance(high, ast.Constant) and isinstance(high.value, int):
        return IntegerSource(node, high.value - 1, f"integers below {high.value}")
    count = COUNTS.get(high.attr) if isinstance(high, ast.Attribute) else None
    return IntegerSource(node, count - 1, f"integers below {count} by default") if count is not None else None


def _named_ids(module: ModuleNames, cast: ast.Call) -> IntegerSource | None:
    """``input_ids = batch[0].to(device, dtype)``: the result is called token ids."""
    parent = module.parents[cast]
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    name = getattr(target, "id", getattr(target, "attr", ""))
    return IntegerSource(target, math.inf, "token ids") if target is not None and name in TOKEN_IDS else None


def _without_cast(module: ModuleNames, call: ast.Call, tensor: ast.expr) -> list[Fix]:
    if len(call.args) + len(call.keywords) > 1:
        return []
    edit = module.replace(call, tensor)
    text = "keep the integers; operations that need a floating type cast them or raise"
    return [Fix.unsafe("keep-integers", text, edit)]


def _counted(project: Project, module: ModuleNames) -> Iterator[Finding]:
    for call in module.calls_by_name.get("arange", []):
        given = argument(call, "dtype")
        if given is None or module.qualified(call.func) != "torch.arange":
            continue
        found = constants_of(project, module, given)
        dtypes = [dtype for dtype in LAST_EXACT if dtype in found]
        if len(found) != 1 or not dtypes or not _counts_far(project, module, call, dtypes[0]):
            continue
        if not is_reached(project, module, call):
            continue
        message = (
            f"{dtypes[0].name} counts exactly up to {LAST_EXACT[dtypes[0]]}: beyond, neighboring positions are equal"
        )
        yield rule.at(module, call, message, (), [_in_float32(module, call)])


def _counts_far(project: Project, module: ModuleNames, call: ast.Call, dtype: Dtype) -> bool:
    """Whether ``arange`` goes by ones to an end that is unknown, or known to be too far."""
    keywords = {item.arg for item in call.keywords}
    if not 1 <= len(call.args) <= 2 or keywords & {"step", "end", "start", None}:
        return False
    parent = module.parents[call]
    if isinstance(parent, ast.BinOp):
        return False
    end = number_of(project, module, call.args[-1])
    return dtype == BF16 and _is_length(call.args[-1]) if end is None else end - 1 > LAST_EXACT[dtype]


def _is_length(node: ast.expr) -> bool:
    """Whether the end is a number of positions by its name; widths, heads and classes are few."""
    words = ast.unparse(node).lower()
    return any(word in words for word in ("length", "seq", "max_len", "position", "token", "timestep", "context"))


def _in_float32(module: ModuleNames, call: ast.Call) -> Fix:
    torch = ast.unparse(call.func).rpartition(".")[0] or "torch"
    edit = module.set_argument(call, "dtype", f"{torch}.float32")
    text = "count in float32; cast what is computed from the positions, where 16-bit tensors meet it"
    return Fix.shown("count-in-float32", text, edit)


rule = Rule.of("PF214", check)
