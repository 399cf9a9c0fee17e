"""Mixed-precision policies of FSDP: where they are made, for which of its two versions, and the dtypes they name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.arguments import Signature, bind
from ....codemod.python.names import ModuleNames, modules_with, resolve
from ....codemod.source.facts import fact
from ....codemod.source.project import Project
from ....codemod.torch.dtype_values import only_half
from ....codemod.torch.dtypes import Dtype

CASTING = ("cast_forward_inputs", "cast_root_forward_inputs")
FSDP1 = Signature(("param_dtype", "reduce_dtype", "buffer_dtype", "keep_low_precision_grads", *CASTING))
FSDP2 = Signature(("param_dtype", "reduce_dtype", "output_dtype", "cast_forward_inputs"))
OWNERS_1 = (
    "torch.distributed.fsdp",
    "torch.distributed.fsdp.api",
    "torch.distributed.fsdp.fully_sharded_data_parallel",
)
OWNERS_2 = (
    "torch.distributed.fsdp",
    "torch.distributed.fsdp._fully_shard",
    "torch.distributed._composable.fsdp",
    "torch.distributed._composable.fsdp.fully_shard",
)
POLICIES = {f"{owner}.MixedPrecision": FSDP1 for owner in OWNERS_1} | {
    f"{owner}.MixedPrecisionPolicy": FSDP2 for owner in (*OWNERS_2, "torch.distributed.fsdp.api")
}
WRAPPERS = {f"{owner}.FullyShardedDataParallel": 1 for owner in OWNERS_1} | {
    f"{owner}.fully_shard": 2 for owner in OWNERS_2
}
"""What shards a model, with its version."""
ARGUMENTS = {1: "mixed_precision", 2: "mp_policy"}
POLICY_NAMES = (*ARGUMENTS.values(), "mixed_precision_policy")


@dataclass(frozen=True, slots=True, eq=False)
class FsdpPolicy:
    """One call that makes a policy."""

    module: ModuleNames
    call: ast.Call
    version: int
    arguments: dict[str, ast.expr]

    def half(self, project: Project, name: str) -> Dtype | None:
        """The 16-bit dtype that an argument certainly is; None for float32, none at all, and what is chosen later."""
        return only_half(project, self.module, self.arguments.get(name))


@fact
def policies(project: Project) -> tuple[FsdpPolicy, ...]:
    """Every policy of the project whose arguments are all to be seen."""
    modules = modules_with(project, ("MixedPrecision",), ("torch.distributed",))
    made = ((module, call) for module in modules for call in module.calls)
    named = ((module, call) for module, call in made if "MixedPrecision" in (module.qualified(call.func) or ""))
    return tuple(policy for found in named if (policy := policy_of(project, *found)) is not None)


def policy_of(project: Project, module: ModuleNames, call: ast.Call) -> FsdpPolicy | None:
    """The policy that a call makes; None for other calls."""
    signature = POLICIES.get(_named(project, module, call.func) or "")
    arguments = bind(signature, call) if signature is not None else None
    if signature is None or arguments is None:
        return None
    return FsdpPolicy(module, call, 1 if signature is FSDP1 else 2, arguments)


def wrapper_version(project: Project, module: ModuleNames, node: ast.expr) -> int | None:
    """1 for ``FullyShardedDataParallel``, 2 for ``fully_shard``, None for anything else."""
    return WRAPPERS.get(_named(project, module, node) or "")


def wraps_in(project: Project, module: ModuleNames) -> Iterator[tuple[ast.Call, int]]:
    """The calls of a module that shard a model."""
    for call in module.calls:
        qualified = module.qualified(call.func) or ""
        if qualified.rpartition(".")[2] in ("FullyShardedDataParallel", "fully_shard"):
            version = wrapper_version(project, module, call.func)
            if version is not None:
                yield call, version


def _named(project: Project, module: ModuleNames, node: ast.expr) -> str | None:
    """The qualified name; None where one name stands for several things (a choice by version)."""
    if not isinstance(node, ast.Name | ast.Attribute) or module.is_ambiguous(node):
        return None
    return resolve(project, module, node)
