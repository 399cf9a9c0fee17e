"""What plain code says of precision: autocast, scalers, casts of models, dtypes of loads, options, constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...outcome import Declaration
from ...python.names import ModuleNames, attribute_chain, names_of
from ...python.options import speaking_options
from ...source.project import Project
from ...torch.api import LOAD_KEYS, LOADERS
from ...torch.autocast import autocasts, dtype_scenarios
from ...torch.dtypes import BF16, FP16, FP32, TORCH_DTYPES, UNKNOWN, Dtype
from ...torch.scalers import scalers
from ...torch.weights import cast_dtype

TORCH = "torch"
WORDS = ("bfloat16", "float16", "bf16", "fp16", "half", "float32", "precision", "dtype")
_MODELS = """
model net network module unet vae encoder decoder transformer generator discriminator backbone controlnet ema policy
critic actor llm
"""
MODELS = frozenset(_MODELS.split())
"""Last words of names that stand for models rather than tensors."""
MIXED = {BF16: "bf16-mixed", FP16: "fp16-mixed", FP32: "fp32"}
SHOWN = 60


def code_declarations(project: Project) -> tuple[Declaration, ...]:
    """Every declaration in plain code, by place."""
    found = [*_regions(project), *_scalers(project)]
    for document in project.python_documents(WORDS):
        module = names_of(project, document)
        found += [*_casts(project, module), *_loads(module), *_constants(module), *_options(project, module)]
    return tuple(sorted(set(found), key=lambda item: (item.path, item.span, item.key)))


def _regions(project: Project) -> Iterator[Declaration]:
    for item in autocasts(project):
        if item.form == "reference":
            continue
        document = item.module.document
        values = {scenario.value for scenario in dtype_scenarios(project, item)}
        names = [value.name for value in values if isinstance(value, Dtype)]
        told = UNKNOWN not in values and len(names) == len(values) and bool(names)
        shown = " or ".join(sorted(names)) if told else _text(item.dtype_node) or "decided at run time"
        if item.dtype_node is None and told:
            shown += " (the default)"
        enabled = f"enabled={_text(item.enabled_node)}" if item.enabled_node is not None else ""
        only = next(iter(values)) if len(values) == 1 else None
        regime = MIXED.get(only, "") if isinstance(only, Dtype) else ""
        role = "compute" if not item.switched_off else "island"
        span = document.span(item.node)
        yield Declaration(
            document.path, span, TORCH, "autocast", role, shown, "" if item.switched_off else regime, enabled
        )


def _scalers(project: Project) -> Iterator[Declaration]:
    for scaler in scalers(project):
        document = scaler.module.document
        node = scaler.enabled_node
        if scaler.switched_off:
            value, condition = "off", ""
        else:
            value = "on"
            plain = node is None or isinstance(node, ast.Constant)
            condition = "" if plain else f"enabled={_text(node)}"
        name = scaler.api.rpartition(".")[2]
        yield Declaration(document.path, document.span(scaler.call), TORCH, name, "scaler", value, condition=condition)


def _casts(project: Project, module: ModuleNames) -> Iterator[Declaration]:
    for name in ("half", "bfloat16", "to"):
        for call in module.calls_by_name.get(name, ()):
            func = call.func
            chain = attribute_chain(func.value) if isinstance(func, ast.Attribute) else None
            if not chain or chain[-1].lower().rpartition("_")[2].rstrip("0123456789") not in MODELS:
                continue
            dtype = cast_dtype(project, module, call)
            if dtype is not None:
                key = f"{'.'.join(chain)}.{name}()"
                document = module.document
                yield Declaration(document.path, document.span(call), TORCH, key, "weights", dtype.name)


def _loads(module: ModuleNames) -> Iterator[Declaration]:
    for loader in LOADERS:
        for call in module.calls_by_name.get(loader, ()):
            for keyword in call.keywords:
                if keyword.arg in LOAD_KEYS:
                    yield _stated(module, keyword.value, f"{loader}({keyword.arg}=)", "weights")


def _constants(module: ModuleNames) -> Iterator[Declaration]:
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign) and module.qualified(statement.value) in TORCH_DTYPES:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                yield _stated(module, statement.value, target.id, "constant")


def _options(project: Project, module: ModuleNames) -> Iterator[Declaration]:
    for name, options in speaking_options(project, module).items():
        if "device" in name or "accelerator" in name:
            continue
        for option in options:
            if isinstance(option.default, ast.Constant):
                yield _stated(module, option.default, name, "option")


def _stated(module: ModuleNames, node: ast.expr, key: str, role: str) -> Declaration:
    dtype = TORCH_DTYPES.get(module.qualified(node) or "")
    value = dtype.name if dtype is not None else _text(node)
    return Declaration(module.document.path, module.document.span(node), TORCH, key, role, value)


def _text(node: ast.expr | None) -> str:
    if node is None:
        return ""
    text = ast.unparse(node)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
