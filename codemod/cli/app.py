"""The commands: what each takes. What they do stands in the modules named for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..version import version_text
from . import running
from .commands import AuditRequest, CheckRequest, MigrateRequest
from .for_typer import for_typer, taking
from .options import (
    COLOR,
    EXPLAIN_PROJECT,
    EXPLAINED,
    OUTPUT,
    PAGE_FORMATS,
    Argument,
    Color,
    Format,
    format_option,
    path_named,
)
from .probe import probe
from .rehearse import rehearse

REHEARSED = {"allow_interspersed_args": False}
"""Options behind the command are the command's own."""
app = typer.Typer(
    name="precfix",
    help="Find and repair mixed-precision mistakes in PyTorch training projects.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print(f"precfix {version_text()}")
        raise typer.Exit()


app.command("check", short_help="Report precision mistakes.")(taking(CheckRequest, running.check))
app.command("migrate", short_help="Repair them, or print the diff that would.")(taking(MigrateRequest, running.migrate))
app.command("audit", short_help="Show every place that states a precision.")(taking(AuditRequest, running.audit))


@app.command(short_help="Explain a rule or an error.")
def explain(
    what: Annotated[str, for_typer(EXPLAINED)],
    project: Annotated[Path | None, for_typer(EXPLAIN_PROJECT)] = None,
    output_format: Annotated[Format, for_typer(format_option(PAGE_FORMATS, "answer"))] = Format.TEXT,
    output: Annotated[Path | None, for_typer(OUTPUT)] = None,
    color: Annotated[Color, for_typer(COLOR)] = Color.AUTO,
) -> None:
    """Explain a rule, or an error: from a traceback or a log to the cause, its place in the project, and the fix."""
    from .explaining import run_explain

    raise typer.Exit(run_explain(what, project, output_format, output, color))


@app.command(short_help="Take the last migration back.")
def undo(
    path: Annotated[
        Path, for_typer(Argument("The project folder that was migrated.", "PATH", path_named, has_default=True))
    ] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Also overwrite files that changed since.")] = False,
) -> None:
    """Restore the bytes that the last `precfix migrate` replaced."""
    from ..applying.apply import undo as take_back
    from ..report.printable import printable

    restored = take_back(path, force=force)
    for each in restored:
        print(f"restored {printable(each)}")
    if not restored:
        print("Nothing to restore: every file has the bytes that it had before the migration.")


app.command(short_help="Measure what this machine can do.")(probe)
app.command(short_help="Run your program as on a GPU that is not there.", context_settings=REHEARSED)(rehearse)


@app.command(short_help="List the rules.")
def rules(
    output_format: Annotated[Format, for_typer(format_option((Format.TEXT, Format.JSON), "list"))] = Format.TEXT,
    color: Annotated[Color, for_typer(COLOR)] = Color.AUTO,
) -> None:
    """List the rules, including those of installed plugins."""
    from .manuals import list_rules

    raise typer.Exit(list_rules(output_format, color.wanted))


@app.command(short_help="Delete what is kept between runs.")
def clean() -> None:
    """Delete what `precfix` keeps between runs in the cache folder."""
    from .cleaning import clean_cache

    clean_cache()
