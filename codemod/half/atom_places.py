"""Where a tensor got its dtype, as evidence."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ..flow.contexts import autocasts_by_node
from ..flow.lattice import Atom, DtypeSource, Mixture
from ..model import Place
from ..purpose.decided import Decided, decided, stated_values
from ..purpose.given import is_given
from ..purpose.proved_reach import can_run
from ..purpose.runs import can_be_open, go_together
from ..python.conditions import conditions_in
from ..python.names import ModuleNames, modules_at, names_of
from ..python.paths import guards
from ..source.project import Project
from ..torch.dtype_values import scenarios_of
from ..torch.dtypes import Dtype, Scenario, TextCondition

LONGEST = 60
"""Characters of a condition that a message repeats."""
MAX_STEPS = 4
"""Steps of one evidence chain that are shown."""


def chain_of(atom: Atom) -> list[DtypeSource]:
    """The steps that gave an atom its dtype, oldest first."""
    steps: list[DtypeSource] = []
    source = atom.source
    while source is not None:
        steps.append(source)
        source = source.before
    return steps[::-1]


def steps_can_run(project: Project, atoms: Iterable[Atom]) -> bool:
    """Whether some run takes the branches in which atoms got their dtype, and opens the regions that gave it."""
    for step in (step for atom in atoms for step in chain_of(atom)):
        document = project.document(step.path)
        module = names_of(project, document) if document is not None and hasattr(step.node, "lineno") else None
        if module is None or step.node not in module.parents:
            continue
        region = autocasts_by_node(project, module).get(step.node)
        if not can_run(project, module, step.node) or (region is not None and not can_be_open(project, region)):
            return False
    return True


def may_be_chosen(project: Project, atom: Atom, dtype: Dtype) -> bool:
    """Whether a run that the project gives chooses a dtype: ``bfloat16`` where ``--mixed_precision bf16`` is asked for.

    An option that is None by default leaves it to the configuration of the machine.
    """
    source, said = atom.source, atom.expression
    document = project.document(source.path) if source is not None else None
    if atom.dtype is not None or source is None or document is None or said is None:
        return True
    module = names_of(project, document)
    found = [each.given for each in _values_of(project, module, source, said) if each.value == dtype]
    around = conditions_in(project, module).path_given(source.node) if source.node in module.parents else ()
    return not found or any(
        all(_is_open(project, module, item) for item in given) and go_together(project, module, (*given, *around))
        for given in found
    )


def choosing_another(project: Project, fixed: Atom, chosen: Atom) -> Decided | None:
    """A run that the project gives in which ``fixed`` has its dtype, and the weights are chosen to have another."""
    source, said = chosen.source, chosen.expression
    document = project.document(source.path) if source is not None else None
    if source is None or document is None or said is None:
        return None
    module = names_of(project, document)
    for each in _values_of(project, module, source, said):
        known = decided(project, module, each.given) if each.given and isinstance(each.value, Dtype) else None
        for step in chain_of(fixed):
            other = next(modules_at(project, (step.path,)), None)
            if known is not None and other is not None and step.node in other.parents:
                known = decided(project, other, conditions_in(project, other).path_given(step.node), known)
        if known is not None and not known.open and each.value != fixed.dtype:
            return known
    return None


def _values_of(project: Project, module: ModuleNames, source: DtypeSource, said: ast.expr) -> Iterator[Scenario]:
    """The values of the dtype that an atom was given, each with what must hold for it; of a name, to be bound so."""
    if not isinstance(said, ast.Name):
        yield from scenarios_of(project, module, said) if said in module.parents else ()
        return
    for binding in module.scope_of(source.node).lookup(said.id) if source.node in module.parents else ():
        given = conditions_in(project, module).path_given(binding.node)
        yield from (each.under(*given) for each in scenarios_of(project, module, binding))


def _is_open(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    values = stated_values(project, module, item) or ()
    return is_given(project, module, [item]) or any(source.value is None for source in values)


def atom_places(project: Project, atoms: Iterable[Atom]) -> tuple[Place, ...]:
    """The first steps of the chains of some atoms, each place once."""
    steps = (step for atom in atoms for step in chain_of(atom)[:MAX_STEPS])
    return distinct(place for step in steps for place in step_places(project, step, step.text))


def condition_of(project: Project, atom: Atom) -> str:
    """The innermost test behind which it gets its dtype: ``if args.bf16``, ``unless args.fp32``; empty for none."""
    for step in chain_of(atom):
        module = next(modules_at(project, (step.path,)), None)
        for guard in reversed(guards(module, step.node) if module is not None and step.node in module.parents else ()):
            text = ast.unparse(guard.test)
            if len(text) <= LONGEST and "\n" not in text:
                return f"{'if' if guard.holds else 'unless'} {text}"
    return ""


def step_places(project: Project, step: DtypeSource | Mixture, text: str) -> Iterator[Place]:
    document = project.document(step.path)
    if document is not None and hasattr(step.node, "lineno"):
        yield Place(step.path, document.span(step.node), text)


def distinct(places: Iterable[Place]) -> tuple[Place, ...]:
    """The places without those that say the same of the same line again."""
    found: dict[tuple[str, int, str], Place] = {}
    for place in places:
        found.setdefault((place.path, place.span.row, place.message), place)
    return tuple(found.values())
