"""Products in the backward pass of an autograd Function that write into a tensor whose dtype can be another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...codemod.model import Operation, ReplaceExpression
from ...codemod.purpose.runs import runs_around
from ...codemod.python.bindings import reaching
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.python.paths import guards
from ...codemod.source.project import Project
from .custom_functions import CustomFunction
from .passes import Passes, passes_of
from .role_frame import Meeting
from .roles import FULL, INPUT, LOW, Role, differ

MAX_EVIDENCE = 20


@dataclass(frozen=True, slots=True, eq=False)
class Mismatch:
    """One product whose buffer or operands can have two dtypes, and the edits that make them agree."""

    module: ModuleNames
    node: ast.expr
    """What to point at."""
    message: str
    evidence: tuple[tuple[ast.AST, str], ...]
    fix: str = ""
    """The name of the fix: ``guard``, ``cast``, ``dtype``; empty for none."""
    operations: tuple[Operation, ...] = ()


def in_backward(project: Project, function: CustomFunction) -> Iterator[Mismatch]:
    """Every such product of one Function."""
    if not any(isinstance(node, ast.Call) and _may_write(node) for node in ast.walk(function.backward)):
        return
    passes = passes_of(project, function)
    if passes is None or not _can_run_under_autocast(project, function):
        return
    seen: set[ast.AST] = set()
    mixed: list[Mismatch] = []
    for meeting in passes.backward:
        if meeting.target is None or asks_for_dtype(function.module, meeting.call):
            continue
        found = _reused(function, passes, meeting) or _dequantized(function, meeting)
        if found is None:
            mixed += _mixed(function, meeting)
        elif found.node not in seen:
            seen.add(found.node)
            yield found
    if mixed:
        yield _together(mixed)


def _may_write(node: ast.Call) -> bool:
    in_place = isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
    return in_place or any(item.arg == "out" for item in node.keywords)


def _can_run_under_autocast(project: Project, function: CustomFunction) -> bool:
    return function.forward_amp is not None or bool(runs_around(project, function.module.document.path))


def asks_for_dtype(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a condition around the place compares dtypes."""
    return any(compares_dtype(guard.test) for guard in guards(module, node))


def compares_dtype(test: ast.expr) -> bool:
    """Whether an expression reads a dtype."""
    return any(isinstance(item, ast.Attribute) and item.attr == "dtype" for item in ast.walk(test))


# --- out=<a saved input> ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Buffer:
    """The expression that chooses the buffer: ``X``, or ``X if condition else None``."""

    node: ast.expr
    tensor: ast.Name
    test: ast.expr | None


def _reused(function: CustomFunction, passes: Passes, meeting: Meeting) -> Mismatch | None:
    if meeting.in_place or meeting.target is None or not isinstance(meeting.call, ast.Call):
        return None
    expression, role = meeting.target
    if role.kind != INPUT or role.of not in passes.saved:
        return None
    others = [(node, other) for node, other in meeting.operands if (other.kind, other.of) != (INPUT, role.of)]
    moved = [node for node, other in others if other.graded or other.kind == LOW]
    buffer = _buffer(function.module, expression)
    if not moved or (buffer is not None and buffer.test is not None and compares_dtype(buffer.test)):
        return None
    name = buffer.tensor.id if buffer is not None else ast.unparse(expression)
    operation = _guarded(function.module, meeting.call, buffer, moved) if buffer is not None else None
    return Mismatch(
        function.module,
        meeting.call,
        f"the product is written into the saved input {name}, which keeps its own dtype: under autocast the gradient "
        "is 16-bit, and 'Expected out tensor to have dtype' stops the backward pass where the input is float32",
        ((_parameter(function, role), "comes in here and is saved as it is"), (moved[0], "a product of the gradient")),
        "guard" if operation is not None else "",
        (operation,) if operation is not None else (),
    )


def _parameter(function: CustomFunction, role: Role) -> ast.AST:
    return next((item for item in function.inputs if item.arg == role.of), function.forward)


def _buffer(module: ModuleNames, node: ast.expr) -> _Buffer | None:
    if isinstance(node, ast.IfExp) and isinstance(node.body, ast.Name):
        none = isinstance(node.orelse, ast.Constant) and node.orelse.value is None
        return _Buffer(node, node.body, node.test) if none else None
    if not isinstance(node, ast.Name):
        return None
    bindings = reaching(module, module.scope_of(node).lookup(node.id), node)
    value = bindings[0].value if len(bindings) == 1 else None
    return _buffer(module, value) if isinstance(value, ast.IfExp) else _Buffer(node, node, None)


