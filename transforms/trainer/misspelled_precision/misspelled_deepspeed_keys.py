"""The ``fp16`` and ``bf16`` sections of DeepSpeed under another name, and keys in them that are one slip away from one
that it reads there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ....codemod.model import Draft, Edit, Fix, ReplaceText
from ....codemod.purpose.files import is_test
from ....codemod.python.keywords import key_of
from ....codemod.python.names import ModuleNames, checked_modules, modules_with, string_of
from ....codemod.python.trace import trace
from ....codemod.source.project import Project
from ....codemod.trainers.reading.configs import ConfigFile, TextEntry
from ....codemod.trainers.reading.declarations import checked_scopes, scopes_of
from ....codemod.trainers.reading.deepspeed_objects import is_deepspeed_config
from ....codemod.trainers.reading.mapping_items import DICTIONARIES
from ....codemod.trainers.reading.scopes import CodeOrigin, TextOrigin
from .misspellings import slips_of
from .slips import SPELLING, respelled_string

KEYS = {
    "bf16": ("enabled", "check_grad_overflow", "immediate_grad_update"),
    "fp16": (
        *("enabled", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis"),
        *("consecutive_hysteresis", "min_loss_scale", "fp16_master_weights_and_grads"),
    ),
}
"""The keys of each section, but for ``auto_cast``, of which ``autocast`` is one slip and a word of its own."""
SECTIONS = {
    **dict.fromkeys(("fp_16", "FP16", "Fp16", "float16", "float_16"), "fp16"),
    **dict.fromkeys(("bf_16", "BF16", "Bf16", "bfp16", "bfloat_16"), "bf16"),
}
"""What is written for a section, which is ignored in each release; ``bfloat16`` is an old name of one."""
ALMOST = {"enable": "enabled"}
"""Known mistakes, which PF502 tells of, and what they were meant to be; slips of them are slips too."""

TAKING = ("config", "config_params")
"""Arguments of ``deepspeed.initialize`` that take the configuration."""


@dataclass(frozen=True, slots=True)
class _Key:
    """A misspelled key in Python, and its section."""

    module: ModuleNames
    node: ast.Constant
    section: str
    beside: frozenset[object]
    """The other keys that are written in the same dictionary."""


def misspelled_deepspeed_keys(project: Project) -> Iterator[Draft]:
    """Every such key in a configuration file, in a dictionary, and where a configuration is changed in Python."""
    for config, entry in _entries(project):
        section, wrong = _section_above(entry), entry.name
        if not section and _is_read(project, wrong, 0):
            continue
        meant = _slips(section)[wrong]
        written = config.document.text[entry.key_start : entry.key_end]
        edit = config.edit(ReplaceText(entry.key_start, entry.key_end, written.replace(wrong, meant)))
        is_free = written.count(wrong) == 1 and not config.text.find(*entry.key[:-1], meant)
        yield Draft.at(config, entry, _message(section, wrong), (), _fix(section, wrong, edit if is_free else None))
    modules = checked_modules(project, (*KEYS, *SECTIONS), where=_holds_slip)
    keys = [key for module in modules for key in _keys(project, module)]
    for key in keys:
        wrong = str(key.node.value)
        if not _is_read(project, wrong, sum(other.node.value == wrong for other in keys)):
            meant = _slips(key.section)[wrong]
            new = respelled_string(key.module, key.node, wrong, meant) if meant not in key.beside else None
            yield Draft.at(key.module, key.node, _message(key.section, wrong), (), _fix(key.section, wrong, new))


def _message(section: str, wrong: str) -> str:
    if not section:
        meant = SECTIONS[wrong]
        return f"DeepSpeed has no section {wrong!r}: it is ignored and switches nothing on; did you mean {meant!r}?"
    return (
        f"DeepSpeed has no {wrong!r} in its {section} section (ignored, or a ValidationError from 0.17.1 on); "
        f"did you mean {_slips(section)[wrong]!r}?"
    )


def _fix(section: str, wrong: str, edit: Edit | None) -> list[Fix]:
    meant = _slips(section)[wrong]
    return [Fix.unsafe(SPELLING, f"write {meant}, which counts from now on", edit)] if edit is not None else []


@cache
def _slips(section: str) -> dict[str, str]:
    """Slip -> key; of the whole configuration, another name of a section."""
    if not section:
        return SECTIONS
    meant = {word: word for word in KEYS[section]} | ALMOST
    return {slip: key for word, key in meant.items() for slip in sorted(slips_of(word)) if slip not in meant}


def _holds_slip(text: str) -> bool:
    """Whether a slip stands between two quotes, as keys do: one look at the text for all slips."""
    quoted = text.replace("'", '"').split('"')
    return not all(_slips(section).keys().isdisjoint(quoted) for section in ("", *KEYS))


def _section_above(entry: TextEntry) -> str:
    above = entry.key[-2] if len(entry.key) > 1 else ""
    return above if isinstance(above, str) and above in KEYS else ""


def _entries(project: Project) -> Iterator[tuple[ConfigFile, TextEntry]]:
    seen = set()
    for scope in checked_scopes(project):
        if scope.framework.id != "deepspeed" or not isinstance(scope.origin, TextOrigin) or scope.kind != "file":
            continue
        root = scope.origin.section.key if scope.origin.section is not None else ()
        config = scope.origin.config
        misspelled = project.memo(_misspelled, config)
        places = (root, *((*root, section) for section in KEYS))
        for entry in (entry for place in places for entry in misspelled.get(place, ())):
            if (scope.path, entry.key_start) not in seen:
                seen.add((scope.path, entry.key_start))
                yield config, entry


def _misspelled(_: Project, config: ConfigFile) -> dict[tuple[str | int, ...], list[TextEntry]]:
    """The misspelled keys of a file, by the place of their section."""
    found: dict[tuple[str | int, ...], list[TextEntry]] = {}
    for entry in config.text.entries:
        section = _section_above(entry)
        switches = config.text.find(*entry.key, "enabled") if entry.name in SECTIONS else ()
        is_on = any(item.value is True for item in switches)
        if (entry.name in _slips(section)) if section else (is_on and not _stands_beside(config, entry)):
            found.setdefault(entry.key[:-1], []).append(entry)
    return found


def _stands_beside(config: ConfigFile, entry: TextEntry) -> bool:
    """Whether the section that a name was meant to be is there as well."""
    return bool(config.text.find(*entry.key[:-1], SECTIONS[entry.name]))


def _keys(project: Project, module: ModuleNames) -> Iterator[_Key]:
    if is_test(module.document.path):
        return
    for node in module.nodes:
        if isinstance(node, ast.Dict):
            section = _section_of(project, module, node)
            names = [key for key in node.keys if isinstance(key, ast.Constant)]
            beside = frozenset(name.value for name in names)
            for key in names:
                meant = _slips(section).get(str(key.value))
                is_section = meant is not None and not section and _is_switched_on(node, key) and meant not in beside
                if meant is not None and (section or (is_section and _is_deepspeed(project, module, node))):
                    yield _Key(module, key, section, beside)
        elif (
            isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.slice, ast.Constant)
        ):
            section = _section_in(node.value)
            if section and node.slice.value in _slips(section):
                yield _Key(module, node.slice, section, frozenset())


def _is_switched_on(node: ast.Dict, key: ast.Constant) -> bool:
    """Whether a section that is written out is on."""
    section = next((value for each, value in zip(node.keys, node.values, strict=True) if each is key), None)
    items = zip(section.keys, section.values, strict=True) if isinstance(section, ast.Dict) else ()
    return any(
        string_of(name) == "enabled" and isinstance(value, ast.Constant) and value.value is True
        for name, value in items
        if name is not None
    )


def _section_of(project: Project, module: ModuleNames, node: ast.Dict) -> str:
    """The section that a dictionary is: the value of its key, or assigned to it."""
    parent = module.parents[node]
    if isinstance(parent, ast.Assign):
        return _section_in(parent.targets[0])
    key = key_of(parent, node)
    return key if key in KEYS and isinstance(parent, ast.Dict) and _is_deepspeed(project, module, parent) else ""


def _section_in(node: ast.expr) -> str:
    """The section that ``ds_config["fp16"]`` is."""
    is_config = isinstance(node, ast.Subscript) and is_deepspeed_config(node.value)
    key = string_of(node.slice) if is_config and isinstance(node, ast.Subscript) else None
    return key if key in KEYS else ""


def _is_deepspeed(project: Project, module: ModuleNames, node: ast.Dict) -> bool:
    parent = module.parents[node]
    named = isinstance(parent, ast.Assign) and is_deepspeed_config(parent.targets[0])
    return named or node in project.fact(_known_dictionaries)


def _known_dictionaries(project: Project) -> frozenset[ast.AST | None]:
    """The nodes that are known to be DeepSpeed's configuration."""
    origins = (scope.origin for scope in scopes_of(project) if scope.framework.id == "deepspeed")
    return frozenset(origin.node for origin in origins if isinstance(origin, CodeOrigin)) | {*_handed(project)}


def _handed(project: Project) -> Iterator[ast.AST]:
    """The dictionaries that DeepSpeed itself is passed, or a trainer as ``deepspeed=``."""
    for module in modules_with(project, ("deepspeed",)):
        for call in module.calls:
            names = TAKING if module.qualified(call.func) == "deepspeed.initialize" else ("deepspeed",)
            for value in (item.value for item in call.keywords if item.arg in names):
                yield from (made for _, made in trace(project, module, value, DICTIONARIES))


def _is_read(project: Project, wrong: str, written: int) -> bool:
    """Whether the project says the word anywhere else: it may be a key that it reads itself."""
    spelled = (f'"{wrong}"', f"'{wrong}'", f".{wrong}", f"{wrong}=")
    texts = (document.text for document in project.python_documents((wrong,)))
    return sum(text.count(word) for text in texts for word in spelled) > written
