"""The interface of a program: parsers that it makes itself, or in the modules that it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ...model import Place
from ...purpose.imports import imported_names, reached_from
from ...python.bindings import only_value
from ...python.callers import callers_of
from ...python.class_fields import declared_fields
from ...python.commands import command_parameters
from ...python.functions import class_of
from ...python.names import ModuleNames, modules_at, resolve, string_of
from ...python.options import options_in
from ...source.facts import memo
from ...source.project import Project
from ..framework import Framework
from .interface import Interface

MAX_MODULES = 40
"""How many modules of the project a script's imports are followed through."""
MAX_HOPS = 2
"""Calls between the lines that only a script runs and what they run."""
PARSERS = ("ArgumentParser", "ArgParser", "OptionParser", "command", "group")
"""Calls that make a parser of single options: argparse, configargparse, optparse, click."""
PARSING = ("parse_args", "parse_intermixed_args", "parse_args_into_dataclasses")
TOLERANT = ("parse_known_args", "parse_known_intermixed_args", "add_argparse_args")
"""Calls after which a program takes options that are not defined in it."""
OF_DEEPSPEED = ("deepspeed", "deepspeed_config", "deepscale", "deepscale_config", "deepspeed_mpi")
"""What `deepspeed.add_config_arguments` adds to a parser, in each release."""
DECORATED = frozenset(("fastcore",))
"""Libraries of which a decorator makes the parser."""
OPEN_PACKAGES = frozenset(("hydra", "fire", "absl", "omegaconf", "mmengine", "mmcv", "ml_collections", "sacred"))
"""Libraries whose programs take options without a declaration that is read here."""
MAX_BASES = 6
TYPED_PARSERS = ("HfArgumentParser", "TrlParser")
CONFIG_READERS = ("parse_yaml_file", "parse_json_file", "parse_dict", "parse_args_and_config")
"""Methods with which such a parser reads a file; `parse_dict` is given what a file was read into."""
OF_TRL = frozenset(("--config",))
PLAIN_BASES = frozenset(
    (
        *("object", "abc.ABC", "ABC", "typing.Generic", "typing.Protocol", "enum.Enum", "Enum", "str", "dict"),
        *("pydantic.BaseModel", "pydantic_settings.BaseSettings", "typing.NamedTuple", "NamedTuple"),
    )
)
"""Base classes of other libraries without fields of their own."""


@memo
def interface_of(project: Project, script: str) -> Interface | None:
    """What the program ``script`` (a path) accepts; None where no parser of it is seen."""
    starts = [*modules_at(project, [script])]
    modules = reached_from(project, starts, MAX_MODULES)
    growing = _Growing()
    for module in modules:
        _take_typed(project, growing, module, is_script=module.document.path == script)
        _take_plain(project, growing, module)
    if not growing.is_parser:
        return None
    is_closed = growing.is_closed and len(modules) < MAX_MODULES
    return Interface(
        script,
        frozenset(growing.names),
        tuple(growing.frameworks.values()),
        is_closed,
        growing.is_typed,
        growing.is_generated,
        frozenset(growing.file_flags),
        frozenset(growing.files),
        growing.place,
        frozenset(name.partition(".")[0] for module in modules for name in imported_names(module)),
        tuple(growing.choices),
    )


@dataclass(slots=True)
class _Growing:
    names: set[str] = field(default_factory=set)
    frameworks: dict[str, Framework] = field(default_factory=dict)
    file_flags: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    choices: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    place: Place | None = None
    is_closed: bool = True
    is_typed: bool = False
    is_generated: bool = False
    is_parser: bool = False

    def take(self, other: Fields) -> None:
        self.names |= other.names
        self.frameworks |= {item.id: item for item in other.frameworks}
        self.is_closed = self.is_closed and other.is_complete


def _take_typed(project: Project, growing: _Growing, module: ModuleNames, is_script: bool) -> None:
    """The parsers over classes of fields; of an imported module not those that only run with it as a script."""
    parsers = typed_parsers(project, module)
    if is_script and not parsers and any(name in module.calls_by_name for name in TYPED_PARSERS):
        growing.is_closed = False  # a parser whose module is not told: ``from utils import *``
    for parser in parsers:
        if not is_script and runs_only_as_script(project, module, parser.call):
            continue
        growing.is_parser = growing.is_typed = True
        growing.place = growing.place or module.place(parser.call, "the parser")
        growing.take(fields_of(project, module, parser))
        growing.file_flags |= set(parser.file_flags)
    for name in CONFIG_READERS:
        for call in module.calls_by_name.get(name, ()) if growing.is_typed else ():
            growing.files |= set(_texts(call))
            growing.file_flags.add("")


