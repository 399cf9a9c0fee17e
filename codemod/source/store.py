"""The files of a project on disk: read, searched for words, and kept as documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Set
from copy import copy
from pathlib import Path
from weakref import WeakValueDictionary

from ..outcome import Skipped
from .discovery import Discovery, Limits
from .documents import Document, FileKind, Unreadable, kind_of
from .question import FileQuestion
from .reading import FileRefused, read_regular_file
from .word_index import INDEXED, WordIndex, is_word
from .word_search import PRECISION_WORDS, SEARCHED, those_in, vocabulary_of, words_in

LARGE = 2**18
"""Bytes from which on a file is data rather than settings: of what is searched again the vocabulary is kept."""
MAX_VOCABULARIES = 2**26
"""Bytes of vocabularies that are kept."""


class FileStore:
    """Reads the discovered files. Only documents that were asked for by a word or by name stay in memory."""

    def __init__(self, discovery: Discovery, limits: Limits, given: Mapping[str, bytes] | None = None) -> None:
        """``given`` are the bytes of files that are not read from the disk."""
        self.root: Path = discovery.root
        self.discovery = discovery
        self.paths: tuple[str, ...] = tuple(sorted(discovery.paths))
        self.skipped: dict[tuple[str, str], Skipped] = {
            (path, reason): Skipped(path, reason) for path, reason in discovery.skipped.items()
        }
        self._root = os.fspath(discovery.root)
        self._limits = limits
        self._given = dict(given or {})
        self._links = discovery.links
        self._kinds: dict[str, FileKind] = {path: kind for path in self.paths if (kind := kind_of(path)) is not None}
        self._unreadable: set[str] = set()
        self._kept: dict[str, Document] = {}
        self._passing: WeakValueDictionary[str, Document] = WeakValueDictionary()
        self._words: dict[str, frozenset[str]] = {}  # path -> the words it holds, of those ever asked for
        self._asked: dict[str, frozenset[str]] = {}  # path -> the words, those of `SEARCHED` aside, it was searched for
        self._vocabularies: dict[str, bytes] = {}  # of large files that were searched more than once
        self._index = WordIndex(self._bytes, self.paths)
        self._answers: dict[object, dict[str, None]] = {}
        self.recall: Callable[[FileQuestion], Collection[str] | None] | None = None
        """What an earlier run has found for a question, where it would find it again: then no file is read for it."""
        self._of_kinds: dict[tuple[FileKind, ...], dict[str, None]] = {}
        self._others: dict[tuple[FileKind, ...], dict[str, None]] = {}

    def document(self, path: str) -> Document | None:
        """The document at ``path``; None when it is no file of the project or unreadable (recorded once).

        It is the same one for as long as somebody holds it; `keep` it for those who come later.
        """
        known = self._kept.get(path) or self._passing.get(path)
        return self._load(path) if known is None else known

    def keep(self, document: Document) -> Document:
        """Hold a document of this store in memory."""
        self._kept[document.path] = document
        return document

    def size_of(self, path: str) -> int:
        """How many bytes a file has; 0 where nobody can say."""
        if path in self._given:
            return len(self._given[path])
        try:
            return os.stat(os.path.join(self._root, *path.split("/"))).st_size
        except (OSError, ValueError):
            return 0

    def of(self, paths: Collection[str]) -> FileStore:
        other = copy(self)
        other._kept, other._passing = {}, WeakValueDictionary()
        other.paths = tuple(path for path in self.paths if path in paths)
        other._kinds = {path: kind for path, kind in self._kinds.items() if path in paths}
        other._index = WordIndex(other._bytes, other.paths)
        other._answers, other._of_kinds, other._others, other.recall = {}, {}, {}, None
        return other

    def _load(self, path: str) -> Document | None:
        if path not in self._kinds or path in self._unreadable:
            return None
        data = self._read(path)
        if data is None:
            return None
        try:
            document = Document(path, self._kinds[path], data)
        except Unreadable as error:
            self._skip(path, str(error))
            return None
        self._passing[path] = document
        return document

    def paths_for(self, question: FileQuestion) -> Collection[str]:
        """The paths that may answer a question, its ``where`` aside, sorted; they do where that `is_certain`."""
        key = (question.kinds, question.words, question.also)
        if key not in self._answers:
            found = self.recall(question) if self.recall is not None else None
            if found is None:
                found = self._writing(question) if question.also else self._holding(*key[:2])
            self._answers[key] = dict.fromkeys(found)
        return self._answers[key]

    def _writing(self, question: FileQuestion) -> Collection[str]:
        """Of the paths with the words, which many questions share, those that each group of ``also`` leaves.

        Where files would be opened for the words, what is known without comes first.
        """
        plain, (kinds, words) = self._index.plain, (question.kinds, question.words)
        others = self._others_of(kinds)
        also = sorted(question.also, key=lambda group: not all(map(is_word, group)))
        opens = not all(map(is_word, words)) and set(INDEXED).issuperset(kinds)
        if opens and all(map(is_word, also[0])) and (kinds, words, ()) not in self._answers:
            some = self._index.writing(also.pop(0), plain)
            paths: Collection[str] = dict.fromkeys(self._holding(kinds, words, some | others.keys()))
        else:
            paths = self.paths_for(FileQuestion(kinds, words))
        for group in also:
            written = self._index.writing(group, plain.intersection(paths))
            paths = dict.fromkeys(sorted((*written, *(path for path in others if path in paths))))
        return paths

    def _paths_of(self, kinds: tuple[FileKind, ...]) -> dict[str, None]:
        if kinds not in self._of_kinds:
            self._of_kinds[kinds] = dict.fromkeys(path for path in self.paths if self._kinds[path] in kinds)
        return self._of_kinds[kinds]

    def _others_of(self, kinds: tuple[FileKind, ...]) -> dict[str, None]:
        """Those whose texts have to be looked at to know which words are written there."""
        if kinds not in self._others:
            plain = self._index.plain
            self._others[kinds] = dict.fromkeys(path for path in self._paths_of(kinds) if path not in plain)
        return self._others[kinds]

    def is_certain(self, path: str, question: FileQuestion) -> bool:
        """Whether a path among `paths_for` answers the question, without a look at its text."""
        return not question.also or self._index.is_plain(path)

    def is_plain(self, path: str) -> bool:
        """Whether a file can be read for certain, as its text is its bytes."""
        return self._index.is_plain(path)

    def _holding(self, kinds: tuple[FileKind, ...], words: tuple[str, ...], among: Set[str] | None = None) -> list[str]:
        all_of_kinds = self._paths_of(kinds).keys()
        if words and set(INDEXED).issuperset(kinds):
            return sorted(self._index.holding(words, all_of_kinds if among is None else all_of_kinds & among))
        paths = list(all_of_kinds)
        if not words:
            return paths
        self._search(paths, tuple(word for word in words if word not in SEARCHED))
        wanted = frozenset(words)
        return [path for path in paths if not wanted.isdisjoint(self._words.get(path, ()))]

    def _search(self, paths: list[str], others: tuple[str, ...]) -> None:
        """Note which words each file holds: once for all of `SEARCHED`, and once for each other word.

        A word that holds a precision word (``torch_dtype=torch.bfloat16``) is only looked for in files with that one.
        """
        within = {word: frozenset(part for part in PRECISION_WORDS if part in word) for word in others}
        for path in paths:
            asked = self._asked.get(path)
            held = self._words.get(path, frozenset())
            new = tuple(word for word in others if asked is None or (word not in asked and within[word] <= held))
            if asked is not None and not new:
                continue
            found = self._found(path, new, is_first=asked is None)
            if found is None:
                continue
            self._words[path] = held | found
            self._asked[path] = (asked or frozenset()) | frozenset(new)

    def _found(self, path: str, words: tuple[str, ...], *, is_first: bool) -> frozenset[str] | None:
        """Which of the words a file holds, and at first which of `SEARCHED`; None where it cannot be read."""
        if path in self._vocabularies and all(len(word.split()) == 1 for word in words):
            return those_in(self._vocabularies[path], words)
        data = self._read(path)
        if data is None or is_first:
            return words_in(data, words) if data is not None else None
        if len(data) > LARGE and sum(map(len, self._vocabularies.values())) < MAX_VOCABULARIES:
            self._vocabularies[path] = vocabulary_of(data)
        return those_in(data.lower(), words)

    def _bytes(self, path: str) -> bytes | None:
        """The bytes of a file, which is not opened while a document holds them."""
        known = self._kept.get(path) or self._passing.get(path)
        return self._read(path) if known is None else known.unnoted(lambda: known.data)

    def _read(self, path: str) -> bytes | None:
        if path in self._unreadable:
            return None
        if path in self._given:
            return self._given[path]
        full = os.path.join(self._root, *path.split("/"))
        limits = self._limits
        limit = limits.max_notebook_bytes if self._kinds[path] is FileKind.NOTEBOOK else limits.max_file_bytes
        try:
            if path in self._links:
                full = os.path.realpath(full, strict=True)
                if full != self._links[path]:  # it may have been led elsewhere since
                    raise FileRefused("symbolic link out of the project")
            return read_regular_file(full, limit)
        except FileRefused as error:
            self._skip(path, str(error))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable path"
            self._skip(path, f"cannot be read: {reason.lower()}")
        return None

    def _skip(self, path: str, reason: str) -> None:
        self._unreadable.add(path)
        self.skipped.setdefault((path, reason), Skipped(path, reason))
