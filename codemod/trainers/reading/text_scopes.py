"""What trainers are told in configuration files, on command lines and in environment variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ...model import Span
from ...source.project import Project
from ..framework import Framework, FrameworkKey
from ..parsers.interface import Interface
from .conditional_flags import without_undecided
from .configs import ConfigFile, TextEntry, config_files
from .entry_tokens import shell_token, token_of
from .hydra_files import config_at, extended_by
from .loaded_files import is_of_own_program
from .parsed_files import interface_of_line, interfaces_beside, interfaces_reading
from .recognition import (
    KeyMarks,
    owner_of,
    owner_of_section,
    plain_flag,
    points,
    runs_program,
    stands_at,
    stands_inside,
)
from .scopes import TRUE, ScopeKind, Setting, SettingScope, TextOrigin

WORDS = (
    *("bf16", "fp16", "fp8", "float16", "float32", "fp32", "half", "amp", "precision", "dtype", "loss_scale"),
    *("auto_mix_prec", "float_16", "float_32", "fp_16", "bf_16", "optim_wrapper", "quantize", "deepspeed_config_file"),
)
"""Words of texts that state a precision, or name the file that does."""
_VARIABLE = re.compile(r"\$(?:(\w+)|[{(](\w+)[})])")
_REFERENCE = re.compile(r"@([\w#:.]+)|\$\{([\w.]+)\}")
Spot = tuple[int, tuple[str | int, ...]]
"""Where an entry stands: the number of its document and its key."""


def text_scopes(project: Project) -> Iterator[SettingScope]:
    """Every scope in the project's texts, by path."""
    for config in config_files(project, (*WORDS, *_marks_of_silent_files(project))):
        if config.is_shell:
            yield from _shell_scopes(project, config)
        elif not config.is_data:
            yield from _tree_scopes(project, config)


def _marks_of_silent_files(project: Project) -> tuple[str, ...]:
    """On the way to a target: words of files that may name no precision at all, whose default must be overridden."""
    if project.target is None:
        return ()
    marks = {
        mark.rpartition(" + ")[2].partition(": ")[0].rpartition(".")[2]
        for framework in project.frameworks
        if any(action.verb == "put" for action in framework.actions(project.target) or ())
        for mark in framework.recognize.strong
    }
    return tuple(sorted(mark for mark in marks if len(mark) > 5 and not set("*{") & set(mark)))


# --- YAML, JSON, TOML -------------------------------------------------------------------------------------------------


def _tree_scopes(project: Project, config: ConfigFile) -> Iterator[SettingScope]:
    stated = _marks_of_tree(config)
    extended = [config_at(project, path) for path in extended_by(project, config.name)] if "defaults" in stated else []
    marks = {
        mark: value for base in extended if base is not None for mark, value in _marks_of_tree(base).items()
    } | stated
    reading = _reading(project, "file")
    parsed = (item.framework for item in interfaces_reading(project, config.document.path))
    framework = _owner(owner_of(reading, config.name, marks), [item for item in parsed if item is not None][:1])
    if framework is not None and not is_of_own_program(project, config.document.path, framework):
        whole = tree_scope(config, framework, config.text.entries, None)
        if whole.settings or not extended:
            whole = replace(whole, is_open=whole.is_open or bool(extended))
            yield from _as_read(whole, interfaces_beside(project, config.document.path))
    others = [item for item in reading if item.recognize.sections and item is not framework]
    yield from _section_scopes(config, others) if others else ()


def _marks_of_tree(config: ConfigFile) -> dict[str, str | None]:
    return {path_of(entry): token_of(entry)[0] for entry in config.text.entries if entry.kind in ("pair", "item")}


def _owner(marked: Framework | None, parsed: Sequence[Framework]) -> Framework | None:
    """The trainer of the parser that reads a text, unless the text has the marks of a special one.

    Of several a special one comes before one that others build on.
    """
    first = min(parsed, key=lambda item: item.recognize.generic, default=None)
    return first if first is not None and (marked is None or marked.recognize.generic) else marked


def _as_read(scope: SettingScope, readers: Sequence[Interface]) -> Iterator[SettingScope]:
    """The scope without settings that none of its readers knows; nothing where that leaves none of its trainer."""
    taken = tuple(item for item in scope.settings if _is_taken(scope, item, readers))
    if taken or not readers or any(scope.framework in reader.frameworks for reader in readers):
        yield replace(scope, settings=taken, readers=tuple(readers))


def _is_taken(scope: SettingScope, setting: Setting, readers: Sequence[Interface]) -> bool:
    """Whether a reader knows the setting; those of the launcher before the script are not the script's."""
    name = setting.name.partition(".")[0]
    return (
        scope.is_of_launcher(setting) or not readers or any(reader.takes(name, scope.framework) for reader in readers)
    )


