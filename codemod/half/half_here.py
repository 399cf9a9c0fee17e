"""Whether a tensor is 16-bit at one place: the question that all rules about 16-bit numbers ask.

Answered from the dtype flow of its function, whose callers are taken to have opened a region, and from what runs that
function. An answer is given only where every way the tensor can have got its dtype is a 16-bit one.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ..flow.analysis import flow_of
from ..flow.contexts import autocasts_by_node
from ..flow.frame import ASSUMED
from ..flow.lattice import Atom, Kind, MadeHow, Role
from ..model import Place
from ..purpose.entered import way_inside
from ..purpose.proved_reach import can_run
from ..purpose.regimes import speaks_of_precision
from ..purpose.runs import HalfProgram, is_switched_on, open_scenarios, runs_of, uses
from ..python.arguments import receiver_of
from ..python.names import FunctionNode, ModuleNames, names_of
from ..python.paths import guards
from ..python.seen import seen_of
from ..source.project import Project
from ..torch.autocast import autocasts_in
from ..torch.dtypes import FP32, HALVES, Dtype
from .atom_places import atom_places, chain_of, steps_can_run
from .enclosed import can_be_inside


@dataclass(frozen=True, slots=True)
class Half:
    """Why a tensor is, or can be, 16-bit here."""

    dtypes: frozenset[Dtype]
    """All 16-bit types it can have here."""
    certain: bool
    """Whether it is of such a type in every run; else only where autocast is on."""
    steps: tuple[Place, ...]
    """How it got its dtype."""
    reached: bool = True
    """Whether what makes it so is seen to use this code; else it only stands in a folder around it."""
    seen: str = ""
    """The rehearsal that nothing but tells of it, as a message says it."""
    places: tuple[tuple[Place, frozenset[Dtype]], ...] = ()
    """What opens autocast around it, and the types it chooses."""

    @property
    def why(self) -> tuple[Place, ...]:
        """The evidence."""
        return self.why_of(self.dtypes)

    def why_of(self, dtypes: Collection[Dtype]) -> tuple[Place, ...]:
        """The evidence that it is of one of these types: the first program that computes in it."""
        return (*self.steps, *[place for place, chosen in self.places if not chosen.isdisjoint(dtypes)][:1])

    def when(self, names: str) -> str:
        """In which runs it is of these types, for a message; empty for all."""
        return "" if self.certain else self.seen or f"as soon as autocast computes in {names}"


def half_here(project: Project, module: ModuleNames, node: ast.expr, *, despite_casts: bool = False) -> Half | None:
    """The 16-bit types that the tensor ``node`` can have where it stands; None when none is certain to be possible.

    ``despite_casts``: also where an operand was cast to float32, which autocast undoes.
    """
    if is_told_apart(project, module, node):
        return None
    if not can_run(project, module, node):
        return _as_seen(project, module, node)
    value = flow_of(project).value_at(module, node, ASSUMED)
    atoms = value.atoms if value.kind is Kind.TENSOR else ()
    if not atoms:
        return _as_seen(project, module, node)
    if all(atom.dtype in HALVES and atom.made is not MadeHow.AUTOCAST for atom in atoms):
        dtypes = frozenset(atom.dtype for atom in atoms if atom.dtype is not None and steps_can_run(project, (atom,)))
        return Half(dtypes, True, atom_places(project, atoms)) if dtypes else None
    if all(_is_lowered(atom) for atom in atoms) and (despite_casts or not _is_raised(project, module, node, atoms)):
        return _under_autocast(project, module, node, atoms)
    return None


def _as_seen(project: Project, module: ModuleNames, node: ast.expr) -> Half | None:
    """What a rehearsal saw, where reading tells nothing: each time a 16-bit tensor."""
    seen = seen_of(project)
    names = seen.dtypes_of(module, node) if seen is not None else ()
    dtypes = frozenset(dtype for dtype in HALVES if dtype.name in names)
    if seen is None or not names or len(dtypes) < len(names):
        return None
    when = f"in the rehearsal of {seen.observation.name}"
    place = module.place(node, f"it is {' or '.join(names)} {when}")
    return Half(dtypes, False, (place,), seen=when)


def is_told_apart(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a condition around the place already asks for the precision."""
    return any(speaks_of_precision(project, module, guard.test) for guard in guards(module, node))


def _is_lowered(atom: Atom) -> bool:
    return atom.role is Role.AUTOCAST or (atom.dtype in HALVES and atom.made is MadeHow.AUTOCAST)


def _is_raised(project: Project, module: ModuleNames, node: ast.expr, atoms: tuple[Atom, ...]) -> bool:
    """Whether an operand of what autocast computes was cast to float32: a region that is off is meant around it."""
    function = module.scope_of(node).function.node
    if not isinstance(function, FunctionNode):
        return False
    values = flow_of(project).observed(module, function, ASSUMED).record.values
    steps = [step.node for atom in atoms for step in chain_of(atom) if step.path == module.document.path]
    operands = (values.get(item) for step in steps for item in _operands(step) if item is not None)
    tensors = (value for value in operands if value is not None and value.kind is Kind.TENSOR)
    return any(atom.dtype == FP32 and atom.made is MadeHow.CAST for value in tensors for atom in value.atoms)


def _operands(node: ast.AST) -> Iterator[ast.expr | None]:
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
    elif isinstance(node, ast.Call):
        yield from (*node.args, receiver_of(node))


def _under_autocast(project: Project, module: ModuleNames, node: ast.expr, atoms: tuple[Atom, ...]) -> Half | None:
    why = atom_places(project, atoms)
    if all(atom.symbol != ASSUMED.atom.symbol for atom in atoms):
        dtypes = frozenset(dtype for atom in atoms for dtype in open_halves(project, atom))
        return Half(dtypes, False, why) if dtypes else None
    if _keeps_float32(project, module):
        return None  # parts of this file are in float32 on purpose, and this may be called from there
    known = [run for run in runs_of(project, module, node) if is_switched_on(project, run)]
    inside = [run for run in known if can_be_inside(project, run, module, node)]
    users = [run for run in inside if uses(project, run, module, node)]
    way = way_inside(project, module, node)
    own = way.region if way is not None and way.region is not None and way.region.module is module else None
    nearest = sorted(users or inside, key=lambda run: run.region is None or run.region is not own)
    found = {run.place: _chosen_halves(project, run) for run in nearest}
    named = frozenset(dtype for dtypes in found.values() for dtype in dtypes)
    return Half(named, False, why, bool(users), places=tuple(found.items())) if named else None


def _chosen_halves(project: Project, run: HalfProgram) -> frozenset[Dtype]:
    """Of the 16-bit types that a program can compute in those that a given run of it chooses."""
    if run.region is None:
        return run.dtypes
    return run.dtypes & {item.value for item in open_scenarios(project, run.region) if isinstance(item.value, Dtype)}


def open_halves(project: Project, atom: Atom) -> Iterator[Dtype]:
    """The 16-bit types that the region of an atom computes in, in runs in which it is open."""
    source = next(iter(chain_of(atom)), None)
    document = project.document(source.path) if source is not None else None
    regions = autocasts_by_node(project, names_of(project, document)) if document is not None else {}
    region = regions.get(source.node) if source is not None else None
    known = {item.value for item in open_scenarios(project, region)} if region is not None else None
    for dtype in (atom.dtype, *atom.candidates):
        if dtype in HALVES and dtype is not None and (known is None or dtype in known):
            yield dtype


def _keeps_float32(project: Project, module: ModuleNames) -> bool:
    return "custom_fwd" in module.attribute_loads or any(item.switched_off for item in autocasts_in(project, module))
