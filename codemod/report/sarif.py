"""The report as SARIF 2.1.0, the format of code-scanning services."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..model import Applicability, EditRefused, Finding, Fix, Place, Rule, Span
from ..outcome import Report, Silence, Silenced, Skipped
from ..source.documents import FileKind, kind_of
from ..version import version_text
from . import TextEdit
from .fingerprints import unique_fingerprints
from .json_report import ReportJson
from .manual import manual_of, sections_of
from .markdown_text import clipped, is_link
from .outcomes import FOUND_LATER, FindingState, outcomes, rules_of, silenced_by
from .places import ReportPlaces
from .printable import printable
from .tally import in_order, settled

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOME = "https://github.com/precfix/precfix"
ROOT = "%SRCROOT%"
FINGERPRINT = "precfix/v1"
LEVEL = "warning"
"""The level of every result: rules do not grade their findings."""
TAGS = ("correctness", "mixed-precision", "pytorch")
_SEMANTIC = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True, slots=True)
class _Run:
    report: Report
    rule_numbers: dict[str, int]
    fingerprints: dict[Finding, str]
    repaired: frozenset[Finding]
    places: ReportPlaces


def to_sarif(report: Report, places: ReportPlaces, version: str | None = None) -> str:
    """One SARIF log with one run of precfix ``version``, on one line of ASCII.

    The results are the findings in the files as they were read, of ``check`` and of ``migrate`` alike; of the latter
    ``properties.applied`` tells which were repaired, and a notification names what is found only after the changes.
    Silenced findings are results with suppressions. A fix that can be carried out is written with its replacements, the
    best one first; display-only and refused ones are left out. Skipped files and failed rules are notifications; a
    failed rule makes the execution unsuccessful.

    Paths are percent-encoded and relative to ``%SRCROOT%``; rows and columns count characters, ends are exclusive.
    Readers show a notebook as the JSON text it is. There a region is the rows of that text that hold the lines of the
    cell, without columns, the message names the cell and the row in it, and fixes are left out.
    """
    version = version or version_text()
    rules = rules_of(report)
    silenced = {each.finding: each for each in report.silenced}
    findings = in_order(dict.fromkeys([*report.findings, *silenced]))
    run = _Run(
        report,
        {rule.code: number for number, rule in enumerate(rules)},
        unique_fingerprints(findings, places.source_of),
        frozenset(finding for finding, _ in settled(report)),
        places,
    )
    driver: dict[str, ReportJson] = {"name": "precfix", "informationUri": HOME, "version": version}
    if _SEMANTIC.fullmatch(version):
        driver["semanticVersion"] = version
    driver["rules"] = [_rule(rule) for rule in rules]
    out: dict[str, ReportJson] = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {ROOT: {"description": {"text": "The folder that was checked."}}},
        "columnKind": "unicodeCodePoints",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "invocations": [
            {
                "executionSuccessful": not report.failed_rules,
                "toolExecutionNotifications": [*_notifications(report, places)],
            }
        ],
        "results": [_result(each, silenced.get(each), run) for each in findings],
        "properties": {"target": report.target.regime},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [out]}) + "\n"


def _rule(found: Rule) -> ReportJson:
    rule = replace(found, name=printable(found.name), docs="\n".join(map(printable, found.docs.split("\n"))))
    title = rule.title or rule.name
    about = sections_of(rule).get("What goes wrong", "").partition("\n\n")[0]
    out: dict[str, ReportJson] = {
        "id": rule.code,
        "name": "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", rule.name)) or rule.code,
        "shortDescription": {"text": title},
        "fullDescription": {"text": clipped(" ".join(about.split())) or title},
        "help": {"text": rule.docs, "markdown": manual_of(rule)} if rule.docs else {"text": title},
        "defaultConfiguration": {"level": LEVEL},
        "properties": {"tags": [*TAGS], "problem.severity": LEVEL},
    }
    return out | ({"helpUri": rule.url} if is_link(rule.url) else {})


def _result(finding: Finding, silenced: Silenced | None, run: _Run) -> ReportJson:
    out: dict[str, ReportJson] = {
        "ruleId": finding.code,
        "ruleIndex": run.rule_numbers[finding.code],
        "level": LEVEL,
        "message": {"text": _message(finding.message, run.places.in_cell(finding.path, finding.span))},
        "locations": [_location(finding.path, finding.span, run)],
        "partialFingerprints": {FINGERPRINT: run.fingerprints[finding]},
    }
    if finding.evidence:
        out["relatedLocations"] = [_evidence(number, each, run) for number, each in enumerate(finding.evidence, 1)]
    fixes = [written for fix in finding.fixes if (written := _fix(fix, run)) is not None]
    if fixes:
        out["fixes"] = [*fixes]
    if run.report.silenced:  # all results of a run state it or none does
        out["suppressions"] = [_suppression(silenced)] if silenced is not None else []
    return out | ({"properties": {"applied": finding in run.repaired}} if run.report.changes else {})


def _message(text: str, cell: str = "") -> str:
    """A plain-text message: what SARIF would take for a link inside it is escaped."""
    said = printable(f"{cell}: {text}" if cell else text)
    return re.sub(r"([\[\]\\])", r"\\\1", said) if "](" in said else said


def _location(path: str, span: Span, run: _Run) -> dict[str, ReportJson]:
    physical: dict[str, ReportJson] = {"artifactLocation": _artifact(path, run.places)}
    region = _region(span)
    if kind_of(path) is FileKind.NOTEBOOK:
        rows = run.places.rows(path, span)
        region = {"startLine": rows[0], "endLine": rows[1]} if rows is not None else {}
    return {"physicalLocation": physical | ({"region": region} if region else {})}


def _artifact(path: str, places: ReportPlaces) -> ReportJson:
    return {"uri": places.uri(path), "uriBaseId": ROOT}


def _region(span: Span) -> dict[str, ReportJson]:
    row, column = max(span.row, 1), max(span.column, 1)
    end_row, end_column = max((row, column), (span.end_row, span.end_column))
    return {"startLine": row, "startColumn": column, "endLine": end_row, "endColumn": max(end_column, 1)}


def _evidence(number: int, place: Place, run: _Run) -> ReportJson:
    said = _message(place.message, run.places.in_cell(place.path, place.span))
    return {"id": number, "message": {"text": said}, **_location(place.path, place.span, run)}


def _suppression(silenced: Silenced) -> ReportJson:
    kind = "inSource" if silenced.by is Silence.COMMENT else "external"
    return {"kind": kind, "status": "accepted", "justification": printable(silenced_by(silenced))}


def _fix(fix: Fix, run: _Run) -> ReportJson:
    if fix.applicability is Applicability.DISPLAY_ONLY:
        return None
    try:
        edits = run.places.edits_of(fix)
    except EditRefused:
        return None
    if not edits or not all(map(_can_be_written, edits)):
        return None
    said = _message(f"{fix.name} [{fix.applicability.value}]: {fix.message}")
    return {"description": {"text": said}, "artifactChanges": [*_changes(edits, run.places)]}


def _can_be_written(edit: TextEdit) -> bool:
    """Not in notebooks, whose rows are not the file's, and not where text holds bytes that are no characters."""
    return kind_of(edit.path) is not FileKind.NOTEBOOK and not re.search("[\ud800-\udfff]", edit.content)


