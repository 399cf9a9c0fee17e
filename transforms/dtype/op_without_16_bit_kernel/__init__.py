"""A 16-bit tensor goes into an operation that has no kernel for it.

## What goes wrong

`torch.fft.rfft2(x)`, `torch.linalg.svd(x)`, `torch.quantile(x, 0.9)` stop with `RuntimeError: Unsupported dtype
BFloat16`, `"linalg_svd_cpu" not implemented for 'Half'`, `quantile() input tensor must be either float or double dtype`
when `x` is what a layer computed under autocast, or was cast to 16 bits.

## Why

PyTorch has no 16-bit kernels for FFTs and `stft` (float16 on CUDA takes powers of two only), matrix decompositions,
`quantile`, `cdist`, complex numbers of bfloat16. Autocast casts some of them to float32 itself: `cdist` on CUDA, nearly
all on the CPU.

## Fix

`float32` [unsafe]: the operation is computed in float32, `op(x.float())`, and its result is cast back where it is one
tensor of the same kind. What worked before gives the same: a float32 tensor is not changed. None of the findings on
projects that nobody had used was right without doubt, so read the place first.

## Not flagged

Tensors that are cast to float32 before; tensors whose dtype is not known; operations that autocast of that device runs
in float32; what a profile of the machine saw working; places that ask for the dtype; float16 FFTs on CUDA whose size is
a power of two or not written down; `stft` with a float32 window, whose product is float32.
`interpolate` of bfloat16 only where the project is pinned to a PyTorch before 2.1, which lacks the kernel; types that
no given run chooses, or only without an option that the place needs besides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ....codemod.flow.classes import ProjectClass, is_torch_module
from ....codemod.flow.encounters import applications
from ....codemod.flow.frame import Application, Autocasting, place_of
from ....codemod.flow.lattice import Atom, Kind, MadeHow, Role, Value
from ....codemod.half.atom_places import atom_places, may_be_chosen, steps_can_run
from ....codemod.half.half_here import Half, half_here, is_told_apart, open_halves
from ....codemod.half.half_outside import half_outside
from ....codemod.half.handed_half import half_as_given
from ....codemod.model import Finding, Fix, Rule
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.proof.verdicts import Trusted
from ....codemod.purpose.entered import regions_around
from ....codemod.purpose.files import is_test
from ....codemod.purpose.proved_reach import can_run
from ....codemod.purpose.runs import runs_around
from ....codemod.python.arguments import argument
from ....codemod.python.callers import callers_of
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP16, HALVES, Dtype
from ....codemod.torch.imported import torch_at
from ....codemod.torch.tables.kernels import WITHOUT_KERNELS
from ....codemod.torch.tables.operations import operation
from ..clashes import name_of
from .kernel_gaps import INTERPOLATION, gaps, gaps_on, is_widened, odd_size, pins_of

_CAST_BACK = ("first", "first-float", "promote", "promote-float", "softmax-like")
MAX_STEPS = 2
"""How many callers up a plain function is looked for in a forward pass."""
_BEFORE_TRAINING = ("init", "reset", "load", "merge", "build", "export", "convert", "from_")
_OUTSIDE = ("loss", "losses", "criterion", "metric", "metrics", "eval", "optim", "optimizer", "visualize", "viz")
"""Words of files and classes whose code projects run outside of the region, or in float32, as often as not."""
INTERPOLATION_IN_FLOAT32_SINCE = "2.3"
"""The PyTorch from which on CUDA's autocast computes interpolations in float32."""
_RAISED = ("fp32", "set_opt_dtype")
"""Policies under which autocast casts a 16-bit operand to float32 itself."""


def check(project: Project) -> Iterator[Finding]:
    for item in applications(
        project, (*WITHOUT_KERNELS, *INTERPOLATION), lambda module, _: not is_test(module.document.path)
    ):
        if item.operation not in (*WITHOUT_KERNELS, *INTERPOLATION) or is_widened(project, item):
            continue
        operand = half_operand(project, item) if can_run(project, item.module, item.node) else None
        if operand is None:
            continue
        hit = operand.dtypes & _missing(project, item, operand)
        if hit and not (operand.origin is not WidthOrigin.CAST and is_told_apart(project, item.module, item.node)):
            yield _finding(project, item, operand, hit)


def _missing(project: Project, item: Application, operand: HalfOperand) -> frozenset[Dtype]:
    """What autocast made runs on the device of its region; anything else has to lack a kernel everywhere."""
    if operand.origin is WidthOrigin.AUTOCAST:
        return gaps_on(project, item, item.autocast.device)
    return gaps(project, item)


