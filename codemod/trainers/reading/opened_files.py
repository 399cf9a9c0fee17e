"""Which file a mapping of settings was loaded from, and whether a run is known to load one of the project's.

The default of ``cfg["train"].get("amp", False)`` counts only where the file leaves the key out. Of a run whose file
is not known (``--config $1``, an option that has to be given, a file that is not there) it says nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...formats.text import CommandLine
from ...model import Span
from ...purpose.files import CONFIG_ENDINGS
from ...python.identifiers import words_of
from ...python.names import FunctionNode, ModuleNames, modules_at
from ...python.options import Option
from ...python.trace import Domain, Trace, trace
from ...python.trace_steps import TraceGap
from ...source.project import Project
from .command_options import declared_options
from .program_files import file_named, files_named, script_of, words_of_script
from .programs_started import modules_of
from .shown_lines import instructed_files

LIBRARIES = frozenset(
    ("yaml", "json", "toml", "tomllib", "tomli", "omegaconf", "ruamel", "mmengine", "mmcv", "oyaml", "easydict")
)
"""Libraries whose calls make settings of a file or of what stands in it."""
OPENING = frozenset(("open", "Path", "str", "dict", "vars", "EasyDict", "Namespace", "SimpleNamespace", "deepcopy"))
"""Calls that give what they are given on, or open it."""
METHODS = frozenset(("get", "open", "read", "read_text", "resolve", "expanduser", "absolute", "copy", "items", "pop"))
"""Methods of files, paths and mappings that lead to a part of the same file."""
READS = ("get", "getattr", "pop")
ARGUMENTS = "sys.argv"
CALLED = frozenset(("config", "cfg", "conf"))
"""Words of options that name a file of settings."""


@dataclass(frozen=True, slots=True, eq=False)
class NamedFile:
    """What says which file is loaded: an option of the command line, a name in the code, or no file at all."""

    option: Option | None = None
    name: str = ""

    @property
    def shown(self) -> str:
        long = next((flag for flag in self.option.flags if flag.startswith("--")), "") if self.option else ""
        return f"the file given with {long}" if long else "the file on the command line"


NOTHING = NamedFile()
"""An empty mapping in place of a file."""
ON_THE_LINE = NamedFile(name=ARGUMENTS)


@dataclass(frozen=True, slots=True)
class Started:
    """How a run is started, as far as the files that it is passed are concerned."""

    path: str
    """The file that starts it."""
    command: CommandLine | None


def left_to_file(project: Project, path: str, span: Span, started: Started) -> str:
    """The file that decides in place of the default at ``span``, in words, where it is not known; else empty."""
    named = project.memo(_named_behind, path).get(span, ()) if path.endswith(".py") else ()
    known = [item for item in named if item is not None]
    asked = [item for item in known if item.option is not None or item is ON_THE_LINE]
    asked = [item for item in asked if _is_own(project, item, started)] or asked
    if any(_is_known(project, item, known, started) for item in asked):
        return ""
    if asked:
        return asked[0].shown
    return _unknown_config(project, started) if len(known) < len(named) else ""


def _unknown_config(project: Project, started: Started) -> str:
    """Of settings whose way is not followed: the option that says of itself that it names their file."""
    words = words_of_script(started.command) if started.command is not None else ()
    for number, word in enumerate(words):
        flag, equals, value = word.partition("=")
        given = value if equals else next(iter(words[number + 1 :]), "")
        is_file = given.endswith(CONFIG_ENDINGS) or given.startswith("$")
        if is_file and word.startswith("--") and not CALLED.isdisjoint(words_of(flag)):
            return f"the file given with {flag}" if not files_named(project, started.path, given) else ""
    return ""


def _is_own(project: Project, item: NamedFile, started: Started) -> bool:
    """Whether an option is one of the program that a run starts: others may name their files alike."""
    word = started.command.script if started.command is not None else started.path
    script = script_of(project, started.path, word)
    modules = modules_of(project, script) if script is not None else ()
    return item.option is None or item.option.module in modules


def _is_known(project: Project, item: NamedFile, named: Sequence[NamedFile], started: Started) -> bool:
    given = list(_given(item.option, started.command))
    if given:
        return any(files_named(project, started.path, word) for word in given)
    if started.command is None and any(item.option and item.option.module.path == path for path in _told(project)):
        return True
    option = item.option
    default = option.default.value if option is not None and isinstance(option.default, ast.Constant) else None
    names = [each.name for each in named if each.name and each is not ON_THE_LINE]
    names += [default] if isinstance(default, str) else []
    near = option.module.path if option is not None else started.path
    return NOTHING in named or any(file_named(project, near, name) is not None for name in names)


def _told(project: Project) -> set[str]:
    """The scripts that instructions start with a file of the project."""
    return {script for script, _ in instructed_files(project)}


def _given(option: Option | None, command: CommandLine | None) -> Iterable[str]:
    """What a command line gives an option; for an argument in its place every word that can be a file's name."""
    words = words_of_script(command) if command is not None else ()
    flags = option.flags if option is not None else ()
    if not flags:
        yield from (word for word in words if word.endswith(CONFIG_ENDINGS) or word.startswith("$"))
    for number, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in flags or flag.replace("_", "-") in flags:
            yield value if equals else next(iter(words[number + 1 :]), "")


