"""Where the flow and a rehearsal contradict each other: then the flow is wrong, and nothing is concluded from it."""

from __future__ import annotations

import ast

from ..python.names import ModuleNames
from ..python.seen import Seen, seen_of
from ..source.project import Project
from ..torch.dtypes import HALVES
from .analysis import flow_of
from .encounters import all_meetings
from .frame import Autocasting, AutocastState, Meeting
from .lattice import FLOATING, Atom, Kind, MadeHow

LOOKED_AT = AutocastState(Autocasting.MAYBE)


def contradiction(project: Project, meeting: Meeting) -> str:
    """How a rehearsal contradicts what the flow says of a meeting; empty where it does not, or did not look."""
    seen = seen_of(project)
    if seen is None or seen.stale:
        return ""  # what was seen may come from a file that is another one now
    sides = ((meeting.odd.node, meeting.odd.atom), (meeting.meant.node, meeting.meant.atom))
    told = (_of_operand(project, seen, meeting.module, node, atom) for node, atom in sides)
    return next(filter(None, told), "")


def contradictions(project: Project) -> tuple[str, ...]:
    """Each contradiction once, with its place."""
    found = ((each, contradiction(project, each)) for each in all_meetings(project))
    lines = [f"{each.module.path}:{each.module.document.span(each.node).row}: {text}" for each, text in found if text]
    return tuple(sorted(dict.fromkeys(lines)))


def _of_operand(project: Project, seen: Seen, module: ModuleNames, node: ast.expr, atom: Atom) -> str:
    saw = seen.dtypes_of(module, node)
    if not saw or atom.dtype not in FLOATING or atom.made is MadeHow.AUTOCAST:
        return ""
    value = flow_of(project).value_at(module, node, LOOKED_AT)
    atoms = value.atoms if value.kind is Kind.TENSOR else ()
    dtypes = {each.dtype.name if each.dtype is not None else "" for each in atoms}
    if not dtypes or "" in dtypes or dtypes & {*saw} or any(each.made is MadeHow.AUTOCAST for each in atoms):
        return ""
    if not any(name == each.name for name in saw for each in (*FLOATING, *HALVES)):
        return ""
    name = ast.unparse(node)[:60]
    return f"{name} was {' or '.join(saw)} in the rehearsal, and precfix took it for {' or '.join(sorted(dtypes))}"
