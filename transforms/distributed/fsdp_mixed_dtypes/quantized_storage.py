"""4-bit weights that are stored in another dtype than the rest of a model that FSDP shards."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.python.names import ModuleNames, names_of
from ....codemod.python.visible import means_the_same
from ....codemod.source.documents import FileKind
from ....codemod.source.project import Project
from ....codemod.torch.api import LOAD_KEYS, LOADERS
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import Dtype, as_dtype

STORAGE = "bnb_4bit_quant_storage"
KINDS = (FileKind.YAML, FileKind.JSON, FileKind.TOML, FileKind.SHELL, FileKind.PYTHON, FileKind.NOTEBOOK)


def storage_clashes(project: Project) -> Iterator[Draft]:
    """Loads whose dtype differs from that of the 4-bit storage, in projects that speak of FSDP at all."""
    for document in project.checked_documents((STORAGE,), ("from_pretrained",)):
        module = names_of(project, document)
        for config in module.calls_by_name.get("BitsAndBytesConfig", []):
            node = next((item.value for item in config.keywords if item.arg == STORAGE), None)
            storage = _dtype(project, module, node) if node is not None else None
            if node is not None and storage is not None:
                yield from _loads(project, module, config, node, storage)


def _loads(project: Project, module: ModuleNames, config: ast.Call, node: ast.expr, storage: Dtype) -> Iterator[Draft]:
    for name in LOADERS:
        for load in module.calls_by_name.get(name, []):
            given = {item.arg: item.value for item in load.keywords if item.arg is not None}
            dtype_node = next((given[key] for key in LOAD_KEYS if key in given), None)
            if dtype_node is None or not _is_config(module, given.get("quantization_config"), config):
                continue
            dtype = _dtype(project, module, dtype_node)
            if dtype is not None and dtype != storage and project.fact(_uses_fsdp):
                yield _clash(project, module, config, node, dtype_node, storage, dtype)


def _clash(
    project: Project,
    module: ModuleNames,
    config: ast.Call,
    node: ast.expr,
    dtype_node: ast.expr,
    storage: Dtype,
    dtype: Dtype,
) -> Draft:
    fix = None
    if means_the_same(module, dtype_node, node):
        edit = module.set_argument(config, STORAGE, ast.unparse(dtype_node))
        message = f"store the 4-bit weights in {dtype.name}: the same bits in another container; nothing is rounded"
        why = SameResult("FSDP raises; the storage only holds the same bits in another container")
        fix = proved(project, "same-storage", message, [edit], why)
    return Draft.at(
        module,
        node,
        f"4-bit weights are stored as {storage.name} and the others are {dtype.name}: FSDP raises 'Must flatten "
        f"tensors with uniform dtype'",
        (module.place(dtype_node, f"the model is loaded in {dtype.name}"),),
        [fix],
    )


def _is_config(module: ModuleNames, node: ast.expr | None, config: ast.Call) -> bool:
    """Whether a load's ``quantization_config`` is this one, in place or through one variable."""
    if isinstance(node, ast.Name):
        bindings = module.scope_of(node).lookup(node.id)
        return len(bindings) == 1 and bindings[0].value is config
    return node is config


def _dtype(project: Project, module: ModuleNames, node: ast.expr) -> Dtype | None:
    found = {as_dtype(value) for value in constants_of(project, module, node)}
    only = found.pop() if len(found) == 1 else None
    return only if isinstance(only, Dtype) else None


def _uses_fsdp(project: Project) -> bool:
    return any(True for kind in KINDS for _ in project.documents(kind, ("fsdp",)))
