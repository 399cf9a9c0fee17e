"""A product is written into a tensor of another dtype: `out=` and `addmm_` are not helped by autocast.

## What goes wrong

`RuntimeError: Expected out tensor to have dtype c10::BFloat16, but got float instead` from `torch.matmul(..., out=x)`,
or `self and mat2 must have the same dtype, but got Float and BFloat16` from `x.addmm_(a, b)`. Often far from the cause:
in the backward pass of a fused kernel, or only once a model is loaded in another dtype than it is trained in.

## Why

Autocast casts the operands of `torch.matmul`, but not those of its `out=` form nor of `addmm_`, `addmv_`, `baddbmm_`
and `addbmm_`: buffer and operands must have one dtype already (PyTorch, "Autocast Op Reference"). A buffer that is
reused has the dtype of what it held: a saved float32 input while the gradient is bfloat16, or float32 because
`torch.empty(size, device=...)` was given no dtype. A dequantized weight has the dtype its quantization remembers.

## Fix

`guard` [safe]: the saved tensor is reused only while its dtype is that of the operand; else a new one is made. The same
numbers, one crash less, and where the dtypes differ one more tensor.

`cast` [safe]: an operand of `addmm_` and its like is cast to the dtype it meets, which does nothing where it has it.

`dtype` [safe]: the buffer is made with the dtype of the operand.

No fix where the operand has no name yet when the buffer is chosen, or the result is read from the buffer alone.

## Not flagged

`out=` that is passed through from a parameter, buffers made like an operand (`empty_like(x)`, `dtype=x.dtype`), saved
tensors that are cast before, places behind a test of the dtype, Functions with `custom_fwd(cast_inputs=...)`, whose
tensors all have one dtype, and `torch.add(out=)`, `copy_` and `+=`, which convert; places that no run comes to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....codemod.flow.analysis import Interpretation, flow_of
from ....codemod.flow.frame import ASSUMED, Autocasting, AutocastState, MixedProduct
from ....codemod.flow.lattice import UNKNOWN_VALUE, Kind, MadeHow, Role, Value
from ....codemod.half.half_runs import HalfRun, weights_in_half
from ....codemod.model import Edit, Finding, Place, Rule
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.purpose.checked import checked_code
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.runs import runs_of
from ....codemod.python.bindings import only_value
from ....codemod.python.callers import callers_of
from ....codemod.python.functions import class_of
from ....codemod.python.names import FunctionNode, ModuleNames, modules_with, resolve
from ....codemod.source.project import Project
from ....codemod.torch.autocast import autocasts_in, is_float32_island
from ....codemod.torch.dtypes import HALVES
from ....codemod.torch.tables.operations import OPERATIONS, operation, policy_of
from ..custom_functions import CustomFunction, checked_functions, custom_functions, reads_dtype
from .saved_buffers import Mismatch, asks_for_dtype, cast_to_target, in_backward

_MESSAGES = {
    "guard": "reuse the saved tensor only where it has the dtype of the operand, else make a new one",
    "cast": "cast to the dtype it meets; no effect where it already has that dtype",
    "dtype": "make the buffer with the dtype of the operand",
}
WITH_OUT = tuple(name for name in OPERATIONS if policy_of(name, "cuda") == "lower")
"""With ``out=`` autocast leaves these alone."""
IN_PLACE = tuple(f"{name}_" for name in WITH_OUT if getattr(operation(f"{name}_"), "mix", "") == "raises-destination")
"""Autocast leaves these alone, always."""
OUT = tuple(f"{before}out{after}=" for before in " (," for after in ("", " "))
"""How the argument is written; ``dropout=`` is another one."""
LOW, HALVED, FULL = "low", "halved", "float32"
VAGUE = {LOW, HALVED}
"""16-bit for certain, but either type: under autocast, or like the weights of a model that is cast to 16 bits."""
MAX_SITES = 8
"""Calls whose arguments are looked at; each is one more interpretation of the function."""
MAX_DEPTH = 1
"""A helper of a pass, and the call of that pass."""
SAID = {LOW: "16-bit (computed under autocast)", HALVED: "16-bit where the model is cast"}


def check(project: Project) -> Iterator[Finding]:
    seen = set()
    for function in checked_functions(project):
        for mismatch in in_backward(project, function):
            seen.add(mismatch.node)
            if is_reached(project, mismatch.module, mismatch.node):
                yield _finding(project, mismatch)
    for mismatch, places in in_functions(project):
        if mismatch.node not in seen and is_reached(project, mismatch.module, mismatch.node):
            yield _finding(project, mismatch, places)


def _finding(project: Project, mismatch: Mismatch, places: Iterable[Place] = ()) -> Finding:
    why = SameResult("what is written has no effect where both have one dtype; else the operation raises")
    name, edits = mismatch.fix, mismatch.edits
    fixes = [proved(project, name, _MESSAGES[name], edits, why)] if edits else []
    evidence = (*mismatch.evidence, *places, *mismatch.casts)
    return rule.at(mismatch.module, mismatch.node, mismatch.message, evidence, fixes)


def in_functions(project: Project) -> Iterator[tuple[Mismatch, tuple[Place, ...]]]:
    """Every such product, with what makes its function run under autocast."""
    if flow_of(project).changes_default_dtype:
        return
    called = [f"{name}(" for name in (*IN_PLACE, *WITH_OUT)]
    for module in checked_code(project, (*IN_PLACE, *OUT), ("torch",), called):
        for function in _writing_functions(module):
            yield from _in_function(project, module, function)


def _writing_functions(module: ModuleNames) -> list[FunctionNode]:
    calls = [call for name in IN_PLACE for call in module.calls_by_name.get(name, [])]
    named = [call for name in WITH_OUT for call in module.calls_by_name.get(name, [])]
    calls += [call for call in named if any(item.arg == "out" for item in call.keywords)]
    nodes = [module.scope_of(call).function.node for call in calls]
    return [node for node in dict.fromkeys(nodes) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _in_function(
    project: Project, module: ModuleNames, function: FunctionNode
) -> Iterator[tuple[Mismatch, tuple[Place, ...]]]:
    on, places = _starts_under_autocast(project, module, function)
    state = ASSUMED if on else AutocastState(Autocasting.MAYBE)
    done = flow_of(project).observed(module, function, state)
    found = list(_mismatches(project, module, done))
    yield from ((item, places) for item in found)
    if not on:
        known = {item.node for item in found}
        for handed in handed_to(project, module, function, state):
            for item in _mismatches(project, module, flow_of(project).observed(module, function, state, handed.names)):
                if item.node not in known:
                    known.add(item.node)
                    yield item, (handed.place,)


def _mismatches(project: Project, module: ModuleNames, done: Interpretation) -> Iterator[Mismatch]:
    for product in done.record.products.values():
        if product.target is not None and not asks_for_dtype(module, product.node):
            found = _mismatch(project, module, product)
            if found is not None:
                yield found


def _starts_under_autocast(
    project: Project, module: ModuleNames, function: FunctionNode
) -> tuple[bool, tuple[Place, ...]]:
    """Whether the function is decorated with autocast, or is the forward pass of a module that training runs."""
    for item in autocasts_in(project, module):
        if item.node in function.decorator_list:
            on = not is_float32_island(project, item)
            return on, (module.place(item.node, "runs under autocast"),) if on else ()
    owner = module.scope_of(function)
    if function.name != "forward" or not isinstance(owner.node, ast.ClassDef):
        return False, ()
    is_module = any(resolve(project, module, base) == "torch.nn.Module" for base in owner.node.bases)
    runs = runs_of(project, module, function) if is_module else ()
    return bool(runs), tuple(run.place for run in runs[:1])


def _mismatch(project: Project, module: ModuleNames, product: MixedProduct) -> Mismatch | None:
    if product.target is None or not isinstance(product.node, ast.Call):
        return None
    node, held = product.target
    kinds = _Kinds(weights_in_half(project))
    operands = [(item, value) for item, value in product.operands if kinds.of(value)]
    odd = [(item, value) for item, value in operands if kinds.clash(held, value)]
    pairs = [(first, second) for first in operands for second in operands if kinds.clash(first[1], second[1])]
    if not odd and not pairs:
        return None
    if isinstance(node, ast.IfExp) and reads_dtype(node.test):
        return None
    shown = list({kinds.of(value): (item, value) for item, value in reversed(odd or pairs[0])}.values())
    halved = [value.only.symbol for _, value in shown if value.only is not None and kinds.of(value) == HALVED]
    form = f"{ast.unparse(node)}.{product.operation}" if product.in_place else "out="
    return Mismatch(
        module,
        product.node,
        f"{form} needs tensors of one dtype, and autocast does not cast for it: "
        + (f"{ast.unparse(node)} is {kinds.said(held)}, " if odd else "")
        + " and ".join(f"{ast.unparse(item)[:40]} is {kinds.said(value)}" for item, value in shown[:2]),
        tuple(module.place(item, f"{kinds.said(value)} here") for item, value in shown),
        *_fix(project, module, product, operands, kinds),
        tuple(kinds.halved[symbol].cast for symbol in halved),
    )


@dataclass(frozen=True, slots=True)
class _Kinds:
    """What tensors are for certain; ``halved``: the symbols of weights that some program casts to 16 bits."""

    halved: Mapping[str, HalfRun]

    def of(self, value: Value) -> str:
        """What the tensor is for certain; "" where that is not known."""
        atom = value.only
        if atom is None:
            return ""
        if atom.role is Role.AUTOCAST or (atom.made is MadeHow.AUTOCAST and atom.dtype in HALVES):
            return LOW
        if atom.role is Role.WEIGHTS and atom.symbol in self.halved:
            return HALVED
        return FULL if atom.is_float32 else atom.dtype.name if atom.dtype in HALVES and atom.dtype is not None else ""

    def clash(self, first: Value, second: Value) -> bool:
        """Whether two tensors certainly have two dtypes."""
        kinds = {self.of(first), self.of(second)}
        return "" not in kinds and len(kinds) == 2 and (not kinds & VAGUE or FULL in kinds)

    def said(self, value: Value) -> str:
        return SAID.get(self.of(value), self.of(value))


def _fix(
    project: Project,
    module: ModuleNames,
    product: MixedProduct,
    operands: Sequence[tuple[ast.expr, Value]],
    kinds: _Kinds,
) -> tuple[str, tuple[Edit, ...]]:
    """The name of the fix and its edits; none where it cannot be made."""
    if product.target is None:
        return "", ()
    target, held = product.target
    halved = any(kinds.of(value) == HALVED for _, value in operands)
    if halved and len(operands) < len(product.operands):
        return "", ()  # what is not known may have either dtype
    if product.in_place and not halved:  # a sum keeps the precision of what is summed into
        return "cast", cast_to_target(module, target, held, operands)
    made = _made_here(project, module, target)
    if made is None or len({kinds.of(value) for _, value in operands}) != 1 or kinds.of(held) != FULL:
        return "", ()
    name = next((item for item, _ in operands if isinstance(item, ast.Name) and _is_older(module, item, made)), None)
    return ("dtype", (module.set_argument(made, "dtype", f"{name.id}.dtype"),)) if name else ("", ())


def _made_here(project: Project, module: ModuleNames, node: ast.expr) -> ast.Call | None:
    """The factory call without a dtype that makes the buffer in this function."""
    made = only_value(module, node) if isinstance(node, ast.Name) else None
    name = resolve(project, module, made.func) if isinstance(made, ast.Call) else None
    if not isinstance(made, ast.Call) or name is None or not name.startswith("torch."):
        return None
    clear = all(item.arg not in ("dtype", None) for item in made.keywords)
    known = operation(name)
    return made if clear and known is not None and known.result == "factory" else None


def _is_older(module: ModuleNames, name: ast.Name, made: ast.Call) -> bool:
    """Whether the operand has its value before the buffer is made, and keeps it."""
    lines = [getattr(item.node, "lineno", 0) for item in module.scope_of(name).lookup(name.id)]
    return bool(lines) and max(lines) < made.lineno


@dataclass(frozen=True, slots=True, eq=False)
class HandedCall:
    """One call of a function: what its parameters hold there, and what a report says of it."""

    names: Mapping[str, Value]
    place: Place


def handed_to(
    project: Project, module: ModuleNames, function: FunctionNode, state: AutocastState, depth: int = 0
) -> Iterator[HandedCall]:
    """The calls that hand over at least one tensor of known dtype, from callers that open no region of their own."""
    for caller, call, arguments in _calls(project, module, function):
        if any(True for _ in autocasts_in(project, caller)):
            continue  # whether the call stands inside of it decides everything
        place = caller.place(call, f"{function.name} is called with these here")
        for done in _runs(project, caller, call, state, depth):
            values = {name: done.record.values.get(node, UNKNOWN_VALUE) for name, node in arguments.items()}
            known = {name: value for name, value in values.items() if value.kind is Kind.TENSOR and value.atoms}
            if known:
                yield HandedCall(known, place)


def _runs(
    project: Project, caller: ModuleNames, call: ast.Call, state: AutocastState, depth: int
) -> Iterator[Interpretation]:
    """What the caller did, for itself, and then as it is called."""
    holder, analysis = caller.scope_of(call).function.node, flow_of(project)
    if isinstance(holder, FunctionNode):
        yield analysis.observed(caller, holder, state)
        if depth < MAX_DEPTH:
            for handed in handed_to(project, caller, holder, state, depth + 1):
                yield analysis.observed(caller, holder, state, handed.names)


def _calls(
    project: Project, module: ModuleNames, function: FunctionNode
) -> Iterator[tuple[ModuleNames, ast.Call, dict[str, ast.expr]]]:
    owner = next((item for item in custom_functions(project) if item.forward is function), None)
    if owner is not None:
        yield from _applications(project, owner)
        return
    for site in callers_of(project, module, function).sites[:MAX_SITES]:
        yield site.module, site.call, site.target.arguments(site.call)


def _applications(
    project: Project, function: CustomFunction
) -> Iterator[tuple[ModuleNames, ast.Call, dict[str, ast.expr]]]:
    """``Name.apply(a, b)`` is the call of ``forward(ctx, a, b)``."""
    for module in modules_with(project, (f"{function.name}.apply",)):
        for call in module.calls_by_name.get("apply", [])[:MAX_SITES]:
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            found = class_of(project, module, receiver) if isinstance(receiver, ast.Name) else None
            is_spread = any(isinstance(item, ast.Starred) for item in call.args)
            if found is not None and found[1].node is function.node and not is_spread:
                yield module, call, dict(zip((item.arg for item in function.inputs), call.args, strict=False))


rule = Rule.of("PF205", check)
