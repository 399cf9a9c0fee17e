"""Where torch's own transformer encoders are built, and which of them can take their fast path in evaluation.

The conditions are those of ``TransformerEncoderLayer.forward`` (PyTorch 1.13 to 2.15): batch first, an even number of
heads, relu or gelu, biases. ``norm_first`` is left out as well: from PyTorch 2.6 on it is harmless.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ....codemod.python.arguments import Signature, bind
from ....codemod.python.bindings import default_of, only_value
from ....codemod.python.functions import class_of
from ....codemod.python.limits import MAX_BASES
from ....codemod.python.names import ModuleNames, Scope, attribute_chain, is_none, names_of, resolve
from ....codemod.source.facts import fact
from ....codemod.source.project import Project
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import Unknown

WORDS = ("batch_first", "TransformerEncoderLayer")
"""A file without these builds no encoder that has its batch first, unless through a class of the project."""
PREFIXES = ("torch.nn.", "torch.nn.modules.", "torch.nn.modules.transformer.")
LAYER, ENCODER, TRANSFORMER = "TransformerEncoderLayer", "TransformerEncoder", "Transformer"
_HEAD = ("d_model", "nhead")
_TAIL = ("layer_norm_eps", "batch_first", "norm_first", "bias", "device", "dtype")
SIGNATURES = {
    LAYER: Signature((*_HEAD, "dim_feedforward", "dropout", "activation", *_TAIL)),
    ENCODER: Signature(("encoder_layer", "num_layers", "norm", "enable_nested_tensor", "mask_check")),
    TRANSFORMER: Signature(
        (
            *_HEAD,
            *("num_encoder_layers", "num_decoder_layers", "dim_feedforward", "dropout", "activation"),
            *("custom_encoder", "custom_decoder", *_TAIL),
        )
    ),
}
ACTIVATIONS = ("relu", "gelu", "torch.nn.functional.relu", "torch.nn.functional.gelu", "torch.nn.ReLU", "torch.nn.GELU")
PADDING, BOTH = "src_key_padding_mask", ("mask", "src_mask")


@dataclass(frozen=True, slots=True, eq=False)
class Encoder:
    """One call that builds an encoder layer, or a whole ``nn.Transformer``, that can take the fast path."""

    module: ModuleNames
    call: ast.Call
    kind: str
    """``TransformerEncoderLayer`` or ``Transformer``."""
    stack: ast.Call | None
    """The ``TransformerEncoder`` around the layer, where it is known."""
    nests: bool
    """Whether padded input becomes a nested tensor: in a stack, unless ``enable_nested_tensor=False``."""


@fact
def encoders(project: Project) -> tuple[Encoder, ...]:
    documents = list(project.python_documents(WORDS, ("Transformer",)))
    modules = dict.fromkeys(names_of(project, document) for document in documents)
    names = {name for module in modules for name in _subclasses(project, module)}
    if names:
        others = project.python_documents(names, [f"{name}(" for name in names])
        modules.update(dict.fromkeys(names_of(project, document) for document in others))
    return tuple(item for module in modules for item in _built(project, module))


def _subclasses(project: Project, module: ModuleNames) -> Iterator[str]:
    for node in module.scopes:
        if isinstance(node, ast.ClassDef) and any(_of_torch(resolve(project, module, base)) for base in node.bases):
            yield node.name


def _built(project: Project, module: ModuleNames) -> Iterator[Encoder]:
    known = {call: kind for call in module.calls if (kind := _kind(project, module, call)) is not None}
    stacks = {}
    for call, kind in known.items():
        layer = _layer_of(module, call) if kind == ENCODER else None
        if layer is not None:
            stacks[layer] = call
    for call, kind in known.items():
        if kind != ENCODER and _has_fast_path(project, module, call, kind):
            stack = stacks.get(call)
            yield Encoder(module, call, kind, stack, kind == TRANSFORMER or _nests(project, module, stack))


def _nests(project: Project, module: ModuleNames, stack: ast.Call | None) -> bool:
    arguments = bind(SIGNATURES[ENCODER], stack) if stack is not None else None
    node = arguments.get("enable_nested_tensor") if arguments is not None else None
    return stack is not None and (node is None or False not in _values(project, module, node))


def _kind(project: Project, module: ModuleNames, call: ast.Call) -> str | None:
    """The class of torch that a call makes an object of: itself, or a subclass that keeps its ``forward``."""
    if not isinstance(call.func, ast.Name | ast.Attribute):
        return None
    name = attribute_chain(call.func)
    if name is None or name[0] == "super" or module.is_ambiguous(call.func):
        return None
    return _of_torch(resolve(project, module, call.func)) or _inherited(project, class_of(project, module, call.func))


def _of_torch(qualified: str | None) -> str | None:
    prefix, _, name = (qualified or "").rpartition(".")
    return name if name in SIGNATURES and f"{prefix}." in PREFIXES else None


def _inherited(project: Project, found: tuple[ModuleNames, Scope] | None) -> str | None:
    for _ in range(MAX_BASES):
        if found is None or not isinstance(found[1].node, ast.ClassDef) or "forward" in found[1].bindings:
            return None
        module, node = found[0], found[1].node
        kinds = [_of_torch(resolve(project, module, base)) for base in node.bases]
        if any(kinds):
            return next(kind for kind in kinds if kind)
        found = next((item for base in node.bases if (item := class_of(project, module, base))), None)
    return None


# --- whether its fast path can be taken -------------------------------------------------------------------------------


def _has_fast_path(project: Project, module: ModuleNames, call: ast.Call, kind: str) -> bool:
    found = _arguments(project, module, call, kind)
    if found is None:
        return False
    given = {name: (owner, node, _values(project, owner, node)) for name, (owner, node) in found.items()}
    first, norm = given.get("batch_first"), given.get("norm_first")
    if first is None or True not in first[2] or False in first[2] or "custom_encoder" in given:
        return False
    if norm is not None and False not in norm[2]:
        return False
    if "bias" in given and given["bias"][2] == {False}:
        return False
    heads = given["nhead"][2] if "nhead" in given else {8}
    if heads and all(isinstance(value, int) and value % 2 for value in heads):
        return False
    return "activation" not in given or _is_fused(
        given["activation"][0], given["activation"][1], given["activation"][2]
    )


def _arguments(
    project: Project, module: ModuleNames, call: ast.Call, kind: str
) -> dict[str, tuple[ModuleNames, ast.expr]] | None:
    """What reaches torch's constructor, and where it is written; None where that cannot be told."""
    found = None if _of_torch(resolve(project, module, call.func)) else class_of(project, module, call.func)
    outer = bind(SIGNATURES[kind], call)
    if found is None:
        return {name: (module, node) for name, node in outer.items()} if outer is not None else None
    other, owner = found
    own = [item.node for item in owner.bindings.get("__init__", []) if isinstance(item.node, ast.FunctionDef)]
    if not own:
        return {name: (module, node) for name, node in outer.items()} if outer is not None else None
    inner = next((item for item in ast.walk(own[0]) if isinstance(item, ast.Call) and _is_parent_init(item)), None)
    if inner is None:
        return None
    passes_on = any(item.arg is None for item in inner.keywords)
    plain = ast.Call(inner.func, [item for item in inner.args if not isinstance(item, ast.Starred)], [])
    plain.keywords = [item for item in inner.keywords if item.arg is not None]
    bound = {name: (other, node) for name, node in (bind(SIGNATURES[kind], plain) or {}).items()}
    if passes_on:
        bound.update({item.arg: (module, item.value) for item in call.keywords if item.arg in SIGNATURES[kind].names})
    return bound


