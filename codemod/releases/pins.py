"""Which versions of a package the project's own manifests allow.

A spelling that only exists from some release on may be written into code only when no manifest promises to run with an
older one. The requirements that hold at run time come first; where they leave the package open, those of its extras
count, then what a lock file or image fixes, then development requirements, then what the code uses. Of several equals
the loosest counts: beside ``torch==2.8`` in one file a plain ``torch`` in another allows everything. The extras of a
project that lies within another count beside what the outer one requires: it may be installed alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from packaging.specifiers import Specifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ..model import Place
from ..purpose.files import purpose_of
from ..purpose.words import Purpose
from ..source.documents import FileKind
from ..source.project import Project
from .code_pins import pins_of_code
from .manifests import CONDA_WORD, directory_of, is_manifest, is_script, pins_in
from .requirements import Pin, Tier

CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch"}
"""Conda's names for a package, where they are not the ones of the Python index."""


@dataclass(frozen=True, slots=True)
class VersionRange:
    """What the deciding manifests allow: a version is allowed if any of ``pins`` allows it."""

    pins: tuple[Pin, ...]
    _below: dict[str, Pin | None] = field(default_factory=dict, compare=False, repr=False)
    """What was answered: the same release is asked about for every use of a spelling."""

    def may_be_below(self, version: str) -> bool:
        """Whether some version older than ``version`` is allowed."""
        return self.pin_below(version) is not None

    def may_reach(self, version: str) -> bool:
        """Whether ``version`` or a newer one is allowed."""
        wanted = Version(version)
        return any(upper is None or upper >= wanted for upper in (_upper(pin.specifiers) for pin in self.pins))

    def pin_below(self, version: str) -> Pin | None:
        """The loosest of the pins that allow a version older than ``version``; None when there is none."""
        if version not in self._below:
            wanted = Version(version)
            below = [pin for pin in self.pins if (_lower(pin.specifiers) or _ZERO) < wanted]
            self._below[version] = min(below, key=lambda pin: _lower(pin.specifiers) or _ZERO, default=None)
        return self._below[version]

    @property
    def places(self) -> tuple[Place, ...]:
        """Where the pins stand."""
        return tuple(pin.place for pin in self.pins)


_ZERO = Version("0")


def allowed(project: Project, package: str, near: str | None = None) -> VersionRange | None:
    """The versions of ``package`` (its name on the Python index) that the project allows; None without any pin.

    ``near`` is a file of the project: the manifests nearest to it count, in its own folder or in one above it; those of
    other folders say nothing about it.
    """
    folder = None if near is None else directory_of(near)
    return project.memo(_allowed, (package, folder))


def _allowed(project: Project, asked: tuple[str, str | None]) -> VersionRange | None:
    package, folder = asked
    pins = [pin for pin in project.fact(_written_pins) if pin.name == canonicalize_name(package) and not pin.is_source]
    if folder is not None:
        pins = [pin for pin in pins if _is_above(directory_of(pin.place.path), folder)]
    tier = min((pin.tier for pin in pins if len(pin.specifiers)), default=None)
    deciding = [pin for pin in pins if pin.tier == tier]
    if folder is not None:
        nearest = max((len(directory_of(pin.place.path)) for pin in deciding if len(pin.specifiers)), default=0)
        deciding = [pin for pin in deciding if len(directory_of(pin.place.path)) >= nearest]
        nearer = (pin for pin in pins if pin.tier is Tier.EXTRA and len(directory_of(pin.place.path)) > nearest)
        deciding += [pin for pin in nearer if len(pin.specifiers) and tier is Tier.RUN_TIME]
    return VersionRange(tuple(deciding)) if deciding else None


def certainly_has(project: Project, package: str, release: str, near: str) -> bool:
    """Whether every version of ``package`` that ``near`` may run with is at least ``release``; false without a pin."""
    versions = allowed(project, package, near)
    return versions is not None and not versions.may_be_below(release)


def is_required(project: Project, package: str) -> bool:
    """Whether a manifest names ``package``, whatever it says of its versions."""
    return any(pin.name == canonicalize_name(package) for pin in project.fact(_written_pins))


def is_from_source(project: Project, package: str) -> bool:
    """Whether a manifest takes ``package`` from an address, a fork or a commit, of which no release is known."""
    return any(pin.is_source and pin.name == canonicalize_name(package) for pin in project.fact(_written_pins))


