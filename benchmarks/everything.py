"""Reads, or parses, every Python file below a folder: ``python everything.py read|parse FOLDER``."""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import warnings
from collections.abc import Iterator


def texts(folder: str) -> Iterator[bytes]:
    """The bytes of every Python file below ``folder``."""
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(place, name), "rb") as file:
                    yield file.read()


def main() -> None:
    _, what, folder = sys.argv
    warnings.simplefilter("ignore")
    for text in texts(folder):
        if what == "parse":
            with contextlib.suppress(SyntaxError, ValueError):  # a template, or Python of another version
                ast.parse(text)


if __name__ == "__main__":
    main()
