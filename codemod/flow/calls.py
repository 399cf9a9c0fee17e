"""Calls, told apart: operations of torch, methods of tensors, modules, loaders, the project's own functions."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import reduce

from ..python.functions import called_function, class_of
from ..python.names import ModuleNames
from ..torch.api import LOADERS, SAME_COMPUTATION
from ..torch.dtypes import BF16, Dtype
from ..torch.tables.libraries import ARRAY_FUNCTIONS, CALLERS, DEQUANTIZERS, LAYER_CLASSES, SCHEDULER_METHODS
from ..torch.tables.operations import operation
from .alternatives import CHOSEN
from .attributes import PAIR
from .bases import is_super, of_base
from .call_dtypes import NamedValues, moved
from .classes import ProjectClass, TorchLayer
from .data import data_object, image_dataset, transform
from .elements import each_of, elements_of_call
from .frame import Application, Frame, place_of
from .lattice import (
    ARRAY_VALUE,
    BEGINNING,
    FLOATING,
    NUMBER_VALUE,
    UNKNOWN_VALUE,
    Alternatives,
    Atom,
    Kind,
    MadeHow,
    Role,
    Value,
    join,
)
from .meetings import NodeValue
from .module_calls import forward, loaded, made_layer, made_object, on_module, prepared
from .operation_calls import apply_operation
from .promotion import promote
from .recasts import forget_given
from .records import fields_of_class, object_of, record_method
from .registries import handed_out
from .results import result_of

TENSOR_ONLY = {"float", "half", "bfloat16", "double", "type_as", "masked_fill", "masked_fill_", "unsqueeze", "detach"}
"""Methods that tell that an unknown receiver is a tensor (or a module: which is told apart by the table)."""
PAIRS = ("values_indices", "max-like")
"""Results of operations that give values and indices, the latter along a dimension."""
PLAIN_BUILTINS = {"len", "int", "float", "range", "str", "isinstance", "round", "bool", "hasattr", "callable", "id"}
LOOKED_AT = ("print", "type", "repr", "next", "list", "getattr", "issubclass", "dir", "vars")
"""Builtins that leave the modules that they are given as they are."""
GROWING = ("append", "extend", "insert", "pop", "clear", "remove")
CONVERTERS = ("prepare", "prepare_model", "setup_module")
"""Methods of accelerate's Accelerator and of Fabric: the modules that they return give float32 results."""
CASTS_OF_TYPES = ("typing.cast", "typing_extensions.cast")
LEGACY_TENSORS = ("torch.Tensor", "torch.FloatTensor")
"""Constructors that make float32 of any data."""
ARRAY_LIKE = (Kind.TENSOR, Kind.UNKNOWN, Kind.SEQUENCE)
OF_ONE_DTYPE = ("zeros", "ones", "full", "empty", "array", "asarray", "zeros_like", "ones_like", "stack", "fromfile")


