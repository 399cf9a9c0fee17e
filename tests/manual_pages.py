"""The pages and tables of docs/ that are made from the rules' manuals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from precfix.codemod.model import Rule
from precfix.codemod.report.manual import fixes_of, manual_of

REQUIRED_SECTIONS = ("What goes wrong", "Why", "Fix", "Not flagged")


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One line of the table of rules."""

    code: str
    name: str
    title: str
    fixes: tuple[tuple[str, str], ...]
    """Name and applicability of each fix that the manual names."""


def rules_table(rules: Iterable[Rule]) -> list[RuleRow]:
    """The rules by code."""
    ordered = sorted(rules, key=lambda rule: rule.code)
    return [RuleRow(rule.code, rule.name, _title(rule), fixes_of(rule)) for rule in ordered]


def _title(rule: Rule) -> str:
    return rule.title.rstrip(".") + (" (off by default)" if rule.is_opt_in else "")


def manual_page(rule: Rule, example: str | None = None) -> str:
    """`manual_of` with an example (a unified diff) after the section on the fix."""
    text = manual_of(rule)
    if example is None:
        return text
    section = f"## Example\n\n```diff\n{example.rstrip()}\n```\n\n"
    head, heading, tail = text.partition("## Not flagged")
    return head + section + heading + tail if heading else f"{text}\n{section.rstrip()}\n"


def markdown_table(rows: Iterable[RuleRow], folder: str) -> str:
    """The rules as a Markdown table whose names link to the pages in ``folder``."""
    lines = ["| code | mistake | what is wrong | fixes |", "|---|---|---|---|"]
    for row in rows:
        fixes = ", ".join(f"`{name}` [{level}]" for name, level in row.fixes) or "reported only"
        link = f"[{row.name}]({folder}{row.name}.md)"
        lines.append(f"| {row.code} | {link} | {_cell(row.title)} | {fixes} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
