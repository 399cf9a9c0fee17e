"""The VAE of SDXL, loaded in float16 and called directly."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Draft, Fix
from ...codemod.purpose.files import is_test
from ...codemod.python.names import ModuleNames, attribute_chain, names_of
from ...codemod.python.paths import function_of
from ...codemod.python.values import values_of
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import FP16
from ...codemod.torch.weights import LOAD_KEYS

MODELS = (
    "stabilityai/stable-diffusion-xl-base-1.0",
    "stabilityai/stable-diffusion-xl-refiner-1.0",
    "stabilityai/sdxl-vae",
)
MENDED = "madebyollin/sdxl-vae-fp16-fix"
UPCASTS = ("force_upcast", "upcast_vae", ".float()", "float32")


def half_vaes(project: Project) -> Iterator[Draft]:
    """``AutoencoderKL.from_pretrained(<SDXL>, torch_dtype=torch.float16)`` whose ``encode`` or ``decode`` is called."""
    for document in project.python_documents(("AutoencoderKL",), where=_may_load):
        module = names_of(project, document)
        for call in module.calls_by_name.get("from_pretrained", []) if not is_test(document.path) else ():
            use = _direct_use(module, call) if _loads_half(project, module, call) else None
            if use is not None:
                yield Draft.at(
                    module,
                    call,
                    "the VAE of SDXL overflows in float16: latents become nan and images black",
                    (module.place(use, "it is called without a pipeline, which would cast it to float32 first"),),
                    [_fix(module, call)],
                )


def _may_load(text: str) -> bool:
    return "float16" in text and any(name in text for name in MODELS)


def _loads_half(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    if (attribute_chain(call.func) or [""])[-2:-1] != ["AutoencoderKL"] or not call.args:
        return False
    values = values_of(project, module)
    dtypes = [item.value for item in call.keywords if item.arg in LOAD_KEYS]
    model = {item.value for item in values.scenarios(call.args[0])}
    half = bool(dtypes) and {item.value for item in values.scenarios(dtypes[0])} == {FP16}
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
    first = call.args[0]
    extra = {item.arg for item in call.keywords} - {"subfolder", *LOAD_KEYS}
    if not isinstance(first, ast.Constant) or len(call.args) > 1 or extra:
        return None
    edits = [module.replace(first, f'"{MENDED}"')]
    if any(item.arg == "subfolder" for item in call.keywords):
        edits.append(module.remove_argument(call, "subfolder"))
    return Fix.unsafe(
        "mended-vae", f"load {MENDED}, the same VAE with smaller activations: latents differ slightly", *edits
    )
