"""A plain GradScaler that scales for a model sharded by FSDP1, and float16 in which nothing scales."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from ....codemod.model import Draft, Edit, Fix
from ....codemod.purpose.given import may_be_on
from ....codemod.purpose.imports import importers_of
from ....codemod.purpose.proved_reach import can_run, is_reached
from ....codemod.purpose.regimes import conditions_of, regime_of
from ....codemod.python.conditions import conditions_in, excludes
from ....codemod.python.functions import bases_of, called_function, class_of
from ....codemod.python.names import ModuleNames, attribute_chain, last_name, string_of
from ....codemod.python.paths import calls_of, exclusive, function_of, guard_facts
from ....codemod.python.trace import Domain, Trace, trace
from ....codemod.python.trace_steps import Chosen, FromBinding, TraceStep
from ....codemod.source.project import Project
from ....codemod.torch.autocast import autocasts_in
from ....codemod.torch.dtypes import FP16
from ....codemod.torch.scaler import OF_CUDA, Scaler
from ....codemod.torch.scalers import scalers
from ....codemod.torch.unscaled_steps import plain_steps, scales_somehow
from .fsdp_policies import ARGUMENTS, FsdpPolicy, policies, wrapper_version, wraps_in
from .policy_dtypes import run_of

KEPT = OF_CUDA.names
"""Arguments that both scalers have; the device is CUDA in both unless named."""
Ways: TypeAlias = "tuple[tuple[ModuleNames, ast.AST], ...]"
"""A policy, or what else an argument is, and the places that it passes from there on."""
IMPORT = "from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler"


def scaler_clashes(project: Project) -> Iterator[Draft]:
    """The plain scalers whose own function, or the file around it, shards the model while they are on."""
    for scaler in scalers(project):
        if not _is_plain(scaler) or any(item.mentions("shardedgradscaler") for item in scaler.modules):
            continue
        wrap = _wrap(project, scaler) if may_be_on(project, scaler) else None
        if wrap is None or regime_of(project, scaler).verdict == "always-bf16" or _is_off_there(project, scaler, wrap):
            continue
        tests = [
            (module, test, holds) for module, test, holds in conditions_of(project, scaler) if test in module.parents
        ]
        yield Draft.at(
            scaler.module,
            scaler.call,
            "a plain GradScaler with FSDP1: each rank looks for inf in its own shard only, so one may skip a step "
            "and lower its scale while the others continue",
            (
                scaler.module.place(wrap, "the model is sharded by FullyShardedDataParallel here"),
                *(
                    module.place(test, f"the scaler is on where this is {str(on).lower()}")
                    for module, test, on in tests
                ),
            ),
            [_fix(scaler, wrap) if _shards(project, scaler.module, wrap) else None],
        )


def unscaled_policies(project: Project) -> Iterator[Draft]:
    """Policies whose parameters are float16 in every run, where the loss is not scaled: autocast has PF102."""
    for policy in policies(project):
        if policy.half(project, "param_dtype") != FP16:
            continue
        module, modules = policy.module, _run_of(project, policy)
        wraps = ((item, call) for item in modules for call, _ in wraps_in(project, item))
        got = (item for item in wraps if _gets(project, *item, policy) and is_reached(project, *item))
        wrap = next(got, None)
        if wrap is None or any(autocasts_in(project, item) or scales_somehow(project, item) for item in modules):
            continue
        steps = ((item, each) for item in modules for each in plain_steps(project, item))
        found = next((item for item in steps if is_reached(project, item[0], item[1][0])), None)
        if found is not None:
            other, (backward, step) = found
            places = (
                wrap[0].place(wrap[1], "the model is sharded with it here"),
                other.place(backward, "the unscaled backward"),
                other.place(step, "the optimizer steps here"),
            )
            message = "the model computes in float16 without loss scaling: gradients below 6e-8 become zero"
            yield Draft.at(module, policy.arguments["param_dtype"], message, places)


def _run_of(project: Project, policy: FsdpPolicy) -> tuple[ModuleNames, ...]:
    """The files of a run with a policy: of one that stands in a module, the file of the first wrapper that gets it."""
    own = run_of(project, policy)
    if function_of(policy.module, policy.call) is not policy.module.tree:
        return own
    wraps = ((item, call) for item in importers_of(project, policy.module) for call, _ in wraps_in(project, item))
    return (*own, *[item for item, call in wraps if _gets(project, item, call, policy)][:1])


def _gets(project: Project, module: ModuleNames, call: ast.Call, policy: FsdpPolicy) -> bool:
    """Whether a wrapper is given a policy in some run: in place, through names, or where an option chooses it."""
    given = next((item.value for item in call.keywords if item.arg == ARGUMENTS[policy.version]), None)
    ways = trace(project, module, given, WAYS) if given is not None else ()
    return any(way[0][1] is policy.call and all(can_run(project, *place) for place in way) for way in ways)


def _made(_question: Trace[Ways], module: ModuleNames, node: ast.expr) -> Iterable[Ways] | None:
    is_call = isinstance(node, ast.Call) and called_function(_question.project, module, node) is None
    return (((module, node),),) if is_call or isinstance(node, ast.Constant) else None


def _passed(_question: Trace[Ways], step: TraceStep, ways: Iterable[Ways]) -> Iterable[Ways]:
    if not isinstance(step, Chosen | FromBinding):
        return ways
    node = step.binding.node if isinstance(step, FromBinding) else step.node.body if step.holds else step.node.orelse
    return [(*way, (step.module, node)) for way in ways]


WAYS: Domain[Ways] = Domain(_made, lambda _question, module, node, _why: (((module, node),),), _passed)


def _is_off_there(project: Project, scaler: Scaler, wrap: ast.Call) -> bool:
    """Whether what switches the scaler on rules out that the model is sharded: ``enabled=not self.shard``."""
    module, home = scaler.module, function_of(scaler.module, scaler.call)
    on = [
        item
        for other, test, holds in conditions_of(project, scaler)
        for item in conditions_in(project, other).given(test, holds)
    ]
    sharded = conditions_in(project, module).path_given(wrap)
    same = function_of(module, wrap) is home
    return any(excludes(item, on) for item in sharded if same or "." in item.text)


def _is_plain(scaler: Scaler) -> bool:
    plain = scaler.kind == "direct" and scaler.api.endswith(".GradScaler")
    return plain and scaler.arguments is not None and not scaler.switched_off and scaler.is_used


def _wrap(project: Project, scaler: Scaler) -> ast.Call | None:
    """The call that shards the model in the scaler's function, itself or one call further, or in its class."""
    module, home = scaler.module, function_of(scaler.module, scaler.call)
    owner = module.scope_of(scaler.call).enclosing_class
    methods = getattr(owner.node, "body", ()) if owner is not None else ()
    for call in (item for each in dict.fromkeys((home, *methods)) for item in calls_of(module, each)):
        shards = _shards(project, module, call) or _leads_to_sharding(project, module, call)
        apart = function_of(module, call) is home and exclusive(module, call, scaler.call)
        if shards and not apart and is_reached(project, module, call):
            return call
    return None


