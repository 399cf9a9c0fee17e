"""FSDP policies that contradict themselves, their wrapper, or what their own training run computes in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.proof.needs import Known
from ....codemod.proof.proving import proved
from ....codemod.purpose.targets import compute_dtype
from ....codemod.python.arguments import argument
from ....codemod.python.bindings import only_value
from ....codemod.python.callers import callers_of
from ....codemod.python.names import ModuleNames, attribute_chain, modules_with, resolve, string_of
from ....codemod.python.paths import function_of, guards
from ....codemod.source.project import Project
from ....codemod.torch.api import ACCELERATOR
from ....codemod.torch.autocast import (
    Autocast,
    autocasts_in,
    dtype_scenarios,
    is_float32_island,
    runs_without_gradients,
)
from ....codemod.torch.dtypes import BF16, HALVES, TORCH_DTYPES, Dtype, as_dtype
from .fsdp_policies import ARGUMENTS, FsdpPolicy, policies, policy_of, wraps_in
from .unused_policies import is_unused, passed_to_nobody

ROLES = {"reduce_dtype": "gradients are reduced in", "buffer_dtype": "buffers are cast to"}
FOREIGN = {1: "output_dtype", 2: "buffer_dtype"}
"""The argument that only the policy of the other version has."""
CLASSES = {1: "MixedPrecision", 2: "MixedPrecisionPolicy"}
CHOICE_WORDS = ("16", "half", "dtype", "precision", "amp", "fsdp", "shard", "strategy", "distributed")
CONSEQUENCES = {
    1: "it raises 'object has no attribute keep_low_precision_grads'",
    2: "inputs are not cast and meet parameters of another dtype",
}
PLUGIN = "FullyShardedDataParallelPlugin"
PLUGINS = tuple(f"accelerate.{module}{PLUGIN}" for module in ("", "utils.", "utils.dataclasses."))


def policy_clashes(project: Project) -> Iterator[Draft]:
    """Everything that is wrong with the policies of a project."""
    for policy in policies(project):
        yield from _foreign_argument(project, policy)
        yield from _two_halves(project, policy)
        yield from () if is_unused(project, policy) else _against_autocast(project, policy)
    yield from passed_to_nobody(project)
    for module in dict.fromkeys(policy.module for policy in policies(project)):
        yield from _wrong_class(project, module)


def plugin_clashes(project: Project) -> Iterator[Draft]:
    """Dicts with the third key of the other version, and policies that differ from ``Accelerator(mixed_precision)``."""
    for module in modules_with(project, (PLUGIN,), ("mixed_precision_policy",)):
        for call in (*module.calls_by_name.get(PLUGIN, ()), *module.calls_by_name.get("Accelerator", ())):
            name = resolve(project, module, call.func)
            if name in PLUGINS:
                yield from _in_plugin(module, call)
            elif name in ACCELERATOR:
                yield from _against_accelerator(project, module, call)


def _foreign_argument(project: Project, policy: FsdpPolicy) -> Iterator[Draft]:
    name = FOREIGN[policy.version]
    node = policy.arguments.get(name)
    if node is None or not any(item.arg == name for item in policy.call.keywords):
        return
    edit = policy.module.remove_argument(policy.call, name)
    kept = Known(name == "buffer_dtype", "outputs may be wanted in another dtype than the parameters")
    fix = proved(project, "drop-argument", f"drop {name}, which raises TypeError", [edit], kept)
    said = "FSDP2 does not cast buffers" if policy.version == 2 else "outputs of FSDP1 are in param_dtype"
    yield Draft.at(policy.module, node, f"{CLASSES[policy.version]} has no {name}: {said}", (), [fix])


def _two_halves(project: Project, policy: FsdpPolicy) -> Iterator[Draft]:
    """float16 and bfloat16 in one policy: float16 sums of bfloat16 gradients overflow, mixed operands promote.

    Sums of float16 gradients in bfloat16 lose digits but do not overflow: that may be meant.
    """
    main = policy.half(project, "param_dtype")
    for name, role in ROLES.items():
        other = policy.half(project, name)
        if main is None or other is None or other == main or (name == "reduce_dtype" and other == BF16):
            continue
        node, leading = policy.arguments[name], policy.arguments["param_dtype"]
        yield Draft.at(
            policy.module,
            node,
            f"parameters are {main.name} in this policy but {role} {other.name}",
            (policy.module.place(leading, f"param_dtype is {main.name}"),),
            [_respelled("one-dtype", policy.module, (node,), main)],
        )


def _respelled(name: str, module: ModuleNames, nodes: tuple[ast.expr, ...], dtype: Dtype) -> Fix | None:
    """A fix that writes ``dtype`` at ``nodes``; None unless each of them is spelled ``torch.<dtype>`` now."""
    edits = []
    for node in nodes:
        if not isinstance(node, ast.Attribute) or module.qualified(node) not in TORCH_DTYPES:
            return None
        text = f"{ast.unparse(node.value)}.{dtype.name}"
        edits.append(module.replace(node, text))
    message = f"{dtype.name} in all of the policy; range and precision of what is cast or reduced change"
    return Fix.unsafe(name, message, *edits)


def _against_autocast(project: Project, policy: FsdpPolicy) -> Iterator[Draft]:
    main = policy.half(project, "param_dtype")
    if main is None or _is_chosen(policy.module, policy.call) or not _is_only_choice(project, policy, main):
        return
    regions = [item for module in run_of(project, policy) for item in autocasts_in(project, module)]
    training = [item for item in regions if _trains(project, item)]
    found = {scenario.value for item in training for scenario in dtype_scenarios(project, item)}
    other = found.pop() if len(found) == 1 else None
    if not isinstance(other, Dtype) or other not in HALVES or other == main:
        return
    node, region = policy.arguments["param_dtype"], training[0]
    said = f"autocast computes in {other.name}" if region.dtype_node else f"autocast without a dtype is {other.name}"
    yield Draft.at(
        policy.module,
        node,
        f"FSDP casts parameters to {main.name} while autocast computes in {other.name}: they are rounded twice, and "
        "gradients have the range of the one with the precision of the other",
        (region.module.place(region.node, said),),
        [_follow(project, policy, main, other) if region.dtype_node is not None else None],
    )


def _follow(project: Project, policy: FsdpPolicy, main: Dtype, other: Dtype) -> Fix | None:
    """A fix that writes ``other`` wherever the policy says ``main``; none where the target asks for ``main``."""
    if compute_dtype(project.target) == main:
        return None
    names = ("param_dtype", "reduce_dtype", "buffer_dtype", "output_dtype")
    nodes = tuple(policy.arguments[name] for name in names if policy.half(project, name) == main)
    return _respelled("follow-autocast", policy.module, nodes, other)


def run_of(project: Project, policy: FsdpPolicy) -> tuple[ModuleNames, ...]:
    """The file of a policy, and the files that call the function that makes it."""
    function = function_of(policy.module, policy.call)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return (policy.module,)
    sites = callers_of(project, policy.module, function).sites
    return tuple(dict.fromkeys((policy.module, *(site.module for site in sites))))


def _trains(project: Project, item: Autocast) -> bool:
    used = item.form not in ("statement", "reference") and not _is_chosen(item.module, item.node)
    return used and not is_float32_island(project, item) and not runs_without_gradients(item)


def _is_only_choice(project: Project, policy: FsdpPolicy, main: Dtype) -> bool:
    """Whether no other policy of the same file, which the region may belong to, has parameters in another dtype."""
    beside = [item for item in policies(project) if item.module is policy.module]
    return all(item.half(project, "param_dtype") == main for item in beside)


def _is_chosen(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a test about precision or sharding decides that ``node`` runs: the other may belong to another choice."""
    texts = [ast.unparse(guard.test).lower() for guard in guards(module, node)]
    return any(word in text for text in texts for word in CHOICE_WORDS)