def _guarded(module: ModuleNames, call: ast.Call, buffer: _Buffer, moved: Sequence[ast.expr]) -> Operation | None:
    """``X if <condition> and X.dtype == df.dtype else None``, where the buffer is chosen."""
    if isinstance(module.parents[call], ast.Expr):
        return None
    operand = next((name for name in map(_named, moved) if name is not None), None)
    if operand is None or not _is_settled(module, operand, buffer.node, call):
        return None
    if not _is_settled(module, buffer.tensor, buffer.node, call):
        return None
    document = module.document
    tensor, same = buffer.tensor.id, f"{buffer.tensor.id}.dtype == {operand.id}.dtype"
    span = document.span(buffer.node)
    if buffer.test is None:
        return ReplaceExpression(span, (f"{tensor} if {same} else None",))
    test = document.span(buffer.test)
    return ReplaceExpression(test, (test, f" and {same}"))


def _named(node: ast.expr) -> ast.Name | None:
    """``df`` of ``df``, ``df.t()``, ``df.T``: a name whose dtype is that of the expression."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
            if node.func.attr not in ("t", "transpose", "view", "reshape", "contiguous", "flatten"):
                return None
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            node = node.value
        else:
            return node if isinstance(node, ast.Name) else None


def _is_settled(module: ModuleNames, name: ast.Name, first: ast.AST, last: ast.AST) -> bool:
    """Whether ``name`` has a value before ``first`` and is not given another one up to ``last``."""
    start, end = module.statement_of(first).lineno, module.statement_of(last).lineno
    lines = [getattr(item.node, "lineno", 0) for item in module.scope_of(last).lookup(name.id)]
    return any(line < start for line in lines) and not any(start <= line < end for line in lines)


# --- addmm_ -----------------------------------------------------------------------------------------------------------


def _dequantized(function: CustomFunction, meeting: Meeting) -> Mismatch | None:
    """A sum with a product of a dequantized weight, whose dtype nothing ties to that of the gradient."""
    if not meeting.in_place or meeting.target is None:
        return None
    made = next((role.dequantized for _, role in meeting.operands if role.dequantized is not None), None)
    others = [name for node, role in meeting.operands if role.graded and (name := _named(node)) is not None]
    if made is None or not (others or meeting.target[1].graded) or not _stands_in(function, made):
        return None
    module, document = function.module, function.module.document
    settled = next((name for name in others if _is_settled(module, name, made, meeting.call)), None)
    operations: tuple[Operation, ...] = ()
    if settled is not None:
        span = document.span(made)
        operations = (ReplaceExpression(span, (span, f".to({settled.id}.dtype)")),)
    called = ".".join(attribute_chain(made.func) or ["this"])
    return Mismatch(
        module,
        made,
        f"{called} gives the dtype that the quantization remembers, which need not be that of the gradient: the sum in "
        "place below is not helped by autocast and stops with 'self and mat2 must have the same dtype'",
        ((meeting.call, "summed in place here: all three tensors must have one dtype"),),
        "cast" if operations else "",
        operations,
    )


def _stands_in(function: CustomFunction, node: ast.AST) -> bool:
    return function.backward in function.module.ancestors(node)


def _mixed(function: CustomFunction, meeting: Meeting) -> Iterator[Mismatch]:
    """A sum in place of a product of autocast and something that kept the dtype of an input."""
    if not meeting.in_place or not meeting.autocast or meeting.target is None:
        return
    target, role = meeting.target
    operands = [(node, other) for node, other in meeting.operands if other.kind not in ("number", "none")]
    roles = [role, *(other for _, other in operands)]
    if not any(differ(first, second) for first in roles for second in roles):
        return
    module = function.module
    operations = cast_to_target(module, target, role, operands)
    yield Mismatch(
        module,
        meeting.call,
        f"{ast.unparse(target)} and what is summed into it can have two dtypes under autocast, which does not help "
        "sums in place: 'self and mat2 must have the same dtype' where the inputs are float32",
        tuple(
            (node, _sentence(other)) for node, other in ((target, role), *operands) if other.kind in (LOW, INPUT, FULL)
        ),
        "cast" if operations else "",
        operations,
    )


def _together(found: Sequence[Mismatch]) -> Mismatch:
    """The mixed sums of one backward pass as one: they have the same cause."""
    first = found[0]
    others = tuple((item.node, "the same here") for item in found[1:MAX_EVIDENCE])
    operations = tuple(operation for item in found for operation in item.operations)
    evidence = (*first.evidence, *others)
    return Mismatch(first.module, first.node, first.message, evidence, "cast" if operations else "", operations)


def _sentence(role: Role) -> str:
    if role.kind == LOW:
        return "computed under autocast: 16-bit"
    return f"has the dtype of the input {role.of}" if role.kind == INPUT else "float32"


def cast_to_target(
    module: ModuleNames, target: ast.expr, role: Role, operands: Sequence[tuple[ast.expr, Role]]
) -> tuple[Operation, ...]:
    """Casts of every operand that may differ from the target; none where the target has no plain name."""
    chain = attribute_chain(target)
    if chain is None:
        return ()
    odd = [node for node, other in operands if (other.kind, other.of) != (role.kind, role.of)]
    spans = [module.document.span(node) for node in odd]
    return tuple(ReplaceExpression(span, (span, f".to({'.'.join(chain)}.dtype)")) for span in spans)
