"""Both passes of an autograd Function followed together: what forward saves is what backward multiplies.

The question is what happens under autocast, so forward is followed as in an open region. Backward runs outside of it
(that is where ``loss.backward()`` belongs) unless ``custom_bwd`` restores what forward ran in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from ..python.names import FunctionNode, ModuleNames, parameters_of, positional
from .analysis import FlowAnalysis, Interpretation
from .frame import ASSUMED, OUTSIDE
from .lattice import NUMBER_VALUE, UNKNOWN_VALUE, Atom, Kind, MadeHow, Role, Value, join
from .parameters import parameter_symbol


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """What both passes did."""

    forward: Interpretation
    backward: Interpretation
    saved: frozenset[str]
    """The symbols of the inputs that backward sees as they came in."""


def follow_passes(
    analysis: FlowAnalysis,
    module: ModuleNames,
    forward: FunctionNode,
    backward: FunctionNode,
    numbers: frozenset[str],
    *,
    restored: bool,
) -> Passes:
    """Follow both passes; ``numbers``: inputs that are no tensors; ``restored``: backward runs under autocast too."""
    context, *inputs = _positional(forward)
    names = {item: NUMBER_VALUE if item in numbers else _input(forward, item) for item in inputs}
    first = analysis.observed(module, forward, ASSUMED, {context: UNKNOWN_VALUE, **names})
    kept = {name: value for name, value in first.names.items() if name.startswith(f"{context}.")}
    options = list(first.record.saved.values())
    own, *gradients = _positional(backward)
    given = {own: UNKNOWN_VALUE, **_given(backward, gradients, first.returned)}
    given |= {f"{own}{name[len(context) :]}": value for name, value in kept.items()}
    given[f"{own}.saved_tensors"] = _saved(options)
    second = analysis.observed(module, backward, ASSUMED if restored else OUTSIDE, given)
    values = [*kept.values(), *(value for option in options for value in option)]
    raw = frozenset(atom.symbol for value in values if (atom := value.only) is not None and _is_input(atom))
    return Passes(first, second, raw)


def differ(one: Value, other: Value) -> bool:
    """Whether autocast computed one tensor, while the other is as it came in, or float32 for certain."""
    pair = [atom for atom in (one.only, other.only) if atom is not None]
    lowered = [atom for atom in pair if atom.role is Role.AUTOCAST]
    wide = [atom for atom in pair if _is_input(atom) or atom.is_float32]
    return len(lowered) == len(wide) == 1


def _is_input(atom: Atom) -> bool:
    return atom.role is Role.PARAMETER


def _positional(function: FunctionNode) -> list[str]:
    return [item.arg for item in positional(function.args)]


def _input(forward: FunctionNode, name: str) -> Value:
    symbol = Atom(symbol=parameter_symbol(forward, name), role=Role.PARAMETER)
    return Value(Kind.TENSOR, (symbol,))


def input_of(forward: FunctionNode, atom: Atom) -> str:
    """The name of the input whose dtype a symbol stands for; "" for other symbols."""
    named = {parameter_symbol(forward, item.arg): item.arg for item in parameters_of(forward)}
    return named.get(atom.symbol, "")


def _saved(options: Sequence[tuple[Value, ...]]) -> Value:
    """``ctx.saved_tensors``: what each ``save_for_backward`` of the forward pass may have saved."""
    listed = tuple(Value(Kind.SEQUENCE, items=option) for option in options)
    if len({len(option) for option in options}) == 1:
        return reduce(join, listed)
    return Value(Kind.SAVED, items=listed)


def _given(backward: FunctionNode, names: Sequence[str], returned: Value) -> Mapping[str, Value]:
    """The gradients that backward is given: each has the dtype of its output."""
    outputs = returned.items if returned.kind is Kind.SEQUENCE and returned.label != "each" else (returned,)
    known = [gradient(value) for value in outputs or ()]
    found = dict(zip(names, [*known, *[gradient(UNKNOWN_VALUE)] * len(names)], strict=False))
    if backward.args.vararg is not None:
        rest = set(known[len(names) :])
        each = rest.pop() if len(rest) == 1 else gradient(UNKNOWN_VALUE)
        found[backward.args.vararg.arg] = Value(Kind.SEQUENCE, items=(each,), label="each")
    return found


def gradient(value: Value) -> Value:
    if value.kind is Kind.TENSOR and value.atoms:
        return Value(Kind.TENSOR, tuple(replace(atom, made=MadeHow.GRADIENT) for atom in value.atoms))
    return Value(Kind.TENSOR, (Atom(symbol="gradient", role=Role.GRADIENT, can_be_half=False, made=MadeHow.GRADIENT),))
