"""The commands: what each takes. What they do stands in the modules named for them."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..model import PrecfixError, UsageError
from .commands import AuditRequest, CheckRequest, MigrateRequest, taking
from .options import Color, ColorOption, RuleName, RulesFormat, RulesFormatOption, path_named
from .output import INTERNAL, INTERRUPTED, USAGE, show_markdown, version_text
from .probe import probe

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


def _check(request: CheckRequest) -> int:
    """Report precision mistakes. Exit code 0: none, 1: some, 2: bad usage or input, 3: precfix failed."""
    from .check import run_check

    return run_check(request)


def _migrate(request: MigrateRequest) -> int:
    """Repair precision mistakes, or print the diff that would. `precfix undo` takes an applied run back."""
    from .migrate import run_migrate

    return run_migrate(request)


def _audit(request: AuditRequest) -> int:
    """Show every place that states a precision: what wins, what is overridden, what contradicts. Exit code 0."""
    from .audit import run_audit

    return run_audit(request)


app.command("check")(taking(CheckRequest, _check))
app.command("migrate")(taking(MigrateRequest, _migrate))
app.command("audit")(taking(AuditRequest, _audit))


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