def excludes(
    project: Project, package: str, release: str, near: str, others: Collection[Purpose] = frozenset()
) -> bool:
    """Whether the manifests of a folder of ``near``, or of one above it, allow no release from ``release`` on.

    A manifest whose name says that it is for one of ``others`` (``requirements-inference.txt``) is not asked where
    there is another one.
    """
    folder = directory_of(near)
    while True:
        versions = project.memo(_allowed, (package, folder))
        pins = [pin for pin in versions.pins if purpose_of(pin.place.path) not in others] if versions else []
        versions = VersionRange(tuple(pins)) if pins else versions
        if versions is not None and not versions.may_reach(release):
            return True
        if not folder:
            return False
        folder = folder.rpartition("/")[0]


def rules_out(project: Project, package: str, release: str, near: str) -> Pin | None:
    """The requirement that leaves ``near`` only releases before ``release``, if every one of whatever tier does."""
    folder, name, wanted = directory_of(near), canonicalize_name(package), Version(release)
    pins = [pin for pin in project.fact(_written_pins) if pin.name == name and _is_above(_folder_of(pin), folder)]
    uppers = [_upper(pin.specifiers) if not pin.is_source else None for pin in pins]
    excluded = all(upper is not None and upper < wanted for upper in uppers)
    return min(pins, key=lambda pin: (pin.tier, -len(_folder_of(pin)))) if pins and excluded else None


def upper_bound_of(project: Project, package: str) -> tuple[Version | None, Place | None]:
    """The newest release of ``package`` that some manifest allows, where all of them have a bound, and its place."""
    name = canonicalize_name(package)
    pins = [pin for pin in project.fact(_written_pins) if pin.name == name and len(pin.specifiers)]
    bounds = [(upper, pin.place) for pin in pins if (upper := _upper(pin.specifiers)) is not None]
    if not bounds or len(bounds) < len(pins):
        return None, None
    return max(bounds, key=lambda bound: bound[0])


def _written_pins(project: Project) -> tuple[Pin, ...]:
    named = [document for path in project.paths if is_manifest(path) and (document := project.document(path))]
    others = [item for item in project.documents(FileKind.YAML, (CONDA_WORD,)) if not is_manifest(item.path)]
    scripts = [item for item in project.documents(FileKind.SHELL, ("install",)) if is_script(item.path.lower())]
    written = (_renamed(pin) for document in (*named, *others, *scripts) for pin in pins_in(document))
    return (*written, *pins_of_code(project))


def _renamed(pin: Pin) -> Pin:
    known = CONDA_NAMES.get(pin.name, pin.name)
    return pin if known == pin.name else replace(pin, name=known)


def _is_above(directory: str, folder: str) -> bool:
    return not directory or folder == directory or folder.startswith(f"{directory}/")


def _folder_of(pin: Pin) -> str:
    return directory_of(pin.place.path)


def _lower(specifiers: SpecifierSet) -> Version | None:
    """The oldest version that is allowed; None when there is no lower bound."""
    return max(_bounds(specifiers, (">=", ">", "==", "~=", "===")), default=None)


def _upper(specifiers: SpecifierSet) -> Version | None:
    """The version that none can pass (itself allowed or not); None when there is no upper bound."""
    exact = [item for item in specifiers if not item.version.endswith(".*")]
    uppers = [*_bounds(exact, ("==", "===")), *_bounds(specifiers, ("<=",))]
    uppers += [_just_below(version) for version in _bounds(specifiers, ("<",))]
    for item in specifiers:
        if item.operator == "~=" or (item.operator == "==" and item.version.endswith(".*")):
            uppers += _after_prefix(item)
    return min(uppers, default=None)


def _bounds(specifiers: Iterable[Specifier], operators: Sequence[str]) -> Iterator[Version]:
    for item in specifiers:
        if item.operator in operators:
            try:
                yield Version(Version(item.version.removesuffix(".*")).public)
            except InvalidVersion:  # after === anything may stand
                continue


def _just_below(version: Version) -> Version:
    """A version that is below ``version`` and above every release before it."""
    return Version(f"{version.base_version}.dev0")


def _after_prefix(item: Specifier) -> list[Version]:
    """The end of ``~=2.1`` (3) and of ``==2.1.*`` (2.2)."""
    parts = list(Version(item.version.removesuffix(".*")).release)
    parts = parts[:-1] if item.operator == "~=" else parts
    if not parts:
        return []
    parts[-1] += 1
    return [_just_below(Version(".".join(str(part) for part in parts)))]
