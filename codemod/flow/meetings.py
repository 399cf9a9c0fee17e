"""Records where tensors of different dtypes meet."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ..torch.dtypes import FP32, FP64, HALVES
from ..torch.tables.operations import keeps_dtype
from .classes import LibraryModel, ProjectClass, TorchLayer, has_dtype
from .contexts import open_region
from .facts import opposed
from .frame import Autocasting, Frame, Input, Meeting, Operand, place_of
from .lattice import Atom, Kind, MadeHow, Role, Value, clash
from .stored import stored_mask

JOINS = ("cat", "concat", "concatenate")
WITH_WEIGHT = ("Linear", "Conv", "LayerNorm", "GroupNorm", "RMSNorm", "Embedding", "Bilinear", "PReLU")
"""How the names of layers begin whose parameter is called ``weight``."""
METHODS = ("encode", "decode", "forward")
NodeValue = tuple[ast.expr, Value]
ClashTest = Callable[[Atom, Atom], tuple[Atom, Atom] | None]


def report_mix(frame: Frame, node: ast.expr, operation: str, mix: str, operands: Iterable[NodeValue]) -> None:
    """Record every pair of operands that clash in ``operation``; scalars, numbers and integers never do."""
    listed = list(operands)
    met = clash_of_write(frame) if mix == "raises-destination" else clash
    tensors = [item for item in listed if is_compared(frame, item[1]) and not item[1].scalar]
    for item, value in tensors:
        others = [atom for other, beside in tensors if other is not item for atom in beside.atoms]
        _branches(frame, node, operation, mix, item, value, others)
    if operation in JOINS:
        _raw_mask_joined(frame, node, operation, mix, listed)
    for index, (first_node, first) in enumerate(tensors):
        for second_node, second in tensors[index + 1 :]:
            _pair(frame, node, operation, mix, (first_node, first), (second_node, second), met)


def is_compared(frame: Frame, value: Value) -> bool:
    """Whether a tensor is held against others: in a model that is followed, where there is one way it can have come."""
    return value.kind is Kind.TENSOR and (frame.run is None or len(value.atoms) == 1)


def clash_under_autocast(one: Atom, other: Atom) -> tuple[Atom, Atom] | None:
    """A float32 buffer and what a layer gave: float32 weights, but 16 bits wherever autocast is open."""
    for wide, meant in ((one, other), (other, one)):
        if wide.dtype == FP32 and wide.made is MadeHow.FACTORY and meant.made is MadeHow.LAYER:
            return wide, meant
    return None


def clash_of_write(frame: Frame) -> ClashTest:
    """How what is written through an index meets its destination: an autocast around the call is enough."""
    can_be_open = frame.autocast.state is Autocasting.MAYBE and frame.own_weights is not None
    if not can_be_open or open_region(frame.project) is None:
        return clash
    return lambda one, other: clash(one, other) or clash_under_autocast(one, other)


def _branches(
    frame: Frame, node: ast.expr, operation: str, mix: str, item: ast.expr, value: Value, others: Iterable[Atom]
) -> None:
    """One branch gave the operand the project's dtype, another one left it float32 (or as the data came).

    Where the same test decides the dtype of what it meets, both follow it.
    """
    if _asked(value.atoms) & _asked(others):
        return
    for index, one in enumerate(value.atoms):
        for other in value.atoms[index + 1 :]:
            found = clash(one, other)
            if found is None or found[1].role is not Role.EXPRESSION:
                continue
            if found[0].made in (MadeHow.CAST, MadeHow.FACTORY, MadeHow.PLAIN):
                record(frame, node, operation, mix, Operand(item, found[0]), Operand(item, found[1]), said(found[1]))


def _asked(atoms: Iterable[Atom]) -> set[str]:
    """The settings that decide between atoms."""
    return {text for atom in atoms for text, _ in atom.given}


def _raw_mask_joined(frame: Frame, node: ast.expr, operation: str, mix: str, operands: Sequence[NodeValue]) -> None:
    """A mask that the data code made in float32 is put beside tensors of the dtype of training."""
    masks = [(item, atom) for item, value in operands if (atom := _stored_mask(frame, value)) is not None]
    others = [item for item in operands if all(item[0] is not mask for mask, _ in masks)]
    if len(masks) != 1 or not others or any(value.kind is Kind.NUMBER for _, value in others):
        return
    if all(_is_raw(item, masks[0][1].expression) for item, _ in others):
        return  # labels and boxes of one batch, gathered for a loss
    neighbor, value = others[0]
    if any(atom.dtype in (FP32, FP64) or atom.dtype not in (None, *HALVES) for atom in value.atoms):
        return
    text = f"{ast.unparse(neighbor)[:60]} has the dtype that the model is trained in"
    meant = Atom(symbol=text, role=Role.EXPRESSION, source=frame.source(neighbor, text))
    record(frame, node, operation, mix, Operand(*masks[0]), Operand(neighbor, meant), dtype_of(neighbor))


def _is_raw(node: ast.expr, mask: ast.expr | None) -> bool:
    """Whether an operand is an item of the batch that ``mask`` is one of, in whatever shape."""
    batch = mask.value if isinstance(mask, ast.Subscript) else None
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and keeps_dtype(node.func.attr):
        node = node.func.value
    return batch is not None and isinstance(node, ast.Subscript) and ast.unparse(node.value) == ast.unparse(batch)


def _stored_mask(frame: Frame, value: Value) -> Atom | None:
    """An item of a batch that the project's own data code makes as a mask: the item, with its maker as evidence."""
    atom = value.only
    item = atom.expression if atom is not None and atom.role is Role.DATA else None
    if atom is None or not isinstance(item, ast.Subscript) or not isinstance(item.slice, ast.Constant):
        return None
    maker = stored_mask(frame.project, str(item.slice.value))
    if maker is None or atom.source is None:
        return None
    return replace(atom, source=replace(atom.source, before=maker))


