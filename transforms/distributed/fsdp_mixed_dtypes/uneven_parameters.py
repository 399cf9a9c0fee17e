"""A part of a model that has another dtype than the rest when the whole is flattened by FSDP.

It was cast, made after the model had got its dtype, or added by PEFT, which keeps adapters in float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.model import Draft, Fix
from ....codemod.python.arguments import argument, receiver_of
from ....codemod.python.names import ModuleNames, attribute_chain, checked_modules, last_name
from ....codemod.python.paths import calls_of, function_of, guard_facts, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.api import DEFAULT_SETTERS, LOAD_KEYS, LOADERS, QUANTIZED_KEYS
from ....codemod.torch.dtype_values import only_half
from ....codemod.torch.dtypes import FP32, HALVES, Dtype
from ....codemod.torch.tables.layers import LAYERS
from ....codemod.torch.weights import cast_dtype
from .fsdp_policies import wraps_in

CASTS = ("to", "half", "bfloat16", "float")
WORDS = tuple(f".{name}(" for name in CASTS)
APART = ("auto_wrap_policy", "ignored_modules", "ignored_states", "ignored_params", "ignored_parameters")
"""Arguments by which a part may be flattened apart from the rest, or not at all."""
ERRORS = {
    1: "Must flatten tensors with uniform dtype",
    2: "FSDP expects uniform original parameter dtype",
}
ADAPTERS = "<adapters>"
"""Stands for the parts that PEFT adds, wherever in the model they are."""
FACTORIES = frozenset(f"torch.{name}" for name in ("zeros", "ones", "empty", "rand", "randn"))


@dataclass(frozen=True, slots=True, eq=False)
class DtypeStatement:
    """A statement after which a model, or a part of it, has a dtype."""

    node: ast.Call
    chain: list[str]
    """The model's name, and the attributes that lead to the part."""
    dtype: Dtype
    message: str = ""
    """For a part: what is wrong with it."""
    maker: ast.Call | None = None
    """For a part: the call that takes a ``dtype``; None where it takes none."""


def part_clashes(project: Project) -> Iterator[Draft]:
    """Models that get a part of another dtype and are then sharded as one."""
    for module in checked_modules(project, ("FullyShardedDataParallel", "fully_shard"), (*WORDS, *LOADERS)):
        wraps = list(wraps_in(project, module))
        for call, version in wraps:
            home = function_of(module, call)
            if sum(function_of(module, item) is home for item, _ in wraps) == 1:
                yield from _in_function(project, module, call, version)


def _in_function(project: Project, module: ModuleNames, wrap: ast.Call, version: int) -> Iterator[Draft]:
    model = wrap.args[0] if wrap.args else None
    if isinstance(model, ast.Call) and not model.args and not model.keywords:
        model = receiver_of(model, "cuda")
    apart = any(item.arg in APART or item.arg is None for item in wrap.keywords)
    if not isinstance(model, ast.Name) or len(wrap.args) > 1 or apart or loops(module, wrap):
        return
    given = sorted(_given_dtypes(project, module, wrap), key=lambda item: position(item.node))
    whole = [item for item in given if item.chain == [model.id]]
    for item in given if whole else ():
        later = [each.chain for each in given if position(each.node) > position(item.node)]
        stays = not any(item.chain[: len(other)] == other for other in later)
        part = item.chain[:1] == [model.id] and len(item.chain) > 1 and position(item.node) > position(whole[-1].node)
        if part and stays and item.dtype != whole[-1].dtype:
            yield _clash(module, item, wrap, version, whole[-1])


