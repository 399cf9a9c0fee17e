"""What launch scripts pass to a program: its flags, the variables behind them, and switches that they leave out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from ...formats.shell_variables import NAMED, variable_of
from ...formats.text import CommandLine, TextEntry
from ...model import Edit, EditRefused, ReplaceText, Span
from ...purpose.files import purpose_of
from ...purpose.imports import connected_modules
from ...python.names import ModuleNames, names_of
from ...python.options import Option
from ...source.documents import FileKind
from ...source.project import Project
from ...torch.dtypes import Constant
from .configs import ConfigFile, config_files, opened
from .program_files import LAUNCHING, file_named, script_of
from .source import ValueSource, entry_source, literal_source

SOURCED = re.compile(r"^[ \t]*(?:source|\.)[ \t]+([^;&|#\n]+)", re.MULTILINE)
"""A statement of a shell script that reads another one, with what names it."""
WORDS = re.compile(r"[^\s()\"']+")
"""The words of what is assigned to a variable: ``"--fp16 --lr 1"``, ``(--fp16 "--lr=1")``."""
NO_PATH = re.compile(r"\$\w+|[^\w./-]")
"""What stands before the end of a path in which no variable stands."""
PAIRS = (("true", "false"), ("yes", "no"), ("on", "off"), ("1", "0"), ("t", "f"), ("y", "n"))
_TRUTH = {word: holds for yes, no in PAIRS for word, holds in ((yes, True), (no, False))}
_OTHER = {word: other for yes, no in PAIRS for word, other in ((yes, no), (no, yes))}


def flags_given(project: Project, option: Option) -> Iterator[ValueSource]:
    """Every use of an option's flags on a command line that runs its program, or a file that has to do with it."""
    programs = programs_of(project, option.module)
    flags = (*option.flags, *option.negated)
    for config in config_files(project, tuple(flag.lstrip("-") for flag in flags), (FileKind.SHELL, FileKind.ENV)):
        near = config.document.path
        if purpose_of(near).is_left_alone:
            continue
        for entry in config.text.entries:
            is_own = entry.kind == "flag" and entry.name in flags
            if is_own and runs_one_of(project, near, entry.command, programs):
                yield from _given(project, config, entry, option)


def lines_without(project: Project, option: Option) -> Iterator[ValueSource]:
    """The launch lines of the program that leave a switch out, each with the value that it has then."""
    programs = programs_of(project, option.module)
    flags = (*option.flags, *option.negated)
    for config in config_files(project, LAUNCHING, (FileKind.SHELL, FileKind.ENV)):
        near = config.document.path
        if purpose_of(near).is_left_alone or not config.is_shell:
            continue
        by_call = flags_by_call(config)
        for number, command in enumerate(config.text.commands):
            own = by_call.get(number, [])
            is_own = bool(command.script) and runs_one_of(project, near, command.script, programs)
            if is_own and not _names_one(command, own, flags):
                yield _passed_on(project, config, number, option) or _absent(config, number, own, option)


def flags_by_call(config: ConfigFile) -> dict[int | None, list[TextEntry]]:
    """The flags of a text by the number of the command line that gets them."""
    found: dict[int | None, list[TextEntry]] = {}
    for entry in config.text.entries:
        for call in (entry.call, *entry.also) if entry.kind == "flag" else ():
            found.setdefault(call, []).append(entry)
    return found


def programs_of(project: Project, module: ModuleNames) -> set[str]:
    """The files that have to do with a module: what a command line names to run it."""
    return {item.document.path for item in connected_modules(project, module)}


def runs_one_of(project: Project, near: str, command: str, programs: set[str]) -> bool:
    """Whether ``command`` (a script's path, a module's name) in the file ``near`` is one of the ``programs``."""
    name = command.strip("\"'").removeprefix("./")
    if not name:
        return False
    if name.startswith("../"):
        return script_of(project, near, name) in programs
    path = name if name.endswith(".py") else f"{name.replace('.', '/')}.py"
    tail = path.rpartition("/")[2]
    return any(item == path or item.endswith(f"/{path}") or path.endswith(f"/{item}") for item in programs) or (
        "$" in path and any(item.rpartition("/")[2] == tail for item in programs)
    )


