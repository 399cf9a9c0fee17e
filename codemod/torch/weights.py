"""The dtype that a model's weights are loaded or cast in: the other origin of 16-bit gradients.

Followed: ``torch_dtype=``/``dtype=`` of ``from_pretrained``/``from_config`` (also through ``kwargs["torch_dtype"] =
...``), ``.half()``, ``.bfloat16()`` and ``.to(dtype)`` on a model whose parameters an optimizer of the same function
takes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..purpose.regimes import Regime
from ..python.arguments import receiver_of
from ..python.names import ModuleNames, Scope, attribute_chain, modules_with
from ..python.paths import guards
from ..python.scopes import text_of
from ..source.facts import fact
from ..source.project import Project
from .api import LOAD_KEYS, LOADERS
from .dtype_values import constants_of, scenarios_of
from .dtypes import BF16, FP16, Dtype, TextCondition, as_dtype
from .scalers import Scaler

WORDS = ("bfloat16", "bf16")


@dataclass(frozen=True, slots=True, eq=False)
class WeightChoice:
    """Weights whose dtype a setting decides: ``given`` is what must hold for bfloat16."""

    module: ModuleNames
    node: ast.expr
    given: TextCondition

    @property
    def description(self) -> str:
        return f"the dtype that {self.given.text} names, which can be bfloat16"


def weight_choice_of(project: Project, scaler: Scaler, regime: Regime) -> WeightChoice | None:
    """The setting that can load the weights of this scaler's model in bfloat16 while autocast stays float16.

    Only where the scaler's function sees the very object that holds the setting (a parameter of the same name whose
    attributes both places use), the setting does not decide about the scaler already, and no other choice competes.
    """
    choices = [item for item in weight_choices(project) if _sees(scaler, item)]
    texts = {item.given.text for item in choices}
    if len(texts) != 1 or not any(FP16 in region.values for region in regime.regions):
        return None
    choice = choices[0]
    return choice if choice.given.text not in _conditions_text(scaler) else None


@fact
def weight_choices(project: Project) -> tuple[WeightChoice, ...]:
    """Every load of weights whose dtype is chosen at run time and can be bfloat16."""
    found: list[WeightChoice] = []
    for module in modules_with(project, WORDS, LOADERS):
        for node in _load_dtypes(module):
            for scenario in scenarios_of(project, module, node):
                named = [item for item in scenario.given if {as_dtype(value) for value in item.values} == {BF16}]
                chosen = [item for item in named if item.equal]
                if scenario.value == BF16 and len(chosen) == 1:
                    found.append(WeightChoice(module, node, chosen[0]))
    return tuple(found)


def _load_dtypes(module: ModuleNames) -> Iterator[ast.expr]:
    for node in module.nodes:
        if isinstance(node, ast.Call) and receiver_of(node, *LOADERS) is not None:
            yield from (item.value for item in node.keywords if item.arg in LOAD_KEYS)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            key = node.targets[0].slice
            named = isinstance(key, ast.Constant) and key.value == "torch_dtype"
            if named and _is_splatted(module, node.targets[0].value):
                yield node.value


def _is_splatted(module: ModuleNames, table: ast.expr) -> bool:
    """Whether ``**table`` goes into a loader."""
    text, loads = ast.unparse(table), (call for name in LOADERS for call in module.calls_by_name.get(name, ()))
    splatted = (item.value for call in loads for item in call.keywords if item.arg is None)
    return any(ast.unparse(item) == text for item in splatted)


def _sees(scaler: Scaler, choice: WeightChoice) -> bool:
    chain = attribute_chain(choice.given.node)
    if chain is None or len(chain) < 2:
        return False
    here = scaler.module.scope_of(scaler.call)
    mine = [item for item in here.lookup(chain[0]) if item.kind == "parameter"]
    theirs = [item for item in choice.given.scope.lookup(chain[0]) if item.kind == "parameter"]
    if not mine or not theirs:
        return False
    if len(chain) == 2:
        return scaler.module is choice.module
    shared = _sections(scaler.module, here, chain[0]) & _sections(choice.module, choice.given.scope, chain[0])
    return chain[1] in _sections(scaler.module, scaler.module.module_scope, chain[0]) | shared and len(shared) >= 1


def _sections(module: ModuleNames, scope: Scope, root: str) -> set[str]:
    """The attributes ``x`` of ``root.x`` that are read inside ``scope``."""
    found = set()
    for node in module.name_loads.get(root, []):
        parent = module.parents[node]
        inside = scope.node is module.tree or scope.node in module.ancestors(node)
        if inside and isinstance(parent, ast.Attribute):
            found.add(parent.attr)
    return found


def _conditions_text(scaler: Scaler) -> str:
    tests = [ast.unparse(guard.test) for guard in guards(scaler.module, scaler.call)]
    enabled = scaler.enabled_node
    return " ".join([*tests, ast.unparse(enabled) if enabled is not None else ""])


def cast_dtype(project: Project, module: ModuleNames, call: ast.Call) -> Dtype | None:
    """The 16- or 32-bit dtype that ``x.half()``, ``x.bfloat16()`` or ``x.to(...)`` certainly casts to, or None."""
    if not isinstance(call.func, ast.Attribute):
        return None
    plain = {"half": FP16, "bfloat16": BF16}.get(call.func.attr)
    if plain is not None:
        return plain if not call.args and not call.keywords else None
    if call.func.attr != "to":
        return None
    for node in given_for_dtype(call):
        if isinstance(node, ast.Starred):
            return None
        found = constants_of(project, module, node)
        only = found.pop() if len(found) == 1 else None
        if isinstance(only, Dtype):
            return only
    return None


def given_for_dtype(call: ast.Call) -> list[ast.expr]:
    """What ``x.to(...)`` is given for a dtype: who passes a device need not be looked for."""
    given = [*call.args, *(item.value for item in call.keywords if item.arg == "dtype")]
    return [node for node in given if not (attribute_chain(node) or [""])[-1].endswith("device")]


def is_device(node: ast.expr) -> bool:
    """Whether an argument of ``to`` is a device: by its name, or a constant."""
    text = text_of(node).lower()
    named = "dtype" not in text and any(word in text for word in ("device", "cuda", "rank", "gpu"))
    return isinstance(node, ast.Constant) or named
