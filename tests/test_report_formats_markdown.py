"""The Markdown summary, rendered by GitHub's own parser: complete, bounded, and no place for markup of the project."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod import engine
from precfix.codemod.cli.output import places_in
from precfix.codemod.model import Place, Span
from precfix.codemod.outcome import FileChange, Report, Skipped
from precfix.codemod.report.markdown_report import LIMIT, Advice, to_markdown
from precfix.codemod.report.markdown_text import code, escaped, fenced, link
from precfix.codemod.report.printable import printable
from precfix.codemod.source.project import Project
from precfix.transforms import load

from .nightly import examples
from .report_samples import (
    CHECKED,
    DISABLE,
    DROP,
    NASTY_PATHS,
    NASTY_TEXTS,
    PLACES,
    TARGET,
    checked,
    finding,
    fix,
    hostile,
    in_cell,
    migrated,
    write_project,
)

cmarkgfm = pytest.importorskip("cmarkgfm", reason="GitHub's Markdown parser: pip install cmarkgfm")

TABLE = {"table", "thead", "tbody", "tr", "th", "td"}
OURS = TABLE | {"p", "h2", "h3", "ul", "li", "strong", "em", "code", "pre", "details", "summary", "a", "span"}


class Page(HTMLParser):
    """A rendered page: its tags, links, and the text outside and inside of code."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.links: list[str] = []
        self.prose, self.code = "", ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._open.append(tag)
        assert tag in OURS, tag
        for name, value in attrs:
            numbers = tag in ("th", "td") and (name, value) == ("align", "right")
            assert numbers or (tag, name) in {("a", "href"), ("pre", "lang"), ("code", "class")}, (tag, name)
            if name == "href":
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "code" in self._open:
            self.code += data
        else:
            self.prose += data + ("\u200b" if self._open[-1:] == ["span"] else "")

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def rendered(markdown: str) -> Page:
    """As GitHub renders a comment: raw HTML allowed, tables, autolinks, strikethrough."""
    options = cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE | cmarkgfm.cmark.Options.CMARK_OPT_GITHUB_PRE_LANG
    extensions = ("table", "autolink", "strikethrough", "tasklist", "tagfilter")
    return Page(cmarkgfm.markdown_to_html_with_extensions(markdown, options, list(extensions)))


def calls_nobody(prose: str) -> bool:
    """GitHub looks for these in the finished page, outside of code."""
    return not re.search(r"@\w|#\w|\bGH-\d|://|\bwww\.|\$(?!\u200b)", prose, re.IGNORECASE)


def test_several_rules_have_a_table() -> None:
    """What a reviewer of a large change looks for first: how much of what, and what is left."""
    one, two = finding(path="a.py"), replace(finding(path="b.py"), code="PF302", name="a|b")
    report = Report(TARGET, (one, replace(one, path="c.py"), two))
    text = to_markdown(report, PLACES)
    assert "| rule | found | left |\n|---|---:|---:|\n| PF101 " in text
    page = rendered(text)
    assert (page.tags.count("tr"), page.tags.count("td")) == (3, 6)
    assert "<table" not in to_markdown(Report(TARGET, (one,)), PLACES)
    assert "| rule |" not in to_markdown(Report(TARGET, (one,)), PLACES)


# --- what a reviewer reads --------------------------------------------------------------------------------------------


def test_migrate_in_full() -> None:
    advice = Advice("precfix migrate . --unsafe-fixes", unsafe_fixes=True)
    assert to_markdown(migrated(), PLACES, advice) == (
        "## precfix: 1 fix in 2 files, 2 findings left\n"
        "\n"
        "Target: **bf16-mixed**.\n"
        "Nothing has been written yet.\n"
        "1 change may alter numerics, memory or speed; marked below.\n"
        "\n"
        "### `train.py` +0 -2\n"
        "\n"
        "**PF101** [scaler-under-bf16](https://example.org/PF101.md), fix `both` "
        "[unsafe: **numerics, memory or speed may change**]\n"
        "\n"
        "*What changes:* use bf16 in both places\n"
        "\n"
        "- `train.py:1` it is wrong\n"
        "  - because `conf/a b.yaml:2` bf16 is asked for here\n"
        "- also changes `conf/a b.yaml`\n"
        "\n"
        "### Left as it is\n"
        "\n"
        "- `b.py:2` **PF101** [scaler-under-bf16](https://example.org/PF101.md): comes up later\n"
        "  - not fixed: there is no automatic repair\n"
        "\n"
        "- `b.py:2` **PF101** [scaler-under-bf16](https://example.org/PF101.md): stays\n"
        "  - fix `disable` [unsafe: **numerics, memory or speed may change**]: "
        "enabled=False; gradients are no longer scaled\n"
        "  - not fixed: refused (then see Skipped), left by a move to another precision, or still found after it\n"
        "\n"
        "### What to type\n"
        "\n"
        "```sh\n"
        "precfix migrate . --unsafe-fixes  # writes these changes\n"
        "```\n"
        "\n"
        "To suppress a finding, write a comment on its line: `# precfix: ignore[PF101] reason`\n"
        "\n"
        "<details>\n"
        "<summary>Diff of 2 files</summary>\n"
        "\n"
        "```diff\n"
        "diff --git a/conf/a b.yaml b/conf/a b.yaml\n"
        "--- a/conf/a b.yaml\t\n"
        "+++ b/conf/a b.yaml\t\n"
        "@@ -1 +1 @@\n"
        "-dtype: fp16\n"
        "+dtype: bf16\n"
        "diff --git a/train.py b/train.py\n"
        "--- a/train.py\n"
        "+++ b/train.py\n"
        "@@ -1,3 +1 @@\n"
        "-scaler = GradScaler()\n"
        "-scaler = GradScaler()\n"
        " scaler.step(opt)\n"
        "```\n"
        "\n"
        "</details>\n"
    )


