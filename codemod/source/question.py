"""What files are asked for: their kind, the words they hold, and what no words can say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .documents import Document, FileKind
from .word_search import those_in


@dataclass(frozen=True, slots=True)
class FileQuestion:
    """Files of some kinds that hold any of ``words`` (letter case aside, judged on the bytes; none: all files do).

    Each group of ``also`` asks for one of its words besides, exactly as written in the text. Both can be answered from
    an index; ``where`` has to be asked about each text.
    """

    kinds: tuple[FileKind, ...]
    words: tuple[str, ...] = ()
    also: tuple[tuple[str, ...], ...] = ()
    where: Callable[[str], bool] | None = None

    @classmethod
    def of(
        cls,
        kinds: tuple[FileKind, ...],
        words: Iterable[str],
        also: Iterable[Iterable[str]] = (),
        where: Callable[[str], bool] | None = None,
    ) -> FileQuestion:
        """The question, with words in any letter case."""
        return cls(kinds, tuple(word.lower() for word in words), tuple(tuple(group) for group in also), where)

    def may_fit(self, document: Document) -> bool:
        """Whether a document is of one of the kinds and holds one of the words."""
        return document.kind in self.kinds and (not self.words or bool(those_in(document.data.lower(), self.words)))

    def is_written_in(self, document: Document) -> bool:
        """Whether the text holds a word of each group."""
        return all(any(word in document.text for word in group) for group in self.also)
