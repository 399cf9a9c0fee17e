"""Bytes to text: PEP 263 for Python, byte order marks, and what to do without either."""

from __future__ import annotations

import codecs
import io
import re
import tokenize
import warnings

from ..model import PrecfixError

_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its prefix
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SHOWN = 100
"""Characters of what Python says about an encoding line, which it repeats, however long it is."""
_FIRST_TWO_LINES = re.compile(rb"([^\r\n]*)(?:\r\n|\n|\r)?([^\r\n]*)")


class Unreadable(PrecfixError):
    """A file cannot be turned into text; the message is the reason."""


def decode(data: bytes, *, python: bool, strict: bool) -> tuple[bytes, str, str]:
    """(byte order mark, encoding, text) of a file; raises `Unreadable`.

    ``python``: by the rules of Python source. Otherwise a byte order mark decides, then UTF-8, and what is not UTF-8
    is taken for Latin-1, which loses nothing, unless ``strict``.
    """
    if python:
        bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        encoding = _python_encoding(data)
        return bom, encoding, _decode_as(data[len(bom) :], encoding)
    bom, encoding = next(((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", "utf-8"))
    if bom or strict:
        return bom, encoding, _decode_as(data[len(bom) :], encoding)
    if b"\0" in data:
        raise Unreadable("binary data (it holds NUL bytes)")
    try:
        return b"", "utf-8", data.decode("utf-8")
    except UnicodeDecodeError:
        return b"", "iso-8859-1", data.decode("iso-8859-1")


def is_plain_python(data: bytes) -> bool:
    """Whether Python source is UTF-8 throughout: a word then stands in its text where its bytes stand here."""
    try:
        return _python_encoding(data) == "utf-8" and (data.isascii() or bool(data.decode("utf-8")))
    except (Unreadable, UnicodeError):
        return False


def _decode_as(data: bytes, encoding: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a file may name unicode_escape as its encoding
            return data.decode(encoding)
    except (UnicodeError, LookupError, ValueError) as error:
        raise Unreadable(f"not valid {encoding}: {error}") from None


def _python_encoding(data: bytes) -> str:
    """The encoding that Python would use (PEP 263), as a codec name."""
    lines = _FIRST_TWO_LINES.match(data)
    head = b"\n".join(lines.groups(b"")) if lines else b""
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(head).readline)
    except SyntaxError as error:
        raise Unreadable(f"encoding: {(error.msg or '')[:_SHOWN]}") from None
    return "utf-8" if name == "utf-8-sig" else name
