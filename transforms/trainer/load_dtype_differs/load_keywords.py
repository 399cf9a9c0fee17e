"""``from_pretrained(dtype=...)`` where the pinned transformers only knows ``torch_dtype``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.proof.needs import RAISES
from ....codemod.proof.proving import proved
from ....codemod.python.names import ModuleNames, names_of, resolve
from ....codemod.releases.pins import VersionRange, allowed
from ....codemod.source.project import Project
from ....codemod.torch.api import LOADERS

SINCE = "4.56.0"
OTHER_LIBRARIES = ("jax", "flax", "tensorflow", "numpy")
"""A model that is given a dtype of these is none of PyTorch."""


def unknown_keywords(project: Project) -> Iterator[Draft]:
    for document in project.checked_documents(LOADERS, ("transformers",), ("dtype",)):
        versions = allowed(project, "transformers", document.path)
        if versions is None or versions.may_reach(SINCE):
            continue
        module = names_of(project, document)
        for call in _of_transformers(project, module):
            yield from _at(project, module, call, versions)


def _of_transformers(project: Project, module: ModuleNames) -> Iterator[ast.Call]:
    for name in LOADERS:
        for call in module.calls_by_name.get(name, []):
            owner = (resolve(project, module, call.func) or "").split(".")
            if owner[0] == "transformers" and len(owner) > 2 and _is_model(owner[-2]):
                yield call


def _is_model(name: str) -> bool:
    if name.startswith(("Flax", "TF")):
        return False  # these are given the dtype of another library, and always as dtype=
    return name.startswith("AutoModel") or "For" in name or name.endswith("Model")


def _at(project: Project, module: ModuleNames, call: ast.Call, versions: VersionRange) -> Iterator[Draft]:
    keyword = next((item for item in call.keywords if item.arg == "dtype"), None)
    if keyword is None or any(item.arg in (None, "torch_dtype") for item in call.keywords):
        return
    text = "pass torch_dtype, which this transformers release accepts"
    if (module.qualified(keyword.value) or "").partition(".")[0] in OTHER_LIBRARIES:
        return
    fix = proved(project, "old-keyword", text, [module.name_argument(call, "dtype", "torch_dtype")], RAISES)
    message = (
        "the pinned transformers is older than 4.56 and has no 'dtype' here: TypeError, unexpected keyword argument"
    )
    yield Draft.at(module, keyword, message, tuple(versions.places[:1]), (fix,))
