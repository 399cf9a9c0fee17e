"""The way from the words on the command line to an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence

from ..cache.folder import OFF
from ..model import PrecfixError, UsageError
from .answering import answering
from .commands import AuditRequest, CheckRequest, MigrateRequest
from .output import FOUND, INTERNAL, INTERRUPTED, USAGE
from .typed_words import AnyRequest, request_of, with_command


def check(request: CheckRequest) -> int:
    """Report precision mistakes. Exit code 0: none, 1: some, 2: bad usage or input, 3: precfix failed."""
    from .check import run_check

    return run_check(request)


def migrate(request: MigrateRequest) -> int:
    """Repair precision mistakes, or print the diff that would. `precfix undo` takes an applied run back."""
    from .migrate import run_migrate

    return run_migrate(request)


def audit(request: AuditRequest) -> int:
    """Show every place that states a precision: what wins, what is overridden, what contradicts.

    Exit code 0; with --plan 1 if a run would be left.
    """
    from .audit import run_audit

    return run_audit(request)


def main() -> None:
    """Run the command line; every failure is one clear message and the right exit code."""
    gc.disable()  # syntax trees are large and hold no garbage, and to look for it takes a quarter of a run
    if "--no-cache" in sys.argv:
        os.environ[OFF] = "1"
    try:
        sys.argv[1:] = with_command(sys.argv[1:])
        _check_for_path(sys.argv[1:2])
        with answering(sys.argv[1:]):
            run = _plainly_asked(sys.argv[1:])
            if run is not None:
                sys.exit(run())
            from .app import app

            app()
    except BrokenPipeError:  # as typer has it: whoever read the result went away
        sys.exit(FOUND)
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


def _plainly_asked(words: Sequence[str]) -> Callable[[], int] | None:
    """What to run for words that need no typer; None where they do."""
    if not words or "_PRECFIX_COMPLETE" in os.environ:
        return None
    command, *rest = words
    if command == "check":
        return _running(check, request_of(CheckRequest, rest))
    if command == "migrate":
        return _running(migrate, request_of(MigrateRequest, rest))
    return _running(audit, request_of(AuditRequest, rest)) if command == "audit" else None


def _running(run: Callable[[AnyRequest], int], request: AnyRequest | None) -> Callable[[], int] | None:
    return None if request is None else lambda: run(request)


def _check_for_path(first: list[str]) -> None:
    """``precfix ./project`` names no command; say which ones take it."""
    if first and not first[0].startswith("-") and ("/" in first[0] or "." in first[0]) and os.path.exists(first[0]):
        path = first[0]
        raise UsageError(f"{path!r} is a path; write `precfix check {path}` or `precfix migrate {path} --dry-run`")


def _one_line(error: BaseException) -> str:
    from ..report.printable import printable

    if isinstance(error, OSError) and error.strerror:
        return printable(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return printable(" ".join(str(error).split()) or type(error).__name__)