# --- flags that are there ---------------------------------------------------------------------------------------------


def _given(project: Project, config: ConfigFile, entry: TextEntry, option: Option) -> Iterator[ValueSource]:
    """The flag's own value, or the assignments of the variable that stands there."""
    if option.switch is not None or entry.name in option.negated:
        yield _switch(config, entry, option)
        return
    variable = _variable_of(config, entry.value) if isinstance(entry.value, str) else ""
    if not variable:
        yield _as_option_reads(entry_source(config, entry), option)
        return
    calls = entry_source(config, entry).calls
    literals = list(python_values(project, config, variable))
    assigned = list(_assignments(project, config, variable))
    if not (literals or assigned):
        yield entry_source(config, entry)
    for source in literals:
        said = truth_of(source.value) if option.is_truth else str(source.value)
        refused: Callable[[Constant], Edit] = partial(_refused, config.document.path)
        yield replace(source, value=source.value if said is None else said, respelling=refused, calls=calls)
    for holder, other in assigned:
        source = _as_option_reads(entry_source(holder, other), option)
        if holder is not config:
            source = replace(source, config=config, respelling=source.respelled)
        yield replace(source, calls=calls)


def _assignments(project: Project, config: ConfigFile, name: str) -> Iterator[tuple[ConfigFile, TextEntry]]:
    """What gives a variable its value: in the script, else in those that it reads."""
    for holder in (config, *sourced_by(project, config)):
        found = [item for item in holder.text.entries if item.kind == "assignment" and item.name == name]
        yield from ((holder, item) for item in found)
        if found:
            return


def _variable_of(config: ConfigFile, word: str) -> str:
    """The variable that a word is; notebooks put those of Python in braces as well: ``--fp16 {FP16}``."""
    is_braced = config.kind == "notebook" and word[:1] == "{" and word[-1:] == "}" and word[1:-1].isidentifier()
    return word[1:-1] if is_braced else variable_of(word)


def sourced_by(project: Project, config: ConfigFile) -> Iterator[ConfigFile]:
    """The texts of the project that a script reads: ``source common.sh``, ``. "$(dirname "$0")/env.sh"``."""
    for named in SOURCED.findall(config.document.text):
        end = NO_PATH.split(named.rstrip(" \t\r\"'"))[-1].lstrip("/")
        path = file_named(project, config.document.path, end)
        document = project.document(path) if path is not None else None
        yield from opened(project, document) if document is not None and document is not config.document else ()


def _as_option_reads(source: ValueSource, option: Option) -> ValueSource:
    """The source with a truth value where the option is one: ``--use_bf16 no``, kept in the words that it is given."""
    truth = truth_of(source.value) if option.is_truth else None
    if truth is None or source.config is None or source.entry is None or not source.text:
        return source
    return replace(source, value=truth, respelling=partial(_word, source.config, source.entry))


def _word(config: ConfigFile, entry: TextEntry, value: Constant) -> Edit:
    word = other_word(str(entry.value)) if isinstance(value, bool) and value != truth_of(entry.value) else None
    if word is None:
        raise EditRefused(f"{entry.raw} cannot become {value!r}")
    return config.edit(config.text.set(entry, word))


def _switch(config: ConfigFile, entry: TextEntry, option: Option) -> ValueSource:
    """A flag without a word of its own, whatever stands behind it."""
    value = option.is_on_with(entry.name)
    respelling: Callable[[Constant], Edit] = partial(_flipped, config, entry, option)
    return ValueSource(
        *("flag", config.document.path, config.span(entry), entry.name, value, ""),
        config=config,
        entry=entry,
        respelling=respelling,
        flag=option.flag_for(True),
        calls=entry_source(config, entry).calls,
    )


