"""The report as JUnit XML: findings as tests that fail, for CI systems that show nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, tostring

from ..outcome import Report, Skipped
from .outcomes import FindingState, Outcome, outcomes, reasons, rules_of
from .places import ReportPlaces
from .printable import printable

_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report, places: ReportPlaces) -> str:
    """One ``testsuite`` inside ``testsuites``, as an XML document to be written as UTF-8.

    ``check``: each finding is a ``testcase`` with a ``failure``. ``migrate``: those that are left, or come up only
    after the changes, are; a repaired finding is a case that passes and says so in ``system-out``. Both: each rule that
    found nothing is a case that passes, a rule that failed one with an ``error``, a skipped file one with ``skipped``.
    Silenced findings are not written. A report without any of these has one case that passes. ``line`` is the row of
    the file; the text of a case names a notebook's cell and counts inside it.
    """
    cases = [*_cases(report, places)]
    if not cases:
        cases = [_case("precfix", "no precision mistakes found")]
    suites = Element("testsuites")
    suite = SubElement(suites, "testsuite")
    suite.extend(cases)
    counts = {tag: sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error", "skipped")}
    numbers = {"tests": len(cases), "failures": counts["failure"], "errors": counts["error"]}
    for element in (suites, suite):
        element.set("name", "precfix")
        for name, number in numbers.items():
            element.set(name, str(number))
    suite.set("skipped", str(counts["skipped"]))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n'


def _cases(report: Report, places: ReportPlaces) -> Iterator[Element]:
    every = outcomes(report)
    for each in every:
        yield _finding(each, places)
    silent = {each.finding.code for each in every} | {each.path for each in report.failed_rules}
    for rule in rules_of(report):
        if rule.code not in silent:
            yield _case("precfix", f"{rule.code} {rule.name}")
    for trouble in sorted(report.failed_rules):
        yield _trouble("error", "precfix", trouble)
    for trouble in sorted(report.skipped):
        yield _trouble("skipped", trouble.path, trouble)


def _case(group: str, name: str) -> Element:
    return Element("testcase", {"classname": _text(group), "name": _text(name)})


def _finding(each: Outcome, places: ReportPlaces) -> Element:
    finding = each.finding
    rule = f"{finding.code} {finding.name}"
    where = places.start(finding.path, finding.span)
    case = _case(finding.path, f"{rule} at {where}")
    case.set("file", _text(places.path(finding.path)))
    case.set("line", str((places.rows(finding.path, finding.span) or (1,))[0]))
    said = SubElement(case, "system-out" if each.state is FindingState.REPAIRED else "failure")
    if each.state is not FindingState.REPAIRED:
        said.set("type", _text(rule))
        said.set("message", _text(finding.message))
    said.text = "\n".join(map(_text, [f"{where} {finding.message}", *reasons(each, places)]))
    return case


def _trouble(tag: str, group: str, each: Skipped) -> Element:
    case = _case(group, each.path)
    element = SubElement(case, tag, {"message": _text(each.reason)})
    if tag == "error":
        element.set("type", "RuleFailed")
    return case


def _text(text: str) -> str:
    """``text`` on one line, without the characters that XML cannot hold: they become escapes."""
    return _NO_XML.sub(lambda match: match[0].encode("unicode_escape").decode(), printable(text))
