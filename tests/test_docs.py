"""The documentation cannot go stale: what is generated equals what would be generated now, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from precfix.codemod.model import Rule
from precfix.codemod.report.manual import fixes_of, manual_of, sections_of

from .fixture_cases import REPOSITORY, all_rules, cases
from .generated_docs import generated_docs
from .manual_pages import REQUIRED_SECTIONS, rules_table

RULES = pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)")


def test_generated_documentation_is_fresh() -> None:
    stale = [
        path.relative_to(REPOSITORY).as_posix()
        for path, text in generated_docs().items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    assert stale == [], "run `python -m tests.regenerate`"


def test_no_page_of_a_rule_that_is_gone() -> None:
    assert set((REPOSITORY / "docs" / "rules").glob("*.md")) <= set(generated_docs())


@RULES
def test_manual_has_its_sections_in_order(rule: Rule) -> None:
    found = [name for name in sections_of(rule) if name in REQUIRED_SECTIONS]
    assert found == list(REQUIRED_SECTIONS)
    assert all(sections_of(rule)[name] for name in REQUIRED_SECTIONS)


@RULES
def test_title_is_one_line_that_fits_a_table(rule: Rule) -> None:
    assert rule.title
    assert len(rule.title) <= 110
    assert manual_of(rule).startswith(f"# {rule.code} {rule.name}\n")


@RULES
def test_every_rule_has_a_case_that_finds_and_one_that_stays_silent(rule: Rule) -> None:
    names = [case.folder.name for case in cases() if case.mistake == rule.name]
    assert [name for name in names if not name.startswith("silent-")], "a fixture that shows the mistake"
    assert [name for name in names if name.startswith("silent-")], "a fixture with look-alikes, called silent-*"


@RULES
def test_fixes_in_fixtures_are_named_in_the_manual(rule: Rule) -> None:
    """``fix drop [safe]`` in an expectation needs its ``drop`` [safe] in the manual."""
    seen = set()
    for case in cases():
        expected = case.folder / "expected.findings.txt"
        if case.mistake == rule.name and expected.is_file():
            for finding in expected.read_text("utf-8").split("\n\n"):
                if f" {rule.code} " in finding.partition("\n")[0]:
                    seen |= set(re.findall(r"^    fix ([a-z0-9-]+) \[([a-z-]+)\]", finding, re.MULTILINE))
    assert seen <= set(fixes_of(rule))


@RULES
def test_what_a_safe_fix_is_proved_to_be_is_told(rule: Rule) -> None:
    """docs/safety.md has a line for every rule whose manual names a safe fix."""
    rows = [line for line in (REPOSITORY / "docs/safety.md").read_text("utf-8").splitlines() if line.startswith("| PF")]
    told = {code.strip() for line in rows for code in line.split("|")[1].split(",")}
    assert rule.code in told or not any(level == "safe" for _, level in fixes_of(rule))


def test_codes_and_names_are_unique() -> None:
    rows = rules_table(all_rules())
    assert len({row.code for row in rows}) == len({row.name for row in rows}) == len(rows)


@pytest.mark.parametrize(
    "path",
    [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))],
    ids=lambda path: path.name,
)
def test_links_lead_to_files(path: Path) -> None:
    broken = [link for link in LINK.findall(path.read_text("utf-8")) if not (path.parent / link).exists()]
    assert broken == []


def test_readme_commands_name_what_exists() -> None:
    text = (REPOSITORY / "README.md").read_text("utf-8")
    for named in re.findall(r"\b((?:fixtures|docs|tests)/[\w./-]+[\w])", text):
        assert (REPOSITORY / named).exists(), named
