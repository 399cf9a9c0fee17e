"""Whether what was written says what was asked for: the ledger of the new texts, run by run."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..engine import Options, check, choose
from ..half.weighed_ledger import run_of, weighed_ledger
from ..model import Finding, Fix, Place, Rule, Span
from ..outcome import Declaration, Report, RunEntry, RunReport, Target
from ..purpose.imports import importers_of
from ..purpose.proved_reach import has_programs, is_installed
from ..purpose.targets import compute_dtype
from ..python.names import modules_at
from ..source.documents import Document
from ..source.project import Project
from ..trainers.reading.code_declarations import TORCH
from ..trainers.reading.programs_started import is_program
from ..trainers.reading.reach_of_runs import may_use
from ..trainers.reading.region_switches import ENABLED
from ..trainers.reading.run_code import is_used
from ..trainers.reading.run_files import is_built_config, modules_imported_by_name
from ..trainers.reading.stated_casts import NOT_TRAINED
from ..trainers.writing.moves import stands_aside
from ..trainers.writing.transactions import STAYS
from .arriving import FP32, has_arrived, is_left_open, may_stay_open, off_target
from .chosen_besides import chosen_besides
from .float16_weights import float16_weights
from .handed_on import loads_from, written_by
from .left_behind import clipped_scaled, idle_scalers, left_behind, scalers_left_on
from .made_alike import made_alike
from .new_values import misses
from .pairs import RunPair, at_default, pairs_of
from .scaler_reads import old_switches, scaler_reads
from .scheduled import told_to_scheduler, told_to_script
from .still_says import shown_to_users
from .unaccounted import unaccounted

MOVE = "PF001"
OVERFLOWS = "PF604"
"""The rule about models that are known to overflow in float16: it may well run, so somebody has to want it."""
CONTRADICTIONS = ("PF1", "PF2", "PF302", "PF4", "PF5", OVERFLOWS)
"""Beginnings of the codes of rules about places that do not go together or raise; a move must bring none of them."""
CLIPPED = "PF103"
"""The rule about gradients that are clipped while they are scaled; under bfloat16 another one speaks of the scaler."""
MINOR = ("PF106",)
"""Rules about what only a later restart notices: they tell of it, and the move is right all the same."""
CARRIED_OUT = ("compute", "weights", "cast")
"""Roles of what a run does, not of what may be chosen for it."""
SAME = "such weights overflow in float16"
ALL_THE_SAME = "; --unsafe-fixes moves the run all the same"
CHANGED = "changed, for runs that switch it on"
IDLE = "nothing is seen to import this, and no run to come to it"
ONLY_MIXED = "a run that switches it on would compute in mixed precision"
ALONE = "{} is {}, and does not move alone: nothing else of this run would"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One run after the changes."""

    pair: RunPair
    applied: tuple[Fix, ...]
    """The fixes that moved something of it."""
    left: tuple[Finding, ...]
    """What the move still finds in it."""
    others: tuple[Fix, ...] = ()
    """Fixes of other rules in files of the run."""
    behind: tuple[Place, ...] = ()
    """What stays as it was although the run has moved: weights of the other 16-bit dtype, a scaler that may be on."""
    failures: tuple[Place, ...] = ()
    """Why its edits have to be taken back; empty where it has arrived, or nothing of it was changed."""
    is_apart: bool = False
    """Whether it trains nothing."""
    changed: tuple[Place, ...] = ()
    """What was moved in its code although mixed precision stays off in it."""
    doubts: tuple[Place, ...] = ()
    """What may decide its precision, and nothing accounts for: its edits need ``--unsafe-fixes``."""


def verdicts(
    project: Project, after: Project, report: Report, rules: Sequence[Rule], options: Options
) -> list[Verdict]:
    """Every run of ``project``, judged by ``after``, the texts that ``report`` would write."""
    tell(options, "what the changes bring")
    new = Counter(_likeness(item) for item in _contradictions(after, report.remaining, report, rules))
    new -= Counter(_likeness(item) for item in _contradictions(project, report.findings, report, rules))
    raised = [item for item in _contradictions(after, report.remaining, report, rules) if new[_likeness(item)] > 0]
    idle = {(place.path, place.span) for place in idle_scalers(after, report.target)} if raised else ()
    raised = [item for item in raised if item.code not in MINOR and (item.path, item.span) not in idle]
    raised = [item for item in raised if item.code != CLIPPED or not _is_clipped_before(project, after, item)]
    stated = weighed_ledger(project)
    runs = pairs_of(stated, weighed_ledger(after) if after is not project else stated)
    alike = dict(made_alike(project, after, runs)) if after is not project else {}
    runs = [at_default(after, pair) for pair in runs] if after is not project else runs
    judged = [_judged(project, after, pair, report, raised, options) for pair in _told(runs, options)]
    doubled = (_doubted(each, alike.get(each.pair.before), options) for each in judged)
    return [*_with_handed_on(project, [*doubled], options)]


