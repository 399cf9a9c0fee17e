"""Loads of pretrained weights: in which dtype, and by which library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...purpose.outcomes import can_come_out
from ...python.bindings import only_value
from ...python.brought_entries import brought_keywords
from ...python.callers import callers_of
from ...python.creations import creations_of
from ...python.keywords import Keywords, entries_of, keywords_of, stores_in
from ...python.names import Binding, FunctionNode, ModuleNames, attribute_chain, parameters_of, resolve
from ...python.scopes import is_off
from ...python.settings_objects import may_hold_settings
from ...source.project import Project
from ...torch.api import LOAD_KEYS, LOADERS, QUANTIZED_KEYS
from ...torch.dtype_values import constants_of
from ...torch.dtypes import BF16, FP16, FP32, FP64, Dtype, as_dtype

SENTENCE_MODELS = ("SentenceTransformer", "CrossEncoder", "SparseEncoder")
SENTENCE_TABLES = ("model_kwargs", "automodel_args", "model_args")


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """A call that loads a model."""

    module: ModuleNames
    call: ast.Call
    given: Keywords
    node: ast.expr | None
    """What says the dtype; None where nothing does."""
    dtypes: frozenset[Dtype]
    """What that can be; empty when it is absent, None, ``"auto"`` or not known."""
    unsloth: bool
    sentence: bool

    @property
    def quantized(self) -> bool:
        """Whether the weights are integers, or may be."""
        named = [self.given.values.get(key) for key in QUANTIZED_KEYS]
        return not self.given.complete or any(not is_off(node) for node in named if node is not None)


def may_be_quantized(project: Project, load: Load) -> bool:
    """Whether some run may load integers: a configuration that every call leaves None asks for none."""
    named = [load.given.values.get(key) for key in QUANTIZED_KEYS]
    return load.quantized and (
        not load.given.complete
        or any(node is not None and can_come_out(project, load.module, node, True) for node in named)
    )


def load_at(project: Project, module: ModuleNames, call: ast.Call) -> Load | None:
    """The load that ``call`` is, or None."""
    qualified = resolve(project, module, call.func) or ""
    if qualified.startswith("sentence_transformers.") and qualified.rpartition(".")[2] in SENTENCE_MODELS:
        given = _inside(module, keywords_of(module, call))
        return _load(project, module, call, given, sentence=True)
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in LOADERS:
        return None
    chain = attribute_chain(call.func) or []
    unsloth = qualified.startswith("unsloth.") and chain[-2:-1] != []
    given = _given(project, module, call)
    if call.func.attr == "from_config" and qualified.startswith("diffusers."):  # it ignores a dtype (diffusers 0.42)
        given = Keywords({name: value for name, value in given.values.items() if name not in LOAD_KEYS}, given.complete)
    return _load(project, module, call, given, unsloth=unsloth)


def _given(project: Project, module: ModuleNames, call: ast.Call) -> Keywords:
    """The arguments of a load; a dictionary that gets further keys is followed where none of them says the dtype, and
    ``**kwargs`` of a function of the file to its only call."""
    given = keywords_of(module, call)
    if given.complete:
        return given
    values = dict(given.values)
    for item in call.keywords:
        name = item.value if item.arg is None else None
        if name is None or entries_of(module, name) is not None:
            continue
        bindings = module.bindings_of(name)
        first = entries_of(module, bindings[0].value) if len(bindings) == 1 and bindings[0].value is not None else None
        first = _passed_on(project, module, bindings[0]) if len(bindings) == 1 and first is None else first
        stored = {key for key, _, _ in stores_in(module, name)} if first and isinstance(name, ast.Name) else {None}
        if first is None or not stored.isdisjoint({None, *LOAD_KEYS, *QUANTIZED_KEYS}):
            return given
        values |= first
    return Keywords(values, True)


def _passed_on(project: Project, module: ModuleNames, binding: Binding) -> dict[str, ast.expr] | None:
    """What the only call of a function, in the same file, passes for its ``**kwargs``."""
    function = binding.scope.node
    if not isinstance(function, FunctionNode) or binding.node is not function.args.kwarg:
        return None
    callers = callers_of(project, module, function)
    if not callers.complete or len(callers.sites) != 1 or callers.sites[0].module is not module:
        return None
    given = keywords_of(module, callers.sites[0].call)
    own = {item.arg for item in parameters_of(function)}
    return {name: value for name, value in given.values.items() if name not in own} if given.complete else None


def as_read(project: Project, load: Load) -> Load:
    """The load with what functions, filters and merged dictionaries bring along: nothing to be changed for it alone."""
    found = brought_keywords(project, load.module, load.call) if not (load.given.complete or load.sentence) else None
    if found is None or not found.uncertain.isdisjoint((*LOAD_KEYS, *QUANTIZED_KEYS)):
        return load
    return _load(project, load.module, load.call, Keywords(found.values, True), unsloth=load.unsloth)


def is_of_transformers(project: Project, load: Load) -> bool:
    """Whether the class that loads is one of the transformers package."""
    return (resolve(project, load.module, load.call.func) or "").startswith("transformers.")


def initial_load(project: Project, module: ModuleNames, arguments: ast.Call, model: ast.expr) -> Load | None:
    """The load that a TRL trainer does itself: ``SFTTrainer("name", args=SFTConfig(model_init_kwargs={...}))``."""
    if not _is_text(project, module, model):
        return None
    table = keywords_of(module, arguments).values.get("model_init_kwargs")
    entries = entries_of(module, table) if table is not None else None
    return _load(project, module, arguments, Keywords(entries, True)) if entries is not None else None


def _is_text(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether a model is given by its name: a string, or a setting (``args.model``, ``config["model"]``)."""
    if isinstance(node, ast.Name):
        value = only_value(module, node)
        return value is not None and value is not node and _is_text(project, module, value)
    if isinstance(node, ast.Attribute | ast.Subscript):
        is_own = ast.unparse(node.value) in ("self", "cls")
        settings = not is_own and may_hold_settings(project, module, node.value)
        return settings and not creations_of(project, module, node)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _inside(module: ModuleNames, given: Keywords) -> Keywords:
    """The arguments that a sentence-transformers model hands to the model it loads."""
    for name in SENTENCE_TABLES:
        table = given.values.get(name)
        if table is not None:
            entries = entries_of(module, table)
            return Keywords(entries or {}, entries is not None)
    return Keywords({}, given.complete)