# --- what the code says -----------------------------------------------------------------------------------------------


def _named_behind(project: Project, path: str) -> Mapping[Span, tuple[NamedFile | None, ...]]:
    """What names the file behind each default of a module, by the place of the default."""
    found: dict[Span, tuple[NamedFile | None, ...]] = {}
    for module in modules_at(project, [path]):
        for call in (call for name in READS for call in module.calls_by_name.get(name, ())):
            owner = _owner(call)
            default = call.args[-1] if owner is not None else None
            if owner is not None and isinstance(default, ast.Constant | ast.Attribute | ast.Name):
                found[module.document.span(default)] = tuple(trace(project, module, owner, FILES))
    return found


def _owner(call: ast.Call) -> ast.expr | None:
    """``cfg`` of ``cfg.get("x", default)`` and of ``getattr(cfg, "x", default)``."""
    if isinstance(call.func, ast.Attribute):
        return call.func.value if len(call.args) == 2 else None
    return call.args[0] if len(call.args) == 3 else None


def _leaf(question: Trace[NamedFile | None], module: ModuleNames, node: ast.expr) -> Iterable[NamedFile | None] | None:
    if isinstance(node, ast.Constant):
        return (NamedFile(name=node.value),) if isinstance(node.value, str) else ()
    if isinstance(node, ast.Dict):
        return (NOTHING,) if not node.keys else (None,)
    if isinstance(node, ast.BoolOp):  # ``yaml.safe_load(file) or {}``
        parts = (part for part in node.values if not isinstance(part, ast.Dict))
        return [found for part in parts for found in question.of(module, part)]
    if module.qualified(node) == ARGUMENTS:
        return (ON_THE_LINE,)
    if isinstance(node, ast.Subscript):
        return question.of(module, node.value)
    return _called(question, module, node) if isinstance(node, ast.Call) else None


def _called(
    question: Trace[NamedFile | None], module: ModuleNames, node: ast.Call
) -> Iterable[NamedFile | None] | None:
    if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        return question.of(module, node.func.value)
    qualified = module.qualified(node.func) or ast.unparse(node.func)
    is_opening = qualified.partition(".")[0] in LIBRARIES or qualified.rpartition(".")[2] in OPENING
    given = [*node.args, *(item.value for item in node.keywords if item.arg is None)]
    return question.of(module, given[0]) if is_opening and given else None


def _gap(
    question: Trace[NamedFile | None], module: ModuleNames, node: ast.AST, why: TraceGap
) -> Iterable[NamedFile | None]:
    if isinstance(node, ast.withitem):
        return question.of(module, node.context_expr)
    function = module.parents.get(module.parents.get(node, node)) if isinstance(node, ast.arg) else None
    if isinstance(node, ast.arg) and isinstance(function, FunctionNode):
        options = declared_options(question.project, module, node.arg, function)
        return [NamedFile(option) for option in options] or [None]
    return (None,)


def _setting(question: Trace[NamedFile | None], module: ModuleNames, node: ast.Attribute) -> Iterable[NamedFile | None]:
    """``args.config``; of ``cfg.train`` what ``cfg`` is."""
    listed = declared_options(question.project, module, node.attr)
    options = [option for option in listed if option.kind == "option" and option.switch is None]
    return [NamedFile(option) for option in options] or question.of(module, node.value)


FILES: Domain[NamedFile | None] = Domain(_leaf, _gap, setting=_setting)
"""What names the file that settings were loaded from; None: it is not followed."""
