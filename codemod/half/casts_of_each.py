"""Casts of all parts of a model: a loop over its parameters, or a function that ``Module.apply`` runs on each."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..python.arguments import argument, receiver_of
from ..python.names import ModuleNames, attribute_chain
from ..torch.api import CASTS
from ..torch.weight_changes import moves_only, takes_over

ALL = ("parameters", "named_parameters", "modules", "named_modules")
OF_LORA = ("lora_", "lora_A", "lora_B", "lora")
"""Parts of the names of the parameters that a `LoraConfig` of peft (0.21.2) adds."""


def cast_of_each(module: ModuleNames, statement: ast.stmt, name: str) -> ast.Call | None:
    """The cast that ``for p in model.parameters(): p.data = p.data.half()`` or ``model.apply(f)`` does to all parts.

    Also to all that are trained: ``if p.requires_grad``, or the LoRA weights of peft by their names. And the one that a
    loop over several models does to each: ``for m in (unet, vae): m.to(dtype=torch.float16)``.
    """
    if isinstance(statement, ast.For) and isinstance(statement.iter, ast.Tuple | ast.List):
        return _of_listed(statement) if name in map(ast.unparse, statement.iter.elts) else None
    if isinstance(statement, ast.For):
        walk = statement.iter if isinstance(statement.iter, ast.Call) and not statement.iter.args else None
        if walk is None or not _is_of(walk, name, *ALL):
            return None
        return _only_cast(_of_trained(statement), of_tensors=not _is_of(walk, name, "modules", "named_modules"))
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not _is_of(call, name, "apply") or len(call.args) != 1:
        return None
    given = call.args[0]
    if isinstance(given, ast.Lambda):
        return given.body if isinstance(given.body, ast.Call) and _is_cast(given.body) else None
    bindings = module.bindings_of(given)
    function = bindings[0].node if len(bindings) == 1 else None
    if not isinstance(function, ast.FunctionDef):
        return None
    return _only_cast(function.body) or _cast_of_layers(module, function)


def _cast_of_layers(module: ModuleNames, function: ast.FunctionDef) -> ast.Call | None:
    """The cast of a function that gives each layer with matrices weights of another dtype, and does nothing else.

    ``if isinstance(m, nn.Linear): m.weight.data = m.weight.data.half()``.
    """
    *before, last = function.body
    test = last.test if isinstance(last, ast.If) and not last.orelse else None
    if (
        not isinstance(last, ast.If)
        or not isinstance(test, ast.Call)
        or len(test.args) != 2
        or len(function.args.args) != 1
    ):
        return None
    layer, kinds = test.args
    named = [module.qualified(item) for item in (kinds.elts if isinstance(kinds, ast.Tuple) else [kinds])]
    is_layer = ast.unparse(test.func) == "isinstance" and ast.unparse(layer) == function.args.args[0].arg
    plain = all(isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) for item in before)
    known = all(name and name.startswith(("torch.nn.Linear", "torch.nn.Conv")) for name in named)
    cast = _only_cast(last.body[:1], of_tensors=True) if is_layer and plain and known else None
    return (
        cast if cast is not None and ast.unparse(cast.func).startswith(f"{ast.unparse(layer)}.weight.data.") else None
    )


def applied_cast(module: ModuleNames, statement: ast.stmt, name: str) -> tuple[ast.Call, str] | None:
    """The cast of ``model.apply(f)`` and ``model.body.apply(f)``, and the part that it is done to."""
    owner = receiver_of(statement.value, "apply") if isinstance(statement, ast.Expr) else None
    part = owner.attr if isinstance(owner, ast.Attribute) and ast.unparse(owner.value) == name else ""
    cast = cast_of_each(module, statement, f"{name}.{part}".rstrip(".")) if owner is not None else None
    return (cast, part) if cast is not None else None


def part_cast(cast: ast.Call, name: str) -> str:
    """The attribute of a model that a call casts alone: ``model.head.to(torch.bfloat16)``; empty for none."""
    owner = receiver_of(cast, *CASTS)
    return owner.attr if isinstance(owner, ast.Attribute) and ast.unparse(owner.value) == name else ""


def _of_listed(loop: ast.For) -> ast.Call | None:
    """The one cast of the variable of a loop."""
    calls = [item.value for item in loop.body if isinstance(item, ast.Expr) and isinstance(item.value, ast.Call)]
    own = [call for call in calls if _is_of(call, ast.unparse(loop.target), *CASTS)]
    return own[0] if len(own) == 1 else None


def is_of_adapters(statement: ast.stmt) -> bool:
    """Whether a loop casts only what is named like the LoRA weights of peft."""
    tests = [item.test for item in getattr(statement, "body", ()) if isinstance(item, ast.If)]
    return any(_names_adapters(test) for test in tests)


def _of_trained(loop: ast.For) -> Sequence[ast.stmt]:
    """What the loop does to each weight that is trained; its body where it makes no difference between them."""
    only = loop.body[0] if len(loop.body) == 1 else None
    if not isinstance(only, ast.If) or only.orelse:
        return loop.body
    tests = only.test.values if isinstance(only.test, ast.BoolOp) and isinstance(only.test.op, ast.And) else [only.test]
    trained = all(_names_adapters(item) or _asks_gradients(item) for item in tests)
    return only.body if trained else ()


def _names_adapters(test: ast.expr) -> bool:
    """``"lora_" in name``."""
    word = test.left if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In) else None
    return isinstance(word, ast.Constant) and str(word.value).strip(".") in OF_LORA


def _asks_gradients(test: ast.expr) -> bool:
    return isinstance(test, ast.Attribute) and test.attr == "requires_grad"


def assigned_state(statement: ast.stmt, name: str) -> ast.expr | None:
    """The state whose tensors take the place of the weights: ``model.load_state_dict(state, assign=True)``."""
    for call in (item for item in ast.walk(statement) if isinstance(item, ast.Call) and item.args):
        if takes_over(call) and _is_of(call, name, "load_state_dict"):
            return call.args[0]
    return None


def cast_of_state(module: ModuleNames, state: ast.expr) -> ast.Call | None:
    """The one cast that its tensors get: ``state = {name: value.half() for name, value in state.items()}``."""
    bindings = module.bindings_of(state)
    made = [item.value for item in bindings if item.kind == "assign"] if bindings else [state]
    inside = [item.value for item in made if isinstance(item, ast.DictComp)]
    casts = [item for item in inside if isinstance(item, ast.Call) and _is_cast(item) and not moves_only(item)]
    if _may_lack_weights(module, state) and any(_keeps_some(item) for item in made):
        return None
    alike = all(isinstance(item, ast.Name) or (isinstance(item, ast.Call) and _is_cast(item)) for item in inside)
    return casts[0] if len(casts) == 1 and alike and len(made) == max(len(bindings), 1) else None


def _may_lack_weights(module: ModuleNames, state: ast.expr) -> bool:
    """``strict=False``: weights that the state does not hold stay as they are."""
    call = module.parents[state]
    strict = argument(call, "strict", position=1) if isinstance(call, ast.Call) else None
    return strict is not None and not (isinstance(strict, ast.Constant) and strict.value)


def _keeps_some(made: ast.expr | None) -> bool:
    """``if "head" in name``: one part alone is kept; ``not in`` leaves out what the model need not have."""
    tests = [test for loop in made.generators for test in loop.ifs] if isinstance(made, ast.DictComp) else []
    return not all(
        isinstance(test.ops[0], ast.NotIn)
        if isinstance(test, ast.Compare)
        else isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        for test in tests
    )


def _is_of(call: ast.Call, name: str, *methods: str) -> bool:
    owner = receiver_of(call, *methods)
    return owner is not None and ast.unparse(owner) == name


def _only_cast(body: Sequence[ast.stmt], *, of_tensors: bool = False) -> ast.Call | None:
    """The cast of a body that does nothing else: ``m.half()``, ``p.data = p.data.to(dtype)``.

    A tensor is not cast in place: ``p.half()`` and ``p = p.half()`` leave the weights as they are.
    """
    only = body[0] if len(body) == 1 else None
    value = only.value if isinstance(only, ast.Assign | ast.Expr) else None
    owner = receiver_of(value)
    if owner is None or not isinstance(value, ast.Call) or not _is_cast(value):
        return None
    target = ast.unparse(only.targets[0]) if isinstance(only, ast.Assign) else ""
    stored = target.endswith(".data") if of_tensors else True
    return value if stored and target in ("", ast.unparse(owner)) else None


def _is_cast(call: ast.Call) -> bool:
    return receiver_of(call, *CASTS) is not None and bool(attribute_chain(call.func))
