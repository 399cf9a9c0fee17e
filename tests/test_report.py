"""What people and programs are shown: the text of the project must reach the reader exactly, and do no harm."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from precfix.codemod.model import Applicability, Edit, EditRefused, Finding, Fix, Place, RemoveStatement, Rule, Span
from precfix.codemod.outcome import Declaration, FileChange, Report, Silence, Silenced, Skipped, Target
from precfix.codemod.report import TextEdit
from precfix.codemod.report.applied import show_applied
from precfix.codemod.report.frame import MAX_WIDTH, frame
from precfix.codemod.report.json_report import to_json
from precfix.codemod.report.places import ReportPlaces
from precfix.codemod.report.printable import printable, width
from precfix.codemod.report.tally import settled
from precfix.codemod.report.text import Level, View, plain, show, show_findings
from precfix.codemod.source.documents import Document, FileKind

HERE = Span(1, 1, 1, 2)
TARGET = Target("bf16-mixed", "the flag --to")
SAFE, UNSAFE, SHOWN = Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY_ONLY


class Text:
    """A document as reports see it; in a notebook every ``%%`` row starts a cell."""

    def __init__(self, text: str, *, notebook: bool = False) -> None:
        self.lines = re.split("\r\n|\n|\r", text)
        self.notebook = notebook

    def line(self, row: int) -> str:
        return self.lines[row - 1] if 1 <= row <= len(self.lines) else ""

    def cell_of(self, row: int) -> tuple[int, int] | None:
        if not self.notebook or not 1 <= row <= len(self.lines) or self.line(row) == "%%":
            return None
        starts = [at for at, line in enumerate(self.lines[:row], 1) if line == "%%"]
        return len(starts), row - starts[-1]

    def shown_column(self, row: int, column: int) -> int:
        return column


def fix(name: str = "drop", level: Applicability = SAFE, message: str = "remove the scaler") -> Fix:
    return Fix(name, message, level, (Edit("train.py", RemoveStatement(Span(1, 1, 1, 2))),))


def finding(
    span: Span = HERE, fixes: Sequence[Fix] = (), path: str = "train.py", message: str = "it is wrong"
) -> Finding:
    return Finding("PF101", "scaler-with-bf16", message, path, span, (), tuple(fixes))


def view(text: str = "", **options: Any) -> View:
    return View(lambda path: Text(text), **options)


def framed(text: str, span: Span, *, notebook: bool = False) -> str:
    return plain(frame(Text(text, notebook=notebook), span))


# --- the code frame ---------------------------------------------------------------------------------------------------


def test_frame_shows_two_rows_of_context_and_carets() -> None:
    text = "\n".join(f"line{n} = f(x)" for n in range(1, 15))
    assert framed(text, Span(10, 10, 10, 14)) == (
        "   |\n"
        " 8 | line8 = f(x)\n"
        " 9 | line9 = f(x)\n"
        "10 | line10 = f(x)\n"
        "   |          ^^^^\n"
        "11 | line11 = f(x)\n"
        "12 | line12 = f(x)\n"
    )


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("    x = MARK()", "MARK"),
        ("\tif a:\tMARK", "MARK"),
        ("日本 = '\uff57\uff49', MARK", "MARK"),
        ("s = '🔥🔥' + MARK", "MARK"),
        ("cafe\u0301 = MARK", "MARK"),
        ("a\x0cb\x1b[31m\u202e = MARK", "MARK"),
        ("x = '日本'", "'日本'"),
        ("k" * 400 + " MARK " + "z" * 400, "MARK"),
        ("日" * 400 + " MARK " + "本" * 400, "MARK"),
        ("\x1b" * 400 + " MARK " + "z" * 400, "MARK"),
        ("k" * 400 + " MARK", "MARK"),
        ("\t" * 60 + "MARK", "MARK"),
    ],
)
def test_carets_stand_under_the_span(line: str, mark: str) -> None:
    start = line.index(mark) + 1
    _, code, carets = framed(line, Span(1, start, 1, start + len(mark))).splitlines()
    before = carets[: carets.index("^")]
    assert carets[len(before) :] == "^" * width(mark)
    cells = ""
    for char in code:
        if width(cells) == len(before):
            break
        cells += char
    assert code[len(cells) :].startswith(mark)
    assert "\t" not in code
    assert code.isprintable()


def test_long_rows_are_cut_around_the_span() -> None:
    line = "x" * 5_000_000 + "MARK" + "y" * 5_000_000
    code = framed(line, Span(1, 5_000_001, 1, 5_000_005)).splitlines()[1]
    assert "xxMARKyy" in code
    assert code.startswith("1 | ...")
    assert code.endswith(" ...")
    assert len(code) < MAX_WIDTH + 20


def test_code_is_never_wrapped_or_taken_for_markup() -> None:
    line = "def f(x: Optional[int], y: list[/foo] = [bold red]) -> dict[str, :fire:]: ..."
    assert line in framed(line, Span(1, 5, 1, 6))


def test_a_span_of_many_rows() -> None:
    text = "\n".join(["f(", *(f"    a{n}," for n in range(9)), ")", "after"])
    assert framed(text, Span(1, 1, 11, 2)) == (
        "  |\n1 | f(\n  | ^^\n2 |     a0,\n  |     ^^^\n3 |     a1,\n  |     ^^^\n4 |     a2,\n  |     ^^^\n  | ...\n"
    )
    assert framed("a = (\n  b\n)\nc\n", Span(1, 5, 3, 2)).splitlines()[2:] == [
        *("  |     ^", "2 |   b", "  |   ^", "3 | )", "  | ^", "4 | c")
    ]


@pytest.mark.parametrize(
    "span",
    [Span(1, 1, 1, 1), Span(1, 99, 1, 120), Span(1, 3, 99, 1), Span(1, 2, 2, 1), Span(9, 1, 9, 2), Span(0, 0, 0, 0)],
)
def test_spans_that_are_empty_or_out_of_range(span: Span) -> None:
    shown = framed("abc\nd", span)
    assert shown == "" or "^" in shown


def test_context_stays_inside_the_notebook_cell() -> None:
    text = "%%\nother\n%%\na = 1\nb = MARK\n%%\nlater"
    assert framed(text, Span(5, 5, 5, 9), notebook=True) == "  |\n1 | a = 1\n2 | b = MARK\n  |     ^^^^\n"


# --- text -------------------------------------------------------------------------------------------------------------


def shown(report: Report, **options: Any) -> str:
    return plain(show_findings(report, view("scaler = GradScaler()\nscaler.step()", **options)))


def test_a_finding_in_full() -> None:
    each = Finding(
        *("PF101", "scaler-with-bf16", "GradScaler is active while gradients are bfloat16", "train.py"),
        Span(1, 10, 1, 22),
        (Place("conf/a.yaml", Span(2, 1, 2, 3), "autocast is bfloat16"),),
        (fix(), fix("disable", UNSAFE, "enabled=False"), fix("think", SHOWN, "choose one")),
    )
    assert shown(Report(TARGET, (each,), files_seen=3)) == (
        "train.py:1:10 PF101 scaler-with-bf16 GradScaler is active while gradients are bfloat16\n"
        "  |\n"
        "1 | scaler = GradScaler()\n"
        "  |          ^^^^^^^^^^^^\n"
        "2 | scaler.step()\n"
        "  = because: conf/a.yaml:2 autocast is bfloat16\n"
        "  = fix [safe] drop: remove the scaler\n"
        "  = or [unsafe] disable: enabled=False\n"
        "  = or [display-only] think: choose one\n"
        "\n"
        "1 finding in 1 file; 1 fixable\n"
        "Read 3 files.\n"
    )


@pytest.mark.parametrize(
    ("fixes", "unsafe_fixes", "reason"),
    [
        ([], True, "there is no automatic repair"),
        ([fix(level=UNSAFE), fix(level=SHOWN)], False, "needs --unsafe-fixes"),
        ([fix(level=SHOWN)], True, "display-only"),
        ([fix(level=SHOWN), fix(level=UNSAFE)], True, None),
        ([fix(level=UNSAFE), fix()], False, None),
    ],
)
def test_why_a_finding_is_not_fixed(fixes: list[Fix], unsafe_fixes: bool, reason: str | None) -> None:
    text = shown(Report(TARGET, (finding(fixes=fixes),)), unsafe_fixes=unsafe_fixes)
    given = re.findall(r"= not fixed: (.*)", text)
    assert len(given) == (reason is not None)
    assert reason is None or reason in given[0]


def test_what_was_left_out_is_counted_by_reason() -> None:
    left_out = (
        Skipped("data/", "named by .gitignore"),
        Skipped("env/bin/", "of a Python environment"),
        Skipped("env/lib/", "of a Python environment"),
        Skipped("mine.json", "named by .gitignore"),
    )
    report = Report(TARGET, (), files_seen=1, skipped=(Skipped("x.py", "not parsed"),), left_out=left_out)
    left = "1 file and 1 folder named by .gitignore, 2 folders of a Python environment"
    assert shown(report).splitlines()[-2:] == [
        "No precision mistakes found in 1 file (1 file skipped).",
        f"Read 1 file, skipped 1; left out {left}; -v lists them.",
    ]
    assert "  left out: mine.json (named by .gitignore)" in shown(report, level=Level.VERBOSE).splitlines()
    assert shown(report, level=Level.QUIET) == ""


def test_summary_counts() -> None:
    findings = (
        finding(fixes=[fix()]),
        finding(Span(2, 1, 2, 2), [fix(level=UNSAFE)]),
        finding(Span(2, 3, 2, 4), [fix(level=SHOWN)], path="b.py"),
    )
    report = Report(TARGET, findings, files_seen=9)
    told = "3 findings in 2 files; 2 fixable (1 with --unsafe-fixes)"
    assert shown(report).splitlines()[-2:] == [told, "Read 9 files."]
    assert shown(report, unsafe_fixes=True).splitlines()[-2] == "3 findings in 2 files; 2 fixable"
    assert shown(Report(TARGET, (), files_seen=9)) == "No precision mistakes found in 9 files.\n"
    assert shown(Report(TARGET, (), files_seen=1)) == "No precision mistakes found in 1 file.\n"


def test_levels() -> None:
    skipped = tuple(Skipped(f"{n:02}.py", "not Python") for n in range(12))
    report = Report(TARGET, (finding(fixes=[fix()]),), skipped=skipped, failed_rules=(Skipped("PF1", "ValueError"),))
    quiet = shown(report, level=Level.QUIET)
    assert quiet.splitlines()[0] == "train.py:1:1 PF101 scaler-with-bf16 it is wrong"
    assert "PF1: ValueError" in quiet
    assert "not Python" not in quiet
    normal, verbose = shown(report), shown(report, level=Level.VERBOSE)
    assert normal.count("not Python") == 10
    assert "and 2 more" in normal
    assert "Skipped (12)" in normal
    assert verbose.count("not Python") == 12
    assert "Target: bf16-mixed (the flag --to)" in verbose
    assert "Target" not in normal


def test_a_notebook_place() -> None:
    source = Text("%%\na\n%%\nb\nc = 1\n", notebook=True)
    each = Finding(*("PF1", "n", "m", "x.ipynb"), Span(5, 1, 5, 2), (Place("x.ipynb", Span(2, 1, 2, 2), "here"),))
    text = plain(show_findings(Report(TARGET, (each,)), View(lambda path: source)))
    assert text.startswith("x.ipynb:cell 2:2:1 PF1 n m\n")
    assert "= because: x.ipynb:cell 1:1 here" in text


def test_findings_are_in_order_and_sources_may_be_missing() -> None:
    findings = (finding(path="b.py"), finding(Span(9, 1, 9, 2)), finding(Span(2, 1, 2, 2)), finding(path="a.py"))
    text = plain(show_findings(Report(TARGET, findings), View(lambda path: None, Level.QUIET)))
    assert re.findall(r"^(\S+:\d+):", text, re.M) == ["a.py:1", "b.py:1", "train.py:2", "train.py:9"]


HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\u202e\u2066\u2028\x9b31m\ud800\x00\ufeff\x7f"


def test_nothing_of_the_project_reaches_the_terminal_as_a_command() -> None:
    bad = Fix(HOSTILE, HOSTILE, SAFE, (Edit(HOSTILE, RemoveStatement(Span(1, 1, 1, 2))),))
    each = Finding("PF1", HOSTILE, HOSTILE, HOSTILE, HERE, (Place(HOSTILE, HERE, HOSTILE),), (bad,))
    trouble = (Skipped(HOSTILE, HOSTILE),)
    change = FileChange(HOSTILE, b"a", b"b")
    report = Report(
        *(Target(HOSTILE, HOSTILE), (each,), (each,), (change,), ((each, bad),)), skipped=trouble, failed_rules=trouble
    )
    look = View(lambda path: Text("x" + HOSTILE.replace("\r\n", "")), Level.VERBOSE)
    for lines in (list(show_findings(report, look)), list(show_applied(report, look))):
        for line in plain(lines).split("\n"):
            assert line.isprintable(), repr(line)
        stream = io.StringIO()
        show(lines, stream, color=True)
        left = re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue())
        assert left == plain(lines)


def test_printable_keeps_what_is_harmless() -> None:
    harmless = "Optional[int] é 日本 👩\u200d💻 naïve\u00a0x ñ"
    assert printable(harmless) == harmless
    assert printable("a\tb\nc\x7f\x85") == "a\\tb\\nc\\x7f\\x85"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


MARKUP = "def f(x: Optional[int], [/foo] [bold]x :smile: https://x.y 'str' 12) " + "long " * 80


@pytest.mark.parametrize("color", [None, True])
def test_color_changes_nothing_but_color(monkeypatch: pytest.MonkeyPatch, color: bool | None) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    report = Report(TARGET, (finding(fixes=[fix(message=MARKUP)], message=MARKUP),), skipped=(Skipped(MARKUP, MARKUP),))
    lines = list(show_findings(report, view(MARKUP)))
    stream = Terminal()
    show(lines, stream, color=color)
    assert "\x1b[" in stream.getvalue()
    assert re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue()) == plain(lines)


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list(show_findings(Report(TARGET, (finding(),)), view("x")))
    for stream, color in ((io.StringIO(), None), (Terminal(), False)):
        show(lines, stream, color=color)
        assert stream.getvalue() == plain(lines)
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    show(lines, stream)
    assert stream.getvalue() == plain(lines)


@pytest.mark.parametrize("color", [True, False])
def test_a_stream_that_cannot_hold_every_character(color: bool) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    show([(("é 日本 ok", "text"),)], stream, color=color)
    stream.flush()
    assert b"\\xe9 \\u65e5\\u672c ok\n" in raw.getvalue()


def test_plain_output_does_not_import_rich() -> None:
    code = (
        "import io, sys\n"
        "from precfix.codemod.report.text import show\n"
        "import precfix.codemod.report.applied, precfix.codemod.report.json_report\n"
        "show([(('x', 'text'),)], io.StringIO())\n"
        "assert not {'rich', 'libcst', 'typer'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


# --- what was applied -------------------------------------------------------------------------------------------------


def test_applied_fixes_by_file() -> None:
    drop = fix(message="remove the scaler; gradients are no longer scaled")
    both = Fix("set", "use bf16 in both", UNSAFE, (*drop.edits, Edit("conf.yaml", RemoveStatement(Span(1, 1, 1, 2)))))
    one, two = finding(Span(1, 1, 1, 2), [drop]), finding(Span(2, 1, 2, 2), [drop])
    three, left = finding(Span(3, 1, 3, 2), [both]), finding(Span(1, 1, 1, 2), [fix()], path="left.py")
    report = Report(
        *(TARGET, (one, two, three, left), (left,)),
        changes=(FileChange("train.py", b"a\nb\nc\n", b"b\nd\ne\n"), FileChange("conf.yaml", b"a", b"b")),
        applied=((one, drop), (two, drop), (three, both)),
    )
    assert plain(show_applied(report, view("x"))) == (
        "conf.yaml +1 -1\n"
        "  PF101 scaler-with-bf16 [unsafe] set: use bf16 in both\n"
        "    at train.py:3: it is wrong\n"
        "\n"
        "train.py +2 -2\n"
        "  PF101 scaler-with-bf16 [safe] drop: remove the scaler; gradients are no longer scaled\n"
        "    at row 1, 2: it is wrong\n"
        "  PF101 scaler-with-bf16 [unsafe] set: use bf16 in both\n"
        "    at row 3: it is wrong\n"
        "\n"
        "Still found after these changes:\n"
        "\n"
        "left.py:1:1 PF101 scaler-with-bf16 it is wrong\n"
        "  |\n"
        "1 | x\n"
        "  | ^\n"
        "  = fix [safe] drop: remove the scaler\n"
        "  = not fixed: refused (then see Skipped), left by a move to another precision, or still found after it\n"
        "\n"
        "Applied 3 fixes in 2 files; 1 finding left. Take it back with: precfix undo\n"
    )
    dry = plain(show_applied(report, view("x"), dry_run=True)).splitlines()[-1]
    assert dry == "Would apply 3 fixes in 2 files; 1 finding left."


def test_nothing_applied() -> None:
    clean = plain(show_applied(Report(TARGET, (), files_seen=4), view()))
    assert clean == "No precision mistakes found in 4 files; nothing changed.\n"
    last = plain(show_applied(Report(TARGET, (finding(),), (finding(),)), view("x"))).splitlines()[-1]
    assert last == "Applied 0 fixes in 0 files; 1 finding left."


def test_left_findings_are_shown_in_the_changed_text() -> None:
    one, moved = finding(Span(3, 1, 3, 5)), finding(Span(1, 1, 1, 5))
    change = FileChange("train.py", b"a\nb\nMARK\n", b"MARK\n")
    report = Report(TARGET, (one,), (moved,), (change,), ((finding(Span(1, 1, 2, 2)), fix()),))
    look = View(lambda path: Text(change.before.decode()))
    assert "train.py:1:1 PF101 scaler-with-bf16 it is wrong\n  |\n1 | MARK\n  | ^^^^\n" in plain(
        show_applied(report, look, root="some/where")
    )
    assert plain(show_applied(report, look, root="some/where")).endswith("precfix undo some/where\n")


def test_a_fix_that_waited_for_a_later_round_belongs_to_the_finding_as_it_was() -> None:
    one, two = (finding(Span(row, 1, row, 2), [fix()], message="m") for row in (3, 9))
    other = finding(Span(4, 1, 4, 2), [fix()], message="x")
    later, new = finding(Span(7, 1, 7, 2), [fix()], message="m"), finding(HERE, [fix()], message="only then")
    report = Report(TARGET, (one, two, other), applied=((one, fix()), (later, fix()), (new, fix())))
    assert [each for each, _ in settled(report)] == [one, two, new]
    assert [each["applied"] for each in as_json(report)["diagnostics"]] == [True, False, True]


def test_masked_notebook_lines_are_shown_as_written() -> None:
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cell["source"] = "x = 1\nif x:\n    !run MARK\n"
    data = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    document = Document("x.ipynb", FileKind.NOTEBOOK, data)
    start = document.position(document.text.index("MARK"))
    each = Finding("PF1", "n", "m", "x.ipynb", Span(*start, start[0], start[1] + 4))
    assert plain(show_findings(Report(TARGET, (each,)), View(lambda path: document))).startswith(
        "x.ipynb:cell 1:3:10 PF1 n m\n  |\n1 | x = 1\n2 | if x:\n3 |     !run MARK\n  |          ^^^^\n"
    )


# --- JSON -------------------------------------------------------------------------------------------------------------


class Cells:
    """A notebook whose cells have three rows and a border row each."""

    def line(self, row: int) -> str:
        return ""

    def cell_of(self, row: int) -> tuple[int, int]:
        return (row - 1) // 4 + 1, (row - 1) % 4

    def file_row(self, row: int) -> int:
        return row

    def shown_column(self, row: int, column: int) -> int:
        return column


def edits_of(each: Fix) -> tuple[TextEdit, ...]:
    if each.name == "refused":
        raise EditRefused("a comment is in the way")
    return (TextEdit("train.py", Span(1, 1, 2, 1), ""),)


PLACES = ReportPlaces(lambda path: Cells() if path == "x.ipynb" else None, edits_of)


def as_json(report: Report, **options: Any) -> Any:
    text = to_json(report, PLACES, **options)
    assert text.isascii()
    assert text.endswith("}\n")
    return json.loads(text)


def test_json_in_full() -> None:
    one = Finding(
        *("PF101", "scaler-with-bf16", "it is wrong", "train.py", Span(3, 5, 3, 9)),
        (Place("a.yaml", Span(2, 1, 2, 3), "bf16 here"),),
        (fix(), fix("disable", UNSAFE, "enabled=False")),
    )
    report = Report(
        *(TARGET, (one,)),
        changes=(FileChange("train.py", b"a", b"b"),),
        skipped=(Skipped("x.py", "line 3: invalid syntax"),),
        left_out=(Skipped("env/lib/", "of a Python environment"),),
        failed_rules=(Skipped("PF102", "ValueError"),),
        files_seen=7,
        files_parsed=2,
        silenced=(
            Silenced(finding(path="known.py"), Silence.BASELINE),
            Silenced(finding(Span(9, 1, 9, 4)), Silence.COMMENT, "on purpose"),
        ),
        rules=(Rule("PF101", "scaler-with-bf16", "Title.", lambda project: (), "https://example.org/PF101"),),
    )
    edits = [
        {
            "filename": "train.py",
            "location": {"row": 1, "column": 1},
            "end_location": {"row": 2, "column": 1},
            "content": "",
        }
    ]
    assert as_json(report) == {
        "version": 1,
        "target": "bf16-mixed",
        "target_source": "the flag --to",
        "diagnostics": [
            {
                "code": "PF101",
                "name": "scaler-with-bf16",
                "message": "it is wrong",
                "filename": "train.py",
                "location": {"row": 3, "column": 5},
                "end_location": {"row": 3, "column": 9},
                "evidence": [{"filename": "a.yaml", "row": 2, "message": "bf16 here"}],
                "fix": {"name": "drop", "applicability": "safe", "message": "remove the scaler", "edits": edits},
                "applied": False,
                "remaining": False,
                "alternatives": [
                    {"name": "disable", "applicability": "unsafe", "message": "enabled=False", "edits": edits}
                ],
                "url": "https://example.org/PF101",
            }
        ],
        "skipped": [{"filename": "x.py", "reason": "line 3: invalid syntax"}],
        "left_out": [{"filename": "env/lib/", "reason": "of a Python environment"}],
        "silenced": [
            {
                "code": "PF101",
                "filename": "known.py",
                "location": {"row": 1, "column": 1},
                "end_location": {"row": 1, "column": 2},
                "by": "baseline",
                "reason": None,
            },
            {
                "code": "PF101",
                "filename": "train.py",
                "location": {"row": 9, "column": 1},
                "end_location": {"row": 9, "column": 4},
                "by": "comment",
                "reason": "on purpose",
            },
        ],
        "failed_rules": [{"code": "PF102", "reason": "ValueError"}],
        "summary": {
            "findings": 1,
            "files_with_findings": 1,
            "fixable": 1,
            "fixable_unsafe": 0,
            "applied": 0,
            "remaining": 0,
            "by_code": {"PF101": 1},
            "by_applicability": {"safe": 1, "unsafe": 0, "display-only": 0, "none": 0},
            "files_seen": 7,
            "files_parsed": 2,
            "files_changed": 1,
            "skipped": 1,
            "left_out": 1,
            "silenced": 2,
            "off_target": [],
        },
    }


def test_json_names_the_fix_that_was_chosen() -> None:
    first, second = fix(), fix("disable", UNSAFE)
    each = finding(fixes=[first, second])
    (out,) = as_json(Report(TARGET, (each,), applied=((each, second),)))["diagnostics"]
    assert (out["fix"]["name"], out["applied"], [each["name"] for each in out["alternatives"]]) == (
        "disable",
        True,
        ["drop"],
    )
    (out,) = as_json(Report(TARGET, (finding(),)))["diagnostics"]
    assert (out["fix"], out["alternatives"], out["url"]) == (None, [], None)
    (out,) = as_json(Report(TARGET, (finding(fixes=[fix("refused")]),)))["diagnostics"]
    assert (out["fix"]["edits"], out["fix"]["refused"]) == ([], "a comment is in the way")


def test_json_in_notebooks_counts_rows_inside_the_cell() -> None:
    each = Finding(*("PF1", "n", "m", "x.ipynb"), Span(6, 1, 8, 5), (Place("x.ipynb", Span(2, 1, 2, 2), "e"),))
    (out,) = as_json(Report(TARGET, (each,)))["diagnostics"]
    assert (out["cell"], out["location"], out["end_location"]) == (
        *(2, {"row": 1, "column": 1}),
        {"row": 3, "column": 5},
    )
    assert out["evidence"] == [{"filename": "x.ipynb", "cell": 1, "row": 1, "message": "e"}]
    whole_last_row = finding(Span(4, 1, 5, 1), path="x.ipynb")
    (out,) = as_json(Report(TARGET, (whole_last_row,)))["diagnostics"]
    assert (out["cell"], out["end_location"]) == (1, {"row": 4, "column": 1})


def test_json_declarations_only_for_audit() -> None:
    each = Declaration("a.yaml", Span(2, 1, 2, 5), "lightning", "trainer.precision", "compute dtype", "16-mixed")
    assert "declarations" not in as_json(Report(TARGET, ()))
    assert as_json(Report(TARGET, ()), declarations=[each])["declarations"] == [
        {
            "filename": "a.yaml",
            "location": {"row": 2, "column": 1},
            "end_location": {"row": 2, "column": 5},
            "framework": "lightning",
            "key": "trainer.precision",
            "role": "compute dtype",
            "value": "16-mixed",
            "regime": None,
            "condition": None,
        }
    ]


def test_json_is_the_same_in_any_order() -> None:
    findings = [finding(Span(n, 1, n, 2), path=path) for path in ("b.py", "a.py") for n in (3, 1, 2)]
    one, other = Report(TARGET, tuple(findings)), Report(TARGET, tuple(reversed(findings)))
    assert to_json(one, PLACES) == to_json(other, PLACES)


def test_json_holds_any_text() -> None:
    (out,) = as_json(Report(TARGET, (finding(path="bad\udcff\n.py", message=HOSTILE),)))["diagnostics"]
    assert (out["filename"], out["message"]) == ("bad\udcff\n.py", HOSTILE)
