"""Where the settings of a call that are not literals have their values from."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...model import Edit, EditRefused
from ...python.conditions import conditions_in
from ...python.names import ModuleNames, string_of
from ...python.options import Option
from ...source.facts import memo
from ...source.project import Project
from ...torch.dtype_values import constants_of
from ...torch.dtypes import HALVES, UNKNOWN, Constant, as_dtype
from ...torch.machine_answers import machine_answers
from .command_options import declared_options
from .configs import ConfigFile
from .hydra_picks import counts_in
from .joined_switches import asks_for_device
from .links import joined_sources, unfollowed_argument
from .loaded_files import is_passed_only
from .opened_files import Started, left_to_file
from .program_files import script_of, words_of_script
from .programs_started import modules_of
from .scopes import FALSE, NULL, TRUE, CodeOrigin, Setting, SettingScope, token_of_constant
from .source import ValueSource, unused_defaults

OFF = (FALSE, NULL)
OPEN = ""
"""The value of a switch beside which others have a say that nobody knows."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The command line that starts a script."""

    config: ConfigFile
    number: int
    """Which of the text's commands it is."""
    words: tuple[str, ...]
    files: frozenset[str]
    """The project's files that it names."""

    @property
    def started(self) -> Started:
        return Started(self.config.document.path, self.config.text.commands[self.number])

    def gives(self, options: frozenset[str]) -> bool:
        """Whether it gives an option that has one of these names; ``_`` and ``-`` are the same.

        Also in a variable that it has: ``if [ "$AMP" ]; then CMD="$CMD --amp"; fi``.
        """
        entries = (item for item in self.config.text.entries if self.number in (item.call, *item.also))
        written = (*self.words, *(str(item.key[0]) for item in entries if item.kind == "flag"))
        return not options.isdisjoint(word.partition("=")[0].replace("_", "-") for word in written)

    def has(self, source: ValueSource) -> bool:
        """Whether it gives the value that stands in a launch script: on this line, or on none that is seen."""
        config = source.config
        if config is None or config.document is not self.config.document:
            return False
        return not source.calls or (self.number in source.calls and config.within == self.config.within)


def is_left_out(project: Project, scope: SettingScope, launch: Launch) -> bool:
    """Whether a dictionary is built only with a switch that a launch line does not give: ``if args.deepspeed:``."""
    origin = scope.origin if scope.kind == "mapping" else None
    if not isinstance(origin, CodeOrigin) or origin.node is None or any("$" in word for word in launch.words):
        return False
    module = origin.module
    asked = conditions_in(project, module).path_given(origin.node)
    tested = (item.node for item in asked if item.equal and item.values == (True,))
    return any(_is_absent(project, module, node, launch) for node in tested if isinstance(node, ast.Attribute))


def _is_absent(project: Project, module: ModuleNames, node: ast.Attribute, launch: Launch) -> bool:
    found = declared_options(project, module, node.attr)
    flags = frozenset(flag.replace("_", "-") for option in found for flag in option.flags)
    return (
        bool(found)
        and all(option.switch is not None and not option.value_when_absent for option in found)
        and not launch.gives(flags)
    )


@dataclass(frozen=True, slots=True, eq=False)
class HandedSetting:
    """One place that a call's setting has its value from."""

    setting: Setting
    source: ValueSource
    value: str
    """As conditions write it; ``null``: nothing is given there."""
    without: str = ""
    """Its value on a machine without bfloat16, where the machine decides."""
    left_to: str = ""
    """The file that decides in its place in this run, where nobody knows which one that is."""
    is_idle: bool = False
    """Whether nothing that is seen asks for it."""

    @property
    def regime(self) -> str | None:
        """The regime that this value asks for."""
        return self.setting.key.meaning(self.value) if not (self.left_to or self.is_idle) else None

    @property
    def is_of_another(self) -> bool:
        """Whether a word for one 16-bit type leaves the switch of the other one off."""
        return self.value == FALSE and as_dtype(self.source.word) in HALVES

    @property
    def shown(self) -> str:
        """The value, or the word that switches something on."""
        return self.source.word if self.source.word and self.value == TRUE else self.value