def test_check_says_what_could_be_done_and_what_is_missing() -> None:
    text = to_markdown(CHECKED, PLACES)
    assert text.startswith("## precfix: 3 findings in 2 files, 2 fixable\n")
    assert "4 findings silenced (baseline 1, comment 1, settings 1, unchanged 1)." in text
    assert "- `train.py:1` **PF101**" in text
    assert "  - fix `drop` [safe: same numerics, or it removes a certain crash]: remove the scaler\n" in text
    assert "  - not fixed: there is no automatic repair" in text
    assert "- rule PF102 failed (please report this): ValueError: no" in text
    assert "- `x y.py`: line 3: invalid syntax" in text
    assert "precfix migrate .  # writes the fixes\nprecfix migrate . --unsafe-fixes  # also fixes" in text
    assert "<details>" not in text
    page = rendered(text)
    assert page.tags.count("h3") == 3
    assert set(page.links) == {"https://example.org/PF101.md"}


@pytest.mark.parametrize(
    ("report", "advice", "commands"),
    [
        (checked(finding(fixes=(DISABLE,))), Advice(), ["precfix migrate . --unsafe-fixes"]),
        (checked(finding(fixes=(DROP,))), Advice("precfix migrate 'a b'"), ["precfix migrate 'a b'"]),
        (checked(finding()), Advice(), []),
        (migrated(), Advice(written=True, unsafe_fixes=True, undo="precfix undo x"), ["precfix undo x"]),
        (migrated(), Advice(), ["precfix migrate .", "precfix migrate . --unsafe-fixes"]),
    ],
)
def test_commands(report: Report, advice: Advice, commands: list[str]) -> None:
    text = to_markdown(report, PLACES, advice)
    block = re.search(r"```sh\n(.*?)\n```", text, re.DOTALL)
    assert [line.partition("  # ")[0] for line in (block[1].split("\n") if block else [])] == commands
    assert "`# precfix: ignore[PF101] reason`" in text


def test_reports_without_findings() -> None:
    text = to_markdown(Report(TARGET, (), files_seen=3), PLACES)
    assert text == "## precfix: no precision mistakes found in 3 files\n\nTarget: **bf16-mixed**.\n"
    failed = to_markdown(Report(TARGET, (), failed_rules=(Skipped("PF1", "x"),)), PLACES)
    assert failed.startswith("## precfix: no precision mistakes found in 0 files, 1 rule failed\n")
    assert "rule PF1 failed" in failed


def test_notebooks_and_prefix() -> None:
    places = replace(in_cell(), prefix="sub/")
    assert "- `sub/train.py:cell 3:2` **PF101**" in to_markdown(checked(finding(2)), places)


# --- nothing of the project is markup ---------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("written", [False, True])
def test_a_hostile_project(changed: bool, written: bool) -> None:
    report = hostile(changed=changed)
    text = to_markdown(report, PLACES, Advice(written=written))
    text.encode("utf-8")
    page = rendered(text)
    assert page.links == []
    assert page.tags.count("details") == changed
    assert page.tags.count("h2") == 1
    assert calls_nobody(page.prose)
    shown = page.prose.replace("\u200b", "") + page.code
    for each in NASTY_TEXTS:
        assert printable(each) in shown
    for path in NASTY_PATHS:
        assert printable(path) in page.code
    assert "left out" not in text


PIECES = st.one_of(
    st.sampled_from([*NASTY_TEXTS, *"`~*_[]()<>&|\\$@#!:/.-+=\n\r\t '\"", "```", "~~~", "</details>", "www.", "GH-1"]),
    st.text(max_size=5),
)


