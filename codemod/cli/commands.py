"""What each command takes: one field per option, from which the command line is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated

from .options import (
    CHECK_FORMATS,
    MIGRATE_FORMATS,
    PAGE_FORMATS,
    AllowDirty,
    BaselineOption,
    Color,
    ColorOption,
    DiffBase,
    Exclude,
    FlagOption,
    FoldersOrHere,
    Format,
    Ignore,
    Isolated,
    Jobs,
    NoCache,
    ObservedOption,
    Output,
    Paths,
    PathsOrHere,
    ProfileOption,
    Quiet,
    RegimeOption,
    Reports,
    Select,
    Statistics,
    StdinFilename,
    TargetChoice,
    ValueOption,
    Verbose,
    current_folder,
    file,
    flag,
    format_option,
    path_named,
)

STDIN = Path("-")


class Request:
    """What every command that reads a project is asked; an option that a command does not have keeps this value."""

    paths: Sequence[Path]
    exclude: Sequence[str] | None = None
    profile: Path | None = None
    observed: Path | None = None
    probe: bool = False
    to: TargetChoice = TargetChoice.AUTO
    select: str | None = None
    ignore: str = ""
    baseline: Path | None = None
    write_baseline: Path | None = None
    diff_base: str | None = None
    stdin_filename: Path | None = None
    isolated: bool = False
    no_cache: bool = False
    jobs: int | None = None
    project: Path | None = None

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

    paths: PathsOrHere = field(default_factory=current_folder)
    select: Select = None
    ignore: Ignore = ""
    exclude: Exclude = None
    profile: ProfileOption = None
    observed: ObservedOption = None
    diff_base: DiffBase = None
    baseline: BaselineOption = None
    write_baseline: Annotated[Path | None, file("Write all present findings to this file, and exit with 0.")] = None
    add_ignore: Annotated[
        bool, flag("Write a `# precfix: ignore[CODE]` comment for every finding.", "--add-ignore")
    ] = False
    reason: Annotated[str, ValueOption("With --add-ignore: the reason to write.", metavar="TEXT")] = ""
    allow_dirty: AllowDirty = False
    stdin_filename: StdinFilename = None
    project: Annotated[
        Path | None,
        ValueOption(
            "The project that the PATHs belong to: all of it is read, but only mistakes in the PATHs are reported.",
            metavar="FOLDER",
            read=path_named,
        ),
    ] = None
    isolated: Isolated = False
    no_cache: NoCache = False
    output_format: Annotated[Format, format_option(CHECK_FORMATS)] = Format.TEXT
    output: Output = None
    reports: Reports = None
    jobs: Jobs = None
    statistics: Statistics = False
    show_fixes: Annotated[bool, flag("Show the diff of each finding's fix.", "--show-fixes")] = False
    exit_zero: Annotated[bool, flag("Exit with 0 even if there are findings.", "--exit-zero")] = False
    quiet: Quiet = False
    verbose: Verbose = False
    color: ColorOption = Color.AUTO


@dataclass(frozen=True)
class MigrateRequest(Request):
    """``precfix migrate``."""

    paths: Paths
    dry_run: Annotated[bool, flag("Change nothing; print the diff.", "--dry-run")] = False
    to: RegimeOption = TargetChoice.AUTO
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
    allow_dirty: AllowDirty = False
    select: Select = None
    ignore: Ignore = ""
    exclude: Exclude = None
    profile: ProfileOption = None
    probe: Annotated[bool, flag("Probe this machine first, and repair for it.", "--probe")] = False
    observed: ObservedOption = None
    diff_base: DiffBase = None
    baseline: BaselineOption = None
    stdin_filename: StdinFilename = None
    isolated: Isolated = False
    no_cache: NoCache = False
    output_format: Annotated[
        Format | None, format_option(MIGRATE_FORMATS, default="  [default: diff with --dry-run, else text]")
    ] = None
    output: Output = None
    reports: Reports = None
    jobs: Jobs = None
    statistics: Statistics = False
    show_fixes: Annotated[bool, flag("List every fix on a line of its own.", "--show-fixes")] = False
    quiet: Quiet = False
    verbose: Verbose = False
    color: ColorOption = Color.AUTO

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

    paths: FoldersOrHere = field(default_factory=current_folder)
    to: RegimeOption = TargetChoice.AUTO
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
    exclude: Exclude = None
    profile: ProfileOption = None
    isolated: Isolated = False
    no_cache: NoCache = False
    output_format: Annotated[Format, format_option(PAGE_FORMATS)] = Format.TEXT
    output: Output = None
    color: ColorOption = Color.AUTO


def words_of(request: Request, names: Sequence[str]) -> list[str]:
    """The options called ``names`` as they are typed, where they differ from their defaults; PATHs first."""
    words = [str(path) for path in request.paths]
    defaults = {each.name: each.default for each in fields(request)}  # type: ignore[arg-type]
    for name in names:
        value, typed = getattr(request, name), f"--{name.replace('_', '-')}"
        if value and value != defaults[name]:
            each = value if isinstance(value, list) else [value]
            words += [typed] if value is True else [word for item in each for word in (typed, _typed(item))]
    return words


def _typed(item: object) -> str:
    return str(item.value if isinstance(item, TargetChoice) else item)
