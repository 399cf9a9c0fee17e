"""What tests of settings say for a whole run: two branches that one setting decides go together."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..python.names import ModuleNames, names_of
from ..python.paths import Guard
from ..python.settings_objects import may_hold_settings
from ..source.child_fields import within
from ..source.facts import memo
from ..source.project import Project
from .frame import differing
from .lattice import Value

BranchFacts = frozenset[tuple[str, bool]]
"""Texts that are true or false."""
LASTING = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Name, ast.Attribute, ast.Constant)
"""What tests are made of that come out the same each time."""


def opposed(first: BranchFacts, second: BranchFacts) -> bool:
    """Whether facts say that two things are not in one run."""
    return any((text, not holds) in second for text, holds in first)


@memo
def lasting_facts(project: Project, module: ModuleNames, test: ast.expr, holds: bool) -> BranchFacts:
    """What an outcome of a test says for the whole run: of settings and names that nothing changes on the way."""
    return frozenset(Guard(test, holds).facts) if project.memo(_lasts, (module, test)) else frozenset()


def _lasts(project: Project, asked: tuple[ModuleNames, ast.expr]) -> bool:
    """Whether a test comes out the same each time."""
    module, test = asked
    nodes = within(test)
    named = [node for node in nodes if isinstance(node, ast.Name | ast.Attribute)]
    return (
        bool(named)
        and all(isinstance(node, LASTING) for node in nodes)
        and all(_stays(project, module, node) for node in named if module.parents[node] not in named)
    )


def _stays(project: Project, module: ModuleNames, node: ast.Name | ast.Attribute) -> bool:
    if isinstance(node, ast.Attribute):
        stored = project.fact(_stored, module.path)
        return node.attr not in stored and may_hold_settings(project, module, node.value)
    return len(module.bindings_of(node)) == 1


def _stored(project: Project, path: str) -> frozenset[str]:
    """The names of the attributes in which a file stores something."""
    module = module_of(project, path)
    return frozenset(module.attribute_stores if module is not None else ())


def module_of(project: Project, path: str) -> ModuleNames | None:
    """The module of a file that somebody has; None where an edit has left none."""
    document = project.document(path)
    return names_of(project, document) if document is not None and document.parses else None


def depending(names: dict[str, Value]) -> list[str]:
    """The places of which it depends on facts what they hold."""
    return [place for place, value in names.items() if value.atoms and any(atom.given for atom in value.atoms)]


def under(names: dict[str, Value], hanging: Sequence[str], facts_of: Callable[[], BranchFacts]) -> dict[str, Value]:
    """What places hold where facts are true, some of which depend on it: only then the facts are asked for."""
    result = dict(names)
    facts = facts_of() if hanging else frozenset()
    opposing = {(text, not holds) for text, holds in facts}
    for place in hanging:
        value = names[place]
        if not all(opposing.isdisjoint(atom.given) for atom in value.atoms):
            result[place] = _told(value, facts)
    return result


def _told(value: Value, facts: BranchFacts) -> Value:
    fitting = [atom for atom in value.atoms if not opposed(atom.given, facts)]
    return value.with_atoms(replace(atom, given=atom.given | facts) for atom in fitting) if fitting else value


def told_under(
    names: dict[str, Value], others: dict[str, Value], facts_of: Callable[[], BranchFacts]
) -> dict[str, Value]:
    """What places hold after a branch in which these facts are true; what the other branch left the same is no news."""
    changed = {place: names[place] for place in differing(names, others) if names[place].atoms}
    facts = facts_of() if changed else None
    return {**names, **{place: _told(value, facts) for place, value in changed.items()}} if facts else names