def _flipped(config: ConfigFile, entry: TextEntry, option: Option, value: Constant) -> Edit:
    """The flag that says the other thing; removed where there is none."""
    if not isinstance(value, bool) or value == option.is_on_with(entry.name):
        raise EditRefused(f"{entry.name} takes no value")
    other = option.flag_for(value)
    if other:
        return config.edit(ReplaceText(entry.key_start, entry.key_end, other))
    return config.edit(config.text.remove(entry, with_value=False))


# --- flags that are left out ------------------------------------------------------------------------------------------


def _names_one(command: CommandLine, entries: list[TextEntry], flags: tuple[str, ...]) -> bool:
    named = {entry.name for entry in entries} | {word.partition("=")[0] for word in command.words}
    return not named.isdisjoint(flags)


def _passed_on(project: Project, config: ConfigFile, number: int, option: Option) -> ValueSource | None:
    """The switch in a variable that another script gives its value: ``source common.sh``, ``train.py $ARGS``."""
    variables = [match for word in config.text.commands[number].words if (match := NAMED.fullmatch(word))]
    for holder, entry in (item for match in variables for item in _assignments(project, config, match[1] or match[2])):
        flag = next(
            (word for word in WORDS.findall(str(entry.value)) if word in (*option.flags, *option.negated)), None
        )
        if flag is not None and holder is not config:
            place = (holder.document.path, holder.span(entry), flag)
            respelling: Callable[[Constant], Edit] = partial(_refused, holder.document.path)
            value = option.is_on_with(flag)
            return ValueSource("flag", *place, value, "", config=config, respelling=respelling, calls=(number,))
    return None


def _refused(path: str, _: Constant) -> Edit:
    raise EditRefused(f"{path} holds it in a variable")


def _absent(config: ConfigFile, number: int, entries: list[TextEntry], option: Option) -> ValueSource:
    command = config.text.commands[number]
    row, column = config.document.position(command.start)
    span = Span(row, column, row, column + len(command.written[0]) if command.written else column)
    return ValueSource(
        *("flag", config.document.path, span, option.name, option.value_when_absent, ""),
        config=config,
        respelling=partial(_added, config, command, entries, option),
        flag=option.flag_for(True),
        calls=(number,),
    )


def _added(config: ConfigFile, command: CommandLine, entries: list[TextEntry], option: Option, value: Constant) -> Edit:
    """The flag behind the last one of the line, or behind the script where it has none."""
    flag = option.flag_for(value) if isinstance(value, bool) else ""
    if not flag:
        raise EditRefused(f"no flag of {option.name} says {value!r}")
    own = [entry for entry in entries if entry.owner != "launcher"]
    if own:
        return config.edit(config.text.insert(own[-1], flag, None))
    text = config.document.text
    end = text.find(command.script, command.start) + len(command.script)
    if command.script not in command.written or end < len(command.script) or text[end : end + 1].strip(" \t\r\n;&|\\)"):
        raise EditRefused("the script is not written plainly there")
    return config.edit(ReplaceText(end, end, f" {flag}"))


def python_values(project: Project, config: ConfigFile, name: str) -> Iterator[ValueSource]:
    """The literals of a variable of Python that a command line sees, if these are all that it gets.

    A shell's own cells (``%%bash``) see none.
    """
    start = config.within[0] if config.within is not None else 0
    if config.kind != "notebook" or config.document.text.startswith("%%", start):
        return
    module = names_of(project, config.document)
    bindings = module.module_scope.bindings.get(name, ())
    values = [binding.value if binding.kind == "assign" else None for binding in bindings]
    found = [literal_source("variable", module, value, name) for value in values if value is not None]
    known = [replace(source, config=config) for source in found if source is not None]
    yield from known if len(known) == len(bindings) else ()


def truth_of(value: Constant) -> bool | None:
    """The truth value that a word stands for; None for other words."""
    return value if isinstance(value, bool) else _TRUTH.get(value.lower()) if isinstance(value, str) else None


def other_word(word: str) -> str | None:
    """The other word of its pair, written alike: ``False`` -> ``True``, ``no`` -> ``yes``."""
    other = _OTHER.get(word.lower())
    if other is None or word.islower() or word.isdigit():
        return other
    return other.upper() if word.isupper() and len(word) > 1 else other.capitalize()
