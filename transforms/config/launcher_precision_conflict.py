"""The launcher, the config file and the script ask for different precisions.

## What goes wrong

`accelerate launch --mixed_precision fp16 train.py --mixed_precision bf16` trains in bf16, whatever the launcher says;
an accelerate file with `mixed_precision: bf16` beside a `deepspeed_config_file` stops the launch. People change one of
the places and the run still uses another.

## Why

The script's own argument wins over the launch flag, the launch flag over the accelerate file, and the file over the
default (accelerate 1.15). `TrainingArguments(fp16=False, bf16=False)` follows the environment all the same.

Which two places disagree stands in brackets: `la-two-mixed-precision` launch flag and script flag,
`launcher-env-conflict` a variable and a flag, `acc-script-overrides-launch` the script's own call and the launcher,
`script-overrides-arguments` the script's call and its flags or file, `hy-override-vs-file` a flag and a configuration
file.

## Fix

`respell` [unsafe] makes the places that are overridden follow the one that wins, `respell` [safe] where the run would
stop. With `--to` all of them go to the target.

## Not flagged

A DeepSpeed file against the arguments of a Hugging Face trainer, which raises then (deepspeed-precision-conflict).
Places that agree in other words (`fp16`, `16-mixed`), launches of different scripts, files that no launch names, a
command that itself switches off (`train.py --mixed_precision no`) what a launcher's file switches on. Launch lines in
tests and evaluations.
A variable or file that several launches share is reported and left as it is where they disagree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ...codemod.model import Finding, Fix, Place, Rule
from ...codemod.purpose.files import purpose_of
from ...codemod.source.project import Project
from ...codemod.trainers.reading.run_members import Run, RunMember
from ...codemod.trainers.reading.runs import runs_of
from ...codemod.trainers.writing.edits import change_of
from ...codemod.trainers.writing.findings import FIX, findings_of

OF_TRANSFORMERS = ("hf_trainer", "trl")
"""Trainers whose arguments are those of transformers (integrations/deepspeed.py, trainer_config_finalize, 5.24)."""
MAX_FIXED = 40
"""Conflicts of one file that get a fix: each one reads the whole file again. The others are found in the next run."""


def check(project: Project) -> Iterator[Finding]:
    """A finding for every place of a run that is overridden by another precision, and for what the tables know."""
    yield from findings_of(project, rule)
    told: set[tuple[str, str]] = set()
    found: Counter[str] = Counter()
    followed = _followed(runs_of(project))
    for run in runs_of(project):
        if purpose_of(run.place.path).is_left_alone:
            continue  # the flags of tests and evaluations are not read
        for weaker, winner in run.overridden():
            places = (str(_place(weaker)), str(_place(winner)))
            passed_over = _switches_off(weaker, winner) or _is_refused(weaker, winner)
            if run.command is not None and places not in told and not passed_over:
                told.add(places)
                found[weaker.scope.path] += 1
                fixed = len(followed[places[0]]) == 1 and found[weaker.scope.path] <= MAX_FIXED
                yield _finding(project, run, weaker, winner, fixed)


def _switches_off(weaker: RunMember, winner: RunMember) -> bool:
    """Whether the command itself switches off what a file, which other commands may share, switches on."""
    given = any(item.source.kind in ("flag", "variable") for item in winner.effective_handed)
    return weaker.rank == 1 and winner.regime == "fp32" and given


def _is_refused(weaker: RunMember, winner: RunMember) -> bool:
    """Whether nothing runs: transformers compares a DeepSpeed file with its arguments and raises, which PF502 says."""
    return weaker.scope.framework.id == "deepspeed" and winner.scope.framework.id in OF_TRANSFORMERS


def _followed(runs: Iterable[Run]) -> dict[str, set[str | None]]:
    """Place -> what wins in each run that it is a part of: a variable of several commands cannot follow them all."""
    found: dict[str, set[str | None]] = {}
    for run in runs:
        for member in run.members if run.command is not None and run.winner is not None else ():
            found.setdefault(str(_place(member)), set()).add(run.winner.regime if run.winner is not None else None)
    return found


def _finding(project: Project, run: Run, weaker: RunMember, winner: RunMember, fixed: bool) -> Finding:
    place, stronger = _place(weaker), _place(winner)
    by_default = all(setting is None for setting in winner.scope.regimes.values())
    given = next((item.source for item in winner.effective_handed if item.regime == winner.regime), None)
    if by_default and given is not None:
        by_default, stronger = False, given.place(f"{given.key} is {given.text}")
    how = "by its default" if by_default else f"at {stronger.path}:{stronger.span.row}"
    message = (
        f"{weaker.scope.framework.title} is set to {weaker.regime} here, and {winner.scope.framework.title} "
        f"{winner.regime} {how}: {winner.regime} is what runs"
    )
    if weaker.rank == 2 or winner.rank == 2:
        message += ", unless the trainer puts its variables first"
    return rule.found(
        place.saying(f"{message} [{_kind(weaker, winner)}]"),
        [place, stronger, run.place.saying("both are parts of this launch")],
        _fixes(project, weaker, winner) if fixed else (),
    )


def _kind(weaker: RunMember, winner: RunMember) -> str:
    """Which two places disagree, as the manual names it."""
    ranks = {weaker.rank, winner.rank}
    if 2 in ranks:
        return "launcher-env-conflict"
    if winner.rank == 6:
        return "acc-script-overrides-launch" if weaker.rank in (1, 3) else "script-overrides-arguments"
    return "la-two-mixed-precision" if 3 in ranks else "hy-override-vs-file"


def _place(member: RunMember) -> Place:
    """Where a member states its regime."""
    stating = next((setting for setting in member.scope.regimes.values() if setting is not None), None)
    return stating.place if stating is not None else member.scope.place


def _fixes(project: Project, weaker: RunMember, winner: RunMember) -> list[Fix]:
    """The weaker place follows the one that wins."""
    regime = project.target or winner.regime or ""
    change = change_of(project, weaker.scope, weaker.scope.framework.actions(regime) or ())
    return [change.unsafe(FIX, ", to match what takes effect")] if change is not None else []


rule = Rule.of("PF503", check)