def call(
    frame: Frame, node: ast.Call, receiver: Value | None, positional: list[NodeValue], named: NamedValues
) -> Value:
    """The value of a call whose receiver and arguments are evaluated."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "save_for_backward":
        saved = _spread(frame, positional)
        if saved is not None:
            frame.record.saved[node] = saved
        return NUMBER_VALUE
    value = _called(frame, node, name, receiver, positional, named)
    given = [value for _, value in positional]
    if named:
        given += [value for _, _, value in named]
    if not value.atoms and name.startswith(DEQUANTIZERS) and all(item.kind is not Kind.DTYPE for item in given):
        source = frame.source(node, f"{name} gives the dtype that the quantization remembers")
        return Value(Kind.TENSOR, (Atom(symbol="quantized", role=Role.QUANTIZED, can_be_half=False, source=source),))
    return of_gradient(value, given if receiver is None else [*given, receiver])


def _spread(frame: Frame, positional: list[NodeValue]) -> tuple[Value, ...] | None:
    """What is handed over, ``*masks`` one by one; None where it is not known how many these are."""
    found: list[Value] = []
    for item, value in positional:
        held = frame.get(place_of(item.value) or "") if isinstance(item, ast.Starred) else None
        if not isinstance(item, ast.Starred):
            found.append(value)
        elif held is None or held.items is None or held.label:
            return None
        else:
            found += held.items
    return tuple(found)


def of_gradient(value: Value, operands: list[Value]) -> Value:
    """In a backward pass: what is computed from the gradient, by whatever kernel, follows it."""
    for item in operands:
        if item.atoms and item.is_of_gradient:
            break
    else:
        return value
    if value.kind in (Kind.UNKNOWN, Kind.TENSOR) and not value.atoms:
        atom = Atom(symbol="gradient", role=Role.GRADIENT, can_be_half=False, made=MadeHow.GRADIENT)
        return Value(Kind.TENSOR, (atom,), label="any")
    lowered = (replace(atom, made=MadeHow.GRADIENT) if atom.role is Role.AUTOCAST else atom for atom in value.atoms)
    return value.with_atoms(lowered)


def _called(
    frame: Frame, node: ast.Call, name: str, receiver: Value | None, positional: list[NodeValue], named: NamedValues
) -> Value:
    model = frame.run.models.get(node) if frame.run is not None else None
    if model is not None and isinstance(model.detail, ProjectClass):
        if isinstance(node.func, ast.Attribute) and frame.analysis.method(model.detail, name) is not None:
            return on_module(frame, node, model, name, positional, named)
        return forward(frame, node, model, positional, named)
    if frame.run is not None and positional:
        skipped = CALLERS.get(frame.analysis.qualified(frame.module, node.func) or "")
        if skipped is not None:
            return _handed_to(frame, node, positional[0], positional[skipped:])
    if isinstance(node.func, ast.Attribute) and is_super(node.func.value):
        return of_base(frame, node, name, positional, named)
    chosen = receiver if not isinstance(node.func, ast.Attribute | ast.Name) else frame.get(name)
    if chosen is not None and chosen.kind is Kind.UNKNOWN and chosen.detail is not None:
        return made_of(frame, node, chosen, positional, named)
    if not isinstance(node.func, ast.Attribute | ast.Name):
        if receiver is None or receiver.kind is not Kind.MODULE:
            return UNKNOWN_VALUE
        return forward(frame, node, receiver, positional, named)
    if receiver is not None and receiver.kind is Kind.MODULE:
        return on_module(frame, node, receiver, name, positional, named)
    local = frame.get(name) if isinstance(node.func, ast.Name) else None
    if local is not None and local.kind is Kind.MODULE:
        return forward(frame, node, local, positional, named)
    qualified = frame.analysis.qualified(frame.module, node.func)
    if qualified is not None and qualified.startswith("torch."):
        return _torch(frame, node, qualified, positional, named)
    if name in SCHEDULER_METHODS and (receiver is None or receiver.kind is Kind.UNKNOWN):
        followed = [positional[index][1] for index in SCHEDULER_METHODS[name] if index < len(positional)]
        known = len(followed) == len(SCHEDULER_METHODS[name])
        return promote(followed, frame.module.document.path, node) if known else UNKNOWN_VALUE
    foreign = qualified is not None and receiver is not None and receiver.kind is Kind.UNKNOWN
    if (
        not foreign
        and receiver is not None
        and receiver.kind in (Kind.TENSOR, Kind.UNKNOWN, Kind.ARRAY, Kind.BATCH, Kind.SEQUENCE, Kind.RECORD)
    ):
        found = _method(frame, node, receiver, name, positional, named)
        if found is not None:
            return found
    return _other_call(frame, node, name, qualified, positional, named)


def _handed_to(frame: Frame, node: ast.Call, called: NodeValue, positional: list[NodeValue]) -> Value:
    """``checkpoint(self.block, x)``: what ``self.block(x)`` gives, where the project's own code says it."""
    item, value = called
    inner = ast.copy_location(ast.Call(item, [each for each, _ in positional], []), node)
    if isinstance(value.detail, ProjectClass) and value.kind is Kind.MODULE:
        return forward(frame, inner, value, positional, [])
    owner = frame.get(place_of(item.value) or "") if isinstance(item, ast.Attribute) else None
    if owner is None or not isinstance(owner.detail, ProjectClass) or not isinstance(item, ast.Attribute):
        return UNKNOWN_VALUE
    target = frame.analysis.method(owner.detail, item.attr)
    return frame.analysis.applied(frame, inner, target, positional, [], owner) if target is not None else UNKNOWN_VALUE