@settings(max_examples=examples(100))
@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_shown_as_it_is(text: str) -> None:
    page = rendered(
        f"- before {escaped(text)} after\n- {code(text)} end\n\n{fenced(printable(text), 'diff')}\n\nlast\n"
    )
    shown = printable(text)
    assert set(page.tags) <= {"ul", "li", "code", "span", "p", "pre"}
    assert " ".join(shown.split()) in " ".join(page.prose.replace("\u200b", "").split())
    assert calls_nobody(page.prose)
    assert page.code.endswith(shown + "\n")
    assert page.tags.count("pre") == 1
    assert page.prose.rstrip().endswith("last")


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://x) [a](b", "https://x>y", "", "http://x\ny", "//x"])
def test_links_to_anything_else_are_text(url: str) -> None:
    assert link("name", url) == "name"
    assert rendered(link("na](x)me", "https://example.org/a_b.md?c=1#d")).links == ["https://example.org/a_b.md?c=1#d"]


def test_a_fence_is_longer_than_any_inside() -> None:
    change = FileChange("a.md", b"x\n", b"````````\n</details>\n```\n")
    text = to_markdown(Report(TARGET, (), changes=(change,)), PLACES)
    assert "`````````diff\n" in text
    page = rendered(text)
    assert (page.tags.count("details"), page.tags.count("pre")) == (1, 2)
    assert "+````````\n+</details>\n+```\n" in page.code


# --- how long ---------------------------------------------------------------------------------------------------------


def long_report(changed: bool, text: str = "m" * 300, number: int = 400) -> Report:
    evidence = tuple(Place("e.py", Span(row, 1, row, 2), text) for row in range(1, 30))
    findings = tuple(
        finding(row, f"p{row:03}.py", text, fixes=(DROP, fix("other", message=text)), evidence=evidence)
        for row in range(1, number)
    )
    data = b"\n".join(b"`" * 700 + b"%d" % row for row in range(2000))
    changes = (FileChange("p001.py", b"", data),) if changed else ()
    applied = tuple((each, DROP) for each in findings[::2]) if changed else ()
    skipped = tuple(Skipped(f"s{row}.py", text) for row in range(number))
    return Report(TARGET, findings, findings[1::2] if changed else findings, changes, applied, skipped, 9)


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize(
    "text",
    ["m", "$" * 700, "`" * 700, "@#" * 350, "\u202e" * 700],
    ids=["short", "dollars", "backticks", "calls", "escapes"],
)
@pytest.mark.parametrize("limit", [LIMIT, 6_000])
def test_length_is_bounded(changed: bool, text: str, limit: int) -> None:
    summary = to_markdown(long_report(changed, text, 30), PLACES, limit=limit)
    assert len(summary) <= limit
    page = rendered(summary)
    assert calls_nobody(page.prose)
    assert "left out" in summary or (text == "m" and limit == LIMIT and not changed)


def test_what_is_left_out_is_counted() -> None:
    summary = to_markdown(long_report(True), PLACES)
    assert LIMIT // 2 < len(summary) <= LIMIT
    shown = summary.count("*What changes:*")
    assert f"*{200 - shown} changes more left out: the summary would be too long.*" in summary
    assert 0 < shown < 200
    left = int(re.findall(r"(\d+) findings more left out", summary)[0])
    assert left + len(re.findall(r"- not fixed", summary)) == 199
    cut, lines = map(int, re.findall(r"\*(\d+) of (\d+) lines left out", summary)[0])
    block = summary.partition("diff\n")[2]
    assert cut + len(re.findall(r"^\+`+", block, re.M)) + 4 == lines
    assert "and 19 more reasons" in summary


def test_a_real_project(tmp_path: Path) -> None:
    project = Project.open([write_project(tmp_path)])
    places = places_in(project)
    options = engine.Options(unsafe_fixes=True)
    report = engine.migrate(project, load(), TARGET, options)
    summary = to_markdown(report, places, Advice(unsafe_fixes=True))
    page = rendered(summary)
    assert page.tags.count("details") == 1
    assert summary.count("*What changes:*") >= len(report.changes)
    for change in report.changes:
        assert f"### {code(change.path)} +" in summary
    assert "note book.ipynb:cell 1:" in summary
    assert calls_nobody(page.prose)


def test_the_order_of_findings_does_not_matter() -> None:
    for report in (CHECKED, migrated(), hostile(changed=True)):
        back = replace(
            report,
            findings=report.findings[::-1],
            remaining=report.remaining[::-1],
            changes=report.changes[::-1],
            applied=report.applied[::-1],
            skipped=report.skipped[::-1],
            silenced=report.silenced[::-1],
        )
        assert to_markdown(back, PLACES) == to_markdown(report, PLACES)
