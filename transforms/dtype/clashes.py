"""Which meetings of the dtype flow are mistakes, which rule each belongs to, and what is told about them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum

from ...codemod.flow.encounters import all_meetings, meetings
from ...codemod.flow.frame import Autocasting, Meeting
from ...codemod.flow.lattice import Atom, MadeHow, Role
from ...codemod.flow.seen_contradictions import contradiction
from ...codemod.flow.seen_meetings import place_seen, seen_meetings
from ...codemod.half.atom_places import (
    atom_places,
    chain_of,
    choosing_another,
    distinct,
    may_be_chosen,
    step_places,
    steps_can_run,
)
from ...codemod.half.enclosed import can_be_inside
from ...codemod.half.half_runs import HalfRun, half_runs
from ...codemod.model import Finding, Fix, Place, Rule
from ...codemod.purpose.proved_reach import is_reached
from ...codemod.purpose.runs import HalfProgram, is_switched_on, runs_of
from ...codemod.python.arguments import receiver_of
from ...codemod.python.caught import is_caught
from ...codemod.python.names import ModuleNames, last_name, names_of
from ...codemod.source.project import Project
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import FP32, HALVES, Dtype
from ...codemod.torch.tables.operations import keeps_dtype
from ...codemod.torch.weights import is_device
from .behind_regions import is_met_behind_region
from .recast_elsewhere import is_given_in_float32, is_recast_elsewhere
from .surroundings import (
    MOVING,
    is_cast_below,
    is_cast_on_the_way,
    is_cast_to_the_other,
    is_left_by_autocast,
    is_on_purpose,
    is_only_for_prepared,
    is_other_half,
    readers,
)


class ClashFamily(Enum):
    """What was done to the operand that is too wide, or where it meets the other: one rule for each."""

    JOIN = "join"
    FACTORY = "factory"
    CAST = "cast"
    SUBMODULE = "submodule"
    WRITE = "write"
    ATTENTION = "attention"


ATTENTION_OPERATIONS = ("scaled_dot_product_attention", "multi_head_attention_forward", "lstm", "gru", "rnn_tanh")
NORMS = ("layer_norm", "group_norm", "batch_norm", "rms_norm", "instance_norm")
LOSSES = ("loss", "criterion")
MAX_MISTAKES = 3
"""Separate mistakes that one program may hold; more refute that it runs as it is taken to run."""


def clashes(project: Project, family: ClashFamily) -> Iterator[Meeting]:
    """The meetings of one family, one for each operand that is wrong, in source order."""
    for meeting in project.checked_fact(_mistakes):
        if family_of(meeting) is family:
            yield meeting


def followers(project: Project, meeting: Meeting) -> tuple[Meeting, ...]:
    """The other places that the same tensor reaches in a model that is certainly 16-bit, in the order they run."""
    return project.checked_fact(_followers).get(meeting, ())


def _mistakes(project: Project) -> tuple[Meeting, ...]:
    seen = (each for each in seen_meetings(project) if project.is_checked(each.module.path))
    found = {(each.node, each.odd.node): each for each in seen}
    at_seen = {node for node, _ in found}
    for meeting in meetings(project):
        key = (meeting.node, meeting.odd.node)
        if (meeting.node in at_seen and key not in found) or contradiction(project, meeting):
            continue  # the rehearsal knows better
        behind = is_met_behind_region(project, meeting)
        if is_only_possible(project, meeting) or (not behind and _is_in_region(project, meeting)):
            continue
        if is_caught(meeting.module, meeting.node, "RuntimeError"):
            continue
        if meeting.mix == "promotes" and (is_cast_below(meeting) or is_only_for_prepared(project, meeting)):
            continue
        if not is_proved(project, meeting) or is_recast_elsewhere(project, meeting):
            continue
        if not (behind or is_mistake(meeting)) or is_cast_on_the_way(meeting):
            continue
        if is_on_purpose(meeting):
            continue
        unread = _is_kept(meeting) or _is_only_returned(meeting)
        if unread and project.fact(_widening).isdisjoint((meeting.node, _maker(meeting))):
            continue  # nothing is known to be raised by it: results are gathered, boxes are sorted, bounds are loaded
        _take(found, key, meeting)
    for meeting in project.checked_fact(_certain_mistakes):
        key = (meeting.node, meeting.odd.node)
        if key in found:
            _take(found, key, meeting)
    for first, *_ in _by_maker(project, found.values()):
        found.setdefault((first.node, first.odd.node), first)
    return tuple(sorted(found.values(), key=lambda meeting: meeting.is_only_seen))


def _take(found: dict[tuple[ast.expr, ast.expr], Meeting], key: tuple[ast.expr, ast.expr], meeting: Meeting) -> None:
    """The first that was read counts; it knows more of where it comes from than what was only seen."""
    known = found.setdefault(key, meeting)
    if known.is_only_seen:
        found[key] = replace(meeting, seen=known.seen)


def _followers(project: Project) -> dict[Meeting, tuple[Meeting, ...]]:
    groups = _by_maker(project, project.checked_fact(_mistakes))
    return {first: tuple(others) for first, *others in groups if first.certain}


def _by_maker(project: Project, told: Iterable[Meeting]) -> list[list[Meeting]]:
    """What certainly meets in 16-bit models, by the maker of the odd tensor: one mistake, told once.

    The first of each list is the one that is told; one of ``told``, where there is one of this maker.
    """
    found: dict[ast.AST, list[Meeting]] = {}
    for meeting in told:
        found.setdefault(_maker(meeting), [meeting])
    for meeting in project.checked_fact(_certain_mistakes):
        known = found.setdefault(_maker(meeting), [])
        if meeting not in known:
            known.append(meeting)
    return list(found.values())


def _maker(meeting: Meeting) -> ast.AST:
    steps = chain_of(meeting.odd.atom)
    return steps[0].node if steps else meeting.node


def _certain_mistakes(project: Project) -> tuple[Meeting, ...]:
    found: dict[tuple[ast.expr, ast.expr], Meeting] = {}
    for run in half_runs(project):
        for meeting in _of_run(project, run):
            found.setdefault((meeting.node, meeting.odd.node), meeting)
    return tuple(meeting for meeting in found.values() if project.is_checked(meeting.module.document.path))


def _of_run(project: Project, run: HalfRun) -> list[Meeting]:
    """What raises in one run: the join that widened a tensor in place of what reads it.

    A program that would raise for many reasons has never run so: then what is taken for granted is wrong, not it.
    """
    raising = [
        meeting
        for meeting in run.record.meetings
        if meeting.mix != "promotes"
        and is_mistake(meeting)
        and not is_on_purpose(meeting)
        and not is_cast_on_the_way(meeting)
    ]
    if len({_maker(meeting) for meeting in raising}) > MAX_MISTAKES:
        return []
    widening = {mixture.node for meeting in raising if (mixture := meeting.odd.atom.mixture) is not None}
    joins = [meeting for meeting in run.record.meetings if meeting.mix == "promotes" and meeting.node in widening]
    told = {meeting.node for meeting in joins}
    others = [item for item in raising if item.odd.atom.mixture is None or item.odd.atom.mixture.node not in told]
    return [*joins, *others]


def is_proved(project: Project, meeting: Meeting) -> bool:
    """Whether a run comes to the meeting, and to what gave both operands their dtypes."""
    atoms = (meeting.odd.atom, meeting.meant.atom)
    is_choice = is_other_half(meeting) and meeting.meant.atom.dtype is None
    if is_choice and choosing_another(project, *atoms) is None:
        return False
    halves = [dtype for dtype in HALVES if dtype in meeting.meant.atom.candidates]
    if halves and not any(may_be_chosen(project, meeting.meant.atom, dtype) for dtype in halves):
        return False
    return is_reached(project, meeting.module, meeting.node) and steps_can_run(project, atoms)


def is_only_possible(project: Project, meeting: Meeting) -> bool:
    """Whether nothing but "this can be 16-bit" tells of a mistake: no run is known in which it is.

    Classes are written for both, and who casts to float32 in front of a layer often knows that the layer is float32, or
    that every caller opens autocast. Indexed writes raise under autocast too, and are known from its regions.
    """
    atom = meeting.meant.atom
    if atom.role is Role.EXPRESSION:  # ``camera.dtype``, ``dtype=torch.float32``
        named_wide = bool(atom.candidates) and atom.candidates.isdisjoint(HALVES)
        return atom.made is MadeHow.FOLLOWED or named_wide or _is_never_half(project, meeting)
    if meeting.mix == "raises-destination" and atom.made is MadeHow.LAYER:
        return region_around(project, meeting) is None
    return atom.role in (Role.WEIGHTS, Role.PARAMETER, Role.DATA)


def region_around(project: Project, meeting: Meeting) -> HalfProgram | None:
    """A run of the project with an open region around what writes through an index."""
    module, node = meeting.module, meeting.node
    found = (run for run in runs_of(project, module, node) if is_switched_on(project, run))
    return next((run for run in found if can_be_inside(project, run, module, node)), None)


def _is_in_region(project: Project, meeting: Meeting) -> bool:
    """Whether a program that reaches the place opens autocast, which casts both operands of what would raise."""
    may_be_cast = meeting.mix == "raises" and meeting.autocast is Autocasting.MAYBE and not meeting.certain
    run = region_around(project, meeting) if may_be_cast else None
    return run is not None and run.region is not None


def _is_never_half(project: Project, meeting: Meeting) -> bool:
    """``def f(x, dtype=torch.float32)``: all that is known to be passed for the dtype that was meant is wider."""
    said, module = meeting.meant.atom.expression, meeting.module
    if not isinstance(said, ast.Name):
        return isinstance(said, ast.Attribute) and is_given_in_float32(project, meeting, said)
    bindings = [item for item in module.scope_of(meeting.node).lookup(said.id) if item.kind == "parameter"]
    for step in chain_of(meeting.meant.atom):  # of the method that casts what ``self`` holds
        document = project.document(step.path) if isinstance(step.node, ast.arg) and step.node.arg == said.id else None
        module = names_of(project, document) if document is not None else module
        bindings = [item for item in module.all_bindings if item.node is step.node] or bindings
    found = {value for item in bindings for value in constants_of(project, module, item) if isinstance(value, Dtype)}
    return bool(found) and found.isdisjoint(HALVES)


def _widening(project: Project) -> frozenset[ast.AST]:
    """The operations whose float32 result raises somewhere in the project, and what made the tensors that do."""
    raising = [item for item in all_meetings(project) if item.mix != "promotes"]
    mixtures = [item.odd.atom.mixture for item in raising]
    return frozenset((*map(_maker, raising), *(mixture.node for mixture in mixtures if mixture is not None)))


def _is_kept(meeting: Meeting) -> bool:
    """``self.bounds = torch.cat(...)``: a concatenation that is stored away, for readers that are not looked at."""
    statement = meeting.module.statement_of(meeting.node)
    stored = isinstance(statement, ast.Assign) and all(isinstance(item, ast.Attribute) for item in statement.targets)
    return meeting.mix == "promotes" and stored


def _is_only_returned(meeting: Meeting) -> bool:
    """Whether a concatenation leaves its function and does nothing else: its caller may cast it."""
    return meeting.mix == "promotes" and all(_leaves(meeting.module, item) for item in readers(meeting))


def _leaves(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a value is returned as it is, beside others or in another shape."""
    parent = module.parents.get(node)
    called = module.parents.get(parent) if isinstance(parent, ast.Attribute) else None
    if isinstance(parent, ast.Attribute) and isinstance(called, ast.Call) and keeps_dtype(parent.attr):
        return _leaves(module, called)
    passed = isinstance(parent, ast.Tuple | ast.List | ast.Dict | ast.Subscript)
    return isinstance(parent, ast.Return) or (passed and parent is not None and _leaves(module, parent))