def _load(
    project: Project,
    module: ModuleNames,
    call: ast.Call,
    given: Keywords,
    *,
    unsloth: bool = False,
    sentence: bool = False,
) -> Load:
    node = next((given.values[key] for key in LOAD_KEYS if key in given.values), None)
    dtypes = dtypes_of(project, module, node) if node is not None else frozenset()
    return Load(module, call, given, node, dtypes, unsloth, sentence)


def dtypes_of(project: Project, module: ModuleNames, node: ast.expr) -> frozenset[Dtype]:
    """The dtypes that ``node`` can be; empty when it can be anything else."""
    found = {as_dtype(value) for value in constants_of(project, module, node)}
    dtypes = frozenset(item for item in found if isinstance(item, Dtype))
    return dtypes if len(dtypes) == len(found) and dtypes <= {BF16, FP16, FP32, FP64} else frozenset()


def literal_of(module: ModuleNames, node: ast.expr) -> ast.expr | None:
    """The place where a dtype is written out: ``node``, or the only value of the variable that it is."""
    if isinstance(node, ast.Name):
        bindings = module.bindings_of(node)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
        return literal_of(module, value) if value is not None and not isinstance(value, ast.Name) else None
    if isinstance(node, ast.Attribute):
        return node if module.qualified(node.value) == "torch" else None
    return node if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def loads_in(project: Project, module: ModuleNames) -> Iterator[Load]:
    """The loads that stand in one file as calls."""
    for name in (*LOADERS, *SENTENCE_MODELS):
        for call in module.calls_by_name.get(name, []):
            load = load_at(project, module, call)
            if load is not None:
                yield load
