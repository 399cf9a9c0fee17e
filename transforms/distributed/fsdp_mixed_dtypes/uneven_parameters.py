"""A part of a model that has another dtype than the rest when the whole is flattened by FSDP.

It was cast, made after the model had got its dtype, or added by PEFT, which keeps adapters in float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Edit, Fix
from ....codemod.python.names import ModuleNames, attribute_chain, checked_modules
from ....codemod.python.paths import calls_of, function_of, guard_facts, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.api import LOADERS
from ....codemod.torch.dtypes import FP32, HALVES, Dtype
from ....codemod.torch.weights import cast_dtype
from .fsdp_policies import wraps_in
from .part_dtypes import ADAPTERS, Given, given_dtypes

CASTS = ("to", "half", "bfloat16", "float")
WORDS = tuple(f".{name}(" for name in CASTS)
APART = ("auto_wrap_policy", "ignored_modules", "ignored_states", "ignored_params", "ignored_parameters")
"""Arguments by which a part may be flattened apart from the rest, or not at all."""
ERRORS = {
    1: "Must flatten tensors with uniform dtype",
    2: "FSDP expects uniform original parameter dtype",
}


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
    apart = any(item.arg in APART or item.arg is None for item in wrap.keywords)
    if not isinstance(model, ast.Name) or len(wrap.args) > 1 or apart or loops(module, wrap):
        return
    casts = [*_certain_casts(project, module, wrap), *given_dtypes(project, module, wrap)]
    casts.sort(key=lambda item: position(item.node))
    whole = [item for item in casts if item.chain == [model.id]]
    if not whole:
        return
    last = whole[-1]
    for item in casts:
        part = item.chain[:1] == [model.id] and len(item.chain) > 1 and position(item.node) > position(last.node)
        if part and item.dtype != last.dtype and _stays(casts, item):
            yield _clash(module, item, wrap, version, last)


def _certain_casts(project: Project, module: ModuleNames, wrap: ast.Call) -> Iterator[Given]:
    """The casts of modules, as statements of their own, that run whenever the model is wrapped."""
    reached = guard_facts(module, wrap)
    for call in calls_of(module, function_of(module, wrap)):
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in CASTS or position(call) > position(wrap):
            continue
        chain = _statement_target(module, call)
        if chain is None or loops(module, call) or not guard_facts(module, call) <= reached:
            continue
        plain = call.func.attr == "float" and not call.args and not call.keywords
        dtype = FP32 if plain else cast_dtype(project, module, call)
        if dtype in (*HALVES, FP32) and isinstance(dtype, Dtype):
            yield Given(call, chain, dtype)


def _statement_target(module: ModuleNames, call: ast.Call) -> list[str] | None:
    """What ``model.half()``, ``model = Net().half()`` and ``model.head = model.head.float()`` cast."""
    statement = module.parents.get(call)
    if isinstance(statement, ast.Expr) and isinstance(call.func, ast.Attribute):
        return attribute_chain(call.func.value)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return attribute_chain(statement.targets[0])
    return None


def _stays(casts: list[Given], part: Given) -> bool:
    """Whether nothing around or at the part gets a dtype again before the model is wrapped."""
    later = [item.chain for item in casts if position(item.node) > position(part.node)]
    return not any(part.chain[: len(other)] == other for other in later)


def _clash(module: ModuleNames, part: Given, wrap: ast.Call, version: int, whole: Given) -> Draft:
    told = part.message or f"a part of the model becomes {part.dtype.name}"
    return Draft.at(
        module,
        part.node,
        f"{told} while the rest is {whole.dtype.name}: FSDP raises '{ERRORS[version]}'",
        (
            module.place(whole.node, f"the model is {_verb(whole)} {whole.dtype.name}"),
            module.place(wrap, "all parameters are flattened together here"),
        ),
        [_fix(module, part, whole)],
    )


def _verb(whole: Given) -> str:
    method = whole.node.func.attr if isinstance(whole.node.func, ast.Attribute) else ""
    return "loaded in" if method in LOADERS else "cast to"


def _fix(module: ModuleNames, part: Given, whole: Given) -> Fix | None:
    """Give the part the dtype of the rest."""
    statement = module.statement_of(part.node)
    edit: Edit | None = None
    if part.chain[-1] == ADAPTERS:
        edit = module.set_argument(part.node, "autocast_adapter_dtype", "False")
    elif part.maker is not None:
        known = any(item.qualified == "torch" for item in module.scope_of(part.node).lookup("torch"))
        edit = module.set_argument(part.maker, "dtype", f"torch.{whole.dtype.name}") if known else None
    elif isinstance(statement, ast.Expr) or _only_casts_itself(statement, part.node):
        edit = module.remove(statement)
    message = f"leave the part in {whole.dtype.name} like the rest; a policy can still compute in another dtype"
    return Fix.unsafe("one-dtype", message, edit) if edit is not None else None


def _only_casts_itself(statement: ast.stmt, call: ast.Call) -> bool:
    """``model.head = model.head.float()``, and not ``model.head = Head().float()``."""
    if not isinstance(statement, ast.Assign) or not isinstance(call.func, ast.Attribute):
        return False
    return ast.unparse(statement.targets[0]) == ast.unparse(call.func.value)
