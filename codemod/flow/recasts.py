"""Parts of a model that are cast to float32 after the whole was cast to 16 bits (``model.head.float()``).

A module's value remembers them, from the cast on: through returns, arguments and attributes, to where the model is
called. Its ``forward`` is then interpreted for this one object, with the dtypes that its parts have. Whatever may
change the model in ways that are not known (a function of a library that is given it, a hook, another part in its
place) makes that forgotten.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from ..python.functions import FunctionTarget
from ..python.names import attribute_chain
from ..python.scopes import text_of
from ..source.slim_nodes import ORIGINAL
from ..torch.api import SAME_MODULE, WALKS
from ..torch.dtypes import FP32, HALVES
from .classes import ProjectClass, attribute_value
from .frame import Autocasting, FlowRecord, Frame, place_of
from .lattice import OF_PART, UNKNOWN_VALUE, Atom, Kind, MadeHow, Role, Value
from .left_out import defaults_of
from .recast_parts import Recast

if TYPE_CHECKING:
    from .analysis import Interpretation

LOOKING = frozenset({
    "parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "buffers",
    "named_buffers", "state_dict", "load_state_dict", "zero_grad", "get_submodule", "get_parameter",
    "gradient_checkpointing_enable", "save_pretrained", "num_parameters",
})  # fmt: skip
"""Methods of models that change no dtype and replace no part."""
CHANGING = ("data", "to", "float", "half", "bfloat16")


def recast(frame: Frame, node: ast.expr, cast: ast.Call, atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """Note that the part that ``node`` names has ``atoms`` from now on; what is to be said of its weights."""
    found = _root(frame, node)
    if found is None:
        return atoms
    root, value, path = found
    whole = _whole(value)
    others = tuple(item for item in value.recast if item.path[: len(path)] != path)
    if _is_touched(frame, node) or whole is None or [atom.dtype for atom in atoms] != [FP32]:
        frame.put(root, replace(value, recast=others))
        return atoms
    text = f"{ast.unparse(node)} is cast to float32, after its model"
    symbol = f"{OF_PART}{frame.module.document.path}:{cast.lineno}:{cast.col_offset}"
    atom = Atom(FP32, symbol, made=MadeHow.CAST, source=frame.source(cast, text))
    frame.put(root, replace(value, recast=(*others, Recast(path, atom, whole))))
    return (atom,)


def _whole(value: Value) -> Atom | None:
    """The 16-bit type that a whole model was cast to; a variable that the source gives one to is such a type too."""
    if len(value.atoms) != 1:
        return None
    atom = value.atoms[0]
    named = atom.role is Role.EXPRESSION and not atom.candidates.isdisjoint(HALVES)
    return atom if atom.dtype in HALVES or named else None


def _root(frame: Frame, node: ast.expr) -> tuple[str, Value, tuple[str, ...]] | None:
    """The place of the model that ``node`` is a part of, its value, and the way to the part."""
    steps: list[str] = []
    found: tuple[str, Value, tuple[str, ...]] | None = None
    current: ast.expr = node
    while True:
        step = _step(current)
        if step is None:
            return found
        current, name = step
        steps.insert(0, name)
        place = place_of(current)
        value = held(frame, current) if place is not None else UNKNOWN_VALUE
        if place is not None and isinstance(value.detail, ProjectClass) and (_whole(value) or value.recast):
            found = (place, value, tuple(steps))


def held(frame: Frame, node: ast.expr) -> Value:
    """What a name or a chain of attributes holds."""
    known = frame.get(place_of(node) or "")
    if known is not None or not isinstance(node, ast.Attribute):
        return known or UNKNOWN_VALUE
    base = held(frame, node.value)
    return attribute_value(frame, base, node.attr) if base.kind is Kind.MODULE else UNKNOWN_VALUE


def _step(node: ast.expr) -> tuple[ast.expr, str] | None:
    """The last step of a chain: ``layers[-1]`` of ``model.layers[-1]``."""
    if isinstance(node, ast.Attribute):
        return node.value, node.attr
    if isinstance(node, ast.Subscript) and _is_literal(node.slice):
        return node.value, f"[{ast.unparse(node.slice)}]"
    return None


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


# --- what makes it forgotten ------------------------------------------------------------------------------------------


def forget(frame: Frame, node: ast.expr) -> None:
    """What ``node`` names, a model or a part of one, may be changed here in ways that are not known."""
    value = held(frame, node)
    found = _root(frame, node)
    if found is not None:
        root, whole, path = found
        kept = tuple(item for item in whole.recast if item.path[: len(path)] != path[: len(item.path)])
        if len(kept) < len(whole.recast):  # what is put forgets what is known of its parts
            frame.put(root, replace(whole, recast=kept))
    place = place_of(node)
    if place is not None and value.recast:
        frame.put(place, replace(value, recast=()))
    forget_by_other_name(frame, value)
    frame.touched.add(text_of(node))


def forget_by_other_name(frame: Frame, part: Value) -> None:
    """``head`` of ``head = model.head``, or a layer of a loop, is changed: so is the model."""
    symbols = {atom.symbol for atom in (*part.atoms, *(item.atom for item in part.recast)) if atom.is_of_part}
    if symbols:
        for place, value in list(frame.names.items()):
            if value.recast:
                kept = tuple(item for item in value.recast if item.atom.symbol not in symbols)
                frame.names[place] = replace(value, recast=kept)


def _is_touched(frame: Frame, part: ast.expr) -> bool:
    text = text_of(part)
    return any(_is_inside(text, other) or _is_inside(other, text) for other in frame.touched)


def _is_inside(text: str, whole: str) -> bool:
    return text == whole or text.startswith((f"{whole}.", f"{whole}["))


def uncast(node: ast.expr) -> ast.expr:
    """What holds the module of ``model.half()``, and of ``model.half().float()``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME_MODULE:
        node = node.func.value
    return node


