"""What plain code writes down of precision beside calls that are known: variables, entries, keywords, defaults.

``dtype = "bf16"`` of a Python configuration, ``kwargs["torch_dtype"] = torch.float16``, ``load(model, bf16=True)``,
``{"mixed_precision": "bf16"}``, ``def load(dtype=torch.bfloat16)``, ``cfg.get("dtype", "bf16")``, a cascade of ifs that
picks a dtype. Tensors that code creates in a dtype say nothing of what a run computes in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...outcome import Declaration
from ...purpose.files import words_of
from ...python.names import ModuleNames, attribute_chain, defaults_in, resolve, string_of
from ...python.options import SETTINGS, is_enumeration
from ...source.project import Project
from ...torch.api import COMPUTE_KEY, LOAD_KEYS, LOADERS
from ...torch.dtypes import TENSOR_TYPES
from .stated_casts import stated_tensors
from .stated_words import (
    is_precision_word,
    is_switch,
    may_be_word,
    role_of,
    says_half,
    speaks,
    stated_by,
    text_of,
    writes_dtype,
)

NUMERIC = ("torch", "numpy", "jax", "tensorflow", "cupy", "pandas", "np", "jnp")
"""Packages whose functions take the dtype of what they compute."""
POLICY_CALLS = ("torch.set_", "torch.distributed.fsdp")
"""What torch is asked for a whole run."""
READS_WITH_DEFAULT = ("get", "pop", "setdefault", "getenv", "getattr")
COMPUTE_KEYS = (COMPUTE_KEY, "bnb_4bit_quant_storage")
"""Arguments by which quantized weights are computed with, told whatever they are given."""
DEFAULT_KEYWORDS = ("default", "default_value")
DECLARING = frozenset({"add_argument", "option", "field", "Field", "add_param", "DEFINE_string", "DEFINE_enum"})
"""Calls that declare options, which are told as such."""
_TENSORS = "new_zeros new_ones new_full new_empty astype type sum mean softmax log_softmax cumsum prod norm"
REGIONS = ("autocast", "custom_fwd", "GradScaler")
"""Regions and scalers, which have entries of their own."""
TENSORS = frozenset(("to", *_TENSORS.split()))
"""Methods of tensors that take a dtype."""

ENABLED = "enabled"


def stated_values(project: Project, module: ModuleNames) -> Iterator[Declaration]:
    """Every such place of one module."""
    for node in module.nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield from _assigned(module, node)
        elif isinstance(node, ast.Call):
            yield from _called(project, module, node)
        elif isinstance(node, ast.Dict):
            yield from _entries(module, node)
        elif isinstance(node, ast.arguments):
            yield from _defaults(module, node)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Constant):
            yield from _returned(module, node.value)


def _told(module: ModuleNames, node: ast.expr, key: str, role: str, value: str) -> Declaration:
    where = module.document.path, module.document.span(node)
    return Declaration(*where, "torch", key, role_of(key.rpartition(".")[2], role), value)


def _assigned(module: ModuleNames, statement: ast.Assign | ast.AnnAssign) -> Iterator[Declaration]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if statement.value is None or len(targets) != 1 or is_enumeration(module.scope_of(statement).node):
        return
    name = _name_of(targets[0])
    value = _assigned_value(module, targets[0], name, statement.value) if name else None
    if value is not None:
        role = "constant" if isinstance(targets[0], ast.Name) else "setting"
        yield _told(module, statement.value, text_of(targets[0]), role, value)


def _assigned_value(module: ModuleNames, target: ast.expr, name: str, node: ast.expr) -> str | None:
    is_variable = isinstance(target, ast.Name)
    if _passes_switch(module, name, node):
        return None
    switch = is_switch(name) and (not is_variable or _is_top(module, target))
    is_table = not is_variable and is_precision_word(name)  # ``DTYPES["half"] = torch.float16``
    if not speaks(name) and (is_table or not writes_dtype(module, node)):
        return None
    if says_half(module, node, switch=switch):
        return stated_by(module, node, switch=switch)
    if not isinstance(node, ast.Attribute | ast.Constant) or not (is_variable and _is_beside_half(module, target)):
        return None
    return stated_by(module, node)


def _is_beside_half(module: ModuleNames, target: ast.expr) -> bool:
    """Whether float32 is said for a whole module, or another binding holds a 16-bit dtype: branches of one choice."""
    assert isinstance(target, ast.Name)
    values = [item.value for item in module.bindings_of(target)]
    return _is_top(module, target) or any(value is not None and says_half(module, value) for value in values)


def _is_top(module: ModuleNames, node: ast.expr) -> bool:
    return module.scope_of(node) is module.module_scope


def _name_of(target: ast.expr) -> str:
    """The last part of what is assigned to: a variable, an attribute, a literal key."""
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute):
        return target.attr if target.attr != "data" else ""
    key = target.slice if isinstance(target, ast.Subscript) else None
    return string_of(key) or ""


def _called(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Declaration]:
    chain = attribute_chain(call.func) or [""]
    called = chain[-1] if len(chain) > 1 or chain[0] else getattr(call.func, "attr", "")
    if called in READS_WITH_DEFAULT:
        yield from _fallback(module, call)
    if called in DECLARING:
        return
    yield from _declared_default(module, call)
    if called in REGIONS:
        return
    if gives_tensor(project, module, call):
        yield from stated_tensors(module, call)
        return
    loads = called in LOADERS
    for keyword in call.keywords:
        if keyword.arg and speaks(keyword.arg) and not (loads and keyword.arg in LOAD_KEYS):
            if _passes_switch(module, keyword.arg, keyword.value):
                continue
            switch = is_switch(keyword.arg)
            if says_half(module, keyword.value, switch=switch):
                value = stated_by(module, keyword.value, switch=switch) or ""
                role = "weights" if loads else "argument"
                yield _told(module, keyword.value, f"{called}({keyword.arg}=)", role, value)
            elif keyword.arg in COMPUTE_KEYS or _asks(keyword) or (called == "dict" and _is_splatted(module, call)):
                yield _told(module, keyword.value, f"{called}({keyword.arg}=)", "argument", text_of(keyword.value))


def _passes_switch(module: ModuleNames, name: str, node: ast.expr) -> bool:
    """``fp16=CONFIG.fp16``: a switch that stands under its own name is no member of an enumeration of dtypes."""
    is_plain = is_switch(name) and not may_be_word(name) and isinstance(node, ast.Attribute)
    return is_plain and not (module.qualified(node) or "").startswith("torch.")


def gives_tensor(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether a call makes or transforms a tensor: its dtype is that of a value, not of a run."""
    if getattr(call.func, "attr", "") in TENSORS:
        return True
    qualified = resolve(project, module, call.func) or module.qualified(call.func) or ""
    package, _, rest = qualified.partition(".")
    if package not in NUMERIC or qualified.startswith(POLICY_CALLS) or qualified.endswith(REGIONS):
        return False
    return not rest.rpartition(".")[2][:1].isupper() or qualified in TENSOR_TYPES