@memo
def handed_to(project: Project, scope: SettingScope) -> tuple[HandedSetting, ...]:
    """Where the settings of a call that are no literals have their values from."""
    found: list[HandedSetting] = []
    for setting in scope.settings:
        argument = scope.argument(setting)
        if argument is None or setting.value is not None or not setting.key.means:
            continue
        listed = joined_sources(project, *argument) or tuple(_of_device(*argument))
        found += _of_machine(project, setting, *argument) if not listed else ()
        ignored = unused_defaults(listed)
        is_open = unfollowed_argument(project, *argument) is not None
        for source in listed:
            token = token_of_constant(source.value)
            if token is not None and source not in ignored and not (is_open and source.kind == "parameter"):
                found.append(_beside_machine(HandedSetting(setting, source, token)))
    return tuple(found)


def handed_in(project: Project, scope: SettingScope, launch: Launch | None) -> tuple[HandedSetting, ...]:
    """What a call's settings are handed in a launch: what its line gives, and files that no other line names.

    Without a launch line what no line gives.
    """
    found = _without_likenesses(handed_to(project, scope))
    found = [replace(item, is_idle=_is_unpassed(project, scope, item, found)) for item in found]
    found = _picked_in(project, scope, found, launch.gives) if launch is not None else found
    handed = [item for item in found if not item.source.is_of_line or (launch is not None and launch.has(item.source))]
    started = launch.started if launch is not None else Started(scope.path, None)
    handed = [item for item in handed if _is_composed(project, scope, item.source, launch)]
    handed = [_beside_others(item, launch) for item in handed]
    handed = [replace(item, left_to=_left_to(project, item, started)) for item in handed]
    if launch is None:
        return tuple(handed)
    named = {item.setting for item in handed if item.source.kind == "entry" and item.source.path in launch.files}
    return tuple(item for item in handed if not _is_of_another(project, item, launch, item.setting in named))


def _is_composed(project: Project, scope: SettingScope, source: ValueSource, launch: Launch | None) -> bool:
    """Whether the launch composes the file that an entry stands in, as far as Hydra decides that."""
    if source.kind != "entry" or source.is_of_line:
        return True
    command = launch.config.text.commands[launch.number] if launch is not None else None
    script = script_of(project, launch.config.document.path, command.script) if launch and command else scope.path
    modules = [module.document.path for module in modules_of(project, script)] if script is not None else []
    words = words_of_script(command) if command is not None else ()
    return counts_in(project, modules, words, source.path, source.key)


def _beside_machine(item: HandedSetting) -> HandedSetting:
    """``args.bf16 and torch.cuda.is_bf16_supported()``: what the machine says to a switch that is on."""
    answers = item.source.machine if item.value == TRUE else None
    if answers is None:
        return item
    with_bf16, without = (token_of_constant(answer) or "" for answer in answers)
    return replace(item, value=with_bf16, without=without)


def _beside_others(item: HandedSetting, launch: Launch | None) -> HandedSetting:
    """``args.fp16 and not args.bf16``: what the others say in a run to a switch that is on."""
    if item.value in OFF:
        return item
    answers = [{*_answers(found, launch)} for found in item.source.provided]
    if {False} in answers:
        return replace(item, value=FALSE)
    return replace(item, value=OPEN) if any(False in answer for answer in answers) else item


def _answers(found: Iterable[ValueSource], launch: Launch | None) -> Iterator[bool]:
    """What a switch is in a run; both where that is not known."""
    yield from {bool(value) for value in values_in(found, launch)} or {True, False}


def values_in(found: Iterable[ValueSource], launch: Launch | None) -> set[Constant]:
    """What places give a setting in a run; empty where that is not known."""
    own = [item for item in found if not item.is_of_line or (launch is not None and launch.has(item))]
    strongest = min((item.strength for item in own), default=None)
    return {item.value for item in own if item.strength == strongest and not item.is_guessed}


def _left_to(project: Project, item: HandedSetting, started: Started) -> str:
    source = item.source
    return left_to_file(project, source.path, source.span, started) if source.kind == "fallback" else ""


def _is_of_another(project: Project, item: HandedSetting, launch: Launch, has_own: bool) -> bool:
    """Whether a value stands in a file that only other launch lines name, or for which this one names another."""
    path = item.source.path
    if item.source.is_of_line or item.source.kind != "entry" or path in launch.files:
        return False
    return has_own or is_passed_only(project, path)


