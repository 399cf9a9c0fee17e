"""A project as rules see it: its documents, read when asked for, and facts computed once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import EditRefused, UsageError
from ..outcome import Skipped
from ..profiles.profile import Profile
from ..trainers.framework import Framework
from .discovery import Discovery, LeaveOut, Limits, discover
from .documents import Document, FileKind, kind_of
from .files import Files
from .looks import Looks
from .module_paths import ModulePaths, added_folders
from .question import FileQuestion
from .store import FileStore
from .word_search import PRECISION_WORDS

if TYPE_CHECKING:
    from ..observed.observation import Observation

__all__ = ["PRECISION_WORDS", "Limits", "Project", "Terms"]


@dataclass(frozen=True, slots=True)
class Terms:
    """What is given with a project, beside its files. Who changes one of these asks the rules anew."""

    profile: Profile | None = None
    target: str | None = None
    frameworks: tuple[Framework, ...] = ()
    observation: Observation | None = None


class Project(Files):
    """The files below ``root``. Nothing is read before it is asked for; nothing in it is ever executed."""

    def __init__(
        self, store: FileStore, replaced: Mapping[str, Document] | None = None, terms: Terms | None = None
    ) -> None:
        """Use `Project.open`."""
        super().__init__(Looks())
        self._store = store
        self.discovery: Discovery = store.discovery
        self._terms = terms or Terms()
        self._replaced = dict(replaced or {})
        self._checked: frozenset[str] | None = None
        self._own_skips: dict[tuple[str, str], Skipped] = {}
        self._parsed: set[str] = set()

    @classmethod
    def open(
        cls,
        paths: Sequence[Path],
        *,
        excludes: Iterable[str] = (),
        limits: Limits | None = None,
        profile: Profile | None = None,
        leave_out: LeaveOut | None = None,
        given: Mapping[str, bytes] | None = None,
        unasked: Iterable[str] = (),
    ) -> Project:
        """Discover the files of ``paths``: the root is the directory given, or what several paths have in common.

        ``excludes`` are gitignore patterns relative to the root, ``leave_out`` is asked for each path besides; files
        that are named are read in any case. ``given``: what some files hold, whatever is on the disk; ``unasked``:
        files that trainers read by themselves. Raises `UsageError` for a path that does not exist or cannot be read.
        """
        limits = limits or Limits()
        found = discover(paths, excludes, limits, leave_out, unasked)
        found.paths.update(given or {})
        return cls(FileStore(found, limits, given), terms=Terms(profile=profile))

    @classmethod
    def of_data(cls, root: Path, name: str, data: bytes) -> Project:
        """A project of the single file ``name`` below ``root``, with ``data`` in place of what is on the disk.

        Raises `UsageError` for a name that is none of a file that precfix reads.
        """
        if kind_of(name) is None:
            raise UsageError(f"{name!r} is not a kind of file that precfix reads")
        return cls(FileStore(Discovery(root, {name}), Limits(), {name: data}))

    @property
    def profile(self) -> Profile | None:
        """What is known of the machine the project runs on; None: nothing."""
        return self._terms.profile

    @property
    def target(self) -> str | None:
        """The regime that was asked for (``migrate --to``, settings); None: the one the project itself declares."""
        return self._terms.target

    @property
    def observation(self) -> Observation | None:
        """What a rehearsal of this project saw; None: nothing, or its texts have been changed since."""
        return None if self._replaced else self._terms.observation

    @property
    def frameworks(self) -> tuple[Framework, ...]:
        """The trainers whose spelling of precision is known here."""
        return self._terms.frameworks

    @property
    def root(self) -> Path:
        """The absolute directory that all paths are relative to."""
        return self._store.root

    @property
    def paths(self) -> tuple[str, ...]:
        """Everything that was discovered, sorted."""
        return self._store.paths

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Every file (or notebook cell) left out so far and why, sorted by path."""
        return tuple(sorted({**self._store.skipped, **self._own_skips}.values(), key=lambda skip: skip.path))

    @property
    def is_read(self) -> bool:
        """Whether every file that was opened could be read."""
        return len(self._store.skipped) == len(self.discovery.skipped)

    @property
    def left_out(self) -> tuple[Skipped, ...]:
        """What was passed over on purpose when the project was opened, sorted by path."""
        return tuple(Skipped(path, reason) for path, reason in sorted(self.discovery.left_out.items()))

    def python_path(self, module: str, importer: str = "") -> str | None:
        """The file of an absolute module name (``pkg.sub.mod``), if this project has exactly one candidate for it.

        Tried in order: beside the file ``importer`` where that is a script, below the root, below ``src/``, below the
        folders around ``importer``, below any one directory that is no package, in what it adds to ``sys.path``.
        """
        paths = self.fact(_module_paths)
        found = paths.find(module, importer)
        return found or (paths.find_in(self.memo(added_folders, importer), module) if importer else None)

    @property
    def parsed(self) -> frozenset[str]:
        """The Python documents that rules have asked for so far."""
        return frozenset(self._parsed)

    def with_texts(self, texts: Mapping[str, str]) -> Project:
        """This project with the text of some documents replaced, in memory only; the others are shared.

        Raises `EditRefused` when a text cannot be encoded.
        """
        replaced = dict(self._replaced)
        for path, text in texts.items():
            document = self.document(path)
            if document is None:
                raise EditRefused(f"{path} is not a readable file of this project")
            replaced[path] = document.with_text(text)
        return self._like(replaced=replaced)

    def with_profile(self, profile: Profile | None) -> Project:
        """This project on the machine that ``profile`` describes. Documents are shared, facts are computed anew."""
        return self._like(terms=replace(self._terms, profile=profile))

    def with_observation(self, observation: Observation | None) -> Project:
        """This project as it was when ``observation`` was made. Documents and, for the same one, facts are shared."""
        if observation is self._terms.observation:
            return self
        return self._like(terms=replace(self._terms, observation=observation))

    def with_target(self, regime: str | None) -> Project:
        """This project on its way to ``regime``. Documents are shared; facts too, where nothing changes."""
        if regime == self.target:
            return self
        return self._like(terms=replace(self._terms, target=regime))

    def with_frameworks(self, frameworks: Iterable[Framework]) -> Project:
        """This project read with these trainers in mind. Documents are shared, facts are computed anew."""
        return self._like(terms=replace(self._terms, frameworks=tuple(frameworks)))

    def without(self, paths: Iterable[str]) -> Project:
        """This project less some files, which are then not read by anybody."""
        return self.only(frozenset(self.paths).difference(paths))

    def only(self, paths: Collection[str]) -> Project:
        """This project, of which some files are read by anybody."""
        kept = {path: document for path, document in self._replaced.items() if path in paths}
        return self._like(self._store.of(frozenset(paths)), kept)

    def note(self, skipped: Iterable[Skipped], parsed: Iterable[str]) -> None:
        """Add what another process left out and parsed."""
        self._parsed |= {*parsed}
        for skip in skipped:
            self.record_skip(skip.path, skip.reason)

    def use_answers(self, recall: Callable[[FileQuestion], Collection[str] | None]) -> None:
        """Ask this for the files that hold some words before any file is read."""
        self._store.recall = recall

    def size_of(self, path: str) -> int:
        """Bytes; 0 where nobody can say."""
        return len(self._replaced[path].data) if path in self._replaced else self._store.size_of(path)

    def checking(self, paths: Iterable[str] | None) -> Project:
        """This project, with mistakes looked for in some files only; None: in all. Documents and facts are shared."""
        whole = self._whole
        if paths is None:
            return whole
        other = Project(whole._store, whole._replaced, whole._terms)
        other._checked, other._whole = frozenset(paths), whole
        other._facts, other._own_skips, other._parsed = whole._facts, whole._own_skips, whole._parsed
        other.looks = whole.looks
        return other

    def _like(
        self,
        store: FileStore | None = None,
        replaced: Mapping[str, Document] | None = None,
        terms: Terms | None = None,
    ) -> Project:
        """A project that differs in this, with the same files checked."""
        whole = Project(store or self._store, self._replaced if replaced is None else replaced, terms or self._terms)
        return whole.checking(self.checked_files)

    @property
    def replaced_paths(self) -> tuple[str, ...]:
        """The files whose text differs from the disk."""
        return tuple(sorted(self._replaced))


def _module_paths(project: Project) -> ModulePaths:
    return ModulePaths([path for path in project.paths if kind_of(path) is FileKind.PYTHON])
