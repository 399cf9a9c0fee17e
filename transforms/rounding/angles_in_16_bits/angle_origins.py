"""Where the angle that a sine or cosine is taken of comes from: a product of positions and frequencies."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.arguments import receiver_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import name_parts

COUNTING = ("arange", "linspace")
FREQUENCIES = frozenset(("freq", "freqs", "frequencies", "frequency", "theta", "thetas"))
MEANING = FREQUENCIES | {"pos", "position", "positions", "timestep", "timesteps"}
"""Words in names that say what a tensor is for."""
GRID = frozenset(("grid", "meshgrid", "grids"))
"""Words of the rows and columns of an image, which are few."""
PRODUCTS = ("outer", "einsum", "matmul", "mm", "bmm", "mul", "multiply", "ger")
SAME = (
    *(
        "unsqueeze",
        "squeeze",
        "view",
        "reshape",
        "flatten",
        "expand",
        "repeat",
        "transpose",
        "t",
        "contiguous",
        "clone",
    ),
    *("cat", "concat", "stack", "repeat_interleave", "to", "permute", "float", "half", "bfloat16", "detach", "type_as"),
)
"""Calls that give back the numbers they are given."""
MOVING = frozenset(("device", "cuda", "to", "type_as"))
"""Names by which tensors come to an accelerator."""
MAX_STEPS = 40
"""Expressions that are looked at behind one angle, or behind one of its factors."""


@dataclass(frozen=True, slots=True, eq=False)
class AngleOrigin:
    """The product that made an angle."""

    node: ast.expr
    factors: tuple[ast.expr, ...]
    what: str
    counted: ast.Call | None
    """The `arange` that the positions come from, where it stands in the same function."""


def origin_of(module: ModuleNames, angle: ast.expr) -> AngleOrigin | None:
    """The product behind an angle, where one of its factors is made of positions, timesteps or frequencies.

    A divisor says nothing: it counts the channels, whatever is encoded. The rows and columns of a grid are few.
    """
    for node in behind(module, angle):
        factors = _factors(module, node)
        if factors:
            far = factors[:1] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else factors
            words = {word for factor in far for word in _words(module, factor)}
            counted = next((call for factor in far for call in _counts(module, factor)), None)
            function = str(getattr(module.scope_of(node).function.node, "name", ""))
            named = words | set(function.split("_"))
            if named & GRID:
                return None
            if words & MEANING or counted is not None:
                what = "timesteps" if named & {"timestep", "timesteps"} else "positions"
                return AngleOrigin(node, factors, what, counted)
    return None


def is_of_frequencies(module: ModuleNames, factor: ast.expr) -> bool:
    """Whether the names behind a factor say that it holds frequencies: fractions, which 16 bits round."""
    return not FREQUENCIES.isdisjoint(_words(module, factor))


def is_made_on_cpu(module: ModuleNames, origin: AngleOrigin) -> bool:
    """Whether a factor is made without a device, and so both are on the CPU: ``torch.arange(length)``."""
    made = [factor for factor in origin.factors if any(True for _ in _counts(module, factor))]
    return any(MOVING.isdisjoint(_names(module, factor)) for factor in made)


def _names(module: ModuleNames, node: ast.expr) -> Iterator[str]:
    """Every name, attribute and argument in what a factor is made of."""
    for item in (item for inner in behind(module, node) for item in ast.walk(inner)):
        if isinstance(item, ast.Name | ast.Attribute | ast.keyword):
            yield getattr(item, "id", "") or getattr(item, "attr", "") or getattr(item, "arg", "") or ""


def behind(module: ModuleNames, node: ast.expr, *, products: bool = False) -> Iterator[ast.expr]:
    """The expression itself, and those that it is a view, a cast or a concatenation of.

    ``products``: also the factors of products, which have the rounding of both.
    """
    waiting, seen = [node], set[ast.AST]()
    while waiting and len(seen) < MAX_STEPS:
        current = waiting.pop(0)
        if current not in seen:
            seen.add(current)
            yield current
            waiting += _sources(module, current)
            waiting += _factors(module, current) if products else ()


def _sources(module: ModuleNames, node: ast.expr) -> Iterator[ast.expr]:
    scaled = [item for item in _sides(node) if not _is_number(item)]
    if len(scaled) == 1:
        yield from scaled
    elif isinstance(node, ast.Name):
        bindings = [item for item in module.bindings_of(node) if item.value is not None]
        yield from (item.value for item in bindings[:3] if item.kind == "assign" and item.value is not None)
    elif isinstance(node, ast.Subscript):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List):
        yield from node.elts[:1]
    elif isinstance(node, ast.Call) and (owner := receiver_of(node, *SAME)) is not None:
        yield from node.args[:1] if module.qualified(node.func) is not None else [owner]


def _factors(module: ModuleNames, node: ast.expr) -> tuple[ast.expr, ...]:
    """The factors of ``a * b``, ``a @ b``, ``torch.outer(a, b)``, ``torch.einsum("i,j->ij", a, b)``."""
    sides = _sides(node)
    if sides:
        return () if any(map(_is_number, sides)) else sides
    owner = receiver_of(node, *PRODUCTS)
    if owner is None or not isinstance(node, ast.Call):
        return ()
    tensors = [item for item in node.args if not isinstance(item, ast.Constant)]
    return tuple(tensors if module.qualified(node.func) is not None else [owner, *tensors])


def _sides(node: ast.expr) -> tuple[ast.expr, ...]:
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.MatMult | ast.Div)
    return (node.left, node.right) if product and isinstance(node, ast.BinOp) else ()


def _is_number(node: ast.expr) -> bool:
    """Whether a factor only scales: ``-1 * angles``, ``angles * 2``."""
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _words(module: ModuleNames, node: ast.expr) -> Iterator[str]:
    """The words in the names behind a factor."""
    for inner in behind(module, node):
        yield from name_parts(inner)


def _counts(module: ModuleNames, node: ast.expr) -> Iterator[ast.Call]:
    """The calls of `arange` and its like that a factor is made of."""
    for inner in behind(module, node):
        if isinstance(inner, ast.Call) and (module.qualified(inner.func) or "").rpartition(".")[2] in COUNTING:
            yield inner
