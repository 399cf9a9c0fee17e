"""Datasets and loaders: what one batch holds, where the project's own code makes it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from ..python.functions import FunctionTarget, called_function, named_function
from ..python.names import is_none, parameters_of
from ..torch.dtypes import FP32
from ..torch.tables.libraries import IMAGE_DATASETS, SAMPLING, TO_TENSOR, keeps_image_dtype
from .call_dtypes import NamedValues, default_atoms
from .classes import ProjectClass
from .elements import any_item, each_of, sampled
from .frame import Frame
from .lattice import UNKNOWN_VALUE, Kind, MadeHow, Role, Value
from .meetings import NodeValue

LOADER = "torch.utils.data.DataLoader"


def data_object(
    frame: Frame, node: ast.Call, qualified: str, positional: list[NodeValue], named: NamedValues
) -> Value | None:
    """What goes through a loader, or through a dataset of torch; None for other classes and functions."""
    name = qualified.rpartition(".")[2]
    if not qualified.startswith("torch.utils.data."):
        return None
    if name == "TensorDataset":
        return each_of(Value(Kind.SEQUENCE, items=tuple(value for _, value in positional)))
    given = next((value for key, _, value in named if key == "dataset"), positional[0][1] if positional else None)
    if given is None:
        return None
    if name in SAMPLING:
        return each_of(given) if name == "random_split" else given
    return _loader(frame, node, given) if qualified == LOADER else None


def _element(frame: Frame, dataset: Value) -> Value:
    """One sample of a dataset: of a list, or what ``__getitem__`` or ``__iter__`` of the project's class gives."""
    if dataset.kind is Kind.SEQUENCE:
        return any_item(dataset)
    return sample_of(frame, dataset)


def sample_of(frame: Frame, dataset: Value) -> Value:
    """``dataset[0]``, for an object of the project's own class."""
    found = dataset.detail
    if dataset.kind is not Kind.MODULE or not isinstance(found, ProjectClass) or frame.analysis.is_module(found):
        return UNKNOWN_VALUE
    single, many = (frame.analysis.method(found, name) for name in ("__getitem__", "__iter__"))
    if single is not None:
        return told(frame.analysis.function(single.module, single.node).returned)
    if many is not None:
        return told(any_item(frame.analysis.function(many.module, many.node).returned))
    return UNKNOWN_VALUE


def told(value: Value) -> Value:
    """What is known of a value wherever it is used: dtypes that depend on the arguments of a call are left out."""
    items = tuple(told(item) for item in value.items) if value.items is not None else None
    fixed = all(atom.dtype is not None for atom in value.atoms)
    return replace(value, atoms=value.atoms if fixed else (), items=items)


def _loader(frame: Frame, node: ast.Call, dataset: Value) -> Value:
    """A loader: batches of the samples, put together by ``collate_fn`` where it is given.

    Where one of the two is the project's own, or a function of a library, and is not followed, a batch is unknown.
    """
    options = {item.arg: item.value for item in node.keywords}
    if None in options or len(node.args) > 6:
        return UNKNOWN_VALUE
    element, collate = _element(frame, dataset), options.get("collate_fn")
    is_collated = collate is not None and not is_none(collate)
    if collate is not None and is_collated:
        element = _collated(frame, collate, element)
    elif "batch_size" not in options or not is_none(options["batch_size"]):
        element = sampled(element)
    element = _as_data(frame, node, element)
    if element.kind in (Kind.TENSOR, Kind.SEQUENCE, Kind.RECORD):
        return each_of(element)
    return Value(Kind.SEQUENCE) if is_collated or isinstance(dataset.detail, ProjectClass) else UNKNOWN_VALUE


def _as_data(frame: Frame, node: ast.Call, value: Value) -> Value:
    """What a loader gives, in the dtype in which the data code made it."""
    items = tuple(_as_data(frame, node, item) for item in value.items) if value.items is not None else None
    text = "the loader gives it as it was made"
    atoms = (
        replace(atom, role=Role.DATA, made=MadeHow.PLAIN, source=frame.source(node, text, atom.source))
        if atom.dtype == FP32
        else atom
        for atom in value.atoms
    )
    return replace(value, atoms=tuple(atoms), items=items)


