"""Which models certainly have 16-bit weights at one place: cast or loaded so, and nothing casts them back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ...codemod.model import Place
from ...codemod.python.creations import Creation, creations_of
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.source.project import Project
from ...codemod.torch.api import MODEL_WRAPPERS, SAME_COMPUTATION
from ...codemod.torch.dtypes import HALVES, Dtype
from ...codemod.torch.half_models import half_cast
from ...codemod.torch.weights import cast_dtype
from ...codemod.trainers.reading.loads import load_at
from ...codemod.trainers.reading.trained_loads import ADAPTED, FROZEN, may_recast, mentions, statements_about

MAX_MODELS = 200
"""Groups of parameters that are followed in one optimizer."""
MAX_HOPS = 8
"""How many names and calls stand between an optimizer and the model whose parameters it is given."""
SELECTING = ("list", "tuple", "filter", "iter", "chain")


@dataclass(frozen=True, slots=True)
class HalfWeights:
    """A model whose weights are 16-bit."""

    name: str
    dtype: Dtype
    place: Place
    """What makes them so."""


def half_weights(
    project: Project, module: ModuleNames, model: ast.expr, before: ast.Call, *, later: bool = False
) -> HalfWeights | None:
    """The 16-bit weights that ``model`` has when ``before`` runs; None where they are not certain to be 16-bit.

    ``later``: also those that it gets further down, for who only takes references to them.
    """
    if attribute_chain(model) is None:
        return None
    for dtype in HALVES:
        cast = half_cast(project, module, model, before, dtype, in_place_after=later)
        if cast is not None:
            return _known(module, model, dtype, module, cast)
    return _made_elsewhere(project, module, model, before)


def _known(module: ModuleNames, model: ast.expr, dtype: Dtype, there: ModuleNames, cast: ast.Call) -> HalfWeights:
    name = ast.unparse(model)
    return HalfWeights(name, dtype, there.place(cast, f"{name} becomes {dtype.name} here"))


def _made_elsewhere(project: Project, module: ModuleNames, model: ast.expr, before: ast.Call) -> HalfWeights | None:
    """A model that another function made: every way to it must end in the same 16-bit dtype."""
    made_by = creations_of(project, module, model)
    found = [_of_creation(project, module, made, before) for made in made_by]
    dtypes = {item[0] for item in found if item is not None}
    if not found or None in found or len(dtypes) != 1 or found[0] is None:
        return None
    dtype, cast = found[0]
    return _known(module, model, dtype, made_by[0].module, cast)


def _of_creation(
    project: Project, module: ModuleNames, made: Creation, before: ast.Call
) -> tuple[Dtype, ast.Call] | None:
    """The dtype that the calls around the creation leave, where nothing said of the model may change it."""
    if any(_is_unclear(item) for item in (*made.through, *statements_about(made, module, before))):
        return None
    load = load_at(project, made.module, made.call)
    dtype, cast = None, made.call
    if load is not None:
        loaded = None if load.quantized or load.unsloth else load.dtypes
        dtype = next(iter(loaded)) if loaded is not None and len(loaded) == 1 else None
    for call in reversed(made.through):
        asked = cast_dtype(project, made.module, call)
        if asked is None and may_recast(call):
            return None
        dtype, cast = (asked, call) if asked is not None else (dtype, cast)
    return (dtype, cast) if dtype in HALVES and dtype is not None else None


def _is_unclear(step: ast.AST) -> bool:
    """Whether a step puts other trainable weights on the model, or may give it another dtype."""
    if mentions(step, (*ADAPTED, *FROZEN)):
        return True
    if isinstance(step, ast.Call):
        name = (attribute_chain(step.func) or [""])[-1]
        return name in MODEL_WRAPPERS and name not in SAME_COMPUTATION
    return may_recast(step)


# --- whose parameters -------------------------------------------------------------------------------------------------


def models_of(module: ModuleNames, parameters: ast.expr) -> list[ast.expr | None]:
    """The models whose parameters an optimizer (or an average) is given; None for what is not known."""
    found = list(islice(_models_of(module, parameters, 0), MAX_MODELS))
    return found if len(found) < MAX_MODELS else [None]


def _models_of(module: ModuleNames, parameters: ast.expr, hops: int) -> Iterator[ast.expr | None]:
    inner = _inside(module, parameters) if hops < MAX_HOPS else None
    if isinstance(parameters, ast.List | ast.Tuple) and parameters.elts:
        inner = parameters.elts
    receiver = _owner(parameters)
    if receiver is not None:
        yield receiver
    elif inner is None:
        yield None
    else:
        for item in inner:
            yield from _models_of(module, item, hops + 1)


def _owner(node: ast.expr) -> ast.expr | None:
    """``model`` of ``model.parameters()``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        return node.func.value if node.func.attr in ("parameters", "named_parameters") else None
    return None


def _inside(module: ModuleNames, node: ast.expr) -> list[ast.expr] | None:
    """What a selection of parameters is taken from: ``filter(f, x)``, ``[p for p in x]``, ``{"params": x}``, a name."""
    if isinstance(node, ast.Call):
        name = (attribute_chain(node.func) or [""])[-1]
        taken = node.args if name == "chain" else node.args[-1:]
        return taken if name in SELECTING and taken and not node.keywords else None
    if isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
        return [node.generators[0].iter]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "params"] or None
    if isinstance(node, ast.Name):
        bindings = module.scope_of(node).lookup(node.id)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
        return [value] if value is not None else None
    return None
