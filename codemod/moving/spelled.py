"""What texts and code still spell of the type that a run has left, where no setting says it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from ..formats.shell_launchers import is_argument_list
from ..model import Place, Span
from ..outcome import Target
from ..python.names import ModuleNames, last_name, modules_at, string_of
from ..source.project import Project
from ..torch.dtypes import DTYPE_WORDS
from ..trainers.reading.run_members import Run
from ..trainers.reading.stated_words import text_of
from .left_behind import CODE, other_halves
from .pairs import RunPair

OFF = re.compile(
    r"""(?ix) (?:--?[\w.-]*16[\w.-]*(?:\s+|=) | [\w.]*16[\w.]*["']?\s*[=:]\s*(?:\{\s*["']?enabled["']?\s*:\s*)?)
    ["']?(?:false|no|off|0|null|none)\b"""
)
"""What is given as off: ``--fp16 false``, ``bf16=false``, ``"fp16": {"enabled": false}``."""
CALLERS = re.compile(r"\$\{?(?:[@*]|\d)")
"""What a script is given."""
IN_PATHS = re.compile(r"/|\.\w{2,11}['\"]|['\"]\w*[_-]|[_-]\w*['\"]")
"""What a text has that may be a path or a part of one."""
READS = re.compile(r"load|resume|restore|exists|isfile|isdir|is_file|is_dir|read|^open$|glob|from_pretrained|copy")
"""Names of calls that read files, or ask whether there are any."""
ASSIGNED = re.compile(r"\s*(?:export\s+|local\s+)?([A-Za-z_]\w*)=")
GIVEN = ("$@", "$*", "${@", "${*")
NAME = re.compile(r"\w+")


def spelled_in_texts(after: Project, pair: RunPair, target: Target, modules: Collection[str]) -> Iterator[Place]:
    """Where texts around a launch line, and paths in the code, spell the old type: ``grep fp16``, ``runs/fp16/``."""
    words = "|".join(word for word, dtype in DTYPE_WORDS.items() if dtype in other_halves(target) and "16" in word)
    document = after.document(pair.before.path) if words else None
    spelled = re.compile(rf"(?i)(?<![a-z0-9])({words})(?![a-z0-9])")
    rows = document.text.splitlines() if document is not None and not document.path.endswith(CODE) else ()
    for row, line in enumerate(rows, 1):
        found = spelled.search(OFF.sub("", line)) if pair.says(pair.before.path, row) else None
        if found is not None and not line.lstrip().startswith("#"):
            start = line.index(found[0]) + 1
            span = Span(row, start, row, start + len(found[0]))
            yield Place(pair.before.path, span, f"still says {found[0]}: {line.strip()}")
    for module in modules_at(after, modules) if words else ():
        for node in module.of_type(ast.Constant):
            if (
                isinstance(node.value, str)
                and "/" in node.value
                and " " not in node.value
                and spelled.search(node.value)
            ):
                yield module.place(node, f"still says {spelled.findall(node.value)[0]}: {text_of(node)}")


def open_arguments(after: Project, run: Run | None) -> Iterator[Place]:
    """A launch line that passes on arguments which nobody sees: they may ask for the old type again."""
    document = after.document(run.place.path) if run is not None and run.command is not None else None
    if run is None or run.command is None or document is None:
        return
    for word in run.command.words:
        name = NAME.search(word)
        is_unknown = name is not None and is_argument_list(word) and _is_open(document.text, name[0])
        if word.startswith(GIVEN) or is_unknown:
            yield run.place.saying(f"passes on {word}, which may ask for the old precision: {run.title}")
            return


def _is_open(text: str, name: str) -> bool:
    """Whether a variable of a script holds what the script is given, or is never set in it."""
    set_to = re.findall(rf"(?m)(?:^|[\s;]){name}\+?=(.*)", text)
    return not set_to or any(CALLERS.search(value) for value in set_to)


def renamed_files(project: Project, after: Project, pair: RunPair, modules: Collection[str]) -> Iterator[Place]:
    """Names of files made of a setting that has moved, where something reads them: what is there has the old name."""
    before = {(item.key, item.value) for item in (entry.declaration for entry in pair.before.entries)}
    keys = (item.key for item in pair.declared if (item.key, item.value) not in before)
    moved = {words[-1] for key in keys if (words := NAME.findall(key))}
    for module in modules_at(after, modules) if moved else ():
        for node in module.of_type(ast.JoinedStr):
            used = [item.value for item in node.values if isinstance(item, ast.FormattedValue)]
            named = next((item for item in used if _last_word(item) in moved), None)
            if named is not None and IN_PATHS.search(ast.unparse(node)) and _is_read(module, node):
                yield module.place(node, f"names a file by {ast.unparse(named)}, which has moved: {text_of(node)}")
    old, new = project.document(pair.before.path), after.document(pair.before.path)
    if old is None or new is None or new.path.endswith(CODE):
        return
    kept = set(new.text.splitlines())
    changed = {found[1] for line in old.text.splitlines() if line not in kept and (found := ASSIGNED.match(line))}
    for row, line in enumerate(new.text.splitlines(), 1):
        for name in NAME.findall(line) if pair.says(new.path, row) and line in old.text else ():
            found = re.search(rf"[\w/.-]\$(?:{name}\b|\{{{name}\}})|\$(?:{name}\b|\{{{name}\}})[/._-]\w", line)
            if name in changed and found is not None:
                span = Span(row, found.start() + 1, row, found.end() + 1)
                yield Place(new.path, span, f"names a file by {name}, which has moved: {line.strip()}")
                break


def _last_word(node: ast.expr) -> str:
    """``precision`` for ``args.precision``, ``cfg["precision"]``."""
    if isinstance(node, ast.Subscript):
        return string_of(node.slice) or ""
    return last_name(node)


def _is_read(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a text goes into a call that reads or asks for a file, itself or by the name that it is given."""
    statement = module.statement_of(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    names = {last_name(item) for item in targets} - {""}
    for call in (call for called, calls in module.calls_by_name.items() if READS.search(called) for call in calls):
        if any(item is node or last_name(item) in names for item in ast.walk(call)):
            return True
    return False
