"""Runs whose settings file nobody can name: what ``cfg.get("amp", False)`` falls back to says nothing of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ...outcome import Declaration
from ...purpose.files import words_of
from ...python.names import names_of
from ...source.project import Project
from .program_files import CONFIG_ENDINGS, files_named, words_of_script
from .run_members import Run

FILES = frozenset({"config", "configs", "cfg", "conf", "yaml", "yml", "json", "settings"})
"""Words of flags that name a settings file."""


def rests_on_a_fallback(project: Project, run: Run, items: Iterable[Declaration]) -> bool:
    """Whether all that decides a run is what code takes where a file does not say it, and the file is not known."""
    told = [item for item in items if item.feeds and item.regime]
    defaults = [item for item in told if item.role == "option"]
    if len(defaults) < len(told) or not _reads_unknown_file(project, run):
        return False
    return any(_is_fallback(project, item) for item in defaults)


def _reads_unknown_file(project: Project, run: Run) -> bool:
    """``--config $cfg``, ``--config conf/lost.yaml``: the line names a file that is not seen here."""
    words = words_of_script(run.command) if run.command is not None else ()
    for flag, word in pairwise(("", *words)):
        value = word.partition("=")[2] if word.startswith("-") else word
        asks = (word if word.startswith("-") else flag).partition("=")[0].lstrip("-")
        is_file = value.endswith(CONFIG_ENDINGS) or (value.startswith("$") and not FILES.isdisjoint(words_of(asks)))
        if is_file and not files_named(project, run.place.path, value):
            return True
    return False


def _is_fallback(project: Project, item: Declaration) -> bool:
    """Whether a declaration is the default in ``cfg.get("amp", False)``."""
    for document in project.python_documents_at([item.path]):
        calls = names_of(project, document).calls_by_name.get("get", ())
        return any(document.span(node) == item.span for call in calls for node in call.args[1:])
    return False
