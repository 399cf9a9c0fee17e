"""Which rows of a project have changed since a commit (``--diff-base``), as a pull request shows them.

The commit compared with is the merge base of the given revision and ``HEAD``, so what the other branch did meanwhile
does not count. Rows are those of the files on the disk, committed or not. git is only asked for names and blobs (see
`worktree`); the comparison is made here, since ``git diff`` would run filters and drivers that a repository names.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

from ..applying.worktree import git_executable, repository_of, run_git
from ..model import Finding, Span, UsageError
from ..report.matching import changed_blocks
from ..source.documents import Document, Unreadable
from ..source.project import Project

MAX_REVISION = 200
MAX_BYTES = 50_000_000
"""A larger file of the commit is not compared: all of the present one counts as changed."""


class ChangedLines:
    """The rows that differ from a commit, file by file, worked out when asked for."""

    def __init__(self, git: str, top: Path, root: Path, base: str) -> None:
        """Use `changed_since`."""
        self._git = git
        self._top = top
        self._root = root
        self._base = base
        self._old: dict[str, bytes | None] = {}
        self._bases: dict[Path, str | None] = {top: base}
        self._renamed: dict[Path, dict[str, str]] = {}
        self._on_disk: dict[str, frozenset[int] | None] = {}
        self._rows: dict[tuple[str, bytes], frozenset[int] | None] = {}

    def touches(self, project: Project, finding: Finding) -> bool:
        """Whether a changed row belongs to the finding: to its own span, or to a place that is evidence for it."""
        places = [(finding.path, finding.span), *((place.path, place.span) for place in finding.evidence)]
        return any(self._changed(project, path, span) for path, span in places)

    def _changed(self, project: Project, path: str, span: Span) -> bool:
        rows = self.rows(project, path)
        last = max(span.row, span.end_row - 1 if span.end_column == 1 else span.end_row)
        return rows is None or any(row in rows for row in range(span.row, min(last, span.row + 10_000) + 1))

    def rows(self, project: Project, path: str) -> frozenset[int] | None:
        """The rows of a file that are new or changed; None for a file that the commit does not have: all of it.

        A row beside which lines were taken away counts as changed. Rows that only a fix of this run has changed do
        not: they are told as the rows on the disk that they come from.
        """
        document, on_disk = project.document(path), project.unchanged_document(path)
        if document is None or on_disk is None:
            return frozenset()
        if path not in self._on_disk:
            self._on_disk[path] = self._compared(on_disk)
        rows = self._on_disk[path]
        if not rows or document.data == on_disk.data:
            return rows
        key = (path, document.data)
        if key not in self._rows:
            self._rows[key] = carried_over(rows, on_disk, document)
        return self._rows[key]

    def _compared(self, document: Document) -> frozenset[int] | None:
        old = self._old_bytes(document.path)
        if old is None:
            return None
        if old == document.data:
            return frozenset()
        try:
            before = Document(document.path, document.kind, old)
        except Unreadable:
            return None
        blocks = changed_blocks(_lines(before), _lines(document))
        return frozenset(row for _, _, low, high in blocks for row in _rows_of(low, high))

    def _old_bytes(self, path: str) -> bytes | None:
        """What the commit has under this name, or under the name that the file had before; None for nothing."""
        top = repository_of(self._root / path) or self._top
        base = self._base_in(top)
        if base is None:
            return None
        inside = (self._root / path).relative_to(top).as_posix()
        found = self._blob(top, base, inside)
        if found is None and (former := self._former_name(top, base, inside)) is not None:
            found = self._blob(top, base, former)
        return found

    def _base_in(self, top: Path) -> str | None:
        """The commit to compare with in a repository: in a submodule the one that the outer commit names."""
        if top not in self._bases:
            self._bases[top] = None
            outer = repository_of(top)
            base = self._base_in(outer) if outer is not None and top.is_relative_to(self._top) else None
            if outer is not None and base is not None:
                kind, name = self._entry(outer, base, top.relative_to(outer).as_posix())
                known = kind == b"commit" and self._ask(top, "cat-file", "-e", name + "^{commit}") is not None
                self._bases[top] = name if known else None
        return self._bases[top]

    def _entry(self, top: Path, base: str, name: str) -> tuple[bytes, str]:
        """Kind and id of what a commit has under a name; a link counts as nothing."""
        head, tab, _ = self._read(top, "ls-tree", "-z", base, "--", name).partition(b"\t")
        words = head.split()
        if not tab or len(words) != 3 or words[0] == b"120000":
            return b"", ""
        return words[1], words[2].decode("ascii")

    def _blob(self, top: Path, base: str, name: str) -> bytes | None:
        kind, blob = self._entry(top, base, name)
        if kind != b"blob":
            return None
        size = self._read(top, "cat-file", "-s", blob)
        return self._read(top, "cat-file", "blob", blob) if int(size) <= MAX_BYTES else None

    def _former_name(self, top: Path, base: str, name: str) -> str | None:
        """What a file was called that has been renamed since, as far as git's index knows."""
        if top not in self._renamed:
            command = ("diff-index", "--cached", "-r", "-z", "-M", "--diff-filter=R", "--name-status", "--no-ext-diff")
            listed = self._ask(top, *command, "--no-textconv", "--ignore-submodules=all", base) or b""
            self._renamed[top] = dict(_renames(listed.split(b"\0")))
        return self._renamed[top].get(name)

    def _read(self, top: Path, *arguments: str) -> bytes:
        """What git answers; raises UsageError when it cannot: for an object that is not here."""
        answer = self._ask(top, *arguments)
        if answer is None:
            raise UsageError(
                f"--diff-base: git cannot read commit {self._base[:12]} of {str(top)!r} whole; fetch it again, "
                "without --filter"
            )
        return answer

    def _ask(self, top: Path, *arguments: str) -> bytes | None:
        """What git answers; None when it fails."""
        try:
            return run_git(self._git, top, arguments)
        except UsageError:
            return None


