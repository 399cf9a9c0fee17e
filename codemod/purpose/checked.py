"""The code in which rules look for mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..python.names import ModuleNames, names_of
from ..source.project import Project
from .files import is_test


def checked_code(
    project: Project, *words: Iterable[str], where: Callable[[str], bool] | None = None
) -> Iterator[ModuleNames]:
    """The modules for `Project.checked_documents` that are no tests."""
    documents = project.checked_documents(*words, where=where)
    return (names_of(project, document) for document in documents if not is_test(document.path))
