"""Modules in calls: casts in place, forwards, loaders, wrappers."""

from __future__ import annotations

import ast
from dataclasses import replace

from ..dtypes import BF16, FP16, FP32, FP64
from ..names import attribute_chain
from .call_dtypes import Named, default_atom, given_atoms, moved
from .classes import LibraryModel, ProjectClass, TorchLayer, attribute_value, model_by_name, registered_buffer
from .frame import Frame, place_of
from .lattice import UNKNOWN_VALUE, Atom, Kind, Role, Value
from .layer_calls import layer_forward
from .libraries import library_object
from .meetings import NodeValue, report_bypass, report_input
from .prepared import may_be_prepared

CAST_METHODS = {"half": FP16, "bfloat16": BF16, "float": FP32, "double": FP64}
SAME_MODULE = {"cuda", "cpu", "eval", "train", "requires_grad_", "xpu", "npu", "to_empty", "share_memory"}
FORWARD = {"forward", "encode", "decode", "__call__", "encode_image", "encode_text"}


def on_module(
    frame: Frame, node: ast.Call, receiver: Value, name: str, positional: list[NodeValue], named: Named
) -> Value:
    assert isinstance(node.func, ast.Attribute)
    if name in CAST_METHODS or name == "to":
        return _cast_module(frame, node, receiver, name, positional, named)
    if name in SAME_MODULE:
        return receiver
    if name == "register_buffer":
        _register(frame, node, receiver, positional, named)
        return UNKNOWN_VALUE
    detail = receiver.detail
    if isinstance(detail, ProjectClass):
        target = frame.analysis.method(detail, name)
        if target is not None:
            return frame.analysis.applied(frame, node, target, positional, named, receiver)
        part = frame.analysis.attributes(detail).get(name)
        if part is not None and part.kind is Kind.MODULE:
            atoms = receiver.atoms if part.atoms == (frame.analysis.own_weights(detail),) else part.atoms
            return forward(frame, node, part.with_atoms(atoms), positional, named)
        return UNKNOWN_VALUE
    if name in FORWARD:
        return forward(frame, node, receiver, positional, named)
    part = attribute_value(frame, receiver, name)
    part = part if part.kind is Kind.MODULE else model_by_name(node.func)
    return forward(frame, node, part, positional, named) if part.kind is Kind.MODULE else UNKNOWN_VALUE


def _register(frame: Frame, node: ast.Call, receiver: Value, positional: list[NodeValue], named: Named) -> None:
    own = frame.own_weights
    place = place_of(node.func.value) if isinstance(node.func, ast.Attribute) else None
    if place == "self" and own is not None and positional and isinstance(positional[0][0], ast.Constant):
        name = str(positional[0][0].value)
        value = (
            positional[1][1] if len(positional) > 1 else next((item[2] for item in named if item[0] == "tensor"), None)
        )
        if value is not None:
            frame.put(f"self.{name}", registered_buffer(value, own))


def _cast_module(
    frame: Frame, node: ast.Call, receiver: Value, name: str, positional: list[NodeValue], named: Named
) -> Value:
    """``module.to(...)`` casts in place, and returns the module."""
    if name == "to":
        cast = moved(frame, node, [(node, Value(Kind.TENSOR, receiver.atoms)), *positional], named)
        atoms = cast.atoms
    else:
        atoms = (Atom(CAST_METHODS[name], made="cast", source=frame.source(node, f".{name}() casts the module")),)
    result = receiver.with_atoms(atoms)
    place = _cast_place(node)
    if place is not None and place != "self":
        frame.put(place, result)
    return result


def _cast_place(node: ast.expr) -> str | None:
    """The place that holds the module of ``model.half()``, and of ``model.half().float()``."""
    names = {"to", *CAST_METHODS, *SAME_MODULE}
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
        node = node.func.value
    return place_of(node)


