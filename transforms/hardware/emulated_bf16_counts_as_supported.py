"""`torch.cuda.is_bf16_supported()` chooses bfloat16 on GPUs that only emulate it.

## What goes wrong

On a T4, V100, P100 or RTX 20 the project's own test says yes and it trains in bfloat16: no error, but several times
slower than float16, often slower than float32, and some operations (cuDNN convolutions among them) have no bfloat16
kernel there at all.

## Why

Since PyTorch 2.3 the answer is True wherever a bfloat16 tensor can be created, which is everywhere (pytorch#115924).
Tensor cores for bfloat16 exist from compute capability 8.0 on. `including_emulation=False`, new in PyTorch 2.4
(pytorch#129288), asks for those; the default is `True`, also in 2.13.

## Fix

`native` [unsafe]: the call becomes `torch.cuda.is_bf16_supported(including_emulation=False)`. From capability 8.0 on,
and on ROCm, the answer stays what it was. On older GPUs the project's other branch is taken from now on, so numerics
and speed change there: make sure that it scales its loss. Where the project's requirements allow a PyTorch before 2.4,
which does not know the argument, or the source provides for such releases, the finding has no fix.

## Not flagged

Calls that pass an argument; places that look at the compute capability themselves; a refusal to run (`raise`,
`assert`); answers that are only printed; tests; requirements that end before PyTorch 2.3. Without a profile of the
machine, or with one that has native bfloat16, nothing is said: on most GPUs of today the answer is right.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Fix, Rule
from ...codemod.profiles.profile import Support
from ...codemod.purpose.checked import checked_code
from ...codemod.python.keywords import key_of
from ...codemod.python.names import ModuleNames, last_name, resolve
from ...codemod.python.paths import function_of
from ...codemod.python.precision_words import CHOOSING
from ...codemod.releases.gates import is_gate, is_gated
from ...codemod.releases.pins import allowed
from ...codemod.source.project import Project

ASKS = "torch.cuda.is_bf16_supported"
COUNTS_EMULATION, HAS_ARGUMENT = "2.3", "2.4"
"""The releases of PyTorch from which on the answer includes emulation, and the argument exists."""


def check(project: Project) -> Iterator[Finding]:
    if project.profile is None or project.profile.support("bf16") in (Support.NATIVE, Support.UNKNOWN):
        return
    for module in checked_code(project, ("is_bf16_supported",)):
        for call in module.calls:
            if _asks(project, module, call) and _chooses(module, call) and not _looks_at_capability(module, call):
                yield from _finding(project, module, call)


def _asks(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    named = not call.args and not call.keywords and (module.qualified(call.func) or "").endswith("is_bf16_supported")
    return named and not module.is_ambiguous(call.func) and resolve(project, module, call.func) == ASKS


def _chooses(module: ModuleNames, call: ast.Call) -> bool:
    """Whether the answer decides about a precision: tested, kept or returned; not printed, and no refusal to run."""
    child: ast.AST = call
    for parent in module.ancestors(call):
        if isinstance(parent, ast.If):
            return child is parent.test and not _refuses(parent) and _speaks(module, parent)
        if isinstance(parent, ast.IfExp) and child is parent.test:
            return _speaks(module, module.statement_of(parent))
        if isinstance(parent, ast.keyword):
            return any(word in (parent.arg or "").lower() for word in CHOOSING)
        if isinstance(parent, ast.Dict):
            return key_of(parent, child) in ("bf16", "bfloat16")
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.Return | ast.NamedExpr):
            return _speaks(module, module.statement_of(parent))
        if not isinstance(parent, ast.BoolOp | ast.UnaryOp | ast.IfExp):
            return False
        child = parent
    return False


def _refuses(statement: ast.If) -> bool:
    return any(isinstance(item, ast.Raise | ast.Assert) for item in (*statement.body, *statement.orelse))


def _speaks(module: ModuleNames, statement: ast.stmt) -> bool:
    """Whether precision is what the statement, or the function it answers for, is about."""
    owner = getattr(function_of(module, statement), "name", "")
    text = f"{owner} {ast.unparse(statement)}".replace("is_bf16_supported", "").lower()
    return any(word in text for word in CHOOSING)


def _looks_at_capability(module: ModuleNames, call: ast.Call) -> bool:
    function = function_of(module, call)
    names = (last_name(node) for node in ast.walk(function))
    return any("capability" in name.lower() or name == "major" for name in names)


def _finding(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Finding]:
    pins = allowed(project, "torch", near=module.path)
    if pins is not None and not pins.may_reach(COUNTS_EMULATION):
        return
    old = pins.pin_below(HAS_ARGUMENT) if pins is not None else None
    evidence = [old.place.saying("allows a PyTorch without this argument")] if old else []
    provides = pins is None and _provides_for_old(module, call)
    fixes = [] if old is not None or provides else [_fix(module, call)]
    message = f"the answer is True on GPUs that only emulate bfloat16{_machine(project)}"
    yield rule.at(module, call, message, evidence, fixes)


def _provides_for_old(module: ModuleNames, call: ast.Call) -> bool:
    """``hasattr(torch.cuda, "is_bf16_supported") and torch.cuda.is_bf16_supported()`` and its like."""
    if is_gated(module, call):
        return True
    parents = (parent for parent in module.ancestors(call) if isinstance(parent, ast.BoolOp))
    return any(is_gate(module, parent) for parent in parents)


def _machine(project: Project) -> str:
    device = project.profile.weakest("bf16") if project.profile is not None else None
    if device is not None and device.support("bf16") is Support.EMULATED and device.backend == "cuda":
        return f", and {device.label} is one"
    return " (T4, V100, RTX 20)"


def _fix(module: ModuleNames, call: ast.Call) -> Fix:
    return Fix.unsafe(
        "native",
        "ask for native bfloat16; GPUs older than compute capability 8.0 take the project's other branch",
        module.set_argument(call, "including_emulation", "False"),
    )


rule = Rule.of("PF602", check, depends_on=("profile",))
