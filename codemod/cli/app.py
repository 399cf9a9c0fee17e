"""The commands: what each takes. What they do stands in the modules named for them."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..model import PrecfixError, UsageError
from .audit import run_audit
from .options import (
    AllowDirty,
    AuditFormat,
    AuditFormatOption,
    BaselineOption,
    CheckFormat,
    CheckFormatOption,
    ChosenFix,
    Color,
    ColorOption,
    DiffBase,
    Exclude,
    Folders,
    Ignore,
    Isolated,
    MigrateFormatOption,
    Output,
    Paths,
    ProfileOption,
    Quiet,
    Regime,
    RegimeOption,
    Reports,
    RuleName,
    RulesFormat,
    RulesFormatOption,
    Select,
    Statistics,
    StdinFilename,
    Unsafe,
    Verbose,
    WriteBaseline,
    path_named,
)
from .output import INTERNAL, INTERRUPTED, USAGE, show_markdown, version_text
from .probe import probe
from .request import Request

app = typer.Typer(
    name="precfix",
    help="Find and repair mixed-precision mistakes in PyTorch training projects.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(probe)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print(f"precfix {version_text()}")
        raise typer.Exit()


@app.command()
def check(
    paths: Paths,
    select: Select = None,
    ignore: Ignore = "",
    exclude: Exclude = None,
    profile: ProfileOption = None,
    diff_base: DiffBase = None,
    baseline: BaselineOption = None,
    write_baseline: WriteBaseline = None,
    add_ignore: Annotated[
        bool, typer.Option("--add-ignore", help="Write a `# precfix: ignore[CODE]` comment to every finding.")
    ] = False,
    reason: Annotated[str, typer.Option(help="With --add-ignore: the reason to write.", metavar="TEXT")] = "",
    allow_dirty: AllowDirty = False,
    stdin_filename: StdinFilename = None,
    isolated: Isolated = False,
    output_format: CheckFormatOption = CheckFormat.TEXT,
    output: Output = None,
    report: Reports = None,
    statistics: Statistics = False,
    show_fixes: Annotated[bool, typer.Option("--show-fixes", help="Show the diff of each finding's fix.")] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 also when there are findings.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Report precision mistakes. Exit code 0: none, 1: some, 2: bad usage or input, 3: precfix failed."""
    from .check import CheckOptions, run_check

    request = Request(
        paths=paths,
        exclude=exclude,
        profile=profile,
        select=select,
        ignore=ignore,
        baseline=baseline,
        use_baseline=write_baseline is None,
        diff_base=diff_base,
        isolated=isolated,
        stdin_filename=stdin_filename,
    )
    options = CheckOptions(
        output_format,
        output,
        report,
        quiet,
        verbose,
        color,
        statistics,
        show_fixes,
        write_baseline,
        add_ignore,
        reason,
        allow_dirty,
        exit_zero,
    )
    raise typer.Exit(run_check(request, options))