def _is_parent_init(call: ast.Call) -> bool:
    """``super().__init__(...)``."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "__init__" or not isinstance(func.value, ast.Call):
        return False
    return isinstance(func.value.func, ast.Name) and func.value.func.id == "super"


def _is_fused(module: ModuleNames, node: ast.expr, values: set[object]) -> bool:
    """Whether an activation may be relu or gelu: a text, a function, a module; what cannot be told may be."""
    made = node.func if isinstance(node, ast.Call) else node
    qualified = module.qualified(made) if isinstance(made, ast.Name | ast.Attribute) else None
    if qualified is not None and qualified.startswith("torch."):
        return qualified in ACTIVATIONS
    texts = {value for value in values if isinstance(value, str)}
    return not isinstance(node, ast.Lambda) and (not texts or not texts.isdisjoint(ACTIVATIONS))


def _values(project: Project, module: ModuleNames, node: ast.expr) -> set[object]:
    """The constants an expression can be; empty where nothing can be told, without the unknown where something can."""
    found = constants_of(project, module, node)
    return {value for value in found if not isinstance(value, Unknown)}


def _layer_of(module: ModuleNames, stack: ast.Call) -> ast.Call | None:
    """The call that makes the layer of a ``TransformerEncoder``: in place, or through one name or attribute."""
    arguments = bind(SIGNATURES[ENCODER], stack) or {}
    node: ast.expr | None = arguments.get("encoder_layer")
    if isinstance(node, ast.Name | ast.Attribute):
        node = only_value(module, node)
    return node if isinstance(node, ast.Call) else None


def padded_call(modules: Iterable[ModuleNames]) -> tuple[ModuleNames, ast.expr] | None:
    """A padding mask that one of the modules passes to an encoder (without another mask), or None."""
    modules = tuple(modules)
    for module in modules:
        for call in module.calls:
            given = {item.arg: item.value for item in call.keywords if item.arg is not None}
            mask = given.get(PADDING) or _third(module, call)
            others = [given[name] for name in BOTH if name in given]
            if mask is None or is_none(mask) or not all(map(is_none, others)):
                continue
            if not _is_optional(module, mask) or _passes_masks(modules, call):
                return module, mask
    return None


def _third(module: ModuleNames, call: ast.Call) -> ast.expr | None:
    """The padding mask of ``self.encoder(x, None, padding)``, where the attribute is built from an encoder."""
    chain = attribute_chain(call.func)
    if chain is None or len(chain) != 2 or chain[0] != "self" or len(call.args) != 3 or not is_none(call.args[1]):
        return None
    built = [value for _, value, _ in module.attribute_stores.get(chain[1], []) if isinstance(value, ast.Call)]
    return call.args[2] if any((attribute_chain(value.func) or [""])[-1] == ENCODER for value in built) else None


def _is_optional(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a mask is a parameter that may be left out."""
    bindings = module.bindings_of(node)
    defaults = [default_of(binding) for binding in bindings if binding.kind == "parameter"]
    return bool(defaults) and len(defaults) == len(bindings) and all(item is not None for item in defaults)


def _passes_masks(modules: Iterable[ModuleNames], own: ast.Call) -> bool:
    """Whether a call other than ``own`` is given something that is called a mask or padding."""
    for module in modules:
        for call in module.calls:
            values = [*call.args, *(item.value for item in call.keywords)]
            if call is not own and any(_is_called_mask(node) for node in values):
                return True
    return False


def _is_called_mask(node: ast.expr) -> bool:
    name = (attribute_chain(node) or [""])[-1].lower()
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        name = str(node.slice.value).lower()
    return "pad" in name or "mask" in name
