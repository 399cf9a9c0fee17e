"""FSDP policies under names that nothing reads, beside wrappers that get none: the model is sharded as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import hides_arguments
from ....codemod.python.names import FunctionNode, ModuleNames, attribute_chain, modules_with
from ....codemod.python.paths import function_of
from ....codemod.source.project import Project
from .fsdp_policies import ARGUMENTS, POLICY_NAMES, FsdpPolicy, policies, wraps_in

PLACE_OF_POLICY = 6
"""How many arguments stand before the policy of FullyShardedDataParallel."""


def passed_to_nobody(project: Project) -> Iterator[Draft]:
    """The unused policies of each function, of which one is told and the others are shown with it."""
    groups: dict[tuple[ast.AST, int], list[FsdpPolicy]] = {}
    for policy in policies(project):
        if is_unused(project, policy):
            groups.setdefault((function_of(policy.module, policy.call), policy.version), []).append(policy)
    for found in groups.values():
        halves = [policy for policy in found if policy.half(project, "param_dtype") is not None]
        wraps = _wraps_without_policy(project, found[0])
        if halves and wraps and is_reached(project, found[0].module, wraps[0]):
            yield _draft(project, halves[0], wraps[0], [policy for policy in found if policy is not halves[0]])


def _draft(project: Project, policy: FsdpPolicy, wrap: ast.Call, others: list[FsdpPolicy]) -> Draft:
    module, main = policy.module, policy.half(project, "param_dtype")
    name = (attribute_chain(wrap.func) or ["FSDP"])[-1]
    which = "none of these policies is passed to anybody" if others else "this policy is passed to nobody"
    casts = "nothing" if others or main is None else f"nothing to {main.name}"
    return Draft.at(
        module,
        policy.call,
        f"{which}: {name} shards the model as it is, and casts {casts}",
        (
            module.place(wrap, f"without {ARGUMENTS[policy.version]}="),
            *(module.place(other.call, "nor is this one") for other in others),
        ),
    )


def is_unused(project: Project, policy: FsdpPolicy) -> bool:
    """Whether nothing reads the name under which a policy is stored."""
    statement = policy.module.statement_of(policy.call)
    targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is policy.call else []
    return len(targets) == 1 and not _is_read(project, policy.module, targets[0])


def _wraps_without_policy(project: Project, policy: FsdpPolicy) -> list[ast.Call]:
    """The wrappers in the file of a policy, where none of its calls is seen to be passed one."""
    module = policy.module
    wraps = [call for call, version in wraps_in(project, module) if version == policy.version]
    named = any(item.arg in POLICY_NAMES for call in module.calls for item in call.keywords)
    return [] if named or any(_may_take_policy(call) for call in wraps) else wraps


def _may_take_policy(call: ast.Call) -> bool:
    """Whether a wrapper may get a policy by its place, or among arguments that are not to be seen."""
    return hides_arguments(call) or len(call.args) > PLACE_OF_POLICY


def _is_read(project: Project, module: ModuleNames, target: ast.expr, *, follows: bool = True) -> bool:
    """Whether anything may read the name, or the attribute, that a policy is stored under.

    ``chosen = policy`` reads it for a name that is read in turn, or is not.
    """
    name = target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
    scope = module.scope_of(target)
    if isinstance(target, ast.Name) and isinstance(scope.node, FunctionNode):
        own = set(ast.walk(scope.node))
        loads = [load for load in module.name_loads.get(name, ()) if load in own]
        stored = [_stored_as(module, load) if follows else None for load in loads]
        return "locals" in module.calls_by_name or any(
            other is None or _is_read(project, module, other, follows=False) for other in stored
        )
    others = modules_with(project, (name,)) if name else ()
    return not name or any(name in each.name_loads or name in each.attribute_loads for each in others)


def _stored_as(module: ModuleNames, load: ast.AST) -> ast.expr | None:
    """``chosen`` of ``chosen = policy``."""
    parent = module.parents.get(load)
    return parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
