"""``[tool.precfix]`` of the project: what a team has agreed on, so that nobody has to repeat it on the command line.

The keys are described in docs/settings.md. A settings file is data of a project that may be hostile: it is bounded, it
names files only in its own folder and below (``extend``: in its repository), and nothing in it is executed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from ..formats.toml_scalars import loads
from ..model import UsageError
from ..source.ignoring import compile_patterns
from ..source.reading import FileRefused, read_regular_file

OWN = "precfix.toml"
FILES = (OWN, "pyproject.toml")
"""Where settings are looked for, in this order, in the project's root and the folders above it."""
TARGETS = ("bf16-mixed", "bf16-true", "fp16-mixed", "fp32", "portable", "auto")
MAX_BYTES = 1_000_000
MAX_ITEMS = 1_000
"""Entries of one list or table."""
MAX_FILES = 100
MAX_EXTENDED = 5
"""How many files one after the other may extend each other."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A gitignore pattern, and the folder it is relative to."""

    folder: Path
    pattern: str


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """What the settings file says; the defaults are those of a project without one.

    Selectors are codes (``PF101``), beginnings of codes (``PF2``) or names of rules; whether such rules exist is not
    known here.
    """

    path: Path | None = None
    """The file they come from."""
    target: str | None = None
    """The regime the project is to run in, as ``--to`` takes it."""
    profile: Path | None = None
    """The machine to train on, as ``precfix probe --save`` wrote it."""
    frameworks: tuple[Path, ...] = ()
    """Tables of the project's own trainers."""
    baseline: Path | None = None
    """Known findings, as ``--write-baseline`` wrote them."""
    select: tuple[str, ...] | None = None
    """The rules to run; None: all."""
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    """Added to ``select``, and to that of the file that is extended."""
    extend_ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[PathPattern, tuple[str, ...]], ...] = ()
    """Files, and the rules that say nothing about them."""
    exclude: tuple[PathPattern, ...] = ()
    """What is not read, beside what git ignores."""
    fixable: tuple[str, ...] | None = None
    """The rules whose fixes may be used; None: all."""
    unfixable: tuple[str, ...] = ()
    unsafe_fixes: bool = False
    """What ``--unsafe-fixes`` would say."""
    extend_safe_fixes: tuple[str, ...] = ()
    """Rules (``PF302``) or single fixes (``PF302=dtype``) whose unsafe fixes count as safe here."""
    extend_unsafe_fixes: tuple[str, ...] = ()
    fix: tuple[tuple[str, str], ...] = ()
    """Rule and the alternative to use, as ``--fix`` takes it."""
    sources: tuple[Path, ...] = field(default=())
    """All files that were read for them: this one, and those it extends."""


def settings_of(root: Path) -> ProjectSettings:
    """The settings that count for a project at ``root``: the nearest file that has some.

    Raises UsageError for a file that cannot be understood, an unknown key or a wrong value.
    """
    for folder in (root, *root.parents):
        found = settings_in(folder)
        if found is not None:
            return found
        if os.path.lexists(folder / ".git"):
            break
    return ProjectSettings()


def settings_in(folder: Path) -> ProjectSettings | None:
    """The settings that stand in ``folder`` itself; None when there are none. Raises UsageError as `settings_of`."""
    for name in FILES:
        path = folder / name
        table = _table(path)
        if table is not None:
            return _settings(path, table, ())
    return None


def _table(path: Path) -> Mapping[str, object] | None:
    """The precfix part of a file; None when there is no such file or part."""
    text = _text(path)
    if text is None:
        return None
    try:
        whole = loads(text)
    except (RecursionError, ValueError) as error:
        if path.name != "pyproject.toml" or "[tool.precfix" in text:
            raise UsageError(f"{path}: not TOML: {error}") from error
        return None
    if path.name != "pyproject.toml":
        return whole
    tool = whole.get("tool")
    table = tool.get("precfix") if isinstance(tool, dict) else None
    if table is None or isinstance(table, dict):
        return table
    raise UsageError(f"{path}: [tool.precfix] must be a table")


def _text(path: Path) -> str | None:
    """What a file says; None when there is none, or nothing about precfix in one that others write, too."""
    try:
        if not path.is_file():
            return None
    except (OSError, ValueError):
        return None
    shared = path.name == "pyproject.toml"
    try:
        data = read_regular_file(str(path), MAX_BYTES)
        return data.decode("utf-8-sig") if not shared or b"precfix" in data else None
    except (FileRefused, OSError, UnicodeDecodeError) as error:
        if shared and isinstance(error, FileRefused):
            return None  # a link, or too large: other tools' business
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: cannot be read: {reason}") from error


def _settings(path: Path, table: Mapping[str, object], extending: tuple[Path, ...]) -> ProjectSettings:
    for name in table:
        if name not in KNOWN:
            raise UsageError(f"{path}: unknown setting {_said(name)}; {_known_instead(path, name, table)}")
    base = _extended(path, table, extending)
    values: dict[str, object] = {}
    for name, value in table.items():
        if name == "extend":
            continue
        attribute = name.replace("-", "_")
        read = READERS[name](path, name, value)
        values[attribute] = (*getattr(base, attribute), *read) if name in ADDED and isinstance(read, tuple) else read
    sources = (path, *base.sources)
    return replace(base, **values, path=path, sources=sources)  # type: ignore[arg-type]  # each reader gives its field


