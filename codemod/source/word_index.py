"""Which files hold a word: each is read once and split into its words, and later questions open few of them again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cached_property
from itertools import accumulate

from .decoding import is_plain_python
from .documents import FileKind, kind_of

INDEXED = (FileKind.PYTHON, FileKind.NOTEBOOK)
"""Kinds that are asked for hundreds of words; others hold data without end, and are asked for few."""
MAX_WORDS = 50_000
"""Distinct words in a file; what holds more is no code (images in a notebook) and is searched each time instead."""
MAX_VOCABULARY = 1_000_000
"""Distinct words of all files, some 200 MB of memory; what comes after is searched each time instead."""
_BORDER = b"\n"
_WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_BORDERED = bytes(byte if byte in _WORD_BYTES else _BORDER[0] for byte in range(256))


def is_word(text: str | bytes) -> bool:
    """Whether a word has no other characters in it: which files hold it is known without a look."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return bool(data) and _WORD_BYTES.issuperset(data)


class WordIndex:
    """The words of files, found by any part of them.

    A question is about bytes: with letter case ignored (`holding`), or exactly as written (`writing`).
    """

    def __init__(self, read: Callable[[str], bytes | None], paths: Iterable[str]) -> None:
        """``read`` gives the bytes of a path, or None. Nothing is read before the first question."""
        self._read = read
        self._paths = [path for path in paths if kind_of(path) in INDEXED]
        self._seen: dict[tuple[bytes, bool], dict[str, bool]] = {}
        self._plain: dict[str, bool] = {}

    def holding(self, words: Iterable[str], among: Set[str]) -> Set[str]:
        """Those of some files whose bytes hold any of the words (in lower case), whatever their letter case."""
        return self._holding_any(among, words, exactly=False)

    def writing(self, words: Iterable[str], among: Set[str]) -> Set[str]:
        """Those of some `plain` files whose text holds any of the words exactly as they are given."""
        return self._holding_any(among, words, exactly=True)

    @cached_property
    def plain(self) -> set[str]:
        """Python files whose text is their bytes in UTF-8: what `writing` says of others means nothing."""
        return self._vocabulary.plain

    def is_plain(self, path: str) -> bool:
        """Whether a file is one of these; as long as nobody asks for words, only that one is read."""
        if "_vocabulary" in self.__dict__:
            return path in self.plain
        if path not in self._plain:
            data = self._read(path) if kind_of(path) is FileKind.PYTHON else None
            self._plain[path] = data is not None and is_plain_python(data)
        return self._plain[path]

    @cached_property
    def _vocabulary(self) -> _Vocabulary:
        return _Vocabulary((path, data) for path in self._paths if (data := self._read(path)) is not None)

    def _holding_any(self, among: Set[str], words: Iterable[str], exactly: bool) -> Set[str]:
        """Only files in which no word is certain are opened, once for all words that may stand there."""
        found = set[str]()
        unsure: dict[str, list[bytes]] = {}
        for word in {word.encode("utf-8", "surrogatepass") for word in words}:
            candidates = self._candidates(word, exactly) & among
            if is_word(word):
                found |= candidates
                candidates = set()
            for path in candidates | (self._vocabulary.too_long & among):
                unsure.setdefault(path, []).append(word)
        found.update([path for path, its in unsure.items() if path not in found and self._holds(path, its, exactly)])
        return found

    def _holds(self, path: str, words: Sequence[bytes], exactly: bool) -> bool:
        """Whether the bytes hold one of the words; a file is not opened for what is known of it."""
        known = [self._seen.setdefault((word, exactly), {}) for word in words]
        if any(seen.get(path) for seen in known):
            return True
        new = [(word, seen) for word, seen in zip(words, known, strict=True) if path not in seen]
        data = (self._read(path) or b"") if new else b""
        lowered = b""
        for word, seen in new:
            is_held = word in data
            if not is_held and not exactly:  # most words that a file holds are written as they are asked for
                lowered = lowered or data.lower()
                is_held = word in lowered
            seen[path] = is_held
            if is_held:
                return True
        return False

    def _candidates(self, word: bytes, exactly: bool) -> Set[str]:
        """The files in whose words all parts of ``word`` are found, whole where something else stands beside them."""
        pieces = word.translate(_BORDERED).split(_BORDER)
        last = len(pieces) - 1
        bordered = [_BORDER * (at > 0) + piece + _BORDER * (at < last) for at, piece in enumerate(pieces) if piece]
        if not bordered:
            return self._vocabulary.paths
        bordered.sort(key=len, reverse=True)  # the rarest first
        found = self._vocabulary.files_with(bordered[0], exactly)
        for piece in bordered[1:]:
            found = found & self._vocabulary.files_with(piece, exactly) if found else found
        return found


class _Vocabulary:
    """The words of all files, joined, each with the files that hold it."""

    def __init__(self, files: Iterable[tuple[str, bytes]]) -> None:
        self.paths: set[str] = set()
        self.plain: set[str] = set()
        self.too_long: set[str] = set()
        """Files whose words are not kept: they are searched."""
        postings: dict[bytes, list[str]] = {}
        for path, data in files:
            self.paths.add(path)
            if kind_of(path) is FileKind.PYTHON and is_plain_python(data):
                self.plain.add(path)
            held_words = set(data.translate(_BORDERED).split())
            if len(held_words) > MAX_WORDS or len(postings) > MAX_VOCABULARY:
                self.too_long.add(path)
                continue
            for word in held_words:
                held = postings.get(word)
                if held is None:
                    postings[word] = [path]
                else:
                    held.append(path)
        words = sorted(postings, key=len)  # what is shorter than a piece is passed over at once
        self._joined = _BORDER + _BORDER.join(words) + _BORDER
        self._starts = list(accumulate((len(word) + 1 for word in words), initial=1))
        self._lengths = [len(word) for word in words]
        self._postings = [postings[word] for word in words]
        self._found: dict[tuple[bytes, bool], Set[str]] = {}

    @cached_property
    def _lowered(self) -> bytes:
        return self._joined.lower()

    def files_with(self, piece: bytes, exactly: bool) -> Set[str]:
        """The files with a word that holds ``piece``; a border at an end of it stands for the word's own."""
        known = self._found.get((piece, exactly))
        if known is None:
            known = self._found[piece, exactly] = set().union(*self._lists(piece, exactly))
        return known

    def _lists(self, piece: bytes, exactly: bool) -> Iterator[list[str]]:
        words = self._joined if exactly else self._lowered
        ahead = piece.startswith(_BORDER)
        first = bisect_left(self._lengths, len(piece.strip(_BORDER)))
        at = words.find(piece, self._starts[first] - 1)
        while at >= 0:
            number = bisect_right(self._starts, at + ahead) - 1
            yield self._postings[number]
            at = words.find(piece, self._starts[number + 1] - 1)
