"""Classes of the project whose constructor casts the model, or makes a part of it in 16 bits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..python.arguments import receiver_of
from ..python.creations import creations_of
from ..python.functions import FunctionTarget, called_function, class_of, method_of
from ..python.names import ModuleNames, Scope, attribute_chain
from ..python.paths import calls_of, position
from ..python.trace import trace
from ..source.project import Project
from ..torch.api import CASTS, LOADERS
from ..torch.dtype_values import WITH_NONE
from ..torch.dtypes import FP32, Scenario, as_dtype
from ..trainers.reading.trained_loads import may_recast, mentions, names_in

MAX_DEPTH = 3
"""Classes inside of classes that are looked into."""
FROZEN = ("requires_grad", "freeze")
WITHOUT = ("no_grad", "inference_mode")
LAYERS = ("Linear", "Conv", "Embedding", "Bilinear", "LSTM", "GRU", "RNN", "MultiheadAttention")
"""Beginnings of the names of layers of torch whose weights are matrices."""


@dataclass(frozen=True, slots=True)
class Built:
    """A call inside of constructors that gives a model, or a part of it, its dtype."""

    module: ModuleNames
    call: ast.Call
    part: str
    """The attribute that holds the part; empty for the whole model."""


def built_in(project: Project, module: ModuleNames, call: ast.Call, depth: int = 0) -> Iterator[Built]:
    """The casts and loads of a class's constructor that certainly run or that settings decide, its parts' too."""
    owner = class_of(project, module, call.func)
    maker = method_of(project, *owner, "__init__") if owner is not None else None
    frozen = _frozen(*owner) if owner is not None else None
    if owner is None or maker is None or depth >= MAX_DEPTH or frozen is None:
        return
    inside = list(_whole(project, maker)) if not frozen else []
    asleep = {name for node in ast.walk(owner[1].node) if _is_without_gradients(node) for name in names_in(node)}
    asleep |= frozen
    inside += (
        (node, item) for node, item in _parts(project, maker, depth) if item.part.partition(".")[0] not in asleep
    )
    yield from (item for _, item in sorted(inside, key=lambda pair: position(pair[0])))


def _frozen(module: ModuleNames, owner: Scope) -> set[str] | None:
    """The parts that a class may freeze; None where these may be any."""
    found: set[str] = set()
    for node in ast.walk(owner.node):
        if _freezes(module, node):
            around = next((item for item in module.ancestors(node) if isinstance(item, ast.stmt)), owner.node)
            loop = next((item for item in module.ancestors(node) if isinstance(item, ast.For)), around)
            chains = [attribute_chain(item) or [] for item in ast.walk(getattr(loop, "iter", around))]
            parts = {chain[1] for chain in chains if len(chain) > 2 and chain[0] == "self"}
            if not parts:
                return None
            found |= parts
    return found


def _freezes(module: ModuleNames, node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return mentions(node.func, FROZEN)
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store) or node.attr != "requires_grad":
        return False
    value = getattr(module.parents.get(node), "value", None)
    return not (isinstance(value, ast.Constant) and value.value is True)


def _is_without_gradients(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any(mentions(item.context_expr, WITHOUT) for item in node.items)


def _whole(project: Project, maker: FunctionTarget) -> Iterator[tuple[ast.AST, Built]]:
    """``self.to(torch.bfloat16)`` in the constructor, or in a method that it calls; what of the constructor does it."""
    for call in calls_of(maker.module, maker.node):
        own = getattr(receiver_of(call), "id", "") == "self"
        inner = called_function(project, maker.module, call) if own else None
        module = inner.module if inner is not None else maker.module
        for cast in [call] if inner is None else calls_of(module, inner.node):
            if getattr(receiver_of(cast, *CASTS), "id", "") == "self":
                yield call, Built(module, cast, "")


def _parts(project: Project, maker: FunctionTarget, depth: int) -> Iterator[tuple[ast.AST, Built]]:
    """``self.backbone = X.from_pretrained(..., torch_dtype=...)``, a layer with a dtype, or a class that does so."""
    module = maker.module
    for statement in ast.walk(maker.node):
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        chain = attribute_chain(target) if target is not None else None
        if not isinstance(statement, ast.Assign) or chain is None or len(chain) != 2 or chain[0] != "self":
            continue
        for made in creations_of(project, module, statement.value) if isinstance(statement.value, ast.Call) else ():
            if any(receiver_of(item, *CASTS) is None for item in made.through):
                continue
            name = (attribute_chain(made.call.func) or [""])[-1]
            casts = [item for item in made.through if may_recast(item)]
            layers = [item for item in (made.call, *made.call.args) if _dtype_of_layer(made.module, item) is not None]
            if casts or name in LOADERS:
                yield statement, Built(made.module if not casts else module, casts[0] if casts else made.call, chain[1])
            elif layers and isinstance(layers[0], ast.Call):
                yield statement, Built(made.module, layers[0], chain[1])
            else:
                for inner in built_in(project, made.module, made.call, depth + 1):
                    yield statement, Built(inner.module, inner.call, f"{chain[1]}.{inner.part}".rstrip("."))


def _dtype_of_layer(module: ModuleNames, node: ast.expr) -> ast.expr | None:
    """``dtype`` of ``nn.Linear(8, 8, dtype=dtype)``; None for other calls."""
    name = module.qualified(node.func) or "" if isinstance(node, ast.Call) else ""
    asked = [item.value for item in node.keywords if item.arg == "dtype"] if isinstance(node, ast.Call) else []
    return asked[0] if asked and name.startswith(tuple(f"torch.nn.{layer}" for layer in LAYERS)) else None


def layer_dtypes(project: Project, module: ModuleNames, call: ast.Call) -> tuple[Scenario, ...]:
    """The dtypes that a layer is made in, float32 for None; nothing where callers ask for several."""
    node = _dtype_of_layer(module, call)
    found = trace(project, module, node, WITH_NONE) if node is not None else ()
    named = [Scenario(FP32 if item.value is None else as_dtype(item.value), item.given) for item in found]
    values = {item.given: item for item in named}
    return tuple(named) if all(values[item.given] == item for item in named) else ()
