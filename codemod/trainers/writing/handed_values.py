"""Values that a trainer's call is handed from elsewhere: ``Accelerator(mixed_precision=args.mixed_precision)``.

They are changed where they come from, in the vocabulary of the trainer's key.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...model import Edit, EditRefused
from ...python.names import ModuleNames
from ...python.precision_words import CHOOSING
from ...source.project import Project
from ...torch.dtypes import HALVES, Constant, Dtype, as_dtype
from ...torch.machine_tests import asks_machine
from ..framework import FAMILIES, by_machine
from ..reading.joined_switches import is_joined
from ..reading.links import joined_sources, unfollowed_argument
from ..reading.picked_words import is_full
from ..reading.recognition import stands_inside
from ..reading.runs import runs_with
from ..reading.scopes import FALSE, NULL, TRUE, CodeOrigin, SettingScope, token_of_constant
from ..reading.source import ValueSource, only_fallbacks, unused_defaults
from .other_fallbacks import read_elsewhere
from .steps import ChangeStep
from .widened_options import OTHER_READERS, WIDENED, is_read_otherwise, widened

FP8 = "fp8"
"""What a trainer computes in on GPUs that have float8; no target of a move is as narrow, so a person decides."""
FALLBACK = "this value counts only where the configuration has none, and which one a run reads is not known"
UNREAD = "nothing is seen to read this file, only code that reads keys as it has them"
NEW_WORD = "the code asks for other words only, and is not seen to know this one"
OF_A_RUN = ("entry", "flag", "variable")
"""Kinds of sources of which each run has its own."""
PRECISIONS = frozenset({*CHOOSING, "fp32", "float32", "16"})
"""Words of a test that asks for one precision: what it picks is not renamed."""


def asks_the_machine(project: Project, scope: SettingScope, step: ChangeStep) -> bool:
    """Whether the value is decided by a test of the hardware (``bf16=is_bf16_supported()``): right on any machine.

    A test for a device alone (``fp16=torch.cuda.is_available()``) says so of a switch that is to be on.
    """
    found = scope.argument(step.setting) or _assigned(scope, step)
    if found is not None and any(source.machine is not None for source in joined_sources(project, *found)):
        return False  # a switch of its own decides as well
    for_bf16 = step.value != TRUE or bool(by_machine(step.value))
    return found is not None and asks_machine(project, *found, for_bf16=for_bf16)


def _assigned(scope: SettingScope, step: ChangeStep) -> tuple[ModuleNames, ast.expr] | None:
    """The expression of a variable that a program reads as a setting, where a machine may make it bfloat16."""
    if (
        step.setting is None
        or FAMILIES.get(step.key.meaning(step.value) or "") != "bf16"
        or not isinstance(scope.origin, CodeOrigin)
    ):
        return None
    return scope.origin.module, scope.origin.items[step.setting.index].value


def asks_for_a_device_only(scope: SettingScope, step: ChangeStep) -> bool:
    """``fp16=torch.cuda.is_available()``: whether there is a GPU, not which."""
    module, node = scope.argument(step.setting) or (None, None)
    called = module.qualified(node.func) if module is not None and isinstance(node, ast.Call) else None
    return called == "torch.cuda.is_available"


@dataclass(frozen=True, slots=True)
class AtSources:
    """What gives a setting its new value wherever it comes from."""

    edits: tuple[Edit, ...] = ()
    """Empty where all sources have it already."""
    doubt: str = ""
    """Why they may not be right for every run."""


def edits_at_sources(project: Project, scope: SettingScope, step: ChangeStep) -> AtSources | None:
    """The edits; None where a source is not known, speaks another vocabulary, or cannot be respelled."""
    argument = scope.argument(step.setting)
    found = joined_sources(project, *argument) if argument is not None else ()
    if found and all(source.value is None for source in found) and _launchers_decide(project, scope):
        return AtSources()
    if found and step.value == FALSE and all(_gives_way(project, scope, step, source) for source in found):
        return AtSources()
    stays = all(token_of_constant(source.value) == step.value == FALSE for source in found)
    if argument is not None and unfollowed_argument(project, *argument) is not None:
        return None
    ignored = unused_defaults(found) | _off_beside_others(found, step)
    ignored |= _off_where_others_are_on(project, scope, step, found)
    ignored |= _other_words(found) if step.key.meaning(step.value) != "fp32" else frozenset()
    picked = [source for source in found if _names_precision(source.picked_by)]
    follows = any(token_of_constant(item.value) == step.value for item in picked)
    follows = follows and (_decided_beside(project, scope) or _is_given(project, scope, step))
    edits: list[Edit] = []
    doubt = FALLBACK if only_fallbacks(found) and not stays else ""
    stated = False
    for source in found:
        token = token_of_constant(source.value)
        if source in ignored or source.is_guessed or (token == NULL and not source.word):
            continue
        if token in (None, FP8) or not step.key.accepts(token):
            return None
        if _is_an_exception(project, source) and step.key.meaning(token) == "fp32" != step.key.meaning(step.value):
            continue
        if source.picked_by and token != step.value:
            if step.key.meaning(token) == "fp32" != step.key.meaning(step.value):
                continue  # what the switch in the test is there for
            if follows and source in picked:
                stated = True
                continue  # the switch in the test moves, and there is a branch for its other value
            if step.key.meaning(step.value) == "fp32" or source in picked:
                return None
        stated = True
        is_alike = token.isdigit() or bool(source.word and step.key.meaning(token))
        if token != step.value and not (is_alike and step.key.meaning(token) == step.key.meaning(step.value)):
            try:
                edits.append(source.respelled(_constant(step, source)))
                doubt = doubt or read_elsewhere(project, source)
                if source.word and argument is not None and is_read_otherwise(project, *argument, source):
                    doubt = OTHER_READERS
                if source.word and step.value == FALSE and FALSE not in map(token_of_constant, source.offered):
                    doubt = NEW_WORD
            except EditRefused:
                taking = _widened(project, scope, step, source, found)
                if not taking:
                    return None
                edits += taking
                doubt = WIDENED
    stated = stated or any(True for _ in _likenesses(found, step))
    return AtSources(tuple(dict.fromkeys(edits)), doubt) if stated else None


def edits_of_likenesses(project: Project, scope: SettingScope, step: ChangeStep) -> Iterator[tuple[ValueSource, Edit]]:
    """The edits of files that nothing is seen to read, only code that reads such keys; what is off there stays."""
    argument = scope.argument(step.setting)
    for source, meant in _likenesses(joined_sources(project, *argument) if argument is not None else (), step):
        if meant != step.key.meaning(step.value):
            with suppress(EditRefused):
                yield source, source.believed.respelled(_constant(step, source))


def _likenesses(found: Sequence[ValueSource], step: ChangeStep) -> Iterator[tuple[ValueSource, str]]:
    """What such files ask for, each with its regime."""
    is_word = step.value not in (TRUE, FALSE)  # of two switches one may stand in another place
    for source in found if is_word else ():
        token = token_of_constant(source.value) if source.is_guessed and not source.picked_by else None
        meant = step.key.meaning(token) if token is not None and step.key.accepts(token) else None
        if meant not in (None, "fp32"):
            yield source, meant


def _widened(
    project: Project, scope: SettingScope, step: ChangeStep, source: ValueSource, found: Sequence[ValueSource]
) -> tuple[Edit, ...]:
    """The edits after which the option of a source takes the value, too; empty where that is not known."""
    argument = scope.argument(step.setting)
    try:
        return widened(project, argument[0], step.key, step.value, source, found) if argument is not None else ()
    except EditRefused:
        return ()


def _launchers_decide(project: Project, scope: SettingScope) -> bool:
    """Whether each run of a call that is given None says elsewhere what its trainer takes then."""
    runs = runs_with(project, scope)
    return bool(runs) and all(
        any(member.regime and member.scope.framework is scope.framework for member in run.members) for run in runs
    )


def _gives_way(project: Project, scope: SettingScope, step: ChangeStep, source: ValueSource) -> bool:
    """Whether a switch is off as soon as the other one is on: ``fp16=args.fp16 and not args.bf16, bf16=args.bf16``."""
    rivals = (scope.argument(item) for item in scope.settings if item.key.means and item is not step.setting)
    others = {
        (item.path, item.span, item.value) for rival in rivals if rival for item in joined_sources(project, *rival)
    }
    if source.word and (source.path, source.span) in {(path, span) for path, span, _ in others}:
        return FAMILIES.get(project.target or "") != "fp32"  # the word that picks the other one
    return any(all((item.path, item.span, not item.value) in others for item in group) for group in source.provided)


def _decided_beside(project: Project, scope: SettingScope) -> bool:
    """Whether another place decides what each run of a call computes in, as a trainer's own switches do."""
    winners = [run.winner for run in runs_with(project, scope)]
    return bool(winners) and all(item is not None and item.scope is not scope for item in winners)


