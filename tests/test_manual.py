"""The manual of a rule is its docstring, cut into sections and rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from precfix.codemod.cli.manuals import manual_named
from precfix.codemod.model import Finding, Rule
from precfix.codemod.report.manual import fixes_of, manual_of, sections_of
from precfix.codemod.source.project import Project

from .fixture_cases import REPOSITORY
from .manual_pages import manual_page, markdown_table, rules_table

DOCS = """Two words | disagree.

## What goes wrong

It dies.

## Fix

`drop` [safe]: gone. `keep-a`, `keep-b` and
`keep-c` [unsafe] choose; `drop` [safe] again. `enabled=False` is no fix [safe], `shown` [display-only] is.

## Not flagged

Nothing.
"""


def check(_: Project) -> Iterator[Finding]:
    yield from ()


RULE = Rule("PF999", "two-words", DOCS.strip(), check)


def test_sections_are_found_in_order() -> None:
    assert list(sections_of(RULE)) == ["What goes wrong", "Fix", "Not flagged"]
    assert sections_of(RULE)["Not flagged"] == "Nothing."


def test_fixes_are_read_from_the_text_once_each() -> None:
    assert fixes_of(RULE) == (
        ("drop", "safe"),
        ("keep-a", "unsafe"),
        ("keep-b", "unsafe"),
        ("keep-c", "unsafe"),
        ("shown", "display-only"),
    )


def test_manual_starts_with_code_and_title() -> None:
    assert manual_of(RULE).startswith("# PF999 two-words\n\n**Two words | disagree.**\n\n## What goes wrong\n")
    assert manual_of(RULE).endswith("Nothing.\n")


def test_example_stands_before_the_look_alikes() -> None:
    page = manual_page(RULE, "-a\n+b\n")
    assert "```diff\n-a\n+b\n```\n\n## Not flagged" in page
    assert manual_page(RULE) == manual_of(RULE)


@pytest.mark.parametrize("docs", ["", "Only a title.", "Title.\n\nNo sections."])
def test_a_poor_docstring_is_no_error(docs: str) -> None:
    rule = Rule("PF998", "poor", docs, check)
    assert fixes_of(rule) == ()
    assert "reported only" in markdown_table(rules_table([rule]), "rules/")
    assert manual_page(rule, "-a\n").count("```") == 2


def test_table_rows_are_ordered_and_escaped() -> None:
    table = markdown_table(rules_table([RULE, Rule("PF001", "first", "One.", check)]), "rules/")
    first, second = table.splitlines()[2:]
    assert first.startswith("| PF001 | [first](rules/first.md) | One | reported only |")
    assert "Two words \\| disagree" in second


def test_every_kind_of_contradiction_that_a_finding_names_has_a_manual() -> None:
    kind = re.compile(r"\S+:\d+:\d+ PF\d+ .*\[([a-z0-9]+(?:-[a-z0-9]+)+)\]$", re.MULTILINE)
    told = {
        name
        for path in (REPOSITORY / "fixtures").rglob("expected.findings.txt")
        for name in kind.findall(path.read_text("utf-8"))
    }
    assert len(told) > 10
    for name in sorted(told):
        assert manual_named(name), name