def replaced(frame: Frame, target: ast.expr, source: ast.expr) -> None:
    """``model.head = ...`` puts something else in the place of a part, unless it is the part itself, cast."""
    if _is_same(uncast(source), target):
        return
    base = held(frame, target.value) if isinstance(target, ast.Attribute | ast.Subscript) else UNKNOWN_VALUE
    if base.kind is Kind.MODULE and (
        not isinstance(base.detail, ProjectClass) or frame.analysis.is_module(base.detail)
    ):
        forget(frame, target)
    elif frame.touched:
        text = text_of(target)
        frame.touched -= {other for other in frame.touched if _is_inside(other, text)}


def _is_same(node: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are written alike; most are told apart by a look at their ends."""
    if isinstance(node, ast.Attribute) and isinstance(other, ast.Attribute):
        return node.attr == other.attr and _is_same(node.value, other.value)
    if isinstance(node, ast.Name) or isinstance(other, ast.Name):
        return isinstance(node, ast.Name) and isinstance(other, ast.Name) and node.id == other.id
    return ORIGINAL[node.__class__] is ORIGINAL[other.__class__] and ast.unparse(node) == ast.unparse(other)


def forget_given(
    frame: Frame, positional: Iterable[tuple[ast.expr, Value]], named: Iterable[tuple[str, ast.expr, Value]]
) -> None:
    """A function that is not known is given models."""
    for node, value in positional:
        if value.kind is Kind.MODULE:
            forget(frame, node)
    for _, node, value in named:
        if value.kind is Kind.MODULE:
            forget(frame, node)


def walked(frame: Frame, node: ast.For | ast.AsyncFor) -> None:
    """``for p in model.head.parameters(): p.data = p.data.float()`` casts a part; other such loops may do anything."""
    walk = node.iter
    called = walk.func if isinstance(walk, ast.Call) and isinstance(walk.func, ast.Attribute) else None
    part = called.value if called is not None and called.attr in WALKS else walk
    place, value = place_of(part), held(frame, part)
    if value.kind is not Kind.MODULE or not _changes_what_it_walks(node):
        return
    cast = _cast_of_each(node) if called is not None and ast.unparse(walk).endswith(".parameters()") else None
    if cast is None:
        forget(frame, part)
    elif _root(frame, part) is not None:
        recast(frame, part, cast, (Atom(FP32),))
    elif place is not None:
        source = frame.source(cast, "all parameters are cast to float32")
        frame.put(place, replace(value, atoms=(Atom(FP32, made=MadeHow.CAST, source=source),), recast=()))


def _changes_what_it_walks(node: ast.For | ast.AsyncFor) -> bool:
    names = {item.id for item in ast.walk(node.target) if isinstance(item, ast.Name)}
    changed = [item for item in ast.walk(node) if isinstance(item, ast.Attribute) and item.attr in CHANGING]
    return any((attribute_chain(item) or [""])[0] in names for item in changed)


def _cast_of_each(node: ast.For | ast.AsyncFor) -> ast.Call | None:
    """``p.data.float()`` of a loop that does nothing else."""
    statement = node.body[0] if len(node.body) == 1 and isinstance(node.target, ast.Name) else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    data = f"{ast.unparse(node.target)}.data"
    value = statement.value
    casts = (f"{data}.float()", f"{data}.to(torch.float32)", f"{data}.to(dtype=torch.float32)")
    fits = ast.unparse(statement.targets[0]) == data and ast.unparse(value) in casts
    return value if fits and isinstance(value, ast.Call) else None


class PartsRun:
    """Marks the functions that are followed for the very objects of a call; each keeps a record of its own."""

    of_parts = True
    models: Mapping[ast.Call, Value] = {}

    @property
    def record(self) -> FlowRecord:
        return FlowRecord()

    def applied(
        self, frame: Frame, node: ast.Call, target: FunctionTarget, given: dict[str, Value], receiver: Value | None
    ) -> Value:
        done = applied_with_parts(frame, node, target, given, receiver)
        return done.returned if done is not None else UNKNOWN_VALUE

    def recording(self, record: FlowRecord) -> AbstractContextManager[None]:
        return nullcontext()


PARTS = PartsRun()


def applied_with_parts(
    frame: Frame, node: ast.Call, target: FunctionTarget, given: Mapping[str, Value], receiver: Value | None
) -> Interpretation | None:
    """A function as it runs on the very objects of this call; None where none of these has such a part.

    Inside of such a function all that it calls is followed so, too.
    """
    has_parts = receiver is not None and bool(receiver.recast)
    can_cast = any(isinstance(item.detail, ProjectClass) and _whole(item) is not None for item in given.values())
    if frame.autocast.state is Autocasting.ON or not (frame.is_special or has_parts or can_cast):
        return None
    if frame.autocast.state is Autocasting.MAYBE and frame.autocast is not frame.entry:
        return None  # whether a region is open decides, and it may well be
    names = {name: value for name, value in given.items() if value.kind is not Kind.UNKNOWN}
    names |= defaults_of(node, target)
    own = _whole_of(receiver) if receiver is not None else None
    if receiver is not None and own is not None:
        receiver = replace(receiver, atoms=(own,))
        names |= {"self": receiver} | _attributes(frame, receiver)
    done = frame.analysis.specially(target, names, own)
    frame.record.take_parts(done.record, frame.module, node)
    _take_back(frame, node, target, names, done)
    return done


def _whole_of(receiver: Value) -> Atom | None:
    """The one dtype of an object's weights, but for its parts."""
    if receiver.recast:
        return receiver.recast[0].whole
    return receiver.atoms[0] if len(receiver.atoms) == 1 else None


def _attributes(frame: Frame, receiver: Value) -> dict[str, Value]:
    """``self.<name>`` for the parts of an object that are float32, or that hold such parts."""
    names = dict.fromkeys(item.path[0] for item in receiver.recast if item.path)
    parts = {f"self.{name}": attribute_value(frame, receiver, name) for name in names}
    return {place: part for place, part in parts.items() if part.kind is Kind.MODULE}


def _take_back(
    frame: Frame, node: ast.Call, target: FunctionTarget, names: Mapping[str, Value], done: Interpretation
) -> None:
    """What the function did to the models it was given: these are the caller's, too."""
    arguments = dict(target.arguments(node))
    called = node.func.value if isinstance(node.func, ast.Attribute) and target.bound else node.func
    for name, item in [*arguments.items(), ("self", called)]:
        before = names.get(name)
        place = place_of(item)
        if before is None or before.kind is not Kind.MODULE or place is None or frame.get(place) is None:
            continue
        after = done.names.get(name, UNKNOWN_VALUE)
        if after.recast != before.recast:
            frame.put(place, replace(before, atoms=after.atoms or before.atoms, recast=after.recast))
