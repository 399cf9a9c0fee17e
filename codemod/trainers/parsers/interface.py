"""What one program of the project accepts on its command line, and in the files that its parser reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...model import Place
from ...torch.dtypes import Dtype, as_dtype
from ..framework import Framework, FrameworkKey

PLAIN_WORDS = ("no", "none", "auto", "fp8", "int8", "int4", "tf32")
"""Words beside the names of types that options of a precision take in any program."""


@dataclass(frozen=True, slots=True, eq=False)
class Interface:
    """The options of a program, as far as its source says."""

    path: str
    """The script."""
    names: frozenset[str]
    """Options and fields that the project itself defines, with underscores."""
    frameworks: tuple[Framework, ...]
    """Trainers whose own options the parser takes too: ``HfArgumentParser((ModelArguments, TrainingArguments))``."""
    is_closed: bool
    """Whether nothing else is accepted: no class and no call adds options that are not seen here."""
    is_typed: bool
    """Whether classes of fields are parsed (`HfArgumentParser` and its relatives) rather than single options."""
    is_generated: bool = False
    """Whether code makes options of names that it reads from somewhere: ``add_argument(f"--{key}", default=value)``."""
    file_flags: frozenset[str] = frozenset()
    """Flags that name a file with values for the parser; ``""``: a file that stands alone."""
    files: frozenset[str] = frozenset()
    """Files with values for the parser that the code itself names."""
    place: Place | None = None
    """Where the parser is made."""
    imported: frozenset[str] = frozenset()
    """Packages that the program imports, anywhere in its modules."""
    choices: tuple[tuple[str, frozenset[str]], ...] = ()
    """Options with the words that they take, where the declaration lists them."""

    @property
    def framework(self) -> Framework | None:
        """The trainer that the options belong to: a special one before one that others build on."""
        ordered = sorted(self.frameworks, key=lambda item: item.recognize.generic)
        return ordered[0] if ordered else None

    def takes(self, name: str, framework: Framework) -> bool:
        """Whether the program takes an option of this name, or may take it."""
        plain = name.lstrip("-").replace("-", "_")
        if plain in self.names or not self.is_closed:
            return True
        return any(plain in key.arguments for item in self.frameworks for key in item.keys) or (
            bool(self.frameworks) and framework not in self.frameworks and not framework.recognize.generic
        )

    def may_serve(self, framework: Framework) -> bool:
        """Whether the options can be a trainer's: the program imports it, or is a copy of it that knows its words."""
        if self.frameworks or not self.is_closed or not framework.packages:
            return True
        names = [f"{name}_".replace("-", "_").lower() for name in (framework.id, *framework.packages)]
        roots = [f"{root}_".lower() for root in self.imported]
        return any(
            name.startswith(root) or root.startswith(name) or (root != "torch_" and name.endswith(f"_{root}"))
            for root in roots
            for name in names
        ) or any(self._has_words_of(key) for key in framework.keys)

    def _has_words_of(self, key: FrameworkKey) -> bool:
        """Whether an option takes nothing but the values of a trainer's key, and not only names of precisions."""
        flags = {flag.lstrip("-").replace("-", "_") for flag in key.flags}
        taken = [words for name, words in self.choices if name in flags and key.choices]
        return any(all(map(key.accepts, words)) and any(map(_is_own_word, words)) for words in taken)

    def takes_key(self, key: FrameworkKey, framework: Framework) -> bool:
        """Whether a setting of a trainer could be written for this program."""
        return any(self.takes(name, framework) for name in _names(key))


def _is_own_word(word: str) -> bool:
    return not isinstance(as_dtype(word), Dtype) and word not in PLAIN_WORDS


def _names(key: FrameworkKey) -> Iterator[str]:
    yield key.name
    yield from key.flags
    yield from key.arguments