def _given_dtypes(project: Project, module: ModuleNames, wrap: ast.Call) -> Iterator[DtypeStatement]:
    """What gives the model, or a part, its dtype as a statement of its own that runs whenever the model is wrapped."""
    reached = guard_facts(module, wrap)
    for call in calls_of(module, function_of(module, wrap)):
        statement = module.parents.get(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        cast = receiver_of(call, *CASTS)
        if position(call) > position(wrap) or loops(module, call) or not guard_facts(module, call) <= reached:
            continue
        stored = attribute_chain(target) if target is not None else None
        chain = attribute_chain(cast) if cast is not None and isinstance(statement, ast.Expr) else stored
        if cast is not None and chain is not None:
            dtype = FP32 if _is_plain_float(call) else cast_dtype(project, module, call)
            if dtype in (*HALVES, FP32) and dtype is not None:
                yield DtypeStatement(call, chain, dtype)
        if stored is not None:
            found = _loaded(project, module, call, stored) if len(stored) == 1 else _made(module, call, stored)
            yield from (found,) if found is not None else ()


def _is_plain_float(call: ast.Call) -> bool:
    return last_name(call.func) == "float" and not call.args and not call.keywords


def _loaded(project: Project, module: ModuleNames, call: ast.Call, chain: list[str]) -> DtypeStatement | None:
    """``model = Net.from_pretrained(name, torch_dtype=torch.bfloat16)``, or PEFT's adapters around such a model."""
    given = {item.arg for item in call.keywords}
    if module.qualified(call.func) in ("peft.get_peft_model", "peft.mapping.get_peft_model"):
        same = bool(call.args) and attribute_chain(call.args[0]) == chain
        if not same or not {"autocast_adapter_dtype", None}.isdisjoint(given):
            return None
        return DtypeStatement(call, [*chain, ADAPTERS], FP32, "PEFT keeps the adapters in float32")
    loads = receiver_of(call, *LOADERS) is not None and {*QUANTIZED_KEYS, None}.isdisjoint(given)
    dtype = only_half(project, module, argument(call, *LOAD_KEYS)) if loads else None
    return DtypeStatement(call, chain, dtype) if dtype is not None else None


def _made(module: ModuleNames, call: ast.Call, chain: list[str]) -> DtypeStatement | None:
    """``model.head = nn.Linear(8, 4)``, ``model.prompt = nn.Parameter(torch.zeros(8))``: float32 by default."""
    maker, qualified = call, module.qualified(call.func) or ""
    if qualified.startswith("torch.nn.") and last_name(call.func) == "Parameter":
        inner = call.args[0] if len(call.args) == 1 else None
        if not isinstance(inner, ast.Call) or module.qualified(inner.func) not in FACTORIES:
            return None
        maker = inner
    else:
        layer = LAYERS.get(last_name(call.func))
        if layer is None or not layer.has_weights or qualified != f"torch.nn.{layer.name}":
            return None
    named = {item.arg for item in maker.keywords}
    changed = any(name in module.calls_by_name for name in DEFAULT_SETTERS)
    if not {"dtype", None}.isdisjoint(named) or changed:
        return None
    return DtypeStatement(call, chain, FP32, "this part is made in float32", maker)


def _clash(module: ModuleNames, part: DtypeStatement, wrap: ast.Call, version: int, whole: DtypeStatement) -> Draft:
    told = part.message or f"a part of the model becomes {part.dtype.name}"
    verb = "loaded in" if receiver_of(whole.node, *LOADERS) is not None else "cast to"
    return Draft.at(
        module,
        part.node,
        f"{told} while the rest is {whole.dtype.name}: FSDP raises '{ERRORS[version]}'",
        (
            module.place(whole.node, f"the model is {verb} {whole.dtype.name}"),
            module.place(wrap, "all parameters are flattened together here"),
        ),
        [_fix(module, part, whole)],
    )


def _fix(module: ModuleNames, part: DtypeStatement, whole: DtypeStatement) -> Fix | None:
    """Give the part the dtype of the rest."""
    statement, cast, edit = module.statement_of(part.node), receiver_of(part.node), None
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    is_again = cast is not None and ast.unparse(cast) in map(ast.unparse, targets)
    if part.chain[-1] == ADAPTERS:
        edit = module.set_argument(part.node, "autocast_adapter_dtype", "False")
    elif part.maker is not None:
        known = any(item.qualified == "torch" for item in module.scope_of(part.node).lookup("torch"))
        edit = module.set_argument(part.maker, "dtype", f"torch.{whole.dtype.name}") if known else None
    elif isinstance(statement, ast.Expr) or is_again:  # ``model.head = model.head.float()``, and no new head
        edit = module.remove(statement)
    message = f"leave the part in {whole.dtype.name} like the rest; a policy can still compute in another dtype"
    return Fix.unsafe("one-dtype", message, edit) if edit is not None else None
