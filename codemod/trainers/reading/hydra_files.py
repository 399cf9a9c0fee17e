"""Which files Hydra composes for a program: the primary one, the groups of its defaults list, and what these extend.

``defaults: [trainer: ddp]`` reads ``trainer/ddp.yaml``, which extends ``default.yaml`` beside it where its own list
says so; ``trainer=ddp_fp16`` on a command line picks another file of the group.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ...python.bindings import only_value
from ...python.keywords import keywords_of
from ...python.names import ModuleNames, last_name, string_of
from ...python.options import options_in
from ...source.project import Project
from .configs import ConfigFile, opened

PACKAGE = "hydra"
NAMES, FOLDERS = ("config_name",), ("config_path", "config_dir")
"""Keywords with which Hydra is told the primary file (without its ending) and the folder of files to compose."""
NAME_FLAGS, FOLDER_FLAGS = ("--config-name", "-cn"), ("--config-path", "-cp", "--config-dir", "-cd")
BASE = "version_base"
"""A keyword of releases that put the first file over those that it names."""
HYDRA = ("config_name", "config_path", BASE)
"""Keywords with which Hydra is told a file without its ending, and the folder of files that are composed."""
OF_MODULE, COMPOSE = "initialize_config_module", "compose"
SELF = "_self_"
PACKAGE_LINE = "# @package"
OF_HYDRA = "hydra"
"""The group of Hydra's own files."""
MAX_HOPS = 3
"""Names between a keyword and the text that it is given."""
MAX_FILES = 200
"""How many files one program is composed of."""


@dataclass(frozen=True, slots=True)
class HydraMain:
    """Where a program's files are, and which one is the first."""

    root: str
    name: str
    near: str = ""
    """The file that says so."""
    is_ordered: bool = False
    """Whether the release is known to put the first file over those that it names, unless it says otherwise."""
    flags: tuple[str, ...] = ()
    """The option of the program that names the first file: ``compose(config_name=args.config)``."""