def tell(options: Options, step: str) -> None:
    """Say to whoever watches what is going on."""
    if options.progress is not None:
        options.progress(step)


def _told(runs: Iterable[RunPair], options: Options) -> Iterator[RunPair]:
    for pair in runs:
        tell(options, f"after the move: {pair.before.title}")
        yield pair


def _doubted(each: Verdict, doubt: Place | None, options: Options) -> Verdict:
    """The verdict with one doubt more, if something of the run was moved."""
    if doubt is None or not each.applied or each.is_apart:
        return each
    held = () if options.unsafe_fixes else (doubt.saying(doubt.message + ALL_THE_SAME),)
    return replace(each, doubts=(*each.doubts, doubt), failures=(*each.failures, *held))


def _is_clipped_before(project: Project, after: Project, finding: Finding) -> bool:
    """Whether a clip works on scaled gradients today, too: of a scaler that is on around steps in bfloat16."""
    told = project.fact(clipped_scaled)
    calls = ((each, call) for each in modules_at(after, [finding.path]) for call in each.of_type(ast.Call))
    return any(
        (finding.path, ast.unparse(call)) in told for each, call in calls if each.document.span(call) == finding.span
    )


def _with_handed_on(project: Project, judged: Sequence[Verdict], options: Options) -> Iterator[Verdict]:
    """The verdicts; a run that loads what another one writes must not overflow in float16 either."""
    written: dict[str, Place] = {}
    for each in judged:
        place = next((item for item in each.doubts if item.message.startswith(OVERFLOWS)), None)
        run = run_of(project, each.pair.before) if place is not None else None
        written |= dict.fromkeys(written_by(run), place) if run is not None and place is not None else {}
    for each in judged:
        run = run_of(project, each.pair.before) if written and each.applied and not each.doubts else None
        for place, path in loads_from(project, run, written) if run is not None else ():
            doubt = place.saying(f"loads {path}, which {written[path].path}:{written[path].span.row} writes: {SAME}")
            each = _doubted(each, doubt, options)
            break
        yield each


def changed(project: Project, report: Report) -> Project:
    """The project with the new texts, in memory."""
    texts = {}
    for change in report.changes:
        document = project.document(change.path)
        if document is not None:
            texts[change.path] = Document(change.path, document.kind, change.after).text
    return project.with_texts(texts) if texts else project


