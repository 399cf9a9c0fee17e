"""Which places belong to one run, and which of them wins: launch line, launcher's file, script, its arguments.

Precedence, strongest first: what the script itself passes, its command-line flags, the configuration file it is given,
the launcher's flags, environment variables, the launcher's own file. Source: accelerate 1.15 (a script's
``Accelerator(mixed_precision=)`` beats the launch flag, which beats the file), transformers 5 and Lightning 2.6
(arguments beat the environment).
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace

from ...formats.text import CommandLine
from ...model import Place, Span
from ...purpose.files import purpose_of
from ...purpose.training import training_modules
from ...python.names import ModuleNames, names_of
from ...source.documents import FileKind
from ...source.facts import fact
from ...source.project import Project
from .chosen_alternatives import is_chosen
from .command_options import is_set_again
from .configs import COMMANDS, ConfigFile, config_files
from .declarations import scopes_of
from .handed import Launch, handed_in, is_left_out
from .picked_calls import is_picked_by_word
from .program_files import LAUNCHING, configs_named, file_in_code, file_named, files_named, script_of
from .programs_started import built_by_name, candidates, is_program, modules_of, rows_of_main, uses_step_of
from .run_code import is_passed_by, is_used
from .run_files import (
    RunFile,
    built_configs,
    composed_files,
    constant_files,
    files_below,
    files_named_by,
    files_to_choose,
    modules_named,
    options_of,
    python_configs,
    set_over_bases,
    shown_line,
)
from .run_members import DEFAULTS, Run, RunMember
from .scopes import SettingScope, TextOrigin
from .shown_lines import instructed_files

LAUNCHERS_OWN = ("accelerate", "deepspeed", "fsdp")
"""Frameworks whose files a launcher reads; the files of others belong to the script."""
UNNAMED = "no launch line names it"
"""The link of a scope to a run that is made of nothing else."""
OF_FILES = 4
"""The rank of configurations that the script reads."""


@fact
def runs_of(project: Project) -> tuple[Run, ...]:
    """Every run of the project, launched ones first; each scope is in at least one."""
    return tuple(run for run in all_runs_of(project) if run.members) if scopes_of(project) else ()


@fact
def all_runs_of(project: Project) -> tuple[Run, ...]:
    """The same, and launches of scripts that no trainer's scope is part of: their code may say something."""
    return tuple(_Resolver(project).runs())


def runs_with(project: Project, scope: SettingScope) -> list[Run]:
    return [run for run in runs_of(project) if any(member.scope is scope for member in run.members)]


def is_said_over(project: Project, scope: SettingScope) -> bool:
    """Whether each run that reads a file reads another one that says over it all that decides there (``_base_``)."""
    names = [setting.name for setting in scope.settings if setting.key.means]
    runs = runs_with(project, scope) if names else ()
    return bool(runs) and all(run.says_over(scope, names) for run in runs)


