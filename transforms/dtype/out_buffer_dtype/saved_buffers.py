"""Products in the backward pass of an autograd Function that write into a tensor whose dtype can be another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ....codemod.flow.autograd import Passes, differ, input_of
from ....codemod.flow.frame import MixedProduct
from ....codemod.flow.lattice import Atom, Kind, Role, Value
from ....codemod.model import Edit, Place
from ....codemod.purpose.runs import runs_around
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.paths import guards
from ....codemod.source.project import Project
from ....codemod.torch.tables.operations import keeps_dtype, policy_of
from ..custom_functions import CustomFunction, applications, is_applied_under_autocast, passes_of, reads_dtype

MAX_EVIDENCE = 20


@dataclass(frozen=True, slots=True, eq=False)
class Mismatch:
    """One product whose buffer or operands can have two dtypes, and the edits that make them agree."""

    module: ModuleNames
    node: ast.expr
    """What to point at."""
    message: str
    evidence: tuple[Place, ...]
    fix: str
    """The name of the fix: ``guard``, ``cast``, ``dtype``."""
    edits: tuple[Edit, ...] = ()
    """Empty where there is no fix."""
    casts: tuple[Place, ...] = ()
    """What casts the model whose weights make an operand 16-bit."""


def in_backward(project: Project, function: CustomFunction) -> Iterator[Mismatch]:
    """Every such product of one Function."""
    if not any(isinstance(node, ast.Call) and _may_write(node) for node in ast.walk(function.backward)):
        return
    found = list(_mismatches(project, function)) if _may_be_on(project, function) else []
    if found and (function.forward_amp is not None or runs_around(project, function.module, function.node)):
        yield from found


def _may_be_on(project: Project, function: CustomFunction) -> bool:
    """Whether not all that applies the Function switches autocast off, or casts what it passes, and so it is there."""
    return not applications(project, function) or is_applied_under_autocast(project, function)


def _mismatches(project: Project, function: CustomFunction) -> Iterator[Mismatch]:
    """The same, whether or not anything runs the Function under autocast."""
    passes = passes_of(project, function)
    if passes is None:
        return
    seen: set[ast.AST] = set()
    mixed: list[Mismatch] = []
    reused: list[Atom | None] = []
    for product in passes.backward.record.products.values():
        if product.target is None or asks_for_dtype(function.module, product.node):
            continue
        found = _reused(function, passes, product) or _dequantized(function, product)
        if found is None:
            # A reused buffer that a product was written into has the dtype of that product, or the run ended there.
            mixed += _mixed(function, product) if product.target[1].only not in reused else ()
            continue
        if not product.in_place:
            reused.append(product.target[1].only)
        if found.node not in seen:
            seen.add(found.node)
            yield found
    if mixed:
        yield _together(mixed)


def _may_write(node: ast.Call) -> bool:
    in_place = isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
    return in_place or any(item.arg == "out" for item in node.keywords)


def asks_for_dtype(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a condition around the place reads a dtype."""
    return any(reads_dtype(guard.test) for guard in guards(module, node))


# --- out=<a saved input> ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Buffer:
    """The expression that chooses the buffer: ``X``, or ``X if condition else None``."""

    node: ast.expr
    tensor: ast.Name
    test: ast.expr | None


def _reused(function: CustomFunction, passes: Passes, product: MixedProduct) -> Mismatch | None:
    if product.in_place or product.target is None or not isinstance(product.node, ast.Call):
        return None
    expression, atom = product.target[0], product.target[1].only
    if atom is None or atom.symbol not in passes.saved:
        return None
    moved = [node for node, value in product.operands if atom not in value.atoms and _is_moved(value)]
    buffer = _buffer(function.module, expression)
    if not moved or (buffer is not None and buffer.test is not None and reads_dtype(buffer.test)):
        return None
    name, module = buffer.tensor.id if buffer is not None else ast.unparse(expression), function.module
    edit = _guarded(module, product.node, buffer, moved) if buffer is not None else None
    saved = input_of(function.forward, atom)
    parameter = next((item for item in function.inputs if item.arg == saved), function.forward)
    return Mismatch(
        module,
        product.node,
        f"the product is written into the saved input {name}, which keeps its own dtype: under autocast the gradient "
        "is 16-bit, and 'Expected out tensor to have dtype' stops the backward pass where the input is float32",
        (
            module.place(parameter, "comes in here and is saved as it is"),
            module.place(moved[0], "a product of the gradient"),
        ),
        "guard",
        (edit,) if edit is not None else (),
    )


def _is_moved(value: Value) -> bool:
    """Whether the tensor has the dtype of the gradient, or of a product of it."""
    return any(atom.is_of_gradient or atom.role is Role.AUTOCAST for atom in value.atoms)


def _buffer(module: ModuleNames, node: ast.expr) -> _Buffer | None:
    if isinstance(node, ast.IfExp) and isinstance(node.body, ast.Name):
        none = isinstance(node.orelse, ast.Constant) and node.orelse.value is None
        return _Buffer(node, node.body, node.test) if none else None
    if not isinstance(node, ast.Name):
        return None
    value = only_value(module, node)
    return _buffer(module, value) if isinstance(value, ast.IfExp) else _Buffer(node, node, None)


