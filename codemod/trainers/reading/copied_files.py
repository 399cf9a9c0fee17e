"""Files that scripts of the project copy, move or edit: what such a file says belongs to the runs of that script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from ...python.names import modules_with
from ...source.documents import FileKind
from ...source.magics import CONTINUED, MASK
from ...source.project import Project
from .program_files import VARIABLE, file_in_code, files_named
from .run_members import Run
from .runs import runs_of

COPYING = ("cp", "mv", "ln", "rsync", "install", "envsubst")
FILTERS = ("sed", "perl", "yq", "jq", "awk", "cat")
"""Programs that only show a file, unless they are told to write it or what they print is written."""
NAMED = re.compile(rf"(?<![\w.-])(?:{'|'.join((*COPYING, *FILTERS))})\s")
WRITTEN = (">", ">>", "tee", "-i", "--in-place", "--inplace", "sponge")
BEFORE = frozenset(("sudo", "then", "do", "else", "if", "!", "{", "(", "@", "-", "time"))
"""Words before a command."""
BETWEEN = frozenset((";", "&&", "||", "&", ";;", "(", ")"))
ASSIGNED = re.compile(r"(?m)^\s*(?:export\s+|local\s+)?(\w+)\s*:?=\s*[\"']?([^\s\"'#]+)")
OF_PYTHON = {
    "shutil": ("copy", "copy2", "copyfile", "move"),
    "os": ("rename", "replace", "link", "symlink"),
}
KINDS = (FileKind.SHELL, FileKind.NOTEBOOK)
MAX_WORDS = 200
"""Words of one line that are looked at."""


def copied_for_others(project: Project, path: str) -> str:
    """Where a script copies or edits a file, but starts no runs, or not only ones, that are seen to read it."""
    for script, row, command in project.fact(_copied).get(path, ()):
        if script != path and not _is_read_there(project, script, path):
            return f"{script}:{row} copies or edits {path} for other runs ({command})"
    return ""


def copied_by(project: Project, script: str) -> frozenset[str]:
    """The files that a script copies or edits."""
    return frozenset(path for path, places in project.fact(_copied).items() if script in (item[0] for item in places))


def _is_read_there(project: Project, script: str, path: str) -> bool:
    own = [run for run in runs_of(project) if run.place.path == script or script in run.modules]
    return bool(own) and all(_has(run, path) for run in own)


def _has(run: Run, path: str) -> bool:
    return path in (*run.configured, *run.modules, *(member.scope.path for member in run.members))


def _copied(project: Project) -> Mapping[str, list[tuple[str, int, str]]]:
    """Every file that is copied, moved or edited, with the script, the row and the command that does."""
    found: dict[str, list[tuple[str, int, str]]] = {}
    for kind in KINDS:
        for document in project.documents(kind, (*COPYING, *FILTERS)):
            values = dict(ASSIGNED.findall(document.text))
            for row, words in _commands(document.text):
                for word in words[1:]:
                    for path in files_named(project, document.path, _filled(word, values)):
                        found.setdefault(path, []).append((document.path, row, f"{words[0]} {word}"))
    names = tuple(name for functions in OF_PYTHON.values() for name in functions)
    for module in modules_with(project, names, tuple(OF_PYTHON)):
        calls = ((name, call) for name in names for call in module.calls_by_name.get(name, ()))
        for name, call in calls:
            owner, _, _ = (module.qualified(call.func) or "").rpartition(".")
            for node in call.args[:2] if name in OF_PYTHON.get(owner, ()) else ():
                named = file_in_code(project, module, node)
                if named is not None:
                    found.setdefault(named, []).append((module.path, call.lineno, f"{owner}.{name}"))
    return found


def _filled(word: str, values: Mapping[str, str]) -> str:
    return VARIABLE.sub(lambda match: values.get(match[0].strip("${}"), match[0]), word)


def _commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """The commands of a script that copy or edit, pipelines as one, each with its row and its words."""
    lines, row = iter(text.splitlines()), 0
    for line in lines:
        row, first = row + 1, row + 1
        while line.endswith("\\"):
            line, row = line[:-1] + next(lines, ""), row + 1
        command: list[str] = []
        for word in (*_words(line), ";"):
            if word not in BETWEEN:
                command += [word] if command or not (word in BEFORE or "=" in word) else []
                continue
            name = command[0].rpartition("/")[2] if command else ""
            is_written = any(item.startswith(WRITTEN) for item in command[1:])
            if name in COPYING or (name in FILTERS and is_written):
                yield first, command
            command = []


def _words(line: str) -> list[str]:
    if NAMED.search(line) is None:
        return []
    line = line.lstrip().removeprefix(MASK).removeprefix(CONTINUED)
    lexer = shlex.shlex(line.lstrip(" \t@-!%"), posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split = True
    try:
        return [*lexer][:MAX_WORDS]
    except ValueError:  # a quote that goes on in the next line
        return line.split()[:MAX_WORDS]
