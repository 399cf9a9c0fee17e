"""The requirements that stand in a project's manifests: requirements files, pyproject, setup, conda, Pipfile, locks.

Everything here is text written by people: what is no requirement is passed over, never an error.
"""

from __future__ import annotations

import ast
import configparser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from ..documents import Document
from ..model import Place, Span
from ..parsing import Unparsable
from .toml_manifests import TomlTable, read_toml

__all__ = ["Pin", "Tier", "directory_of", "is_manifest", "pins_in"]


class Tier(IntEnum):
    """How much a requirement says about the versions that the code must run with: the smallest decides."""

    RUN_TIME = 0
    EXTRA = 1
    FIXED = 2
    """One version among those allowed: a lock file, an image."""
    DEVELOPMENT = 3


@dataclass(frozen=True, slots=True)
class Pin:
    """One requirement: the canonical package name, what it allows (possibly everything), and where it stands."""

    name: str
    specifiers: SpecifierSet
    tier: Tier
    place: Place


_Spec: TypeAlias = tuple[str, SpecifierSet]

_DEVELOPMENT_WORDS = frozenset(
    "dev devel development test tests testing doc docs readthedocs lint linting style quality ci build bench benchmark "
    "benchmarks typing typecheck mypy notebooks".split()
)
_DEVELOPMENT_FOLDERS = {"docs", "doc", "test", "tests", "ci", ".ci", ".github", ".circleci", "dev"}
_LOCKS = ("poetry.lock", "uv.lock", "pdm.lock", "pipfile.lock", "requirements.lock", "pylock.toml")
_MAX_LINES = 200_000


def is_manifest(path: str) -> bool:
    """Whether a file's name says that it holds requirements."""
    name = path.rpartition("/")[2].lower()
    return _is_requirements(path.lower()) or _is_conda(name) or _is_image(name) or name in _LOCKS or name in _READERS


def directory_of(path: str) -> str:
    """The folder that a manifest (or any file) speaks for; "" for the root. ``requirements/`` speaks for its parent."""
    folder = path.rpartition("/")[0]
    if folder.rpartition("/")[2].lower() in ("requirements", "requirement", "reqs") and _is_requirements(path.lower()):
        return folder.rpartition("/")[0]
    return folder


def pins_in(document: Document) -> Iterator[Pin]:
    """The requirements of one manifest."""
    path = document.path.lower()
    name = path.rpartition("/")[2]
    if name in _READERS:
        yield from _READERS[name](document)
    elif name in _LOCKS and name != "requirements.lock":
        yield from _locked(document)
    elif _is_requirements(path):
        yield from _requirements(document)
    elif _is_conda(name):
        yield from _conda(document)
    elif _is_image(name):
        yield from _image(document)


