"""An epsilon is so small that float16 rounds it to zero.

## What goes wrong

`x / (y + 1e-8)`, `torch.log(p + 1e-8)`, `torch.sqrt(v + 1e-8)` and `p.clamp(min=1e-8)` protect nothing on a float16
tensor: where it is zero the result is inf, -inf or NaN, or the gradient of the root is. An Adam with its default
`eps=1e-8` over float16 parameters turns them into NaN (gradient 0) or inf (gradient 1e-5) in its first step; adapters
too, whose first matrix has gradient 0 then.

## Why

The smallest float16 above zero is 6e-8; what lies below half of it, 3e-8, becomes zero. Tensors that autocast computed
in float16 stay float16 through `+`, `/`, `sqrt` and `clamp`; only `exp`, `log`, `norm`, `sum`, `softmax` and their
like are raised to float32 there, too late for an epsilon that was added before. An optimizer computes in the dtype of
its parameters; only the fused kernels compute in float32 (measured with PyTorch 2.13).

Next to one the types are coarser still: float16 rounds `1 - 1e-4` to one, bfloat16 `1 - 1e-3`. Behind
`p.clamp(1e-7, 1 - 1e-7)`, `log(1 - p)`, `log1p(-p)` and `logit(p)` are infinite where the sigmoid was one, and so is
the gradient of `acos(p)`.

## Fix

`larger-eps` [unsafe]: `eps=1e-4` for the optimizer: no NaN, and smaller steps where gradients are small. Float32
parameters under autocast are better, and a change to the training that its owner must choose. For tensors there is no
fix: computing that expression in float32 (`x.float()`) or a larger epsilon is a choice of numbers.

## Not flagged

Tensors whose dtype is not certain; results of `softmax`, `norm`, `exp` and the other operations that autocast computes
in float32, unless the code casts what they take and a call of the function is seen outside of autocast; casts to
float32 before; disabled autocast; bfloat16, which reaches down to 1e-38 (but not to `1 - 1e-7`); a
angle or root of which no gradient is taken (`acos(p).detach()`), and what settings leave off in each stated run; a
fused optimizer, one that is wrapped by DeepSpeed, apex or another library, and one of 8-bit states.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from ...codemod.half.half_here import Half, half_here
from ...codemod.half.half_outside import half_outside
from ...codemod.half.half_weights import weights_of_optimizer
from ...codemod.half.handed_half import half_as_given
from ...codemod.model import Finding, Fix, Rule
from ...codemod.purpose.given import is_switched_off
from ...codemod.purpose.proved_reach import is_reached
from ...codemod.python.arguments import argument
from ...codemod.python.names import ModuleNames, attribute_chain, checked_modules, last_name
from ...codemod.python.numbers import number_of
from ...codemod.python.paths import position
from ...codemod.python.scopes import is_off
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import BF16, FP16

UNDERFLOW = 2.0**-25
"""Up to here float16 rounds to zero: half of its smallest subnormal number."""
SMALL = ("e-08", "e-09", *(f"e-{exponent}" for exponent in range(8, 46)))
"""How such a number ends; a file without any is not parsed."""
OPTIMIZERS = {**dict.fromkeys(("Adam", "AdamW", "NAdam", "Adamax", "RMSprop"), 1e-8), "Adagrad": 1e-10}
"""The optimizers of torch.optim that divide by a root plus epsilon, and their default."""
WRAPPERS = ("FP16", "initialize", "Fp16", "prepare", "OSS", "ZeroRedundancy", "setup", "Mixed", "step", "unscale_")
ROUNDS_TO_ONE = {FP16: 2.0**-12, BF16: 2.0**-9}
"""How far below one a number may be and still become one (measured with PyTorch 2.13)."""
ONE_IN_FLOAT32 = 2.0**-25
"""What is nearer to one than this is one in float32 as well: then 16 bits are not what breaks."""
BREAKS_AT_ZERO = ("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal")
ENDS = {"logit": "logit", "atanh": "atanh", "arctanh": "atanh", "acos": "acos", "arccos": "acos", "asin": "asin"}
"""What breaks, or whose gradient does, where a number is one."""
ROOTS = ("sqrt", "acos", "asin")
"""Of these only the gradient breaks."""


def check(project: Project) -> Iterator[Finding]:
    words = (".half(", "float16", "autocast", "fp16", "bf16")
    if project.observation is None and not any(True for _ in project.python_documents(words)):
        return
    for module in checked_modules(project, (), ("torch",), SMALL):
        yield from _near_zero(project, module)
    for module in checked_modules(project, ("clamp", "clip"), ("torch",), ("e-", "0.999")):
        yield from _near_one(project, module)
    for module in checked_modules(project, (".half(", "float16"), ("optim",)):
        yield from _optimizers(project, module)


def _near_zero(project: Project, module: ModuleNames) -> Iterator[Finding]:
    """Epsilons, added or as the lower bound of a clamp, that are zero."""
    nodes: list[ast.BinOp | ast.Call] = [*module.of_type(ast.BinOp), *module.calls]
    for node in sorted(nodes, key=position):
        use = _broken_by_zero(module, node)
        guarded = _guarded(project, module, node) if use else None
        half = _half(project, module, guarded[0]) if guarded is not None else None
        if guarded is None or half is None or not half.reached or FP16 not in half.dtypes:
            continue
        if is_reached(project, module, node):
            said = f"{module.source(guarded[1])} is zero in float16: {use} is not protected {half.when('float16')}"
            yield rule.at(module, guarded[1], said.rstrip(), half.why)


def _half(project: Project, module: ModuleNames, node: ast.expr) -> Half | None:
    here = half_here(project, module, node) or half_as_given(project, module, node)
    return here or half_outside(project, module, node)


def _guarded(project: Project, module: ModuleNames, node: ast.BinOp | ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """(tensor, epsilon) of ``tensor + epsilon``, ``tensor.clamp(min=epsilon)``, ``torch.clamp(tensor, epsilon)``."""
    if isinstance(node, ast.Call):
        low = _clamp(module, node, "min", 1) if last_name(node.func) in ("clamp", "clamp_min", "clip") else None
        pairs = [low] if low is not None else []
    else:
        pairs = [(node.left, node.right), (node.right, node.left)] if isinstance(node.op, ast.Add) else []
    for tensor, epsilon in pairs:
        if isinstance(epsilon, ast.Constant | ast.Name | ast.Attribute):
            value = number_of(project, module, epsilon)
            if value is not None and 0 < value <= UNDERFLOW:
                return tensor, epsilon
    return None


def _clamp(module: ModuleNames, call: ast.Call, name: str, index: int) -> tuple[ast.expr, ast.expr] | None:
    """The tensor of a clamp, and the bound that is called so or stands at ``index``, the tensor counted as first."""
    if not isinstance(call.func, ast.Attribute):
        return None
    arguments = [call.func.value, *call.args] if module.qualified(call.func) is None else call.args
    bound = argument(call, name) or (arguments[index] if len(arguments) > index else None)
    return (arguments[0], bound) if arguments and bound is not None else None


def _near_one(project: Project, module: ModuleNames) -> Iterator[Finding]:
    """Upper bounds of clamps that a 16-bit type rounds to one: ``p.clamp(1e-7, 1 - 1e-7)`` before ``log(1 - p)``."""
    for name, index in (("clamp", 2), ("clip", 2), ("clamp_max", 1)):
        for call in module.calls_by_name.get(name, []):
            tensor, bound = _clamp(module, call, "max", index) or (None, None)
            value = number_of(project, module, bound) if bound is not None else None
            near = value is not None and ONE_IN_FLOAT32 < 1 - value <= max(ROUNDS_TO_ONE.values())
            uses = _broken_by_one(module, call) if near else ()
            use = next((use for use, node in uses if not is_switched_off(project, module, node)), None)
            half = _half(project, module, tensor) if use is not None and tensor is not None else None
            if half is None or not half.reached or value is None or bound is None:
                continue
            dtypes = sorted(item.name for item in half.dtypes if 1 - value <= ROUNDS_TO_ONE[item])
            if dtypes and is_reached(project, module, call):
                named = " and ".join(dtypes)
                said = f"{module.source(bound)} is one in {named}: {use} is not protected {half.when(named)}"
                yield rule.at(module, bound, said.rstrip(), half.why)


def _broken_by_zero(module: ModuleNames, node: ast.expr) -> str:
    """The division, logarithm or root that takes ``node`` directly; empty for anything else."""
    parent = module.parents[node]
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.right is node:
        return "the division"
    called = _called(module, node)
    return _told(module, node, called) if called in BREAKS_AT_ZERO else ""


def _broken_by_one(module: ModuleNames, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """What is computed with the result of a clamp, where, and breaks where that is one."""
    for node in (call, *_later(module, call)):
        parent = module.parents[node]
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
            if _called(module, parent) == "log1p":
                yield "log1p", node
        elif isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Sub) and parent.right is node:
            broken = _broken_by_zero(module, parent)
            if broken and isinstance(parent.left, ast.Constant) and parent.left.value == 1:
                yield broken, node
        elif (broken := _told(module, node, ENDS.get(_called(module, node), ""))) != "":
            yield broken, node


def _told(module: ModuleNames, node: ast.expr, name: str) -> str:
    """What breaks, of a function that takes ``node``: nothing where only a gradient would, and none is taken."""
    return name if name not in ROOTS else "" if _is_detached(module, node) else f"the gradient of {name}"


def _is_detached(module: ModuleNames, node: ast.expr) -> bool:
    """``torch.acos(p).mean().detach()``: what comes of it, in its statement or by a name, has no gradient."""
    outer = [*takewhile(lambda item: isinstance(item, ast.expr), module.ancestors(node))]
    if any(isinstance(item, ast.Attribute) and item.attr in ("detach", "item") for item in outer):
        return True
    named = [*_later(module, outer[-1])] if outer and isinstance(outer[-1], ast.Call) else []
    own = module.statement_of(node)  # ``p = acos(p)`` reads what it had before
    return bool(named) and all(own is not module.statement_of(item) and _is_detached(module, item) for item in named)


def _later(module: ModuleNames, call: ast.Call) -> Iterator[ast.expr]:
    """The reads of the name that is bound to the clamp and to nothing else."""
    statement = module.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is call else None
    if isinstance(target, ast.Name):
        for node in module.name_loads.get(target.id, ()):
            bindings = module.scope_of(node).lookup(target.id)
            before = [item for item in bindings if position(item.node) < position(node)]
            if before and max(before, key=lambda item: position(item.node)).value is call:
                yield node


def _called(module: ModuleNames, node: ast.expr) -> str:
    """The function that takes ``node`` first, or the method of it that is called."""
    parent = module.parents[node]
    call = module.parents[parent] if isinstance(parent, ast.Attribute) and parent.value is node else parent
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    return call.func.attr if call.func is parent or call.args[:1] == [node] else ""


def _optimizers(project: Project, module: ModuleNames) -> Iterator[Finding]:
    for name, default in OPTIMIZERS.items():
        for call in module.calls_by_name.get(name, []):
            if module.qualified(call.func) not in (f"torch.optim.{name}", f"torch.optim.{name.lower()}.{name}"):
                continue
            epsilon = _epsilon(project, module, call, default)
            small = epsilon is not None and epsilon <= UNDERFLOW
            half = weights_of_optimizer(project, module, call, FP16, adapters=True) if small else None
            if half is not None and not _is_wrapped(module, call) and is_reached(project, module, call):
                stepped = (
                    f"the adapters of {half.weights.name} are" if half.weights.adapted else half.weights.name + " is"
                )
                message = (
                    f"{stepped} float16, where eps={epsilon:g} is zero: the first step of {name} turns"
                    " parameters into NaN or inf; keep parameters in float32 and use autocast"
                )
                yield rule.at(module, call, message, half.weights.places, [_larger(module, call)])


def _epsilon(project: Project, module: ModuleNames, call: ast.Call, default: float) -> float | None:
    """The eps of the optimizer; None where it cannot be told, or the kernel is fused."""
    fused, given = argument(call, "fused"), argument(call, "eps")
    if not (fused is None or is_off(fused)) or len(call.args) > 2 or any(item.arg is None for item in call.keywords):
        return None
    return number_of(project, module, given) if given is not None else default


def _is_wrapped(module: ModuleNames, call: ast.Call) -> bool:
    """Whether the optimizer is handed to a library that keeps float32 copies of the parameters."""
    statement = module.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    chain = attribute_chain(target) if target is not None else None
    if chain is None or statement.value is not call:  # type: ignore[attr-defined]
        return True
    for other in module.calls:
        last = (attribute_chain(other.func) or [""])[-1]
        given = [*other.args, *(item.value for item in other.keywords)]
        if any(attribute_chain(item) == chain for item in given) and any(word in last for word in WRAPPERS):
            return True
    return False


def _larger(module: ModuleNames, call: ast.Call) -> Fix:
    edit = module.set_argument(call, "eps", "1e-4")
    message = "eps=1e-4 survives in float16: no NaN; steps shrink where gradients are below about 1e-4"
    return Fix.unsafe("larger-eps", message, edit)


rule = Rule.of("PF210", check)
