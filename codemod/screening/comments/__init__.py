"""Where the comments of a file stand, and which of its rows count as one line: for comments that speak to precfix.

Only what the format itself takes for a comment counts: text in strings, block scalars and here-documents does not.
"""

from __future__ import annotations

from collections.abc import Callable

from ...source.documents import Document, FileKind
from .layout import Comment, Layout, LayoutBuilder

__all__ = ["DATA_KINDS", "Comment", "Layout", "dialect_of", "layout_of"]


DATA_KINDS = frozenset({"yaml", "json", "toml", "shell", "env", "makefile", "dockerfile"})
"""The dialects that `formats.open_config` reads."""


def layout_of(document: Document) -> Layout:
    """The comments and joined rows of a document."""
    return document.fact(_layout)


def _layout(document: Document) -> Layout:
    builder = LayoutBuilder(document.text)
    _reader(dialect_of(document))(builder, document)
    return builder.layout()


def dialect_of(document: Document) -> str:
    """What the document's comments are written in: ``python notebook yaml json toml shell env makefile dockerfile``,
    ``text ini``, or ``prose`` for what has no comments."""
    name = document.path.rpartition("/")[2].lower()
    if document.kind is FileKind.TEXT:
        if name.endswith((".md", ".rst")):
            return "prose"
        return "ini" if name.endswith((".cfg", ".ini")) else "text"
    if document.kind is FileKind.SHELL:
        if name.endswith(".mk") or name.startswith(("makefile", "gnumakefile")):
            return "makefile"
        docker = name.startswith(("dockerfile", "containerfile")) or name.endswith(".dockerfile")
        return "dockerfile" if docker else "shell"
    return str(document.kind.value)


def _reader(dialect: str) -> Callable[[LayoutBuilder, Document], None]:
    # One by one: what reads YAML costs a fifth of a start.
    if dialect in ("python", "notebook"):
        from .python_comments import read_python

        return read_python
    if dialect == "yaml":
        from .yaml_comments import read_yaml

        return read_yaml
    if dialect in ("json", "toml", "text", "ini"):
        from . import quoted_comments

        return quoted_comments.READERS[dialect]
    if dialect == "prose":
        return lambda builder, document: None
    from . import shell_comments

    return shell_comments.READERS[dialect]