def _judged(
    project: Project, after: Project, pair: RunPair, report: Report, raised: Sequence[Finding], options: Options
) -> Verdict:
    moves = ((finding, fix) for finding, fix in report.applied if finding.code == MOVE)
    moving = [(finding, fix) for finding, fix in moves if _moves(project, pair, finding, fix)]
    applied = tuple(fix for _, fix in moving)
    others = tuple(fix for finding, fix in report.applied if finding.code != MOVE and pair.is_touched(fix))
    idle = {(item.path, item.span) for item in scalers_left_on(pair)} if report.target.regime == FP32 else set()
    remaining = (item for item in report.remaining if item.code == MOVE and (item.path, item.span) not in idle)
    left = tuple(item for item in remaining if _concerns(project, pair, item))
    apart = _is_apart(project, pair.before)
    behind = tuple(left_behind(after, pair, report.target)) if applied and not apart else ()
    failures: tuple[Place, ...] = ()
    changed: tuple[Place, ...] = ()
    doubts: tuple[Place, ...] = ()
    if applied and not apart and _stays_off(pair):
        changed = tuple(Place(finding.path, finding.span, CHANGED) for finding, _ in moving)
        failures = (*_failures(pair, report, left, raised, options), *_read_all_the_same(pair))
        failures += tuple(place.saying(ONLY_MIXED) for place in changed if report.target.regime.endswith("-true"))
        doubts = tuple(unaccounted(after, pair, report.target, *modules_and_built(project, pair.before)))
        held = (place.saying(f"{place.message}{'' if failures else ALL_THE_SAME}") for place in doubts)
        failures = failures if options.unsafe_fixes else (*failures, *held)
    elif applied and not apart:
        known = {(place.path, place.span.row) for place in behind}
        overflowing = (item for item in raised if item.code == OVERFLOWS and _is_of(project, pair, item))
        new = run_of(after, pair.after or pair.before)
        doubted = [*misses(project, after, run_of(project, pair.before), new, report.target)]
        doubted += chosen_besides(project, after, pair, run_of(project, pair.before), new)
        doubted += [*_not_followed(project, after, pair, report.target), *map(_new, overflowing)]
        doubted += off_target(pair.after or pair.before, report.target) if is_left_open(pair, applied) else ()
        doubts = tuple(place for place in doubted if (place.path, place.span.row) not in known)
        loads = float16_weights(after, new, report.target)
        arrived = _not_arrived(pair, report.target, applied)
        failures = (*arrived, *_failures(pair, report, left, raised, options), *behind, *loads)
        held = (place.saying(f"{place.message}{'' if failures else ALL_THE_SAME}") for place in doubts)
        failures = failures if options.unsafe_fixes else (*failures, *held)
    elif others and not apart and pair.regime != pair.before.regime and not has_arrived(pair, report.target):
        failures = tuple(off_target(pair.after or pair.before, report.target))
    return Verdict(pair, applied, left, others, behind, failures, apart, changed, doubts)


def _not_followed(project: Project, after: Project, pair: RunPair, target: Target) -> list[Place]:
    """What a run is not known to be at the target with: what nothing accounts for, and what its users type."""
    found = list(unaccounted(after, pair, target, *modules_and_built(project, pair.before)))
    found += told_to_scheduler(after, pair.before.path, compute_dtype(target.regime))
    found += told_to_script(after, pair.before.path, compute_dtype(target.regime))
    run = run_of(after, pair.after or pair.before)
    found += shown_to_users(pair, target) if run is not None and run.command is None else ()
    found += _not_come_to(project, pair)
    before, is_left = pair.before.regime, target.regime not in ("fp16-mixed", pair.before.regime)
    modules = modules_of_run(project, pair.before)
    found += old_switches(after, modules, pair.before, compute_dtype(target.regime))
    return [*found, *scaler_reads(after, modules, before)] if is_left else found


def _not_come_to(project: Project, pair: RunPair) -> Iterator[Place]:
    """That nothing imports the code, beside programs that start: what it is for, nobody can tell."""
    path, programs = pair.before.path, has_programs(project)
    for module in modules_at(project, [path] if programs and not pair.is_run and path.endswith(".py") else ()):
        if not (importers_of(project, module) or is_installed(project, path) or is_program(project, path)):
            yield Place(path, Span(pair.before.row, 1, pair.before.row, 1), IDLE)


def _stays_off(pair: RunPair) -> bool:
    """Whether a run has mixed precision switched off, whatever moves in what it shares with others."""
    if pair.before.regime != FP32 or pair.regime != FP32:
        return False
    is_same = _winning(pair.before) == _winning(pair.after or pair.before)
    return is_same or any(_is_off(entry) for entry in pair.entries)


def _winning(run: RunReport) -> set[Declaration]:
    return {entry.declaration for entry in run.entries if entry.status == "wins"}


def _is_off(entry: RunEntry) -> bool:
    """Whether a region that the run reaches is there for runs that switch it on."""
    return entry.declaration.framework == TORCH and entry.declaration.condition.startswith(ENABLED)


def _read_all_the_same(pair: RunPair) -> Iterator[Place]:
    """What was changed although the run reads it whether a switch is on or off, and stays as it is."""
    after = {_said_by(entry) for entry in pair.entries}
    for item in (entry.declaration for entry in pair.before.entries if _said_by(entry) not in after):
        if item.role in CARRIED_OUT and item.condition in ("", NOT_TRAINED):
            yield Place(item.path, item.span, ALONE.format(item.key, item.value))