def _guarded(module: ModuleNames, call: ast.Call, buffer: _Buffer, moved: Sequence[ast.expr]) -> Edit | None:
    """``X if <condition> and X.dtype == df.dtype else None``, where the buffer is chosen."""
    if isinstance(module.parents[call], ast.Expr):
        return None
    operand = next((name for name in map(_named, moved) if name is not None), None)
    if operand is None or not all(_is_settled(module, each, buffer.node, call) for each in (operand, buffer.tensor)):
        return None
    tensor, same = buffer.tensor.id, f"{buffer.tensor.id}.dtype == {operand.id}.dtype"
    if buffer.test is None:
        return module.replace(buffer.node, f"{tensor} if {same} else None")
    return module.replace(buffer.test, buffer.test, f" and {same}")


def _named(node: ast.expr) -> ast.Name | None:
    """``df`` of ``df``, ``df.t()``, ``df.T``: a name whose dtype is that of the expression."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
            if not keeps_dtype(node.func.attr):
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


def _dequantized(function: CustomFunction, product: MixedProduct) -> Mismatch | None:
    """A sum with a product of a dequantized weight, whose dtype nothing ties to that of the gradient."""
    if not product.in_place or product.target is None:
        return None
    made = next((node for _, value in product.operands if (node := _unpacked(function, value)) is not None), None)
    others = [name for node, value in product.operands if value.is_of_gradient and (name := _named(node)) is not None]
    if made is None or not (others or product.target[1].is_of_gradient):
        return None
    module = function.module
    settled = next((name for name in others if _is_settled(module, name, made, product.node)), None)
    called = ".".join(attribute_chain(made.func) or ["this"])
    return Mismatch(
        module,
        made,
        f"{called} gives the dtype that the quantization remembers, which need not be that of the gradient: the sum in "
        "place below is not helped by autocast and stops with 'self and mat2 must have the same dtype'",
        (module.place(product.node, "summed in place here: all three tensors must have one dtype"),),
        "cast",
        (module.replace(made, made, f".to({settled.id}.dtype)"),) if settled is not None else (),
    )


def _unpacked(function: CustomFunction, value: Value) -> ast.Call | None:
    """The call in backward that unpacked a quantized weight."""
    source = next((atom.source for atom in value.atoms if atom.role is Role.QUANTIZED), None)
    inside = source is not None and function.backward in function.module.ancestors(source.node)
    return source.node if source is not None and inside and isinstance(source.node, ast.Call) else None


def _mixed(function: CustomFunction, product: MixedProduct) -> Iterator[Mismatch]:
    """A sum in place of a product of autocast and something that kept the dtype of an input."""
    if not product.in_place or not product.autocast or product.target is None:
        return
    target, held = product.target
    operands = [(node, value) for node, value in product.operands if value.kind is not Kind.NUMBER]
    values = [held, *(value for _, value in operands)]
    if not any(differ(first, second) for first in values for second in values):
        return
    module = function.module
    said = ((node, _sentence(function, value)) for node, value in (product.target, *operands))
    yield Mismatch(
        module,
        product.node,
        f"{ast.unparse(target)} and what is summed into it can have two dtypes under autocast, which does not help "
        f"sums in place: {_error(product)} where the inputs are float32",
        tuple(module.place(node, text) for node, text in said if text),
        "cast",
        cast_to_target(module, target, held, operands),
    )


def _error(product: MixedProduct) -> str:
    multiplies = policy_of(product.operation.removesuffix("_"), "cuda") == "lower"
    return "'self and mat2 must have the same dtype'" if multiplies else f"{product.operation} raises"


def _together(found: Sequence[Mismatch]) -> Mismatch:
    """The mixed sums of one backward pass as one: they have the same cause."""
    first = found[0]
    others = (item.module.place(item.node, "the same here") for item in found[1:MAX_EVIDENCE])
    edits = tuple(edit for item in found for edit in item.edits)
    return replace(first, evidence=(*first.evidence, *others), edits=edits)


def _sentence(function: CustomFunction, value: Value) -> str:
    atom = value.only
    if atom is None:
        return ""
    if atom.role is Role.AUTOCAST:
        return "computed under autocast: 16-bit"
    name = input_of(function.forward, atom)
    return f"has the dtype of the input {name}" if name else "float32" if atom.is_float32 else ""


def cast_to_target(
    module: ModuleNames, target: ast.expr, held: Value, operands: Sequence[tuple[ast.expr, Value]]
) -> tuple[Edit, ...]:
    """Casts of every operand that may differ from the target; none where the target has no plain name."""
    chain = attribute_chain(target)
    if chain is None:
        return ()
    odd = (node for node, value in operands if value.atoms != held.atoms)
    return tuple(module.replace(node, node, f".to({'.'.join(chain)}.dtype)") for node in odd)
