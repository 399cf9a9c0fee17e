"""What an expression can hold, for the look at a function before it is interpreted."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ..python.names import root_name
from ..source.slim_nodes import of_both
from ..torch.api import LOADERS
from ..torch.tables.libraries import SCHEDULER_METHODS
from ..torch.tables.operations import operation
from .attributes import NUMBER_ATTRIBUTES, is_float32_table
from .calls import CONVERTERS, GROWING, PLAIN_BUILTINS
from .frame import place_of
from .outlook_state import BATCH, DTYPE, MODULE, WIDE, Outlook

DTYPE_WORDS = {"float32", "float16", "bfloat16", "half", "float"}
"""Names of dtypes that can be odd ones; float64 is asked for on purpose, wherever it is met."""
OTHER_DTYPES = {"double", "float64", "long", "int64", "int32", "int", "int16", "int8", "uint8", "bool", "short"}
CASTS = {"float": WIDE, "half": WIDE, "bfloat16": WIDE}
PLAIN_RESULTS = {"bool", "int64", "array", "scalar", "none", "factory:int64"}
FACTORIES = {"factory", "arguments", "data", "numpy"}
OWNERS = ("self", "cls")
TORCH = ("torch", "F", "nn", "th")
TENSORS = ("Tensor", "FloatTensor")
ARRAYS = ("np", "numpy")
JOINS = ("cat", "concat", "concatenate", "stack", "hstack", "vstack")
HANDED_BACK = (*CONVERTERS, "unwrap_model", "compile", "DistributedDataParallel", "DataParallel", "deepcopy")
DATA_WORDS = ("loader", "dataset")
HARMLESS = {"print", "info", "warning", "warn", "debug", "error", "list", "tuple", "dict", "zip", "enumerate", "sorted",
            "reversed", "iter", "next", "set", "getattr", "setattr", "super", "min", "max", "sum", "abs",
            "register_buffer", "tqdm", "items", "keys", "values", "get", "type"}  # fmt: skip


def value_of(seen: Outlook, node: ast.expr) -> int:
    """What a node can hold; that something wide meets what does not promote is noted on the way."""
    handler = _HANDLERS.get(type(node))
    return handler(seen, node) if handler is not None else _parts(seen, node)


def _nothing(seen: Outlook, node: ast.expr) -> int:
    return 0


def _parts(seen: Outlook, node: ast.expr) -> int:
    held = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            held |= value_of(seen, child)
    return held


def _plain(seen: Outlook, node: ast.expr) -> int:
    _parts(seen, node)
    return 0


def _constant(seen: Outlook, node: ast.expr) -> int:
    assert isinstance(node, ast.Constant)
    return DTYPE if isinstance(node.value, str) and node.value.rpartition(".")[2] in DTYPE_WORDS else 0


def _name(seen: Outlook, node: ast.expr) -> int:
    assert isinstance(node, ast.Name)
    known = seen.names.get(node.id)
    if known is not None:
        return known
    return DTYPE if node.id in DTYPE_WORDS and node.id not in seen.own else 0


def _attribute(seen: Outlook, node: ast.expr) -> int:
    assert isinstance(node, ast.Attribute)
    name = node.attr
    if name in DTYPE_WORDS and isinstance(node.value, ast.Name):
        return DTYPE
    place = place_of(node)
    known = seen.names.get(place) if place is not None else None
    if known is not None:
        return known
    held = value_of(seen, node.value)
    if name in NUMBER_ATTRIBUTES:
        return 0
    if name == "dtype":
        return DTYPE if held & (WIDE | DTYPE) else 0
    return held | (WIDE if name in seen.sources.attributes or is_float32_table(node) else 0)


def _subscript(seen: Outlook, node: ast.expr) -> int:
    assert isinstance(node, ast.Subscript)
    place = place_of(node)
    known = seen.names.get(place) if place is not None else None
    if known is not None:
        return known
    held = value_of(seen, node.value)
    value_of(seen, node.slice)
    return held | WIDE if held & BATCH and isinstance(node.slice, ast.Constant) else held


def _binary(seen: Outlook, node: ast.expr) -> int:
    assert isinstance(node, ast.BinOp)
    held = value_of(seen, node.left) | value_of(seen, node.right)
    if isinstance(node.op, ast.MatMult) and held & WIDE:
        seen.meets = True
    return held


def _unary(seen: Outlook, node: ast.expr) -> int:
    assert isinstance(node, ast.UnaryOp)
    held = value_of(seen, node.operand)
    return 0 if isinstance(node.op, ast.Not) else held


def _conditional(seen: Outlook, node: ast.expr) -> int:
    assert isinstance(node, ast.IfExp)
    value_of(seen, node.test)
    return value_of(seen, node.body) | value_of(seen, node.orelse)


def _named(seen: Outlook, node: ast.expr) -> int:
    assert isinstance(node, ast.NamedExpr)
    held = value_of(seen, node.value)
    seen.names[node.target.id] = held
    return held


def _comprehension(seen: Outlook, node: ast.expr) -> int:
    assert isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp)
    saved = dict(seen.names)
    for generator in node.generators:
        bind(seen, generator.target, element_of(seen, generator.iter))
        for test in generator.ifs:
            value_of(seen, test)
    held = value_of(seen, node.elt)
    seen.names = saved
    return held


# --- names ------------------------------------------------------------------------------------------------------------


def bind(seen: Outlook, target: ast.expr, held: int) -> None:
    """Give a target what it holds from here on; what is written into something else is added to it."""
    if isinstance(target, ast.Name):
        seen.names[target.id] = held
        seen.bound.add(target.id)
    elif isinstance(target, ast.Tuple | ast.List):
        for item in target.elts:
            bind(seen, item, held)
    elif isinstance(target, ast.Starred):
        bind(seen, target.value, held)
    elif isinstance(target, ast.Attribute):
        place = place_of(target)
        seen.keeps |= bool(held & WIDE)
        if place is not None:
            seen.names[place] = held
    elif isinstance(target, ast.Subscript):
        _write(seen, target, held)


def _write(seen: Outlook, target: ast.Subscript, held: int) -> None:
    before = value_of(seen, target.value)
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    if (before | held) & WIDE and any(not isinstance(part, ast.Slice | ast.Constant) for part in parts):
        seen.meets = True
    add(seen, target.value, held)


def add(seen: Outlook, node: ast.expr, held: int) -> None:
    """What a container holds grows."""
    place = place_of(node)
    if place is not None and held:
        seen.names[place] = seen.names.get(place, 0) | held
        seen.keeps |= bool(held & WIDE) and place.startswith("self.")


def element_of(seen: Outlook, iterated: ast.expr) -> int:
    """What one round of a loop brings: of a data loader, a batch."""
    held = value_of(seen, iterated)
    words = [item.id if isinstance(item, ast.Name) else getattr(item, "attr", "") for item in ast.walk(iterated)]
    return held | (BATCH if any(word in name.lower() for name in words for word in DATA_WORDS) else 0)


# --- calls ------------------------------------------------------------------------------------------------------------


def _call(seen: Outlook, node: ast.expr) -> int:
    assert isinstance(node, ast.Call)
    func = node.func
    if isinstance(func, ast.Attribute):
        name, receiver = func.attr, value_of(seen, func.value)
    elif isinstance(func, ast.Name):
        name, receiver = func.id, seen.names.get(func.id, 0)
    else:
        name, receiver = "", value_of(seen, func)
    given = 0
    for item in node.args:
        given |= value_of(seen, item)
    for keyword in node.keywords:
        given |= value_of(seen, keyword.value)
    if isinstance(func, ast.Name) and name in PLAIN_BUILTINS:
        return 0
    if name in GROWING and isinstance(func, ast.Attribute):
        add(seen, func.value, given)
        return receiver if name == "pop" else 0
    held = _result(seen, node, name, receiver, given)
    return held | WIDE if name in seen.sources.givers and not seen.is_of_torch(node) else held


def _result(seen: Outlook, node: ast.Call, name: str, receiver: int, given: int) -> int:
    if root_name(node.func) in ARRAYS:
        return 0
    if name in ("to", "type"):
        return _moved(seen, node, receiver)
    if name in CASTS and isinstance(node.func, ast.Attribute) and not node.args:
        return CASTS[name]
    if name in SCHEDULER_METHODS or name in HANDED_BACK:
        return given
    if name in LOADERS:
        return WIDE | MODULE
    known = operation(name) if not _can_be_part(node, name, given) else None
    if known is not None:
        if known.result in FACTORIES:
            return _made(seen, node, known.result)
        raising = known.mix.startswith("raises") or name in JOINS
        if raising and (receiver | given) & WIDE:
            seen.meets = True
        if known.result in PLAIN_RESULTS or known.result.startswith("cast:"):
            return 0
        if any(item.arg == "dtype" for item in node.keywords):
            return WIDE if _asked_dtype(seen, node) else 0
        return (receiver | given) & ~DTYPE
    return _of_unknown(seen, node, name, receiver, given)


def _can_be_part(node: ast.Call, name: str, given: int) -> bool:
    """``self.outer(x)``, ``block.norm(x)``: a module by the name of an operation that takes no such argument."""
    if not given & WIDE or not isinstance(node.func, ast.Attribute):
        return False
    if isinstance(node.func.value, ast.Name) and node.func.value.id in OWNERS:
        return True
    known = operation(name)
    of_torch = root_name(node.func) in TORCH
    return known is not None and not of_torch and len(known.operands_in(method=True)) < 2


def _of_unknown(seen: Outlook, node: ast.Call, name: str, receiver: int, given: int) -> int:
    batched = receiver & BATCH and name in ("get", "pop", "to", "cuda")
    if batched:
        return BATCH | WIDE
    if name in HARMLESS and not _can_be_part(node, name, given):
        return receiver | given
    if name in TENSORS:
        return WIDE
    if name[:1].isupper():
        return (WIDE if given & DTYPE else 0) | (MODULE if seen.builds(node) else 0)
    if given & WIDE or receiver & MODULE:
        if not (seen.meets and seen.enters) and seen.applies(seen, node):
            seen.meets = seen.enters = True
        return WIDE
    return WIDE if given & DTYPE else receiver | given & BATCH


def _moved(seen: Outlook, node: ast.Call, receiver: int) -> int:
    """``x.to(...)``: what it was, unless a dtype is given: then that one, where it is an odd one."""
    asked = next((item.value for item in node.keywords if item.arg in ("dtype", "torch_dtype")), None)
    if asked is not None:
        return (WIDE if is_odd_dtype(seen, asked) else 0) | receiver & (BATCH | MODULE)
    for item in node.args:
        held = value_of(seen, item)
        if held & (WIDE | DTYPE):
            return WIDE | receiver & MODULE
        text = _last_name(item)
        if "dtype" in text or text in OTHER_DTYPES:
            return (WIDE if is_odd_dtype(seen, item) else 0) | receiver & (BATCH | MODULE)
    return receiver


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_odd_dtype(seen: Outlook, node: ast.expr) -> bool:
    """Whether a dtype can be another one than the model's: anything but ``x.dtype`` and a parameter of the function."""
    if value_of(seen, node) & (WIDE | DTYPE):
        return True
    if isinstance(node, ast.Name):
        return node.id not in seen.own and node.id not in OTHER_DTYPES
    if isinstance(node, ast.Attribute):
        return node.attr not in ("dtype", *OTHER_DTYPES)
    return not isinstance(node, ast.Constant)


def _asked_dtype(seen: Outlook, node: ast.Call) -> bool:
    return any(item.arg == "dtype" and is_odd_dtype(seen, item.value) for item in node.keywords)


def _made(seen: Outlook, node: ast.Call, rule: str) -> int:
    """What a factory makes: float32, unless a dtype is asked for or integers are given."""
    names = [item.arg for item in node.keywords]
    if "dtype" in names:
        return WIDE if _asked_dtype(seen, node) else 0
    if None in names:
        return 0
    return WIDE if rule == "factory" or _holds_floats(node.args) else 0


def _holds_floats(given: Sequence[ast.expr]) -> bool:
    for item in given:
        for child in ast.walk(item):
            if isinstance(child, ast.Constant) and isinstance(child.value, float):
                return True
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "float":
                return True
    return False


_HANDLERS: dict[type[ast.expr], Callable[[Outlook, ast.expr], int]] = of_both(
    {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.Compare: _plain,
        ast.JoinedStr: _plain,
        ast.IfExp: _conditional,
        ast.NamedExpr: _named,
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.DictComp: _nothing,
        ast.Lambda: _nothing,
        ast.Slice: _nothing,
        ast.Call: _call,
    }
)
