"""Other packages that a model computes with: each has to be known to take every dtype that torch does."""

from __future__ import annotations

import ast
import sys

from ....codemod.model import Place
from ....codemod.purpose.files import words_of
from ....codemod.purpose.training import trains
from ....codemod.python.creations import creations_of
from ....codemod.python.names import Binding, FunctionNode, ModuleNames
from ....codemod.python.paths import function_of
from ....codemod.python.reach import reached
from ....codemod.python.scopes import last_name, root_name
from ....codemod.source.project import Project
from ....codemod.torch.autocast import autocasts
from ....codemod.torch.dtypes import FP32, Dtype
from ....codemod.torch.tables.packages import OF_OTHER_THINGS
from .inner_code import owners

LOADING = (
    "load",
    "load_model",
    "from_pretrained",
    "load_from_checkpoint",
    "create_model",
    "create_model_and_transforms",
)
"""How functions are called that give a model with weights, in whichever dtype they are saved."""
PRINTING = frozenset(("print", "cprint", "pprint", "log", "echo", "info", "debug", "warn", "warning"))
"""Words of names of functions that show what they are passed."""
OF_TENSORS = frozenset({
    "accelerate", "adapters", "beartype", "bitsandbytes", "catalyst", "causal_conv1d", "colossalai", "composer",
    "datasets", "deepspeed", "diffusers", "efficientnet_pytorch", "einops", "ema_pytorch", "entmax", "espnet2",
    "evaluate", "fairscale", "flash_attn", "fvcore", "huggingface_hub", "ignite", "iopath", "jaxtyping", "kornia",
    "liger_kernel", "lightning", "lightning_fabric", "lion_pytorch", "llmtuner", "lpips", "mamba_ssm", "megatron",
    "MinkowskiEngine", "mmaction", "mmcls", "mmcv", "mmdet", "mmengine", "mmpose", "mmpretrain", "mmseg", "monai",
    "nemo", "opacus", "open_clip", "optimum", "peft", "pretrainedmodels", "prodigyopt", "pytorch_lightning",
    "pytorch_metric_learning", "rotary_embedding_torch", "safetensors", "schedulefree",
    "segmentation_models_pytorch", "sentence_transformers", "setfit", "spconv", "speechbrain", "timm", "tinycudann",
    "tokenizers", "torch", "torch_ema", "torch_geometric", "torch_optimizer", "torch_scatter", "torch_xla",
    "torchaudio", "torchdata", "torchinfo", "torchmetrics", "torchsparse", "torchtext", "torchtyping",
    "torchvision", "transformers", "trl", "typeguard", "unsloth", "x_transformers", "xformers",
})  # fmt: skip
"""Packages that compute with tensors of each dtype as torch does, or of whose kernels more is said elsewhere.

Not those whose compiled kernels know float32 and float16 only: detectron2's, fairseq's.
"""


def foreign_code(
    project: Project, module: ModuleNames, behind: tuple[ModuleNames, ...], wanted: Dtype | None
) -> Place | None:
    """What a model, or the step that trains it, computes with, of a package of which nothing is known.

    All compute in float32, but for weights that somebody loads in 16 bits (``clip.load(name)``).
    """
    if wanted == FP32:
        near = (item for item in behind if item is module or trains(item) or any(owners(project, item)))
        return next((place for item in near if (place := _loaded(project, item)) is not None), None)
    found = (_in_models(project, item) for item in behind)
    return next((place for place in found if place is not None), None) or _in_steps(project, module)


def _loaded(project: Project, module: ModuleNames) -> Place | None:
    foreign = {item.name for item in module.imports if _is_foreign(project, module, item)}
    for call in module.calls if foreign else ():
        if root_name(call.func) in foreign and last_name(call.func) in LOADING:
            return module.place(call, f"{module.qualified(call.func)} may load weights in 16 bits")
    return None


def _in_models(project: Project, module: ModuleNames) -> Place | None:
    foreign = {item.name: item for item in module.imports if _is_foreign(project, module, item)}
    held = [(module, owner) for owner in owners(project, module)] if foreign else []
    used = reached(project, held) if held else None
    for name, binding in foreign.items() if used is not None else ():
        for load in module.name_loads.get(name, ()):
            aside = _is_annotation(module, load) or _only_prints(module, load) or _is_asked(module, load)
            if not aside and used is not None and used.holds(module, load):
                return module.place(load, f"{binding.qualified} is not known to compute in every dtype")
    return None


def _in_steps(project: Project, module: ModuleNames) -> Place | None:
    """``encoder.encode(x)`` beside a backward pass, where another package made the encoder."""
    foreign = {item.name for item in module.imports if _is_foreign(project, module, item)}
    marks = [
        *module.calls_by_name.get("backward", ()),
        *(item.node for item in autocasts(project) if item.module is module),
    ]
    for function in dict.fromkeys(function_of(module, node) for node in marks) if foreign else ():
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            made = creations_of(project, module, call.func.value) if isinstance(call.func, ast.Attribute) else ()
            made = made or (creations_of(project, module, call.func) if isinstance(call.func, ast.Name) else ())
            for item in made if call.args else ():
                if item.module is module and root_name(item.call.func) in foreign:
                    said = module.qualified(item.call.func)
                    return module.place(call, f"{said} is not known to compute in every dtype")
    return None


def _is_foreign(project: Project, module: ModuleNames, binding: Binding) -> bool:
    name = binding.qualified or ""
    top = name.partition(".")[0]
    if not top or top in OF_TENSORS or top in OF_OTHER_THINGS or top in sys.stdlib_module_names:
        return False
    known = (name, name.rpartition(".")[0], top)
    return not any(project.python_path(item, module.path) for item in known if item)


def _only_prints(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a function that is named for printing gets nothing but texts, and nothing uses what it gives back."""
    call = module.parents.get(node)
    above = module.parents.get(call) if isinstance(call, ast.Call) and call.func is node else None
    if (
        not isinstance(call, ast.Call)
        or not isinstance(above, ast.Expr)
        or PRINTING.isdisjoint(words_of(last_name(node)))
    ):
        return False
    given = [*call.args, *(item.value for item in call.keywords)]
    return all(isinstance(item, ast.JoinedStr | ast.Constant) for item in given)


def _is_asked(module: ModuleNames, node: ast.AST) -> bool:
    """``isinstance(image, accimage.Image)``, or whether there is such a package at all."""
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Compare):
            return isinstance(parent.ops[0], ast.Is | ast.IsNot)
        if not isinstance(parent, ast.Attribute | ast.Tuple):
            called = parent.func if isinstance(parent, ast.Call) else None
            return isinstance(called, ast.Name) and called.id in ("isinstance", "issubclass")
    return False


def _is_annotation(module: ModuleNames, node: ast.AST) -> bool:
    for parent in module.ancestors(node):
        if isinstance(parent, ast.arg):
            return True
        if isinstance(parent, ast.stmt):
            return isinstance(parent, FunctionNode) and parent.returns is not None and node in ast.walk(parent.returns)
    return False
