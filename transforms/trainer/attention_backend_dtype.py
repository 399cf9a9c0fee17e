"""FlashAttention-2 is asked for with float32 weights, or on a GPU that cannot run it.

## What goes wrong

`RuntimeError: FlashAttention only support fp16 and bf16 data type` at the first forward pass, after the warning `Flash
Attention 2.0 only supports torch.float16 and torch.bfloat16 dtypes`. On a T4, V100 or RTX 20: `RuntimeError:
FlashAttention only supports Ampere GPUs or newer.`

## Why

The kernels of flash-attn 2 exist in 16 bits and from compute capability 8.0 on. transformers takes the dtype that
autocast computes in; without autocast it takes that of the weights. Before transformers 5, `from_pretrained` without a
dtype loads float32, whatever the checkpoint holds.

## Fix

`bfloat16` [safe]: the weights are loaded in bfloat16, which every GPU that runs FlashAttention-2 has natively. The
first choice where no dtype is given.
`sdpa` [safe]: PyTorch's own attention, which takes float32 and every GPU, and computes the same. The first choice where
float32 is asked for in so many words, and the only one where the profile's GPU is too old.

## Not flagged

16-bit and quantized weights; weights that are cast after the load; models that a trainer or autocast runs in 16 bits,
or that are not run in the file that loads them; a load without dtype where the pinned transformers may be 5 or newer;
a backend that is chosen at run time; tests. The GPU is only judged where a profile says which it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.model import Edit, Finding, Fix, Place, Rule
from ...codemod.profiles.profile import ProfiledDevice
from ...codemod.proof.needs import RAISES
from ...codemod.proof.proving import proved
from ...codemod.purpose.checked import checked_code
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.python.paths import guards
from ...codemod.releases.pins import allowed
from ...codemod.source.project import Project
from ...codemod.torch.api import LOADERS
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import FP32, FP64
from ...codemod.trainers.reading.loads import Load, is_of_transformers, load_at
from ...codemod.trainers.reading.precision import Compute
from ...codemod.trainers.reading.trained_loads import may_recast, names_in, trained_loads
from .load_dtype_fixes import to_bf16

FLASH = "flash_attention_2"
BACKEND_KEYS = ("attn_implementation", "_attn_implementation")
OLD_SWITCH = "use_flash_attention_2"
OLDEST = (8, 0)
"""The compute capability from which flash-attn 2 has kernels."""
ASKING = ("capability", "is_ampere", "compute_cap", "bf16", "bfloat16", "get_device_name", "flash", "attn")
"""Words of a test that has looked at the GPU, or switches the backend."""


def check(project: Project) -> Iterator[Finding]:
    device = _too_old(project)
    for module in checked_code(project, (FLASH, OLD_SWITCH), [f".{loader}(" for loader in LOADERS]):
        for name in LOADERS:
            for call in module.calls_by_name.get(name, []):
                load = load_at(project, module, call)
                asked = _asked(project, load) if load is not None else None
                if load is None or asked is None:
                    continue
                if device is not None:
                    yield from _on_device(project, load, asked, device)
                else:
                    yield from _in_float32(project, load, asked)


def _asked(project: Project, load: Load) -> ast.keyword | None:
    """The argument that certainly asks for FlashAttention-2."""
    for item in load.call.keywords:
        wanted = FLASH if item.arg in BACKEND_KEYS else True if item.arg == OLD_SWITCH else None
        if wanted is not None and constants_of(project, load.module, item.value) == {wanted}:
            return item
    return None


def _too_old(project: Project) -> ProfiledDevice | None:
    devices = project.profile.training_devices if project.profile is not None else ()
    return next((device for device in devices if device.backend == "cuda" and _capability(device) < OLDEST), None)


def _capability(device: ProfiledDevice) -> tuple[int, int]:
    major, _, minor = device.capability.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else OLDEST


def _on_device(project: Project, load: Load, asked: ast.keyword, device: ProfiledDevice) -> Iterator[Finding]:
    tests = (ast.unparse(guard.test).lower() for guard in guards(load.module, load.call))
    if any(word in test for test in tests for word in ASKING):
        return
    message = f"FlashAttention-2 has no kernels for {device.label}: the first forward pass raises"
    yield _finding(load.module, asked, message, (), (_sdpa(project, load, asked),))


def _in_float32(project: Project, load: Load, asked: ast.keyword) -> Iterator[Finding]:
    if load.quantized or is_cast_on_the_way(load.module, load.call):
        return
    given = bool(load.dtypes) and load.dtypes <= {FP32, FP64}
    if not given and not _is_float32_by_default(project, load):
        return
    use = first_float32_use(project, load)
    if use is None:
        return
    module = load.module
    how = "loaded in float32" if given else "loaded without a dtype, which is float32 before transformers 5,"
    message = f"the model is {how} and runs FlashAttention-2 without autocast: it only takes float16 and bfloat16"
    evidence = [use.module.place(use.node, use.message)]
    if given and load.node is not None:
        evidence.append(module.place(load.node, "the dtype of the weights"))
    yield _finding(module, asked, message, tuple(evidence), _fixes(project, load, asked, given))


def _is_float32_by_default(project: Project, load: Load) -> bool:
    """Whether nothing says a dtype, and every allowed transformers then loads float32."""
    none = load.node is not None and not (isinstance(load.node, ast.Constant) and load.node.value is None)
    if none or not is_of_transformers(project, load) or getattr(load.call.func, "attr", "") != "from_pretrained":
        return False
    versions = allowed(project, "transformers", load.module.document.path)
    return versions is not None and not versions.may_reach("5.0.0")


def _fixes(project: Project, load: Load, asked: ast.keyword, given: bool) -> tuple[Fix, ...]:
    sdpa = _sdpa(project, load, asked)
    edits = to_bf16(load)
    if not edits:
        return (sdpa,)
    message = "load the weights in bfloat16, which every GPU that runs FlashAttention-2 has"
    bf16 = proved(project, "bfloat16", message, edits, RAISES)
    return (sdpa, bf16) if given else (bf16, sdpa)


def _sdpa(project: Project, load: Load, asked: ast.keyword) -> Fix:
    document = load.module.document
    span = document.span(load.call)
    operations: list[Edit] = [load.module.set_argument(span, asked.arg or BACKEND_KEYS[0], '"sdpa"')]
    if asked.arg == OLD_SWITCH:
        operations = [
            load.module.remove_argument(span, OLD_SWITCH),
            load.module.set_argument(span, BACKEND_KEYS[0], '"sdpa"'),
        ]
    edits = tuple(operations)
    message = "use PyTorch's scaled_dot_product_attention, which computes the same in every dtype and on every GPU"
    return proved(project, "sdpa", message, edits, RAISES)


def _finding(
    module: ModuleNames, asked: ast.keyword, message: str, evidence: tuple[Place, ...], fixes: tuple[Fix, ...]
) -> Finding:
    return rule.at(module, asked.value, message, evidence, fixes)


LOWERING = (
    "autocast",
    "accelerator",
    "accelerate",
    "deepspeed",
    "fullyshardeddataparallel",
    "fully_shard",
    "set_default_dtype",
    "set_default_tensor_type",
    "trainer",
    "fabric",
    "precision",
)
"""Parts of names in files in which something may let a float32 model compute in 16 bits."""
LAUNCHED = ("accelerate", "fsdp", "deepspeed", "zero2", "zero3", "ds_config")
"""Parts of the names of files that set a trainer's precision from outside."""
RUNS = ("generate", "forward", "encode", "chat")
"""Methods that run the model."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelUse:
    """A place where the model runs, and what is to be seen there."""

    module: ModuleNames
    node: ast.AST
    message: str


def is_cast_on_the_way(module: ModuleNames, call: ast.Call) -> bool:
    """Whether the load's result is cast before it gets a name: ``from_pretrained(...).to(torch.bfloat16)``."""
    node: ast.AST = call
    parent = module.parents.get(node)
    while isinstance(parent, ast.Attribute):
        outer = module.parents.get(parent)
        if not isinstance(outer, ast.Call) or outer.func is not parent or _casts(outer, parent.attr):
            return True
        node, parent = outer, module.parents.get(outer)
    return False


