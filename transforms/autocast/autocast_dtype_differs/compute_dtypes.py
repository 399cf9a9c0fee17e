"""Values near an autocast region that name the dtype it should compute in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.half.half_weights import half_weights
from ....codemod.purpose.switches import is_asked_for
from ....codemod.python.arguments import receiver_of
from ....codemod.python.bindings import self_stores
from ....codemod.python.bound import is_bound_at
from ....codemod.python.conditions import conditions_in, tells_truths
from ....codemod.python.names import ModuleNames, Scope, attribute_chain
from ....codemod.python.visible import means_the_same
from ....codemod.source.project import Project
from ....codemod.torch.api import LOAD_KEYS
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.dtype_values import constants_of, scenarios_of
from ....codemod.torch.dtypes import BF16, UNKNOWN, Dtype, Scenario, TextCondition, as_dtype
from ....codemod.torch.imported import torch_at
from ....codemod.torch.scalers import scalers
from ....codemod.torch.weights import given_for_dtype
from ....codemod.trainers.reading.declarations import calls_of
from ....codemod.trainers.reading.precision import Compute, precision_of

AUTOCAST_NAMES = (
    "amp_dtype",
    "autocast_dtype",
    "amp_type",
    "autocast_type",
    "ptdtype",
    "pt_dtype",
    "mp_dtype",
    "mixed_dtype",
    "mixed_precision_dtype",
)
"""How the variable is called that holds autocast's dtype."""
WEIGHT_NAMES = ("weight_dtype", "torch_dtype")
"""Beside accelerate: the variable that follows its precision."""

TORCH_NAMES = ("bfloat16", "float16", "float32", "half", "float")


@dataclass(frozen=True, slots=True)
class NamedDtype:
    """A place that names the dtype."""

    node: ast.AST
    what: str
    """The end of a sentence: "while ..."."""
    why: str
    text: str | None
    """The dtype as source text for the region."""


def compute_dtype_at(project: Project, module: ModuleNames, node: ast.AST, weights: bool = False) -> NamedDtype | None:
    """The variable or attribute seen at ``node`` that is called like autocast's dtype and can be bfloat16.

    With ``weights`` also one that is called like the weights' dtype, which accelerate's scripts derive from it.
    """
    names = (*AUTOCAST_NAMES, *WEIGHT_NAMES) if weights else AUTOCAST_NAMES
    for name in names:
        for text, scenarios, birth in _seen(project, module, node, name):
            if any(item.value == BF16 and not is_impossible(project, module, item) for item in scenarios):
                return NamedDtype(birth, f"{text}, which is in scope, can be bfloat16", f"{text} is chosen here", text)
    return None


def _seen(
    project: Project, module: ModuleNames, node: ast.AST, name: str
) -> Iterator[tuple[str, tuple[Scenario, ...], ast.AST]]:
    """The text of a variable or attribute that has a value at ``node``, what it can be, and where it is made."""
    scope = module.scope_of(node)
    bindings = scope.lookup(name)
    if bindings and bindings[0].kind != "import" and is_bound_at(module, name, node):
        reads = [load for load in module.name_loads.get(name, []) if module.scope_of(load).lookup(name) is bindings]
        asked = reads[-1:] or bindings
        yield name, tuple(s for item in asked for s in scenarios_of(project, module, item)), bindings[0].node
    owner = scope.enclosing_class
    stores = self_stores(module, owner, name) if owner is not None else []
    load = _attribute_load(module, owner, name) if stores else None
    if load is not None and means_the_same(module, load, node):
        yield ast.unparse(load), scenarios_of(project, module, load), stores[0][1]


def _attribute_load(module: ModuleNames, owner: Scope | None, name: str) -> ast.Attribute | None:
    for load in module.attribute_loads.get(name, []):
        if attribute_chain(load) == ["self", name] and module.scope_of(load).enclosing_class is owner:
            return load
    return None


def is_impossible(project: Project, module: ModuleNames, scenario: Scenario) -> bool:
    """Whether a value needs a setting to be something that the file itself sets otherwise (``dtype = "float16"``), or
    a word that no run asks for."""
    for given in scenario.given:
        if not given.equal:
            continue
        words = [value for value in given.values if isinstance(value, str)]
        if words and not any(project.memo(is_asked_for, word) for word in words):
            return True
        known = {as_dtype(value) for value in constants_of(project, module, given.node)}
        wanted = {as_dtype(value) for value in given.values}
        if known and UNKNOWN not in known and known.isdisjoint(wanted) and not tells_truths(known | wanted):
            return True
    return False


