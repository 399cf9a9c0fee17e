"""Angles of positions or timesteps are computed in 16 bits, and their sine and cosine are wrong

## What goes wrong

Nothing raises. Far positions look alike, and long texts, late timesteps or large images come out wrong. Absolute
error of the cosine of position times inverse frequency (128 dimensions, base 10,000), mean / largest, measured with
PyTorch 2.13:

| positions | all in bfloat16 | only inverse frequencies in bfloat16 | all in float16 | only the table in bfloat16 |
|---|---|---|---|---|
| 512 | 0.037 / 1.86 | 0.017 / 0.60 | 0.004 / 0.23 | largest 0.002 |
| 2,048 | 0.12 / 2.0 | 0.065 / 1.9 | 0.016 / 0.88 | largest 0.002 |
| 8,192 | 0.24 / 2.0 | 0.18 / 2.0 | 0.077 / 2.0 | largest 0.002 |

## Why

An angle is large and only what is left of it after full turns counts: around 2,048 bfloat16 numbers are 8 apart, more
than a turn. Ways into it: `torch.arange(n, dtype=x.dtype)` and `t.type_as(inv_freq)` where that is 16-bit, an
`inv_freq` buffer that `model.to(torch.bfloat16)` or FSDP's `buffer_dtype` converts (no region raises it again),
`inv_freq.to(x.dtype)` of activations, timesteps that a caller casts to bfloat16 (`model(x,
timesteps=t.to(weight_dtype))`: 0.04 on average over 1,000 of them; float16 holds each of these), and `@`, `matmul`
and `einsum` inside an autocast region of CUDA, which lowers them whatever their operands are (`torch.outer` and `*`
are left alone; on the CPU `einsum` is, too: PyTorch 2.13 has no autocast kernel of it there). A complex buffer
(`torch.polar`) that `model.to(torch.bfloat16)` converts loses its imaginary part, and what it rotates is off by 66 %
(`model.bfloat16()` and `half()` leave it alone).
Threads: EleutherAI/gpt-neox#1003, huggingface/transformers#25681, #27700, #29285, huggingface/diffusers#13922.

## Fix

`outer` [unsafe]: `torch.einsum("i,j->ij", t, inv_freq)` becomes `torch.outer(t, inv_freq)`, which autocast leaves in
float32. `float32` [unsafe]: the positions are made in float32, and the finished sine and cosine are cast to the dtype
that they had. Both change numbers: what was wrong becomes right, and weights that were trained with the wrong table
may have got used to it. Elsewhere: compute the table in float32 (`.float()`, autocast off), cast the finished table.

## Not flagged

Tables that are computed in float32 and cast at the end; tables that a constructor makes, where no region is open, and
that are made again only where a length exceeds them; regions that settings leave off in all runs that the project
states; buffers that are cast back with a part of the model; trainers whose precision opens no region of the project's
own (DeepSpeed casts the weights instead); float64 factors, which autocast leaves alone; regions whose body only calls
models that are known and do not hold this code; tables that a model makes beside the region that it opens; regions
around definitions; products with powers (`1 / 10000**i`), which autocast computes in float32; rows and columns of a
grid, which are few; coordinates, also where the divisor counts channels; angles that come from no positions, timesteps
or frequencies (a network with sines); positions that are made without a device, on the CPU, which a region of CUDA
leaves alone; dtypes that are not certain; up to 128 positions, each of which is exact, also where a test lets no more
through (`if length > 64: raise`); positions and timesteps in
float16 times frequencies in float32, unless they are known to be more than 2,048; the dtype of activations in a
region where nothing shows that they are lowered; code that no training program of the project comes to by names, calls,
arguments and stated settings, or only where a package is missing (`except ImportError`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.classes import ProjectClass
from ....codemod.flow.frame import ASSUMED, OUTSIDE
from ....codemod.flow.lattice import Kind, Role
from ....codemod.half.half_here import Half, half_here
from ....codemod.model import Finding, Fix, Rule
from ....codemod.purpose.checked import checked_code
from ....codemod.purpose.runs import is_switched_on, is_trained, runs_of, uses
from ....codemod.python.callers import callers_of
from ....codemod.python.creations import creations_of
from ....codemod.python.names import FunctionNode, ModuleNames, checked_modules, modules_with
from ....codemod.python.numbers import number_of
from ....codemod.python.paths import guards
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP16, FP64
from ..certain_halves import certainly_half
from .angle_fixes import fix_of
from .angle_limits import positions_let_through
from .angle_origins import AngleOrigin, is_made_on_cpu, is_of_frequencies, origin_of
from .asked_dtypes import cast_by_caller, cast_to_activations, is_of_power
from .half_buffers import half_buffers

MAKING = ("torch.polar", "torch.view_as_complex")

MAX_HOPS = 4

TURNING = ("cos", "sin", "polar")
WORDS = ("bfloat16", "float16", ".half(", "autocast", "bf16", "fp16")
TAKEN = "sine or cosine is taken here"
DEFAULT_DEVICE = ("set_default_device", "set_default_tensor_type")
FEW = 128
"""Positions up to which every number that is counted is exact in 16 bits, and the angles are off by little."""
EXACT_IN_FP16 = 2048
MEASURED = {"bfloat16": "0.12", "float16": "0.016"}
"""The mean absolute error of the cosine over 2,048 positions, as in the manual's table."""
ROUNDED = {"bfloat16": "0.065", "float16": "0.013"}
"""The same where only the frequencies are rounded, and the angles are computed in float32."""