def _known_instead(path: Path, name: str, table: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    inner = table[name]
    if isinstance(inner, dict) and not set(KNOWN).isdisjoint(inner):
        return "its keys go one level up"  # [tool.precfix.lint]
    if name == "tool" and path.name != "pyproject.toml":
        return "here the keys are at the top level, without [tool.precfix]"
    close = get_close_matches(name[:40].replace("_", "-").lower(), KNOWN, 1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(KNOWN)}"


def _extended(path: Path, table: Mapping[str, object], extending: tuple[Path, ...]) -> ProjectSettings:
    """The settings of the file that ``extend`` names; defaults without one."""
    name = table.get("extend")
    if name is None:
        return ProjectSettings()
    other = _file(path, "extend", name, within=_repository_of(path.parent))
    chain = (*extending, path.resolve())
    if other in chain or len(chain) > MAX_EXTENDED:
        raise UsageError(f"{path}: circular extend, or one through more than {MAX_EXTENDED} files")
    found = _table(other)
    if found is None:
        lack = "has no settings of precfix" if other.is_file() else "is not a file"
        raise UsageError(f"{path}: extend names {_said(name)}, which {lack}")
    return _settings(other, found, chain)


def _repository_of(folder: Path) -> Path:
    real = folder.resolve()
    return next((each for each in (real, *real.parents) if os.path.lexists(each / ".git")), real)


def _file(path: Path, key: str, name: object, within: Path | None = None) -> Path:
    """A file that a settings file names; it lies in the same folder or below, or ``within`` the given one."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"{path}: {key} must be a file name")
    folder = path.parent.resolve()
    try:
        found = (folder / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a NUL character
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{path}: {key} names {_said(name)}, which is not a file: {reason}") from error
    home = within or folder
    if not found.is_relative_to(home):
        raise UsageError(f"{path}: {key} names {_said(name)}, which leads out of {home}")
    return found


def _files(path: Path, key: str, value: object) -> tuple[Path, ...]:
    if isinstance(value, list) and len(value) > MAX_FILES:
        raise UsageError(f"{path}: {key} has more than {MAX_FILES} entries")
    return tuple(_file(path, key, name) for name in _texts(path, key, value, "file names"))


def _texts(path: Path, key: str, value: object, what: str = "texts") -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{path}: {key} must be a list of {what}")
    if len(value) > MAX_ITEMS:
        raise UsageError(f"{path}: {key} has more than {MAX_ITEMS} entries")
    return tuple(value)


def _selectors(path: Path, key: str, value: object) -> tuple[str, ...]:
    found = _texts(path, key, value, "rules, such as PF101 or PF2")
    if any(not each.strip() for each in found):
        raise UsageError(f"{path}: {key} holds an empty string, which would mean every rule")
    return tuple(each.strip() for each in found)


def _patterns(path: Path, key: str, value: object) -> tuple[PathPattern, ...]:
    return tuple(_pattern(path, key, each) for each in _texts(path, key, value, "gitignore patterns"))


def _pattern(path: Path, key: str, text: str) -> PathPattern:
    """A pattern that can match something: what git passes over in silence is a mistake in settings."""
    if text.startswith(("./", "../", "/../")) or not compile_patterns([text], lambda path, reason: None):
        raise UsageError(f"{path}: {key} holds {_said(text)}, which matches no file of {str(path.parent)!r}")
    return PathPattern(path.parent, text)


def _per_file(path: Path, key: str, value: object) -> tuple[tuple[PathPattern, tuple[str, ...]], ...]:
    if not isinstance(value, dict) or len(value) > MAX_ITEMS:
        raise UsageError(f'{path}: {key} must be a table, such as {{"tests/**" = ["PF101"]}}')
    if negated := [pattern for pattern in value if pattern.startswith("!")]:
        raise UsageError(f"{path}: {key} names files by what they match, not by {_said(negated[0])}")
    return tuple(
        (_pattern(path, key, pattern), _selectors(path, f"{key}: {_said(pattern)}", codes))
        for pattern, codes in value.items()
    )


def _chosen(path: Path, key: str, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
        raise UsageError(f'{path}: {key} must be a table of rules and fixes, such as {{PF101 = "disable"}}')
    return tuple(value.items())


def _flag(path: Path, key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{path}: {key} must be true or false")
    return value


def _target(path: Path, key: str, value: object) -> str:
    if value not in TARGETS:
        raise UsageError(f"{path}: {key} is {_said(value)}; {instead_of(str(value)[:40], TARGETS)}")
    return str(value)


def instead_of(text: str, words: Sequence[str]) -> str:
    """What to write for a word that is not one of ``words``."""
    from difflib import get_close_matches

    close = [word for word in words if text and word.startswith(text)] or get_close_matches(text, words, 1)
    return f"did you mean {' or '.join(close)}?" if close else f"it must be one of {', '.join(words)}"


def _said(value: object) -> str:
    """A value of a settings file for a message of one line."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


SettingReader = Callable[[Path, str, object], object]
READERS: dict[str, SettingReader] = {
    "extend": _file,
    "target": _target,
    "profile": _file,
    "frameworks": _files,
    "baseline": _file,
    "select": _selectors,
    "ignore": _selectors,
    "extend-select": _selectors,
    "extend-ignore": _selectors,
    "per-file-ignores": _per_file,
    "exclude": _patterns,
    "fixable": _selectors,
    "unfixable": _selectors,
    "unsafe-fixes": _flag,
    "extend-safe-fixes": _selectors,
    "extend-unsafe-fixes": _selectors,
    "fix": _chosen,
}
KNOWN = tuple(READERS)
"""The keys, in the order of docs/settings.md."""
ADDED = frozenset({"extend-select", "extend-ignore", "per-file-ignores", "exclude", "frameworks"})
"""Keys that add to those of the file that is extended; the others replace them."""
assert {field.name.replace("_", "-") for field in fields(ProjectSettings)} - {"path", "sources"} == set(KNOWN) - {
    "extend"
}
