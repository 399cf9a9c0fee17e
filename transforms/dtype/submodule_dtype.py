"""A VAE, a text encoder or another submodule is fed a tensor of another dtype than its weights.

## What goes wrong

The part of the model that is not trained is kept in its own dtype (`vae.to(device, dtype=weight_dtype)`), and what it
is fed comes from elsewhere: images as the data loader made them, latents computed with a scheduler's float32 table, a
small convolution built in float32. It stops with `RuntimeError: Input type (float) and bias type (c10::Half) should be
the same`.

## Why

Modules do not cast their inputs, and a data loader, `ToTensor()` and diffusers' `alphas_cumprod` give float32. Frozen
parts usually run outside of the autocast region that hides this for the trained model. What autocast computed is 16-bit
also where it is off: in `with torch.autocast(..., enabled=False)`, and behind the region, where a probe in float32
takes the features of a frozen model. A 16-bit type that is written down (`x.half()`) beside a model whose dtype an
option chooses fits in one run, and raises in the others. An engine of DeepSpeed casts its weights to the type that its
configuration enables, and nothing that it is given.

## Fix

`cast` [safe]: the input is cast to the dtype of the module. An input that may be a dictionary or a list (an item of a
batch that nothing treats as a tensor) is not cast. `producer` [safe]: a table is cast where it is moved to its device.
`module` [safe]: a module built in float32 is cast to the dtype that the project asked for. Nothing changes where
everything is float32.

`cast` [unsafe], `producer` [unsafe], `module` [unsafe]: the same where the dtype is asked of a module that may own no
parameter, and where a name is not bound on every path.

`keep` [unsafe]: a part that is cast back to float32 after its whole model was cast to 16 bits (`model.head.float()`),
and meets what the other layers computed, stays in 16 bits.

## Not flagged

Inputs that are cast to the module's dtype or to the variable it was cast to, token ids and timesteps, modules that went
through `accelerator.prepare` or stand in an open autocast region, modules whose dtype is not known to differ; a value
and a module that are cast in branches of the same test; places that no run comes to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.frame import Meeting, OfPart, Operand
from ...codemod.flow.lattice import MadeHow, Role
from ...codemod.flow.meetings import dtype_of
from ...codemod.flow.roots import followed_modules, holders, in_order
from ...codemod.half.atom_places import chain_of, step_places
from ...codemod.model import Finding, Fix, Place, Rule
from ...codemod.purpose.entered import way_inside
from ...codemod.python.arguments import receiver_of
from ...codemod.python.callers import callers_of
from ...codemod.python.functions import bases_of
from ...codemod.python.names import FunctionNode, ModuleNames, attribute_chain, last_name, resolve
from ...codemod.python.paths import guards
from ...codemod.source.project import Project
from ...codemod.torch.api import CASTS
from ...codemod.torch.dtypes import HALVES
from .casts import module_fix, operand_fix, producer_fix
from .clashes import ClashFamily, clashes, name_of, told
from .seen_clashes import seen_message
from .surroundings import is_left_by_autocast, is_other_half

WIDENING = ("float", "to")
WORDS = ("float()", "float32")
MAX_HOPS = 3
"""How many calls up a model is followed that a function returns."""
OWN_BASES = ("torch.nn.", "object", "abc.", "typing.")
CastHolder: TypeAlias = FunctionNode | None


def check(project: Project) -> Iterator[Finding]:
    for meeting in clashes(project, ClashFamily.SUBMODULE):
        if not hang_on_one_test(meeting):
            meeting = _narrow_first(meeting)
            message = seen_message(meeting) or _message(meeting)
            yield told(rule, project, meeting, message, fixes(project, meeting))
    yield from _parts_in_float32(project)


def _narrow_first(meeting: Meeting) -> Meeting:
    """What autocast computed is the operand to cast, up to the other's dtype, as it is where it enters a module."""
    if meeting.operation == "module" or not is_left_by_autocast(meeting):
        return meeting
    narrow, wide = meeting.meant.node, meeting.odd.node
    return replace(
        meeting,
        odd=Operand(narrow, meeting.odd.atom),
        meant=Operand(wide, meeting.meant.atom),
        meant_dtype=dtype_of(wide) or "torch.float32",
    )


