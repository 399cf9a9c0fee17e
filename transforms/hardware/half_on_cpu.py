"""float16 is used although the same code runs on a CPU.

## What goes wrong

Without a GPU the script dies in its first layer: `RuntimeError: "addmm_impl_cpu_" not implemented for 'Half'`,
`"LayerNormKernelImpl" not implemented for 'Half'`, `"slow_conv2d_cpu" not implemented for 'Half'`. Newer releases of
PyTorch have most of these kernels and run, up to a hundred times slower than in float32.

## Why

The code chooses the CPU where there is no GPU (`"cuda" if torch.cuda.is_available() else "cpu"`) and float16 in any
case. Few CPUs compute in float16 (AMX-FP16, some ARM cores); the others convert for every operation.

## Fix

`guard` [unsafe]: a dtype written down where a pipeline or model is loaded or moved becomes
`torch.float16 if torch.cuda.is_available() else torch.float32`. Nothing changes on a GPU; on a CPU it needs twice the
memory and computes in float32. `.half()` and autocast regions are reported.

## Off by default

`extend-select = ["PF603"]` switches it on. Of five findings in two public projects, read by people who had not written
the rule, none was wrong and none was certain to matter: the code does fall back to a CPU, and hardly anybody runs it
there.

## Not flagged

Code that chooses the dtype by device, or undoes it for the CPU; code that refuses to run without a GPU; a literal
`"cpu"` (converters make checkpoints smaller that way); tensors; tests; a profile whose devices have native float16.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Fix, Rule
from ...codemod.profiles.profile import Support
from ...codemod.purpose.files import is_test
from ...codemod.python.names import ModuleNames, attribute_chain, names_of
from ...codemod.source.project import Project
from ...codemod.torch.api import LOAD_KEYS, LOADERS
from ...codemod.torch.autocast import autocasts
from ...codemod.torch.dtypes import FP16, TORCH_DTYPES

MODEL_WORDS = ("model", "net", "unet", "vae", "encoder", "decoder", "pipe", "pipeline", "transformer")
DEVICE_WORDS = ("is_available", "cpu", "cuda", "device")
PRECISION_WORDS = ("half", "float", "fp16", "fp32", "float16", "float32", "bf16", "bfloat16", "dtype", "precision")


def check(project: Project) -> Iterator[Finding]:
    if project.profile is not None and project.profile.support("fp16") is Support.NATIVE:
        return
    for document in project.checked_documents(("is_available",), ("float16", "half")):
        if is_test(document.path):
            continue
        module = names_of(project, document)
        devices = _cpu_or_cuda(module)
        if devices and not _is_handled(module):
            yield from _weights(module, devices)
            yield from _regions(project, module, devices)


def _cpu_or_cuda(module: ModuleNames) -> dict[str, ast.expr]:
    """Module-wide names that are ``"cuda" if torch.cuda.is_available() else "cpu"`` and nothing else."""
    found: dict[str, list[ast.expr | None]] = {}
    for scope in module.scopes.values():
        for name, bindings in scope.bindings.items():
            found.setdefault(name, []).extend(binding.value for binding in bindings)
    return {
        name: values[0]
        for name, values in found.items()
        if len(values) == 1 and values[0] is not None and _falls_back(module, values[0])
    }


def _falls_back(module: ModuleNames, value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and module.qualified(value.func) == "torch.device" and len(value.args) == 1:
        value = value.args[0]
    if not isinstance(value, ast.IfExp) or not isinstance(value.test, ast.Call):
        return False
    asks = module.qualified(value.test.func) == "torch.cuda.is_available"
    return asks and _device(module, value.body) == "cuda" and _device(module, value.orelse) == "cpu"


def _device(module: ModuleNames, node: ast.expr) -> str:
    if isinstance(node, ast.Call) and module.qualified(node.func) == "torch.device" and node.args:
        node = node.args[0]
    return node.value.partition(":")[0] if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_handled(module: ModuleNames) -> bool:
    """Whether some condition on the device decides about precision, or whether to run at all."""
    for node in module.nodes:
        if isinstance(node, ast.IfExp) and _is_dtype_argument(module, node):
            continue  # it decides for this one load or move
        if isinstance(node, ast.If | ast.IfExp) and _asks_device(node.test) and _decides(node):
            return True
        if isinstance(node, ast.Assert) and _asks_device(node.test):
            return True
        if isinstance(node, ast.keyword) and node.arg == "enabled" and _asks_device(node.value):
            return True
    return False


def _is_dtype_argument(module: ModuleNames, node: ast.IfExp) -> bool:
    parent = module.parents[node]
    return isinstance(parent, ast.keyword) and parent.arg in LOAD_KEYS


def _asks_device(test: ast.expr) -> bool:
    text = ast.unparse(test).lower()
    return any(word in text for word in DEVICE_WORDS)


def _decides(node: ast.If | ast.IfExp) -> bool:
    inside = [*node.body, *node.orelse] if isinstance(node, ast.If) else [node.body, node.orelse]
    for part in inside:
        for item in ast.walk(part):
            if isinstance(item, ast.Raise | ast.Return | ast.Assert):
                return True
            name = item.attr if isinstance(item, ast.Attribute) else item.id if isinstance(item, ast.Name) else ""
            if isinstance(item, ast.keyword | ast.arg):
                name = item.arg or ""
            if isinstance(item, ast.Constant) and isinstance(item.value, str) and len(item.value) < 20:
                name = item.value
            if name in ("exit", "quit", "_exit") or any(word in name.lower() for word in PRECISION_WORDS):
                return True
    return False


# --- weights ----------------------------------------------------------------------------------------------------------


def _weights(module: ModuleNames, devices: dict[str, ast.expr]) -> Iterator[Finding]:
    """Models that are certainly float16 and are moved to a device that may be the CPU."""
    for call in module.calls_by_name.get("to", []):
        names = [item.id for item in _arguments(call) if isinstance(item, ast.Name) and item.id in devices]
        device = devices[names[0]] if names else None
        if device is None or not isinstance(call.func, ast.Attribute):
            continue
        own = next((item for item in _arguments(call) if _is_half(module, item)), None)
        loaded = own if own is not None else _loaded_half(module, call.func.value)
        if own is not None and not _is_model(call.func.value):
            continue
        if loaded is not None:
            yield _finding(module, loaded, device, "the weights are float16", _guard(module, loaded))
        elif _is_halved(call):
            yield _finding(module, call, device, "the weights are float16")


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(item.value for item in call.keywords if item.arg in ("device", "dtype"))]


def _is_half(module: ModuleNames, node: ast.expr) -> bool:
    return TORCH_DTYPES.get(module.qualified(node) or "") == FP16


def _is_model(node: ast.expr) -> bool:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    name = (attribute_chain(node) or [""])[-1].lower()
    return any(part in MODEL_WORDS for part in name.split("_"))


def _is_halved(call: ast.Call) -> bool:
    """``model.half().to(device)``; ``.half()`` behind the move is found from the move as well."""
    inner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    halved = isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "half"
    return halved and isinstance(inner, ast.Call) and not inner.args and _is_model(inner)


def _loaded_half(module: ModuleNames, node: ast.expr) -> ast.expr | None:
    """The literal float16 of the ``from_pretrained`` that made ``node``, directly or through one variable."""
    if isinstance(node, ast.Name):
        bindings = module.scope_of(node).lookup(node.id)
        moved = [item.value for item in bindings if item.value is not None and not _moves(item.value, node.id)]
        if len(moved) != 1 or any(item.value is None for item in bindings):
            return None
        node = moved[0]
    if not isinstance(node, ast.Call) or (attribute_chain(node.func) or [""])[-1] not in LOADERS:
        return None
    if any(item.arg == "device_map" for item in node.keywords):
        return None
    return next((item.value for item in node.keywords if item.arg in LOAD_KEYS and _is_half(module, item.value)), None)


def _moves(value: ast.expr, name: str) -> bool:
    """``pipe = pipe.to(device)``."""
    return isinstance(value, ast.Call) and (attribute_chain(value.func) or [""])[0] == name


def _guard(module: ModuleNames, dtype: ast.expr) -> Fix | None:
    """Only where the source spells the dtype ``torch.float16``: then it has a name for torch as well."""
    if not isinstance(dtype, ast.Attribute) or module.qualified(dtype.value) != "torch":
        return None
    root, _document, span = ast.unparse(dtype.value), module.document, module.document.span(dtype)
    parts = (span, f" if {root}.cuda.is_available() else {root}.float32")
    return Fix.unsafe("guard", "float32 where there is no GPU; nothing changes on one", module.replace(span, *parts))


# --- autocast ---------------------------------------------------------------------------------------------------------


def _regions(project: Project, module: ModuleNames, devices: dict[str, ast.expr]) -> Iterator[Finding]:
    for item in autocasts(project):
        node = item.device_node
        if item.module is not module or node is None or item.dtype_node is None or item.enabled_node is not None:
            continue
        named = node.value if isinstance(node, ast.Attribute) and node.attr == "type" else node
        if isinstance(named, ast.Name) and named.id in devices and _is_half(module, item.dtype_node):
            yield _finding(module, item.dtype_node, devices[named.id], "autocast computes in float16")


def _finding(module: ModuleNames, node: ast.expr, device: ast.expr, said: str, fix: Fix | None = None) -> Finding:
    return rule.at(
        module,
        node,
        f"{said} although the code also runs on a CPU, where float16 fails or is very slow",
        (module.place(device, "the CPU is chosen where there is no GPU"),),
        [fix],
    )


rule = Rule.of("PF603", check, depends_on=("profile",))