def check(project: Project) -> Iterator[Finding]:
    if not any(True for _ in project.python_documents(WORDS)):
        return
    for module in checked_code(project, TURNING, ("torch",)):
        yield from _of_module(project, module)
    yield from complex_tables(project)


def _of_module(project: Project, module: ModuleNames) -> Iterator[Finding]:
    seen: set[ast.AST] = set()
    for name in TURNING:
        for call in module.calls_by_name.get(name, []):
            angle = _angle(module, call)
            origin = origin_of(module, angle) if angle is not None else None
            found = _found(project, module, call, origin) if origin is not None else None
            if origin is not None and found is not None and origin.node not in seen:
                seen.add(origin.node)
                if is_trained(project, module, origin.node):
                    yield found


def _found(project: Project, module: ModuleNames, call: ast.Call, origin: AngleOrigin) -> Finding | None:
    last = _last(project, module, origin)
    if _is_double(project, module, origin) or (last is not None and last <= FEW):
        return None
    if positions_let_through(module, call, origin) <= FEW:
        return None
    lowered = _half(project, module, origin)
    if lowered is not None:
        half, node = lowered
        if node is not origin.node and is_of_frequencies(module, node):
            return _rounded(module, call, origin, half)
        when = "" if half.certain else " as soon as autocast lowers this"
        return _finding(module, call, origin, half, when, fix_of(module, origin, certain=half.certain))
    if is_made_at_construction(project, module, origin.node):
        return None
    passed = cast_by_caller(project, module, origin)
    if passed is not None:
        message = (
            f"{origin.what} are rounded to bfloat16 before their sine and cosine are taken, which are then off by"
            " 0.04 on average over 1,000 of them; pass them in float32"
        )
        return rule.at(module, origin.node, message, (module.place(call, TAKEN), *passed.why))
    asked = cast_to_activations(project, module, origin)
    return _finding(module, call, origin, asked[0], f" as soon as {asked[1]} is", None) if asked is not None else None


def _angle(module: ModuleNames, call: ast.Call) -> ast.expr | None:
    """``x`` of ``x.cos()``, ``torch.cos(x)``, ``torch.polar(ones, x)``."""
    if not isinstance(call.func, ast.Attribute):
        return None
    if module.qualified(call.func) in ("torch.cos", "torch.sin"):
        return call.args[0] if call.args else None
    if module.qualified(call.func) == "torch.polar":
        return call.args[1] if len(call.args) == 2 else None
    plain = call.func.attr != "polar" and not call.args and module.qualified(call.func) is None
    return call.func.value if plain else None


def _half(project: Project, module: ModuleNames, origin: AngleOrigin) -> tuple[Half, ast.expr] | None:
    """Which of the product of positions and frequencies and its factors is 16-bit, and why."""
    on_cpu = is_made_on_cpu(module, origin) and not any(True for _ in project.python_documents(DEFAULT_DEVICE))
    for node in (origin.node, *origin.factors):
        half = half_here(project, module, node, despite_casts=True) or _of_weights(project, module, node)
        if half is None or not half.reached or (not (half.certain or half.seen) and is_of_power(module, origin)):
            continue
        if node is not origin.node and half.dtypes == {FP16} and not is_of_frequencies(module, node):
            last = _last(project, module, origin)
            if last is None or last <= EXACT_IN_FP16:
                continue  # positions or timesteps that float16 holds, as far as is known
        lowered = not on_cpu and node is origin.node and _is_lowered(project, module, node)
        if half.certain or half.seen or lowered:
            return half, node
    return None


def _is_double(project: Project, module: ModuleNames, origin: AngleOrigin) -> bool:
    """Whether a factor is float64, which autocast leaves alone and which makes the product float64."""
    values = (flow_of(project).value_at(module, node, ASSUMED) for node in origin.factors)
    return any(atom.dtype == FP64 for value in values if value.kind is Kind.TENSOR for atom in value.atoms)


def _last(project: Project, module: ModuleNames, origin: AngleOrigin) -> float | None:
    """The number of positions, where it is known."""
    end = origin.counted.args[:2][-1] if origin.counted is not None and origin.counted.args else None
    return number_of(project, module, end) if end is not None else None


def _of_weights(project: Project, module: ModuleNames, node: ast.expr) -> Half | None:
    """Why it has the dtype of 16-bit weights: a constructor runs before they are cast."""
    half = certainly_half(project, module, node) or _of_buffers(project, module, node)
    return None if half is None or is_made_at_construction(project, module, node) else half


