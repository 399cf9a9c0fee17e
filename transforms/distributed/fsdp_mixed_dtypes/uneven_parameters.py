"""A part of a model that is cast to another dtype before the whole is flattened by FSDP."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.python.names import ModuleNames, attribute_chain, names_of
from ....codemod.python.paths import calls_of, function_of, guard_facts, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP32, HALVES, Dtype
from ....codemod.torch.weights import cast_dtype
from .fsdp_policies import wraps_in

CASTS = ("to", "half", "bfloat16", "float")
APART = ("auto_wrap_policy", "ignored_modules", "ignored_states", "ignored_params", "ignored_parameters")
"""Arguments by which a part may be flattened apart from the rest, or not at all."""
ERRORS = {
    1: "Must flatten tensors with uniform dtype",
    2: "FSDP expects uniform original parameter dtype",
}


def part_clashes(project: Project) -> Iterator[Draft]:
    """Models that get a part of another dtype and are then sharded as one."""
    for document in project.checked_documents(
        ("FullyShardedDataParallel", "fully_shard"), [f".{name}(" for name in CASTS]
    ):
        module = names_of(project, document)
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
    casts = list(_certain_casts(project, module, wrap))
    whole = [(call, dtype) for call, chain, dtype in casts if chain == [model.id]]
    if not whole:
        return
    last, dtype = whole[-1]
    for call, chain, other in casts:
        part = chain[:1] == [model.id] and len(chain) > 1 and position(call) > position(last)
        if part and other != dtype and _stays(casts, call, chain):
            yield _clash(module, call, wrap, version, (last, dtype), other)


def _certain_casts(
    project: Project, module: ModuleNames, wrap: ast.Call
) -> Iterator[tuple[ast.Call, list[str], Dtype]]:
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
            yield call, chain, dtype


def _statement_target(module: ModuleNames, call: ast.Call) -> list[str] | None:
    """What ``model.half()``, ``model = Net().half()`` and ``model.head = model.head.float()`` cast."""
    statement = module.parents.get(call)
    if isinstance(statement, ast.Expr) and isinstance(call.func, ast.Attribute):
        return attribute_chain(call.func.value)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return attribute_chain(statement.targets[0])
    return None


def _stays(casts: list[tuple[ast.Call, list[str], Dtype]], call: ast.Call, chain: list[str]) -> bool:
    """Whether nothing around or at the part is cast again before the model is wrapped."""
    later = [other for item, other, _ in casts if position(item) > position(call)]
    return not any(chain[: len(other)] == other for other in later)


def _clash(
    module: ModuleNames, call: ast.Call, wrap: ast.Call, version: int, whole: tuple[ast.Call, Dtype], other: Dtype
) -> Draft:
    statement = module.statement_of(call)
    last, dtype = whole
    fix = Fix.unsafe(
        "one-dtype",
        f"leave the part in {dtype.name} like the rest; a policy can still compute in another dtype",
        module.remove(statement),
    )
    return Draft.at(
        module,
        call,
        f"a part of the model becomes {other.name} while the rest is {dtype.name}: FSDP raises '{ERRORS[version]}'",
        (
            module.place(last, f"the model is cast to {dtype.name}"),
            module.place(wrap, "all parameters are flattened together here"),
        ),
        [fix if isinstance(statement, ast.Expr) or _only_casts_itself(statement, call) else None],
    )


def _only_casts_itself(statement: ast.stmt, call: ast.Call) -> bool:
    """``model.head = model.head.float()``, and not ``model.head = Head().float()``."""
    if not isinstance(statement, ast.Assign) or not isinstance(call.func, ast.Attribute):
        return False
    return ast.unparse(statement.targets[0]) == ast.unparse(call.func.value)