def _casts(call: ast.Call, method: str) -> bool:
    if method == "to":
        given = [*call.args, *(item.value for item in call.keywords)]
        return not all(_is_device(node) for node in given) or any(item.arg != "device" for item in call.keywords)
    return method not in ("cuda", "eval", "train", "cpu")


def _is_device(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | int)
    return "device" in (attribute_chain(node) or [""])[-1].lower()


def first_float32_use(project: Project, load: Load) -> ModelUse | None:
    """Where the loaded model runs with nothing around that could lower its dtype; None when that is not certain."""
    runs = [run for run in trained_loads(project) if run.load.call is load.call]
    if runs:
        run = runs[0]
        plain = run.precision.compute is Compute.FP32 and not run.precision.partitioned and not run.recast
        outside = any(word in path.lower() for path in project.paths for word in LAUNCHED)
        return ModelUse(run.module, run.trainer, "the trainer computes in float32") if plain and not outside else None
    if load.module.mentions(*LOWERING):
        return None
    return _first_call(load.module, load.call)


def _first_call(module: ModuleNames, load: ast.Call) -> ModelUse | None:
    """The first call of the variable that holds the model; None where it is cast or recast anywhere in the file."""
    statement = module.statement_of(load)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    chain = attribute_chain(target) if target is not None else None
    if target is None or chain is None or len(chain) > 2:
        return None
    name = ast.unparse(target)
    mentions = list(_mentions(module, name))
    others = [other for node in mentions if (other := module.statement_of(node)) is not statement]
    if any(may_recast(other) or any("dtype" in name for name in names_in(other)) for other in others):
        return None
    for node in mentions:
        parent = module.parents.get(node)
        ran = isinstance(parent, ast.Call) and parent.func is node
        method = isinstance(parent, ast.Attribute) and parent.attr in RUNS
        if ran or method:
            return ModelUse(module, node, "the model runs here, outside autocast")
    return None


def _mentions(module: ModuleNames, name: str) -> Iterator[ast.expr]:
    last = name.rpartition(".")[2]
    found: list[ast.Attribute] | list[ast.Name]
    found = module.attribute_loads.get(last, []) if "." in name else module.name_loads.get(last, [])
    for node in sorted(found, key=lambda item: item.lineno):
        if ast.unparse(node) == name:
            yield node


rule = Rule.of("PF404", check, depends_on=("profile",))