def _finding(project: Project, item: Application, operand: HalfOperand, hit: frozenset[Dtype]) -> Finding:
    name, called = name_of(operand.node), item.operation
    types = " or ".join(sorted(dtype.name for dtype in hit))
    when = {
        WidthOrigin.CAST: f"{name} is {types}",
        WidthOrigin.CHOSEN: f"{name} is {types} if {operand.symbol} is" if operand.symbol else f"{name} can be {types}",
        WidthOrigin.AUTOCAST: f"{name} is {types} under autocast",
    }[operand.origin]
    size = odd_size(project, item) if FP16 in hit else None
    lacks = f"no kernel for {size} values, which is no power of two" if size is not None else "no kernel"
    message = f"{when}, for which {called} has {lacks}: this raises"
    certain = next(iter(hit)) if operand.origin is WidthOrigin.CAST and len(operand.dtypes) == 1 else None
    fixes, evidence = _fixes(project, item, operand.node, certain), (*operand.half.why_of(hit), *pins_of(project, item))
    return rule.at(item.module, item.node, message, evidence, fixes)


def _fixes(project: Project, item: Application, operand: ast.expr, certain: Dtype | None = None) -> list[Fix]:
    if any(entry.arg == "out" for entry in item.node.keywords):
        return []  # the buffer has the 16-bit dtype
    result = _result_dtype(item, operand, certain)
    edits = [item.module.append(node, ".float()") for node in _tensors(item, operand)]
    edits += [item.module.append(item.node, f".to({result})")] if result else []
    back = " and cast the result back" if result else ""
    message = f"compute it in float32{back}; float32 tensors stay as they are"
    why = SameResult("there is no 16-bit kernel: these calls raise")
    return [proved(project, "float32", message, edits, why, Trusted("PF211"))]


def _result_dtype(item: Application, operand: ast.expr, certain: Dtype | None) -> str:
    """How to say the dtype that the result should have; empty where it is no tensor of the operand's kind."""
    known = operation(item.operation)
    if known is None or known.result not in _CAST_BACK:
        return ""
    if place_of(operand) is not None:
        return f"{ast.unparse(operand)}.dtype"
    torch = torch_at(item.module, item.node)
    return f"{torch}.{certain.name}" if certain is not None and torch is not None else ""


def _tensors(item: Application, operand: ast.expr) -> list[ast.expr]:
    """The operands that must agree: all that take part in the operation's mix."""
    known = operation(item.operation)
    if known is None or known.mix == "none" or item.receiver is not None:
        return [operand]
    taking = {entry.position for entry in known.operands}
    keywords = {entry.keyword for entry in known.operands}
    found = [node for index, node in enumerate(item.node.args) if index in taking]
    return found + [entry.value for entry in item.node.keywords if entry.arg in keywords]


class WidthOrigin(Enum):
    """What makes an operand 16-bit."""

    CAST = "cast"
    """A cast: it is for certain."""
    CHOSEN = "chosen"
    """A dtype that the project chooses at run time."""
    AUTOCAST = "autocast"
    """A region that is open around it."""


@dataclass(frozen=True, slots=True)
class HalfOperand:
    """An operand that is, or can be, 16-bit."""

    node: ast.expr
    half: Half
    origin: WidthOrigin
    symbol: str = ""
    """For a dtype that is chosen: what decides."""

    @property
    def dtypes(self) -> frozenset[Dtype]:
        return self.half.dtypes


def operand_of(item: Application) -> tuple[ast.expr, Value] | None:
    """The tensor that the operation is applied to."""
    if item.receiver is not None and isinstance(item.node.func, ast.Attribute):
        return item.node.func.value, item.receiver
    given = argument(item.node, "input", "A", position=0)
    return next(((node, value) for node, value in item.arguments if node is given), None)


def half_operand(project: Project, item: Application) -> HalfOperand | None:
    """Why the operand is 16-bit where the operation stands; None where nothing says so, or autocast casts it."""
    found = operand_of(item)
    if found is None:
        return None
    node, value = found
    known = _of_atoms(project, node, value)
    if known is None and _is_open(value):
        known = _under_autocast(project, item, node)
    return None if known is None or _is_raised_by_autocast(project, item) else known


def _is_raised_by_autocast(project: Project, item: Application) -> bool:
    """Whether autocast, where it may be on here, casts the operand to float32 itself."""
    known = operation(item.operation)
    if known is None or item.autocast.state is Autocasting.OFF:
        return False
    if known.autocast(_device(project, item)) not in _RAISED:
        return False
    if item.autocast.state is Autocasting.MAYBE and not runs_around(project, item.module, item.node):
        return False
    if item.operation in INTERPOLATION:
        pins = allowed(project, "torch", near=item.module.document.path)
        return pins is None or pins.may_reach(INTERPOLATION_IN_FLOAT32_SINCE)
    return True


