"""What the settings that code asks are in one run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..python.conditions import conditions_in
from ..python.names import ModuleNames
from ..source.project import Project
from ..torch.dtypes import Constant, TextCondition
from ..trainers.reading.links import joined_sources
from ..trainers.reading.picked_words import SPELLINGS, module_of
from ..trainers.reading.run_members import Run
from ..trainers.reading.scopes import FALSE, TRUE
from ..trainers.reading.source import ValueSource


@dataclass(frozen=True, slots=True)
class RunValues:
    """The values that the settings of one run have."""

    project: Project
    run: Run

    def is_reached(self, module: ModuleNames, node: ast.expr) -> bool:
        given = conditions_in(self.project, module).path_given(node)
        return all(self.holds(module, item) is not False for item in given)

    def holds(self, module: ModuleNames, given: TextCondition) -> bool | None:
        """Whether a test may hold in the run; None where its setting is not known."""
        values = self.read(module, given.node, given)
        truths = [bool(value) if given.values == (True,) else value in given.values for value in values]
        return given.equal in truths if truths else None

    def words(self, module: ModuleNames, node: ast.expr) -> list[str]:
        return sorted(value for value in self.read(module, node) if isinstance(value, str) and "$" not in value)

    def read(self, module: ModuleNames, node: ast.expr, given: TextCondition | None = None) -> set[Constant]:
        """What an expression can be in the run; empty where nobody knows."""
        owner = module_of(self.project, module, given.scope) if given is not None else module
        found = [*joined_sources(self.project, owner, node)] if owner is not None else []
        own = [item for item in found if not item.is_guessed and self._is_given(item)]
        strongest = min((item.strength for item in own), default=None)
        spelled = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        values = {item.value for item in own if item.strength == strongest and not item.picked_by}
        values = values or {*self._told_trainers(node)} if not found else values
        return {getattr(each, spelled)() if isinstance(each, str) and spelled in SPELLINGS else each for each in values}

    def _told_trainers(self, node: ast.expr) -> Iterator[Constant]:
        """What a trainer of the run is told under a name (``args.bf16``) that no parser of the project defines."""
        name, left_out = node.attr if isinstance(node, ast.Attribute) else "", False
        for member in self.run.members if name else ():
            key = member.scope.framework.key(name)
            told = member.scope.last(name) if key is not None and key.means and self.run.counts(member) else None
            if told is not None and told.value is not None and not member.handed:
                yield told.value == TRUE if told.value in (TRUE, FALSE) else told.value
                return
            if told is None and key is not None and key.meaning(TRUE) is not None and self.run.counts(member):
                left_out |= not (member.scope.is_open or member.handed)
        if left_out:
            yield False

    def _is_given(self, source: ValueSource) -> bool:
        """Whether a value of a command line is that of the run's own."""
        config, command = source.config, self.run.command
        if not source.is_of_line:
            return True
        if config is None or command is None or config.document.path != self.run.place.path:
            return False
        return not source.calls or any(config.text.commands[number] == command for number in source.calls)
