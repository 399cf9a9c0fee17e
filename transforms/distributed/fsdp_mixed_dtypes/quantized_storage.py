"""4-bit weights that are stored in another dtype than the rest of a model that FSDP shards."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames, checked_modules
from ....codemod.python.paths import function_of, guard_facts
from ....codemod.python.visible import means_the_same
from ....codemod.source.documents import FileKind
from ....codemod.source.project import Project
from ....codemod.torch.api import LOAD_KEYS, LOADERS
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import Dtype, as_dtype
from .fsdp_policies import wraps_in

STORAGE = "bnb_4bit_quant_storage"
SHARDING = ("fsdp", "FullyShardedDataParallel", "fully_shard")
ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig", "ORPOConfig", "KTOConfig")
KINDS = (FileKind.YAML, FileKind.JSON, FileKind.TOML, FileKind.SHELL, FileKind.PYTHON, FileKind.NOTEBOOK)


def storage_clashes(project: Project) -> Iterator[Draft]:
    """Loads whose dtype differs from that of the 4-bit storage, in projects that speak of FSDP at all."""
    for module in checked_modules(project, (STORAGE,), ("from_pretrained",)):
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


# --- no storage at all ------------------------------------------------------------------------------------------------


def integer_storage(project: Project) -> Iterator[Draft]:
    """4-bit weights left in integers, their default, in code that itself shards the model."""
    for module in checked_modules(project, ("load_in_4bit",), ("BitsAndBytesConfig",), SHARDING):
        for config in module.calls_by_name.get("BitsAndBytesConfig", []):
            given = {item.arg: item.value for item in config.keywords}
            on = given.get("load_in_4bit")
            if not (isinstance(on, ast.Constant) and on.value is True) or not {STORAGE, None}.isdisjoint(given):
                continue
            for load in _loads_with(module, config):
                sharded = _sharded_by(project, module, load)
                if sharded is not None:
                    yield _left_in_integers(module, config, load, sharded)


def _loads_with(module: ModuleNames, config: ast.Call) -> Iterator[ast.Call]:
    for name in LOADERS:
        for load in module.calls_by_name.get(name, []):
            given = {item.arg: item.value for item in load.keywords}
            if _is_config(module, given.get("quantization_config"), config):
                yield load


def _sharded_by(project: Project, module: ModuleNames, load: ast.Call) -> ast.Call | None:
    """What shards the model: FSDP around its name, or a trainer's ``fsdp="full_shard"`` in the same function."""
    home = function_of(module, load)
    for wrap, _ in wraps_in(project, module):
        if function_of(module, wrap) is home and wrap.args and _is_named_by(module, load, wrap.args[0]):
            return wrap
    for name in ARGUMENTS:
        for call in module.calls_by_name.get(name, []):
            value = next((item.value for item in call.keywords if item.arg == "fsdp"), None)
            wanted = isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value.strip()
            if wanted and function_of(module, call) is home and guard_facts(module, call) == guard_facts(module, load):
                return call
    return None


def _is_named_by(module: ModuleNames, load: ast.Call, node: ast.expr) -> bool:
    statement = module.statement_of(load)
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == ast.unparse(node)


def _left_in_integers(module: ModuleNames, config: ast.Call, load: ast.Call, sharded: ast.Call) -> Draft:
    node = next((item.value for item in load.keywords if item.arg in LOAD_KEYS), None)
    fix = None
    if node is not None and means_the_same(module, node, config):
        edit = module.set_argument(config, STORAGE, ast.unparse(node))
        fix = Fix.unsafe("float-storage", "store the 4-bit weights in the dtype of the rest: the same bits", edit)
    return Draft.at(
        module,
        config,
        f"4-bit weights are stored as integers unless {STORAGE} is given, which FSDP does not flatten: ValueError",
        (
            module.place(load, "the model is loaded with it"),
            module.place(sharded, "the model is sharded here"),
        ),
        [fix],
    )


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
    return (only_value(module, node) if isinstance(node, ast.Name) else node) is config


def _dtype(project: Project, module: ModuleNames, node: ast.expr) -> Dtype | None:
    found = {as_dtype(value) for value in constants_of(project, module, node)}
    only = found.pop() if len(found) == 1 else None
    return only if isinstance(only, Dtype) else None


def _uses_fsdp(project: Project) -> bool:
    return any(True for kind in KINDS for _ in project.documents(kind, ("fsdp",)))