def _device(project: Project, item: Application) -> str:
    """The device type whose autocast counts: that of the region, else that of the profile's machine."""
    devices = project.profile.training_devices if project.profile is not None else ()
    backends = {device.backend for device in devices}
    on_cpu = item.autocast.state is Autocasting.MAYBE and backends == {"cpu"}
    return "cpu" if on_cpu else item.autocast.device


def _of_atoms(project: Project, node: ast.expr, value: Value) -> HalfOperand | None:
    atoms = value.atoms if value.kind is Kind.TENSOR else ()
    found = [(atom, dtypes) for atom in atoms if (dtypes := _dtypes_of(project, atom))]
    guilty = [atom for atom, _ in found]
    if not guilty or not steps_can_run(project, guilty):
        return None
    dtypes = frozenset(dtype for _, each in found for dtype in each)
    certain = len(guilty) == len(atoms) and all(atom.dtype is not None for atom in guilty)
    symbol = next((atom.symbol for atom in guilty if atom.role is Role.EXPRESSION), "")
    autocast = all(atom.made is MadeHow.AUTOCAST or atom.role is Role.AUTOCAST for atom in guilty)
    origin = WidthOrigin.AUTOCAST if autocast else WidthOrigin.CAST if certain else WidthOrigin.CHOSEN
    half = Half(dtypes, origin is WidthOrigin.CAST, atom_places(project, guilty))
    return HalfOperand(node, half, origin, symbol)


def _dtypes_of(project: Project, atom: Atom) -> frozenset[Dtype]:
    """The 16-bit dtypes of an atom that some run which the project gives chooses."""
    named = atom.candidates if atom.dtype is None else frozenset({atom.dtype})
    if atom.role is Role.AUTOCAST or atom.made is MadeHow.AUTOCAST:
        named = frozenset(open_halves(project, atom))
    return frozenset(dtype for dtype in named & frozenset(HALVES) if may_be_chosen(project, atom, dtype))


def _is_open(value: Value) -> bool:
    """Whether the flow leaves the dtype open: a parameter, weights, or nothing known."""
    roles = (Role.PARAMETER, Role.WEIGHTS)
    return value.kind in (Kind.TENSOR, Kind.UNKNOWN) and all(atom.role in roles for atom in value.atoms)


def _under_autocast(project: Project, item: Application, node: ast.expr) -> HalfOperand | None:
    """The operand was computed by a layer or product that a run of the project does in 16 bits."""
    if not is_in_forward(project, item.module, item.node):
        return None
    half = half_here(project, item.module, node) or half_as_given(project, item.module, node)
    half = half or half_outside(project, item.module, node)
    if half is None:
        return None
    origin = WidthOrigin.CAST if half.certain else WidthOrigin.CHOSEN if half.seen else WidthOrigin.AUTOCAST
    return HalfOperand(node, half, origin)


def is_in_forward(project: Project, module: ModuleNames, node: ast.AST, steps: int = 0) -> bool:
    """Whether ``node`` runs inside an autocast region of its function, or in the forward pass of a module."""
    if next(regions_around(project, module, node), None) is not None:
        return True
    function = module.scope_of(node).function.node
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or _is_outside(module, node):
        return False
    owner = module.scope_of(function).enclosing_class
    if owner is not None:
        is_module = is_torch_module(project, ProjectClass(module, owner))
        return is_module and not any(word in function.name for word in _BEFORE_TRAINING)
    return steps < MAX_STEPS and _is_called_in_forward(project, module, function, steps)


def _is_called_in_forward(project: Project, module: ModuleNames, function: FunctionNode, steps: int) -> bool:
    sites = callers_of(project, module, function).sites
    return any(is_in_forward(project, site.module, site.call, steps + 1) for site in sites)


def _is_outside(module: ModuleNames, node: ast.AST) -> bool:
    owner = module.scope_of(node).enclosing_class
    names = [*module.document.path.removesuffix(".py").split("/")]
    names += [owner.node.name] if owner is not None and isinstance(owner.node, ast.ClassDef) else []
    words = {word for name in names for word in name.lower().split("_")}
    return not words.isdisjoint(_OUTSIDE) or any(name.endswith(("Loss", "Criterion", "Metric")) for name in names)


rule = Rule.of("PF211", check, depends_on=("profile",))
