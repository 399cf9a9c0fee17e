"""The command line. The only place that knows engine, rules and reports together; imports happen inside commands."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .model import PrecfixError, UsageError

if TYPE_CHECKING:
    from .engine import Options
    from .model import Report, Rule, Target
    from .project import Project
    from .report import Locate
    from .report.frame import OutputLine
    from .report.text import View

FOUND, USAGE, INTERNAL = 1, 2, 3
"""Exit codes: findings or a diff; bad usage or input; precfix itself failed."""

app = typer.Typer(
    name="precfix",
    help="Find and repair mixed-precision mistakes in PyTorch training projects.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class CheckFormat(str, Enum):
    """How ``check`` writes its result."""

    TEXT = "text"
    JSON = "json"


class MigrateFormat(str, Enum):
    """How ``migrate`` writes its result."""

    TEXT = "text"
    DIFF = "diff"
    JSON = "json"


class Color(str, Enum):
    """When colour is used."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"

    @property
    def wanted(self) -> bool | None:
        return {"auto": None, "always": True, "never": False}[self.value]


Paths = Annotated[list[Path], typer.Argument(help="Project folders or files.", show_default=False)]
Select = Annotated[str, typer.Option(help="Only these rules: codes or prefixes, separated by commas.", metavar="CODES")]
Ignore = Annotated[str, typer.Option(help="Not these rules: codes or prefixes.", metavar="CODES")]
Exclude = Annotated[
    list[str] | None, typer.Option(help="Also leave out these paths (gitignore pattern).", metavar="GLOB")
]
Output = Annotated[Path | None, typer.Option("--output-file", "-o", help="Write the result to this file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="One line per finding.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also every skipped file, and the target's source.")
]
ColorOption = Annotated[Color, typer.Option(help="When to use colour.")]
Unsafe = Annotated[
    bool, typer.Option("--unsafe-fixes", help="Also fixes that may change numerics, memory or speed.")
]
ChosenFix = Annotated[list[str] | None, typer.Option("--fix", help="Use this alternative.", metavar="CODE=NAME")]


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print(version_line())
        raise typer.Exit()


@app.command()
def check(
    paths: Paths,
    select: Select = "",
    ignore: Ignore = "",
    exclude: Exclude = None,
    output_format: Annotated[CheckFormat, typer.Option(help="How to write the result.")] = CheckFormat.TEXT,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Report precision mistakes. Exit code 0: none, 1: some, 2: bad usage or input, 3: precfix failed."""
    from . import engine
    from .report.text import show_findings

    project = _open(paths, exclude)
    rules = _rules(select, ignore)
    with _progress(len(rules)) as step:
        report = engine.check(project, rules, _target(project), _options(False, None, step))
    view = _view(project, quiet, verbose, False)
    if output_format is CheckFormat.JSON:
        _write(_json(report, project).encode(), output)
    else:
        _show(show_findings(report, view), output, color)
    raise typer.Exit(_exit_code(report, bool(report.findings)))


@app.command()
def migrate(
    paths: Paths,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; print the diff.")] = False,
    unsafe_fixes: Unsafe = False,
    fix: ChosenFix = None,
    patch: Annotated[Path | None, typer.Option(help="Write the diff to this file; change nothing else.")] = None,
    allow_dirty: Annotated[bool, typer.Option("--allow-dirty", help="Overwrite uncommitted changes.")] = False,
    select: Select = "",
    ignore: Ignore = "",
    exclude: Exclude = None,
    output_format: Annotated[
        MigrateFormat | None, typer.Option(help="How to write the result.  [default: diff with --dry-run, else text]")
    ] = None,
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Repair precision mistakes, or print the diff that would. ``precfix undo`` takes an applied run back."""
    from . import engine

    project = _open(paths, exclude)
    rules = _rules(select, ignore)
    with _progress(len(rules)) as step:
        options = _options(unsafe_fixes, fix, step)
        report = engine.migrate(project, rules, _target(project), options)
    _check_chosen(report, options)
    preview = dry_run or patch is not None
    if not preview and report.changes:
        from .apply import apply

        apply(project.root, report.changes, allow_dirty=allow_dirty)
    if patch is not None:
        _write(_diff(report), patch)
    view = _view(project, quiet, verbose, unsafe_fixes)
    chosen = output_format or (MigrateFormat.DIFF if dry_run and patch is None else MigrateFormat.TEXT)
    _write_migration(report, project, view, chosen, output, color, preview)
    left = bool(report.changes) if preview else False
    raise typer.Exit(_exit_code(report, left or bool(report.remaining)))


def _write_migration(
    report: Report,
    project: Project,
    view: View,
    chosen: MigrateFormat,
    output: Path | None,
    color: Color,
    preview: bool,
) -> None:
    from .report.applied import show_applied
    from .report.text import show

    if chosen is MigrateFormat.JSON:
        _write(_json(report, project).encode(), output)
        return
    lines = show_applied(report, view, dry_run=preview, root=str(project.root))
    if chosen is MigrateFormat.TEXT:
        _show(lines, output, color)
        return
    _write(_diff(report), output)
    show(lines, sys.stderr, color=color.wanted)


@app.command()
def undo(
    path: Annotated[Path, typer.Argument(help="The project folder that was migrated.")] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Also overwrite files that changed since.")] = False,
) -> None:
    """Restore the bytes that the last ``precfix migrate`` replaced."""
    from .apply import undo as take_back
    from .report.printable import printable

    for restored in take_back(path, force=force):
        print(f"restored {printable(restored)}")


@app.command()
def rules(
    color: ColorOption = Color.AUTO,
) -> None:
    """List the rules."""
    from ..transforms import load
    from .report.text import show

    lines = [((rule.code, "rule"), (f"  {rule.name:<36}", "place"), (rule.title, "text")) for rule in load()]
    show(lines, sys.stdout, color=color.wanted)


@app.command()
def explain(
    rule: Annotated[str, typer.Argument(help="A rule's code or name, such as PF101.", metavar="CODE")],
    color: ColorOption = Color.AUTO,
) -> None:
    """Print the manual of a rule: symptom, reason, fix, and what is not flagged."""
    from .manual import manual_of

    _show_markdown(manual_of(_rule_named(rule)), color)


def main() -> None:
    """Run the command line; every failure is one clear message and the right exit code."""
    # Syntax trees are large and hold no garbage: at the usual threshold the collector doubles the time of a run.
    gc.set_threshold(100_000, 50, 100)
    try:
        app()
    except (PrecfixError, OSError) as error:
        print(f"precfix: {_one_line(error)}", file=sys.stderr)
        sys.exit(USAGE)
    except KeyboardInterrupt:
        print("precfix: interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:  # the outermost boundary: no traceback ever reaches the user
        print(f"precfix: internal error, please report it: {type(error).__name__}: {_one_line(error)}", file=sys.stderr)
        sys.exit(INTERNAL)


def version_line() -> str:
    """``precfix 0.1.0``."""
    from importlib.metadata import version

    return f"precfix {version('precfix')}"


def _one_line(error: BaseException) -> str:
    from .report.printable import printable

    if isinstance(error, OSError) and error.strerror:
        return printable(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return printable(" ".join(str(error).split()) or type(error).__name__)


# --- input ------------------------------------------------------------------------------------------------------------


def _open(paths: list[Path], exclude: list[str] | None) -> Project:
    from .project import Project

    return Project.open(paths, excludes=exclude or ())


def _rules(select: str, ignore: str) -> list[Rule]:
    from ..transforms import load

    known = load()
    wanted, unwanted = _codes(select, known), _codes(ignore, known)
    return [
        rule
        for rule in known
        if (not wanted or rule.code.startswith(wanted)) and not (unwanted and rule.code.startswith(unwanted))
    ]


def _codes(text: str, known: tuple[Rule, ...]) -> tuple[str, ...]:
    codes = tuple(code.strip().upper() for code in text.split(",") if code.strip())
    for code in codes:
        if not any(rule.code.startswith(code) for rule in known):
            raise UsageError(f"no rule {code!r}; {_similar(code, [rule.code for rule in known])}")
    return codes


def _rule_named(text: str) -> Rule:
    from ..transforms import load

    known = load()
    for rule in known:
        if text.upper() == rule.code or text.lower() == rule.name:
            return rule
    raise UsageError(f"no rule {text!r}; {_similar(text, [word for rule in known for word in (rule.code, rule.name)])}")


def _similar(word: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word.upper(), known, 1) or get_close_matches(word.lower(), known, 1)
    return f"did you mean {close[0]}?" if close else "`precfix rules` lists them"


def _options(unsafe_fixes: bool, fix: list[str] | None, step: Callable[[str], None] | None) -> Options:
    from .engine import Options

    chosen: dict[str, str] = {}
    for item in fix or []:
        code, equals, name = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--fix {item!r}: write CODE=NAME, for example PF101=disable")
        chosen[_rule_named(code).code] = name
    return Options(unsafe_fixes, chosen, step)


def _check_chosen(report: Report, options: Options) -> None:
    """An alternative that no finding of its rule offers is a typing error."""
    for code, name in options.chosen.items():
        offered = sorted({fix.name for finding in report.findings if finding.code == code for fix in finding.fixes})
        if offered and name not in offered:
            raise UsageError(f"--fix {code}={name}: {code} offers {', '.join(offered)} here")


def _target(project: Project) -> Target:
    from .facts.declared import SOURCE, declared_regime
    from .model import Target

    return Target(declared_regime(project), SOURCE)


# --- output -----------------------------------------------------------------------------------------------------------


def _exit_code(report: Report, found: bool) -> int:
    if report.failed_rules:
        return INTERNAL
    return FOUND if found else 0


def _view(project: Project, quiet: bool, verbose: bool, unsafe_fixes: bool) -> View:
    from .report.text import Level, View

    level = Level.QUIET if quiet else Level.VERBOSE if verbose else Level.NORMAL
    return View(project.document, level, unsafe_fixes)


def _diff(report: Report) -> bytes:
    from .report.diff import unified_diff

    return unified_diff(report.changes)


def _json(report: Report, project: Project) -> str:
    from .engine import texts_with
    from .model import Fix
    from .report import TextEdit
    from .report.diff import line_edits
    from .report.json_report import to_json

    def edits_of(fix: Fix) -> tuple[TextEdit, ...]:
        edits: list[TextEdit] = []
        for path, text in sorted(texts_with(project, [fix]).items()):
            document = project.document(path)
            edits += line_edits(path, document.text, text) if document is not None else ()
        return tuple(edits)

    return to_json(report, _locate(project), edits_of)


def _locate(project: Project) -> Locate:
    def locate(path: str, row: int, column: int) -> tuple[int | None, int, int]:
        document = project.document(path)
        cell = document.cell_of(row) if document is not None else None
        if document is None or cell is None:
            return None, row, column
        return cell[0], cell[1], document.shown_column(row, column)

    return locate


def _show(lines: Iterator[OutputLine], output: Path | None, color: Color) -> None:
    from .report.text import plain, show

    if output is not None:
        _write(plain(lines).encode(), output)
    else:
        show(lines, sys.stdout, color=color.wanted)


def _show_markdown(text: str, color: Color) -> None:
    if color.wanted is False or (color.wanted is None and not sys.stdout.isatty()):
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(force_terminal=color.wanted).print(Markdown(text))


def _write(data: bytes, output: Path | None) -> None:
    if output is not None:
        output.write_bytes(data)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[str], None] | None]:
    """A bar on stderr while rules run; nothing when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("precfix"), BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def step(name: str) -> None:
            bar.update(task, description=name, advance=1)

        yield step