def _renames(fields: Sequence[bytes]) -> Iterator[tuple[str, str]]:
    """New and old name of each ``R100 NUL old NUL new NUL``."""
    for at in range(0, len(fields) - 2, 3):
        yield fields[at + 2].decode("utf-8", "surrogateescape"), fields[at + 1].decode("utf-8", "surrogateescape")


def _rows_of(low: int, high: int) -> Iterable[int]:
    """1-based rows of the block; where lines were only taken away, the rows on both sides."""
    return range(low + 1, high + 1) if high > low else (low, low + 1)


def carried_over(rows: Container[int], before: Document, after: Document) -> frozenset[int]:
    """Where ``rows`` of one text are in another: an edited block counts if any row of it, or beside it, did."""
    return frozenset(_carried_over(rows, _lines(before), _lines(after)))


def _carried_over(rows: Container[int], before: list[str], after: list[str]) -> Iterator[int]:
    blocks = [*changed_blocks(before, after), (len(before), len(before), len(after), len(after))]
    same = shift = 0
    for low, high, new_low, new_high in blocks:
        yield from (row + shift for row in range(same + 1, low + 1) if row in rows)
        if any(row in rows for row in _rows_of(low, high)):
            yield from range(new_low + 1, new_high + 1)
        same, shift = high, new_high - high


def _lines(document: Document) -> list[str]:
    return [document.line(row) for row in range(1, document.rows + 1)]


def changed_since(root: Path, revision: str) -> ChangedLines:
    """The rows that changed in the project at ``root`` since it left ``revision``.

    Raises UsageError when the project is in no git repository, git cannot be run, or the revision is not known.
    """
    home = root.resolve()
    if not revision or revision.startswith("-") or len(revision) > MAX_REVISION or "\0" in revision:
        raise UsageError(f"--diff-base {revision!r}: write a commit, a branch or a tag")
    git = git_executable(home)
    if git is None:
        raise UsageError("--diff-base needs git, which cannot be found")
    top = repository_of(home / "x")
    if top is None:
        raise UsageError(f"--diff-base: {str(root)!r} is in no git repository")
    commit = _answer(git, top, "rev-parse", "-q", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    if not commit:
        raise UsageError(
            f"--diff-base {revision!r}: git does not know this commit here (a shallow clone needs its history)"
        )
    base = _answer(git, top, "merge-base", commit, "HEAD")
    if not base:
        raise UsageError(
            f"--diff-base {revision!r} and HEAD have no common commit here; fetch the history (fetch-depth: 0)"
        )
    return ChangedLines(git, top, home, base)


def _answer(git: str, top: Path, *arguments: str) -> str:
    """The one word that git answers; empty for a no. Raises UsageError when git cannot read the repository."""
    try:
        words = run_git(git, top, arguments, (0, 1, 128)).decode("ascii", "replace").split()
    except UsageError as error:
        raise UsageError(f"--diff-base: git cannot be queried about {str(top)!r}") from error
    return words[0] if len(words) == 1 else ""  # a range is several
