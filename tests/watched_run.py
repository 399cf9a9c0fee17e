"""Runs precfix commands under an audit hook and writes down what they did to the outside. Not a test.

Arguments: the folder to work in, the file for the record. Standard input: a JSON list of argument lists. The record is
a JSON list of ``{"arguments", "code", "events": [[name, ...], ...]}``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import CodeType

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = (
    "os.chmod",
    "os.chown",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
    "os.utime",
    "os.setxattr",
    "shutil.",
    "tempfile.",
)
STARTS = ("subprocess.", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.")
LEAVES = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser.", "ctypes.")
events: list[list[str]] = []


def _text(value: object) -> str:
    return os.fsdecode(value) if isinstance(value, bytes | os.PathLike) else str(value)


def _names(code: CodeType) -> list[str]:
    """The names and texts that a code object and those inside it use."""
    inner = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each)]
    return [*code.co_names, *(each for each in code.co_consts if isinstance(each, str)), *inner]


def watch(name: str, arguments: tuple[object, ...]) -> None:
    """Note an event that reaches beyond the process, or that runs code."""
    if name == "open":
        path, mode, flags = arguments
        if (isinstance(flags, int) and flags & WRITING) or any(letter in str(mode or "") for letter in "wax+"):
            events.append(["open for writing", _text(path)])
    elif name == "exec":
        code = arguments[0]
        trapped = "is_trapped" in _names(code) if isinstance(code, CodeType) else False
        events.append(["exec", code.co_filename if isinstance(code, CodeType) else "", str(trapped)])
    elif name == "import":
        events.append(["import", str(arguments[0]), str(arguments[1])])
    elif name == "subprocess.Popen":
        events.append([name, _text(arguments[0]), *map(_text, arguments[1])])  # type: ignore[call-overload]
    elif name.startswith((*CHANGES, *STARTS, *LEAVES)):
        events.append([name, *map(_text, arguments)])


def main() -> None:
    folder, record = sys.argv[1:]
    os.chdir(folder)
    from precfix.codemod import __main__ as command

    command._leave_at_once = lambda code: None  # it would end this process after the first run

    done = []
    sys.addaudithook(watch)
    for arguments in json.load(sys.stdin):
        events.clear()
        sys.argv = ["precfix", *arguments]
        code: object = 0
        try:
            command.main()
        except SystemExit as stop:
            code = stop.code
        done.append({"arguments": arguments, "code": code, "events": list(events)})
    loaded = [str(getattr(module, "__file__", "")) for module in sys.modules.values()]
    Path(record).write_text(json.dumps({"runs": done, "loaded": loaded, "modules": sorted(sys.modules)}))


if __name__ == "__main__":
    main()
