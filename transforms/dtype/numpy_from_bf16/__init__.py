"""A bfloat16 tensor is passed to NumPy, which does not support the type.

## What goes wrong

`preds.cpu().numpy()` stops with `TypeError: Got unsupported ScalarType BFloat16`. It is the first thing that breaks
when float16 is replaced by bfloat16: NumPy knows float16, so the same line worked before.

## Why

What a linear layer, a convolution or a matrix product computes under bfloat16 autocast is bfloat16, and stays so after
the region has ended; so is what a model of bfloat16 weights returns. `.numpy()`, `np.asarray(...)` and `np.array(...)`
take no bfloat16 tensor, and no array can be made with `dtype="bfloat16"`; `.item()` and `.tolist()` work.

## Fix

`float` [safe] inserts `.float()` before a tensor that is bfloat16 for certain: it crashed, and there is an array now.
`float` [unsafe] where the tensor only can be bfloat16: half of the findings on projects that nobody had used were
right, so read the place first. Where the tensor is float32 already nothing changes; integers would become floats, and
other calls may bring another tensor to the same place.

## Not flagged

Float16 and float32; tensors that are cast before; class numbers, masks, token ids and other integers; results that
autocast computes in float32 (softmax, losses, a norm at the end of a model whose source is known); what a model that is
not part of the project returns under a name of its own (`predictions["depth"]`), and what is computed with it; models
prepared by accelerate or Fabric, which return float32; places that ask for the dtype, or catch the error; tests; places
that no run comes to.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.flow.lattice import Atom, Kind, Role
from ....codemod.flow.results import BY_WEIGHTS
from ....codemod.half.atom_places import atom_places, may_be_chosen, steps_can_run
from ....codemod.half.half_here import is_told_apart
from ....codemod.half.integer_words import speaks_of_integers
from ....codemod.model import Finding, Fix, Rule
from ....codemod.proof.needs import Known
from ....codemod.proof.proving import proved
from ....codemod.proof.verdicts import Trusted
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.seen import seen_of
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP64
from ..clashes import name_of
from .numpy_readings import (
    Reading,
    entered,
    float_edit,
    is_bf16_result,
    is_named_part,
    readings,
)

ERROR = "unsupported ScalarType BFloat16"
RAISES = "NumPy does not support bfloat16, so this raises TypeError"


def check(project: Project) -> Iterator[Finding]:
    if not any(True for _ in project.python_documents(("bfloat16", "bf16", "autocast"))):
        return
    for reading in readings(project):
        finding = _of_reading(project, reading) or _of_rehearsal(project, reading)
        if finding is not None:
            yield finding


def _of_reading(project: Project, reading: Reading) -> Finding | None:
    """What reading tells of a place, if a run comes to it: that is asked last, since it costs most."""
    found = (_of_dtype(project, each) or _of_model(project, each) for each in (reading, *entered(project, reading)))
    finding = next((each for each in found if each is not None), None)
    return finding if finding is not None and is_reached(project, reading.module, reading.call) else None


def _of_dtype(project: Project, reading: Reading) -> Finding | None:
    """The dtype flow knows that the tensor is, or can be, bfloat16."""
    atoms = reading.value.atoms if reading.value.kind is Kind.TENSOR else ()
    if any(atom.role is Role.RESULT for atom in atoms) or not steps_can_run(project, atoms):
        return None
    guilty = [atom for atom in atoms if _is_bf16(atom) and may_be_chosen(project, atom, BF16)]
    certain = bool(guilty) and all(atom.dtype == BF16 for atom in atoms)
    if not guilty or (not certain and is_told_apart(project, reading.module, reading.call)):
        return None
    name = name_of(reading.tensor)
    if certain:
        message = f"{name} is bfloat16: {RAISES}"
    else:
        chosen = next((atom.symbol for atom in guilty if atom.expression is not None), "")
        message = f"{name} is bfloat16 {f'where {chosen} is' if chosen else 'on one path'}: {RAISES}"
    safe = all(atom.is_floating and atom.dtype != FP64 for atom in atoms)
    evidence = (*atom_places(project, guilty), *reading.via)
    return rule.at(
        reading.module, reading.call, message, evidence, _float_fix(project, reading, safe=safe, certain=certain)
    )


def _is_bf16(atom: Atom) -> bool:
    return atom.dtype == BF16 or (atom.dtype is None and BF16 in atom.candidates)


def _of_model(project: Project, reading: Reading) -> Finding | None:
    """A model returned it from a bfloat16 region."""
    atom = reading.value.only
    if atom is None or not is_bf16_result(atom) or speaks_of_integers(reading.tensor) or atom.expression is None:
        return None
    if is_named_part(reading.module, reading.tensor):
        return None
    if is_told_apart(project, reading.module, reading.call) or not steps_can_run(project, (atom,)):
        return None
    if not may_be_chosen(project, atom, BF16):
        return None
    name, model = name_of(reading.tensor), name_of(atom.expression)
    when = "computes" if atom.candidates == {BF16} else "can compute"
    how = "whose weights are bfloat16" if atom.symbol.startswith(BY_WEIGHTS) else f"where autocast {when} in bfloat16"
    message = (
        f"{name} comes from {model} {how}: unless the model returns float32, this raises"
        " TypeError because NumPy does not support bfloat16"
    )
    fixes = _float_fix(project, reading, safe=atom.is_floating)
    evidence = (*atom_places(project, (atom,)), *reading.via)
    return rule.at(reading.module, reading.call, message, evidence, fixes)


def _of_rehearsal(project: Project, reading: Reading) -> Finding | None:
    """A rehearsal saw it raise, where reading does not tell the dtype."""
    seen = seen_of(project)
    span = reading.module.document.span(reading.call)
    for failure in seen.failures if seen is not None else ():
        here = failure.path == reading.module.path and span.row <= failure.span.row <= span.end_row
        if here and ERROR in failure.error:
            message = f"{name_of(reading.tensor)} is bfloat16: {RAISES}"
            return rule.at(reading.module, reading.call, message, [], _float_fix(project, reading, safe=False))
    return None


def _float_fix(project: Project, reading: Reading, *, safe: bool, certain: bool = False) -> list[Fix]:
    edit = float_edit(reading)
    if edit is None:
        return []
    message = "cast to float32 first; nothing changes for a float32 tensor"
    exact = Known(safe, "integers and float64 would become float32")
    alone = Known(not reading.has_others, "other calls may bring integers or float64 here")
    return [proved(project, "float", message, [edit], exact, alone, Trusted("PF208", certain))]


rule = Rule.of("PF208", check)