def _said_by(entry: RunEntry) -> tuple[str, str, str]:
    """What an entry says, wherever it stands after the edits."""
    return entry.declaration.path, entry.declaration.key, entry.declaration.value


def _moves(project: Project, pair: RunPair, finding: Finding, fix: Fix) -> bool:
    """Whether a fix changes the run: where the finding is, or in another file that the run reads."""
    touched = {edit.path for edit in fix.edits}
    here = not touched.isdisjoint((finding.path, pair.before.path))
    is_elsewhere = not (touched - {finding.path, pair.before.path}).isdisjoint(pair.paths)
    return is_elsewhere or (here and _concerns(project, pair, finding))


def _concerns(project: Project, pair: RunPair, finding: Finding) -> bool:
    """Whether a finding is about the run, or about a file that the run reads a setting from: its evidence says so."""
    if finding.path == pair.before.path:
        return pair.holds(finding)
    modules, built = modules_and_built(project, pair.before)
    if finding.path in built:
        return True
    modules = () if is_built_config(project, finding.path) else modules
    if finding.path in modules and not is_used(project, modules[0], finding.path, finding.span.row):
        calls = ((each, node) for each in modules_at(project, [finding.path]) for node in each.of_type(ast.Call))
        here = ((each, node) for each, node in calls if each.document.span(node) == finding.span)
        return any(may_use(project, modules[0], each, node) for each, node in here)
    return pair.holds(finding) or any(
        pair.says(place.path, place.span.row) for place in finding.evidence if place.message != STAYS
    )


def _not_arrived(pair: RunPair, target: Target, applied: Sequence[Fix]) -> Iterator[Place]:
    if not has_arrived(pair, target) and not may_stay_open(pair, target, applied):
        yield from off_target(pair.after or pair.before, target)


def _failures(
    pair: RunPair, report: Report, left: Sequence[Finding], raised: Sequence[Finding], options: Options
) -> Iterator[Place]:
    known = {(item.path, item.message) for item in report.findings if not item.fixes}
    for item in left:
        if choose(item, options) is not None or (item.path, item.message) not in known:
            yield Place(item.path, item.span, said(item, options))
    yield from (_new(item) for item in raised if item.code != OVERFLOWS and pair.holds(item))


def _new(finding: Finding) -> Place:
    return Place(finding.path, finding.span, f"{finding.code} would be new: {finding.message}")


def _is_of(project: Project, pair: RunPair, finding: Finding) -> bool:
    return pair.holds(finding) or finding.path in modules_of_run(project, pair.before)


def said(finding: Finding, options: Options) -> str:
    """What is found, and why its fix is not made."""
    _, _, reason = finding.fixes[0].message.partition("; unsafe, as ") if finding.fixes else ("", "", "")
    return finding.message + (f"; needs --unsafe-fixes, as {reason}" if reason and not options.unsafe_fixes else "")


def _contradictions(project: Project, found: Iterable[Finding], report: Report, rules: Sequence[Rule]) -> list[Finding]:
    """The findings about places that do not go together, also of rules that were not asked for."""
    ran = {rule.code for rule in report.rules}
    more = [rule for rule in rules if rule.code.startswith(CONTRADICTIONS) and rule.code not in ran]
    asked = check(project, more, report.target).findings if more else ()
    return [item for item in (*found, *asked) if item.code.startswith(CONTRADICTIONS)]


def _likeness(finding: Finding) -> tuple[str, str]:
    return finding.code, finding.path


def _is_apart(project: Project, run: RunReport) -> bool:
    """Whether a run trains nothing, or its trainers all compute on a CPU or were asked for something else."""
    read = run_of(project, run)
    scopes = [member.scope for member in read.members] if read is not None else []
    leading = [scope for scope in scopes if any(item.key.means for item in scope.settings)] or scopes
    return not run.trains or (bool(leading) and all(stands_aside(project, scope) for scope in leading))


def modules_of_run(project: Project, run: RunReport) -> tuple[str, ...]:
    """The modules that a run executes, the one that it starts with first."""
    return found.modules if (found := run_of(project, run)) is not None else ()


def modules_and_built(project: Project, run: RunReport) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The modules that a run executes, and those that it imports by the names which its configurations give them."""
    modules = modules_of_run(project, run)
    built = project.memo(modules_imported_by_name, frozenset(modules)) if modules else ()
    return modules, tuple(module.path for module in built)