def _of_device(module: ModuleNames, node: ast.expr) -> Iterator[ValueSource]:
    """``fp16=torch.cuda.is_available()``: on, wherever there is something to train on."""
    if isinstance(node, ast.Call) and asks_for_device(module, node):
        document, text = module.document, ast.unparse(node)
        yield ValueSource("constant", document.path, document.span(node), "", True, text, picked_by=text)


def _of_machine(project: Project, setting: Setting, module: ModuleNames, node: ast.expr) -> Iterator[HandedSetting]:
    """``bf16=torch.cuda.is_bf16_supported()``, also behind variables: on, wherever the machine has bfloat16."""
    answers = machine_answers(project, module, node)
    if answers is not None:
        document, text = module.document, ast.unparse(node)
        place = (document.path, document.span(node), "", answers[0], text)
        source = ValueSource("constant", *place, picked_by=text, respelling=_of_nobody)
        with_bf16, without = (token_of_constant(answer) or "" for answer in answers)
        yield HandedSetting(setting, source, with_bf16, without)


def _of_nobody(_value: Constant) -> Edit:
    raise EditRefused("the machine decides it")


def _without_likenesses(handed: Sequence[HandedSetting]) -> list[HandedSetting]:
    """Without files that only look like what the code reads, where another one is read, or several look so."""
    of_files = [item for item in handed if item.source.kind == "entry"]
    if any(not item.source.is_guessed for item in of_files):
        return [item for item in handed if not item.source.is_guessed]
    guessed = Counter(item.setting for item in handed if item.source.is_guessed)
    return [item for item in handed if not (item.source.is_guessed and guessed[item.setting] > 1)]


def _is_unpassed(project: Project, scope: SettingScope, item: HandedSetting, others: Iterable[HandedSetting]) -> bool:
    """Whether only a parameter picks a 16-bit value, which is off by default, and no call that is seen passes anything
    else: ``"fp16" if fp16 else "no"``."""
    module, node = scope.argument(item.setting) or (None, None)
    name = item.source.picked_by
    is_half = item.regime not in (None, "fp32") and any(other.regime == "fp32" for other in others)
    if module is None or node is None or not is_half or not name.isidentifier() or item.source.path != module.path:
        return False
    bindings = module.scope_of(node).lookup(name)
    known = {value for binding in bindings for value in constants_of(project, module, binding)} - {UNKNOWN}
    return bool(bindings) and all(binding.kind == "parameter" for binding in bindings) and known == {False}


def _picked_in(
    project: Project, scope: SettingScope, handed: Sequence[HandedSetting], gives: Callable[[frozenset[str]], bool]
) -> list[HandedSetting]:
    """Without 16-bit values that only a switch picks which a launch leaves out, where another value then counts.

    ``gives`` tells whether the launch gives an option of these names.
    """
    left = [item for item in handed if all(gives(_names(option)) for option in _needed(project, scope, item))]
    kept = {item.setting for item in left}
    return [item for item in handed if item in left or item.setting not in kept]


def _needed(project: Project, scope: SettingScope, item: HandedSetting) -> Iterator[Option]:
    """The switches, off where they are left out, without which a test does not pick a value."""
    if not item.source.picked_by or item.regime in (None, "fp32") or not isinstance(scope.origin, CodeOrigin):
        return
    test = ast.parse(item.source.picked_by, mode="eval").body
    for part in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]:
        name = _asked(part)
        options = declared_options(project, scope.origin.module, name) if name else ()
        if len(options) == 1 and options[0].switch is not None and not options[0].value_when_absent:
            yield options[0]


def _asked(test: ast.expr) -> str:
    """The name in ``args.amp`` and ``getattr(args, "amp", False)``; empty for other tests."""
    if isinstance(test, ast.Attribute):
        return test.attr
    is_read = isinstance(test, ast.Call) and ast.unparse(test.func) == "getattr" and len(test.args) > 1
    return string_of(test.args[1]) or "" if isinstance(test, ast.Call) and is_read else ""


def _names(option: Option) -> frozenset[str]:
    return frozenset(flag.replace("_", "-") for flag in option.flags)