def family_of(meeting: Meeting) -> ClashFamily:
    """The kind of mistake: what was done to the operand that is too wide, and where it meets the other."""
    odd = meeting.odd.atom
    if meeting.mix == "raises-destination":
        return ClashFamily.WRITE
    if meeting.mix == "promotes":
        return ClashFamily.JOIN
    if meeting.operation in ATTENTION_OPERATIONS:
        return ClashFamily.ATTENTION
    if is_left_by_autocast(meeting) or is_other_half(meeting):
        return ClashFamily.SUBMODULE
    if odd.made is MadeHow.FACTORY:
        return ClashFamily.FACTORY
    if odd.role is Role.DATA or odd.made in (MadeHow.MODULE, MadeHow.OUTPUT, MadeHow.TABLE, MadeHow.PLAIN):
        return ClashFamily.SUBMODULE
    return ClashFamily.CAST


def is_mistake(meeting: Meeting) -> bool:
    """Whether a meeting is worth a finding: islands of float32 that were built on purpose are not."""
    odd, meant = meeting.odd.atom, meeting.meant.atom
    if meeting.function is not None and meeting.function.name == "__init__":
        return False  # the weights have just been made, in float32
    if is_cast_to_the_other(meeting):
        return False
    if meeting.operation == "module" and _is_entry_or_loss(meeting):
        return False
    if meeting.mix == "promotes" and (meeting.autocast is Autocasting.ON or _asked_for_float32(odd)):
        return False  # the layer behind a concatenation under autocast casts it
    if odd.dtype is not None and odd.dtype != FP32 and not is_other_half(meeting):
        return False  # float64 is asked for on purpose
    if odd.made is MadeHow.AUTOCAST or meant.made is MadeHow.AUTOCAST:
        return meeting.mix == "raises-destination" or (meeting.certain and meeting.autocast is Autocasting.OFF)
    return meeting.certain or not (meeting.mix == "raises" and _is_deliberate(meeting))


