"""The part of a move that frameworks' tables know: config files, launch scripts, trainers' arguments."""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Applicability, Finding, Fix, Rule
from ...codemod.source.project import Project
from ...codemod.trainers.writing.moves import Move, moves_of

FIX = "move"


def framework_findings(project: Project, rule: Rule) -> Iterator[Finding]:
    """One finding for each place that a known trainer reads and that is not at the target."""
    for move in moves_of(project):
        place = move.settings[0].place if move.settings else move.scope.place
        yield rule.finding(
            _message(project.target or "", move),
            place.path,
            place.span,
            evidence=[setting.place for setting in move.settings] if len(move.settings) > 1 else (),
            fixes=_fixes(project.target or "", move),
        )


def _message(target: str, move: Move) -> str:
    asked = sorted(move.scope.regimes)
    title = move.scope.framework.title
    said = f"{title} runs {' and '.join(asked)} here" if asked and asked != [target] else f"{title} is not all there"
    extra = "; ".join(move.reports)
    return f"{said}, the target is {target}" + (f": {extra}" if extra else "")


def _fixes(target: str, move: Move) -> list[Fix]:
    if not move.edits:
        return []
    return [Fix(FIX, f"{move.done} ({target} was asked for)", Applicability.SAFE, move.edits)]
