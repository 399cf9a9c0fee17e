"""Compiled kernels that know float16 but not bfloat16: a run that uses them cannot move."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Place
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.imports import connected_modules, reached_from
from ....codemod.purpose.runs import project_folder
from ....codemod.python.names import ModuleNames, modules_with, names_of
from ....codemod.source.facts import memo
from ....codemod.source.project import Project

HALF_ONLY = {"tinycudann": "tiny-cuda-nn computes and returns float16"}
"""Packages whose kernels have no bfloat16 version."""
BUILDS = ("CUDAExtension", "cpp_extension")
BUILDING = ("from_cfg", "build_from_cfg", "LightningCLI", "instantiate", "instantiate_from_config", "import_module")
"""Calls that build what a configuration file names."""
MODELS = ("LightningModule", "BaseModel", "register_module", "Module")
MAX_MODULES = 200


@memo
def half_only_kernel(project: Project, module: ModuleNames) -> Place | None:
    """Where ``module``, or what its run imports, takes in such kernels; None when it does not."""
    places = (_imported_here(project, item) for item in used_by_runs(project, module))
    return next((place for place in places if place is not None), None)


@memo
def used_by_runs(project: Project, module: ModuleNames) -> tuple[ModuleNames, ...]:
    """What runs of ``module`` may use: what it imports, and the models beside it where classes are built by name."""
    behind = reached_from(project, connected_modules(project, module), MAX_MODULES)
    if not any(name in item.calls_by_name for item in behind for name in BUILDING) and not _names_classes(module):
        return behind
    root = project_folder(project, module.path)
    named = (item for item in modules_with(project, MODELS) if item.path.startswith(root))
    built = tuple(item for item in named if not purpose_of(item.path).is_left_alone)
    return reached_from(project, (*behind, *built), MAX_MODULES)


def _names_classes(module: ModuleNames) -> bool:
    """``dict(type="AdamW")``: what is configured so is built by its name, by whichever program reads it."""
    given = (item for call in module.calls_by_name.get("dict", ()) for item in call.keywords)
    return any(item.arg == "type" and isinstance(item.value, ast.Constant) for item in given)


def _imported_here(project: Project, module: ModuleNames) -> Place | None:
    own = project.fact(_own_extensions)
    wraps = _passes_half(module.document.text)
    for binding in module.imports:
        imported = binding.qualified or ""
        why = HALF_ONLY.get(imported.partition(".")[0])
        built = next((name for name in own if f"{imported}.".startswith(f"{name}.")), None)
        if why is None and built is not None and wraps:
            why = f"{built} is compiled in this project; kernels of this kind are mostly built for float16"
        if why is not None and isinstance(binding.node, ast.stmt):
            return module.place(binding.node, why)
    return None


def _passes_half(text: str) -> bool:
    """Whether a wrapper hands its kernels what autocast computes, or float16; one that casts to float32 does not."""
    named = "torch.half" in text or ".half()" in text or "float16" in text
    casts = "cast_inputs=torch.float" in text.replace(" ", "") or ".float()" in text
    return named or ("autograd.Function" in text and not casts)


def _own_extensions(project: Project) -> frozenset[str]:
    """Full names of the CUDA extensions that the project's own setup scripts build, and nothing says know bfloat16."""
    found: set[str] = set()
    for document in project.python_documents(BUILDS):
        if _knows_bfloat16(project, document.path):
            continue
        module = names_of(project, document)
        for call in (*module.calls_by_name.get("CUDAExtension", []), *_listed_extensions(module)):
            named = [*call.args[:1], *(item.value for item in call.keywords if item.arg == "name")]
            found.update(str(item.value) for item in named if isinstance(item, ast.Constant))
    return frozenset(found)


def _listed_extensions(module: ModuleNames) -> Iterator[ast.Call]:
    """``ext_modules=[ext_t("kernels", ...)]``, where the class is a variable."""
    if "CUDAExtension" not in module.attribute_loads:
        return
    for call in module.calls_by_name.get("setup", []):
        listed = next((item.value for item in call.keywords if item.arg == "ext_modules"), None)
        if isinstance(listed, ast.List):
            yield from (item for item in listed.elts if isinstance(item, ast.Call))


def _knows_bfloat16(project: Project, setup: str) -> bool:
    """Whether Python code beside an extension (its wrapper, its tests) speaks of bfloat16."""
    folder = setup.rpartition("/")[0]
    if not folder:
        return False
    paths = project.python_paths(("bfloat16", "bf16"))
    return any(path.startswith(f"{folder}/") for path in paths)
