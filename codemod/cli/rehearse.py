"""``precfix rehearse``: the one command that runs the user's program, because the user asks for it."""

from __future__ import annotations

import sys
from dataclasses import replace
from errno import ENOEXEC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..model import UsageError
from .for_typer import for_typer
from .options import Format, format_option
from .output import FOUND, check_folder

if TYPE_CHECKING:
    from ...probes.rehearsal.record import RehearsalRecord
    from ...probes.rehearsal.running import Rehearsal, RehearsedRun, RunNotebook


def rehearse(
    command: Annotated[
        list[str], typer.Argument(help="The command that starts the training, after `--`.", metavar="COMMAND...")
    ],
    steps: Annotated[int, typer.Option(help="Stop after this many optimizer steps.", min=1, max=100000)] = 3,
    device: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="The device that the program is for: cuda, v100, t4, a100, h100, rx7900, mps, cpu, or a profile that "
            "`precfix probe` saved.  [default: the GPU of this machine, else cuda, simulated]",
            metavar="DEVICE",
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write what was seen to this file.", metavar="FILE")] = None,
    output_format: Annotated[
        Format, for_typer(format_option((Format.TEXT, Format.JSON, Format.SARIF), "result"))
    ] = Format.TEXT,
    time_limit: Annotated[
        float, typer.Option(help="End the program after this many seconds.", min=1.0, max=86400.0)
    ] = 600.0,
    memory_limit: Annotated[
        float, typer.Option(help="End the program when it uses more than this many GiB; 0 is no limit.", min=0.0)
    ] = 0.0,
    no_write: Annotated[
        bool,
        typer.Option("--no-write", help="Drop checkpoints.  [default: they go to a folder that is gone afterwards]"),
    ] = False,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="On a GPU: run it there and rehearsed, and say where the rehearsal was wrong."),
    ] = False,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Compute everything in float64 as well, and say what 16 bits lose.")
    ] = False,
    shadow_modules: Annotated[
        list[str] | None, typer.Option(help="Compare only modules with such paths (`*.layers.0.*`).", metavar="PATTERN")
    ] = None,
    shadow_page: Annotated[
        Path | None, typer.Option(help="Write the shadow's picture per layer to this HTML file.", metavar="FILE")
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only say how it ended.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show what the program printed.")] = False,
) -> None:
    """Run your own command for a few steps with the dtype rules of the GPU it is for. It executes your code.

    Exit code 0: nothing raised, 1: something would raise, 2: bad usage, 3: the program died of something else.
    """
    from ...probes.rehearsal.running import Gpu, Rehearsal
    from .rehearsed import compared, page_of
    from .rehearsed_command import root_of
    from .rehearsed_device import device_of

    check_folder(save)
    check_folder(shadow_page)
    profile, simulated_device = device_of(device)
    request = Rehearsal(
        command,
        root_of(command),
        profile,
        simulated_device,
        gpu=Gpu.RECORDED if device is None else Gpu.REFUSED,
        steps=steps,
        time_limit=time_limit,
        memory_limit=int(memory_limit * (1 << 30)),
        no_write=no_write,
        notebook=_notebook(command),
        folder=Path.cwd(),
        shadow=tuple(shadow_modules or ["*"]) if shadow or shadow_modules or shadow_page else (),
    )
    record, run = _rehearsed(replace(request, gpu=Gpu.REQUIRED) if compare else request)
    simulated = _rehearsed(replace(request, gpu=Gpu.IGNORED)) if compare else None
    if save is not None:
        save.write_text(record.dump(), "utf-8")
    if shadow_page is not None:
        shadow_page.write_text(page_of(record), "utf-8")
    code = _shown(request.root, record, run, None if quiet else output_format, verbose)
    raise typer.Exit(code if simulated is None else max(code, compared(record, *simulated)))


def _notebook(command: list[str]) -> RunNotebook | None:
    from ...probes.rehearsal.running import RunNotebook
    from .rehearsed_command import code_of, notebook_of, python

    path = notebook_of(command)
    return None if path is None else RunNotebook(python(), path, code_of(path))


def _rehearsed(request: Rehearsal) -> tuple[RehearsalRecord, RehearsedRun]:
    from ...probes.rehearsal.record import record_of
    from ...probes.rehearsal.running import run
    from ..version import version_text

    try:
        done = run(request)
    except FileNotFoundError as error:
        raise UsageError(f"{request.command[0]!r} cannot be run: there is no such program") from error
    except PermissionError as error:
        raise UsageError(_not_executable(request.command[0])) from error
    except OSError as error:
        word = request.command[0]
        asks = f"its first line names no shell; type `sh {word}`" if error.errno == ENOEXEC else error.strerror
        raise UsageError(f"{word!r} cannot be run: {asks}") from error
    reason = next((str(each["refused"]) for each in done.answers if each.get("refused")), "")
    if reason:
        raise UsageError(reason)
    return record_of(request, done, version_text()), done


def _not_executable(word: str) -> str:
    """What a shell says of a script without its executable bit, and what to type."""
    if Path(word).is_dir():
        return f"{word!r} cannot be run: it is a folder"
    shell = {".py": "python", ".sh": "sh", ".bash": "bash"}.get(Path(word).suffix, "sh")
    return f"{word!r} cannot be run: it is not executable; type `{shell} {word}`, or make it so with chmod +x"


def _shown(root: Path, record: RehearsalRecord, run: RehearsedRun, output_format: Format | None, verbose: bool) -> int:
    from ...probes.rehearsal.verdict import UNSEEN, closing, exit_code, tail
    from ..report.printable import printable
    from .rehearsed import losses_told, report_rehearsal, shadow_lines

    code = exit_code(record) or (FOUND if losses_told(record) else 0)
    if verbose:
        _pass_on(run)
    elif code == UNSEEN and record.ended == "error":
        print("\n".join(printable(line) for line in tail(run.errors)), file=sys.stderr)
    if output_format is not None:
        report_rehearsal(record.dump(), root, output_format)
    if output_format in (Format.TEXT, None):
        for line in shadow_lines(record):
            print(printable(line))
        print(printable(f"Rehearsed: {closing(record, run)}."), flush=True)
    return code


def _pass_on(run: RehearsedRun) -> None:
    """What the program printed, byte for byte, on standard error: standard output is ours."""
    sys.stderr.flush()
    stream = getattr(sys.stderr, "buffer", None)
    if stream is not None:
        stream.write(run.output + run.errors)
        stream.flush()