def _pair(
    frame: Frame, node: ast.expr, operation: str, mix: str, first: NodeValue, second: NodeValue, met: ClashTest
) -> None:
    if len(first[1].atoms) > 1 and len(second[1].atoms) > 1:
        return  # both were changed by branches, which may be the same ones
    for one in first[1].atoms:
        for other in second[1].atoms:
            found = met(one, other) if not opposed(one.given, other.given) else None
            if found is None:
                continue
            odd_is_first = found[0] is one
            odd = Operand(first[0] if odd_is_first else second[0], found[0])
            meant = Operand(second[0] if odd_is_first else first[0], found[1])
            record(frame, node, operation, mix, odd, meant, dtype_of(meant.node) or said(meant.atom))


def report_input(
    frame: Frame,
    node: ast.Call,
    operand: ast.expr,
    value: Value,
    weights: tuple[Atom, ...],
    module: Value | None,
    handed_on: Value | None = None,
    takes_narrow: bool = False,
) -> None:
    """Record that ``operand`` enters a module (or an operation with a weight) of another dtype.

    Under a region that is open for certain, autocast casts both. ``handed_on``: the model that ``node`` is given to
    apply, where it is not ``module`` itself. ``takes_narrow``: as `Input` has it.
    """
    if frame.autocast.state is Autocasting.ON:
        return
    given = weights or _given_model(handed_on or module)
    if value.kind is Kind.UNKNOWN and value.label:
        frame.record.inputs.update(Input(value.label, weight, takes_narrow) for weight in given)
    if not is_compared(frame, value):
        return
    _branches(frame, node, "module", "raises", operand, value, weights)
    for atom in value.atoms:
        if atom.role is Role.PARAMETER:
            frame.record.inputs.update(Input(atom.symbol, weight, takes_narrow) for weight in given)
        met = _of_table(frame, node, operand, atom)
        for weight in weights:
            wide = weight.is_of_part or weight.dtype == FP32
            found = None if takes_narrow and wide else _clash_with_weight(atom, weight) or _other_half(atom, weight)
            if found is not None:
                met = True
                _met_weight(frame, node, operand, module, *found)
        if not met:
            _accident(frame, node, operand, atom, weights)


def _given_model(module: Value | None) -> tuple[Atom, ...]:
    """The weights of a model that this function is given: only its callers know their dtype."""
    detail = module.detail if module is not None else None
    if not (isinstance(detail, LibraryModel) and detail.parameter):
        return ()
    return (Atom(symbol=detail.parameter, role=Role.WEIGHTS, can_be_half=False),)


def _of_table(frame: Frame, node: ast.Call, operand: ast.expr, atom: Atom) -> bool:
    """What was computed from a scheduler's float32 table enters a model as it is."""
    if atom.made is not MadeHow.TABLE or not isinstance(node.func, ast.Attribute | ast.Name):
        return False
    model = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS else node.func
    text = f"{ast.unparse(model)}.dtype"
    source = frame.source(node, f"{text} can be 16-bit")
    said_again = ast.Attribute(model, "dtype", ast.Load())
    meant = Atom(symbol=text, role=Role.EXPRESSION, source=source, expression=said_again)
    _met_weight(frame, node, operand, None, atom, meant)
    return True


def _clash_with_weight(atom: Atom, weight: Atom) -> tuple[Atom, Atom] | None:
    found = clash(atom, weight) if not opposed(atom.given, weight.given) else None
    if found is None:
        return None
    odd, meant = found
    if odd is weight and meant.role in (Role.PARAMETER, Role.DATA, Role.WEIGHTS):
        return None
    return found


