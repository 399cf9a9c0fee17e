"""What must hold for every changed file, whatever the project: used on trees that are not ours. Not a test."""

from __future__ import annotations

import ast
import codecs
import difflib
import json
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from io import BytesIO

from precfix.codemod.outcome import FileChange

BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
Leaves = Mapping[tuple[object, ...], object]


def problems_of(change: FileChange) -> Iterator[str]:
    """What a change breaks: syntax, data that nobody meant, comments, line endings, byte order mark, last newline."""
    yield from _form_problems(change)
    if change.path.endswith(".py"):
        yield from _python_problems(change)
    elif change.path.endswith((".json", ".yaml", ".yml", ".toml")):
        yield from _data_problems(change)


def _form_problems(change: FileChange) -> Iterator[str]:
    before, after = change.before, change.after
    if [before.startswith(bom) for bom in BOMS] != [after.startswith(bom) for bom in BOMS]:
        yield "the byte order mark is not kept"
    if before.endswith((b"\n", b"\r")) != after.endswith((b"\n", b"\r")):
        yield "the newline at the end is not kept"
    if _newlines(after) - _newlines(before):
        yield "there are line endings that the file did not have"


def _newlines(data: bytes) -> set[str]:
    crlf = data.count(b"\r\n")
    counts = {"CRLF": crlf, "LF": data.count(b"\n") - crlf, "CR": data.count(b"\r") - crlf}
    return {name for name, count in counts.items() if count}


def _python_problems(change: FileChange) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(change.after)
    except (SyntaxError, ValueError) as error:
        yield f"does not parse any more: {error}"
        return
    removed = b"\n".join(_removed_lines(change))
    for comment in _comments(change.before):
        if comment not in change.after and comment not in removed:
            yield f"a comment of an unchanged line is lost: {comment!r}"


def _removed_lines(change: FileChange) -> list[bytes]:
    before, after = change.before.splitlines(), change.after.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [line for tag, i1, i2, _, _ in matcher.get_opcodes() if tag != "equal" for line in before[i1:i2]]


def _comments(data: bytes) -> set[bytes]:
    try:
        tokens = list(tokenize.tokenize(BytesIO(data).readline))
    except (tokenize.TokenError, SyntaxError):
        return set()
    encoding = tokens[0].string
    return {token.string.encode(encoding) for token in tokens if token.type == tokenize.COMMENT}


def _data_problems(change: FileChange) -> Iterator[str]:
    """Only keys on changed lines may have other values."""
    before, after = _leaves(change.path, change.before), _leaves(change.path, change.after)
    if before is None:
        return
    if after is None:
        yield "cannot be read any more"
        return
    old, new = change.before.decode(errors="replace").splitlines(), change.after.decode(errors="replace").splitlines()
    changed = "\n".join(line for line in difflib.ndiff(old, new) if line[0] in "-+")
    for key in {*before, *after}:
        if key not in before or key not in after or before[key] != after[key]:
            names = [str(part) for part in key if isinstance(part, str)]
            if not any(name in changed for name in names):
                yield f"the value of {'.'.join(names)} is another one, on a line that nobody changed"


def _leaves(path: str, data: bytes) -> Leaves | None:
    """Every scalar of a configuration by its place; None when this reader cannot read it."""
    try:
        if path.endswith(".json"):
            documents = [json.loads(data)]
        elif path.endswith(".toml"):
            import tomlkit

            documents = [tomlkit.parse(data.decode()).unwrap()]
        else:
            import yaml

            documents = list(yaml.safe_load_all(data))
    except (ValueError, RecursionError, ImportError):
        return None
    except Exception as error:  # each parser has errors of its own, and a file we cannot compare is no fault
        if type(error).__module__.partition(".")[0] in ("yaml", "tomlkit"):
            return None
        raise
    return dict(_walk(documents, ()))


def _walk(value: object, place: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk(inner, (*place, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(inner, (*place, index))
    else:
        yield place, value
