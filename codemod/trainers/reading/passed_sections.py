"""Settings that code passes to a trainer as a whole: ``Trainer(**config["fit"])``, ``TrainingArguments(**vars(args))``.

What is read by a path ends a path of a file that the program is seen to load. Of an object it is the options and fields
that the project declares.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...purpose.files import purpose_of
from ...purpose.imports import connected_modules
from ...python.creations import creations_of
from ...python.names import ModuleNames, attribute_chain
from ...python.options import Option
from ...python.trace import Domain, Trace, trace
from ...source.project import Project
from ..framework import FrameworkKey
from .command_options import declared_options
from .configs import ConfigFile, TextEntry, config_files
from .loaded_files import is_only_composed
from .mapping_items import MappingItem
from .program_files import command_lines, script_of
from .programs_started import modules_of
from .recognition import stands_at
from .scopes import FALSE, CodeOrigin, Setting, SettingScope, TextOrigin
from .setting_reads import MAPPINGS, Read, is_loaded_for, is_of_settings, is_packaged, read_of
from .text_scopes import scope_of, setting_of, tree_scope

SAME_ENTRIES = frozenset(("dict", "vars", "to_container", "asdict", "deepcopy"))
"""Calls that give the entries of what they are given."""
OF_OBJECTS = ("vars", "asdict")
DUMPING = ("model_dump", "dict", "to_dict", "_asdict", "as_dict")
"""Methods of an object that give its attributes as entries."""
OF_ARGPARSE = "from_argparse_args"
"""How Lightning 1.x makes a Trainer of what argparse gives."""


def passed_sections(
    project: Project, calls: Iterable[SettingScope], known: Iterable[SettingScope]
) -> Iterator[SettingScope]:
    """A scope for each section that one of the ``calls`` is passed and that is no part of the ``known`` scopes."""
    taken = {place for scope in known for place in _places(scope)}
    for call in calls:
        for read in _reads(project, call):
            sections = [*_sections(project, call, read)]
            for section in (*sections, *_overrides(project, call, read, sections)):
                held = set(_places(section))
                if taken.isdisjoint(held) and any(item.key.means for item in section.settings):
                    taken |= held
                    yield section


def with_objects(project: Project, call: SettingScope) -> SettingScope:
    """A call with what it is passed of an object's attributes, ``**vars(args)``: the settings that are declared."""
    origin = call.origin
    if call.call is None or not isinstance(origin, CodeOrigin):
        return call
    settings, items = list(call.settings), list(origin.items)
    given = {item.path for item in items}
    for owner, holder in _objects(call.call):
        for key in (key for key in call.framework.keys if key.means):
            for name in (name for name in key.arguments if name.isidentifier() and name not in given):
                node = _attribute(owner, name, holder)
                options = declared_options(project, origin.module, name)
                known = [item for item in options if _may_be_of(project, origin.module, owner, item)]
                if known and len(known) == len(options) and _may_hold(project, origin.module, node):
                    place = origin.module.place(owner, f"{name} is among {ast.unparse(owner)}")
                    settings.append(Setting(key, None, "unknown", place, name, len(items)))
                    items.append(MappingItem(name, node, call.call, name))
                    given.add(name)
    changed = replace(origin, items=tuple(items))
    return replace(call, settings=tuple(settings), origin=changed) if len(items) > len(origin.items) else call


def _objects(call: ast.Call) -> Iterator[tuple[ast.expr, ast.AST]]:
    """``args`` of ``**vars(args)``, ``**asdict(args)``, ``**args.__dict__`` and ``from_argparse_args(args)``."""
    if getattr(call.func, "attr", "") == OF_ARGPARSE and call.args:
        yield call.args[0], call
    for keyword in (item for item in call.keywords if item.arg is None):
        value = keyword.value
        if isinstance(value, ast.Attribute) and value.attr == "__dict__":
            yield value.value, keyword
        elif isinstance(value, ast.Call):
            name = (attribute_chain(value.func) or [""])[-1]
            if name in OF_OBJECTS and len(value.args) == 1:
                yield value.args[0], keyword
            elif name in DUMPING and isinstance(value.func, ast.Attribute) and not value.args:
                yield value.func.value, keyword


def _attribute(owner: ast.expr, name: str, holder: ast.AST) -> ast.Attribute:
    """``args.fp16``, as if it stood there."""
    node = ast.copy_location(ast.Attribute(owner, name, ast.Load()), owner)
    node.parent = holder  # type: ignore[attr-defined]
    return node


