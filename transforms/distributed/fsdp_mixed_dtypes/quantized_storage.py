"""4-bit weights that are stored in another dtype than the rest of a model that FSDP shards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from ....codemod.model import Draft, Fix
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.python.arguments import argument
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames, checked_modules, string_of
from ....codemod.python.paths import function_of, guard_facts
from ....codemod.python.visible import means_the_same
from ....codemod.source.documents import FileKind
from ....codemod.source.project import Project
from ....codemod.torch.api import LOAD_KEYS, LOADERS
from ....codemod.torch.dtype_values import only_dtype
from ....codemod.torch.dtypes import Dtype
from .fsdp_policies import wraps_in

STORAGE = "bnb_4bit_quant_storage"
SHARDING = ("fsdp", "FullyShardedDataParallel", "fully_shard")
ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig", "ORPOConfig", "KTOConfig")
NamedStorage: TypeAlias = tuple[ast.expr, Dtype]
KINDS = (FileKind.YAML, FileKind.JSON, FileKind.TOML, FileKind.SHELL, FileKind.PYTHON, FileKind.NOTEBOOK)


def storage_clashes(project: Project) -> Iterator[Draft]:
    """Loads whose dtype differs from that of the 4-bit storage, in projects that speak of FSDP at all."""
    for module in checked_modules(project, (STORAGE,), ("from_pretrained",)):
        for config in module.calls_by_name.get("BitsAndBytesConfig", []):
            node = argument(config, STORAGE)
            storage = only_dtype(project, module, node)
            for load in _loads_with(module, config) if storage is not None else ():
                asked = argument(load, *LOAD_KEYS)
                dtype = only_dtype(project, module, asked)
                if node is None or asked is None or storage is None or dtype is None:
                    continue
                if dtype != storage and project.fact(_uses_fsdp):
                    yield _clash(project, module, config, (node, storage), (asked, dtype))


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
    """The loads whose ``quantization_config`` is this one, in place or through one variable."""
    for load in (load for name in LOADERS for load in module.calls_by_name.get(name, [])):
        given = argument(load, "quantization_config")
        if (only_value(module, given) if isinstance(given, ast.Name) else given) is config:
            yield load


def _sharded_by(project: Project, module: ModuleNames, load: ast.Call) -> ast.Call | None:
    """What shards the model: FSDP around its name, or a trainer's ``fsdp="full_shard"`` in the same function."""
    home = function_of(module, load)
    for wrap, _ in wraps_in(project, module):
        if function_of(module, wrap) is home and wrap.args and _is_named_by(module, load, wrap.args[0]):
            return wrap
    for name in ARGUMENTS:
        for call in module.calls_by_name.get(name, []):
            wanted = (string_of(argument(call, "fsdp")) or "").strip()
            if wanted and function_of(module, call) is home and guard_facts(module, call) == guard_facts(module, load):
                return call
    return None


def _is_named_by(module: ModuleNames, load: ast.Call, node: ast.expr) -> bool:
    statement = module.statement_of(load)
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == ast.unparse(node)


def _left_in_integers(module: ModuleNames, config: ast.Call, load: ast.Call, sharded: ast.Call) -> Draft:
    node, fix = argument(load, *LOAD_KEYS), None
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


def _clash(project: Project, module: ModuleNames, config: ast.Call, stored: NamedStorage, asked: NamedStorage) -> Draft:
    (node, storage), (dtype_node, dtype), fix = stored, asked, None
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


def _uses_fsdp(project: Project) -> bool:
    return any(True for kind in KINDS for _ in project.documents(kind, ("fsdp",)))