@app.command()
def migrate(
    paths: Paths,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; print the diff.")] = False,
    to: RegimeOption = Regime.AUTO,
    unsafe_fixes: Unsafe = None,
    fix: ChosenFix = None,
    interactive: Annotated[bool, typer.Option("--interactive", "-i", help="Ask before each fix.")] = False,
    patch: Annotated[Path | None, typer.Option(help="Write the diff to this file; change nothing else.")] = None,
    allow_dirty: AllowDirty = False,
    select: Select = None,
    ignore: Ignore = "",
    exclude: Exclude = None,
    profile: ProfileOption = None,
    probe: Annotated[bool, typer.Option("--probe", help="Probe this machine first, and repair for it.")] = False,
    diff_base: DiffBase = None,
    baseline: BaselineOption = None,
    stdin_filename: StdinFilename = None,
    isolated: Isolated = False,
    output_format: MigrateFormatOption = None,
    output: Output = None,
    report: Reports = None,
    statistics: Statistics = False,
    show_fixes: Annotated[bool, typer.Option("--show-fixes", help="List every fix on a line of its own.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Repair precision mistakes, or print the diff that would. `precfix undo` takes an applied run back."""
    from .migrate import MigrateOptions, run_migrate

    request = Request(
        paths=paths,
        exclude=exclude,
        profile=profile,
        probe=probe,
        to=to.value,
        moves=True,
        select=select,
        ignore=ignore,
        baseline=baseline,
        diff_base=diff_base,
        isolated=isolated,
        stdin_filename=stdin_filename,
    )
    options = MigrateOptions(
        dry_run,
        unsafe_fixes,
        fix,
        patch,
        allow_dirty,
        interactive,
        output_format,
        output,
        report,
        quiet,
        verbose,
        color,
        statistics,
        show_fixes,
    )
    raise typer.Exit(run_migrate(request, options))


@app.command()
def audit(
    paths: Folders,
    exclude: Exclude = None,
    profile: ProfileOption = None,
    isolated: Isolated = False,
    output_format: AuditFormatOption = AuditFormat.TEXT,
    output: Output = None,
    color: ColorOption = Color.AUTO,
) -> None:
    """Show every place that states a precision: what wins, what is overridden, what contradicts. Exit code 0."""
    request = Request(paths=paths, exclude=exclude, profile=profile, isolated=isolated)
    raise typer.Exit(run_audit(request, output_format, output, color.wanted))


@app.command()
def undo(
    path: Annotated[
        Path, typer.Argument(help="The project folder that was migrated.", metavar="PATH", parser=path_named)
    ] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Also overwrite files that changed since.")] = False,
) -> None:
    """Restore the bytes that the last `precfix migrate` replaced."""
    from ..applying.apply import undo as take_back
    from ..report.printable import printable

    for restored in take_back(path, force=force):
        print(f"restored {printable(restored)}")


@app.command()
def rules(
    output_format: RulesFormatOption = RulesFormat.TEXT,
    color: ColorOption = Color.AUTO,
) -> None:
    """List the rules, also those of other packages that are installed."""
    from .manuals import list_rules

    raise typer.Exit(list_rules(output_format, color.wanted))


@app.command()
def explain(
    rule: RuleName,
    color: ColorOption = Color.AUTO,
) -> None:
    """Print the manual of a rule: symptom, reason, fix, look-alikes."""
    from .manuals import manual_named

    show_markdown(manual_named(rule), color.wanted)


def main() -> None:
    """Run the command line; every failure is one clear message and the right exit code."""
    # Syntax trees are large and hold no garbage: at the usual threshold the collector doubles the time of a run.
    gc.set_threshold(100_000, 50, 100)
    try:
        _check_for_path(sys.argv[1:2])
        app()
    except (PrecfixError, OSError) as error:
        print(f"precfix: {_one_line(error)}", file=sys.stderr)
        sys.exit(USAGE)
    except KeyboardInterrupt:
        print("precfix: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:  # typer has caught the KeyboardInterrupt
            print("precfix: interrupted", file=sys.stderr)
        raise
    except Exception as error:  # the outermost boundary: no traceback ever reaches the user
        print(f"precfix: internal error, please report it: {type(error).__name__}: {_one_line(error)}", file=sys.stderr)
        sys.exit(INTERNAL)


def _check_for_path(first: list[str]) -> None:
    """``precfix ./project`` names no command; say which ones take it."""
    import os

    if first and not first[0].startswith("-") and ("/" in first[0] or "." in first[0]) and os.path.exists(first[0]):
        path = first[0]
        raise UsageError(f"{path!r} is a path; write `precfix check {path}` or `precfix migrate {path} --dry-run`")


def _one_line(error: BaseException) -> str:
    from ..report.printable import printable

    if isinstance(error, OSError) and error.strerror:
        return printable(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return printable(" ".join(str(error).split()) or type(error).__name__)