def _is_given(project: Project, scope: SettingScope, step: ChangeStep) -> bool:
    """Whether each launch of a call gives the switch that picks this word: ``"bf16" if args.bf16 else "no"``."""
    members = [each for run in runs_with(project, scope) if run.command for each in run.members if each.scope is scope]
    return bool(members) and all(member.regime == step.key.meaning(step.value) for member in members)


def _names_precision(test: str) -> bool:
    """Whether a test asks for one precision; ``args.mixed_precision`` alone asks whether there is to be any."""
    words = _words(test)
    return not (PRECISIONS - ({"precision"} if "mixed" in words else set())).isdisjoint(words)


def asks_for_none(project: Project, scope: SettingScope, step: ChangeStep) -> bool:
    """Whether a step turns on what is written down as off: ``mixed_precision: no``, or an option's default of it."""
    if step.setting is None or step.key.meaning(step.value) in (None, "fp32"):
        return False
    argument = scope.argument(step.setting)
    found = joined_sources(project, *argument) if argument is not None else ()
    if found and all(is_full(item.word) for item in found):
        return True
    if step.key.is_switch or any(map(is_joined, found)):
        return False
    if step.setting.value is not None:
        return step.key.meaning(step.setting.value) == "fp32"
    ignored = unused_defaults(found) | _off_beside_others(found, step)
    kept = (
        source for source in found if not (source.is_guessed or source.picked_by or _is_an_exception(project, source))
    )
    tokens = [token_of_constant(source.value) for source in kept if source not in ignored]
    return any(token is not None and step.key.meaning(token) == "fp32" for token in tokens)