def _section_scopes(config: ConfigFile, frameworks: Sequence[Framework]) -> Iterator[SettingScope]:
    """The outermost mappings inside a text that are texts of their own and say something about precision."""
    sections = {
        _spot(entry): own
        for entry in config.text.entries
        if entry.container == "mapping" and entry.key and (own := owner_of_section(frameworks, path_of(entry)))
    }
    depths = sorted({len(key) for _, key in sections})
    below: dict[Spot, list[TextEntry]] = {}
    for entry in config.text.entries if depths else ():
        for outer in filter(sections.__contains__, _outer(entry, depths)):
            below.setdefault(outer, []).append(entry)
    taken: set[Spot] = set()
    for entry in config.text.entries if depths else ():
        spot = _spot(entry)
        if entry.container == "mapping" and spot in sections and taken.isdisjoint(_outer(entry, depths)):
            scope = tree_scope(config, sections[spot], below.get(spot, ()), entry)
            if scope.settings:
                taken.add(spot)
                yield scope


def _spot(entry: TextEntry) -> Spot:
    return entry.document, entry.key


def _outer(entry: TextEntry, depths: Iterable[int]) -> Iterator[Spot]:
    """Where what an entry stands in is, at these depths."""
    return ((entry.document, entry.key[:depth]) for depth in depths if depth < len(entry.key))


def tree_scope(
    config: ConfigFile, framework: Framework, entries: Sequence[TextEntry], section: TextEntry | None
) -> SettingScope:
    """What a text, or a mapping inside it as a text of its own, says with these entries."""
    title = path_of(section) if section is not None else config.name.rpartition("/")[2]
    depth = len(section.key) if section is not None else 0
    stating = [
        (entry, key)
        for entry in entries
        for path in (path_of(entry, depth),)
        for key in framework.keys
        if any(stands_at(path, place) for place in key.places)
    ]
    names = {path_of(entry) for entry, _ in stating}
    settings = [setting_of(config, *item) for item in stating if not _points_to(item[0], names)]
    return scope_of(config, framework, "file", settings, title, TextOrigin(config, section))


def _points_to(entry: TextEntry, names: Container[str]) -> bool:
    """Whether a value only repeats another setting of the same file: ``@amp``, ``${train.amp}``."""
    match = _REFERENCE.fullmatch(entry.value) if isinstance(entry.value, str) else None
    return match is not None and re.sub("#|::", ".", match[1] or match[2]) in names


def path_of(entry: TextEntry, depth: int = 0) -> str:
    """``bf16.enabled``; the parts of a list are numbers. ``depth``: how many outer parts are left out."""
    return ".".join(str(part) for part in entry.key[depth:])


def setting_of(config: ConfigFile, entry: TextEntry, key: FrameworkKey) -> Setting:
    """What an entry says of a key."""
    (value, kind), name = token_of(entry), path_of(entry)
    if config.is_shell:
        entry = _given(config, entry)
        value, kind = shell_token(entry)
        if key.is_switch and entry.kind == "flag" and kind == "string":
            value, kind = TRUE, "bool"  # the word behind it is another one's
    shown = "not a plain value" if kind == "unknown" else "a section" if kind == "section" else value
    return Setting(key, value, kind, config.place(entry, f"{name} is {shown}"), name, entry.index)


def _given(config: ConfigFile, entry: TextEntry) -> TextEntry:
    """The assignment of the variable that a flag is given, where the text has exactly one; else the flag itself."""
    reference = _VARIABLE.fullmatch(entry.value) if isinstance(entry.value, str) else None
    if entry.kind != "flag" or reference is None:
        return entry
    name = reference[1] or reference[2]
    found = [other for other in config.text.entries if other.kind == "assignment" and other.name == name]
    if len(found) != 1 or shell_token(found[0])[0] is None or stands_inside(config.document, config.span(found[0]).row):
        return entry
    return found[0]


def scope_of(
    config: ConfigFile,
    framework: Framework,
    kind: ScopeKind,
    settings: Sequence[Setting],
    title: str,
    origin: TextOrigin,
    is_open: bool = False,
    at: int = 0,
) -> SettingScope:
    row, column = config.document.position(at)
    span = settings[0].place.span if settings else Span(row, column, row, column)
    return SettingScope(framework, config.document.path, kind, span, title, tuple(settings), is_open, origin)


# --- shell and its relatives ------------------------------------------------------------------------------------------


def _shell_scopes(project: Project, config: ConfigFile) -> Iterator[SettingScope]:
    by_call: dict[int | None, list[TextEntry]] = {}
    for entry in _passed(config):
        for call in (entry.call, *entry.also):
            by_call.setdefault(call, []).append(entry)
    for number, command in enumerate(config.text.commands):
        for scope in _command_scopes(project, config, number, by_call.get(number, [])):
            yield replace(scope, command=command)
    yield from _environment_scopes(project, config, by_call.get(None, []))


