"""Parts of a model that are cast to float32 although the rest of it computes in 16 bits, and meets them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.frame import OfPart
from ....codemod.flow.lattice import Made, Role
from ....codemod.flow.roots import followed_modules, holders, in_order
from ....codemod.half.atom_places import chain_of, step_places
from ....codemod.model import Place
from ....codemod.purpose.entered import way_inside
from ....codemod.python.callers import callers_of
from ....codemod.python.functions import bases_of
from ....codemod.python.names import FunctionNode, ModuleNames, resolve
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import HALVES
from ..clashes import name_of

CASTS = ("float", "to")
WORDS = ("float()", "float32")
MAX_HOPS = 3
"""How many calls up a model is followed that a function returns."""
OWN_BASES = ("torch.nn.", "object", "abc.", "typing.")
Holder = FunctionNode | None


@dataclass(frozen=True, slots=True, eq=False)
class PartInFloat32:
    """``model.head.float()``, and where that raises."""

    module: ModuleNames
    cast: ast.Call
    part: ast.expr
    places: tuple[Place, ...]


def parts_in_float32(project: Project) -> Iterator[PartInFloat32]:
    """The casts of parts after that of their model, each with the first meeting that raises for it."""
    analysis, seen = flow_of(project), set[ast.AST]()
    for module, holder in _interpreted(project):
        done = analysis.module_body(module) if holder is None else analysis.function(module, holder)
        for item in done.record.of_parts:
            cast = chain_of(item.meeting.odd.atom)[0]
            if cast.node not in seen and _raises(project, item):
                part = _part(project, item, cast.path, cast.node)
                if part is not None:
                    seen.add(cast.node)
                    yield part


def _interpreted(project: Project) -> Iterator[tuple[ModuleNames, Holder]]:
    """The functions that cast parts of something, the methods beside them, and who calls these."""
    found: dict[tuple[ModuleNames, Holder], None] = {}
    for module in followed_modules(project, frozenset(project.python_paths(WORDS))):
        calls = [call for name in CASTS for call in module.calls_by_name.get(name, []) if _is_of_part(call)]
        for holder in in_order(_with_methods(module, holders(module, calls))):
            found[module, holder] = None
    new = list(found)
    for _ in range(MAX_HOPS):
        new = [item for item in _callers(project, new) if item not in found]
        found |= dict.fromkeys(new)
    return iter(found)


def _is_of_part(call: ast.Call) -> bool:
    """``a.b.float()``, ``a.b[0].to(torch.float32)``; for a loop over the parameters of a part, ``p.data.float()``."""
    held = call.func.value if isinstance(call.func, ast.Attribute) else None
    wide = not (call.args or call.keywords) if getattr(call.func, "attr", "") == "float" else "float32" in _given(call)
    return isinstance(held, ast.Attribute | ast.Subscript) and wide


def _given(call: ast.Call) -> str:
    return " ".join(ast.unparse(item) for item in (*call.args, *(keyword.value for keyword in call.keywords)))


def _with_methods(module: ModuleNames, found: set[Holder]) -> set[Holder]:
    """Where an object's own model is cast, the other methods of its class use it."""
    owners = [module.scopes[item].parent for item in found if item is not None]
    bodies = [owner.node.body for owner in owners if owner is not None and isinstance(owner.node, ast.ClassDef)]
    return found | {item for body in bodies for item in body if isinstance(item, FunctionNode)}


def _callers(project: Project, called: list[tuple[ModuleNames, Holder]]) -> Iterator[tuple[ModuleNames, Holder]]:
    for module, holder in called:
        if holder is not None:
            for site in callers_of(project, module, holder).sites:
                yield from ((site.module, item) for item in holders(site.module, [site.call]))


def _raises(project: Project, item: OfPart) -> bool:
    """Whether a 16-bit type certainly meets the part, where no autocast region can be open."""
    meant = item.meeting.meant.atom
    chosen = (
        meant.role is Role.EXPRESSION and meant.made is not Made.FOLLOWED and not meant.candidates.isdisjoint(HALVES)
    )
    if meant.dtype not in HALVES and not chosen:
        return False
    if _is_run_by_library(project, item):
        return False
    return way_inside(project, item.module, item.call) is None


def _is_run_by_library(project: Project, item: OfPart) -> bool:
    """Whether the call stands in a class of a library's kind (a Trainer, a LightningModule), which may open regions."""
    owner = item.module.scope_of(item.call).enclosing_class
    names = [resolve(project, item.module, base) or ast.unparse(base) for base in bases_of(owner)]
    return any(not name.startswith(OWN_BASES) for name in names)


def _part(project: Project, item: OfPart, path: str, cast: ast.AST) -> PartInFloat32 | None:
    module = next(followed_modules(project, (path,)), None)
    if module is None or not isinstance(cast, ast.Call):
        return None
    part = _cast_part(module, cast)
    return PartInFloat32(module, cast, part, tuple(_places(project, item))) if part is not None else None


def _cast_part(module: ModuleNames, cast: ast.Call) -> ast.expr | None:
    """What is cast: the part, also where the cast is of each of its parameters."""
    statement = module.statement_of(cast)
    loop = module.parents.get(statement)
    walks = loop.iter if isinstance(loop, ast.For) and isinstance(statement, ast.Assign) else None
    if isinstance(walks, ast.Call) and isinstance(walks.func, ast.Attribute) and walks.func.attr == "parameters":
        return walks.func.value
    return cast.func.value if isinstance(cast.func, ast.Attribute) else None


def _places(project: Project, item: OfPart) -> Iterator[Place]:
    meeting = item.meeting
    for step in chain_of(meeting.meant.atom)[:1]:
        yield from step_places(project, step, "the whole model is cast to 16 bits here")
    if item.call is not meeting.node:
        yield item.module.place(item.call, "the model runs here, in no autocast region")
    yield meeting.module.place(meeting.node, f"{name_of(meeting.odd.node)} meets another dtype here: this raises")