def forward(frame: Frame, node: ast.Call, module: Value, positional: list[NodeValue], named: Named) -> Value:
    """A module applied to its inputs."""
    detail = module.detail
    if isinstance(detail, ProjectClass):
        target = frame.analysis.method(detail, "forward")
        if target is not None:
            return frame.analysis.applied(frame, node, target, positional, named, module)
        return UNKNOWN_VALUE
    if isinstance(detail, TorchLayer):
        return layer_forward(frame, node, detail.name, module, positional)
    if detail is None:
        return UNKNOWN_VALUE  # branches made different modules of it
    if isinstance(detail, LibraryModel) and detail.prepared:
        source = frame.source(node, "a prepared model returns float32")
        return Value(Kind.TENSOR, (Atom(FP32, f"output of {module.label}", made="autocast", source=source),))
    for item, value in [*positional, *((item, value) for _, item, value in named)]:
        if not _is_time(item):
            report_bypass(frame, node, item, value, module)
            report_input(frame, node, item, value, module.atoms, module)
    return _output(frame, node, module)


def _output(frame: Frame, node: ast.Call, module: Value) -> Value:
    """What a library's model returns: in the dtype of its weights, or float32 once accelerate has wrapped it."""
    called = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in FORWARD else node.func
    if not module.atoms and module.label and may_be_prepared(frame.project, frame.module, called):
        source = frame.source(node, f"{module.label} is prepared by accelerate, which returns float32")
        return Value(Kind.TENSOR, (Atom(symbol=f"output of {module.label}", role=Role.OUTPUT, source=source),))
    return Value(Kind.TENSOR, module.atoms)


def _is_time(node: ast.expr) -> bool:
    """Timesteps and masks may have any dtype: models cast them themselves."""
    text = ast.unparse(node).lower()
    return any(word in text for word in ("timestep", "mask", "sigma", "ids", "guidance")) or text in ("t", "ts")


def made_layer(frame: Frame, node: ast.Call, name: str, positional: list[NodeValue], named: Named) -> Value:
    if name == "Parameter" or name == "Buffer":
        own = frame.own_weights
        value = positional[0][1] if positional else UNKNOWN_VALUE
        return Value(Kind.TENSOR, (own,)) if own is not None else replace(value, scalar=False)
    given = next((value for key, _, value in named if key == "dtype"), None)
    atoms = (
        given_atoms(frame, named) if given is not None else (default_atom(frame, node, f"{name} is made", "module"),)
    )
    return Value(Kind.MODULE, atoms or (), detail=TorchLayer(name))


def made_object(frame: Frame, node: ast.Call, found: ProjectClass) -> Value:
    if not frame.analysis.is_module(found):
        return Value(Kind.MODULE, (), detail=found)
    if frame.analysis.changes_default_dtype:
        return Value(Kind.MODULE, (), detail=found)
    return Value(Kind.MODULE, (default_atom(frame, node, f"{found.name} is made", "module"),), detail=found)


def loaded(frame: Frame, node: ast.Call, named: Named) -> Value:
    """``Class.from_pretrained(...)``: a model in the dtype that is asked for; tokenizers and the like are none."""
    owner = attribute_chain(node.func)
    name = owner[-2] if owner is not None and len(owner) > 1 else ""
    assert isinstance(node.func, ast.Attribute)
    known = library_object(frame.analysis.qualified(frame.module, node.func.value) or "")
    if known is None and not _is_model_class(name):
        return UNKNOWN_VALUE
    if known is not None and known.kind != "model":
        return UNKNOWN_VALUE
    atoms = given_atoms(frame, named)
    splat = any(key == "**" for key, _, _ in named)
    if atoms is None and known is not None and known.loaded == "float32" and not splat:
        atoms = (default_atom(frame, node, f"{name} is loaded", "module"),)
    return Value(Kind.MODULE, atoms or (), detail=LibraryModel(name), label=name)


def _is_model_class(name: str) -> bool:
    plain = not any(word in name for word in ("Tokenizer", "Processor", "Config", "Extractor", "Scheduler", "Pipeline"))
    return plain and (name.startswith(("Autoencoder", "UNet", "Auto")) or name.endswith(("Model", "VAE")))


def _wrapped(node: ast.expr, value: Value) -> Value:
    label = value.label or ast.unparse(node)
    return replace(value, detail=LibraryModel(label, prepared=True), atoms=(), label=label)


def prepared(positional: list[NodeValue]) -> Value:
    """``accelerator.prepare(model, optimizer, ...)`` gives its arguments back, models wrapped."""
    found = tuple(_wrapped(item, value) if value.kind is Kind.MODULE else value for item, value in positional)
    return found[0] if len(found) == 1 else Value(Kind.SEQUENCE, items=found)
