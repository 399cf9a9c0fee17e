"""Signs beside manifests that a project lives with an old PyTorch: what it imports, its CUDA packages, its README.

They are no requirements: nothing is proved by them. They only say that new releases are not what runs here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from packaging.version import InvalidVersion, Version

from ..model import Place, Span
from ..python.names import names_of
from ..source.documents import Document
from ..source.project import Project
from .gates import guarding_try, is_gated
from .manifests import directory_of, is_manifest
from .pins import upper_bound_of

GONE = {"torch._six": "2.0"}
"""Modules that a release of PyTorch removed, and which."""
LAST_OF_TOOLKIT = ("11.7", "2.2")
"""Builds of PyTorch from this one on do not come with a ``cudatoolkit`` up to that one."""
NAMES = ("pytorch", "torch")
OPEN = (">", "+", "≥", "newer", "higher", "later", "above", "latest", "at least", "minimum", "or greater")
"""What makes a version in a sentence a lower bound."""


def runs_older(project: Project, release: str, near: str) -> Place | None:
    """Where something says that ``near`` runs with a PyTorch before ``release``; None where nothing does."""
    wanted, folder = Version(release), directory_of(near)
    for place, below in project.fact(_hints):
        above = directory_of(place.path)
        if below <= wanted and (not above or folder == above or folder.startswith(f"{above}/")):
            return place
    return None


def broken_since(project: Project, release: str) -> frozenset[str]:
    """The files that import what PyTorch no longer has in ``release``: nothing that needs them runs with it."""
    return frozenset(place.path for place, gone in project.fact(_removed) if gone <= Version(release))


def _hints(project: Project) -> tuple[tuple[Place, Version], ...]:
    """Each hint, and the first release that it excludes."""
    return (*project.fact(_removed), *_toolkits(project), *_sentences(project))


def _removed(project: Project) -> tuple[tuple[Place, Version], ...]:
    return tuple(_removed_modules(project))


def _removed_modules(project: Project) -> Iterator[tuple[Place, Version]]:
    for document in project.python_documents(("_six",), ("torch",)):
        module = names_of(project, document)
        for bindings in module.module_scope.bindings.values():
            for item in bindings:
                gone = next((name for name in GONE if (item.qualified or "").startswith(name)), None)
                if gone and not is_gated(module, item.node) and guarding_try(module, item.node) is None:
                    yield module.place(item.node, f"{gone} went with torch {GONE[gone]}"), Version(GONE[gone])


def _toolkits(project: Project) -> Iterator[tuple[Place, Version]]:
    last, release = LAST_OF_TOOLKIT
    upper, place = upper_bound_of(project, "cudatoolkit")
    if upper is not None and place is not None and upper <= Version(f"{last}.999"):
        yield place, Version(release)


def _sentences(project: Project) -> Iterator[tuple[Place, Version]]:
    """``PyTorch 1.7`` in a README, where no sentence of it names a newer one."""
    for path in project.paths:
        document = project.document(path) if _is_readme(path) and is_manifest(path) else None
        found = list(_versions_in(document)) if document is not None else []
        if document is not None and found and not any(is_open for _, _, is_open in found):
            row, newest, _ = max(found, key=lambda item: item[1])
            span = Span(row, 1, row, len(document.line(row)) + 1)
            yield Place(path, span, f"torch {newest} is named here"), Version(f"{newest.major}.{newest.minor + 1}")


def _is_readme(path: str) -> bool:
    return path.rpartition("/")[2].lower().startswith(("readme", "install"))


def _versions_in(document: Document) -> Iterator[tuple[int, Version, bool]]:
    """(row, version, whether newer ones are meant too) of every release of PyTorch that is named."""
    for row in range(1, min(document.rows, 2000) + 1):
        line = document.line(row).lower()
        if "torch" not in line or len(line) > 1000:
            continue
        is_open = any(word in line for word in OPEN)
        words = "".join(char if char.isalnum() or char == "." else " " for char in line).split()
        for first, second in pairwise(words):
            number = second.strip(".").removeprefix("v")
            if first in NAMES and number[:1].isdigit() and "." in number:
                try:
                    yield row, Version(number), is_open
                except InvalidVersion:
                    continue
