"""What a model gives inside an open region, where nothing is known of its forward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.functions import class_of, method_of
from ..python.names import FunctionNode, ModuleNames, Scope, attribute_chain, last_name, modules_with
from ..source.facts import fact, memo
from ..source.project import Project
from ..torch.api import NARROWING
from ..torch.dtypes import HALVES, Dtype
from ..torch.tables.libraries import MODEL_WORDS, OUTPUT_ATTRIBUTES
from .classes import ProjectClass
from .facts import module_of
from .frame import Autocasting, Frame
from .lattice import UNKNOWN_VALUE, Atom, DtypeSource, Kind, Role, Value, as_floating

BY_WEIGHTS = "result of the weights of"
"""How the symbol of a result begins that 16-bit weights gave, not autocast."""
FORWARD = {"forward", "encode", "decode", "__call__", "encode_image", "encode_text"}
"""Methods by which code applies a model."""
MODULE_METHODS = ("eval", "train", "parameters", "named_parameters", "state_dict", "load_state_dict", "requires_grad_")
WIDE = ("float", "float32", "double", "float64", "upcast", "autocast")
MAX_CLASSES = 60
"""Models that are made of more classes than this are not judged."""


def result_of(frame: Frame, node: ast.Call) -> Value:
    """The result of ``model(x)`` under autocast: 16-bit unless the model ends in float32; unknown for other calls."""
    called = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in FORWARD else node.func
    if frame.autocast.state is not Autocasting.ON or not _is_model(frame, called):
        return UNKNOWN_VALUE
    if may_be_prepared(frame.project, frame.module, called):
        return UNKNOWN_VALUE
    text = ast.unparse(called)
    source = DtypeSource(frame.module.document.path, node, f"{text} computes it in this region", frame.autocast.region)
    atom = Atom(
        symbol=f"result of {text}", role=Role.RESULT, can_be_half=False, source=source, expression=called,
        candidates=region_dtypes(frame),
    )  # fmt: skip
    return Value(Kind.TENSOR, (atom,), label="output")


def region_dtypes(frame: Frame) -> frozenset[Dtype]:
    """What the open region can compute in, as far as that is known."""
    named = frame.autocast.atom
    return named.candidates or frozenset({named.dtype} if named.dtype is not None else ())


def of_16_bit_weights(frame: Frame, node: ast.Call, module: Value, known: Value) -> Value:
    """What a model of the project gives whose weights are 16-bit, where its own code is not followed to the end."""
    detail = module.detail
    dtypes = frozenset(atom.dtype for atom in module.atoms if atom.dtype in HALVES)
    if not isinstance(detail, ProjectClass) or len(dtypes) != 1 or len(module.atoms) != 1:
        return known
    fields = {key: value for key, value in known.fields().items() if key in OUTPUT_ATTRIBUTES}
    unknown = {key for key, value in fields.items() if value.kind in (Kind.UNKNOWN, Kind.TENSOR) and not value.atoms}
    if not unknown and known.kind is not Kind.UNKNOWN:
        return known
    if frame.autocast.state is Autocasting.ON or may_end_wide(frame.project, detail):
        return known
    text, before = ast.unparse(node.func), module.atoms[0].source
    source = DtypeSource(frame.module.document.path, node, f"{text} computes it with these weights", before)
    atom = Atom(
        symbol=f"{BY_WEIGHTS} {text}", role=Role.RESULT, can_be_half=False, source=source, expression=node.func,
        candidates=frozenset(item for item in dtypes if item is not None),
    )  # fmt: skip
    result = Value(Kind.TENSOR, (atom,), label="output")
    if known.kind is Kind.UNKNOWN:
        return result
    filled = as_floating(result)
    return known.with_fields({key: filled if key in unknown else value for key, value in known.fields().items()})


def _is_model(frame: Frame, node: ast.expr) -> bool:
    chain = attribute_chain(node)
    if chain is None or frame.analysis.qualified(frame.module, node) is not None:
        return False
    if chain != ["self"] and chain[0] != "self" and not frame.module.scope_of(node).lookup(chain[0]):
        return False
    named = chain[-1].lower().rstrip("_0123456789").rpartition("_")[2] in MODEL_WORDS
    return named or chain == ["self"] or any(_has(frame, chain, method) for method in MODULE_METHODS)


def _has(frame: Frame, chain: list[str], method: str) -> bool:
    """``x.eval()``, ``x.parameters()``: what only modules have."""
    return ".".join((*chain, method)) in frame.project.fact(_read_of_modules, frame.module.path)


def _read_of_modules(project: Project, path: str) -> frozenset[str]:
    """The chains in a file that end with what only modules have."""
    module = module_of(project, path)
    table = module.attribute_loads if module is not None else {}
    loads = (node for method in MODULE_METHODS for node in table.get(method, []))
    return frozenset(".".join(chain) for node in loads if (chain := attribute_chain(node)) is not None)


@memo
def may_end_wide(project: Project, found: ProjectClass) -> bool:
    """Whether some ``forward`` of the class, or of the project's classes it builds, may give float32."""
    seen, waiting = {found.scope}, [found]
    while waiting:
        current = waiting.pop()
        target = method_of(project, current.module, current.scope, "forward")
        if target is not None and _gives_wide(target.node):
            return True
        for module, scope in _built(project, current):
            if scope not in seen:
                seen.add(scope)
                waiting.append(ProjectClass(module, scope))
        if len(seen) > MAX_CLASSES:
            return True
    return False


def _built(project: Project, found: ProjectClass) -> Iterator[tuple[ModuleNames, Scope]]:
    """The classes of the project whose objects the constructor makes."""
    target = method_of(project, found.module, found.scope, "__init__")
    for node in ast.walk(target.node) if target is not None else ():
        if target is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            made = class_of(project, target.module, node.func)
            if made is not None:
                yield made


def _gives_wide(function: FunctionNode) -> bool:
    """Whether float32 is asked for in a function, and a ``return`` of it does not cast back."""
    if not any(_word(node) in WIDE for node in ast.walk(function)):
        return False
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    return not returned or not all(_casts_back(value) for value in returned)


def _word(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else node.arg or "" if isinstance(node, ast.keyword) else ""


def _casts_back(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in NARROWING for node in ast.walk(value)) and not any(
        _word(node) in WIDE for node in ast.walk(value)
    )


@fact
def prepared_names(project: Project) -> frozenset[str]:
    """The names of everything that is passed to a method called ``prepare``, digits at their end left out.

    accelerate 1.15 wraps the forward of a prepared model: it runs under autocast, and its outputs become float32.
    """
    found: set[str] = set()
    for module in modules_with(project, ("prepare(",)):
        for call in module.calls_by_name.get("prepare", []):
            if isinstance(call.func, ast.Attribute) and "accelerator" in ast.unparse(call.func.value).lower():
                found.update(plain_name(item) for item in call.args)
    return frozenset(found - {""})


def may_be_prepared(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether the model that ``node`` names can have gone through ``prepare``.

    A script that prepares nothing (inference, export) runs the model as it loaded it.
    """
    if plain_name(node) not in prepared_names(project):
        return False
    return "prepare" in module.calls_by_name or "__main__" not in module.document.text


def plain_name(node: ast.expr) -> str:
    """``text_encoder`` for ``text_encoder2``, ``self.text_encoder``, ``text_encoders[0]``."""
    if isinstance(node, ast.Subscript | ast.Starred):
        return plain_name(node.value)
    name = last_name(node)
    name = name.rstrip("_0123456789")
    return name.removesuffix("s") if name.endswith("encoders") else name