def _message(meeting: Meeting) -> str:
    odd, meant = name_of(meeting.odd.node), name_of(meeting.meant.node)
    if meeting.odd.node is meeting.meant.node:
        return f"{odd} has the project's dtype on one path; on the other it is fed to the model as the data came"
    if is_other_half(meeting) and meeting.odd.atom.dtype is not None:
        half, other = meeting.odd.atom.dtype.name, meeting.meant.atom.dtype
        if other is not None:
            return f"{odd} is {half} and is fed to {meant}, whose weights are {other.name}: this raises"
        return f"{odd} is {half} and is fed to {meant}, which has another dtype in a run of the project: this raises"
    if meeting.meant.atom.made is MadeHow.AUTOCAST:
        wide = "has float32 weights" if meeting.operation == "module" else "is float32"
        return f"autocast computed {odd} in 16 bits, and {meant} {wide} where it is off: this raises"
    if meeting.odd.atom.made is MadeHow.MODULE:
        return f"{meant} is built in float32 and is fed {odd}, which is cast to another dtype: this raises"
    if meeting.odd.atom.role is Role.DATA:
        return f"{odd} comes from the data pipeline, in float32; {meant} is cast to another dtype, and raises"
    return f"{odd} is float32 and is fed to {meant}, which can be 16-bit: this raises"


def fixes(project: Project, meeting: Meeting) -> list[Fix | None]:
    if meeting.odd.atom.made is MadeHow.MODULE and meeting.meant.atom.made is not MadeHow.AUTOCAST:
        return [module_fix(project, meeting)]
    made = meeting.odd.atom.made is MadeHow.TABLE or meeting.odd.node is meeting.meant.node
    return [producer_fix(project, meeting) if made else None, operand_fix(project, meeting)]


# --- casts under the same test ----------------------------------------------------------------------------------------


def hang_on_one_test(meeting: Meeting) -> bool:
    """Whether what decides about the value's cast decides about the module's as well.

    Which branch of the one goes with which of the other is not asked: the code looked at that test twice.
    """
    operand, call = meeting.odd.node, meeting.node
    if operand is not meeting.meant.node or not isinstance(operand, ast.Name) or not isinstance(call, ast.Call):
        return False
    module = meeting.module
    of_value = _tests(module, (item.node for item in module.bindings_of(operand)))
    return not of_value.isdisjoint(_tests(module, _casts(module, call.func)))


def _casts(module: ModuleNames, called: ast.expr) -> Iterator[ast.Call]:
    """The calls that cast the module, or the object that holds it."""
    chain = attribute_chain(called) or []
    owners = {".".join(chain[:count]) for count in range(1, len(chain) + 1)} - {"self"}
    for call in (call for name in CASTS for call in module.calls_by_name.get(name, [])):
        if isinstance(call.func, ast.Attribute) and ".".join(attribute_chain(call.func.value) or []) in owners:
            yield call


def _tests(module: ModuleNames, nodes: Iterable[ast.AST]) -> set[str]:
    """What is asked on the way to any of these places; ``x is None`` and ``x is not None`` ask the same."""
    return {text for node in nodes for guard in guards(module, node) for text, _ in guard.facts}


def _parts_in_float32(project: Project) -> Iterator[Finding]:
    """The casts of parts after that of their model, each with the first meeting that raises for it."""
    analysis, seen = flow_of(project), set[ast.AST]()
    for module, holder in _interpreted(project):
        done = analysis.module_body(module) if holder is None else analysis.function(module, holder)
        for item in done.record.of_parts:
            cast = chain_of(item.meeting.odd.atom)[0]
            if cast.node in seen or not isinstance(cast.node, ast.Call) or not _raises(project, item):
                continue
            source = next(followed_modules(project, (cast.path,)), None)
            part = _cast_part(source, cast.node) if source is not None else None
            if source is not None and part is not None:
                seen.add(cast.node)
                yield _part_finding(project, source, cast.node, part, item)


