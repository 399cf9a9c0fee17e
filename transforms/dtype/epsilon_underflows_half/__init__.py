"""An epsilon is so small that float16 rounds it to zero.

## What goes wrong

`x / (y + 1e-8)`, `torch.log(p + 1e-8)`, `torch.sqrt(v + 1e-8)` and `p.clamp(min=1e-8)` protect nothing on a float16
tensor: where it is zero the result is inf, -inf or NaN, or the gradient of the root is. An Adam with its default
`eps=1e-8` over float16 parameters turns them into NaN (gradient 0) or inf (gradient 1e-5) in its first step.

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
in float32; casts to float32 before; disabled autocast; bfloat16, which reaches down to 1e-38 (but not to `1 - 1e-7`); a
fused optimizer, one that is wrapped by DeepSpeed, apex or another library, and one of 8-bit states.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.half_here import half_here
from ....codemod.half.stepped_weights import weights_of_optimizer
from ....codemod.model import Finding, Fix, Rule
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.names import ModuleNames, attribute_chain, checked_modules
from ....codemod.python.numbers import number_of
from ....codemod.python.paths import position
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP16
from .near_one import BREAKS_AT_ZERO, bounds_near_one

UNDERFLOW = 2.0**-25
"""Up to here float16 rounds to zero: half of its smallest subnormal number."""
SMALL = ("e-08", "e-09", *(f"e-{exponent}" for exponent in range(8, 46)))
"""How such a number ends; a file without any is not parsed."""
OPTIMIZERS = {
    "Adam": 1e-8,
    "AdamW": 1e-8,
    "NAdam": 1e-8,
    "Adamax": 1e-8,
    "RMSprop": 1e-8,
    "Adagrad": 1e-10,
}
"""The optimizers of torch.optim that divide by a root plus epsilon, and their default."""
WRAPPERS = ("FP16", "initialize", "Fp16", "prepare", "OSS", "ZeroRedundancy", "setup", "Mixed", "step", "unscale_")


def check(project: Project) -> Iterator[Finding]:
    words = (".half(", "float16", "autocast", "fp16", "bf16")
    if project.observation is None and not any(True for _ in project.python_documents(words)):
        return
    for module in checked_modules(project, ("e-",), ("torch",), SMALL):
        yield from _tensors(project, module)
    for module in checked_modules(project, ("clamp", "clip"), ("torch",), ("e-", "0.999")):
        yield from (rule.found(*draft) for draft in bounds_near_one(project, module))
    for module in checked_modules(project, (".half(", "float16"), ("optim",)):
        yield from _optimizers(project, module)


# --- tensors ----------------------------------------------------------------------------------------------------------


def _tensors(project: Project, module: ModuleNames) -> Iterator[Finding]:
    nodes: list[ast.BinOp | ast.Call] = [*module.of_type(ast.BinOp), *module.calls]
    for node in sorted(nodes, key=position):
        use = _use(module, node)
        guarded = _guarded(project, module, node) if use is not None else None
        if use is None or guarded is None:
            continue
        tensor, epsilon = guarded
        half = half_here(project, module, tensor)
        if half is not None and half.reached and FP16 in half.dtypes and is_reached(project, module, node):
            document = module.document
            text = document.source(document.span(epsilon))
            message = f"{text} is zero in float16: {use} is not protected {half.when('float16')}".rstrip()
            yield rule.at(module, epsilon, message, half.why)


def _guarded(project: Project, module: ModuleNames, node: ast.BinOp | ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """(tensor, epsilon) of ``tensor + epsilon``, ``tensor.clamp(min=epsilon)``, ``torch.clamp(tensor, epsilon)``."""
    if isinstance(node, ast.Call):
        pairs = _clamped(module, node)
    else:
        is_sum = isinstance(node.op, ast.Add)
        pairs = [(node.left, node.right), (node.right, node.left)] if is_sum else []
    for tensor, epsilon in pairs:
        if isinstance(epsilon, ast.Constant | ast.Name | ast.Attribute):
            value = number_of(project, module, epsilon)
            if value is not None and 0 < value <= UNDERFLOW:
                return tensor, epsilon
    return None


def _clamped(module: ModuleNames, call: ast.Call) -> list[tuple[ast.expr, ast.expr]]:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("clamp", "clamp_min", "clip"):
        return []
    function = module.qualified(call.func) is not None
    arguments = [call.func.value, *call.args] if not function else list(call.args)
    named = next((item.value for item in call.keywords if item.arg == "min"), None)
    low = named if named is not None else arguments[1] if len(arguments) > 1 else None
    return [(arguments[0], low)] if arguments and low is not None else []


def _use(module: ModuleNames, node: ast.expr) -> str | None:
    """What the epsilon should protect: the division, logarithm or root that takes ``node`` directly."""
    parent = module.parents[node]
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.right is node:
        return "the division"
    call = module.parents[parent] if isinstance(parent, ast.Attribute) else parent
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    takes = call.func is parent or (bool(call.args) and call.args[0] is node)
    if not takes or call.func.attr not in BREAKS_AT_ZERO:
        return None
    return f"the gradient of {call.func.attr}" if call.func.attr == "sqrt" else call.func.attr


# --- optimizers -------------------------------------------------------------------------------------------------------


def _optimizers(project: Project, module: ModuleNames) -> Iterator[Finding]:
    for name, default in OPTIMIZERS.items():
        for call in module.calls_by_name.get(name, []):
            if module.qualified(call.func) not in (f"torch.optim.{name}", f"torch.optim.{name.lower()}.{name}"):
                continue
            epsilon = _epsilon(project, module, call, default)
            small = epsilon is not None and epsilon <= UNDERFLOW
            half = weights_of_optimizer(project, module, call, FP16) if small else None
            if half is not None and not _is_wrapped(module, call) and is_reached(project, module, call):
                message = (
                    f"{half.weights.name} is float16, where eps={epsilon:g} is zero: the first step of {name} turns"
                    " parameters into NaN or inf; keep parameters in float32 and use autocast"
                )
                yield rule.at(module, call, message, half.weights.places, [_larger(module, call)])


def _epsilon(project: Project, module: ModuleNames, call: ast.Call, default: float) -> float | None:
    """The eps of the optimizer; None where it cannot be told, or the kernel is fused."""
    given = {item.arg: item.value for item in call.keywords}
    fused = given.get("fused")
    if None in given or len(call.args) > 2 or (fused is not None and not _is_off(fused)):
        return None
    return number_of(project, module, given["eps"]) if "eps" in given else default


def _is_off(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


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
