"""Everything that reads a file of other people, under one roof: what each may raise, and what must hold when it reads.

A reader takes bytes and an empty folder. It returns how it went (``read``, or the name of the documented error); any
other exception, and a broken promise (AssertionError), is a fault. Its seeds are files of this repository.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from precfix.codemod import engine
from precfix.codemod.applying.apply import undo
from precfix.codemod.applying.journal import find_store, latest, old_bytes
from precfix.codemod.engine import Options
from precfix.codemod.formats.opening import open_config, open_within
from precfix.codemod.formats.text import ConfigText, TextEntry
from precfix.codemod.model import EditRefused, PrecfixError, ReplaceText, Rule
from precfix.codemod.outcome import Target
from precfix.codemod.profiles.profile_file import dump
from precfix.codemod.profiles.profile_file import load as load_profile
from precfix.codemod.releases.manifests import pins_in
from precfix.codemod.settings.settings import settings_of
from precfix.codemod.source.discovery import Limits
from precfix.codemod.source.documents import Document, FileKind
from precfix.codemod.source.documents import kind_of as document_kind_of
from precfix.codemod.source.ignoring import read_rules
from precfix.codemod.source.named_files import named_files
from precfix.codemod.source.parsing import Unparsable
from precfix.codemod.source.project import Project
from precfix.codemod.trainers.framework_file import framework_of
from precfix.codemod.trainers.reading.auditing import ledger_of
from precfix.codemod.trainers.reading.configs import config_files
from precfix.transforms import load
from precfix.transforms.frameworks import load_frameworks

from .reader_seeds import EXTRA_SEEDS

REPOSITORY = Path(__file__).resolve().parent.parent
FIXTURES = REPOSITORY / "fixtures"
FORMATS = ("yaml", "json", "toml", "shell", "env", "makefile", "dockerfile", "notebook")
MANIFESTS = (
    *("requirements.txt", "requirements/dev.in", "environment.yml", "setup.py", "setup.cfg", "pyproject.toml"),
    *("Pipfile", "Pipfile.lock", "poetry.lock", "uv.lock", "Dockerfile", "README.md"),
)
MOST_ENTRIES = 25
"""How many entries of one text are edited."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader, and which files of the repository show what it reads."""

    read: Callable[[bytes, Path], object]
    seeds: Callable[[], Sequence[Path]]

    def outcome(self, data: bytes, folder: Path) -> str:
        """``read``, or the documented error; everything else is raised."""
        try:
            self.read(data, folder)
        except PrecfixError as error:
            refused = error
        else:
            return "read"
        assert str(refused)
        return type(refused).__name__


# --- documents --------------------------------------------------------------------------------------------------------


