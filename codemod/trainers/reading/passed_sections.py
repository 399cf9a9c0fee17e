"""Mappings of configuration files that code passes to a trainer as a whole: ``Trainer(**config["fit"])``.

What is read by a path ends a path of a file that the program is seen to load.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...purpose.files import purpose_of
from ...python.names import ModuleNames, attribute_chain
from ...python.trace import Domain, Trace, trace
from ...source.project import Project
from .configs import ConfigFile, Entry, config_files
from .loaded_files import is_only_composed
from .scopes import CodeOrigin, Scope, TextOrigin
from .setting_reads import MAPPINGS, Read, is_loaded_for, is_of_settings, is_packaged, read_of
from .text_scopes import tree_scope

SAME_ENTRIES = frozenset(("dict", "vars", "to_container", "asdict", "deepcopy"))
"""Calls that give the entries of what they are given."""


def passed_sections(project: Project, calls: Iterable[Scope], known: Iterable[Scope]) -> Iterator[Scope]:
    """A scope for each section that one of the ``calls`` is passed and that is no part of the ``known`` scopes."""
    taken = {place for scope in known for place in _places(scope)}
    for call in calls:
        for read in _reads(project, call):
            for section in _sections(project, call, read):
                held = set(_places(section))
                if taken.isdisjoint(held) and any(item.key.means for item in section.settings):
                    taken |= held
                    yield section


def _places(scope: Scope) -> Iterator[tuple[ConfigFile, int]]:
    if isinstance(scope.origin, TextOrigin):
        yield from ((scope.origin.config, setting.index) for setting in scope.settings)


def _reads(project: Project, call: Scope) -> Iterator[Read]:
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


def _sections(project: Project, call: Scope, read: Read) -> Iterator[Scope]:
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


def _within(project: Project, config: ConfigFile, read: Read) -> Iterator[Entry | None]:
    """The sections of a file that end the path; None for a file of a Hydra group, whose folder says the path."""
    path = config.document.path
    folders = tuple(path.split("/")[:-1])
    if folders[-len(read.parts) :] == read.parts and is_only_composed(project, path) and not is_packaged(config):
        yield None
    for entry in config.text.entries:
        if entry.container == "mapping" and tuple(map(str, entry.key[-len(read.parts) :])) == read.parts:
            yield entry


def _is_passed_more(call: Scope) -> bool:
    """Whether a call is passed settings beside a section, or may be."""
    unpacked = [item for item in call.call.keywords if item.arg is None] if call.call is not None else []
    return bool(call.settings) or len(unpacked) > 1


def _is_beside(item: Entry, section: Entry | None) -> bool:
    return section is None or item.document == section.document