def made_of(frame: Frame, node: ast.Call, chosen: Value, positional: list[NodeValue], named: NamedValues) -> Value:
    """An object of a class that was chosen before, or of any one of several."""
    each = chosen.detail.values if isinstance(chosen.detail, Alternatives) else (chosen,)
    made = [
        made_layer(frame, node, item.detail.name, positional, named)
        if isinstance(item.detail, TorchLayer)
        else made_object(frame, node, item.detail)
        for item in each
        if isinstance(item.detail, TorchLayer | ProjectClass)
    ]
    if len(made) != len(each):
        return UNKNOWN_VALUE
    return replace(reduce(join, made), label=CHOSEN) if len(made) > 1 else made[0]


def _torch(frame: Frame, node: ast.Call, qualified: str, positional: list[NodeValue], named: NamedValues) -> Value:
    last = qualified.rpartition(".")[2]
    if last in SAME_COMPUTATION and positional and positional[0][1].kind is Kind.MODULE:
        return positional[0][1]
    forget_given(frame, positional, named)
    if qualified.startswith("torch.nn.") and not qualified.startswith(
        ("torch.nn.functional.", "torch.nn.utils", "torch.nn.init")
    ):
        return made_layer(frame, node, last, positional, named)
    if qualified in LEGACY_TENSORS and positional and positional[0][1].kind is not Kind.NUMBER:
        return apply_operation(frame, node, "zeros", [], named)
    known = operation(qualified)
    brought = data_object(frame, node, qualified, positional, named) if known is None else None
    if brought is not None:
        return brought
    if known is None:
        return (
            NUMBER_VALUE if qualified.startswith(("torch.device", "torch.cuda", "torch.distributed")) else UNKNOWN_VALUE
        )
    return apply_operation(frame, node, known.name, positional, named)


def _method(
    frame: Frame, node: ast.Call, receiver: Value, name: str, positional: list[NodeValue], named: NamedValues
) -> Value | None:
    assert isinstance(node.func, ast.Attribute)
    if receiver.kind is Kind.BATCH:
        return _from_batch(frame, node, receiver, name)
    if name == "astype" and receiver.kind in (Kind.ARRAY, Kind.UNKNOWN) and node.args:
        return array_of(frame, node, node.args[0])
    if receiver.kind is Kind.RECORD:
        return record_method(frame, node, receiver, name, positional)
    if receiver.kind in (Kind.SEQUENCE, Kind.ARRAY):
        place = place_of(node.func.value) if name in GROWING else None
        if place is not None:
            only = positional[0][1] if name == "append" and len(positional) == 1 else UNKNOWN_VALUE
            frame.put(place, _grown(receiver, only))
        return UNKNOWN_VALUE
    known = operation(name)
    told = name in TENSOR_ONLY or name == "to" or (known is not None and known.result == "array")
    told = told or (known is not None and known.result in PAIRS and _gives_pair(frame.module, node))
    if receiver.kind is Kind.UNKNOWN and not told:
        return None
    if known is None:
        return _random_result(receiver, name)
    if name == "to" and receiver.kind is Kind.UNKNOWN:
        cast = moved(frame, node, [(node.func.value, receiver), *positional], named)
        return cast if cast.atoms else UNKNOWN_VALUE
    return apply_operation(frame, node, name, [(node.func.value, receiver), *positional], named, method=True)


def _gives_pair(module: ModuleNames, node: ast.Call) -> bool:
    """Whether values and indices are taken apart, as of a tensor: an array has one result, and no ``dim=``."""
    above = module.parents.get(node)
    named = any(item.arg in ("dim", "keepdim") for item in node.keywords)
    apart = isinstance(above, ast.Assign) and any(
        isinstance(item, ast.Tuple) and len(item.elts) == len(PAIR) for item in above.targets
    )
    by_name = isinstance(above, ast.Attribute) and above.attr in PAIR
    second = isinstance(above, ast.Subscript) and isinstance(above.slice, ast.Constant) and above.slice.value == 1
    return bool(node.args or node.keywords) and (named or apart or by_name or second)


def _converts(func: ast.Attribute) -> bool:
    of_fabric = func.attr == "setup" and "fabric" in ast.unparse(func.value).lower()
    return func.attr in CONVERTERS or of_fabric


