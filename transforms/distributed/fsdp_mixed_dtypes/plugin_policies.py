"""Mixed-precision policies that are given to accelerate's FSDP plugin as a dict."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames, modules_with, resolve
from ....codemod.source.project import Project
from ....codemod.torch.api import ACCELERATOR
from ....codemod.torch.dtypes import HALVES, Dtype, as_dtype
from .policy_dtypes import follow, policy_behind

PLUGINS = (
    "accelerate.FullyShardedDataParallelPlugin",
    "accelerate.utils.FullyShardedDataParallelPlugin",
    "accelerate.utils.dataclasses.FullyShardedDataParallelPlugin",
)
KEYS = {1: "buffer_dtype", 2: "output_dtype"}
"""The third key of the dict, by version of FSDP."""


def plugin_clashes(project: Project) -> Iterator[Draft]:
    """Dicts with the third key of the other version, and policies that differ from ``Accelerator(mixed_precision)``."""
    words = ("FullyShardedDataParallelPlugin",)
    for module in modules_with(project, words, ("mixed_precision_policy",)):
        for call in module.calls_by_name.get(words[0], []):
            if isinstance(call.func, ast.Name | ast.Attribute) and resolve(project, module, call.func) in PLUGINS:
                yield from _in_plugin(module, call)
        for call in module.calls_by_name.get("Accelerator", []):
            if isinstance(call.func, ast.Name | ast.Attribute) and resolve(project, module, call.func) in ACCELERATOR:
                yield from _against_accelerator(project, module, call)


def _against_accelerator(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    """A policy in one 16-bit dtype below an accelerator whose autocast has the other."""
    given = {item.arg: item.value for item in call.keywords}
    told, plugin = given.get("mixed_precision"), given.get("fsdp_plugin")
    compute = as_dtype(told.value) if isinstance(told, ast.Constant) and isinstance(told.value, str) else None
    if isinstance(plugin, ast.Name):
        plugin = only_value(module, plugin)
    if told is None or not isinstance(plugin, ast.Call) or compute not in HALVES or not isinstance(compute, Dtype):
        return
    node = next((item.value for item in plugin.keywords if item.arg == "mixed_precision_policy"), None)
    policy = policy_behind(project, module, node) if node is not None else None
    main = policy.half(project, "param_dtype") if policy is not None else None
    if policy is None or main is None or main == compute:
        return
    yield Draft.at(
        policy.module,
        policy.arguments["param_dtype"],
        f"FSDP casts parameters to {main.name} while accelerate's autocast computes in {compute.name}",
        (module.place(told, f"accelerate is configured for {compute.name}"),),
        [follow(project, policy, main, compute)],
    )


def _in_plugin(module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    given = {item.arg: item.value for item in call.keywords}
    version_node, table = given.get("fsdp_version"), given.get("mixed_precision_policy")
    version = version_node.value if isinstance(version_node, ast.Constant) else None
    if not isinstance(version, int) or version not in KEYS or version_node is None or not isinstance(table, ast.Dict):
        return
    keys = {key.value: key for key in table.keys if isinstance(key, ast.Constant)}
    wrong, right = KEYS[3 - version], KEYS[version]
    if wrong not in keys or right in keys or len(keys) != len(table.keys):
        return
    edit = module.replace(keys[wrong], f'"{right}"')
    message = f"call it {right}: what it says then holds for {right.partition('_')[0]}s instead"
    yield Draft.at(
        module,
        keys[wrong],
        f"accelerate expects {right} for version {version} of FSDP and raises 'Invalid mixed precision policy'",
        (module.place(version_node, f"version {version} is chosen here"),),
        [Fix.unsafe("rename-key", message, edit)],
    )
