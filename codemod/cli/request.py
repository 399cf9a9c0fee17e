"""From what was asked for on the command line to a project, its rules and its conditions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Rule, UsageError
from ..outcome import Report, Skipped, Target
from ..screening.selection import Selection, require_known, rule_named, validate_settings
from ..settings.settings import ProjectSettings, settings_of
from ..settings.settings_tree import SettingsTree, settings_below
from .commands import STDIN, MigrateRequest, Request
from .known_rules import known_rules, with_plugins
from .machine import machine_of, target_on
from .observations import observation_of
from .options import TargetChoice
from .recalled import recalled

if TYPE_CHECKING:
    from ..engine import Options
    from ..incremental.rechecking import Rechecking
    from ..screening.screen import Screen
    from ..source.project import Project

STDIN_NAME = "stdin.py"
"""What a file from standard input is called when nobody says it."""
TARGET_RULE = "PF001"
UPKEEP = ("PF301",)
"""Rules whose fixes keep code up to date and move no precision."""


@dataclass(slots=True)
class Opened:
    """A project and everything that is given with it."""

    project: Project
    target: Target
    settings: SettingsTree
    rules: list[Rule]
    """Those that run."""
    known: tuple[Rule, ...]
    screen: Screen
    problems: tuple[Skipped, ...] = ()
    """Why rules of other packages are missing."""
    stdin: str = ""
    """The path of the file that came from standard input; empty when none did."""
    named: list[str] = field(default_factory=list)
    """The files (not folders) that the user named, relative to the root."""
    jobs: int = 1
    """How many processes check at the same time."""
    earlier: Rechecking | None = None
    """What the last check has left."""

    @property
    def has_plugins(self) -> bool:
        """Whether rules of other packages are installed, broken ones as well."""
        return with_plugins(self.known, self.problems)

    def completed(self, report: Report) -> Report:
        """The report with what went wrong before the rules ran."""
        from dataclasses import replace

        return replace(report, failed_rules=(*self.problems, *report.failed_rules))


def open_request(request: Request) -> Opened:
    """Open what was asked for; raises UsageError for a path, option, setting, profile or baseline that is wrong."""
    from ...transforms.frameworks import load_frameworks
    from ..screening.baseline import read_baseline
    from ..screening.changed_lines import changed_since
    from ..screening.screen import Screen

    project, settings = _project(request)
    known, problems = known_rules(project.root, request.isolated, len(project.paths))
    for each in settings.all():
        validate_settings(each, known)
    root = settings.root
    rules = _selected(request, settings, known, problems)
    project = project.with_frameworks(load_frameworks(root.frameworks))
    project, aim = _aimed(project, request, root)
    project = project.with_observation(observation_of(project, request.observed))
    earlier = recalled(project, request, root, rules, with_plugins(known, problems))
    target = aim or declared_target(project, earlier)
    _warn_of_missing_target_rule(request, rules)
    chosen = request.baseline or (root.baseline if request.write_baseline is None else None)
    screen = Screen(
        project.root,
        settings,
        tuple(rules),
        known,
        command_line=(_words(request.select), _words(request.ignore) or ()),
        baseline=read_baseline(chosen) if chosen is not None else None,
        changed=changed_since(project.root, request.diff_base) if request.diff_base is not None else None,
        always=TARGET_RULE if _moves_anyway(request) else "",
        whole=_is_whole(request, project.root, root),
        shown_only=_left_by_a_move(request, known),
    )
    stdin = next(filter(project.is_checked, project.paths), "") if request.is_stdin else ""
    named = [stdin] if stdin else _named_files(request.paths, project)
    _parse(project, named)
    return Opened(project, target, settings, rules, known, screen, problems, stdin, named, request.jobs or 1, earlier)


def _project(request: Request) -> tuple[Project, SettingsTree]:
    from ...transforms.frameworks import load_frameworks
    from ..screening.path_patterns import PathPatterns
    from ..source.discovery import EXCLUDED, root_of
    from ..source.project import Project

    if request.is_stdin and request.project is None:
        return _from_stdin(request)
    if request.stdin_filename is not None and not request.is_stdin:
        raise UsageError("--stdin-filename requires '-' as the only PATH")
    root = root_of(request.read)
    _require_inside(request, root)
    at_root = ProjectSettings() if request.isolated else settings_of(root)
    left_out = PathPatterns(at_root.exclude, root).match if at_root.exclude else None
    given = _given(request, root)
    unasked = [name for each in load_frameworks(at_root.frameworks) for name in each.recognize.unasked]
    excludes = request.exclude or ()
    project = Project.open(request.read, excludes=excludes, leave_out=left_out, given=given, unasked=unasked)
    if request.project is not None:
        project = project.checking(given or _below(request.paths, project))
    if request.isolated:
        return project, SettingsTree(at_root)
    settings = settings_below(root, at_root, project.paths)
    nested = [pattern for each in settings.nested.values() for pattern in each.exclude]
    if nested:
        patterns = PathPatterns(nested, root)
        named = set(_named_files(request.paths, project))
        excluded = [path for path in project.paths if path not in named and patterns.match(path)]
        project.discovery.left_out.update(dict.fromkeys(excluded, EXCLUDED))
        project = project.without(excluded)
    return project, settings


def _from_stdin(request: Request) -> tuple[Project, SettingsTree]:
    from ..source.project import Project

    given = _name_of_stdin(request)
    folder = given.parent.resolve()
    project = Project.of_data(folder, given.name, _standard_input(given.name))
    return project, SettingsTree(ProjectSettings() if request.isolated else settings_of(folder))


def _name_of_stdin(request: Request) -> Path:
    from ..source.documents import kind_of

    if len(request.paths) > 1:
        raise UsageError("'-' cannot be combined with other paths")
    given = request.stdin_filename or Path(STDIN_NAME)
    unread = request.project is not None and kind_of(given.name) is None
    if unread or not given.name or given.name == ".." or "\0" in str(given) or given.is_dir():
        raise UsageError(f"--stdin-filename {str(given)!r} is not a valid file name")
    return given


def _require_inside(request: Request, root: Path) -> None:
    """Raise UsageError unless all PATHs lie in the project that they are said to belong to."""
    if request.project is None:
        return
    if not request.project.is_dir():
        raise UsageError(f"--project {str(request.project)!r} is not a folder")
    if request.is_stdin and request.stdin_filename is None:
        raise UsageError("'-' with --project requires --stdin-filename")
    named = [_name_of_stdin(request)] if request.is_stdin else request.paths
    top = request.project.resolve()
    outside = next((path for path in named if not path.resolve().is_relative_to(top)), None)
    if outside is not None or root != top:
        raise UsageError(f"{str(outside)!r} is not in --project {str(request.project)!r}")


def _given(request: Request, root: Path) -> dict[str, bytes]:
    """The file from standard input, where it belongs to a project."""
    if not request.is_stdin:
        return {}
    name = _name_of_stdin(request)
    return {name.resolve().relative_to(root).as_posix(): _standard_input(name.name)}


def _below(paths: Sequence[Path], project: Project) -> list[str]:
    """The files of a project that are named, or lie in a folder that is."""
    tops = [path.resolve().relative_to(project.root).as_posix() for path in paths]
    inside = tuple("" if top == "." else f"{top}/" for top in tops)
    return [path for path in project.paths if path in tops or path.startswith(inside)]


def _standard_input(name: str) -> bytes:
    """All of standard input; raises UsageError for more than a file of that name may have."""
    from ..source.documents import FileKind, kind_of
    from ..source.project import Limits

    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("standard input is closed")
    most = Limits().max_notebook_bytes if kind_of(name) is FileKind.NOTEBOOK else Limits().max_file_bytes
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise UsageError(f"standard input is too large: the limit is {most:,} bytes")
    return data


def _named_files(paths: Sequence[Path], project: Project) -> list[str]:
    import os

    files = [os.path.realpath(path) for path in paths if not os.path.isdir(path)]
    return [os.path.relpath(file, project.root).replace(os.sep, "/") for file in files]


def _is_whole(request: Request, root: Path, settings: ProjectSettings) -> bool:
    """Whether a whole project is read: one folder, which has the settings or is not below the top of a repository."""
    from ..applying.worktree import repository_of

    folders = [request.project] if request.project is not None else request.paths
    if STDIN in folders or len(folders) > 1 or request.exclude or not folders[0].is_dir():
        return False
    if settings.path is not None:
        return settings.path.parent.resolve() == root
    return repository_of(root / "x") in (None, root)


def _parse(project: Project, named: Sequence[str]) -> None:
    """Parse the Python files that were named, whatever they hold: one that cannot be parsed is then reported."""
    from ..source.documents import FileKind, kind_of

    code = [path for path in named if kind_of(path) in (FileKind.PYTHON, FileKind.NOTEBOOK)]
    for _ in project.python_documents_at(code):
        pass


def _aimed(project: Project, request: Request, settings: ProjectSettings) -> tuple[Project, Target | None]:
    """The project on its machine and on its way to the regime to arrive at, and who says so; None: it itself."""
    profile = request.profile or (settings.profile if not request.probe else None)
    machine = machine_of(project, profile, request.probe)
    if machine is not None:
        project = project.with_profile(machine.profile)
    if request.to is not TargetChoice.AUTO:
        return project.with_target(request.to.value), Target(request.to.value, "asked for with --to")
    if settings.target not in (None, "auto"):
        target = Target(str(settings.target), f"the settings in {settings.path}")
        return project.with_target(target.regime), target
    if machine is not None and (recommended := target_on(machine)) is not None:
        is_real = any(device.backend != "cpu" for device in machine.profile.training_devices)
        aims = isinstance(request, MigrateRequest) and is_real
        return project.with_target(recommended.regime) if aims else project, recommended
    return project, None


def declared_target(project: Project, earlier: Rechecking | None = None) -> Target:
    """The regime the project itself declares."""
    from ...transforms.deferred import declared

    return Target.declared(declared(project) if earlier is None else earlier.regime(declared))


def target_line(target: Target) -> str:
    """Which regime is aimed at, and who says so."""
    from ..report.printable import printable

    return printable(target.said)


def _warn_of_missing_target_rule(request: Request, rules: Sequence[Rule]) -> None:
    if request.to is TargetChoice.AUTO or any(rule.code == TARGET_RULE for rule in rules):
        return
    print(f"precfix: {TARGET_RULE} is not selected, so nothing is moved to {request.to.value}", file=sys.stderr)


def _selected(
    request: Request, settings: SettingsTree, known: Sequence[Rule], problems: Sequence[Skipped]
) -> list[Rule]:
    """The rules that run: those that the settings of any part of the project take."""
    select, ignore = _words(request.select), _words(request.ignore)
    try:
        require_known((*(select or ()), *(ignore or ())), known)
    except UsageError as error:
        if not problems:
            raise
        missing = "; ".join(f"{each.path}: {each.reason}" for each in problems)
        raise UsageError(f"{error}; rules of other packages are missing: {missing}") from None
    selections = [Selection.of(each, select, ignore or ()) for each in settings.all()]
    asked = _moves_anyway(request)
    return [
        rule for rule in known if any(each.takes(rule) for each in selections) or (asked and rule.code == TARGET_RULE)
    ]


def _moves_anyway(request: Request) -> bool:
    """Whether ``--to`` was given and nothing else on the command line: settings do not take it back."""
    return request.to is not TargetChoice.AUTO and not request.select and not request.ignore


def _left_by_a_move(request: Request, known: Sequence[Rule]) -> frozenset[str]:
    """The rules that move nothing: ``--to`` asks for a move, and leaves their fixes unless they are named too."""
    asked = {item.partition("=")[0] for item in getattr(request, "fix", None) or ()}
    if request.to is TargetChoice.AUTO or request.select:
        return frozenset()
    return frozenset(UPKEEP) - {rule_named(code, known).code for code in asked}


def _words(text: str | None) -> tuple[str, ...] | None:
    """``PF101, PF2`` as a tuple; None for nothing."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip()) or None


