"""Which names speak of precision, and which expressions state one: a dtype, a word for one, a choice between such."""

from __future__ import annotations

import ast

from ...purpose.files import words_of
from ...python.names import ModuleNames, attribute_chain
from ...python.precision_words import SWITCHING
from ...torch.api import QUANTIZING
from ...torch.dtypes import DTYPE_WORDS, TENSOR_TYPES, TORCH_DTYPES, Dtype, as_dtype

NAMING = frozenset({"dtype", "dtypes", "precision"})
"""Words of names whose value names a dtype."""
BESIDE_HALF = frozenset({"use", "is", "no", "with", "to", "in", "as", "run", "do", "enable", "cast", "model", "train"})
"""Words beside which ``half`` is a dtype: ``use_half``, ``model_half``; in ``limit_left_half`` it is a part."""
TURNING = frozenset({"rotate", "swap", "split", "flip"})
"""Words beside which ``half`` is a part of a tensor: ``rotate_half`` of rotary embeddings keeps the dtype."""
ABLE = frozenset({"has", "supports", "support", "supported", "available", "capable", "can"})
"""Words of names that tell what a device or a library can do, not what is asked of it."""
OTHER_WORDS = frozenset({"no", "O0", "O1", "O2", "O3"})
"""Strings that state a precision beside those that name a dtype: accelerate's "no", levels of apex."""
ARRAYS = ("numpy.", "cupy.", "pandas.")
"""Packages whose dtypes are those of data."""
FULL_NAMES = frozenset({"float32", "float64", "float", "double"})
SHOWN = 60


def speaks(name: str) -> bool:
    """Whether a name is about precision: ``torch_dtype``, ``use_fp16``, ``mixed_precision``; ``sample`` is not."""
    return quantizes(name) or not NAMING.union(SWITCHING).isdisjoint(_words(name))


def quantizes(name: str) -> bool:
    """Whether a name (``--load-in-4bit``, ``from_pretrained(load_in_4bit=)``) is that of what quantizes weights."""
    return name.rpartition("(")[2].removesuffix("=)").lstrip("-").replace("-", "_") in QUANTIZING


def role_of(name: str, role: str) -> str:
    """The role of what stands under a name: what quantizes weights does not say what a run computes in."""
    return "quantization" if quantizes(name) else role


def is_switch(name: str) -> bool:
    """Whether a name is that of something to turn on and off."""
    words = _words(name)
    if quantizes(name) or may_be_word(name):
        return True
    return any(word in words for word in SWITCHING) and NAMING.isdisjoint(words) and ABLE.isdisjoint(words)


def may_be_word(name: str) -> bool:
    """Whether what stands under a name is on or off, or a word: ``mixed_precision: true``, or ``bf16``."""
    return _words(name) >= {"mixed", "precision"}


def _words(name: str) -> frozenset[str]:
    """The words of a name, without a ``half`` that is a part of something."""
    words = frozenset(words_of(name))
    others = words - {"half"}
    return words if others <= BESIDE_HALF or others & NAMING.union(SWITCHING) else others


def text_of(node: ast.expr | None) -> str:
    """An expression as the ledger shows it."""
    if node is None:
        return ""
    return shortened(ast.unparse(node))


def shortened(text: str) -> str:
    """As much of a text as the ledger shows."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def named_attribute(node: ast.expr) -> ast.Constant | None:
    """The string of ``getattr(torch, "bfloat16")``."""
    if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "getattr" or len(node.args) != 2:
        return None
    owner, name = node.args
    if isinstance(name, ast.Constant) and isinstance(name.value, str) and getattr(owner, "id", "") == "torch":
        return name
    return None


def dtype_of(module: ModuleNames, node: ast.expr) -> str | None:
    """The name of the dtype that an attribute is: ``torch.half``, ``DType.float16``, ``torch.cuda.HalfTensor``, also
    as the string of the last one; None for others."""
    if isinstance(node, ast.Constant):
        typed = TENSOR_TYPES.get(node.value) if isinstance(node.value, str) else None
        return typed.name if typed is not None else None
    spelled = named_attribute(node)
    if spelled is not None:
        named = TORCH_DTYPES.get(f"torch.{spelled.value!s}")
        return named.name if named is not None else None
    qualified = module.qualified(node) or ""
    known = TORCH_DTYPES.get(qualified) or TENSOR_TYPES.get(qualified)
    if known is not None:
        return known.name
    chain = attribute_chain(node) if isinstance(node, ast.Attribute) else None
    is_owned = chain is not None and (chain[0][:1].isupper() or "." in qualified) and not qualified.startswith(ARRAYS)
    named = DTYPE_WORDS.get(chain[-1]) if chain is not None and is_owned and chain[-1] != "full" else None
    return named.name if named is not None else None


def is_precision_word(text: str) -> bool:
    return isinstance(as_dtype(text), Dtype) or text in OTHER_WORDS


def stated_by(module: ModuleNames, node: ast.expr, *, switch: bool = False) -> str | None:
    """What an expression says of precision, as the ledger shows it; None where it says nothing that is written out."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str) and len(node.value) <= SHOWN and is_precision_word(node.value):
            return node.value
        return str(node.value).lower() if switch and isinstance(node.value, bool) else dtype_of(module, node)
    if isinstance(node, ast.IfExp | ast.BoolOp):
        branches = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
        return text_of(node) if any(stated_by(module, branch) is not None for branch in branches) else None
    return dtype_of(module, node)


def says_half(module: ModuleNames, node: ast.expr, *, switch: bool = False) -> bool:
    """Whether an expression states anything but float32 and wider: a 16-bit dtype, a choice with one, a switch."""
    if isinstance(node, ast.IfExp | ast.BoolOp):
        branches = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
        return any(says_half(module, branch, switch=switch) for branch in branches)
    value = stated_by(module, node, switch=switch)
    named = as_dtype(value)
    return value is not None and (named.name if isinstance(named, Dtype) else named) not in FULL_NAMES


def writes_dtype(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a dtype stands in an expression as an attribute."""
    parts = (item for item in ast.walk(node) if isinstance(item, ast.Attribute | ast.Call | ast.Constant))
    return any(dtype_of(module, item) is not None for item in parts)