def is_switched_off(scope: SettingScope) -> bool:
    """Whether a switch is written down as off, as in ``bf16: false``."""
    return any(setting.value == FALSE for setting in scope.settings if setting.key.means)


def _off_beside_others(found: Sequence[ValueSource], step: ChangeStep) -> frozenset[ValueSource]:
    """The values of runs that have mixed precision off, where other runs have it on: these alone move."""
    regimes = {item: step.key.meaning(token_of_constant(item.value) or "") for item in found}
    per_run = [item for item in found if item.kind in OF_A_RUN]
    on = any(regimes[item] not in (None, "fp32") for item in per_run)
    return frozenset(item for item in found if on and regimes[item] == "fp32" != step.key.meaning(step.value))


def _other_words(found: Sequence[ValueSource]) -> frozenset[ValueSource]:
    """The words for float32 that code picks a value for, where runs are given one for 16 bits: these alone move."""
    on = any(as_dtype(item.word) in HALVES and item.kind in OF_A_RUN for item in found)
    return frozenset(item for item in found if on and item.word and is_full(item.word))


def _off_where_others_are_on(
    project: Project, scope: SettingScope, step: ChangeStep, found: Sequence[ValueSource]
) -> frozenset[ValueSource]:
    """The same of a switch: where a run has it on, and none has another one on, the others are off on purpose."""
    if step.value != TRUE or not any(item.value is True and item.kind in OF_A_RUN for item in found):
        return frozenset()
    rivals = (scope.argument(item) for item in scope.settings if item.key.means and item is not step.setting)
    others = (source for rival in rivals if rival is not None for source in joined_sources(project, *rival))
    is_alone = all(other.value is not True or other.is_guessed for other in others)
    return frozenset(item for item in found if is_alone and item.value is False)


def _is_an_exception(project: Project, source: ValueSource) -> bool:
    """``if [ "$PLATFORM" = Darwin ]; then export MIXED_PRECISION=no; fi``: meant for some machines only."""
    document = project.document(source.path) if source.kind == "variable" else None
    return document is not None and stands_inside(document, source.span.row)


def _words(test: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", test.lower().replace("_", " ")))


def _constant(step: ChangeStep, source: ValueSource) -> Constant:
    """The constant that a step writes at a place; where a word picks it, one of those that words pick."""
    token, wanted = step.value, step.key.meaning(step.value)
    if token not in map(token_of_constant, source.offered):
        alike = (token_of_constant(item) for item in source.offered)
        token = next((item for item in alike if item and wanted and step.key.meaning(item) == wanted), token)
    if token in (TRUE, FALSE):
        return token == TRUE
    return Dtype(token.removeprefix("torch.")) if isinstance(source.value, Dtype) else token
