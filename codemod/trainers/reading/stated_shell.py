"""What shell texts say of precision beside the flags themselves: variables that a flag is given, their defaults.

``MIXED_PRECISION=bf16`` in a branch of its own above ``--mixed_precision="$MIXED_PRECISION"``, ``${PRECISION:-fp16}``.
Also the configuration of a model that somebody published, whose ``torch_dtype`` decides a load with ``"auto"``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...formats.shell_variables import OVERRIDE, REFERENCE, names_in
from ...formats.text import TextEntry
from ...outcome import Declaration
from ...purpose.files import is_test
from ...source.documents import FileKind
from ...source.project import Project
from ...torch.api import LOAD_KEYS
from .configs import ConfigFile, config_files
from .launch_flags import truth_of
from .loaded_files import loaders_of
from .parsed_files import interface_of_line
from .program_files import script_of
from .programs_started import modules_of
from .run_settings import TEXT
from .setting_reads import names_read
from .stated_words import is_precision_word, is_switch, role_of, speaks
from .taken_whole import TakenEntry, taken_whole

WORDS = ("fp16", "bf16", "float16", "bfloat16", "precision", "dtype", "PRECISION", "DTYPE", "FP16", "BF16")
KINDS = (FileKind.SHELL, FileKind.ENV, FileKind.YAML, FileKind.JSON, FileKind.TOML)
ALIKE = 0.8
"""The share of a file's sections that another one has which is read by the same program."""
MODEL_KEYS = ("architectures", "model_type")
"""Keys of the ``config.json`` that lies beside a model's weights."""


def stated_in_texts(project: Project) -> Iterator[Declaration]:
    """Every such place of the project's texts."""
    for config in config_files(project, WORDS, KINDS):
        if config.is_shell:
            yield from _variables(config)
            yield from _overrides(config)
            yield from _own_flags(project, config)
            yield from _taken_there(project, config)
        elif not config.is_data:
            yield from _own_entries(project, config)
    for config in config_files(project, LOAD_KEYS, (FileKind.JSON,)):
        if config.kind == "json":
            yield from _model(config)


def _variables(config: ConfigFile) -> Iterator[Declaration]:
    for flag in config.text.entries:
        if flag.kind != "flag" or not speaks(flag.name) or not isinstance(flag.value, str):
            continue
        for match in REFERENCE.finditer(flag.value):
            if match[3] and _states(flag, match[3]):
                yield _told(config, flag, flag.name, match[3])
        for other in assigned_to(config, flag.value):
            default = REFERENCE.fullmatch(str(other.value))
            value = (default[3] or "") if default is not None else str(other.value)
            if _states(flag, value):
                yield _told(config, other, other.name, value)


def _overrides(config: ConfigFile) -> Iterator[Declaration]:
    """``PREC="bf16=true fp16=false"``: settings that a command line is given with ``$PREC``."""
    used = {name for line in config.text.commands for word in line.written for name in names_in(word)}
    for entry in config.text.entries:
        words = str(entry.value).split() if entry.kind == "assignment" and entry.name in used else []
        pairs = [match for word in words if (match := OVERRIDE.fullmatch(word)) is not None]
        for match in pairs if len(pairs) == len(words) else ():
            name, value = match["key"].rpartition(".")[2], match["value"]
            if speaks(name) and (is_precision_word(value) or (is_switch(name) and value.lower() in ("true", "false"))):
                where = (config.document.path, config.span(entry), "shell", match["key"])
                yield Declaration(*where, role_of(name, "flag"), value.lower(), feeds=f"given with ${entry.name}")


def assigned_to(config: ConfigFile, word: str) -> Iterator[TextEntry]:
    """What assigns a value to the variables of a word."""
    names = list(names_in(word))
    return (other for other in config.text.entries if other.kind == "assignment" and other.name in names)


def _own_flags(project: Project, config: ConfigFile) -> Iterator[Declaration]:
    """Flags of launch lines that the project's own program defines, or may define: ``train.py --precision bf16``."""
    for flag in config.text.entries:
        value = "true" if flag.value is None else _as_truth(flag.name, str(flag.value))
        if flag.kind != "flag" or flag.call is None or not speaks(flag.name) or not _states(flag, value):
            continue
        command = config.text.commands[flag.call]
        program = interface_of_line(project, config.document.path, command)
        name = flag.name.lstrip("-").replace("-", "_")
        takes = program is not None and (program.is_generated or name in program.names)
        is_here = script_of(project, config.document.path, command.script) is not None
        if takes or (command.script.endswith(".py") and not is_here):
            role = role_of(flag.name, "flag")
            yield Declaration(config.document.path, config.span(flag), "shell", flag.name, role, value)