def _interpreted(project: Project) -> Iterator[tuple[ModuleNames, CastHolder]]:
    """The functions that cast parts of something, the methods beside them, and who calls these."""
    found: dict[tuple[ModuleNames, CastHolder], None] = {}
    for module in followed_modules(project, frozenset(project.checked_paths(WORDS))):
        calls = [call for name in WIDENING for call in module.calls_by_name.get(name, []) if _is_of_part(call)]
        for holder in in_order(_with_methods(module, holders(module, calls))):
            found[module, holder] = None
    new = list(found)
    for _ in range(MAX_HOPS):
        new = [item for item in _callers(project, new) if item not in found]
        found |= dict.fromkeys(new)
    return iter(found)


def _is_of_part(call: ast.Call) -> bool:
    """``a.b.float()``, ``a.b[0].to(torch.float32)``; for a loop over the parameters of a part, ``p.data.float()``."""
    given = [*call.args, *(item.value for item in call.keywords)]
    wide = any("float32" in ast.unparse(item) for item in given) if last_name(call.func) == "to" else not given
    return isinstance(receiver_of(call), ast.Attribute | ast.Subscript) and wide


def _with_methods(module: ModuleNames, found: set[CastHolder]) -> set[CastHolder]:
    """Where an object's own model is cast, the other methods of its class use it."""
    owners = [module.scopes[item].parent for item in found if item is not None]
    bodies = [owner.node.body for owner in owners if owner is not None and isinstance(owner.node, ast.ClassDef)]
    return found | {item for body in bodies for item in body if isinstance(item, FunctionNode)}


def _callers(
    project: Project, called: list[tuple[ModuleNames, CastHolder]]
) -> Iterator[tuple[ModuleNames, CastHolder]]:
    for module, holder in called:
        if holder is not None:
            for site in callers_of(project, module, holder).sites:
                yield from ((site.module, item) for item in holders(site.module, [site.call]))


def _raises(project: Project, item: OfPart) -> bool:
    """Whether a 16-bit type certainly meets the part, where no autocast region can be open."""
    meant = item.meeting.meant.atom
    chosen = meant.role is Role.EXPRESSION and meant.made is not MadeHow.FOLLOWED
    half = meant.dtype in HALVES or (chosen and not meant.candidates.isdisjoint(HALVES))
    return half and not _is_run_by_library(project, item) and way_inside(project, item.module, item.call) is None


def _is_run_by_library(project: Project, item: OfPart) -> bool:
    """Whether the call stands in a class of a library's kind (a Trainer, a LightningModule), which may open regions."""
    owner = item.module.scope_of(item.call).enclosing_class
    names = [resolve(project, item.module, base) or ast.unparse(base) for base in bases_of(owner)]
    return any(not name.startswith(OWN_BASES) for name in names)


def _part_finding(project: Project, module: ModuleNames, cast: ast.Call, part: ast.expr, item: OfPart) -> Finding:
    name, statement = name_of(part), module.statement_of(cast)
    meeting = "where they meet, this raises outside of autocast"
    message = f"{name} is cast to float32, but the rest of its model is 16-bit: {meeting}"
    fixes = []
    if isinstance(statement, ast.Expr) and statement.value is cast:
        fixes = [Fix.unsafe("keep", f"leave {name} in the dtype of its model", module.remove(statement))]
    return rule.at(module, cast, message, _places(project, item), fixes)


def _cast_part(module: ModuleNames, cast: ast.Call) -> ast.expr | None:
    """What is cast: the part, also where the cast is of each of its parameters."""
    statement = module.statement_of(cast)
    loop = module.parents.get(statement)
    walks = loop.iter if isinstance(loop, ast.For) and isinstance(statement, ast.Assign) else None
    return receiver_of(walks, "parameters") or receiver_of(cast)


def _places(project: Project, item: OfPart) -> Iterator[Place]:
    meeting = item.meeting
    for step in chain_of(meeting.meant.atom)[:1]:
        yield from step_places(project, step, "the whole model is cast to 16 bits here")
    if item.call is not meeting.node:
        yield item.module.place(item.call, "the model runs here, in no autocast region")
    yield meeting.module.place(meeting.node, f"{name_of(meeting.odd.node)} meets another dtype here: this raises")


rule = Rule.of("PF204", check)
