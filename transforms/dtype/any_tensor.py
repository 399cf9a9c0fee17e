"""Functions that turn whatever tensor they are given into an array, and whether bfloat16 ones are among these."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ...codemod.flow.classes import ProjectClass, is_torch_module
from ...codemod.model import Place
from ...codemod.python.bindings import reaching
from ...codemod.python.callers import callers_of
from ...codemod.python.names import FunctionNode, ModuleNames, names_of
from ...codemod.python.paths import guard_facts
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import BF16
from ..hardware.deployment import is_test
from .half_runs import Run, nearest, runs_of
from .model_outputs import output_of
from .model_results import region_of
from .numpy_readings import Reading

_SAME_TENSOR = ("detach", "cpu", "clone", "squeeze", "contiguous", "resolve_conj", "permute", "transpose", "flatten")
_PRECISION = (".float(", "dtype", "bfloat16", ".half(", "uint8", ".double(", ".int(", ".long(", "torch.float")
"""A function that holds one of these has thought of dtypes."""
_LOGGING = ("log", "logs", "logger", "loggers", "logging", "saver", "tensorboard", "wandb", "mlflow",
             "neptune", "comet", "summary", "writer", "monitor")  # fmt: skip
_INTEGRAL = ("id", "ids", "idx", "index", "indices", "label", "labels", "box", "boxes", "bbox", "mask", "masks",
             "token", "tokens", "seq", "length", "lengths", "points", "target", "targets", "step", "epoch")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Converter:
    """A function that takes any tensor."""

    name: str
    """The function's, or that of the class which it constructs."""
    parameter: str
    why: tuple[Place, ...]
    """Where bfloat16 comes from."""
    is_handed_output: bool
    """Whether a caller hands it what a model computed in a bfloat16 region."""


def converter_of(project: Project, reading: Reading) -> Converter | None:
    """The converter that ``reading`` is part of, where the project gives reason to expect bfloat16 tensors."""
    found = _guarded_parameter(reading)
    if found is None:
        return None
    function, name = found
    if _thinks_of_dtypes(function) or not set(name.lower().split("_")).isdisjoint(_INTEGRAL):
        return None
    handed = _handed_output(project, reading.module, function, name)
    if handed is not None:
        return Converter(_called(reading.module, function), name, handed, True)
    if not _takes_what_training_makes(project, reading.module, function):
        return None
    place = _bf16_of_project(project, reading.module.document.path)
    return Converter(_called(reading.module, function), name, (place,), False) if place is not None else None


def _called(module: ModuleNames, function: FunctionNode) -> str:
    owner = module.scopes[function].parent
    if function.name == "__init__" and owner is not None and isinstance(owner.node, ast.ClassDef):
        return owner.node.name
    return function.name


def _guarded_parameter(reading: Reading) -> tuple[FunctionNode, str] | None:
    """The function and its parameter, where a test tells that it is a tensor and nothing tells of which dtype."""
    module = reading.module
    start = _start_of(reading.tensor)
    function = module.scope_of(reading.call).function.node
    if start is None or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    bindings = reaching(module, module.scope_of(start).lookup(start.id), reading.call)
    if not bindings or any(item.kind != "parameter" for item in bindings):
        return None
    tests = (f"isinstance({start.id}, ", f"torch.is_tensor({start.id})", f"type({start.id})")
    facts = [text for text, holds in guard_facts(module, reading.call) if holds]
    asks = any(test in text and ("Tensor" in text or "is_tensor" in text) for text in facts for test in tests)
    return (function, start.id) if asks else None


def _start_of(node: ast.expr) -> ast.Name | None:
    """The name that a chain of moves and views starts from."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_TENSOR:
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        else:
            return node if isinstance(node, ast.Name) else None


def _thinks_of_dtypes(function: FunctionNode) -> bool:
    body = "\n".join(ast.unparse(item) for item in function.body)
    return any(word in body for word in _PRECISION)


def _handed_output(
    project: Project, module: ModuleNames, function: FunctionNode, name: str
) -> tuple[Place, ...] | None:
    """The call that hands over a model's bfloat16 result, and its region."""
    for site in callers_of(project, module, function).sites:
        argument = site.target.arguments(site.call).get(name)
        output = output_of(project, site.module, argument) if argument is not None else None
        region = region_of(project, output) if output is not None else None
        if region is not None and argument is not None:
            document = site.module.document
            return Place(document.path, document.span(argument), "a model's result is handed over"), region.place
    return None


def _takes_what_training_makes(project: Project, module: ModuleNames, function: FunctionNode) -> bool:
    """Whether it logs what a training run hands it, or builds a module from what a checkpoint holds."""
    owner = module.scope_of(function).enclosing_class
    if function.name == "__init__":
        return owner is not None and is_torch_module(project, ProjectClass(module, owner))
    names = [function.name, module.document.path.rpartition("/")[2].removesuffix(".py")]
    if owner is not None and isinstance(owner.node, ast.ClassDef):
        names.append(owner.node.name)
    return any(word in name.lower().split("_") for name in names for word in _LOGGING)


def _bf16_of_project(project: Project, path: str) -> Place | None:
    """Where what runs the file computes in bfloat16, or speaks of it in code."""
    run = next((item for item in runs_of(project, path) if BF16 in item.dtypes), None)
    if run is None:
        run = next(iter(nearest(project.fact(_written), path)), None)
    return run.place if run is not None else None


def _written(project: Project) -> tuple[Run, ...]:
    """The first ``torch.bfloat16`` of each file that is no test."""
    found = []
    for document in project.python_documents(("torch.bfloat16",)):
        nodes = names_of(project, document).attribute_loads.get("bfloat16", []) if not is_test(document.path) else []
        if nodes:
            span = document.span(nodes[0])
            found.append(Run(document.path, span, frozenset({BF16}), "what runs it uses bfloat16"))
    return tuple(found)
