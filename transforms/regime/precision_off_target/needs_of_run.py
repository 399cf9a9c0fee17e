"""What a run needs to be right in the other 16-bit dtype, beside the edits that take it there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.proof.needed_today import is_newer_anyway
from ....codemod.proof.needs import Known, Need, Release
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.imports import connected_modules, reached_from
from ....codemod.purpose.targets import compute_dtype
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import guards, name_parts
from ....codemod.python.reach import reached
from ....codemod.source.facts import memo
from ....codemod.source.project import Project
from ....codemod.torch.autocast import autocasts
from ....codemod.torch.dtypes import BF16, FP16, TORCH_DTYPES
from ....codemod.torch.tables.kernels import WORKS_SINCE
from .unknown_arrays import array_of_steps

LATE = ("interpolate", "upsample", "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d")
LATE_SINCE = WORKS_SINCE["interpolate", "cuda", "bfloat16"]
"""The release of torch that brought the bfloat16 kernels of these calls."""
SCALE = "cur_scale"
"""What DeepSpeed's optimizers for float16 have; that for bfloat16 does not (`runtime/bf16_optimizer.py`)."""
OVERFLOWING = "StableDiffusionXL"
"""How the names of pipelines begin whose VAE overflows in float16 (huggingface/diffusers#4038)."""
MAX_MODULES = 200


@memo
def needs_of_run(project: Project, module: ModuleNames) -> tuple[Need, ...]:
    """The needs of what ``module`` runs, on the way to the project's target."""
    wanted = compute_dtype(project.target)
    behind = reached_from(project, connected_modules(project, module), MAX_MODULES) if wanted in (BF16, FP16) else ()
    behind = tuple(item for item in behind if not purpose_of(item.document.path).is_left_alone)
    return tuple(_of_bf16(project, module, behind) if wanted == BF16 else _of_fp16(behind))


def _of_bf16(project: Project, module: ModuleNames, behind: tuple[ModuleNames, ...]) -> Iterator[Need]:
    calls = ((item, name, call) for item in behind for name in LATE for call in item.calls_by_name.get(name, ()))
    late = next((name for item, name, call in calls if _is_of_model(project, behind, item, call)), "")
    if late and not is_newer_anyway(project, module, "torch", LATE_SINCE):
        yield Release("torch", LATE_SINCE, module.path, f"a bfloat16 kernel for {late}")
    for item in behind:
        array = array_of_steps(project, item)
        if array is not None:
            yield Known(False, f"{array.path}:{array.span.row} {array.message}")
        for node in item.attribute_loads.get(SCALE, ())[:1]:
            yield Known(False, f"{item.path}:{node.lineno} reads {SCALE}, which DeepSpeed has for float16")


def _is_of_model(project: Project, behind: tuple[ModuleNames, ...], module: ModuleNames, call: ast.Call) -> bool:
    """Whether a call stands in a class or an autocast region, or in what these use; not what resizes a checkpoint."""
    function = module.scope_of(call).function.node
    if not isinstance(function, FunctionNode) or _stands_in_class(module, call):
        return True
    methods = [(item, node) for item in behind for cls in item.of_type(ast.ClassDef) for node in cls.body]
    entered = (each for each in autocasts(project) if each.module in behind)
    regions = [(each.module, each.module.statement_of(each.node)) for each in entered]
    return reached(project, [*methods, *regions]).holds(module, call)


def _stands_in_class(module: ModuleNames, node: ast.AST) -> bool:
    return any(isinstance(above, ast.ClassDef) for above in module.ancestors(node))


def _of_fp16(behind: tuple[ModuleNames, ...]) -> Iterator[Need]:
    for item in behind:
        is_xl = any(name.startswith(OVERFLOWING) for name in item.name_loads)
        for call in item.calls_by_name.get("to", ()) if is_xl else ():
            if _narrows_vae(item, call):
                yield Known(False, f"{item.path}:{call.lineno} casts the VAE of SDXL, which overflows in float16")


def _narrows_vae(module: ModuleNames, call: ast.Call) -> bool:
    """``vae.to(device, dtype=weight_dtype)``, which no test of the VAE itself chooses."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    given = next((item.value for item in call.keywords if item.arg == "dtype"), call.args[1] if call.args[1:] else None)
    if given is None or "vae" not in name_parts(receiver):
        return False
    is_stated = TORCH_DTYPES.get(module.qualified(given) or "") is not None
    return not is_stated and not any("vae" in name_parts(guard.test) for guard in guards(module, call))
