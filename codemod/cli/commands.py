"""What each command takes: one field per option, from which the command line is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, ClassVar

from .options import (
    CHECK_FORMATS,
    COLOR,
    MIGRATE_FORMATS,
    OUTPUT,
    PAGE_FORMATS,
    PATHS,
    REGIME,
    Color,
    FlagOption,
    Format,
    TargetChoice,
    ValueOption,
    current_folder,
    file,
    flag,
    format_option,
    number_named,
    path_named,
)

STDIN = Path("-")
TO_HERE = "  [default: the current folder]"


@dataclass(frozen=True)
class Request:
    """What every command that reads a project is asked; an option that a command does not have keeps this value."""

    taken: ClassVar[Sequence[str]] = ()
    """What the command takes of all this, in the order of its help."""

    paths: Annotated[list[Path], PATHS]
    to: Annotated[TargetChoice, REGIME] = TargetChoice.AUTO
    select: Annotated[
        str | None, ValueOption("Comma-separated rules to enable: codes, prefixes of codes, or names.", metavar="CODES")
    ] = None
    ignore: Annotated[str, ValueOption("Comma-separated rules to disable.", metavar="CODES")] = ""
    exclude: Annotated[
        list[str] | None, ValueOption("Skip these paths too (gitignore pattern).", metavar="GLOB", several=True)
    ] = None
    profile: Annotated[
        Path | None,
        file("The machine to train on, as `precfix probe --save` wrote it.  [default: a profile in the project]"),
    ] = None
    probe: Annotated[bool, flag("Probe this machine first, and repair for it.", "--probe")] = False
    observed: Annotated[
        Path | None,
        file("What `precfix rehearse --save` saw of the project.  [default: precfix-observed.json in the project]"),
    ] = None
    diff_base: Annotated[
        str | None,
        ValueOption("Report only findings on lines changed since this commit or branch.", metavar="REVISION"),
    ] = None
    baseline: Annotated[Path | None, file("Leave out the findings that this file lists.")] = None
    write_baseline: Annotated[Path | None, file("Write all present findings to this file, and exit with 0.")] = None
    allow_dirty: Annotated[bool, flag("Overwrite uncommitted changes.", "--allow-dirty")] = False
    stdin_filename: Annotated[
        Path | None, ValueOption("File name to assume for stdin; selects its settings.", metavar="FILE", read=Path)
    ] = None
    project: Annotated[
        Path | None,
        ValueOption(
            "The project that the PATHs belong to: all of it is read, but only mistakes in the PATHs are reported.",
            metavar="FOLDER",
            read=path_named,
        ),
    ] = None
    isolated: Annotated[bool, flag("Ignore configuration files and third-party rules.", "--isolated")] = False
    no_cache: Annotated[bool, flag("Read and write nothing in the cache folder.", "--no-cache")] = False
    output: Annotated[Path | None, OUTPUT] = None
    reports: Annotated[
        list[str] | None,
        ValueOption("Also write the result in this format to this file.", ("--report",), "FORMAT=FILE", several=True),
    ] = None
    jobs: Annotated[
        int | None,
        ValueOption("How many processes check at the same time.  [default: 1]", ("--jobs", "-j"), "N", number_named),
    ] = None
    statistics: Annotated[bool, flag("Count the findings by rule.", "--statistics")] = False
    quiet: Annotated[bool, flag("One line per finding.", "--quiet", "-q")] = False
    verbose: Annotated[
        bool, flag("Also show skipped files, silenced findings, and the source of the target.", "--verbose", "-v")
    ] = False
    color: Annotated[Color, COLOR] = Color.AUTO

    @property
    def is_stdin(self) -> bool:
        """Whether one file is read from standard input."""
        return STDIN in self.paths

    @property
    def read(self) -> Sequence[Path]:
        """What is read: the PATHs, or the project that they belong to as well."""
        files = [path for path in self.paths if path != STDIN]
        return self.paths if self.project is None else [self.project, *files]


@dataclass(frozen=True)
class CheckRequest(Request):
    """``precfix check``."""

    taken = (
        *("paths", "select", "ignore", "exclude", "profile", "observed", "diff_base", "baseline", "write_baseline"),
        *("add_ignore", "reason", "allow_dirty", "stdin_filename", "project", "isolated", "no_cache"),
        *("output_format", "output", "reports", "jobs", "statistics", "show_fixes", "exit_zero"),
        *("quiet", "verbose", "color"),
    )

    paths: Annotated[list[Path], PATHS._replace(help=PATHS.help + TO_HERE)] = field(default_factory=current_folder)
    add_ignore: Annotated[
        bool, flag("Write a `# precfix: ignore[CODE]` comment for every finding.", "--add-ignore")
    ] = False
    reason: Annotated[str, ValueOption("With --add-ignore: the reason to write.", metavar="TEXT")] = ""
    output_format: Annotated[Format, format_option(CHECK_FORMATS)] = Format.TEXT
    show_fixes: Annotated[bool, flag("Show the diff of each finding's fix.", "--show-fixes")] = False
    exit_zero: Annotated[bool, flag("Exit with 0 even if there are findings.", "--exit-zero")] = False


@dataclass(frozen=True)
class MigrateRequest(Request):
    """``precfix migrate``."""

    taken = (
        *("paths", "dry_run", "to", "unsafe_fixes", "fix", "interactive", "patch", "prove", "steps", "allow_dirty"),
        *("select", "ignore", "exclude", "profile", "probe", "observed", "diff_base", "baseline", "stdin_filename"),
        *("isolated", "no_cache", "output_format", "output", "reports", "jobs", "statistics", "show_fixes"),
        *("quiet", "verbose", "color"),
    )

    dry_run: Annotated[bool, flag("Change nothing; print the diff.", "--dry-run")] = False
    unsafe_fixes: Annotated[
        bool | None,
        FlagOption(
            "Also apply fixes that may change numerics, memory or speed.  [default: the settings, else no]",
            ("--unsafe-fixes",),
            "--no-unsafe-fixes",
        ),
    ] = None
    fix: Annotated[
        list[str] | None,
        ValueOption("Use this alternative fix of a rule, such as PF101=disable.", metavar="CODE=NAME", several=True),
    ] = None
    interactive: Annotated[bool, flag("Ask before each fix.", "--interactive", "-i")] = False
    patch: Annotated[
        Path | None, ValueOption("Write the diff to this file; change nothing else.", metavar="FILE", read=Path)
    ] = None
    prove: Annotated[
        str | None,
        ValueOption(
            "Rehearse this command on a copy before and after the fixes; leave out those that make it worse.",
            metavar="-- COMMAND",
        ),
    ] = None
    steps: Annotated[int, ValueOption("With --prove: optimizer steps of each rehearsal.", metavar="N", read=int)] = 3
    output_format: Annotated[
        Format | None, format_option(MIGRATE_FORMATS, default="  [default: diff with --dry-run, else text]")
    ] = None
    show_fixes: Annotated[bool, flag("List every fix on a line of its own.", "--show-fixes")] = False

    @property
    def preview(self) -> bool:
        """Whether nothing is written to the project."""
        return self.dry_run or self.patch is not None

    @property
    def chosen_format(self) -> Format:
        """The format asked for, else the diff of a dry run, else text."""
        shows_diff = self.dry_run and self.patch is None
        return self.output_format or (Format.DIFF if shows_diff else Format.TEXT)


@dataclass(frozen=True)
class AuditRequest(Request):
    """``precfix audit``."""

    taken = (
        *("paths", "to", "plan", "unsafe_fixes", "exclude", "profile", "isolated", "no_cache", "output_format"),
        *("output", "color"),
    )

    paths: Annotated[list[Path], PATHS._replace(help="Project folders or files." + TO_HERE)] = field(
        default_factory=current_folder
    )
    plan: Annotated[
        bool, flag("Show what `migrate` with the same options would do to each run; nothing is written.", "--plan")
    ] = False
    unsafe_fixes: Annotated[
        bool | None,
        FlagOption(
            "With --plan: as with `migrate`.  [default: the settings, else no]",
            ("--unsafe-fixes",),
            "--no-unsafe-fixes",
        ),
    ] = None
    output_format: Annotated[Format, format_option(PAGE_FORMATS)] = Format.TEXT


def words_of(request: Request, names: Sequence[str]) -> list[str]:
    """The options called ``names`` as they are typed, where they differ from their defaults; PATHs first."""
    words = [str(path) for path in request.paths]
    defaults = {each.name: each.default for each in fields(request)}
    for name in names:
        value, typed = getattr(request, name), f"--{name.replace('_', '-')}"
        if value and value != defaults[name]:
            each = value if isinstance(value, list) else [value]
            words += [typed] if value is True else [word for item in each for word in (typed, _typed(item))]
    return words


def _typed(item: object) -> str:
    return str(item.value if isinstance(item, TargetChoice) else item)
