"""Ready-made settings of which flags choose one, ``if args.fp16: return fpSixteen``: the flag moves, not these.

Also the word of a flag, ``if args.precision == "fp16"``, which gives way to the one that chooses what is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Edit, EditRefused
from ....codemod.purpose.targets import compute_dtype
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP32, HALVES, MIXED, Dtype
from ....codemod.trainers.framework import FAMILIES
from ....codemod.trainers.reading.chosen_alternatives import switches_of_choice, word_choosing
from ....codemod.trainers.reading.run_members import Run, RunMember
from ....codemod.trainers.reading.runs import runs_of
from ....codemod.trainers.reading.source import ValueSource
from ....codemod.trainers.writing.alternatives import chosen_in
from ....codemod.trainers.writing.moves import Move
from ....codemod.trainers.writing.unscaled import UNSCALED, would_be_unscaled
from .twin_flags import OTHER_USES, named_half, twin_flag

OF_FLAG = "what else the program does with its flag is not known"


def moves(project: Project) -> Iterator[Move]:
    """For each launch that chooses settings of the other 16-bit type the exchange of its flag."""
    wanted = compute_dtype(project.target)
    for run in runs_of(project) if wanted in (*HALVES, FP32) else ():
        for member in run.members:
            if _is_off(project, run, member):
                yield from _moves(project, run, member)


def _is_off(project: Project, run: Run, member: RunMember) -> bool:
    regime = member.regime
    is_other = regime is not None and FAMILIES[regime] != FAMILIES.get(project.target or "")
    return is_other and not member.is_picked and chosen_in(project, run, member.scope)


def _moves(project: Project, run: Run, member: RunMember) -> Iterator[Move]:
    wanted = compute_dtype(project.target)
    assert wanted is not None
    chosen = member.scope.place.saying("these settings are chosen by it")
    message = (
        f"{'this line' if run.command is not None else 'it'} chooses {member.regime}; the target is {project.target}"
    )
    start = run.command.start if run.command is not None else None
    own = [source for source in switches_of_choice(project, member.scope) if _is_on_line(run, source)]
    effect = "leave its flag out" if wanted == FP32 else "give the program its flag for the other type"
    doubt = OF_FLAG if wanted == FP32 else OTHER_USES
    worded = next(filter(None, (_reworded(project, run, member, source) for source in own)), None)
    edit: Edit | None = None
    if worded is not None:
        (effect, edit), doubt = worded, OF_FLAG
    elif FAMILIES[member.regime or ""] == "fp32":
        return
    elif wanted == FP32:
        edit = next(filter(None, (_dropped(source, FAMILIES[member.regime or ""]) for source in own)), None)
    else:
        given = (twin_flag(project, source, wanted) or _added(source, wanted) for source in own)
        edit = next(filter(None, given), None)
    if edit is not None and would_be_unscaled(project, member.scope, project.target or ""):
        yield Move(run.place.path, run.place.span, message, evidence=(chosen,), command=start).only_reported(UNSCALED)
        return
    if edit is not None:
        yield Move(run.place.path, run.place.span, message, effect, (edit,), (chosen,), doubt, command=start)
        return
    message += ": no flag of the program is known that chooses other settings"
    # What no line starts has no flag to exchange, and holds none of the others back.
    yield Move(run.place.path, run.place.span, message, evidence=(chosen,), command=start, aside=start is None)


def _reworded(project: Project, run: Run, member: RunMember, source: ValueSource) -> tuple[str, Edit] | None:
    """What sets the word on a line that chooses what stands beside the settings of a member and is at the target."""
    own, wanted = member.scope, FAMILIES.get(project.target or "")
    for other in run.members:
        is_beside = (other.scope.path, other.scope.title) == (own.path, own.title) and other.scope is not own
        if is_beside and FAMILIES.get(other.scope.regime or "") == wanted:
            word = word_choosing(project, other.scope, source)
            try:
                return (f"sets {source.key} to {word}", source.respelled(word)) if word is not None else None
            except EditRefused:
                return None
    return None


def _added(source: ValueSource, wanted: Dtype) -> Edit | None:
    """The flag for ``wanted`` on a line that gives the program none."""
    option = source.option
    if option is None or option.switch is not False or source.value is not False or named_half(option) != wanted:
        return None
    try:
        return source.respelled(True)
    except EditRefused:
        return None


def _dropped(source: ValueSource, family: str) -> Edit | None:
    """The line without the flag that chooses a 16-bit type."""
    option = source.option
    named = named_half(option) if option is not None and option.switch is False and source.value is True else None
    if named is None or FAMILIES[MIXED[named]] != family:
        return None
    try:
        return source.respelled(False)
    except EditRefused:
        return None


def _is_on_line(run: Run, source: ValueSource) -> bool:
    config = source.config
    if config is None or run.command is None or config.document.path != run.place.path:
        return False
    return any(config.text.commands[number].start == run.command.start for number in source.calls)
