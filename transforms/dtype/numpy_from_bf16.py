"""A bfloat16 tensor is passed to NumPy, which does not support the type.

## What goes wrong

`preds.cpu().numpy()` stops with `TypeError: Got unsupported ScalarType BFloat16`. It is the first thing that breaks
when float16 is replaced by bfloat16: NumPy knows float16, so the same line worked before.

## Why

What a linear layer, a convolution or a matrix product computes under bfloat16 autocast is bfloat16, and stays so after
the region has ended; so is what a model of bfloat16 weights returns. `.numpy()`, `np.asarray(...)` and `np.array(...)`
take no bfloat16 tensor, nor do functions of NumPy, `sklearn.metrics`, `scipy.stats` and Matplotlib that make an array
of what they are given (`np.save`, `np.concatenate(outputs)`, `roc_auc_score`, `plt.hist`), and no array can be made
with `dtype="bfloat16"`; `.item()` and `.tolist()` work.

## Fix

`float` [safe] inserts `.float()` before a tensor that is bfloat16 for certain: it crashed, and there is an array now.
`float` [unsafe] where the tensor only can be bfloat16: half of the findings on projects that nobody had used were
right, so read the place first. Where the tensor is float32 already nothing changes; integers would become floats, and
other calls may bring another tensor to the same place. Lists of tensors are only reported.

## Not flagged

Float16 and float32; tensors that are cast before; class numbers, masks, token ids and other integers; results that
autocast computes in float32 (softmax, losses, a norm at the end of a model whose source is known); what a model that is
not part of the project returns under a name of its own (`predictions["depth"]`), and what is computed with it; models
prepared by accelerate or Fabric, which return float32; places that ask for the dtype, or catch the error; tests; places
that no run comes to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.elements import any_item
from ...codemod.flow.encounters import applications
from ...codemod.flow.frame import Application, Autocasting, AutocastState
from ...codemod.flow.lattice import NUMBER_VALUE, Atom, Kind, MadeHow, Role, Value
from ...codemod.flow.results import BY_WEIGHTS
from ...codemod.flow.ways import are_all_ways, in_way, ways_into
from ...codemod.half.atom_places import atom_places, condition_of, may_be_chosen, steps_can_run
from ...codemod.half.half_here import is_told_apart
from ...codemod.half.half_runs import applied_in_runs
from ...codemod.half.integer_words import speaks_of_integers
from ...codemod.model import Edit, Finding, Fix, Place, Rule
from ...codemod.proof.needs import Known
from ...codemod.proof.proving import proved
from ...codemod.proof.verdicts import Trusted
from ...codemod.purpose.files import is_test
from ...codemod.purpose.lightning import step_runs
from ...codemod.purpose.proved_reach import is_reached
from ...codemod.python.arguments import receiver_of
from ...codemod.python.bindings import only_value
from ...codemod.python.caught import is_caught
from ...codemod.python.editing import PRIMARIES
from ...codemod.python.names import FunctionNode, ModuleNames
from ...codemod.python.seen import seen_of
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import BF16, FP64
from ...codemod.torch.tables.libraries import ARRAY_FUNCTIONS, OUTPUT_ATTRIBUTES
from .clashes import name_of

ERROR = "unsupported ScalarType BFloat16"
RAISES = "NumPy does not support bfloat16, so this raises TypeError"
OF_ONE = ("numpy", "numpy.asarray", "numpy.array")
"""Readings of one tensor, which only callers may know."""
BITS = ("tobytes", "view", "tofile", "nbytes", "itemsize", "dtype", "data", "dumps")
"""Members of arrays that give their bits, or how many there are."""


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
    named = [atom for atom in atoms if atom.dtype == BF16 or (atom.dtype is None and BF16 in atom.candidates)]
    guilty = [atom for atom in named if may_be_chosen(project, atom, BF16)]
    certain = bool(guilty) and all(atom.dtype == BF16 for atom in atoms)
    if not guilty or (not certain and is_told_apart(project, reading.module, reading.call)):
        return None
    name = name_of(reading.tensor)
    if certain:
        message = f"{name} is bfloat16: {RAISES}"
    else:
        chosen = next((atom.symbol for atom in guilty if atom.expression is not None), "")
        tested = next(filter(None, (condition_of(project, atom) for atom in guilty)), "")
        when = f"if {chosen} is" if chosen else tested or "on one path"
        message = f"{name} is bfloat16 {when}: {RAISES}"
    fixes = _float_fix(project, reading, safe=_is_floating(reading.value), certain=certain)
    return rule.at(reading.module, reading.call, message, (*atom_places(project, guilty), *reading.via), fixes)


def _of_model(project: Project, reading: Reading) -> Finding | None:
    """A model returned it from a bfloat16 region."""
    atom = reading.value.only
    if atom is None or atom.role is not Role.RESULT or BF16 not in atom.candidates or atom.expression is None:
        return None
    if speaks_of_integers(reading.tensor) or is_named_part(reading.module, reading.tensor):
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
    above = reading.module.parents.get(reading.call)
    asked = above.attr if isinstance(above, ast.Attribute) and project.target is not None else ""
    wide = Known(asked not in BITS, f".{asked} gives four bytes a number then, and two before the move")
    return [proved(project, "float", message, [edit], exact, alone, wide, Trusted("PF208", certain))]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One ``tensor.numpy()``, or an argument of ``np.asarray(tensor)``, ``np.stack(tensors)``, ``plt.plot(tensor)``."""

    module: ModuleNames
    call: ast.Call
    tensor: ast.expr
    value: Value
    """What the dtype flow knows of the tensor."""
    of_list: bool = False
    """Whether it is any tensor of a list."""
    via: tuple[Place, ...] = ()
    """The calls on whose way it is known."""
    has_others: bool = False
    """Whether other calls may lead here with something else."""


