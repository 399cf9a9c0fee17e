"""A part of a 16-bit model returns float32, because something float32 was mixed in.

## What goes wrong

`x * torch.rand(len(x), 1, device=x.device)` is float32 whatever `x` is, and so is what the module returns;
`self.weight * x` is, where a norm computes in `x.float()` and forgets to cast back. Nothing is raised there: the next
layer stops with `mat1 and mat2 must have the same dtype, but got Float and BFloat16` (or `Input type (float) and bias
type (c10::BFloat16) should be the same`), and where only sums and products follow, the rest of the model silently
computes in float32.

## Why

Factories make float32 unless a dtype is given; `device=x.device` takes nothing but the device. A tensor that the
constructor stores as a plain attribute stays float32 when the model is cast, while buffers follow. Sums and products
promote to the wider operand (`torch.promote_types`, PyTorch 2.13). Under autocast the next layer casts its input.

## Fix

`producer` [unsafe]: `dtype=x.dtype` in the factory; what follows is computed in 16 bits, as the rest of the model is.
Reported only, where the tensor is an attribute (register it as a buffer, or cast it where it is used) and where the
input itself was cast to float32 (cast the result back with `.to(x.dtype)`).

## Off by default

`extend-select = ["PF217"]` switches it on. Where the layer that raises is seen in a run of the model, PF201 to PF204
tell of it; what is left is a guess about who reads the result.

## Not flagged

Models that no program of the project casts to 16 bits outside of autocast; the model that is cast itself, whose result
nothing 16-bit reads; factories with a dtype, Python numbers, zero-dimensional tensors, buffers (these follow the
model), results that are cast in the module or where it is called; losses; other float32 that was asked for
(`.float()`); what PF202 reports where the float32 tensor raises.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.flow.analysis import FlowAnalysis, flow_of
from ...codemod.flow.classes import ProjectClass
from ...codemod.flow.encounters import all_meetings
from ...codemod.flow.frame import Autocasting, Meeting, Operand
from ...codemod.flow.half_runs import half_runs
from ...codemod.flow.lattice import Atom, Kind, Made, Mixture, Role, Value
from ...codemod.flow.parts import classes_named
from ...codemod.flow.roots import followed_modules
from ...codemod.model import Finding, Rule
from ...codemod.proof.needs import Known
from ...codemod.python.bindings import self_stores
from ...codemod.python.functions import class_of
from ...codemod.python.names import FunctionNode, ModuleNames, attribute_chain
from ...codemod.python.paths import function_of, position
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import FP32
from .casts import FACTORY_NAMES, producer_fix
from .clashes import LOSSES, evidence, name_of

UNSAFE = (Known(False, "what follows may count on float32"),)
WORDS = (".half(", "bfloat16", "float16")
PARAMETER = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
CASTS = ("to", "type_as", "half", "bfloat16", "float", "type")
MAX_PARTS = 400
"""Classes of one model that are looked into; the models of transformers have about thirty."""


@dataclass(frozen=True, slots=True, eq=False)
class Widened:
    """A ``forward`` whose result a float32 tensor widens."""

    module: ModuleNames
    function: FunctionNode
    owner: ProjectClass
    atom: Atom
    mixture: Mixture


def check(project: Project) -> Iterator[Finding]:
    if not any(True for _ in project.python_documents(WORDS)):
        return
    parts = _parts_in_half(project)
    found = list(_widened(project, parts)) if parts else []
    known = _reported(project) if found else frozenset()
    for item in found:
        if item.mixture.node not in known and not _is_cast_by_callers(project, item.owner):
            yield _finding(project, item)


def _finding(project: Project, item: Widened) -> Finding:
    meeting = _meeting(item)
    name = item.owner.name
    message = (
        f"{name_of(item.mixture.node)} is float32, because {_cause(item.mixture)}: {name} returns"
        f" float32 inside of a 16-bit model, and the next layer of it raises"
    )
    fix = producer_fix(project, meeting, *UNSAFE) if item.mixture.wide.made is Made.FACTORY else None
    return rule.at(item.module, item.mixture.node, message, evidence(project, meeting), [fix] if fix else [])


def _cause(mixture: Mixture) -> str:
    factory = mixture.wide.made is Made.FACTORY
    return "one operand was made without a dtype" if factory else "the input was cast to float32 and is not cast back"


def _meeting(item: Widened) -> Meeting:
    """The promotion, in the words that fixes and evidence are made of."""
    mixture = item.mixture
    operands = Operand(mixture.node, item.atom), Operand(mixture.node, mixture.meant)
    return Meeting(
        item.module, mixture.node, "promotion", "promotes", *operands, "", Autocasting.OFF, item.function, None
    )


# --- which modules ----------------------------------------------------------------------------------------------------


def _parts_in_half(project: Project) -> frozenset[str]:
    """The weights of the classes that the constructors of 16-bit models name, without the models themselves."""
    analysis, found = flow_of(project), dict[ProjectClass, None]()
    wholes = [run.owner for run in half_runs(project)]
    waiting = list(wholes)
    while waiting and len(found) < MAX_PARTS:
        current = waiting.pop()
        constructor = analysis.method(current, "__init__") if current not in found else None
        found[current] = None
        if constructor is not None:
            named = classes_named(project, constructor.module, constructor.node)
            waiting += [item for item in named if analysis.is_module(item)]
    return frozenset(analysis.own_weights(part).symbol for part in found if part not in wholes)


def _widened(project: Project, parts: frozenset[str]) -> Iterator[Widened]:
    analysis = flow_of(project)
    for module in followed_modules(project):
        if not project.is_checked(module.document.path) or not any(name in module.calls_by_name for name in MAKERS):
            continue
        for function in module.of_type(ast.FunctionDef):
            owner = analysis.owner(module, function) if function.name == "forward" else None
            if owner is not None and _is_part(analysis, owner, parts):
                yield from _of_forward(analysis, module, function, owner)


MAKERS = ("float", "to", *(name for name in FACTORY_NAMES if not name.startswith("new_")))


def _is_part(analysis: FlowAnalysis, owner: ProjectClass, parts: frozenset[str]) -> bool:
    is_loss = any(word in owner.name.lower() for word in LOSSES)
    return not is_loss and analysis.is_module(owner) and analysis.own_weights(owner).symbol in parts


def _of_forward(
    analysis: FlowAnalysis, module: ModuleNames, function: FunctionNode, owner: ProjectClass
) -> Iterator[Widened]:
    seen: set[ast.AST] = set()
    for value in _tensors(analysis.function(module, function).returned):
        for atom in value.atoms:
            mixture = atom.mixture
            if mixture is None or mixture.path != module.document.path or mixture.node in seen:
                continue
            if atom.dtype == FP32 and (_widens(mixture) or _is_not_cast_back(owner, mixture)):
                seen.add(mixture.node)
                yield Widened(module, function, owner, atom, mixture)


def _tensors(returned: Value) -> tuple[Value, ...]:
    values = (returned, *(returned.items or ()))
    return tuple(value for value in values if value.kind is Kind.TENSOR)


def _widens(mixture: Mixture) -> bool:
    """Whether a float32 tensor that nobody asked for met what has the dtype of the model."""
    of_model = mixture.meant.role in (Role.PARAMETER, Role.WEIGHTS)
    return mixture.wide.made is Made.FACTORY and of_model


def _is_not_cast_back(owner: ProjectClass, mixture: Mixture) -> bool:
    """Whether the input, computed with in float32, meets a parameter of the module, as in a norm that forgets to cast.

    A module that wants float32 casts its parameter too.
    """
    node = mixture.node
    if mixture.wide.made is not Made.CAST or mixture.meant.role is not Role.WEIGHTS or not isinstance(node, ast.BinOp):
        return False
    return any(_is_own_parameter(owner, side) for side in (node.left, node.right))


def _is_own_parameter(owner: ProjectClass, node: ast.expr) -> bool:
    chain = attribute_chain(node)
    if chain is None or len(chain) != 2 or chain[0] != "self":
        return False
    values = [value for value, _ in self_stores(owner.module, owner.scope, chain[1])]
    made = [value for value in values if isinstance(value, ast.Call)]
    return bool(made) and all(owner.module.qualified(call.func) in PARAMETER for call in made)


# --- what is known already --------------------------------------------------------------------------------------------


def _reported(project: Project) -> frozenset[ast.AST]:
    """The promotions whose result raises where the flow sees it."""
    raised = (item.odd.atom.mixture for item in all_meetings(project) if item.mix != "promotes")
    return frozenset(item.node for item in raised if item is not None)


def _is_cast_by_callers(project: Project, owner: ProjectClass) -> bool:
    """Whether some caller casts what an instance returns."""
    for module in followed_modules(project):
        for name in _attributes_of(project, module, owner):
            if any(_is_cast(module, call) for call in module.calls_by_name.get(name, [])):
                return True
    return False


def _is_cast(module: ModuleNames, call: ast.Call) -> bool:
    """Whether the result of a call is cast: at once, or where its name is used in the same function."""
    parent = module.parents[call]
    if not isinstance(parent, ast.Assign):
        return getattr(parent, "attr", "") in CASTS
    names = [item.id for item in parent.targets if isinstance(item, ast.Name)]
    function = function_of(module, call)
    return any(
        getattr(module.parents[use], "attr", "") in CASTS
        for name in names
        for use in module.name_loads.get(name, [])
        if function_of(module, use) is function and position(use) > position(call)
    )


def _attributes_of(project: Project, module: ModuleNames, owner: ProjectClass) -> Iterator[str]:
    """The attributes and variables that hold instances of the class."""
    for call in module.calls_by_name.get(owner.name, []):
        found = class_of(project, module, call.func)
        parent = module.parents[call]
        if found is not None and ProjectClass(*found) == owner and isinstance(parent, ast.Assign):
            for target in parent.targets:
                if isinstance(target, ast.Attribute | ast.Name):
                    yield target.attr if isinstance(target, ast.Attribute) else target.id


rule = Rule.of("PF217", check)
