"""What gives a model, or a part of it, its dtype without a cast: a load, a part made later, PEFT's adapters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.names import ModuleNames, attribute_chain, last_name
from ....codemod.python.paths import calls_of, function_of, guard_facts, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.api import LOAD_KEYS, LOADERS, QUANTIZED_KEYS
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import FP32, HALVES, Dtype, as_dtype
from ....codemod.torch.tables.layers import LAYERS

ADAPTERS = "<adapters>"
"""Stands for the parts that PEFT adds, wherever in the model they are."""
FACTORIES = ("zeros", "ones", "empty", "rand", "randn")


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """A statement after which a model, or a part of it, has a dtype."""

    node: ast.Call
    chain: list[str]
    """The model's name, and the attributes that lead to the part."""
    dtype: Dtype
    message: str = ""
    """For a part: what is wrong with it."""
    maker: ast.Call | None = None
    """For a part: the call that takes a ``dtype``; None where it takes none."""


def given_dtypes(project: Project, module: ModuleNames, wrap: ast.Call) -> Iterator[Given]:
    """All of them that run whenever the model is wrapped, by position."""
    reached = guard_facts(module, wrap)
    for call in calls_of(module, function_of(module, wrap)):
        statement = module.parents.get(call)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or position(call) > position(wrap):
            continue
        chain = attribute_chain(statement.targets[0])
        if chain is None or loops(module, call) or not guard_facts(module, call) <= reached:
            continue
        found = _loaded(project, module, call, chain) if len(chain) == 1 else _made(module, call, chain)
        if found is not None:
            yield found


def _loaded(project: Project, module: ModuleNames, call: ast.Call, chain: list[str]) -> Given | None:
    """``model = Net.from_pretrained(name, torch_dtype=torch.bfloat16)``, or PEFT's adapters around such a model."""
    given = {item.arg: item.value for item in call.keywords}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if module.qualified(call.func) in ("peft.get_peft_model", "peft.mapping.get_peft_model"):
        same = bool(call.args) and attribute_chain(call.args[0]) == chain
        if not same or "autocast_adapter_dtype" in given or None in given:
            return None
        return Given(call, [*chain, ADAPTERS], FP32, "PEFT keeps the adapters in float32")
    node = next((given[key] for key in LOAD_KEYS if key in given), None)
    if name not in LOADERS or node is None or not {*QUANTIZED_KEYS, None}.isdisjoint(given):
        return None
    found = {as_dtype(value) for value in constants_of(project, module, node)}
    only = found.pop() if len(found) == 1 else None
    return Given(call, chain, only) if isinstance(only, Dtype) and only in HALVES else None


def _made(module: ModuleNames, call: ast.Call, chain: list[str]) -> Given | None:
    """``model.head = nn.Linear(8, 4)``, ``model.prompt = nn.Parameter(torch.zeros(8))``: float32 by default."""
    maker = call
    if (module.qualified(call.func) or "").startswith("torch.nn.") and last_name(call.func) == "Parameter":
        inner = call.args[0] if len(call.args) == 1 else None
        if not isinstance(inner, ast.Call) or module.qualified(inner.func) not in {f"torch.{x}" for x in FACTORIES}:
            return None
        maker = inner
    else:
        layer = LAYERS.get(last_name(call.func))
        if layer is None or not layer.has_weights or module.qualified(call.func) != f"torch.nn.{last_name(call.func)}":
            return None
    named = {item.arg for item in maker.keywords}
    changed = module.calls_by_name.get("set_default_dtype") or module.calls_by_name.get("set_default_tensor_type")
    if not {"dtype", None}.isdisjoint(named) or changed:
        return None
    return Given(call, chain, FP32, "this part is made in float32", maker)