def _taken_there(project: Project, config: ConfigFile) -> Iterator[Declaration]:
    """``net.torch_dtype=float16`` on a launch line, which code passes on with its section."""
    for taken in taken_whole(project).values():
        if taken.config.document is config.document and taken.config.within == config.within:
            yield _weights(taken)


def _weights(taken: TakenEntry) -> Declaration:
    config, entry = taken.config, taken.entry
    role = "quantization" if taken.is_quantized else "weights"
    where = (config.document.path, config.span(entry), TEXT, ".".join(map(str, entry.key)), role)
    return Declaration(*where, str(entry.value).lower(), feeds=f"feeds {taken.taker}")


def _own_entries(project: Project, config: ConfigFile) -> Iterator[Declaration]:
    """Entries of files that a program loads and reads under this name: ``model_precision: bf16``."""
    loaders = _programs_loading(project, config.document.path) or _loaders_of_likes(project, config)
    taken = taken_whole(project) if loaders else {}
    for entry in config.text.entries if loaders else ():
        if (
            entry.kind != "pair"
            or not entry.is_scalar
            or not speaks(entry.name)
            or not _states(entry, str(entry.value))
        ):
            continue
        span = config.span(entry)
        whole = taken.get((config.document.path, span.row))
        reader = next((path for path in sorted(loaders) if entry.name in project.memo(_names_read_by, path)), None)
        if whole is not None:
            yield _weights(whole)
        elif reader is not None:
            where = (config.document.path, span, TEXT, ".".join(map(str, entry.key)), role_of(entry.name, "entry"))
            yield Declaration(*where, str(entry.value).lower(), feeds=f"read by {reader}")


def _loaders_of_likes(project: Project, config: ConfigFile) -> frozenset[str]:
    """What loads a file of the same folder and kind that has nearly the same sections, or some more."""
    mine, (folder, ending) = _sections(config), _kind_of(config.document.path)
    for other in config_files(project, WORDS, KINDS):
        path = other.document.path
        alike = _kind_of(path) == (folder, ending) and len(mine) > 1
        alike = alike and len(mine & _sections(other)) >= ALIKE * len(mine)
        if path != config.document.path and alike:
            loaders = _programs_loading(project, path)
            if loaders:
                return loaders
    return frozenset()


def _programs_loading(project: Project, path: str) -> frozenset[str]:
    return frozenset(loader for loader in loaders_of(project, path) if not is_test(loader))


def _kind_of(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name.rpartition(".")[2]


def _sections(config: ConfigFile) -> frozenset[str]:
    return frozenset(str(entry.key[0]) for entry in config.text.entries if entry.key)


def _names_read_by(project: Project, path: str) -> frozenset[str]:
    """The attributes and literal keys that a module, or what it imports, reads."""
    return frozenset(name for module in modules_of(project, path) for name in names_read(module))


def _as_truth(name: str, value: str) -> str:
    """What a flag is given; ``t`` and ``yes`` of a switch are the truth values that programs take them for."""
    truth = truth_of(value) if is_switch(name) and not is_precision_word(value) else None
    return value if truth is None else str(truth).lower()


def _states(flag: TextEntry, value: str) -> bool:
    return is_precision_word(value) or (is_switch(flag.name) and value.lower() in ("true", "false"))


def _told(config: ConfigFile, entry: TextEntry, key: str, value: str) -> Declaration:
    return Declaration(config.document.path, config.span(entry), "shell", key, "variable", value)


def _model(config: ConfigFile) -> Iterator[Declaration]:
    entries = config.text.entries
    if not any(entry.key == (name,) for entry in entries for name in MODEL_KEYS):
        return
    for entry in entries:
        if entry.name in LOAD_KEYS and isinstance(entry.value, str) and is_precision_word(entry.value):
            span = config.span(entry)
            key = ".".join(map(str, entry.key))
            yield Declaration(config.document.path, span, "model", key, "weights", entry.value)
