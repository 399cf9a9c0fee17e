"""One requirement as it is written in a manifest: its name, what it allows, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ..model import Place, Span
from ..source.documents import Document

_MAX_LINES = 200_000
_MAX_LENGTH = 500
_DEVELOPMENT_WORDS = frozenset(
    {
        *("dev", "devel", "development", "test", "tests", "testing", "doc", "docs", "readthedocs", "lint", "linting"),
        *("style", "quality", "ci", "build", "bench", "benchmark", "benchmarks", "typing", "typecheck", "mypy"),
        "notebooks",
    }
)


class Tier(IntEnum):
    """How much a requirement says about the versions that the code must run with: the smallest decides."""

    RUN_TIME = 0
    EXTRA = 1
    FIXED = 2
    """One version among those allowed: a lock file, an image."""
    DEVELOPMENT = 3
    CODE = 4
    """What only runs with old releases, where no manifest says anything."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One requirement: the canonical package name, what it allows (possibly everything), and where it stands."""

    name: str
    specifiers: SpecifierSet
    tier: Tier
    place: Place
    is_source: bool = False
    """Whether it names an address (``deepspeed @ git+https://...``): which release that is nobody says."""


def _words(text: str) -> set[str]:
    return set("".join(char if char.isalnum() else " " for char in text.lower()).split())


def speaks_of_development(text: str) -> bool:
    """Whether a name is that of requirements which running the code does not need."""
    return not _DEVELOPMENT_WORDS.isdisjoint(_words(text))


def tier_of_extra(name: str) -> Tier:
    """What the requirements of an extra (``[train]``, ``[dev]``) count for."""
    return Tier.DEVELOPMENT if speaks_of_development(name) else Tier.EXTRA


def _parsed(text: str) -> tuple[Requirement, bool] | None:
    """A requirement, and whether only an extra asks for it; None when it is none."""
    cleaned = text.split(" #")[0].split(" --")[0].split(" -f ")[0].strip().rstrip(",").rstrip()
    cleaned = _of_wheel(cleaned) or cleaned
    if not cleaned or cleaned[0] in "-#./" or len(cleaned) > _MAX_LENGTH:
        return None
    for attempt in (cleaned, _modern(cleaned)):
        try:
            found = Requirement(attempt)
        except (InvalidRequirement, RecursionError):
            continue
        only_extra = found.marker is not None and "extra ==" in str(found.marker)
        return found, only_extra
    return None


def _of_wheel(text: str) -> str:
    """``torch==1.13.1+cu116`` for ``https://.../torch-1.13.1%2Bcu116-cp310-cp310-linux_x86_64.whl``; "" for others."""
    address = text.partition(";")[0].split("#")[0].rpartition(" @ ")[2].strip()
    if "://" not in address or not address.endswith(".whl"):
        return ""
    name, _, rest = address.rpartition("/")[2].replace("%2B", "+").partition("-")
    version = rest.partition("-")[0]
    return f"{name}=={version}" if name and version else ""


def _modern(text: str) -> str:
    """``torch>=1.7.*`` and ``>=2.4+cu124`` mean what ``>=1.7`` and ``>=2.4`` mean; newer rules refuse them."""
    requirement, mark, marker = text.partition(";")
    return ",".join(without_tail(part.strip()) for part in requirement.split(",")) + mark + marker


def without_tail(part: str) -> str:
    """``>=2.4+cu124`` and ``>=1.7.*`` less what only equality may have."""
    return part if "==" in part or "!=" in part else part.partition("+")[0].removesuffix(".*")


def place_of(document: Document, row: int, text: str) -> Place:
    """A row of a manifest; ``text`` is what is required there."""
    line = document.line(row)
    column = len(line) - len(line.lstrip()) + 1
    return Place(document.path, Span(row, column, row, max(len(line.rstrip()) + 1, column)), f"{text} is required here")


def pin_of(document: Document, text: str, tier: Tier, row: int | None = None) -> Iterator[Pin]:
    """The pin that ``text`` spells, if it is a requirement; ``row`` is looked up when it is not known."""
    found = _parsed(text)
    if found is None:
        return
    requirement, only_extra = found
    name, specifiers = canonicalize_name(requirement.name), requirement.specifier
    tier = Tier.EXTRA if only_extra and tier is Tier.RUN_TIME else tier
    shown = f"{name} {specifiers}" if len(specifiers) else name
    place = place_of(document, row or _row_of(document, text), shown)
    yield Pin(name, specifiers, tier, place, requirement.url is not None)


def _row_of(document: Document, text: str) -> int:
    """The row where ``text`` stands first (1 when it is spelled differently)."""
    at = document.text.find(text)
    return document.position(at)[0] if at >= 0 else 1


def lines_of(document: Document) -> Iterator[tuple[int, str]]:
    """The rows that are not blank, stripped."""
    for row in range(1, min(document.rows, _MAX_LINES) + 1):
        line = document.line(row).strip()
        if line:
            yield row, line
