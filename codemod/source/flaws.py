"""What is wrong with a finding that a rule has made: types, identity, places outside the project.

Rules come from other people as well. What passes here cannot make the engine, a report or a patch fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

from ..model import Finding, Operation, ReplaceText, Rule, Span
from .documents import Document
from .project import Project


def flaw_of(finding: object, rule: Rule, project: Project) -> str:
    """One clause saying why this is no finding of ``rule`` in ``project``; empty when it is one."""
    misfit = _misfit(finding, Finding, "what it yielded")
    if misfit or not isinstance(finding, Finding):
        return misfit
    for name in ("code", "name"):
        if getattr(finding, name) != getattr(rule, name):
            return f"the finding's {name} is {getattr(finding, name)!r}"
    return _first(_misplaced(finding, project))


def said(error: BaseException) -> str:
    """An exception of foreign code on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its __str__ is foreign code as well
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _misfit(value: object, hint: object, where: str) -> str:
    """Where ``value`` is not of the type ``hint``, looked at with all it holds."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        hint = next((each for each in arguments if isinstance(value, get_origin(each) or each)), hint)
        return f"{where} is {_kind(value)}" if get_origin(hint) is origin else _misfit(value, hint, where)
    if origin is tuple:
        if not isinstance(value, tuple):
            return f"{where} is {_kind(value)}, not a tuple"
        return _first(_misfit(item, arguments[0], f"{where}[{index}]") for index, item in enumerate(value))
    if origin is Literal:
        return "" if value in arguments else f"{where} is {value!r}, not one of {', '.join(map(repr, arguments))}"
    assert isinstance(hint, type)
    if not isinstance(value, hint):
        return f"{where} is {_kind(value)}, not {hint.__name__}"
    if not is_dataclass(hint):
        return ""
    return _first(_misfit(getattr(value, name), each, f"{where}.{name}") for name, each in _hints(hint).items())


@lru_cache
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)


def _first(flaws: Iterator[str]) -> str:
    return next(filter(None, flaws), "")


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def _misplaced(finding: Finding, project: Project) -> Iterator[str]:
    yield _place_flaw(project, "the finding", finding.path, finding.span)
    for place in finding.evidence:
        yield _place_flaw(project, "evidence", place.path, place.span)
    for fix in finding.fixes:
        for edit in fix.edits:
            document = project.document(edit.path)
            flaw = _operation_flaw(document, edit.operation) if document is not None else _no_file(edit.path)
            yield flaw and f"fix {fix.name!r}: {flaw}"


def _place_flaw(project: Project, what: str, path: str, span: Span) -> str:
    document = project.document(path)
    flaw = _span_flaw(document, span) if document is not None else _no_file(path)
    return flaw and f"{what}: {flaw}"


def _no_file(path: str) -> str:
    return f"{path!r} is not a file that was read in the project"


def _span_flaw(document: Document, span: Span) -> str:
    begin, end = (span.row, span.column), (span.end_row, span.end_column)
    inside = all(
        1 <= row <= document.rows and 1 <= column <= len(document.line(row)) + 1 for row, column in (begin, end)
    )
    return "" if inside and begin <= end else f"{document.path} has no place {_shown(span)}"


def _shown(span: Span) -> str:
    return f"{span.row}:{span.column} to {span.end_row}:{span.end_column}"


def _operation_flaw(document: Document, operation: Operation) -> str:
    if isinstance(operation, ReplaceText):
        inside = 0 <= operation.start <= operation.end <= len(document.text)
        return "" if inside else f"{document.path} has no characters {operation.start} to {operation.end}"
    return _first(_span_flaw(document, span) for span in _spans(operation))


def _spans(operation: Operation) -> Iterator[Span]:
    for each in fields(operation):
        value = getattr(operation, each.name)
        yield from (item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, Span))