def _collated(frame: Frame, collate: ast.expr, element: Value) -> Value:
    """What the project's function makes of a list of samples."""
    found = _of_lambda(frame, collate) if isinstance(collate, ast.Lambda) else _of_name(frame, collate)
    if found is None:
        return UNKNOWN_VALUE
    target, samples = found
    names = {samples: each_of(element)} if element.kind is not Kind.UNKNOWN else {}
    return told(frame.analysis.with_names(target.module, target.node, names).returned)


def _of_lambda(frame: Frame, collate: ast.Lambda) -> tuple[FunctionTarget, str] | None:
    """``lambda samples: f(samples, pad)``: the function, and its parameter that the samples are given to."""
    parameters, call = parameters_of(collate), collate.body
    if len(parameters) != 1 or not isinstance(call, ast.Call):
        return None
    given = [*call.args, *(item.value for item in call.keywords)]
    samples = [item for item in given if isinstance(item, ast.Name) and item.id == parameters[0].arg]
    target = called_function(frame.project, frame.module, call) if len(samples) == 1 else None
    if target is None or target.node.name == "__init__":
        return None
    name = target.parameter_for(call, samples[0])
    return (target, name) if name is not None else None


def _of_name(frame: Frame, collate: ast.expr) -> tuple[FunctionTarget, str] | None:
    """``f``, ``module.f``, ``self.f``, ``partial(f, pad=0)``: the function, and the first parameter that is left."""
    given: list[str | None] = []
    if isinstance(collate, ast.Call):
        if frame.analysis.qualified(frame.module, collate.func) != "functools.partial" or len(collate.args) != 1:
            return None
        given, collate = [item.arg for item in collate.keywords], collate.args[0]
    scope = frame.module.scope_of(collate)
    if isinstance(collate, ast.Name) and len(scope.lookup(collate.id)) != 1:
        return None
    target = named_function(frame.project, frame.module, collate, scope)
    if target is None or target.node.name == "__init__":
        return None
    left = [item.arg for item in target.node.args.args[int(target.bound) :] if item.arg not in given]
    return (target, left[0]) if left else None


@dataclass(frozen=True, slots=True)
class ImageTransform:
    """A transform of torchvision that makes float32 of an image."""

    name: str


def transform(frame: Frame, node: ast.Call, qualified: str) -> Value | None:
    """``ToTensor()``, and a ``Compose`` in which nothing behind it gives another dtype."""
    if qualified in TO_TENSOR:
        return Value(Kind.MODULE, (), detail=ImageTransform("ToTensor"))
    parts = node.args[0].elts if node.args and isinstance(node.args[0], ast.List | ast.Tuple) else []
    names = [frame.analysis.qualified(frame.module, item.func) if isinstance(item, ast.Call) else "" for item in parts]
    last = max((index for index, name in enumerate(names) if name in TO_TENSOR), default=None)
    if last is None or not all(name and keeps_image_dtype(name) for name in names[last + 1 :]):
        return None
    return Value(Kind.MODULE, (), detail=ImageTransform("ToTensor"))


def transformed(frame: Frame, node: ast.Call, found: ImageTransform) -> Value:
    """What such a transform gives."""
    text = f"{found.name} makes float32 of every image"
    return Value(Kind.TENSOR, default_atoms(frame, node, text, MadeHow.FACTORY))


def image_dataset(frame: Frame, node: ast.Call, qualified: str, named: NamedValues) -> Value | None:
    """``torchvision.datasets.MNIST(root, transform=...)``: pairs of an image and a label."""
    if qualified not in IMAGE_DATASETS:
        return None
    made = next((value.detail for key, _, value in named if key == "transform"), None)
    if not isinstance(made, ImageTransform):
        return None
    return each_of(Value(Kind.SEQUENCE, items=(transformed(frame, node, made), UNKNOWN_VALUE)))
