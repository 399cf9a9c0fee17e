"""What a trainer is told to compute in: ``TrainingArguments(bf16=True)``, ``Accelerator(mixed_precision="bf16")``."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum

from ...codemod.python.creations import Creation
from ...codemod.python.functions import class_of
from ...codemod.python.names import ModuleNames, resolve
from ...codemod.releases.pins import allowed
from ...codemod.source.project import Project
from ...codemod.torch.api import ACCELERATOR
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import BF16, FP16, as_dtype
from .keywords import keywords_of

LIBRARIES = ("transformers", "trl", "sentence_transformers", "unsloth", "setfit", "optimum", "adapters")
TRL = ("trl", "unsloth")
MAX_BASES = 4
ASKING = ("bf16_supported", "bfloat16_supported", "bf16_available", "bf16_gpu_available", "get_device_capability")
"""Parts of the names of functions that ask whether the machine has bfloat16."""


class Compute(str, Enum):
    """What a trainer's region computes in."""

    BF16 = "bfloat16"
    FP16 = "float16"
    HARDWARE = "bfloat16 where the GPU has it"
    FP32 = "float32"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """What one call tells a trainer, and the argument that says so."""

    compute: Compute
    module: ModuleNames
    call: ast.Call
    node: ast.expr | None = None
    """The value of the argument that decides; None where nothing is said."""
    partitioned: bool = False
    """Whether DeepSpeed or FSDP holds the weights, which then follow its own settings."""


def is_arguments_class(project: Project, module: ModuleNames, node: ast.expr, bases: int = 0) -> bool:
    """Whether ``node`` names training arguments (of transformers, TRL, ...) or the project's subclass of them."""
    if module.is_ambiguous(node):
        return False
    qualified = resolve(project, module, node) or ""
    library, _, rest = qualified.partition(".")
    name = rest.rpartition(".")[2]
    if library in LIBRARIES:
        config = library in TRL and name.endswith("Config") and name != "ModelConfig"
        return config or name.endswith("TrainingArguments")
    found = class_of(project, module, node) if bases < MAX_BASES else None
    if found is None or not isinstance(found[1].node, ast.ClassDef):
        return False
    return any(is_arguments_class(project, found[0], base, bases + 1) for base in found[1].node.bases)


def precision_of_arguments(project: Project, made: Creation) -> Precision | None:
    """What training arguments say; None for calls that make something else."""
    module, call = made.module, made.call
    if not is_arguments_class(project, module, call.func):
        return None
    given = keywords_of(module, call)
    parted = any(_is_set(given.values.get(key)) for key in ("deepspeed", "fsdp", "fsdp_config"))
    if _is_changed_later(made):
        return Precision(Compute.UNKNOWN, module, call)
    bf16, fp16 = given.values.get("bf16"), given.values.get("fp16")
    wants = {"bf16": truth_of(project, module, bf16), "fp16": truth_of(project, module, fp16)}
    if wants["bf16"] is True and wants["fp16"] is not True:
        return Precision(Compute.BF16, module, call, bf16, parted)
    if wants["bf16"] == "hardware":
        return Precision(Compute.HARDWARE, module, call, bf16, parted)
    if wants["fp16"] is True and wants["bf16"] is False and (bf16 is not None or given.complete):
        return Precision(Compute.FP16, module, call, fp16, parted)
    library = (resolve(project, module, call.func) or "").partition(".")[0]
    if (
        library == "trl"
        and bf16 is None
        and wants["fp16"] is False
        and given.complete
        and _turns_bf16_on(project, module)
    ):
        return Precision(Compute.BF16, module, call, None, parted)
    silent = bf16 is None and library not in ("transformers", "sentence_transformers")
    off = wants["bf16"] is False and wants["fp16"] is False and given.complete and not silent
    return Precision(Compute.FP32 if off else Compute.UNKNOWN, module, call, None, parted)


def precision_of_accelerator(project: Project, made: Creation) -> Precision | None:
    """What ``Accelerator(mixed_precision=...)`` says; None for calls that make something else."""
    if resolve(project, made.module, made.call.func) not in ACCELERATOR:
        return None
    given = keywords_of(made.module, made.call)
    node = given.values.get("mixed_precision")
    parted = any(_is_set(given.values.get(key)) for key in ("deepspeed_plugin", "fsdp_plugin", "deepspeed_plugins"))
    values = constants_of(project, made.module, node) if node is not None else set()
    only = as_dtype(values.pop()) if len(values) == 1 else None
    compute = Compute.BF16 if only == BF16 else Compute.FP16 if only == FP16 else Compute.UNKNOWN
    return Precision(compute, made.module, made.call, node, parted)


def truth_of(project: Project, module: ModuleNames, node: ast.expr | None) -> bool | str | None:
    """True, False, ``"hardware"`` (what the machine has decides), or None when it cannot be told; absent is False."""
    if node is None:
        return False
    values = constants_of(project, module, node)
    if values == {True}:
        return True
    if values <= {False, None}:
        return False
    return "hardware" if asks_for_bf16(module, node) else None


def asks_for_bf16(module: ModuleNames, node: ast.expr) -> bool:
    """Whether ``node`` is the machine's answer to whether it has bfloat16, itself or in a variable with one value."""
    if isinstance(node, ast.Name):
        bindings = module.scope_of(node).lookup(node.id)
        value = bindings[0].value if len(bindings) == 1 else None
        return value is not None and not isinstance(value, ast.Name) and asks_for_bf16(module, value)
    if isinstance(node, ast.Call | ast.Compare | ast.BoolOp):
        text = ast.unparse(node)
        return any(word in text for word in ASKING) and not any(isinstance(item, ast.Not) for item in ast.walk(node))
    return False


def _turns_bf16_on(project: Project, module: ModuleNames) -> bool:
    """Whether every allowed TRL computes in bfloat16 unless fp16 is asked for (since 0.19)."""
    versions = allowed(project, "trl", module.document.path)
    return versions is not None and not versions.may_be_below("0.19.0")


def _is_set(node: ast.expr | None) -> bool:
    return node is not None and not (isinstance(node, ast.Constant) and not node.value)


def _is_changed_later(made: Creation) -> bool:
    """Whether ``args.bf16 = ...`` is written anywhere in the file that makes the arguments or one that uses them."""
    modules = {made.module, *(name.module for name in made.names)}
    stores = [store for module in modules for key in ("bf16", "fp16") for store in module.attribute_stores.get(key, [])]
    return any(receiver is not None for receiver, _, _ in stores)
