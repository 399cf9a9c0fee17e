"""A VAE, a text encoder or another submodule is fed a tensor of another dtype than its weights.

## What goes wrong

The part of the model that is not trained is kept in its own dtype (`vae.to(device, dtype=weight_dtype)`), and what it
is fed comes from elsewhere: images as the data loader made them, latents computed with a scheduler's float32 table, a
small convolution built in float32. It stops with `RuntimeError: Input type (float) and bias type (c10::Half) should be
the same`.

## Why

Modules do not cast their inputs, and a data loader, `ToTensor()` and diffusers' `alphas_cumprod` give float32. Frozen
parts usually run outside of the autocast region that hides this for the trained model. What autocast computed is 16-bit
also where it is off: in `with torch.autocast(..., enabled=False)`, and behind the region.

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

from ....codemod.flow.frame import Meeting
from ....codemod.flow.lattice import Made, Role
from ....codemod.model import Finding, Fix, Rule
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.paths import guards
from ....codemod.source.project import Project
from ....codemod.torch.api import CASTS
from ..casts import module_fix, operand_fix, producer_fix
from ..clashes import Family, clashes, evidence, name_of
from ..seen_clashes import seen_message
from .parts import PartInFloat32, parts_in_float32


def check(project: Project) -> Iterator[Finding]:
    for meeting in clashes(project, Family.SUBMODULE):
        if not hang_on_one_test(meeting):
            yield _finding(project, meeting)
    for part in parts_in_float32(project):
        yield _part_finding(part)


def _part_finding(part: PartInFloat32) -> Finding:
    message = (
        f"{name_of(part.part)} is cast to float32, but the rest of its model is 16-bit: where they meet, this raises "
        "outside of autocast"
    )
    return rule.at(part.module, part.cast, message, part.places, _without_cast(part))


def _without_cast(part: PartInFloat32) -> list[Fix]:
    statement = part.module.statement_of(part.cast)
    if not isinstance(statement, ast.Expr) or statement.value is not part.cast:
        return []
    text = f"leave {name_of(part.part)} in the dtype of its model"
    return [Fix.unsafe("keep", text, part.module.remove(statement))]


def _finding(project: Project, meeting: Meeting) -> Finding:
    message = _message(meeting)
    return rule.at(meeting.module, meeting.node, message, evidence(project, meeting), fixes(project, meeting))


def _message(meeting: Meeting) -> str:
    if seen := seen_message(meeting):
        return seen
    odd, meant = name_of(meeting.odd.node), name_of(meeting.meant.node)
    if meeting.odd.node is meeting.meant.node:
        return f"{odd} has the project's dtype on one path; on the other it is fed to the model as the data came"
    if meeting.meant.atom.made is Made.AUTOCAST:
        return f"autocast computed {odd} in 16 bits, and {meant} has float32 weights where it is off: this raises"
    if meeting.odd.atom.made is Made.MODULE:
        return f"{meant} is built in float32 and is fed {odd}, which is cast to another dtype: this raises"
    if meeting.odd.atom.role is Role.DATA:
        return f"{odd} comes from the data pipeline, in float32; {meant} is cast to another dtype, and raises"
    return f"{odd} is float32 and is fed to {meant}, which can be 16-bit: this raises"


def fixes(project: Project, meeting: Meeting) -> list[Fix]:
    if meeting.odd.atom.made is Made.MODULE and meeting.meant.atom.made is not Made.AUTOCAST:
        found = [module_fix(project, meeting)]
    elif meeting.odd.atom.made is Made.TABLE or meeting.odd.node is meeting.meant.node:
        found = [producer_fix(project, meeting), operand_fix(project, meeting)]
    else:
        found = [operand_fix(project, meeting)]
    return [fix for fix in found if fix is not None]


# --- casts under the same test ----------------------------------------------------------------------------------------


def hang_on_one_test(meeting: Meeting) -> bool:
    """Whether what decides about the value's cast decides about the module's as well.

    Which branch of the one goes with which of the other is not asked: the code looked at that test twice.
    """
    operand, call = meeting.odd.node, meeting.node
    if operand is not meeting.meant.node or not isinstance(operand, ast.Name) or not isinstance(call, ast.Call):
        return False
    module = meeting.module
    of_value = _tests(module, (item.node for item in module.scope_of(operand).lookup(operand.id)))
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


rule = Rule.of("PF204", check)