def _may_be_of(project: Project, module: ModuleNames, owner: ast.expr, option: Option) -> bool:
    """Whether an option can be an attribute of ``owner``: one of a parser, or a field of the class that it is known to
    be made of, or annotated with."""
    held = option.module.scope_of(option.node).node if option.kind == "field" else None
    if not isinstance(held, ast.ClassDef):
        return option.kind == "option"
    name = (attribute_chain(owner) or [""])[-1]
    asked = {(attribute_chain(made.call.func) or [""])[-1] for made in creations_of(project, module, owner)}
    for other in connected_modules(project, module):
        fields = (item.annotation for item in other.of_type(ast.AnnAssign) if ast.unparse(item.target) == name)
        parameters = (item.annotation for item in other.of_type(ast.arg) if item.arg == name)
        asked |= {ast.unparse(item).strip("'\"") for item in (*fields, *parameters) if item is not None}
    return asked == {held.name}


def _may_hold(project: Project, module: ModuleNames, node: ast.Attribute) -> bool:
    read = read_of(module, node)
    return read is not None and not read.of_environment and is_of_settings(project, read)


def _places(scope: SettingScope) -> Iterator[tuple[ConfigFile, int]]:
    if isinstance(scope.origin, TextOrigin):
        yield from ((scope.origin.config, setting.index) for setting in scope.settings)


def _reads(project: Project, call: SettingScope) -> Iterator[Read]:
    """What is passed to a call by ``**``, as far as it is read from settings."""
    if call.call is None or not isinstance(call.origin, CodeOrigin):
        return
    for keyword in call.call.keywords:
        for read in trace(project, call.origin.module, keyword.value, READS) if keyword.arg is None else ():
            if is_of_settings(project, read):
                yield read


def _read(question: Trace[Read], module: ModuleNames, node: ast.expr) -> Iterable[Read] | None:
    """``config["fit"]``, also behind calls that copy its entries; what ``self`` holds is followed."""
    if isinstance(node, ast.Call) and node.args and (attribute_chain(node.func) or [""])[-1] in SAME_ENTRIES:
        return question.of(module, node.args[0])
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
        return None
    read = read_of(module, node)
    return (read,) if read is not None and not read.of_environment else None


READS: Domain[Read] = Domain(_read, lambda *_gap: (), follows_returns=False)
"""The settings that an expression is read from as a whole."""


def _sections(project: Project, call: SettingScope, read: Read) -> Iterator[SettingScope]:
    words = [name for key in call.framework.keys if key.means for name in key.arguments]
    for config in config_files(project, words, MAPPINGS):
        path = config.document.path
        if config.is_shell or config.is_data or purpose_of(path).is_left_alone:
            continue
        for section in _within(project, config, read) if is_loaded_for(project, path, read.module) else ():
            key = section.key if section is not None else ()
            below = [item for item in config.text.entries if item.key[:-1] == key and _is_beside(item, section)]
            found = tree_scope(config, call.framework, below, section)
            yield replace(found, is_open=_is_passed_more(call))


def _overrides(
    project: Project, call: SettingScope, read: Read, sections: Sequence[SettingScope]
) -> Iterator[SettingScope]:
    """What launch lines set in such a section: ``python train.py trainer.fp16=true``.

    What is on in a file counts beside it, unless the line says all of that again.
    """
    on = {item.key.name for scope in sections for item in scope.effective() if item.key.means and item.value != FALSE}
    for config, command in command_lines(project):
        script = script_of(project, config.document.path, command.script)
        if script is None or read.module not in modules_of(project, script):
            continue
        number = config.text.commands.index(command)
        own = [item for item in config.text.entries if item.kind == "override" and number in (item.call, *item.also)]
        own = [item for item in own if tuple(item.name.split(".")[-len(read.parts) - 1 : -1]) == read.parts]
        keys = [(item, key) for item in own for key in call.framework.keys if _is_named(item, key)]
        settings = [setting_of(config, *item) for item in keys]
        origin = TextOrigin(config, None, number, min((item.index for item in own), default=0))
        is_open = not on <= {item.key.name for item in settings}
        found = scope_of(config, call.framework, "command", settings, command.script, origin, is_open, command.start)
        yield replace(found, command=command)


def _is_named(entry: TextEntry, key: FrameworkKey) -> bool:
    return any(stands_at(entry.name.rpartition(".")[2], place) for place in key.places)


def _within(project: Project, config: ConfigFile, read: Read) -> Iterator[TextEntry | None]:
    """The sections of a file that end the path; None for a file of a Hydra group, whose folder says the path."""
    path = config.document.path
    folders = tuple(path.split("/")[:-1])
    if folders[-len(read.parts) :] == read.parts and is_only_composed(project, path) and not is_packaged(config):
        yield None
    for entry in config.text.entries:
        if entry.container == "mapping" and tuple(map(str, entry.key[-len(read.parts) :])) == read.parts:
            yield entry


def _is_passed_more(call: SettingScope) -> bool:
    """Whether a call is passed settings beside a section, or may be."""
    unpacked = [item for item in call.call.keywords if item.arg is None] if call.call is not None else []
    return bool(call.settings) or len(unpacked) > 1


def _is_beside(item: TextEntry, section: TextEntry | None) -> bool:
    return section is None or item.document == section.document
