"""Comments of YAML: what PyYAML's scanner passes over between its tokens."""

from __future__ import annotations

import re

import yaml

from ...source.documents import Document
from .layout import LayoutBuilder

_HASH = re.compile(r"#[^\r\n\x85\u2028\u2029]*")
_HEADER = re.compile(r"[|>][^\s#]*[ \t]+(#[^\r\n\x85\u2028\u2029]*)")


def read_yaml(builder: LayoutBuilder, document: Document) -> None:
    done = 0
    try:
        for token in yaml.scan(builder.text, Loader=yaml.SafeLoader):
            start, end = token.start_mark.index, token.end_mark.index
            _comments_between(builder, done, start)
            if isinstance(token, yaml.ScalarToken):
                _scalar(builder, token, start, end)
            done = max(done, end)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        builder.complete = False
        return
    _comments_between(builder, done, len(builder.text))


def _comments_between(builder: LayoutBuilder, start: int, end: int) -> None:
    at = builder.text.find("#", start, end)
    while at >= 0:
        found = _HASH.match(builder.text, at)
        after = builder.comment(at, found.end() if found else None)
        at = builder.text.find("#", after, end)


def _scalar(builder: LayoutBuilder, token: yaml.ScalarToken, start: int, end: int) -> None:
    """A text over several rows is one line, with the key before it."""
    if token.style in ("|", ">"):
        header = _HEADER.match(builder.text, start)
        if header is not None:
            builder.comment(header.start(1), header.end(1))
    first, last = builder.row(start), builder.row(max(start, len(builder.text[:end].rstrip()) - 1))
    builder.joined(first, last)
    builder.string(first, last)