def _is_requirements(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    if name == "requirements.lock":
        return True
    in_folder = folder.rpartition("/")[2] in ("requirements", "requirement", "reqs")
    return name.endswith((".txt", ".in")) and ("requirements" in name or name == "reqs.txt" or in_folder)


def _is_conda(name: str) -> bool:
    return name.endswith((".yml", ".yaml")) and (name.startswith(("env", "conda")) or name == "meta.yaml")


def _is_image(name: str) -> bool:
    return name.startswith("dockerfile") or name.endswith(".dockerfile")


def _words(text: str) -> set[str]:
    return set("".join(char if char.isalnum() else " " for char in text.lower()).split())


def _speaks_of_development(text: str) -> bool:
    return not _DEVELOPMENT_WORDS.isdisjoint(_words(text))


# --- one requirement --------------------------------------------------------------------------------------------------


def _parsed(text: str) -> tuple[_Spec, bool] | None:
    """(name and specifiers, whether only an extra asks for it) of a requirement; None when it is none."""
    cleaned = text.split(" #")[0].split(" --")[0].split(" -f ")[0].strip().rstrip(",").rstrip()
    if not cleaned or cleaned[0] in "-#./" or len(cleaned) > 500:
        return None
    for attempt in (cleaned, _modern(cleaned)):
        try:
            found = Requirement(attempt)
        except (InvalidRequirement, RecursionError):
            continue
        only_extra = found.marker is not None and "extra ==" in str(found.marker)
        return (canonicalize_name(found.name), found.specifier), only_extra
    return None


def _modern(text: str) -> str:
    """``torch>=1.7.*`` and ``>=2.4+cu124`` mean what ``>=1.7`` and ``>=2.4`` mean; newer rules refuse them."""
    requirement, mark, marker = text.partition(";")
    return ",".join(_without_tail(part.strip()) for part in requirement.split(",")) + mark + marker


def _without_tail(part: str) -> str:
    return part if "==" in part or "!=" in part else part.partition("+")[0].removesuffix(".*")


def _place(document: Document, row: int, text: str) -> Place:
    line = document.line(row)
    column = len(line) - len(line.lstrip()) + 1
    return Place(document.path, Span(row, column, row, max(len(line.rstrip()) + 1, column)), f"{text} is required here")


def _pin(document: Document, text: str, tier: Tier, row: int | None = None) -> Iterator[Pin]:
    found = _parsed(text)
    if found is None:
        return
    (name, specifiers), only_extra = found
    tier = Tier.EXTRA if only_extra and tier is Tier.RUN_TIME else tier
    shown = f"{name} {specifiers}" if len(specifiers) else name
    yield Pin(name, specifiers, tier, _place(document, row or _row_of(document, text), shown))


def _row_of(document: Document, text: str) -> int:
    """The row where ``text`` stands first (1 when it is spelled differently)."""
    at = document.text.find(text)
    return document.position(at)[0] if at >= 0 else 1


def _lines(document: Document) -> Iterator[tuple[int, str]]:
    for row in range(1, min(document.rows, _MAX_LINES) + 1):
        line = document.line(row).strip()
        if line:
            yield row, line


# --- files ------------------------------------------------------------------------------------------------------------


def _requirements(document: Document) -> Iterator[Pin]:
    *folders, name = document.path.lower().split("/")
    tier = Tier.RUN_TIME
    if _speaks_of_development(name) or not _DEVELOPMENT_FOLDERS.isdisjoint(folders):
        tier = Tier.DEVELOPMENT
    elif name == "requirements.lock" or "constraints" in name:
        tier = Tier.FIXED
    for row, line in _lines(document):
        yield from _pin(document, line.removesuffix("\\").strip(), tier, row)


def _conda(document: Document) -> Iterator[Pin]:
    for row, line in _lines(document):
        if line.startswith("- "):
            text = line[2:].split(" #")[0].strip().strip("\"'").rpartition("::")[2]
            yield from _pin(document, _from_conda(text), Tier.RUN_TIME, row)


def _from_conda(text: str) -> str:
    """``pytorch=1.7.1=py3.7_cuda`` and ``pytorch 1.7.*`` as a requirement; what pip understands stays as it is."""
    name, mark, version = text.partition("=")
    if mark and name and name[-1] not in "<>=!~" and not version.startswith("="):
        return f"{name.strip()}=={version.partition('=')[0].removesuffix('.*').removesuffix('*')}.*"
    if "==" in text:
        head, _, version = text.partition("==")
        return f"{head}=={version.partition('=')[0]}"
    name, _, version = text.partition(" ")
    return f"{name}=={version.strip()}" if version.strip()[:1].isdigit() else text


def _image(document: Document) -> Iterator[Pin]:
    for row, line in _lines(document):
        words = line.split()
        if len(words) < 2 or words[0].lower() != "from":
            continue
        image = next((word for word in words[1:] if not word.startswith("--")), "")
        repository, _, tag = image.partition(":")
        if repository.rpartition("docker.io/")[2] == "pytorch/pytorch" and tag[:1].isdigit():
            yield from _pin(document, f"torch=={tag.partition('-')[0]}", Tier.FIXED, row)


def _locked(document: Document) -> Iterator[Pin]:
    """Lock files are written by programs: a ``name`` line and, near it, a ``version`` line (JSON: ``"torch": {``)."""
    name, name_row = "", 0
    for row, line in _lines(document):
        key, mark, value = line.rstrip(",").partition(":" if document.path.endswith("Pipfile.lock") else "=")
        key, value = key.strip(" \"'"), value.strip(" \"'")
        if mark and key == "name":
            name, name_row = value, row
        elif mark and value == "{":
            name, name_row = key, row
        elif mark and key == "version" and name and row - name_row <= 40:
            yield from _pin(document, f"{name}=={value.removeprefix('==')}", Tier.FIXED, row)
            name = ""


def _setup_cfg(document: Document) -> Iterator[Pin]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(document.text)
    except (configparser.Error, ValueError):
        return
    groups = [(Tier.RUN_TIME, parser.get("options", "install_requires", fallback=""))]
    if parser.has_section("options.extras_require"):
        groups += [(_tier_of_extra(key), text) for key, text in parser.items("options.extras_require")]
    for tier, text in groups:
        for line in text.replace(";", " ;").splitlines():
            yield from _pin(document, line.replace(" ;", ";").strip(), tier)


def _tier_of_extra(name: str) -> Tier:
    return Tier.DEVELOPMENT if _speaks_of_development(name) else Tier.EXTRA


# --- setup.py: read, never run ----------------------------------------------------------------------------------------


def _setup_py(document: Document) -> Iterator[Pin]:
    try:
        tree = document.tree
    except Unparsable:
        return
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (getattr(node.func, "id", "") or getattr(node.func, "attr", "")) == "setup":
            for keyword in node.keywords:
                tier = {"install_requires": Tier.RUN_TIME, "extras_require": Tier.EXTRA}.get(keyword.arg or "")
                if tier is not None:
                    named |= {item.id for item in ast.walk(keyword.value) if isinstance(item, ast.Name)}
                    yield from _literals(document, keyword.value, constants, tier)
    for name, value in constants.items():
        if name not in named and isinstance(value, ast.List | ast.Tuple | ast.Dict):
            tier = Tier.RUN_TIME if name.lower().strip("_") in ("install_requires", "requirements", "required") else Tier.EXTRA
            yield from _literals(document, value, {}, _tier_of_extra(name) if tier is Tier.EXTRA else tier)


def _literals(document: Document, value: ast.expr, constants: Mapping[str, ast.expr], tier: Tier) -> Iterator[Pin]:
    """The requirements in literal lists, through one level of module constants."""
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            extra = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
            yield from _literals(document, item, constants, _tier_of_extra(extra) if tier is Tier.EXTRA else tier)
        return
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _pin(document, node.value, tier, node.lineno)
        elif isinstance(node, ast.Name) and node.id in constants:
            yield from _literals(document, constants[node.id], {}, tier)


# --- TOML -------------------------------------------------------------------------------------------------------------


def _pyproject(document: Document) -> Iterator[Pin]:
    data = read_toml(document.text)
    project = data.table("project")
    yield from _listed(document, project.texts("dependencies"), Tier.RUN_TIME)
    for name, texts in project.table("optional-dependencies").text_lists():
        yield from _listed(document, texts, _tier_of_extra(name))
    for _, texts in data.table("dependency-groups").text_lists():
        yield from _listed(document, texts, Tier.DEVELOPMENT)
    tools = data.table("tool")
    for _, texts in tools.table("pdm").table("dev-dependencies").text_lists():
        yield from _listed(document, texts, Tier.DEVELOPMENT)
    yield from _listed(document, tools.table("uv").texts("dev-dependencies"), Tier.DEVELOPMENT)
    poetry = tools.table("poetry")
    yield from _poetry(document, poetry.table("dependencies"), Tier.RUN_TIME)
    yield from _poetry(document, poetry.table("dev-dependencies"), Tier.DEVELOPMENT)
    for name, group in poetry.table("group").tables():
        tier = Tier.DEVELOPMENT if _speaks_of_development(name) else Tier.EXTRA
        yield from _poetry(document, group.table("dependencies"), tier)


def _pipfile(document: Document) -> Iterator[Pin]:
    data = read_toml(document.text)
    for name, versions in data.table("packages").versions():
        yield from _keyed(document, name, versions, Tier.RUN_TIME, poetry=False)
    for name, versions in data.table("dev-packages").versions():
        yield from _keyed(document, name, versions, Tier.DEVELOPMENT, poetry=False)


def _listed(document: Document, texts: tuple[str, ...], tier: Tier) -> Iterator[Pin]:
    for text in texts:
        yield from _pin(document, text, tier)


def _poetry(document: Document, table: TomlTable, tier: Tier) -> Iterator[Pin]:
    for name, versions in table.versions():
        yield from _keyed(document, name, versions, tier, poetry=True)


def _keyed(document: Document, name: str, versions: tuple[str, ...], tier: Tier, *, poetry: bool) -> Iterator[Pin]:
    """``torch = "^2.1"`` and its like."""
    starts = (f"{name} ", f"{name}=", f'"{name}"', f"'{name}'")
    row = next((row for row, line in _lines(document) if line.startswith(starts)), 1)
    for version in versions:
        for choice in version.split("||"):
            specifiers = _poetry_specifiers(choice.strip()) if poetry else choice.strip()
            try:
                allowed = SpecifierSet("" if specifiers == "*" else specifiers)
            except InvalidSpecifier:
                continue
            shown = f"{canonicalize_name(name)} {version}"
            yield Pin(canonicalize_name(name), allowed, tier, _place(document, row, shown))


def _poetry_specifiers(text: str) -> str:
    """Poetry's ``^``, ``~`` and bare versions in the words of the packaging standard."""
    parts = []
    for part in (item.strip() for item in text.replace(" ", ",").split(",")):
        if part.startswith(("^", "~")) and not part.startswith("~="):
            version = part[1:].partition("+")[0].strip()
            parts.append(f">={version},<{_next(version, caret=part[0] == '^')}")
        elif part[:1].isdigit():
            parts.append(f"=={part}")
        elif part:
            parts.append(_without_tail(part))
    return ",".join(parts)


def _next(version: str, *, caret: bool) -> str:
    numbers = [int(item) for item in version.split(".") if item.isdigit() and len(item) < 9] or [0]
    first = next((at for at, number in enumerate(numbers) if number), 0) if caret else min(1, len(numbers) - 1)
    return ".".join(str(number) for number in [*numbers[:first], numbers[first] + 1])


_READERS = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "setup.py": _setup_py,
    "pipfile": _pipfile,
}