Package = tuple[str, ...] | None
"""Where the keys of a file go; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Composition:
    """The files of one run, those that say more before those that they extend, and where their keys go."""

    files: Mapping[str, Package]
    is_whole: bool
    """Whether everything that is named was found."""


def mains_of(project: Project, module: ModuleNames) -> Iterator[HydraMain]:
    """What the ``hydra.main(...)`` and ``initialize(...)`` calls of a module compose from."""
    if PACKAGE not in module.imported_packages:
        return
    for call in module.calls:
        given = keywords_of(module, call).values
        folder = next((given[name] for name in FOLDERS if name in given), None)
        text = _last_text(module, folder) if folder is not None else _package_named(module, call)
        root = _folder(project, module.document.path, text) if text else None
        if root is not None:
            name = next((_last_text(module, given[name]) for name in NAMES if name in given), "")
            flags = () if name else _flags_naming(project, module)
            yield HydraMain(root, name, module.document.path, BASE in given, flags)


def _package_named(module: ModuleNames, call: ast.Call) -> str:
    """The folder of ``initialize_config_module("package.configs")``."""
    is_one = last_name(call.func) == OF_MODULE and (module.qualified(call.func) or "").startswith(PACKAGE)
    given = [*call.args[:1], *(item.value for item in call.keywords if item.arg == "config_module")]
    return (string_of(given[0]) or "").replace(".", "/") if is_one and given else ""


def _flags_naming(project: Project, module: ModuleNames) -> tuple[str, ...]:
    """The flags of the option that a module composes the file of; none where its calls compose from several."""
    calls = module.calls_by_name.get(COMPOSE, ())
    names = [item.value for call in calls for item in call.keywords if item.arg in NAMES]
    read = {item.attr for item in names if isinstance(item, ast.Attribute)}
    options = options_in(project, module).get(next(iter(read)), []) if len(read) == 1 and len(names) == 1 else []
    return options[0].flags if len(options) == 1 else ()


def _last_text(module: ModuleNames, node: ast.expr, hops: int = MAX_HOPS) -> str:
    """The literal, or the last literal part of a path that is put together: ``f"{root}/configs"``, ``str(FOLDER)``."""
    texts = [item.value for item in ast.walk(node) if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    names = [item for item in ast.walk(node) if isinstance(item, ast.Name)] if hops and not texts else []
    values = [value for name in names if (value := only_value(module, name)) is not None]
    return texts[-1] if texts else _last_text(module, values[-1], hops - 1) if values else ""


def _folder(project: Project, near: str, text: str) -> str | None:
    plain = text.strip("/")
    for base in (posixpath.dirname(near), ""):
        root = posixpath.normpath(posixpath.join(base, plain))
        if plain and not root.startswith("..") and root in project.fact(_folders):
            return root
    return None


def _folders(project: Project) -> frozenset[str]:
    found = {"."}
    for path in project.paths:
        folder = posixpath.dirname(path)
        while folder and folder not in found:
            found.add(folder)
            folder = posixpath.dirname(folder)
    return frozenset(found)


def composed(project: Project, main: HydraMain, words: Sequence[str] = ()) -> tuple[str, ...]:
    """The files of a run with these words on its command line, those that say more before those that they extend."""
    return tuple(composition(project, main, words).files)


def composition(project: Project, main: HydraMain, words: Sequence[str] = ()) -> Composition:
    """The same, with what is known of their keys."""
    return project.memo(_composition, (main, tuple(words)))


def _composition(project: Project, asked: tuple[HydraMain, tuple[str, ...]]) -> Composition:
    main, words = asked
    chosen = chosen_groups(words)
    name = chosen.pop("", main.name) or _value_of(words, main.flags)
    folder = _value_of(words, FOLDER_FLAGS[:2])
    root = _folder(project, main.near, folder) if folder else main.root
    if root is None or not name or _value_of(words, FOLDER_FLAGS[2:]):
        return Composition({}, is_whole=False)
    composing = _Composing(project, replace(main, root=root), chosen)
    for _ in range(2):  # what a file overrides is known after the first time
        composing.files.clear()
        composing.missing.clear()
        composing.visit(name, ())
    return Composition(dict(reversed(composing.files.items())), not composing.missing)


def chosen_groups(words: Sequence[str]) -> dict[str, str]:
    """The file that a command line picks of each group; under "" the primary one."""
    named = _value_of(words, NAME_FLAGS)
    found = {"": named} if named else {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals and not key.startswith("-"):
            found[key.lstrip("+").partition("@")[0]] = value.strip("\"'")
    return found


def _value_of(words: Sequence[str], flags: Sequence[str]) -> str:
    """What a command line gives a flag, ``--config-name small`` or ``--config-name=small``; empty for nothing."""
    for word, after in pairwise((*words, "")):
        key, equals, value = word.partition("=")
        if key in flags:
            return value if equals else after
    return ""


@dataclass(slots=True)
class _Composing:
    project: Project
    main: HydraMain
    chosen: Mapping[str, str]
    """Groups that the command line picks a file of."""
    overridden: dict[str, str] = field(default_factory=dict)
    """Groups that a file overrides: ``override /trainer: ddp``."""
    files: dict[str, Package] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    """What is named and not there: a name that is put together, a class that the code registers."""

    def visit(self, stem: str, package: Package) -> None:
        """A file (below the root, without its ending) and all that it names, the weaker ones first."""
        name = stem if stem.endswith((".yaml", ".yml")) else f"{stem}.yaml"
        path = posixpath.normpath(f"{self.main.root}/{name}")
        config = config_at(self.project, path)
        group = posixpath.dirname(stem)
        if config is None and group.partition("/")[0] != OF_HYDRA:
            self.missing.add(path)
        if config is None or path in self.files or len(self.files) > MAX_FILES:
            return
        package = _package_said(config, group, package)
        named: set[str] = set()
        listed = list(defaults_of(config))
        says_where = any(choice == SELF for _, choice in listed) or not listed
        own = package if group or says_where or self.main.is_ordered else None
        for inner, choice in listed:
            if choice == SELF:
                self.files[path] = own
            else:
                self._follow((group, package), inner, choice, named)
        self.files.setdefault(path, own)
        for key, value in self.chosen.items() if not group else ():
            folder = posixpath.normpath(f"{self.main.root}/{key}")
            if key not in named and folder in self.project.fact(_folders):
                self._choose(key, value, tuple(key.split("/")))

    def _follow(self, owner: tuple[str, Package], inner: str, choice: str, named: set[str]) -> None:
        group, package = owner
        *words, target = inner.split() or [""]
        target, at, _ = target.partition("@")
        if not target:
            is_whole = choice.startswith("/")
            self.visit(choice.strip("/") if is_whole else posixpath.join(group, choice), None if is_whole else package)
            return
        is_whole = target.startswith("/")
        whole = target.strip("/") if is_whole else posixpath.join(group, target)
        if "override" in words:
            self.overridden.setdefault(whole, choice)
            return
        named.add(whole)
        base = () if is_whole else package
        inner_package = None if at or base is None else (*base, *target.strip("/").split("/"))
        self._choose(whole, self.chosen.get(whole, self.overridden.get(whole, choice)), inner_package)

    def _choose(self, group: str, choices: str, package: Package) -> None:
        """The file that is picked of a group; each of those of a sweep, of which none is over another."""
        listed = choices.split(",")
        for choice in listed:
            self.visit(posixpath.join(group, choice.strip()), package if len(listed) == 1 else None)


def _package_said(config: ConfigFile, group: str, otherwise: Package) -> Package:
    """Where a file's keys go as its head says: ``# @package _global_``; else as its place says."""
    head = config.document.text.partition("\n")[0].strip()
    if not head.startswith(PACKAGE_LINE):
        return otherwise
    said = head.removeprefix(PACKAGE_LINE).strip().replace("_group_", group.replace("/", "."))
    parts = tuple(part for part in said.split(".") if part not in ("", "_global_"))
    return None if "_name_" in parts else parts


def defaults_of(config: ConfigFile) -> Iterator[tuple[str, str]]:
    """The items of a defaults list: the group (empty for a file) and the choice."""
    for entry in config.text.entries:
        if entry.key[:1] == ("defaults",) and len(entry.key) in (2, 3, 4) and isinstance(entry.value, str):
            group = entry.key[2] if len(entry.key) > 2 else ""
            if not entry.container and isinstance(group, str):
                yield group, entry.value


def config_at(project: Project, path: str) -> ConfigFile | None:
    """The configuration text of a whole file."""
    document = project.document(path)
    texts = opened(project, document) if document is not None else ()
    return texts[0] if texts and not texts[0].is_shell else None


def extended_by(project: Project, path: str) -> tuple[str, ...]:
    """The files beside ``path`` that its own defaults list names, and those that they name."""
    found: dict[str, None] = {}
    waiting = [path]
    while waiting and len(found) < MAX_FILES:
        current = waiting.pop()
        config = config_at(project, current)
        for group, choice in defaults_of(config) if config is not None else ():
            name = choice if choice.endswith((".yaml", ".yml")) else f"{choice}.yaml"
            base = posixpath.normpath(posixpath.join(posixpath.dirname(current), name))
            if not group and choice != SELF and base != path and base not in found:
                found[base] = None
                waiting.append(base)
    return tuple(base for base in found if config_at(project, base) is not None)