def _wrong_class(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """A policy of one version handed to the wrapper of the other."""
    for call, version in wraps_in(project, module):
        node = argument(call, ARGUMENTS[version])
        policy = policy_behind(project, module, node)
        if node is None or policy is None or policy.version == version:
            continue
        name = (attribute_chain(call.func) or ["FSDP"])[-1]
        yield Draft.at(
            module,
            node,
            f"{name} takes a {CLASSES[version]}, not a {CLASSES[policy.version]}: {CONSEQUENCES[version]}",
            (policy.module.place(policy.call, "the policy is created here"),),
        )


def policy_behind(project: Project, module: ModuleNames, node: ast.expr | None) -> FsdpPolicy | None:
    """The policy that an argument is, in place or through one variable."""
    made = _behind(module, node)
    return policy_of(project, module, made) if isinstance(made, ast.Call) else None


def _behind(module: ModuleNames, node: ast.expr | None) -> ast.expr | None:
    return only_value(module, node) if isinstance(node, ast.Name) else node


def _against_accelerator(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    """A policy in one 16-bit dtype below an accelerator whose autocast has the other."""
    told, plugin = argument(call, "mixed_precision"), _behind(module, argument(call, "fsdp_plugin"))
    compute = as_dtype(string_of(told))
    if told is None or not isinstance(plugin, ast.Call) or compute not in HALVES or not isinstance(compute, Dtype):
        return
    policy = policy_behind(project, module, argument(plugin, "mixed_precision_policy"))
    main = policy.half(project, "param_dtype") if policy is not None else None
    if policy is None or main is None or main == compute:
        return
    yield Draft.at(
        policy.module,
        policy.arguments["param_dtype"],
        f"FSDP casts parameters to {main.name} while accelerate's autocast computes in {compute.name}",
        (module.place(told, f"accelerate is configured for {compute.name}"),),
        [_follow(project, policy, main, compute)],
    )


def _in_plugin(module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    """The third key of a policy's dict, which is called as the version of FSDP has it."""
    chosen, table = argument(call, "fsdp_version"), argument(call, "mixed_precision_policy")
    version = chosen.value if isinstance(chosen, ast.Constant) and isinstance(chosen.value, int) else 0
    if version not in FOREIGN or chosen is None or not isinstance(table, ast.Dict):
        return
    keys = {key.value: key for key in table.keys if isinstance(key, ast.Constant)}
    wrong, right = FOREIGN[version], FOREIGN[3 - version]
    if wrong not in keys or right in keys or len(keys) != len(table.keys):
        return
    edit = module.replace(keys[wrong], f'"{right}"')
    message = f"call it {right}: what it says then holds for {right.partition('_')[0]}s instead"
    yield Draft.at(
        module,
        keys[wrong],
        f"accelerate expects {right} for version {version} of FSDP and raises 'Invalid mixed precision policy'",
        (module.place(chosen, f"version {version} is chosen here"),),
        [Fix.unsafe("rename-key", message, edit)],
    )