def options_of(
    opened: Opened,
    unsafe_fixes: bool | None = False,
    fix: Sequence[str] | None = None,
    step: Callable[[str], None] | None = None,
) -> Options:
    """What the user and the settings allow; raises UsageError for a ``--fix`` that is not CODE=NAME."""
    from ..engine import Options

    settings = opened.settings.root
    chosen = {rule_named(code, opened.known).code: name for code, name in settings.fix}
    for item in fix or ():
        code, equals, name = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--fix {item!r}: write CODE=NAME, for example PF101=disable")
        chosen[rule_named(code, opened.known).code] = name
    unsafe = settings.unsafe_fixes if unsafe_fixes is None else unsafe_fixes
    return Options(
        unsafe, chosen, step, opened.screen, jobs=opened.jobs, ask=opened.earlier.ask if opened.earlier else None
    )


def check_chosen(report: Report, fix: Sequence[str] | None, known: Sequence[Rule]) -> None:
    """An alternative asked for with ``--fix`` that no finding of its rule offers is a typing error."""
    for item in fix or ():
        code, _, name = item.partition("=")
        code = rule_named(code, known).code
        offered = sorted({each.name for finding in report.findings if finding.code == code for each in finding.fixes})
        if offered and name not in offered:
            raise UsageError(f"--fix {code}={name}: {code} offers {', '.join(offered)} here")
