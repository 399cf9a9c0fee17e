"""Dtypes of weights in configurations whose key no code names, because a constructor takes its whole section.

The key stands beside the path of a class (``_target_: transformers.AutoModel.from_pretrained``), or a load is passed
the section: ``from_pretrained(name, **config["model_kwargs"])``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...python.bindings import only_value
from ...python.names import ModuleNames, modules_at, string_of
from ...source.documents import FileKind
from ...source.facts import fact
from ...source.project import Project
from ...torch.api import COMPUTE_KEY, LOAD_KEYS, LOADERS
from .configs import ConfigFile, TextEntry, config_files
from .hydra_files import mains_of
from .loaded_files import loaders_of
from .named_classes import CLASS_KEYS, UNDER
from .program_files import script_of
from .programs_started import modules_of
from .run_files import modules_named
from .stated_words import is_precision_word

KEYS = (*LOAD_KEYS, COMPUTE_KEY)
OF_HYDRA = "the configuration that Hydra composes"
OF_NOTHING_ELSE = "torch_dtype"
"""A key that only loads have, whatever its section is called."""
KINDS = (FileKind.YAML, FileKind.JSON, FileKind.TOML)
MAX_HOPS = 5


@dataclass(frozen=True, slots=True, eq=False)
class TakenEntry:
    """Such an entry, and what takes it."""

    config: ConfigFile
    entry: TextEntry
    taker: str

    @property
    def is_quantized(self) -> bool:
        return self.entry.name.rpartition(".")[2] == COMPUTE_KEY


@fact
def taken_whole(project: Project) -> Mapping[tuple[str, int], TakenEntry]:
    """Every such entry of a file that a program is seen to load, and of a launch line, by its file and row."""
    found: dict[tuple[str, int], TakenEntry] = {}
    for config in config_files(project, KEYS, (FileKind.SHELL,)):
        for entry in config.text.entries:
            name = entry.name.rpartition(".")[2] if entry.kind == "override" else ""
            if name in KEYS and is_precision_word(str(entry.value)) and _is_of_hydra(project, config, entry):
                found[config.document.path, config.span(entry).row] = TakenEntry(config, entry, OF_HYDRA)
    for config in config_files(project, KEYS, KINDS):
        path = config.document.path
        if config.is_shell or config.is_data or not loaders_of(project, path):
            continue
        for entry in config.text.entries:
            is_dtype = entry.kind == "pair" and entry.is_scalar and is_precision_word(str(entry.value))
            if is_dtype and entry.name in KEYS:
                taker = _class_beside(project, config, entry) or next(_loads(project, path, entry), "")
                if taker:
                    found[path, config.span(entry).row] = TakenEntry(config, entry, taker)
    return found


def _is_of_hydra(project: Project, config: ConfigFile, entry: TextEntry) -> bool:
    """Whether a word of a launch line is for a program whose configuration Hydra composes."""
    script = script_of(project, config.document.path, entry.command)
    return any(True for module in modules_at(project, [script] if script else []) for _ in mains_of(project, module))


def _class_beside(project: Project, config: ConfigFile, entry: TextEntry) -> str:
    """The class that is named beside an entry, or beside the section of arguments that it stands in.

    What a class of the project does with its ``dtype`` is followed elsewhere.
    """
    above = [entry.key[:-1]]
    above += [above[0][:-1]] if above[0] and above[0][-1] in UNDER else []
    for other in config.text.entries:
        is_path = other.key and other.key[-1] in CLASS_KEYS and isinstance(other.value, str) and "." in other.value
        if is_path and other.key[:-1] in above and other.document == entry.document:
            is_own = project.python_path(str(other.value).rpartition(".")[0]) is not None
            return "" if is_own and entry.name != OF_NOTHING_ELSE else str(other.value)
    return ""


def _loads(project: Project, path: str, entry: TextEntry) -> Iterator[str]:
    """The loads of the programs that read a file which are passed the section of an entry."""
    section = str(entry.key[-2]) if len(entry.key) > 1 else ""
    programs = [module for loader in sorted(loaders_of(project, path)) for module in modules_of(project, loader)]
    for module in dict.fromkeys((*programs, *modules_named(project, [path]))):
        for call in (call for name in LOADERS for call in module.calls_by_name.get(name, ())):
            passed = [_section_of(module, item.value) for item in call.keywords if item.arg is None]
            if section in passed or (passed and entry.name == OF_NOTHING_ELSE):
                yield f"{ast.unparse(call.func).rpartition('.')[2]} ({module.path}:{module.document.span(call).row})"


def _section_of(module: ModuleNames, node: ast.expr | None, hops: int = MAX_HOPS) -> str:
    """``model`` of ``config["model"]``, ``cfg.model``, ``config.get("model", {})`` and ``dict(cfg.model)``."""
    if node is None or not hops:
        return ""
    if isinstance(node, ast.Subscript):
        return string_of(node.slice) or ""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        first = node.args[0] if node.args else None
        return (string_of(first) or "") if isinstance(first, ast.Constant) else _section_of(module, first, hops - 1)
    if isinstance(node, ast.Name):
        return _section_of(module, only_value(module, node), hops - 1) or node.id
    return ""