def _of_buffers(project: Project, module: ModuleNames, node: ast.expr) -> Half | None:
    value = flow_of(project).value_at(module, node, OUTSIDE)
    found = [half_buffers(project).get(atom.symbol) for atom in value.atoms if atom.role is Role.WEIGHTS]
    known = [item for item in found if item is not None]
    if value.kind is not Kind.TENSOR or not known or len(known) < len(value.atoms):
        return None
    return Half(frozenset(item.dtype for item in known), True, tuple(dict.fromkeys(item.place for item in known)))


def _is_lowered(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether a region of the project's own can be open here, and not only when a model is constructed.

    A trainer's precision may be DeepSpeed's or FSDP's, which cast weights and open no region.
    """
    opened = any(
        run.region is not None and is_switched_on(project, run) and uses(project, run, module, node)
        for run in runs_of(project, module, node)
    )
    return opened and not is_made_at_construction(project, module, node)


def _finding(
    module: ModuleNames, call: ast.Call, origin: AngleOrigin, half: Half, when: str, fix: Fix | None
) -> Finding:
    names = sorted(dtype.name for dtype in half.dtypes)
    off = " or ".join(MEASURED[name] for name in names)
    message = (
        f"angles of {origin.what} are computed in {' or '.join(names)}{when}: the further on, the more their"
        f" sine and cosine are off, over 2,048 by {off} on average; compute them in float32 and cast the finished table"
    )
    evidence = (module.place(call, TAKEN), *half.why)
    return rule.at(module, origin.node, message, evidence, [fix])


def _rounded(module: ModuleNames, call: ast.Call, origin: AngleOrigin, half: Half) -> Finding:
    names = sorted(dtype.name for dtype in half.dtypes)
    off = " or ".join(ROUNDED[name] for name in names)
    message = (
        f"the frequencies for angles of {origin.what} are rounded to {' or '.join(names)}: the further on, the more"
        f" sine and cosine are off, over 2,048 by {off} on average; keep them in float32 and cast the finished table"
    )
    return rule.at(module, origin.node, message, (module.place(call, TAKEN), *half.why))


def is_made_at_construction(project: Project, module: ModuleNames, node: ast.AST, hops: int = 0) -> bool:
    """Whether ``node`` runs in a constructor, and later only where a comparison of sizes asks for it."""
    function = module.scope_of(node).function.node
    if not isinstance(function, FunctionNode):
        return True
    if function.name == "__init__" or _is_compared(module, node):
        return True
    sites = [(item.module, item.call) for item in callers_of(project, module, function).sites]
    sites += [(module, call) for call in module.calls_by_name.get(function.name, []) if (module, call) not in sites]
    first = any(_in_constructor(*site) for site in sites)
    later = [site for site in sites if not _in_constructor(*site) and not (first and _is_compared(*site))]
    if not sites or hops >= MAX_HOPS:
        return False
    return all(is_made_at_construction(project, *site, hops + 1) for site in later)


def _in_constructor(module: ModuleNames, node: ast.AST) -> bool:
    return getattr(module.scope_of(node).function.node, "name", "") == "__init__"


def _is_compared(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a comparison of sizes decides whether this runs: ``if length > self.longest``."""
    tests = (guard.test for guard in guards(module, node))
    compared = (item for test in tests for item in ast.walk(test) if isinstance(item, ast.Compare))
    return any(isinstance(operator, ast.Gt | ast.Lt | ast.GtE | ast.LtE) for item in compared for operator in item.ops)


def complex_tables(project: Project) -> Iterator[Finding]:
    """The buffers that ``torch.polar`` makes, of models that ``to`` casts to 16 bits in a training."""
    cast = {symbol: item for symbol, item in half_buffers(project).items() if item.of_complex}
    for module in checked_modules(project, ("register_buffer",)) if cast else ():
        for call in module.calls_by_name.get("register_buffer", []):
            owner, given = module.scope_of(call).enclosing_class, call.args
            buffers = cast.get(flow_of(project).own_weights(ProjectClass(module, owner)).symbol) if owner else None
            if buffers is None or len(given) < 2 or not isinstance(given[0], ast.Constant):
                continue
            name = str(given[0].value)
            if any(other.attribute_stores.get(name) for other in modules_with(project, (name,))):
                continue  # code makes the table again: ``model.freqs_cis = table(...)`` after the cast
            made_by = creations_of(project, module, given[1])
            if made_by and all(made.module.qualified(made.call.func) in MAKING for made in made_by):
                place = made_by[0].module.place(made_by[0].call, "its numbers are complex")
                message = (
                    f"the complex table {name} loses its imaginary part, the sines, where the model is cast to"
                    f" {buffers.dtype.name}, with a warning only: what it rotates is off by two thirds; keep cosines"
                    " and sines as real numbers"
                )
                yield rule.at(module, call, message, (place, buffers.place))


rule = Rule.of("PF803", check)