class _Resolver:
    def __init__(self, project: Project) -> None:
        self._project = project
        self._by_path: dict[str, list[SettingScope]] = {}
        for scope in scopes_of(project):
            self._by_path.setdefault(scope.path, []).append(scope)
        self._used: set[SettingScope] = set()
        self._states_in_files = any(scope.kind == "file" for scopes in self._by_path.values() for scope in scopes)
        self._known_names: dict[ModuleNames, list[tuple[str, frozenset[str], int]]] = {}
        self._passed: set[str] = set()
        self._entered: set[str] = set()

    def runs(self) -> Iterator[Run]:
        shell = config_files(self._project, LAUNCHING, (FileKind.SHELL, FileKind.ENV))
        inside = (item for item in config_files(self._project, COMMANDS, (FileKind.YAML,)) if item.number is not None)
        for config in (*shell, *inside):
            if config.is_shell:
                yield from self._launched(config)
        for files in built_configs(self._project) if self._by_path else ():
            path = files[0].path
            members = list(self._built_on(files)) if path not in self._passed else []
            if members:
                documents = self._project.python_documents_at([file.path for file in files])
                modules = [names_of(self._project, document) for document in documents]
                yield self._run(path, Place(path, Span(1, 1, 1, 1), path), members, None, modules, modules)
        launched = sorted(self._entered)
        yield from self._programs(launched)
        for path, scopes in sorted(self._by_path.items()):
            left = [each for each in scopes if each not in self._used and not is_passed_by(self._project, each, path)]
            if (left and left[0].kind in ("call", "mapping")) or self._is_own_program(path, scopes, launched):
                yield self._script(path)
        below = {base.path for path in self._by_path for base in files_below(self._project, path)}
        for path, scopes in sorted(self._by_path.items(), key=lambda item: (item[0] in below, item[0])):
            left = [scope for scope in scopes if scope not in self._used]
            if left:
                members = [RunMember(scope, _rank(scope), UNNAMED) for scope in left]
                more = self._with_bases(path, UNNAMED) if len(left) == len(scopes) else ()
                yield self._run(path, Place(path, left[0].span, path), [*members, *more])

    def _is_own_program(self, path: str, scopes: Sequence[SettingScope], launched: Iterable[str]) -> bool:
        """Whether a file can be started that calls a trainer, though a program which nothing launches uses it, too."""
        calls = any(scope.kind == "call" for scope in scopes) and path not in self._entered
        is_own = calls and path in candidates(self._project) and is_program(self._project, path)
        return is_own and all(module.document.path != path for name in launched for module in self._modules(name))

    def _programs(self, started: Sequence[str]) -> Iterator[Run]:
        """The programs that train, as far as no launch line starts them and they call no trainer themselves."""
        trained = training_modules(self._project)
        for path in candidates(self._project) if trained else ():
            if path in self._by_path or any(self._runs(script, path) for script in started):
                continue
            own = (module for module in self._modules(path) if module in trained)
            if any(uses_step_of(self._project, path, module) for module in own) or self._builds_step(path, trained):
                yield self._script(path)

    def _runs(self, script: str, path: str) -> bool:
        """Whether a program that a launch line starts is this file, or runs what this does when it is started."""
        modules = [module for module in self._modules(script) if module.document.path == path]
        rows = (row for module in modules for row in rows_of_main(module))
        is_part = any(uses_step_of(self._project, script, module) for module in modules)
        return script == path or (is_part and all(is_used(self._project, script, path, row) for row in rows))

    def _builds_step(self, path: str, trained: Container[ModuleNames]) -> bool:
        known = () if purpose_of(path).is_left_alone else self._configured(path, (), ())
        return any(module in trained for module in known)

    # --- launched by a command ----------------------------------------------------------------------------------------

    def _launched(self, config: ConfigFile) -> Iterator[Run]:
        path = config.document.path
        around = [scope for scope in self._by_path.get(path, []) if scope.kind == "environment"]
        for number, command in enumerate(config.text.commands):
            flags = [
                item for item in self._by_path.get(path, []) if item.command and item.command.start == command.start
            ]
            script = script_of(self._project, path, command.script)
            files = self._files_of(path, command.words)
            if not flags and script is None and not files:
                continue
            members = [RunMember(scope, _rank(scope), "the command line") for scope in flags]
            members += [RunMember(scope, 2, "variables of the same file") for scope in around]
            written = {word.rpartition("=")[2].rpartition("/")[2] for word in command.words}
            members += [RunMember(scope, _rank(scope), "written there") for scope in self._written(path, written)]
            for file in files:
                members += self._with_bases(file, f"named by the command line in {path}")
            configs = list(python_configs(self._project, path, command, script)) if script is not None else []
            members += self._built_on(configs)
            self._passed |= {file.path for file in configs}
            launch = Launch(config, number, command.words, frozenset(files))
            if script is not None:
                members += self._script_members(script, f"run by {path}", launch)
            configured = self._configured(script, command.words, files)
            members += self._members_of(configured, launch)
            if members or script is not None:
                row, column = config.document.position(command.start)
                place = Place(path, Span(row, column, row, column), "the launch line")
                modules = (*(self._modules(script) if script is not None else ()), *configured)
                yield self._run(shown_line(command), place, members, command, modules, configured)

    def _written(self, path: str, names: Container[str]) -> Iterator[SettingScope]:
        """What stands in files that a script or a notebook writes itself, by their names."""
        for scope in self._by_path.get(path, []):
            config = scope.origin.config if isinstance(scope.origin, TextOrigin) else None
            is_written = scope.kind == "file" and config is not None and config.name != path
            if is_written and config is not None and config.name.rpartition("/")[2] in names:
                yield scope

    def _files_of(self, path: str, words: Iterable[str]) -> list[str]:
        found = dict.fromkeys(item for word in configs_named(words) for item in files_named(self._project, path, word))
        return [item for item in found if item != path]

    # --- what a member brings along -----------------------------------------------------------------------------------

    def _file_members(self, path: str, link: str) -> Iterator[RunMember]:
        for scope in self._by_path.get(path, []):
            if scope.kind == "file":
                yield RunMember(scope, _rank(scope), link)
                config = scope.origin.config if isinstance(scope.origin, TextOrigin) else None
                for word in self._project.memo(files_named_by, config) if config is not None else ():
                    further = file_named(self._project, path, word)
                    if further is not None and further != path:
                        yield from self._plain_members(further, f"named by {path}")

    def _plain_members(self, path: str, link: str) -> Iterator[RunMember]:
        for scope in self._by_path.get(path, []):
            if scope.kind == "file":
                yield RunMember(scope, _rank(scope), link)

    def _script_members(self, script: str, link: str, launch: Launch | None = None) -> Iterator[RunMember]:
        for module in self._modules(script):
            path = module.document.path
            how = link if path == script else f"imported by {script}"
            for scope in self._by_path.get(path, []):
                used = scope.kind in ("call", "mapping") and is_used(self._project, script, path, scope.span.row)
                used = used and not is_passed_by(self._project, scope, script)
                if used and not (launch is not None and is_left_out(self._project, scope, launch)):
                    yield self._called(scope, how, launch)
            if self._states_in_files:
                words = launch.words if launch is not None else ()
                yield from self._composed(composed_files(self._project, module, words))
            for file, options, row in self._named_in(module):
                if not (launch is not None and launch.gives(options)) and is_used(self._project, script, path, row):
                    yield from self._with_bases(file, f"named in {path}")

    def _built_on(self, files: Iterable[RunFile]) -> Iterator[RunMember]:
        """The scopes of files that build on each other, as far as nearer ones do not replace all that they decide."""
        replaced: set[str] = set()
        for file in files:
            yield from (member for member in self._of_file(file) if not member.scope.is_replaced(replaced))
            replaced |= self._project.memo(set_over_bases, file.path)

    def _composed(self, files: Iterable[RunFile]) -> Iterator[RunMember]:
        """The scopes of files that are composed; what a stronger one says again counts there alone."""
        said: set[tuple[str, str]] = set()
        for member in self._built_on(files):
            scope = member.scope
            leading = {(scope.framework.id, item.key.name) for item in scope.settings if item.key.means}
            if not leading or not leading <= said:
                said |= leading
                yield member

    def _with_bases(self, path: str, link: str) -> Iterator[RunMember]:
        """The scopes of a file, and those of the files that it builds on."""
        yield from self._file_members(path, link)
        for file in files_below(self._project, path):
            yield from self._of_file(file)

    def _of_file(self, file: RunFile) -> Iterator[RunMember]:
        for member in self._file_members(file.path, file.link):
            yield replace(member, depth=file.depth)
        for scope in self._by_path.get(file.path, []):
            if scope.is_of_module:
                yield RunMember(scope, OF_FILES, file.link, file.depth)

    def _configured(self, script: str | None, words: Sequence[str], files: Iterable[str]) -> tuple[ModuleNames, ...]:
        """The modules of the classes that the configurations of a run name by their path."""
        own = self._modules(script) if script is not None else ()
        paths = [*files]
        for module in own:
            paths += (file.path for file in composed_files(self._project, module, words))
            paths += files_to_choose(self._project, module, words)
            paths += self._project.memo(constant_files, module.document.path) if not paths else ()
        named = tuple(module for module in modules_named(self._project, paths) if module not in own)
        return named or (built_by_name(self._project, script) if script is not None else ())

    def _members_of(self, modules: Iterable[ModuleNames], launch: Launch | None) -> Iterator[RunMember]:
        for module in modules:
            for scope in self._by_path.get(module.document.path, []):
                if scope.kind in ("call", "mapping"):
                    yield self._called(scope, "named by its path", launch)

    def _called(self, scope: SettingScope, link: str, launch: Launch | None) -> RunMember:
        handed = handed_in(self._project, scope, launch)
        is_picked = is_picked_by_word(self._project, scope) or is_chosen(self._project, scope, launch) is False
        found = RunMember(scope, _rank(scope), link, handed=handed, is_picked=is_picked)
        return replace(found, rank=OF_FILES, depth=DEFAULTS) if is_set_again(scope) else found

    def _modules(self, script: str) -> tuple[ModuleNames, ...]:
        return modules_of(self._project, script)

    def _named_in(self, module: ModuleNames) -> list[tuple[str, frozenset[str], int]]:
        """The configuration files that a module names, with the options whose default a name is, and the row."""
        if not self._states_in_files:
            return []
        if module not in self._known_names:
            self._known_names[module] = self._search_names(module)
        return self._known_names[module]

    def _search_names(self, module: ModuleNames) -> list[tuple[str, frozenset[str], int]]:
        found: dict[tuple[str, frozenset[str], int], None] = {}
        for node in (node for node in module.nodes if isinstance(node, ast.Constant | ast.JoinedStr)):
            path = file_in_code(self._project, module, node)
            if path is not None and path in self._by_path:
                found[path, options_of(module, node), module.document.span(node).row] = None
        return list(found)

    # --- scripts that nothing launches --------------------------------------------------------------------------------

    def _script(self, path: str) -> Run:
        members = [*self._script_members(path, "in the script"), *self._instructed(path)]
        configured = self._configured(path, (), ())
        members += self._members_of(configured, None)
        span = next((scope.span for scope in self._by_path.get(path, ())), Span(1, 1, 1, 1))
        modules = (*self._modules(path), *configured)
        return self._run(path, Place(path, span, path), members, None, modules, configured)

    def _instructed(self, path: str) -> Iterator[RunMember]:
        """The files that instructions start a program with; of several for one trainer a run reads one."""
        named = sorted({file for script, file in instructed_files(self._project) if script == path})
        found = [member for file in named for member in self._file_members(file, f"named in instructions for {path}")]
        for member in found:
            if len({other.scope.path for other in found if other.scope.framework is member.scope.framework}) == 1:
                yield member

    def _run(
        self,
        title: str,
        place: Place,
        members: Sequence[RunMember],
        command: CommandLine | None = None,
        modules: Sequence[ModuleNames] = (),
        configured: Sequence[ModuleNames] = (),
    ) -> Run:
        once: dict[SettingScope, RunMember] = {}
        for member in members:
            once.setdefault(member.scope, member)
        self._used |= once.keys()
        ordered = sorted(once.values(), key=lambda item: (-item.rank, item.depth, *_later_first(item.scope, command)))
        paths = tuple(dict.fromkeys(module.document.path for module in modules))
        self._entered |= {*paths[:1]}
        named = frozenset(module.document.path for module in configured)
        return Run(title, place, tuple(ordered), command, paths, named)


def _later_first(scope: SettingScope, command: CommandLine | None) -> tuple[int, str, Span]:
    """The order among files of a launch line: the one that is named last says it over the others."""
    name = scope.path.rpartition("/")[2]
    words = command.words if command is not None else ()
    named = [number for number, word in enumerate(words) if word.rpartition("=")[2].rpartition("/")[2] == name]
    return -max(named, default=0), scope.path, scope.span


def _rank(scope: SettingScope) -> int:
    if scope.kind in ("call", "mapping"):
        return 6
    if scope.kind == "command":
        return 3 if scope.title in scope.framework.recognize.launchers else 5
    if scope.kind == "environment":
        return 2
    return 1 if scope.framework.id in LAUNCHERS_OWN else 4