def _other_half(fixed: Atom, chosen: Atom) -> tuple[Atom, Atom] | None:
    """A 16-bit type that is written down, beside weights whose dtype the project can choose to be another."""
    is_choice = chosen.dtype is None and chosen.role is Role.EXPRESSION and chosen.made is not MadeHow.FOLLOWED
    others = chosen.candidates.difference((fixed.dtype,)) if is_choice and fixed.dtype in HALVES else ()
    return (fixed, chosen) if others and not opposed(fixed.given, chosen.given) else None


def _met_weight(frame: Frame, node: ast.Call, operand: ast.expr, module: Value | None, odd: Atom, meant: Atom) -> None:
    respelled = _variable(frame, meant) or weights_dtype(frame, node, module) or said(meant)
    record(frame, node, "module", "raises", Operand(operand, odd), Operand(node.func, meant), respelled, module)


def _variable(frame: Frame, meant: Atom) -> str:
    """The name of the variable that still holds the dtype that was meant."""
    if meant.role is not Role.EXPRESSION or not isinstance(meant.expression, ast.Name):
        return ""
    held = frame.get(meant.expression.id)
    return meant.expression.id if held is not None and held.atoms == (meant,) else ""


def record(
    frame: Frame,
    node: ast.expr,
    operation: str,
    mix: str,
    odd: Operand,
    meant: Operand,
    meant_dtype: str,
    applied: Value | None = None,
) -> None:
    """Note one meeting, as seen from the interpretation's current place; in a model that is followed, certain ones."""
    state = frame.autocast.state
    unsure = state is Autocasting.MAYBE and not frame.is_special
    refused = odd.atom.dtype == FP32 or (operation == "module" and odd.atom.dtype in HALVES)
    if frame.run is not None and (unsure or not refused or meant.atom.dtype not in HALVES):
        return
    if odd.atom.is_of_part and state is Autocasting.MAYBE and frame.autocast is not frame.entry:
        return  # whether a region is open decides, and it may well be
    met = Meeting(
        frame.module,
        node,
        operation,
        mix,
        odd,
        meant,
        meant_dtype,
        state,
        frame.function,
        applied,
        frame.run is not None,
    )
    frame.record.meet(met)


def dtype_of(node: ast.expr) -> str:
    """``x.dtype`` for an operand that can be named again without being computed again."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and keeps_dtype(node.func.attr):
        node = node.func.value
    plain = place_of(node) is not None
    return f"{ast.unparse(node)}.dtype" if plain else ""


def said(atom: Atom) -> str:
    """The project's own expression for a dtype, or torch's name of a 16-bit one."""
    if atom.expression is not None and atom.role is Role.EXPRESSION:
        return ast.unparse(atom.expression)
    return f"torch.{atom.dtype.name}" if atom.dtype in HALVES else ""


def weights_dtype(frame: Frame, node: ast.Call, module: Value | None) -> str:
    """The dtype of the weights of the module that ``node`` calls, as an expression."""
    if module is None or module.kind is not Kind.MODULE:
        return ""
    called = node.func
    if isinstance(called, ast.Attribute) and (called.attr in METHODS or _is_method(frame, module, called.attr)):
        called = called.value
    if place_of(called) is None:
        return ""
    detail, text = module.detail, ast.unparse(called)
    if isinstance(detail, TorchLayer) and detail.name in ("LSTM", "GRU", "RNN"):
        return f"{text}.weight_ih_l0.dtype"
    if isinstance(detail, LibraryModel) and has_dtype(detail):
        return f"{text}.dtype"
    plain = isinstance(detail, TorchLayer) and detail.name.startswith(WITH_WEIGHT)
    return f"{text}.weight.dtype" if plain else f"next({text}.parameters()).dtype"


def _is_method(frame: Frame, module: Value, name: str) -> bool:
    """Whether ``self.forward_chunk(x)`` calls a method of the module, and not a module in it."""
    return isinstance(module.detail, ProjectClass) and frame.analysis.method(module.detail, name) is not None


def _accident(frame: Frame, node: ast.Call, operand: ast.expr, atom: Atom, weights: tuple[Atom, ...]) -> None:
    """A value that was meant to have another dtype was widened on the way, and now enters a module."""
    mixture = atom.mixture
    if mixture is None or atom.dtype not in (FP32, FP64):
        return
    if any(weight.dtype == atom.dtype for weight in weights):
        return
    if mixture.meant.role is not Role.EXPRESSION and not weights:
        return
    _met_weight(frame, node, operand, None, atom, mixture.meant)