def _texts(call: ast.Call) -> Iterator[str]:
    passed = [*call.args, *(item.value for item in call.keywords)]
    for node in (inner for item in passed for inner in ast.walk(item)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield node.value


def _take_plain(project: Project, growing: _Growing, module: ModuleNames) -> None:
    """The options of argparse and click: all of a module's, as parsers are passed from function to function."""
    added = (call.args[0] for call in module.calls_by_name.get("add_argument", ()) if call.args)
    growing.is_generated = growing.is_generated or any(isinstance(name, ast.JoinedStr | ast.BinOp) for name in added)
    growing.is_closed = growing.is_closed and not growing.is_generated and _is_closed(module)
    options = options_in(project, module)
    declared = {name for name, found in options.items() if any(item.kind == "option" for item in found)}
    flags = {
        flag.lstrip("-").replace("-", "_")
        for found in options.values()
        for item in found
        if item.kind == "option"
        for flag in (*item.flags, *item.negated)
    }
    growing.names |= declared | flags
    growing.names |= set(OF_DEEPSPEED) if "add_config_arguments" in module.calls_by_name else set()
    listed = ((item.name, item.choices) for found in options.values() for item in found if item.choices)
    growing.choices += [
        (name, frozenset(word for each in words if (word := string_of(each)))) for name, words in listed
    ]
    for call in module.calls_by_name.get("add_argparse_args", ()):
        owner = module.qualified(call.func.value) if isinstance(call.func, ast.Attribute) else None
        growing.frameworks |= {item.id: item for item in project.frameworks if owner in item.recognize.calls}
    if "fromfile" in module.calls_by_name:
        growing.frameworks |= {item.id: item for item in _of_python_files(project, module)}
    makes = declared and any(name in module.calls_by_name for name in PARSERS)
    makes = makes or bool(not DECORATED.isdisjoint(module.imported_packages) and any(command_parameters(module)))
    if makes or any(name in module.calls_by_name for name in ("ArgumentParser", *PARSING)):
        growing.is_parser = True


def _of_python_files(project: Project, module: ModuleNames) -> Iterator[Framework]:
    """The trainers that are set up in Python files, ``Config.fromfile(args.config)``, where a module imports them."""
    imported = {name.partition(".")[0] for name in imported_names(module)}
    for item in (item for item in project.frameworks if item.is_of_python_files):
        if not imported.isdisjoint(name.partition("-")[0] for name in item.packages):
            yield item


def _is_closed(module: ModuleNames) -> bool:
    if any(name in module.calls_by_name for name in TOLERANT):
        return False
    if any(isinstance(node, ast.Attribute) and node.attr == "REMAINDER" for node in module.of_type(ast.Attribute)):
        return False
    if any(name in module.calls_by_name for name in TYPED_PARSERS) and "return_remaining_strings" in _keywords(module):
        return False
    return OPEN_PACKAGES.isdisjoint(module.imported_packages)


def _keywords(module: ModuleNames) -> Iterable[str]:
    return {item.arg for call in module.calls for item in call.keywords if item.arg is not None}


def runs_only_as_script(project: Project, module: ModuleNames, node: ast.AST, hops: int = MAX_HOPS) -> bool:
    """Whether a node stands under ``if __name__ == "__main__":``, or in a function that is called only there."""
    above = tuple(module.ancestors(node))
    if any(is_main_guard(item) for item in above):
        return True
    function = next((item for item in above if isinstance(item, ast.FunctionDef)), None)
    if function is None or not hops:
        return False
    callers = callers_of(project, module, function)
    return (
        callers.complete
        and bool(callers.sites)
        and all(
            site.module is module and runs_only_as_script(project, module, site.call, hops - 1)
            for site in callers.sites
        )
    )


def is_main_guard(node: ast.AST) -> bool:
    """Whether a node is ``if __name__ == "__main__":``."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) and "__main__" in ast.unparse(node.test)


@dataclass(frozen=True, slots=True, eq=False)
class TypedParser:
    """One call that makes such a parser."""

    call: ast.Call
    classes: tuple[ast.expr, ...]
    is_readable: bool
    """Whether the classes are written down at the call."""
    file_flags: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    names: frozenset[str]
    frameworks: tuple[Framework, ...]
    """Trainers whose classes are among them, or among their bases."""
    is_complete: bool


def typed_parsers(project: Project, module: ModuleNames) -> tuple[TypedParser, ...]:
    """Every parser over classes that ``module`` makes."""
    return project.memo(_typed_parsers, module) if project.fact(_are_named) else ()


def _are_named(project: Project) -> bool:
    """Whether any file names the library's parsers: all others derive from these."""
    return bool(project.python_paths(map(str.lower, TYPED_PARSERS), TYPED_PARSERS))


def _typed_parsers(project: Project, module: ModuleNames) -> tuple[TypedParser, ...]:
    return tuple(_made_in(project, module))


def _made_in(project: Project, module: ModuleNames) -> Iterator[TypedParser]:
    for calls in module.calls_by_name.values():
        for call in calls:
            kind = _kind(project, module, call.func, 0)
            if kind:
                classes = _classes(module, call)
                is_own = class_of(project, module, call.func) is not None
                flags = OF_TRL if kind == "TrlParser" else frozenset()
                yield TypedParser(call, classes or (), classes is not None, flags | ({""} if is_own else set()))


def _kind(project: Project, module: ModuleNames, func: ast.expr, depth: int) -> str:
    """The library's parser that a call makes, directly or as the base of the project's class; empty for others."""
    last = (resolve(project, module, func) or "").rpartition(".")[2]
    if last in TYPED_PARSERS:
        return last
    own = class_of(project, module, func) if depth < MAX_BASES else None
    if own is None or not isinstance(own[1].node, ast.ClassDef):
        return ""
    return next((kind for base in own[1].node.bases if (kind := _kind(project, own[0], base, depth + 1))), "")


def _classes(module: ModuleNames, call: ast.Call) -> tuple[ast.expr, ...] | None:
    named = (item.value for item in call.keywords if item.arg in ("dataclass_types", "dataclass_type"))
    given: ast.expr | None = next((*call.args[:1], *named).__iter__(), None)
    if isinstance(given, ast.Name) and not _is_class_name(module, given):
        given = only_value(module, given)
    if isinstance(given, ast.Tuple | ast.List):
        return tuple(given.elts)
    return (given,) if isinstance(given, ast.Name | ast.Attribute) else None


def _is_class_name(module: ModuleNames, node: ast.Name) -> bool:
    bindings = module.bindings_of(node)
    return any(item.kind in ("import", "class") for item in bindings) or not bindings


def fields_of(project: Project, module: ModuleNames, parser: TypedParser) -> Fields:
    """All fields of a parser's classes."""
    return joined((class_fields(project, module, item) for item in parser.classes), parser.is_readable)


def joined(parts: Iterator[Fields], is_complete: bool = True) -> Fields:
    names: set[str] = set()
    frameworks: dict[str, Framework] = {}
    for part in parts:
        names |= part.names
        frameworks |= {item.id: item for item in part.frameworks}
        is_complete = is_complete and part.is_complete
    return Fields(frozenset(names), tuple(frameworks.values()), is_complete)


def class_fields(project: Project, module: ModuleNames, node: ast.expr, depth: int = 0) -> Fields:
    """The fields of one class that an expression names: its own, its bases', and the trainers it belongs to."""
    own = class_of(project, module, node)
    if own is not None and isinstance(own[1].node, ast.ClassDef) and depth < MAX_BASES:
        inner, scope = own
        above = joined(class_fields(project, inner, base, depth + 1) for base in own[1].node.bases)
        return Fields(above.names | declared_fields(scope.node).keys(), above.frameworks, above.is_complete)
    qualified = resolve(project, module, node) or ast.unparse(node)
    if qualified in PLAIN_BASES:
        return Fields(frozenset(), (), True)
    frameworks = tuple(item for item in project.frameworks if _makes(item, qualified))
    return Fields(frozenset(), frameworks, bool(frameworks))


def _makes(framework: Framework, qualified: str) -> bool:
    return any(fnmatchcase(qualified, name) for name in framework.recognize.calls)