def _changes(edits: Sequence[TextEdit], places: ReportPlaces) -> Iterator[ReportJson]:
    for path in sorted({edit.path for edit in edits}):
        mine = sorted((edit for edit in edits if edit.path == path), key=lambda edit: edit.span)
        made: list[ReportJson] = [
            {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.content}} for edit in mine
        ]
        yield {"artifactLocation": _artifact(path, places), "replacements": made}


def _notifications(report: Report, places: ReportPlaces) -> Iterator[ReportJson]:
    for each in sorted(report.failed_rules):
        rule: dict[str, ReportJson] = {"id": printable(each.path)}
        yield {"level": "error", "message": {"text": _message(each.reason)}, "associatedRule": rule}
    for each in sorted(report.skipped):
        yield _skipped(each, places)
    for finding in (each.finding for each in outcomes(report) if each.state is FindingState.LATER):
        where = places.shown(finding.path, finding.span)
        said = f"{FOUND_LATER}: {finding.code} {where} {finding.message}"
        yield {"level": "warning", "message": {"text": _message(said)}}


def _skipped(each: Skipped, places: ReportPlaces) -> ReportJson:
    said = _message(f"{places.path(each.path)}: {each.reason}")
    out: dict[str, ReportJson] = {"level": "note", "message": {"text": said}}
    location: ReportJson = {"physicalLocation": {"artifactLocation": _artifact(each.path, places)}}
    return out if each.path == "." else out | {"locations": [location]}
