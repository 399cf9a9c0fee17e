"""The same source in other bytes: line endings, marks, tabs, encodings, a notebook.

Each variant commutes with migrating: ``migrate(variant(input))`` must equal ``variant(migrate(input))``.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable

COOKIE = "# -*- coding: latin-1 -*-\n# caf\xe9\n"
_INDENT = re.compile(rb"^( {4})+", re.MULTILINE)


def _crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def _cr(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r")


def _bom(data: bytes) -> bytes:
    return codecs.BOM_UTF8 + data


def _tabs(data: bytes) -> bytes:
    return _INDENT.sub(lambda found: b"\t" * (len(found.group()) // 4), data)


def _latin_1(data: bytes) -> bytes:
    return (COOKIE + data.decode("utf-8")).encode("latin-1")


def _no_final_newline(data: bytes) -> bytes:
    return data.rstrip(b"\n")


def _form_feed(data: bytes) -> bytes:
    """A form feed alone on a line, as old GNU sources have it between sections."""
    return b"\x0c\n" + data


def _notebook(data: bytes) -> bytes:
    lines = data.decode("utf-8").rstrip("\n").split("\n")
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": [line + "\n" for line in lines[:-1]] + lines[-1:],
    }
    text = {"cell_type": "markdown", "metadata": {}, "source": ["scaler = GradScaler()\n", "caf\xe9"]}
    book = {"cells": [text, cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(book, indent=1) + "\n").encode()


VARIANTS: dict[str, Callable[[bytes], bytes]] = {
    "crlf": _crlf,
    "cr": _cr,
    "bom": _bom,
    "tabs": _tabs,
    "latin-1": _latin_1,
    "no-final-newline": _no_final_newline,
    "form-feed": _form_feed,
    "notebook": _notebook,
}
ROWS_ADDED = {"latin-1": 2, "form-feed": 1}
"""How far a variant moves the rows of Python files."""


def changed_files(variant: str, files: dict[str, bytes]) -> dict[str, bytes] | None:
    """The tree with every Python file turned into the variant; None where the variant makes no sense.

    A notebook cannot be imported, so only a tree with a single Python file becomes one.
    """
    python = [name for name in files if name.endswith(".py")]
    if not python or (variant == "notebook" and len(python) > 1):
        return None
    change = VARIANTS[variant]
    renamed = {name: name.removesuffix(".py") + ".ipynb" if variant == "notebook" else name for name in python}
    try:
        return {renamed.get(name, name): change(data) if name in renamed else data for name, data in files.items()}
    except UnicodeEncodeError:
        return None