def _fallback(module: ModuleNames, call: ast.Call) -> Iterator[Declaration]:
    """``cfg.get("dtype", "bf16")``, ``getattr(args, "dtype", "bf16")``, ``os.getenv("PRECISION", "no")``."""
    texts = [item.value for item in call.args[:-1] if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    if len(texts) != 1 or not speaks(texts[0]):
        return
    node, switch = call.args[-1], is_switch(texts[0])
    if says_half(module, node, switch=switch) or (isinstance(node, ast.Constant) and stated_by(module, node)):
        yield _told(module, node, texts[0], "fallback", stated_by(module, node, switch=switch) or "")


def _declared_default(module: ModuleNames, call: ast.Call) -> Iterator[Declaration]:
    """``ConfigField(name="mixed_precision", default_value="bf16")``: a declaration by whatever class."""
    named = [*call.args[:1], *(item.value for item in call.keywords if item.arg == "name")]
    texts = [item.value for item in named if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    if not any(speaks(text) for text in texts):
        return
    for keyword in call.keywords:
        value = stated_by(module, keyword.value) if keyword.arg in DEFAULT_KEYWORDS else None
        if value is not None:
            yield _told(module, keyword.value, next(filter(speaks, texts)), "option", value)


def _asks(keyword: ast.keyword) -> bool:
    """``bf16=(model.precision == "bf16")``: a switch that a word of another setting turns on."""
    test = keyword.value
    words = test.comparators if isinstance(test, ast.Compare) and len(test.ops) == 1 else []
    texts = [item.value for item in words if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return bool(keyword.arg) and is_switch(keyword.arg or "") and any(map(is_precision_word, texts))


def _returned(module: ModuleNames, node: ast.Constant) -> Iterator[Declaration]:
    """``def mixed_precision(self): return "fp16"``: what a function, or a property, is asked for by its name."""
    owner = module.scope_of(node).node
    name = owner.name if isinstance(owner, ast.FunctionDef) else ""
    if speaks(name) and says_half(module, node):
        yield _told(module, node, f"{name}()", "option", stated_by(module, node) or "")


def _entries(module: ModuleNames, node: ast.Dict) -> Iterator[Declaration]:
    for key, item in zip(node.keys, node.values, strict=True):
        name = string_of(key) or ""
        if not name or not speaks(name) or " " in name:
            continue
        if is_switch(name) and isinstance(item, ast.Dict):
            yield from _section(module, name, item)
            continue
        is_plain = is_switch(name) and not may_be_word(name)
        if is_plain and (writes_dtype(module, item) or is_precision_word(string_of(item) or "")):
            continue  # ``{"fp16": torch.float16}``, ``{"fp16": "16-mixed"}`` are tables to look words up in
        if says_half(module, item, switch=is_switch(name)):
            yield _told(module, item, name, "entry", stated_by(module, item, switch=is_switch(name)) or "")
        elif _is_splatted(module, node) and not isinstance(item, ast.Constant) and not _is_passed_on(module, item):
            yield _told(module, item, name, "entry", text_of(item))


def _section(module: ModuleNames, name: str, node: ast.Dict) -> Iterator[Declaration]:
    """``"fp16": {"enabled": args.fp16}``: a section of DeepSpeed's, in a dictionary that code makes."""
    for key, item in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == ENABLED and not isinstance(item, ast.Constant):
            yield _told(module, item, f"{name}.{ENABLED}", "entry", text_of(item))


def _is_passed_on(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a value is a parameter, or the dtype of another value: ``{"dtype": dtype}``, ``{"dtype": x.dtype}``."""
    if isinstance(node, ast.Name):
        return any(isinstance(item.node, ast.arg) for item in module.bindings_of(node))
    chain = attribute_chain(node) or []
    return chain[-1:] == ["dtype"] and SETTINGS.isdisjoint(words_of(" ".join(chain)))


def _is_splatted(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a dictionary is written for ``**``: its entries are arguments, whatever their values are."""
    holder = module.parents.get(node)
    if isinstance(holder, ast.keyword):
        return holder.arg is None
    target = holder.targets[0] if isinstance(holder, ast.Assign) else None
    if not isinstance(target, ast.Name):
        return False
    return any(
        isinstance(parent := module.parents.get(load), ast.keyword) and parent.arg is None
        for load in module.name_loads.get(target.id, ())
    )


def _defaults(module: ModuleNames, arguments: ast.arguments) -> Iterator[Declaration]:
    for name, default in defaults_in(arguments).items():
        is_word = isinstance(default, ast.Constant) and stated_by(module, default) is not None
        if speaks(name) and (is_word or says_half(module, default)):
            yield _told(module, default, name, "parameter", stated_by(module, default) or "")