def _shards(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    if wrapper_version(project, module, call.func) != 1 and not _is_subclass(project, module, call):
        return False
    strategies = [item.value for item in call.keywords if item.arg == "sharding_strategy"]
    return not any("NO_SHARD" in ast.unparse(item) for item in strategies)


def _is_subclass(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether the call makes an object of the project's own kind of FullyShardedDataParallel."""
    name = (attribute_chain(call.func) or [""])[-1].lower()
    if "shard" not in name and "fsdp" not in name:
        return False
    owner = class_of(project, module, call.func)
    return owner is not None and any(wrapper_version(project, owner[0], base) == 1 for base in bases_of(owner[1]))


def _leads_to_sharding(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """``prepare_fsdp_module(model, ...)``: a function of the project whose name says so and that wraps."""
    target = called_function(project, module, call) if "fsdp" in last_name(call.func).lower() else None
    inside = calls_of(target.module, target.node) if target is not None else ()
    return target is not None and any(_shards(project, target.module, item) for item in inside)


def _fix(scaler: Scaler, wrap: ast.Call) -> Fix | None:
    """Only where the model is sharded whenever the scaler is made: it asks all processes at each step."""
    module = scaler.module
    certain = function_of(module, wrap) is function_of(module, scaler.call)
    certain = certain and guard_facts(module, wrap) <= guard_facts(module, scaler.call)
    if not certain or scaler.arguments is None:
        return None
    kept = {name: value for name, value in scaler.arguments.items() if name in KEPT}
    if not all(string_of(value) == "cuda" for name, value in scaler.arguments.items() if name not in KEPT):
        return None
    said = ", ".join(f"{name}={module.source(value)}" for name, value in kept.items())
    edits = [module.replace(scaler.call, f"ShardedGradScaler({said})"), module.add_import(IMPORT)]
    message = "use ShardedGradScaler, which agrees with all ranks on whether to skip a step"
    return Fix.unsafe("sharded", message, *edits, *_unused_import(scaler))


def _unused_import(scaler: Scaler) -> Iterator[Edit]:
    func, module = scaler.call.func, scaler.module
    if isinstance(func, ast.Name) and len(module.name_loads.get(func.id, [])) == 1:
        for binding in module.scope_of(func).lookup(func.id):
            if binding.kind == "import":
                yield module.drop_import(binding.node, func.id)