def _is_entry_or_loss(meeting: Meeting) -> bool:
    """``self(inputs)`` in a training step, whose class casts its own inputs; losses are float32 and hold no weights."""
    name = last_name(meeting.meant.node)
    return name == "self" or any(word in name.lower() for word in LOSSES)


def _asked_for_float32(odd: Atom) -> bool:
    """``torch.randn(..., dtype=torch.float32)``: latents that are kept in float32 on purpose."""
    first = chain_of(odd)[:1]
    return odd.made is MadeHow.CAST and bool(first) and isinstance(first[0].node, ast.Attribute)


def _is_deliberate(meeting: Meeting) -> bool:
    """``self.norm(x.float())``: the cast stands at the very boundary, so its author knows the weights' dtype there.

    A functional call with the class's own weight beside it (``F.layer_norm(x.float(), ..., self.weight)``) shows that
    the weights were forgotten.
    """
    return meeting.operation not in NORMS and is_written_cast(meeting.odd.node)


def is_written_cast(node: ast.expr) -> bool:
    """Whether the operand itself is a cast: ``x.float()``, ``x.to(torch.float32)``."""
    if not isinstance(node, ast.Call) or receiver_of(node, "float", "to") is None:
        return False
    given = [*node.args, *(item.value for item in node.keywords if item.arg not in MOVING)]
    return last_name(node.func) == "float" or any(not is_device(item) for item in given)


def told(rule: Rule, project: Project, meeting: Meeting, message: str, fixes: Iterable[Fix | None]) -> Finding:
    """The finding of a rule where two dtypes meet."""
    return rule.at(meeting.module, meeting.node, message, evidence(project, meeting), fixes)


def evidence(project: Project, meeting: Meeting) -> tuple[Place, ...]:
    """Where both dtypes come from."""
    seen = [place_seen(project, meeting)] if meeting.seen is not None else []
    run = region_around(project, meeting) if meeting.meant.atom.made is MadeHow.LAYER else None
    regions = [run.place] if run is not None else []
    mixture = meeting.odd.atom.mixture
    mixed = step_places(project, mixture, "here it promotes what it is combined with") if mixture is not None else ()
    atoms = (meeting.odd.atom, meeting.meant.atom)
    run_of_choice = choosing_another(project, *atoms) if is_other_half(meeting) else None
    chosen = run_of_choice.places if run_of_choice is not None else ()
    return distinct((*seen, *atom_places(project, atoms), *regions, *mixed, *chosen))


def name_of(node: ast.expr) -> str:
    """An operand as a message calls it."""
    text = ast.unparse(node)
    return text if len(text) <= 50 else f"{text[:47]}..."