def readings(project: Project) -> Iterator[Reading]:
    """Every reading outside of tests that nothing protects, in source order of the files."""
    followed = applied_in_runs(project)
    for item in applications(project, ("numpy", *ARRAY_FUNCTIONS), _is_asked):
        in_run = followed.get(item.node, item)
        if in_run.operation == item.operation and not is_caught(item.module, item.node, "TypeError"):
            for (tensor, value), (_, there) in zip(_read(item), _read(in_run), strict=True):
                known = _element(there) if _is_told(_element(there)) else _element(value)
                if known.kind is Kind.TENSOR or (known.kind is Kind.UNKNOWN and item.operation in OF_ONE):
                    reading = Reading(item.module, item.node, tensor, known, of_list=value.kind is Kind.SEQUENCE)
                    yield _in_step(project, reading, item.function)


def _is_asked(module: ModuleNames, call: ast.Call) -> bool:
    of_tensor = isinstance(call.func, ast.Attribute) and call.func.attr == "numpy"
    return (of_tensor or module.qualified(call.func) in ARRAY_FUNCTIONS) and not is_test(module.document.path)


def _read(item: Application) -> list[tuple[ast.expr, Value]]:
    """What is read: the tensor whose method is called, or each argument; a function of lists makes none of a tensor."""
    if item.operation == "numpy":
        func = item.node.func
        return [(func.value, item.receiver)] if isinstance(func, ast.Attribute) and item.receiver is not None else []
    given = item.arguments[: 1 if item.operation in OF_ONE else None]
    alone = ARRAY_FUNCTIONS.get(item.operation, False)
    return [(node, value if alone or value.kind is Kind.SEQUENCE else NUMBER_VALUE) for node, value in given]


def _element(value: Value) -> Value:
    return any_item(value) if value.kind is Kind.SEQUENCE else value


def _in_step(project: Project, reading: Reading, function: FunctionNode | None) -> Reading:
    """In a step that Lightning's Trainer runs under bfloat16 autocast the tensor is what it is there."""
    runs = step_runs(project, reading.module, function) if function is not None else ()
    if not any(BF16 in run.dtypes for run in runs):
        return reading
    atom = Atom(symbol="autocast", role=Role.AUTOCAST, made=MadeHow.AUTOCAST, candidates=frozenset({BF16}))
    state = AutocastState(Autocasting.ON, atom)
    return replace(reading, value=_element(flow_of(project).value_at(reading.module, reading.tensor, state)))


def entered(project: Project, reading: Reading) -> Iterator[Reading]:
    """The same reading as it is on the ways into its function, where the function alone does not tell the dtype."""
    function = reading.module.scope_of(reading.call).function.node
    if _is_told(reading.value) or not isinstance(function, FunctionNode):
        return
    ways = ways_into(project, reading.module, function)
    entries = [in_way(project, reading.module, function, way).record.values.get(reading.tensor) for way in ways]
    alike = are_all_ways(project, reading.module, function) and all(_is_floating(value) for value in entries)
    for way, value in zip(ways, entries, strict=True):
        if value is not None and value != reading.value:
            yield replace(reading, value=value, via=way.places, has_others=not alike)


def _is_told(value: Value) -> bool:
    return value.kind is Kind.TENSOR and bool(value.atoms) and all(atom.dtype is not None for atom in value.atoms)


def _is_floating(value: Value | None) -> bool:
    """Whether it is a floating tensor that a cast to float32 does not make narrower."""
    atoms = value.atoms if value is not None and value.kind is Kind.TENSOR else ()
    return bool(atoms) and all(atom.is_floating and atom.dtype != FP64 for atom in atoms)


def is_named_part(module: ModuleNames, node: ast.expr) -> bool:
    """``model(x)["depth"].cpu()``: heads of models that return several things compute in float32 as often as not."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            key = node.slice.value
            return isinstance(key, str) and key not in OUTPUT_ATTRIBUTES
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.BinOp):
        return is_named_part(module, node.left) or is_named_part(module, node.right)
    value = only_value(module, node)
    return value is not None and value is not node and is_named_part(module, value)


def float_edit(reading: Reading) -> Edit | None:
    """``.float()`` before ``.cpu()``, or before the reading."""
    module, call, tensor = reading.module, reading.call, reading.tensor
    if reading.of_list:
        return None
    moved = receiver_of(tensor, "cpu")  # before that the cast is cheap and reads best
    for target in (moved, tensor):
        if isinstance(target, PRIMARIES):
            return module.append(target, ".float()")
    if call.keywords or len(call.args) > 1:
        return None
    if receiver_of(call) is tensor:
        return module.replace(call, "(", tensor, ").float().numpy()")
    return module.replace(call, f"{ast.unparse(call.func)}((", tensor, ").float())")


rule = Rule.of("PF208", check)
