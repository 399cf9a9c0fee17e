"""The VAE of SDXL, loaded in float16 and called directly."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Applicability, Edit, Fix, PythonOperation, RemoveArgument, ReplaceExpression
from ...codemod.python.names import ModuleNames, attribute_chain, names_of
from ...codemod.python.paths import function_of
from ...codemod.source.project import Project
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import FP16
from ...codemod.torch.weights import LOAD_KEYS
from .deployment import is_test
from .fp16_danger import Danger, place

MODELS = (
    "stabilityai/stable-diffusion-xl-base-1.0",
    "stabilityai/stable-diffusion-xl-refiner-1.0",
    "stabilityai/sdxl-vae",
)
MENDED = "madebyollin/sdxl-vae-fp16-fix"
UPCASTS = ("force_upcast", "upcast_vae", ".float()", "float32")


def half_vaes(project: Project) -> Iterator[Danger]:
    """``AutoencoderKL.from_pretrained(<SDXL>, torch_dtype=torch.float16)`` whose ``encode`` or ``decode`` is called."""
    for document in project.python_documents(("AutoencoderKL",), where=_may_load):
        module = names_of(project, document)
        for call in module.calls_by_name.get("from_pretrained", []) if not is_test(document.path) else ():
            use = _direct_use(module, call) if _loads_half(project, module, call) else None
            if use is not None:
                yield Danger(
                    document.path,
                    document.span(call),
                    "the VAE of SDXL overflows in float16: latents become nan and images black",
                    (place(module, use, "it is called without a pipeline, which would cast it to float32 first"),),
                    _fix(module, call),
                )


def _may_load(text: str) -> bool:
    return "float16" in text and any(name in text for name in MODELS)


def _loads_half(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    if (attribute_chain(call.func) or [""])[-2:-1] != ["AutoencoderKL"] or not call.args:
        return False
    dtypes = [item.value for item in call.keywords if item.arg in LOAD_KEYS]
    model = constants_of(project, module, call.args[0])
    half = bool(dtypes) and constants_of(project, module, dtypes[0]) == {FP16}
    return half and len(model) == 1 and model <= set(MODELS)


def _direct_use(module: ModuleNames, call: ast.Call) -> ast.Call | None:
    """The first ``vae.encode``/``vae.decode`` of the variable that holds it, unless something casts that variable."""
    statement = module.statement_of(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    name = ast.unparse(statement.targets[0])
    home = function_of(module, call)
    for other in module.calls:
        text = ast.unparse(other)
        if text.startswith(f"{name}.") and any(word in text for word in UPCASTS):
            return None
    uses = [item for method in ("encode", "decode") for item in module.calls_by_name.get(method, [])]
    for use in uses:
        named = isinstance(use.func, ast.Attribute) and ast.unparse(use.func.value) == name
        if named and (function_of(module, use) is home or name.startswith("self.") or home is module.tree):
            return use
    return None


def _fix(module: ModuleNames, call: ast.Call) -> Fix | None:
    document, first = module.document, call.args[0]
    extra = {item.arg for item in call.keywords} - {"subfolder", *LOAD_KEYS}
    if not isinstance(first, ast.Constant) or len(call.args) > 1 or extra:
        return None
    operations: list[PythonOperation] = [ReplaceExpression(document.span(first), (f'"{MENDED}"',))]
    if any(item.arg == "subfolder" for item in call.keywords):
        operations.append(RemoveArgument(document.span(call), "subfolder"))
    return Fix(
        "mended-vae",
        f"load {MENDED}, the same VAE with smaller activations: latents differ slightly",
        Applicability.UNSAFE,
        tuple(Edit(document.path, operation) for operation in operations),
    )