def _document(kind: FileKind, path: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        document = Document(path, kind, data)
        assert document.encode(document.text) == data
        _positions(document)
        try:
            again = document.with_text(document.text + document.newline + "x = 1")
        except EditRefused:
            pass
        else:
            assert again.data != data
            assert again.encode(again.text) == again.data
        if kind is FileKind.NOTEBOOK:
            _notebook(document)
        try:
            assert document.tree is document.tree
        except Unparsable as error:
            refused = error
        else:
            return
        assert 0 <= refused.row <= document.rows + 1
        assert refused.reason

    return read


def _positions(document: Document) -> None:
    rows = range(1, document.rows + 1, max(1, document.rows // 50))
    for row in rows:
        line = document.line(row)
        assert "\n" not in line
        assert document.position(document.offset(row, 1)) == (row, 1)
        assert document.position(document.offset(row, len(line) + 1)) == (row, len(line) + 1)


def _notebook(document: Document) -> None:
    for magic in document.shell_lines:
        assert document.line(magic.row)[magic.column - 1 :] == magic.text
    for row in range(1, document.rows + 1):
        document.cell_of(row)


# --- configuration ----------------------------------------------------------------------------------------------------


def _config(kind: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        text = Document("a.txt", FileKind.TEXT, data).text
        config = open_config(text, kind)
        for entry in config.entries:
            assert 0 <= entry.start <= entry.end <= len(text)
            assert 0 <= entry.key_start <= entry.key_end <= len(text)
            assert entry in config.find(*entry.key)
        for heredoc in config.heredocs:
            assert 0 <= heredoc.start <= heredoc.end <= len(text)
        _edits(text, config, kind)
        for heredoc in config.heredocs[:MOST_ENTRIES]:
            try:
                open_within(text, heredoc.start, heredoc.end, "yaml", literal=heredoc.quoted)
            except PrecfixError:
                continue

    return read


def _edits(text: str, config: ConfigText, kind: str) -> None:
    most = MOST_ENTRIES if len(text) < 5_000 else 2
    for entry in config.entries[:: max(1, len(config.entries) // most)]:
        for edit in _attempts(config, entry):
            assert 0 <= edit.start <= edit.end <= len(text)
            after = text[: edit.start] + edit.text + text[edit.end :]
            assert after != text or not edit.text or edit.text == text[edit.start : edit.end]
            open_config(after, kind)


def _attempts(config: ConfigText, entry: TextEntry) -> Iterator[ReplaceText]:
    attempts: list[Callable[[], ReplaceText]] = [
        lambda: config.set(entry, "bf16"),
        lambda: config.set(entry, True),
        lambda: config.remove(entry),
        lambda: config.insert(entry, "--fp16" if entry.kind == "flag" else "fp16", "on"),
    ]
    for attempt in attempts:
        try:
            yield attempt()
        except EditRefused:
            continue


# --- what belongs to precfix itself -----------------------------------------------------------------------------------


def _profile(data: bytes, folder: Path) -> None:
    path = folder / "profile.json"
    path.write_bytes(data)
    profile = load_profile(path)
    path.write_text(dump(profile), encoding="utf-8")
    assert load_profile(path) == profile


def _framework(data: bytes, folder: Path) -> None:
    framework = framework_of(Document("table.yaml", FileKind.YAML, data).text, "table.yaml")
    assert framework.id


def _settings(data: bytes, folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "pyproject.toml").write_bytes(data)
    with suppress(PrecfixError):
        settings_of(folder)
    (folder / "precfix.toml").write_bytes(data)
    settings_of(folder)


def _journal(data: bytes, folder: Path) -> None:
    entry = folder / ".precfix" / "journal" / "000001"
    entry.mkdir(parents=True)
    (folder / "train.py").write_bytes(b"new")
    (folder.parent / "outside.txt").write_bytes(b"not theirs")
    (entry / "manifest.json").write_bytes(data)
    (entry / "before.bin").write_bytes(b"old")
    store = find_store(folder)
    assert store is not None
    journal = latest(store)
    assert journal is not None
    try:
        old_bytes(journal)
        undo(folder)
    finally:
        assert (folder.parent / "outside.txt").read_bytes() == b"not theirs"


def _ignore(data: bytes, folder: Path) -> None:
    file = folder / ".gitignore"
    file.write_bytes(data)
    for rules in read_rules(str(file), "", "", lambda path, reason: None):
        for path in ("a", "a/b/c.py", ".env", "x" * 200, "a" * 30 + "/" + "a/" * 30 + "b", "\u00e9", "a\nb", "*", "["):
            assert rules.verdict(path, True) in (True, False, None)
            assert rules.verdict(path, False) in (True, False, None)


def _sourced(data: bytes, folder: Path) -> None:
    (folder / "scripts").mkdir()
    (folder / "scripts" / "config.env").write_bytes(b"A=1\n")
    (folder / "train.sh").write_bytes(data)
    (folder / "scripts" / "run.sh").write_bytes(data)
    for path in named_files(str(folder), {"train.sh", "scripts/run.sh"}, []):
        assert (folder / path).resolve().is_relative_to(folder.resolve())


def _pins(data: bytes, folder: Path) -> None:
    for path in MANIFESTS:
        document = Document(path, document_kind_of(path) or FileKind.TEXT, data)
        for pin in pins_in(document):
            assert pin.name
            assert 1 <= pin.place.span.row <= document.rows


# --- whole runs -------------------------------------------------------------------------------------------------------


@cache
def _rules() -> list[Rule]:
    return list(load())


def open_project(folder: Path, target: str | None = None) -> Project:
    """The project in a folder, with all tables."""
    return Project.open([folder], limits=Limits()).with_frameworks(load_frameworks()).with_target(target)


def run_all(folder: Path, target: str | None = None) -> None:
    """Check, migrate and audit a project with everything there is; no rule may fail, what is changed must parse."""
    project = open_project(folder, target)
    report = engine.migrate(project, _rules(), Target(target or "unknown", "a test"), Options(unsafe_fixes=True))
    assert not report.failed_rules, "; ".join(f"{each.path}: {each.reason}" for each in report.failed_rules)
    for change in report.changes:
        kind = document_kind_of(change.path)
        assert kind is not None
        after = Document(change.path, kind, change.after)
        before = Document(change.path, kind, change.before)
        if kind in (FileKind.PYTHON, FileKind.NOTEBOOK) and _parses(before):
            assert _parses(after), change.path
    for _ in config_files(project, ("precision", "16")):
        pass
    ledger_of(project, report.findings)


def _parses(document: Document) -> bool:
    try:
        return bool(document.tree)
    except Unparsable:
        return False


def _project(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        (folder / name).write_bytes(data)
        run_all(folder)
        run_all(folder, "bf16-mixed")

    return read


def bundled(files: Iterable[tuple[str, bytes]]) -> bytes:
    """A whole project as one file: a line with each path, then what is in it."""
    return b"".join(b"=== " + path.encode() + b"\n" + data + b"\n" for path, data in files)


_PART = re.compile(rb"^=== ([\w.-][\w./ -]*)\n", re.MULTILINE)


def unbundled(data: bytes) -> list[tuple[str, bytes]]:
    """The files of a bundle."""
    pieces = _PART.split(data)[1:]
    return [(path.decode(), text.removesuffix(b"\n")) for path, text in zip(pieces[::2], pieces[1::2], strict=True)]


def _bundle(data: bytes, folder: Path) -> None:
    for path, text in unbundled(data):
        target = (folder / path).resolve()
        if target.is_relative_to(folder) and not target.exists() and not any(each.is_file() for each in target.parents):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
    run_all(folder)
    run_all(folder, "portable")


def _bundles() -> list[bytes]:
    trees = sorted(path for path in FIXTURES.rglob("input") if path.is_dir())
    return [
        bundled(
            (path.relative_to(tree).as_posix(), path.read_bytes()) for path in sorted(tree.rglob("*")) if path.is_file()
        )
        for tree in trees
    ]


# --- seeds ------------------------------------------------------------------------------------------------------------


def _globbed(*patterns: str) -> Callable[[], Sequence[Path]]:
    def find() -> Sequence[Path]:
        found = {path for pattern in patterns for path in FIXTURES.glob(pattern) if path.is_file()}
        return sorted(path for path in found if path.stat().st_size < 40_000)

    return find


def _tables() -> Sequence[Path]:
    return sorted((REPOSITORY / "transforms" / "frameworks").glob("*.yaml"))


_SUFFIXES = {"makefile": "**/Makefile", "dockerfile": "**/*ockerfile*", "notebook": "**/*.sh", "shell": "**/*.sh"}
_KINDS = {
    "python": (FileKind.PYTHON, "a.py", "**/*.py"),
    "notebook": (FileKind.NOTEBOOK, "a.ipynb", "**/*.ipynb"),
    "text": (FileKind.TEXT, "a.txt", "**/input/**/*.txt"),
}
_WHOLE = {"python": "train.py", "yaml": "config.yaml", "json": "config.json", "shell": "train.sh", "toml": "a.toml"}

READERS: dict[str, Reader] = {
    **{
        f"document-{name}": Reader(_document(kind, path), _globbed(seeds))
        for name, (kind, path, seeds) in _KINDS.items()
    },
    **{f"format-{kind}": Reader(_config(kind), _globbed(_SUFFIXES.get(kind, f"**/*.{kind}"))) for kind in FORMATS},
    **{
        f"run-{name}": Reader(_project(path), _globbed(f"**/input/**/*.{path.rpartition('.')[2]}"))
        for name, path in _WHOLE.items()
    },
    "run-project": Reader(_bundle, lambda: ()),
    "run-notebook": Reader(_project("train.ipynb"), _globbed("**/*.ipynb")),
    "framework": Reader(_framework, _tables),
    "profile": Reader(_profile, _globbed("profiles/*.json")),
    "settings": Reader(_settings, _globbed("**/pyproject.toml")),
    "journal": Reader(_journal, lambda: ()),
    "ignore": Reader(_ignore, _globbed("**/.gitignore", "**/.gitattributes")),
    "sourced": Reader(_sourced, _globbed("**/*.sh")),
    "pins": Reader(_pins, _globbed("**/*requirements*.txt", "**/setup.*", "**/*.toml", "**/environment*.y*ml")),
}


def seeds_of(name: str) -> list[bytes]:
    """What the fuzzer starts from."""
    if name == "run-project":
        return _bundles()
    return [*EXTRA_SEEDS.get(name, ()), *(path.read_bytes() for path in READERS[name].seeds())]
