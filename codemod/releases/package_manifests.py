"""The requirements in the files that describe a package: setup.py, setup.cfg, pyproject.toml, Pipfile."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from ..formats.toml_scalars import loads
from ..python.scopes import string_of
from ..source.documents import Document
from ..source.parsing import Unparsable
from .requirements import Pin, Tier, lines_of, pin_of, place_of, speaks_of_development, tier_of_extra, without_tail

_RUN_TIME_NAMES = ("install_requires", "requirements", "required")


def pins_of_setup_cfg(document: Document) -> Iterator[Pin]:
    import configparser

    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(document.text)
    except (configparser.Error, ValueError):
        return
    groups = [(Tier.RUN_TIME, parser.get("options", "install_requires", fallback=""))]
    groups.append((Tier.RUN_TIME, f"python {parser.get('options', 'python_requires', fallback='')}"))
    if parser.has_section("options.extras_require"):
        groups += [(tier_of_extra(key), text) for key, text in parser.items("options.extras_require")]
    for tier, text in groups:
        for line in text.replace(";", " ;").splitlines():
            yield from pin_of(document, line.replace(" ;", ";").strip(), tier)


# --- setup.py: read, never run ----------------------------------------------------------------------------------------


def pins_of_setup_py(document: Document) -> Iterator[Pin]:
    """The pins in the literal lists of a ``setup.py``."""
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
                if keyword.arg == "python_requires" and isinstance(keyword.value, ast.Constant):
                    yield from pin_of(document, f"python {keyword.value.value!s}", Tier.RUN_TIME, keyword.value.lineno)
    for name, value in constants.items():
        if name not in named and isinstance(value, ast.List | ast.Tuple | ast.Dict):
            tier = Tier.RUN_TIME if name.lower().strip("_") in _RUN_TIME_NAMES else tier_of_extra(name)
            yield from _literals(document, value, {}, tier)


def _literals(document: Document, value: ast.expr, constants: Mapping[str, ast.expr], tier: Tier) -> Iterator[Pin]:
    """The requirements in literal lists, through one level of module constants."""
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            extra = string_of(key) or ""
            yield from _literals(document, item, constants, tier_of_extra(extra) if tier is Tier.EXTRA else tier)
        return
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from pin_of(document, node.value, tier, node.lineno)
        elif isinstance(node, ast.Name) and node.id in constants:
            yield from _literals(document, constants[node.id], {}, tier)


def pins_of_pyproject(document: Document) -> Iterator[Pin]:
    """The pins of a ``pyproject.toml``: the standard tables, PDM's, uv's, Poetry's."""
    data = read_toml(document.text)
    project = data.table("project")
    python = project.values.get("requires-python")
    yield from _listed(document, (f"python {python}",) if isinstance(python, str) else (), Tier.RUN_TIME, "project")
    yield from _listed(document, project.texts("dependencies"), Tier.RUN_TIME, "project")
    for name, texts in project.table("optional-dependencies").text_lists():
        yield from _listed(document, texts, tier_of_extra(name), "project")
    for _, texts in data.table("dependency-groups").text_lists():
        yield from _listed(document, texts, Tier.DEVELOPMENT, "dependency-groups")
    tools = data.table("tool")
    for _, texts in tools.table("pdm").table("dev-dependencies").text_lists():
        yield from _listed(document, texts, Tier.DEVELOPMENT, "tool.pdm")
    yield from _listed(document, tools.table("uv").texts("dev-dependencies"), Tier.DEVELOPMENT, "tool.uv")
    poetry = tools.table("poetry")
    yield from _poetry(document, poetry.table("dependencies"), Tier.RUN_TIME)
    yield from _poetry(document, poetry.table("dev-dependencies"), Tier.DEVELOPMENT)
    for name, group in poetry.table("group").tables():
        tier = Tier.DEVELOPMENT if speaks_of_development(name) else Tier.EXTRA
        yield from _poetry(document, group.table("dependencies"), tier)


def pins_of_pipfile(document: Document) -> Iterator[Pin]:
    data = read_toml(document.text)
    for name, versions in data.table("packages").versions():
        yield from _keyed(document, name, versions, Tier.RUN_TIME, poetry=False)
    for name, versions in data.table("dev-packages").versions():
        yield from _keyed(document, name, versions, Tier.DEVELOPMENT, poetry=False)


def _listed(document: Document, texts: tuple[str, ...], tier: Tier, table: str) -> Iterator[Pin]:
    """The requirements of a list; `[build-system]` may spell the same ones, which only a build is given."""
    start = document.text.find(f"[{table}")
    for text in texts:
        quoted = (document.text.find(f"{mark}{text}{mark}", max(start, 0)) for mark in "\"'")
        at = min((each for each in quoted if each >= 0), default=-1)
        yield from pin_of(document, text, tier, document.position(at)[0] if at >= 0 else None)


def _poetry(document: Document, table: TomlTable, tier: Tier) -> Iterator[Pin]:
    for name, versions in table.versions():
        yield from _keyed(document, name, versions, tier, poetry=True)


def _keyed(document: Document, name: str, versions: tuple[str, ...], tier: Tier, *, poetry: bool) -> Iterator[Pin]:
    """``torch = "^2.1"`` and its like."""
    starts = (f"{name} ", f"{name}=", f'"{name}"', f"'{name}'")
    row = next((row for row, line in lines_of(document) if line.startswith(starts)), 1)
    for version in versions:
        for choice in version.split("||"):
            specifiers = _poetry_specifiers(choice.strip()) if poetry else choice.strip()
            try:
                allowed = SpecifierSet("" if specifiers == "*" else specifiers)
            except InvalidSpecifier:
                continue
            shown = f"{canonicalize_name(name)} {version}"
            yield Pin(canonicalize_name(name), allowed, tier, place_of(document, row, shown))


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
            parts.append(without_tail(part))
    return ",".join(parts)


def _next(version: str, *, caret: bool) -> str:
    numbers = [int(item) for item in version.split(".") if item.isdigit() and len(item) < 9] or [0]
    first = next((at for at, number in enumerate(numbers) if number), 0) if caret else min(1, len(numbers) - 1)
    return ".".join(str(number) for number in [*numbers[:first], numbers[first] + 1])


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A table of which nothing is known: every question has an answer, an empty one when the shape is different."""

    values: Mapping[str, object]

    def table(self, key: str) -> TomlTable:
        return _table(self.values.get(key))

    def tables(self) -> Iterator[tuple[str, TomlTable]]:
        """All entries that are tables."""
        yield from ((key, _table(value)) for key, value in self.values.items() if isinstance(value, Mapping))

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts in the array under ``key``."""
        return _texts(self.values.get(key))

    def text_lists(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """All entries that are arrays, with the texts in them."""
        yield from ((key, _texts(value)) for key, value in self.values.items() if isinstance(value, list))

    def versions(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Package name -> the versions asked for: ``"^2"``, ``{version = "^2"}`` or an array of such."""
        for key, value in self.values.items():
            choices = value if isinstance(value, list) else [value]
            texts = [item.get("version") if isinstance(item, Mapping) else item for item in choices]
            yield key, tuple(str(text) for text in texts if isinstance(text, str))


def read_toml(text: str) -> TomlTable:
    """The root table of a TOML text; an empty one when the text is no TOML."""
    try:
        return _table(loads(text))
    except (ValueError, RecursionError):
        return TomlTable({})


def _table(value: object) -> TomlTable:
    return TomlTable({str(key): item for key, item in value.items()} if isinstance(value, Mapping) else {})


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
