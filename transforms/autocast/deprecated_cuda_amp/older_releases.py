"""Signs beside manifests that a project lives with an old PyTorch: what it imports, packages beside it, images, README.

They are no requirements: nothing is proved by them. They only say that new releases are not what runs here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from packaging.version import InvalidVersion, Version

from ....codemod.model import Place, Span
from ....codemod.python.names import modules_with
from ....codemod.releases.gates import guarding_try, is_gated
from ....codemod.releases.manifests import directory_of, images_in, is_image, is_manifest
from ....codemod.releases.pins import upper_bound_of
from ....codemod.releases.requirements import place_of
from ....codemod.source.documents import Document
from ....codemod.source.project import Project

GONE = {"torch._six": "2.0"}
"""Modules that a release of PyTorch removed, and which."""
LAST_OF_TOOLKIT = ("11.7", "2.2")
"""Builds of PyTorch from this one on do not come with a ``cudatoolkit`` up to that one."""
SIBLINGS = {"torchvision": (14, 1), "torchtext": (14, 1), "torchaudio": (13, 0)}
"""Packages of which each release needs one of PyTorch: the last ``0.n`` for PyTorch 1.x, and how far ``n`` is ahead."""
IMAGES = ("pytorch", "pytorch-training", "pytorch-inference")
"""Images whose tags are releases of PyTorch, whoever builds them; those of NVIDIA have a month."""
MONTHS = (("22.12", "2.0"), ("24.04", "2.4"))
"""NVIDIA's images up to a month hold releases before this one."""
CODE = (".py", ".ipynb")
NAMES = ("pytorch", "torch")
OPEN = (">", "+", "≥", "newer", "higher", "later", "above", "latest", "at least", "minimum", "or greater")
"""What makes a version in a sentence a lower bound."""


def runs_older(project: Project, release: str, near: str) -> Place | None:
    """Where something says that ``near`` runs with a PyTorch before ``release``; None where nothing does."""
    wanted, folder = Version(release), directory_of(near)
    for place, below in project.fact(_hints):
        above = project.memo(_speaks_for, place.path)
        if below <= wanted and (not above or folder == above or folder.startswith(f"{above}/")):
            return place
    return None


def _speaks_for(project: Project, path: str) -> str:
    """The folder that a sign speaks for: an image in a folder without code is how what is around it is installed."""
    folder = directory_of(path)
    is_apart = is_image(path.rpartition("/")[2].lower()) and folder.count("/") == 0
    has_code = any(other.startswith(f"{folder}/") and other.endswith(CODE) for other in project.paths)
    return "" if is_apart and not has_code else folder


def broken_since(project: Project, release: str) -> frozenset[str]:
    """The files that import what PyTorch no longer has in ``release``: nothing that needs them runs with it."""
    return frozenset(place.path for place, gone in project.fact(_removed) if gone <= Version(release))


def _hints(project: Project) -> tuple[tuple[Place, Version], ...]:
    """Each hint, and the first release that it excludes."""
    return (*project.fact(_removed), *_toolkits(project), *_siblings(project), *_images(project), *_sentences(project))


def _removed(project: Project) -> tuple[tuple[Place, Version], ...]:
    return tuple(_removed_modules(project))


def _removed_modules(project: Project) -> Iterator[tuple[Place, Version]]:
    for module in modules_with(project, ("_six",), ("torch",)):
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


def _siblings(project: Project) -> Iterator[tuple[Place, Version]]:
    """``torchaudio==0.8.0``: its wheel needs torch 1.8.0."""
    for name in SIBLINGS:
        upper, place = upper_bound_of(project, name)
        below = _beside(name, upper) if upper is not None else None
        if below is not None and place is not None:
            yield place, below


def _beside(name: str, newest: Version) -> Version | None:
    """The first PyTorch that a package cannot be installed with."""
    last, ahead = SIBLINGS[name]
    minor = newest.minor - newest.is_devrelease  # what is just below 0.10 is a 0.9
    if newest.major == 0 and 0 < minor <= last:
        return Version(f"1.{minor - ahead + 1}")
    has_same = name == "torchaudio" and newest.major == 2
    is_later = newest.major == 0 and minor > last
    return Version(f"2.{minor + 1 if has_same else minor - last}") if has_same or is_later else None


def _images(project: Project) -> Iterator[tuple[Place, Version]]:
    """The newest PyTorch of the images that the project is built in, where each of them tells it."""
    found = []
    for path in project.paths:
        document = project.document(path) if is_image(path.rpartition("/")[2].lower()) else None
        for row, repository, tag, _ in images_in(document) if document is not None else ():
            below = _held_by(repository, tag)
            if below is not None and document is not None:
                found.append((place_of(document, row, f"{repository}:{tag}"), below))
    yield from [max(found, key=lambda item: item[1])] if found else []


def _held_by(repository: str, tag: str) -> Version | None:
    """The first release of PyTorch that an image cannot hold."""
    vendor, name = repository.split("/")[0], repository.rpartition("/")[2]
    number = tag.partition("-")[0]
    if name not in IMAGES or "." not in number:
        return None
    try:
        version = Version(number)
    except InvalidVersion:
        return None
    if vendor == "nvcr.io":
        return next((Version(below) for month, below in MONTHS if version <= Version(month)), None)
    return Version(f"{version.major}.{version.minor + 1}")


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
