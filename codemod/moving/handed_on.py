"""Weights that one run of a project writes and another one loads: what the first may not compute in, the second may
not either.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import pairwise

from ..model import Place, Span
from ..source.project import Project
from ..trainers.reading.program_files import file_named
from ..trainers.reading.run_members import Run

OUTPUT = re.compile(r"(?i)^[-+]*(?:[\w.]+\.)?(?:out|output|save)[\w-]*$")
"""Names of options for the folder that a run writes."""
WRITING = re.compile(r"(?i)out(?:put|_?dir)|save")
"""What a line of code says that names such a folder to write it."""


def written_by(run: Run) -> frozenset[str]:
    """The folders inside the project that the launch line of a run has it write."""
    return frozenset(path for path, is_output in _paths(run) if is_output and "/" in path and "$" not in path)


def _paths(run: Run) -> Iterator[tuple[str, bool]]:
    """The words of a launch line without their options, and whether an option says that the run writes there."""
    for before, word in pairwise(("", *(run.command.words if run.command is not None else ()))):
        name, equals, value = word.partition("=")
        yield (value if equals else word).removeprefix("./").rstrip("/"), bool(OUTPUT.match(name if equals else before))


def loads_from(project: Project, run: Run, folders: Collection[str]) -> Iterator[tuple[Place, str]]:
    """Where the launch line of a run, a file that it names, or its code names one of these folders to load it."""
    own = [path for path, is_output in _paths(run) if not is_output]
    for folder in folders:
        if any(f"{path}/".startswith(f"{folder}/") for path in own):
            yield run.place, folder
    named = (file_named(project, run.place.path, path) for path in own)
    for path in dict.fromkeys((*(item for item in named if item is not None), *run.modules)):
        document = project.document(path)
        for row, line in enumerate(document.text.splitlines() if document is not None else (), 1):
            for folder in folders:
                found = re.search(rf"(?:^|[^\w./-]|\./){re.escape(folder)}(?![\w-])", line) if folder in line else None
                if found is not None and not WRITING.search(line[: found.start()]):
                    yield Place(path, Span(row, found.end() - len(folder) + 1, row, found.end() + 1), ""), folder