def _passed(config: ConfigFile) -> Iterator[TextEntry]:
    """The entries without those of a variable that is replaced before any command line reads it."""
    anew: dict[str, int] = {}
    for entry in config.text.entries:
        own = {name for match in _VARIABLE.finditer(entry.raw) for name in match.groups()}
        if entry.kind == "assignment" and entry.name not in own:
            anew[entry.name] = entry.start if not stands_inside(config.document, config.span(entry).row) else -1
    for entry in config.text.entries:
        if entry.call is not None or anew.get(entry.inside, -1) <= entry.end:
            yield entry


def _command_scopes(
    project: Project, config: ConfigFile, number: int, entries: list[TextEntry]
) -> Iterator[SettingScope]:
    command = config.text.commands[number]
    launched = [entry for entry in entries if entry.owner == "launcher"]
    for framework in _reading(project, "command"):
        own = [entry for entry in launched if entry.command in framework.recognize.launchers]
        if own:
            yield _flag_scope(config, framework, own, own[0].command, number)
    own = [entry for entry in entries if entry.owner != "launcher"]
    if not own:
        return
    reading = _reading(project, "command")
    readers = [item for item in (interface_of_line(project, config.document.path, command),) if item is not None]
    parsed = [item for reader in readers for item in reader.frameworks]
    knowing = [item for item in parsed if _knows_one(item, own)]
    reading = [item for item in reading if not knowing or _knows_one(item, own)]
    named = next((item for item in reading if runs_program(item, command.words)), None)
    possible = [item for item in reading if all(reader.may_serve(item) for reader in readers)]
    owner = named or _owner(owner_of(possible, "", _marks(own)), knowing or parsed)
    if owner is not None:
        yield from _as_read(_flag_scope(config, owner, own, command.script or "command", number, launched), readers)


def _marks(entries: Iterable[TextEntry]) -> dict[str, str | None]:
    marks: dict[str, str | None] = {}
    for entry in entries:
        name = f"--{plain_flag(entry.name)}" if entry.kind == "flag" else entry.name
        marks[name] = shell_token(entry)[0]
    return marks


def _flag_scope(
    config: ConfigFile,
    framework: Framework,
    entries: Sequence[TextEntry],
    title: str,
    number: int,
    launched: Sequence[TextEntry] = (),
) -> SettingScope:
    settings = [
        setting_of(config, entry, key)
        for entry in launched
        for key in framework.keys
        if any(plain_flag(flag) == plain_flag(entry.name) for flag in key.launcher_flags)
    ]
    settings += [setting_of(config, entry, key) for entry in entries for key in framework.keys if _says(entry, key)]
    settings = without_undecided(config, settings)
    command = config.text.commands[number]
    origin = TextOrigin(config, None, number, min(entry.index for entry in entries))
    reads_file = any(plain_flag(entry.name) in ("config", "config_file", "cfg", "configs", "c") for entry in entries)
    is_open = reads_file or _names_file(command.words)
    return scope_of(config, framework, "command", settings, title, origin, is_open, command.start)


def _names_file(words: Sequence[str]) -> bool:
    """Whether a configuration file stands on a command line alone (``train.py args.json``), not as a flag's value."""
    return any(
        word.endswith((".yaml", ".yml", ".json", ".toml")) and "=" not in word and not before.startswith("-")
        for before, word in pairwise(words)
    )


def _says(entry: TextEntry, key: FrameworkKey) -> bool:
    if entry.kind == "flag":
        return any(plain_flag(flag) == plain_flag(entry.name) for flag in key.flags)
    return entry.kind == "override" and any(stands_at(entry.name, place) for place in key.places)


def _knows_one(framework: Framework, entries: Iterable[TextEntry]) -> bool:
    """Whether one of these flags is a trainer's."""
    return any(_says(entry, key) for entry in entries for key in framework.keys)


def _environment_scopes(project: Project, config: ConfigFile, entries: list[TextEntry]) -> Iterator[SettingScope]:
    """Variables of a file, and flags in variables that no command line of the file uses."""
    marks = KeyMarks(_marks(entries))
    for framework in _reading(project, "environment"):
        if points(framework, config.name, marks) < 3:
            continue
        settings = [
            setting_of(config, entry, key)
            for entry in entries
            for key in framework.keys
            if (entry.kind == "assignment" and entry.name in key.variables)
            or (entry.kind == "flag" and _says(entry, key))
        ]
        if settings:
            title = config.name.rpartition("/")[2]
            yield scope_of(config, framework, "environment", settings, title, TextOrigin(config))


def _reading(project: Project, kind: str) -> Sequence[Framework]:
    tests: dict[str, Callable[[Framework], bool]] = {
        "file": lambda item: not {"yaml", "json", "toml"}.isdisjoint(item.formats),
        "command": lambda item: not {"cli", "shell"}.isdisjoint(item.formats),
        "environment": lambda item: any(key.variables for key in item.keys),
    }
    return [framework for framework in project.frameworks if tests[kind](framework)]
