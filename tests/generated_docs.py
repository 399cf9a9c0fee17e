"""What the generated documentation must hold: one page per rule, their index, and the tables between markers."""

from __future__ import annotations

import re
from pathlib import Path

from precfix.codemod.model import Rule
from precfix.codemod.outcome import Report, Target
from precfix.codemod.report.audit_report import show_audit
from precfix.codemod.report.places import ReportPlaces
from precfix.codemod.report.text import plain
from precfix.codemod.source.project import Project
from precfix.codemod.trainers.reading.auditing import ledger_of
from precfix.codemod.trainers.reading.declared import declared_regime
from precfix.transforms.frameworks import load_frameworks
from precfix.transforms.rounding.optimizer_table import rows

from .fixture_cases import DIFF, FIXTURES, REPOSITORY, all_rules, cases
from .manual_pages import manual_page, markdown_table, rules_table

BEGIN, END = "<!-- {}: written by python -m tests.regenerate -->", "<!-- end of {} -->"
GENERATED = "<!-- Written by python -m tests.regenerate from the rule's docstring and its fixtures; do not edit. -->\n"
INDEX_HEAD = """# The mistakes precfix knows

Each rule is named for the mistake. Fixes are `[safe]` (same numerics, or they remove a certain crash), `[unsafe]`
(numerics, memory or speed may change; written only with `--unsafe-fixes`) or `[display-only]` (printed, never written).

"""


def generated_docs() -> dict[Path, str]:
    """Path -> the text it must have, for every generated file and every file with a generated part."""
    rules = all_rules()
    pages = REPOSITORY / "docs" / "rules"
    texts = {pages / f"{rule.name}.md": GENERATED + "\n" + manual_page(rule, example_of(rule)) for rule in rules}
    texts[pages / "README.md"] = GENERATED + "\n" + INDEX_HEAD + markdown_table(rules_table(rules), "")
    readme = REPOSITORY / "README.md"
    text = between(readme.read_text("utf-8"), "rules", markdown_table(rules_table(rules), "docs/rules/"))
    text = between(text, "example", f"```diff\n{quickstart_diff()}```\n")
    losses = REPOSITORY / "docs" / "silent-losses.md"
    texts[losses] = between(losses.read_text("utf-8"), "kept updates", kept_updates())
    texts[readme] = between(text, "audit", f"```console\n{audited('five_places')}```\n")
    return texts


def kept_updates() -> str:
    """What becomes of updates of 16-bit weights, by optimizer and by option of a trainer, each with its source."""
    lines = ["| optimizer or trainer | value | keeps | unless | source |", "|---|---|---|---|---|"]
    for row in rows():
        named = ", ".join(f"`{name}`" for name in row.names if name)
        whose = f"{row.trainer}: {row.option}" if row.trainer else "optimizer"
        keeps = f"{row.keeps}, with `{row.when}`; else nothing" if row.when else row.keeps
        lines.append(f"| {whose} | {named} | {keeps} | {row.unless} | {row.source} |")
    return "\n".join(lines) + "\n"


def quickstart_diff() -> str:
    """What the first command of README.md prints: in this repository, so with names from its top."""
    folder = FIXTURES / "projects" / "quickstart"
    text = (folder / DIFF).read_text("utf-8")
    below = (folder / "input").relative_to(REPOSITORY).as_posix()
    for mark, side in (("--- ", "a/"), ("+++ ", "b/")):
        text = text.replace(f"\n{mark}{side}", f"\n{mark}{side}{below}/")
    return re.sub(r"(?m)^diff --git a/(\S+) b/(\S+)$", rf"diff --git a/{below}/\1 b/{below}/\2", text)


def audited(project: str) -> str:
    """What ``precfix audit`` prints for one of the example projects."""
    root = FIXTURES / "projects" / project / "input"
    opened = Project.open([root]).with_frameworks(load_frameworks())
    ledger = ledger_of(opened)
    report = Report(Target.declared(declared_regime(opened)), (), files_seen=len(opened.paths))
    lines = show_audit(ledger.runs, ledger.elsewhere, report, ReportPlaces(lambda path: None))
    return f"$ precfix audit .\n{plain(lines)}"


def example_of(rule: Rule) -> str | None:
    """The diff of the rule's fixture that is marked as the example, else of its first one with a diff."""
    mine = [case for case in cases() if case.mistake == rule.name and (case.folder / DIFF).is_file()]
    marked = [case for case in mine if case.settings.example]
    for case in (*marked, *mine):
        return (case.folder / DIFF).read_text("utf-8")
    return None


def between(text: str, name: str, content: str) -> str:
    """``text`` with the part between the two markers called ``name`` replaced."""
    begin, end = BEGIN.format(name), END.format(name)
    head, found_begin, rest = text.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"markers {begin!r} ... {end!r} are missing")
    return f"{head}{begin}\n\n{content}\n{end}{tail}"
