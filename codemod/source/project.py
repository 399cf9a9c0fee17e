"""A project as rules see it: its documents, read when asked for, and facts computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from ..model import EditRefused, UsageError
from ..outcome import Skipped
from ..profiles.profile import Profile
from ..trainers.framework import Framework
from .discovery import Discovery, LeaveOut, Limits, discover
from .documents import Document, FileKind, kind_of
from .module_paths import ModulePaths, added_folders
from .parsing import Unparsable
from .question import Question
from .store import FileStore
from .terms import Terms
from .word_search import PRECISION_WORDS

if TYPE_CHECKING:
    from ..observed.observation import Observation

__all__ = ["PRECISION_WORDS", "Limits", "Project", "Terms"]

PYTHON_KINDS = (FileKind.PYTHON, FileKind.NOTEBOOK)
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Project:
    """The files below ``root``. Nothing is read before it is asked for; nothing in it is ever executed."""

    def __init__(
        self, store: FileStore, replaced: Mapping[str, Document] | None = None, terms: Terms | None = None
    ) -> None:
        """Use `Project.open`."""
        self._store = store
        self.discovery: Discovery = store.discovery
        self._terms = terms or Terms()
        self._replaced = dict(replaced or {})
        self._checked: frozenset[str] | None = None
        self._whole = self
        self._facts: dict[object, object] = {}
        self._checked_facts: dict[object, object] = {}
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
    def left_out(self) -> tuple[Skipped, ...]:
        """What was passed over on purpose when the project was opened, sorted by path."""
        return tuple(Skipped(path, reason) for path, reason in sorted(self.discovery.left_out.items()))

    # --- documents ----------------------------------------------------------------------------------------------------

    def document(self, path: str) -> Document | None:
        """The document at ``path``; None (and recorded in ``skipped``) when it cannot be read or is no project file."""
        return self._replaced.get(path) or self.unchanged_document(path)

    def unchanged_document(self, path: str) -> Document | None:
        """The document at ``path`` as it is on the disk, whatever texts have been replaced since."""
        document = self._store.document(path)
        return self._store.keep(document) if document is not None else None

    def documents(self, kind: FileKind, containing: Iterable[str] = ()) -> Iterator[Document]:
        """The readable documents of a kind, by path, that hold any of the words (letter case aside)."""
        return self._documents(Question.of((kind,), containing))

    def python_documents(
        self, containing: Iterable[str] = (), *also: Iterable[str], where: Callable[[str], bool] | None = None
    ) -> Iterator[Document]:
        """Python files and notebooks that hold any of the words (letter case aside) and parse, by path.

        Without words: all of them. Each further group asks for one of its words besides, exactly as written in the
        text. ``where`` is for what no words can say: it looks at the text before it is parsed, which is the costly
        part. What does not parse is recorded in ``skipped``, and so is each cell of a notebook that had to be left out.
        """
        for document in self._documents(Question.of(PYTHON_KINDS, containing, also, where)):
            if self._parses(document):
                yield document

    def python_paths(
        self, containing: Iterable[str], *also: Iterable[str], where: Callable[[str], bool] | None = None
    ) -> list[str]:
        """The paths of the Python files and notebooks for the same questions; nothing is parsed or kept."""
        question = Question.of(PYTHON_KINDS, containing, also, where)
        return [
            path
            for path in self.candidates(question)
            if (where is None and path not in self._replaced and self._store.is_plain(path))
            or self._fitting(path, question) is not None
        ]

    def checked_documents(
        self, containing: Iterable[str] = (), *also: Iterable[str], where: Callable[[str], bool] | None = None
    ) -> Iterator[Document]:
        """Those of `python_documents` in which mistakes are looked for (`checking`).

        For the loop of a rule whose findings are in the document at hand; callers, imports, classes need all.
        """
        for document in self._documents(Question.of(PYTHON_KINDS, containing, also, where), self._checked):
            if self._parses(document):
                yield document

    def is_checked(self, path: str) -> bool:
        """Whether mistakes are looked for in this file."""
        return self._checked is None or path in self._checked

    def python_documents_at(self, paths: Iterable[str]) -> Iterator[Document]:
        """The documents at some paths, as far as they can be read and parse."""
        for path in paths:
            document = self.document(path)
            if document is not None and self._parses(document):
                yield document

    def python_module(self, name: str, importer: str = "") -> Document | None:
        """The project's own document for a dotted module name, or None (third party, missing, unparsable).

        ``importer`` is the path of the file that names the module; which file is meant can depend on it.
        """
        path = self.python_path(name, importer) if name else None
        document = self.document(path) if path else None
        try:
            return document if document is not None and document.tree else None
        except Unparsable:
            return None

    def _parses(self, document: Document) -> bool:
        """Whether a document parses; what does not, and cells left out, are recorded."""
        try:
            document.tree  # noqa: B018 - parsing is what is asked for
        except Unparsable as error:
            self.record_skip(document.path, f"not parsed: {error}")
            return False
        self._parsed.add(document.path)
        for cell in document.unparsed_cells:
            place = f"cell {cell.cell}" + (f", line {cell.row}" if cell.row else "")
            self.record_skip(document.path, f"{place} is left out: {cell.reason}")
        return True

    def _documents(self, question: Question, among: frozenset[str] | None = None) -> Iterator[Document]:
        for path in self.candidates(question):
            document = self._fitting(path, question) if among is None or path in among else None
            if document is not None:
                if (question.words or question.also) and path not in self._replaced:
                    self._store.keep(document)
                yield document

    def candidates(self, question: Question) -> Sequence[str]:
        """The paths of all files that may answer a question, and of some that do not."""
        found = self._store.paths_for(question)
        return sorted({*found, *self._replaced}) if self._replaced else found

    def _fitting(self, path: str, question: Question) -> Document | None:
        """The document of a candidate, if it answers the question."""
        document = self._replaced.get(path)
        is_certain = document is None and self._store.is_certain(path, question)
        document = document or self._store.document(path)
        if document is None or not (is_certain or (question.may_fit(document) and question.is_written_in(document))):
            return None
        return document if question.where is None or question.where(document.text) else None

    def record_skip(self, path: str, reason: str) -> None:
        """Note that a file (or a part of it) was left out, once per reason."""
        self._own_skips.setdefault((path, reason), Skipped(path, reason))

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

    # --- changes and facts --------------------------------------------------------------------------------------------

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
        left_out = frozenset(paths)
        kept = {path: document for path, document in self._replaced.items() if path not in left_out}
        return self._like(self._store.without(left_out), kept)

    def note(self, skipped: Iterable[Skipped], parsed: Iterable[str]) -> None:
        """Add what another process left out and parsed."""
        self._parsed |= {*parsed}
        for skip in skipped:
            self.record_skip(skip.path, skip.reason)

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
        return other

    def _like(
        self,
        store: FileStore | None = None,
        replaced: Mapping[str, Document] | None = None,
        terms: Terms | None = None,
    ) -> Project:
        """A project that differs in this, with the same files checked."""
        whole = Project(store or self._store, self._replaced if replaced is None else replaced, terms or self._terms)
        return whole.checking(self._checked)

    @property
    def replaced_paths(self) -> tuple[str, ...]:
        """The files whose text differs from the disk."""
        return tuple(sorted(self._replaced))

    def fact(self, compute: Callable[[Project], T]) -> T:
        """``compute`` of the whole project, whatever is checked: computed once."""
        if compute not in self._facts:
            self._facts[compute] = compute(self._whole)
        return self._facts[compute]  # type: ignore[return-value]

    def checked_fact(self, compute: Callable[[Project], T]) -> T:
        """``compute(self)``, computed once for what is checked: it may differ where other files are."""
        if compute not in self._checked_facts:
            self._checked_facts[compute] = compute(self)
        return cast(T, self._checked_facts[compute])

    def memo(self, compute: Callable[[Project, K], T], key: K) -> T:
        """``compute`` of the whole project and ``key``, computed once: a fact about one module, name or node."""
        question = (compute, key)
        found = self._facts.get(question, self)  # one look-up: hashing keys is what it costs
        if found is self:
            found = self._facts[question] = compute(self._whole, key)
        return found  # type: ignore[return-value]


def _module_paths(project: Project) -> ModulePaths:
    return ModulePaths([path for path in project.paths if kind_of(path) is FileKind.PYTHON])