def _grown(listed: Value, item: Value) -> Value:
    """``outputs.append(x)``: all that are gathered are alike, or nothing is known of them."""
    alike = listed.items in ((), (item,)) and item.kind is Kind.TENSOR and listed.label != BEGINNING
    return each_of(item) if alike else Value(listed.kind)


def _random_result(receiver: Value, name: str) -> Value | None:
    """Methods of what models return: ``latent_dist.sample()``, ``.mode()``."""
    return receiver if receiver.kind is Kind.TENSOR and name in ("sample", "mode", "rsample") else None


def _from_batch(frame: Frame, node: ast.Call, receiver: Value, name: str) -> Value | None:
    if name in ("get", "pop") and node.args and isinstance(node.args[0], ast.Constant):
        text = f"{receiver.label}[{node.args[0].value!r}]"
        source = frame.source(node, f"{text} comes from the data pipeline")
        return Value(Kind.TENSOR, (Atom(symbol=text, role=Role.DATA, source=source, expression=node),))
    return receiver if name in ("to", "cuda") else None


def _other_call(
    frame: Frame, node: ast.Call, name: str, qualified: str | None, positional: list[NodeValue], named: NamedValues
) -> Value:
    if name in LOADERS and isinstance(node.func, ast.Attribute):
        return loaded(frame, node, named)
    if isinstance(node.func, ast.Attribute) and _converts(node.func):
        return prepared(positional)
    registered = handed_out(frame, node, (qualified,))
    if registered.kind is Kind.MODULE:
        return registered
    if qualified in LAYER_CLASSES:
        return made_layer(frame, node, LAYER_CLASSES[qualified], positional, named)
    if (
        name in ("unwrap_model", "compile", "DistributedDataParallel", "DataParallel", "deepcopy", "get_peft_model")
        and positional
    ):
        return positional[0][1]
    if isinstance(node.func, ast.Name) and name in PLAIN_BUILTINS:
        return NUMBER_VALUE
    target = called_function(frame.project, frame.module, node)
    if target is not None and target.node.name != "__init__":
        return frame.analysis.applied(frame, node, target, positional, named, None)
    if not (isinstance(node.func, ast.Name) and name in LOOKED_AT):
        forget_given(frame, positional, named)
    found = class_of(frame.project, frame.module, node.func)
    if found is not None:
        kept = fields_of_class(frame, ProjectClass(*found), node, positional, named)
        return kept if kept is not None else made_object(frame, node, ProjectClass(*found))
    brought = elements_of_call(node, name, positional)
    if brought is not None:
        return brought
    if qualified in CASTS_OF_TYPES and len(positional) == 2:
        return positional[1][1]
    made = transform(frame, node, qualified or "") or image_dataset(frame, node, qualified or "", named)
    if made is not None:
        return made
    kept = object_of(node, qualified, named)
    if kept is not None:
        return kept
    if qualified in ARRAY_FUNCTIONS and any(value.kind in ARRAY_LIKE for _, value in positional):
        frame.record.applications[node] = Application(
            frame.module, node, qualified, None, tuple(positional), frame.autocast, frame.function
        )
    if qualified in ("numpy.asarray", "numpy.array") and positional:
        return ARRAY_VALUE
    return array_made(frame, node, named) if (qualified or "").startswith("numpy.") else result_of(frame, node)


def array_made(frame: Frame, node: ast.Call, named: NamedValues) -> Value:
    """``np.zeros(shape, dtype=np.float32)``."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    given = next((item for key, item, _ in named if key == "dtype"), None)
    return array_of(frame, node, given) if given is not None and name in OF_ONE_DTYPE else ARRAY_VALUE


def array_of(frame: Frame, node: ast.Call, dtype: ast.expr) -> Value:
    """``array.astype(np.float32)``, ``array.astype("float32")``."""
    name = dtype.value if isinstance(dtype, ast.Constant) else frame.analysis.qualified(frame.module, dtype)
    found = Dtype(str(name).removeprefix("numpy."))
    if found not in FLOATING or found == BF16:
        return ARRAY_VALUE
    source = frame.source(node, f"this array is {found.name}")
    return Value(Kind.ARRAY, (Atom(found, made=MadeHow.FACTORY, source=source),))
