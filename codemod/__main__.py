"""``python -m precfix.codemod`` equals ``precfix``. Kept free of imports: ``--version`` waits for nothing else."""

import atexit
import os
import sys


def main() -> None:
    """Print the version, or hand over to the command line."""
    _open_closed_streams()
    code: object = 0
    try:
        _run()
    except KeyboardInterrupt:  # while modules were still being imported
        print("precfix: interrupted", file=sys.stderr)
        code = 130
    except SystemExit as stop:
        code = stop.code
    except OSError as error:
        code = _unwritten(error, 0)
    try:
        sys.stdout.flush()
    except OSError as error:  # Python would report it as an ignored exception at its end
        code = _unwritten(error, code)
    _leave_at_once(code)
    sys.exit(code)  # type: ignore[arg-type]


def _leave_at_once(code: object) -> None:
    """End without taking apart what is in memory, which takes seconds; return where somebody waits for an orderly end.

    Those are other threads, a debugger and a profiler. What was registered with `atexit` is done.
    """
    threading = sys.modules.get("threading")
    is_alone = threading is None or threading.active_count() == 1
    if not is_alone or sys.gettrace() or sys.getprofile() or not isinstance(code, int | None):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads it any more
        return
    os._exit((code or 0) & 0xFF)


def _run() -> None:
    if sys.argv[1:] == ["--version"]:
        from .version import version_text

        print(f"precfix {version_text()}")
        return
    if "--no-cache" not in sys.argv:
        from .cache.answers import told_again

        code = told_again(sys.argv[1:])
        if code is not None:
            sys.exit(code)
    from .cli import main as run

    run()


def _unwritten(error: OSError, code: object) -> object:
    """The exit code when standard output takes no more: a reader that went away is not a failure."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError) or code not in (None, 0, 1):  # a failure has been reported already
        return code
    print(f"precfix: {error.strerror}", file=sys.stderr)
    return 2


def _open_closed_streams() -> None:
    """Started with a closed stdout or stderr, write to nowhere: the next file opened would take its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _forget_current_folder() -> None:
    """``python -m`` looks for modules in the current folder first: the scanned project's ``yaml.py`` would be run.

    Python itself has looked there for ``runpy`` and ``precfix`` by now: among hostile files use ``precfix``, which
    never looks there, or ``python -P -m``.
    """
    try:
        here, first = os.path.realpath("."), os.path.realpath(sys.path[0])
    except OSError:  # the current folder is gone
        return
    installed_in = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    if first == here != installed_in and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]


if __name__ == "__main__":
    _forget_current_folder()
    main()
