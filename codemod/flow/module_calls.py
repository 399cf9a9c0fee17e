"""Modules in calls: casts in place, forwards, loaders, wrappers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ..python.names import attribute_chain, last_name
from ..source.project import Project
from ..torch.api import SAME_WEIGHTS, WEIGHT_CASTS
from ..torch.dtypes import FP32
from ..torch.tables.layers import LAYERS
from ..torch.tables.libraries import FREE_INPUTS, LABELS, Loaded, library_object, takes_images
from ..torch.weight_changes import takes_over
from .alternatives import CHOSEN, applied_any
from .bases import layer_of
from .call_dtypes import NamedValues, default_atoms, given_atoms, moved
from .classes import (
    LibraryModel,
    ProjectClass,
    TorchLayer,
    attribute_value,
    casts_own_part,
    has_parts_with_weights,
    model_by_name,
    part_of,
    registered_buffer,
)
from .containers import held, holds_by_name, meets_first, named_parts, nth_of, part_named
from .data import ImageTransform, transformed
from .frame import Autocasting, FlowRecord, Frame, Meeting, place_of
from .lattice import UNKNOWN_VALUE, Alternatives, Atom, Kind, MadeHow, Role, Value
from .layer_calls import layer_forward, of_weights
from .meetings import NodeValue, report_input
from .operation_calls import apply_operation
from .recasts import LOOKING, forget, forget_by_other_name, recast, uncast
from .registries import ATTENTION
from .results import FORWARD, may_be_prepared, of_16_bit_weights, region_dtypes, result_of


def on_module(
    frame: Frame, node: ast.Call, receiver: Value, name: str, positional: list[NodeValue], named: NamedValues
) -> Value:
    assert isinstance(node.func, ast.Attribute)
    if name in WEIGHT_CASTS or name == "to":
        return _cast_module(frame, node, receiver, name, positional, named)
    if name in SAME_WEIGHTS:
        return receiver
    if name == "append" and receiver.detail == TorchLayer("ModuleList"):
        return _appended(frame, node, receiver, positional)
    if name in LOOKING:
        if name == "load_state_dict" and takes_over(node):
            _forget_dtype(frame, node, receiver)
        return UNKNOWN_VALUE
    if name == "register_buffer":
        _register(frame, node, receiver, positional, named)
        return UNKNOWN_VALUE
    detail = receiver.detail
    if isinstance(detail, ProjectClass):
        target = frame.analysis.method(detail, name)
        if target is not None:
            result = frame.analysis.applied(frame, node, target, positional, named, receiver)
            if bool(receiver.atoms) and frame.project.memo(casts_own_part, target):
                _forget_dtype(frame, node, receiver)
            return result
        here = frame.get(place_of(node.func) or "")
        if here is not None and here.kind is Kind.MODULE:
            return forward(frame, node, here, positional, named)
        part = frame.analysis.attributes(detail).get(name)
        if part is not None and part.kind is Kind.MODULE:
            return forward(frame, node, part_of(frame, receiver, detail, part, name), positional, named)
        if name not in FORWARD:
            forget(frame, node.func.value)
        return result_of(frame, node)
    if name in FORWARD:
        return forward(frame, node, receiver, positional, named)
    if holds_by_name(receiver) and name in receiver.keys:
        return forward(frame, node, part_named(receiver, name), positional, named)
    forget(frame, node.func.value)
    part = attribute_value(frame, receiver, name)
    part = part if part.kind is Kind.MODULE else model_by_name(node.func)
    return forward(frame, node, part, positional, named) if part.kind is Kind.MODULE else UNKNOWN_VALUE


def _forget_dtype(frame: Frame, node: ast.Call, receiver: Value) -> None:
    """The weights have whatever dtype a state has from now on."""
    assert isinstance(node.func, ast.Attribute)
    forget(frame, node.func.value)
    place = place_of(node.func.value)
    if place is not None:
        frame.put(place, replace(receiver, atoms=(), recast=()))


def _appended(frame: Frame, node: ast.Call, container: Value, positional: list[NodeValue]) -> Value:
    """``self.layers.append(Block())``: all that are appended are alike, or nothing is known of them."""
    assert isinstance(node.func, ast.Attribute)
    place, known = place_of(node.func.value), [value for _, value in positional if value.kind is Kind.MODULE]
    parts = (*(container.items or ()), *known)
    told = bool(known) and container.items is not None
    result = replace(container, items=tuple({part.detail: part for part in parts}.values()) if told else None)
    if place is not None:
        frame.put(place, result)
    return result


def _register(frame: Frame, node: ast.Call, receiver: Value, positional: list[NodeValue], named: NamedValues) -> None:
    own = frame.own_weights
    place = place_of(node.func.value) if isinstance(node.func, ast.Attribute) else None
    if place == "self" and own is not None and positional and isinstance(positional[0][0], ast.Constant):
        name = str(positional[0][0].value)
        given = [*positional[1:2], *((item[1], item[2]) for item in named if item[0] == "tensor")]
        for written, value in given[:1]:
            unknown = value.kind is Kind.TENSOR and not value.atoms
            held = value.with_atoms((own,)) if unknown and _is_quotient(written) else registered_buffer(value, own)
            frame.put(f"self.{name}", held)


def _is_quotient(node: ast.expr) -> bool:
    """Whether a number or tensor is floating, since it is made by a true division."""
    if not isinstance(node, ast.BinOp):
        return False
    arithmetic = isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Pow)
    return isinstance(node.op, ast.Div) or (arithmetic and (_is_quotient(node.left) or _is_quotient(node.right)))


def _cast_module(
    frame: Frame, node: ast.Call, receiver: Value, name: str, positional: list[NodeValue], named: NamedValues
) -> Value:
    """``module.to(...)`` casts in place, and returns the module."""
    if name == "to":
        cast = moved(frame, node, [(node, Value(Kind.TENSOR, receiver.atoms)), *positional], named)
        atoms = cast.atoms
    else:
        atoms = (Atom(WEIGHT_CASTS[name], made=MadeHow.CAST, source=frame.source(node, f".{name}() casts the module")),)
    if atoms is not receiver.atoms:  # not where it is only moved
        forget_by_other_name(frame, receiver)
        receiver = replace(receiver, recast=())
        assert isinstance(node.func, ast.Attribute)
        atoms = recast(frame, uncast(node.func.value), node, atoms)
    result = receiver.with_atoms(atoms)
    place = _cast_place(node)
    if place is not None and place != "self":
        frame.put(place, result)
    return result


def _cast_place(node: ast.expr) -> str | None:
    return place_of(uncast(node))


def forward(frame: Frame, node: ast.Call, module: Value, positional: list[NodeValue], named: NamedValues) -> Value:
    """A module applied to its inputs."""
    detail = module.detail
    if isinstance(detail, Alternatives):
        known = applied_any(frame, node, module, detail, lambda part: forward(frame, node, part, positional, named))
        if frame.run is not None or module.label == CHOSEN:
            return known  # what the branches of a constructor made is given mostly what the same branches chose
    if isinstance(detail, ProjectClass):
        target = frame.analysis.method(detail, "forward") or frame.analysis.method(detail, "__call__")
        layer = layer_of(frame, detail) if target is None else ""
        if layer:
            return layer_forward(frame, node, layer, module, positional)
        if target is None:
            return result_of(frame, node) if frame.analysis.is_module(detail) else UNKNOWN_VALUE
        known = frame.analysis.applied(frame, node, target, positional, named, module)
        known = result_of(frame, node) if known.kind is Kind.UNKNOWN else known
        return of_16_bit_weights(frame, node, module, known)
    if isinstance(detail, ImageTransform):
        return transformed(frame, node, detail)
    if isinstance(detail, TorchLayer) and detail.name == "Sequential":
        return _sequence(frame, node, module, positional)
    if isinstance(detail, TorchLayer):
        return layer_forward(frame, node, detail.name, module, positional)
    if detail == ATTENTION:
        return Value(Kind.SEQUENCE, items=(apply_operation(frame, node, ATTENTION, positional[1:4]), UNKNOWN_VALUE))
    if isinstance(detail, LibraryModel) and detail.prepared:
        source = frame.source(node, "a prepared model returns float32")
        return Value(Kind.TENSOR, (Atom(FP32, f"output of {module.label}", made=MadeHow.AUTOCAST, source=source),))
    if frame.run is not None:
        return Value(Kind.TENSOR)  # it may cast what it is given, and what it gives
    for name, item, value in [*(("", item, value) for item, value in positional), *named]:
        if not _is_label(name, item) and not _is_time(item) and not _may_be_tokens(node, module, name, value):
            report_input(frame, node, item, value, module.atoms, module)
    return _output(frame, node, module)


def _sequence(frame: Frame, node: ast.Call, container: Value, positional: list[NodeValue]) -> Value:
    """The parts one after the other; only the input of the first can be cast at this call."""
    if not container.items or len(positional) != 1:
        return UNKNOWN_VALUE
    item, value = positional[0]
    if meets_first(container):
        report_input(frame, node, item, value, container.atoms, container)
    record, frame.record, inner = frame.record, FlowRecord(), list[Meeting]()
    for position in range(len(container.items)):
        before = len(frame.record.meetings)
        value = forward(frame, node, nth_of(container, position), [(item, value)], [])
        made_inside = bool(position) and isinstance(container.items[position - 1].detail, ProjectClass)
        if frame.run is not None and made_inside and before < len(frame.record.meetings):
            inner += _between(frame, frame.record.meetings[before], position)
    record.take_parts(frame.record, frame.module, node)
    record.meetings += inner
    frame.record = record
    return value


def _between(frame: Frame, meeting: Meeting, position: int) -> Iterator[Meeting]:
    """What one part of a sequence gives the next: no expression of the source is either."""
    if isinstance(meeting.node, ast.Call):
        odd, meant = (frame.project.memo(_nth_part, (meeting.node, position - 1, at)) for at in (True, False))
        yield replace(meeting, odd=replace(meeting.odd, node=odd), meant=replace(meeting.meant, node=meant))


def _nth_part(_project: Project, asked: tuple[ast.Call, int, bool]) -> ast.expr:
    """``body[0](x)`` or ``body[1]`` of ``body(x)``, to be named in a message."""
    call, position, is_result = asked
    part = ast.Subscript(call.func, ast.Constant(position if is_result else position + 1))
    return ast.Call(part, call.args, []) if is_result else part


def _output(frame: Frame, node: ast.Call, module: Value) -> Value:
    """What a library's model returns: in the dtype of its weights, or of an open region that computes in another;
    of one that accelerate wraps nothing is known."""
    called = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in FORWARD else node.func
    if not module.atoms and module.label and may_be_prepared(frame.project, frame.module, called):
        return Value(Kind.TENSOR)
    is_read = isinstance(module.detail, LibraryModel) and module.detail.is_read
    known = tuple(replace(atom, guessed=not is_read) for atom in of_weights(module))
    alike = frame.autocast.state is not Autocasting.ON or all(atom.dtype in region_dtypes(frame) for atom in known)
    return Value(Kind.TENSOR, known) if known and alike else result_of(frame, node)


def _may_be_tokens(node: ast.Call, module: Value, name: str, value: Value) -> bool:
    """Items of a batch may be token ids, whatever they are called, unless the model is one that takes images."""
    if not any(atom.role is Role.DATA and atom.dtype is None for atom in value.atoms):
        return False
    if "text_encoder" in f"{module.label} {ast.unparse(node.func)}":
        return True
    detail = module.detail
    return not name and isinstance(detail, LibraryModel) and not takes_images(detail.name)


def _is_label(name: str, node: ast.expr) -> bool:
    """``labels=batch["labels"]``: classes and ids, which a loss takes, or an embedding; no weight is multiplied."""
    entry = node.slice if isinstance(node, ast.Subscript) else node
    key = str(entry.value) if isinstance(entry, ast.Constant) else last_name(entry)
    return name.endswith(LABELS) or key.endswith(LABELS)


def _is_time(node: ast.expr) -> bool:
    """Timesteps and masks may have any dtype: models cast them themselves."""
    text = ast.unparse(node).lower()
    return any(word in text for word in FREE_INPUTS) or text in ("t", "ts")


def made_layer(frame: Frame, node: ast.Call, name: str, positional: list[NodeValue], named: NamedValues) -> Value:
    if name == "Parameter" or name == "Buffer":
        own = frame.own_weights
        value = positional[0][1] if positional else UNKNOWN_VALUE
        if own is None and frame.module.scope_of(node).enclosing_class is not None:
            return Value(Kind.TENSOR)  # the class may be a module by a base that is not known
        return Value(Kind.TENSOR, (own,)) if own is not None else replace(value, scalar=False)
    layer = LAYERS.get(name)
    if layer is not None and layer.role in ("loss", "passing"):
        return Value(Kind.MODULE, (), detail=TorchLayer(name))
    given = any(key == "dtype" for key, _, _ in named)
    atoms = given_atoms(frame, named) if given else default_atoms(frame, node, f"{name} is made", MadeHow.MODULE)
    made = Value(Kind.MODULE, atoms or (), held(name, positional), detail=TorchLayer(name))
    return named_parts(made, name, positional)


def made_object(frame: Frame, node: ast.Call, found: ProjectClass) -> Value:
    if not frame.analysis.is_module(found):
        return Value(Kind.MODULE, (), detail=found)
    if not has_parts_with_weights(frame.analysis, found):
        return Value(Kind.MODULE, (), detail=found)
    return Value(Kind.MODULE, default_atoms(frame, node, f"{found.name} is made", MadeHow.MODULE), detail=found)


def loaded(frame: Frame, node: ast.Call, named: NamedValues) -> Value:
    """``Class.from_pretrained(...)``: a model in the dtype that is asked for; tokenizers and the like are none."""
    owner = attribute_chain(node.func)
    name = owner[-2] if owner is not None and len(owner) > 1 else ""
    assert isinstance(node.func, ast.Attribute)
    known = library_object(frame.analysis.qualified(frame.module, node.func.value) or "")
    if known is None and not _is_model_class(name):
        return UNKNOWN_VALUE
    if known is not None and not known.is_model:
        return UNKNOWN_VALUE
    atoms = given_atoms(frame, named)
    splat = any(key == "**" for key, _, _ in named)
    if atoms is None and known is not None and known.loaded is Loaded.FLOAT32 and not splat:
        atoms = default_atoms(frame, node, f"{name} is loaded", MadeHow.MODULE)
    return Value(Kind.MODULE, atoms or (), detail=LibraryModel(name, is_read=known is not None), label=name)


def _is_model_class(name: str) -> bool:
    """Whether a class is named like a model that returns what it computes; trl 0.13 makes logits beside values float32
    (``modeling_value_head.py``)."""
    others = ("Tokenizer", "Processor", "Config", "Extractor", "Scheduler", "Pipeline", "WithValueHead")
    plain = not any(word in name for word in others)
    return plain and (name.startswith(("Autoencoder", "UNet", "Auto")) or name.endswith(("Model", "VAE")))


def _wrapped(node: ast.expr, value: Value) -> Value:
    label = value.label or ast.unparse(node)
    return replace(value, detail=LibraryModel(label, prepared=True), atoms=(), label=label)


def prepared(positional: list[NodeValue]) -> Value:
    """``accelerator.prepare(model, optimizer, ...)`` gives its arguments back, models wrapped."""
    found = tuple(_wrapped(item, value) if value.kind is Kind.MODULE else value for item, value in positional)
    return found[0] if len(found) == 1 else Value(Kind.SEQUENCE, items=found)