def bf16_is_asked_for(project: Project) -> bool:
    """Whether a default, a launch line, a configuration or a value in code says bfloat16."""
    return any(project.memo(is_asked_for, word) for word in ("bf16", "bfloat16"))


# --- what switches the scaler -----------------------------------------------------------------------------------------


def option_of_scaler(project: Project, region: Autocast) -> NamedDtype | None:
    """``GradScaler(enabled=args.dtype == "float16")``: the setting that the scaler follows and autocast does not."""
    module = region.module
    conditions = conditions_in(project, module)
    for scaler in scalers(project) if module.mentions("scaler") else ():
        if scaler.module is not module or scaler.enabled_node is None:
            continue
        for given in conditions.given(scaler.enabled_node, True):
            if not all(isinstance(value, str) and isinstance(as_dtype(value), Dtype) for value in given.values):
                continue
            found = [item for item in scenarios_of(project, module, given.node) if as_dtype(item.value) == BF16]
            words = [item.value for item in found if isinstance(item.value, str)]
            chosen = not words or any(project.memo(is_asked_for, word) for word in words)
            if chosen and any(not is_impossible(project, module, item) for item in found):
                why = f"the scaler follows {given.text}"
                fits = means_the_same(module, given.node, region.node)
                text = named_in_torch(project, region, given) if fits else None
                return NamedDtype(scaler.call, f"{given.text} can ask for bfloat16", why, text)
    return None


def named_in_torch(project: Project, region: Autocast, given: TextCondition) -> str | None:
    """``getattr(torch, args.dtype)``, where every value that is known of the setting is the name of a dtype."""
    torch = torch_at(region.module, region.node)
    known = constants_of(project, region.module, given.node) - {UNKNOWN} | set(given.values)
    fits = torch is not None and all(value in TORCH_NAMES for value in known)
    return f"getattr({torch}, {ast.unparse(given.node)})" if fits else None


def weights_used_in(project: Project, region: Autocast) -> NamedDtype | None:
    """A model whose weights are certainly bfloat16 and that runs in the region."""
    if region.form != "with":
        return None
    module = region.module
    for call in (node for node in ast.walk(module.statement_of(region.node)) if isinstance(node, ast.Call)):
        for model in (call.func, receiver_of(call)):
            found = half_weights(project, module, model, call) if model is not None else None
            change = found.change if found is not None else None
            if found is None or found.dtype != BF16 or found.adapted or found.decided.given:
                continue
            if change is None or change.module is not module:
                continue
            made = change.node
            asked = _asked_in(made) if isinstance(made, ast.Call) else None
            text = ast.unparse(asked) if asked is not None and means_the_same(module, asked, region.node) else None
            return NamedDtype(
                asked or made, f"the weights of {found.name} are bfloat16", f"the weights of {found.name}", text
            )
    return None


def _asked_in(made: ast.Call) -> ast.expr | None:
    """The dtype that a load or a cast is passed."""
    given = [item.value for item in made.keywords if item.arg in LOAD_KEYS]
    given = given or (given_for_dtype(made) if receiver_of(made, "to") is not None else [])
    return given[0] if len(given) == 1 else None


def trainer_in(project: Project, region: Autocast) -> NamedDtype | None:
    """``TrainingArguments(bf16=True)``, ``Trainer(precision="bf16-mixed")`` in the same file.

    An Accelerator is asked for the precision by the variable that holds it (``declared_dtype``).
    """
    module = region.module
    if module.scope_of(region.node).enclosing_class is not None or not module.mentions("bf16"):
        return None  # a method may run inside the trainer's own region, whose dtype it then has
    calls = (scope for scope in calls_of(project) if scope.path == module.document.path)
    asked = [precision_of(project, scope) for scope in calls if scope.framework.id != "accelerate"]
    found = [item for item in asked if item.compute is Compute.BF16]
    if not found or any(Compute.FP16 is item.compute for item in asked):
        return None
    torch = torch_at(module, region.node)
    text = f"{torch}.bfloat16" if torch is not None else None
    return NamedDtype(found[0].call, "the trainer computes in bfloat16", "bfloat16 is asked for here", text)
