"""The files of a project, as they are asked for: by kind, by the words they hold, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from ..outcome import Skipped
from .documents import Document, FileKind
from .looks import FILE, PARSED, QUESTION, SKIPPED, Remembering
from .parsing import Unparsable
from .question import FileQuestion
from .store import FileStore

PYTHON_KINDS = (FileKind.PYTHON, FileKind.NOTEBOOK)


class Files(Remembering):
    """The documents of a project. Who asks for one is noted (`Looks`)."""

    _store: FileStore
    _replaced: dict[str, Document]
    _checked: frozenset[str] | None
    _own_skips: dict[tuple[str, str], Skipped]
    _parsed: set[str]

    def python_path(self, module: str, importer: str = "") -> str | None:
        """The file of an absolute module name."""
        raise NotImplementedError

    def document(self, path: str) -> Document | None:
        """The document at ``path``; None (and recorded in ``skipped``) when it cannot be read or is no project file."""
        return self._replaced.get(path) or self.unchanged_document(path)

    def text(self, path: str) -> str | None:
        """The text of the document at ``path``; None where there is none."""
        document = self.document(path)
        return document.text if document is not None else None

    def unchanged_document(self, path: str) -> Document | None:
        """The document at ``path`` as it is on the disk, whatever texts have been replaced since."""
        self.looks.note(FILE, path)
        document = self._store.document(path)
        return self._watched(self._store.keep(document)) if document is not None else None

    def _watched(self, document: Document) -> Document:
        return document.watched(self.looks) if self.looks.are_noted else document

    def documents(self, kind: FileKind, containing: Iterable[str] = ()) -> Iterator[Document]:
        """The readable documents of a kind, by path, that hold any of the words (letter case aside)."""
        return self._documents(FileQuestion.of((kind,), containing))

    def python_documents(
        self, containing: Iterable[str] = (), *also: Iterable[str], where: Callable[[str], bool] | None = None
    ) -> Iterator[Document]:
        """Python files and notebooks that hold any of the words (letter case aside) and parse, by path.

        Without words: all of them. Each further group asks for one of its words besides, exactly as written in the
        text. ``where`` is for what no words can say: it looks at the text before it is parsed, which is the costly
        part. What does not parse is recorded in ``skipped``, and so is each cell of a notebook that had to be left out.
        """
        for document in self._documents(FileQuestion.of(PYTHON_KINDS, containing, also, where)):
            if self._parses(document):
                yield document

    def python_paths(
        self, containing: Iterable[str], *also: Iterable[str], where: Callable[[str], bool] | None = None
    ) -> list[str]:
        """The paths of the Python files and notebooks for the same questions; nothing is parsed or kept."""
        question = FileQuestion.of(PYTHON_KINDS, containing, also, where)
        return self._fitting_among(self.candidates(question), question)

    def checked_paths(self, containing: Iterable[str], *, where: Callable[[str], bool] | None = None) -> list[str]:
        """The same of the files in which mistakes are looked for."""
        question = FileQuestion.of(PYTHON_KINDS, containing, (), where)
        checked = self.checked_files
        among = self.candidates(question) if checked is None else self._checked_candidates(question, checked)
        return self._fitting_among(among, question)

    def _fitting_among(self, paths: Iterable[str], question: FileQuestion) -> list[str]:
        return [
            path
            for path in paths
            if (question.where is None and path not in self._replaced and self._store.is_plain(path))
            or self._fitting(path, question) is not None
        ]

    def checked_documents(
        self, containing: Iterable[str] = (), *also: Iterable[str], where: Callable[[str], bool] | None = None
    ) -> Iterator[Document]:
        """Those of `python_documents` in which mistakes are looked for (`checking`).

        For the loop of a rule whose findings are in the document at hand; callers, imports, classes need all.
        """
        for document in self._documents(FileQuestion.of(PYTHON_KINDS, containing, also, where), self.checked_files):
            if self._parses(document):
                yield document

    @property
    def checked_files(self) -> frozenset[str] | None:
        """The files in which mistakes are looked for; None: in all."""
        if self._checked is not None:
            self.looks.of_checked = True
        return self._checked

    def is_checked(self, path: str) -> bool:
        """Whether mistakes are looked for in this file."""
        checked = self.checked_files
        return checked is None or path in checked

    def python_documents_at(self, paths: Iterable[str]) -> Iterator[Document]:
        """The documents of code at some paths, as far as they can be read and parse."""
        for path in paths:
            document = self.document(path)
            is_code = document is not None and document.kind in (FileKind.PYTHON, FileKind.NOTEBOOK)
            if document is not None and is_code and self._parses(document):
                yield document

    def says(self, path: str, where: Callable[[str], bool]) -> bool:
        """Whether the text of a file is so; it is neither parsed nor held in memory for that."""
        self.looks.note(FILE, path)
        document = self._replaced.get(path) or self._store.document(path)
        return document is not None and where(document.text)

    def python_module(self, name: str, importer: str = "") -> Document | None:
        """The project's own document for a dotted module name, or None (third party, missing, unparsable).

        ``importer`` is the path of the file that names the module; which file is meant can depend on it.
        """
        path = self.python_path(name, importer) if name else None
        document = self.document(path) if path else None
        return document if document is not None and document.parses else None

    def defining_module(self, module: str, importer: str, name: str) -> Document | None:
        """The same for who looks there at what one name is, and at nothing else."""
        path = self.python_path(module, importer) if module else None
        before = self.looks.seen
        document = self.document(path) if path else None
        if document is None or not document.parses:
            return None
        self.looks.seen = before
        document.note_defined(name)
        return document

    def _parses(self, document: Document) -> bool:
        """Whether a document parses; what does not, and cells left out, are recorded."""
        if document.path in self._parsed and document.parses and not self.looks.are_noted:
            return True
        try:
            document.tree  # noqa: B018 - parsing is what is asked for
        except Unparsable as error:
            self.record_skip(document.path, f"not parsed: {error}")
            return False
        self._parsed.add(document.path)
        self.looks.note(PARSED, document.path)
        for cell in document.unparsed_cells:
            place = f"cell {cell.cell}" + (f", line {cell.row}" if cell.row else "")
            self.record_skip(document.path, f"{place} is left out: {cell.reason}")
        return True

    def _documents(self, question: FileQuestion, among: frozenset[str] | None = None) -> Iterator[Document]:
        for path in self.candidates(question) if among is None else self._checked_candidates(question, among):
            document = self._fitting(path, question)
            if document is not None:
                self.looks.note(FILE, path)
                if (question.words or question.also) and path not in self._replaced:
                    self._store.keep(document)
                yield self._watched(document)

    def candidates(self, question: FileQuestion) -> Collection[str]:
        """The paths of all files that may answer a question, and of some that do not, in order."""
        if self.looks.are_noted:
            self.looks.note(QUESTION, question.kinds, question.words, question.also)
        return self._candidates(question)

    def _candidates(self, question: FileQuestion) -> Collection[str]:
        found = self._store.paths_for(question)
        return dict.fromkeys(sorted({*found, *self._replaced})) if self._replaced else found

    def _checked_candidates(self, question: FileQuestion, among: frozenset[str]) -> Iterator[str]:
        """Those among some paths: what other files hold does not count."""
        found = self._candidates(question)
        for path in sorted(among) if len(among) < len(found) else found:
            self.looks.note(FILE, path)
            if path in found and path in among:
                yield path

    def is_certain(self, path: str, question: FileQuestion) -> bool:
        """Whether a candidate answers a question, its ``where`` aside, without a look at its text."""
        return path not in self._replaced and self._store.is_certain(path, question)

    def _fitting(self, path: str, question: FileQuestion) -> Document | None:
        """The document of a candidate, if it answers the question."""
        document = self._replaced.get(path)
        is_certain = self.is_certain(path, question)
        document = document or self._store.document(path)
        if question.where is not None or not is_certain:
            self.looks.note(FILE, path)
        if document is None or not (is_certain or (question.may_fit(document) and question.is_written_in(document))):
            return None
        return document if question.where is None or question.where(document.text) else None

    def record_skip(self, path: str, reason: str) -> None:
        """Note that a file (or a part of it) was left out, once per reason."""
        self._own_skips.setdefault((path, reason), Skipped(path, reason))
        self.looks.note(SKIPPED, path, reason)
