"""Reports for the tests of output formats: one of each kind, and one of a project that wants to do harm."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

from precfix.codemod.model import Applicability, Edit, EditRefused, Finding, Fix, Place, RemoveStatement, Rule, Span
from precfix.codemod.outcome import FileChange, Report, Silence, Silenced, Skipped, Target
from precfix.codemod.report import SourceText, TextEdit
from precfix.codemod.report.places import ReportPlaces

TARGET = Target("bf16-mixed", "the flag --to")
SAFE, UNSAFE, SHOWN = Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY_ONLY
MANUAL = "Scaling bf16 gradients.\n\n## What goes wrong\n\nNothing is\ngained.\n\nMore.\n\n## Fix\n\nRemove `it`.\n"
RULE = Rule("PF101", "scaler-under-bf16", MANUAL, lambda project: (), "https://example.org/PF101.md")
OTHER = Rule("PF900", "third-party", "A rule from elsewhere.", lambda project: (), "javascript:alert(1)")
ROWS = "scaler = GradScaler()\nscaler = GradScaler()\nscaler.step(opt)\n"

NASTY_PATHS = (
    "a\n::error::owned\r.py",
    "a b/ü/日本.py",
    "bad\udcff.py",
    "x'\"<script>&`|,:%0A]]></script>.py",
    "\x1b[2J\u202e\x00\ufffe\x0b.py",
    "::stop-commands::x.py",
    "#1 @octocat www.example.org.py",
)
NASTY_TEXTS = (
    "</details></script>]]>--><img src=x onerror=alert(1)>",
    "\r\n::error file=x::owned\n\n# Heading\n| a | b |\n- item",
    "@octocat #12 GH-12 https://evil.example www.evil.example a@evil.example mailto:a@evil.example ftp://evil.example",
    "[click](https://evil.example) ![x](https://evil.example/x.png) <https://evil.example> $x$ `code` **b** ~~s~~ {0}",
    "\x1b]0;owned\x07\u202e\u2066\u2028\x00\ufffe\uffff\ud800\udcff\x85 %0A %25 %3A%2C",
    "&lt;b&gt; &#64;octocat &copy; \\` \\@octocat",
    "``` ```` `` ~~~~ ```suggestion",
)


def finding(
    row: int = 1,
    path: str = "train.py",
    message: str = "it is wrong",
    *,
    fixes: tuple[Fix, ...] = (),
    evidence: tuple[Place, ...] = (),
    rule: Rule = RULE,
) -> Finding:
    return rule.found(Place(path, Span(row, 10, row, 22), message), evidence, fixes)


def fix(name: str = "drop", level: Applicability = SAFE, message: str = "remove the scaler", *paths: str) -> Fix:
    edits = tuple(Edit(path, RemoveStatement(Span(1, 1, 1, 2))) for path in paths or ("train.py",))
    return Fix(name, message, level, edits)


def is_harmless(text: str) -> bool:
    """Whether nothing in it moves a cursor, reorders or hides text, or cannot be encoded."""
    return not {unicodedata.category(char) for char in text} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


class Text:
    """A document as reports see it."""

    def __init__(self, text: str = ROWS, cell: int | None = None, rows: Callable[[int], int | None] = int) -> None:
        self.lines, self.cell, self.file_row = text.split("\n"), cell, rows

    def line(self, row: int) -> str:
        return self.lines[row - 1] if 1 <= row <= len(self.lines) else ""

    def cell_of(self, row: int) -> tuple[int, int] | None:
        return None if self.cell is None else (self.cell, row)

    def shown_column(self, row: int, column: int) -> int:
        return column


def source_of(path: str) -> SourceText | None:
    return None if path.startswith("missing") else Text()


def edits_of(each: Fix) -> tuple[TextEdit, ...]:
    if each.name == "refused":
        raise EditRefused("a comment is in the way")
    content = "\udcff" if each.name == "bytes" else "new\n"
    return tuple(TextEdit(edit.path, Span(1, 1, 2, 1), content) for edit in each.edits)


PLACES = ReportPlaces(source_of, edits_of)


def in_cell(rows: Callable[[int], int | None] = int) -> ReportPlaces:
    """All files are notebooks, of which cell 3 holds everything; ``rows``: where its rows stand in the file."""
    return ReportPlaces(lambda path: Text(cell=3, rows=rows), edits_of)


def checked(*findings: Finding, **parts: object) -> Report:
    """What ``check`` makes."""
    rules = (RULE, OTHER)
    return Report(TARGET, findings, remaining=findings, files_seen=7, rules=rules, **parts)  # type: ignore[arg-type]


WHY = Place("conf/a b.yaml", Span(2, 1, 2, 5), "bf16 is asked for here")
DROP, DISABLE = fix(), fix("disable", UNSAFE, "enabled=False; gradients are no longer scaled")
BOTH = fix("both", UNSAFE, "use bf16 in both places", "train.py", "conf/a b.yaml")
FULL = finding(1, fixes=(DROP, DISABLE, fix("think", SHOWN, "choose one")), evidence=(WHY,))
CHECKED = checked(
    FULL,
    finding(2, fixes=(BOTH,)),
    finding(3, "b.py", "nothing helps", rule=OTHER),
    skipped=(Skipped("x y.py", "line 3: invalid syntax"), Skipped(".", "fixes did not settle")),
    failed_rules=(Skipped("PF102", "ValueError: no"),),
    silenced=(
        Silenced(finding(9), Silence.COMMENT, "on purpose"),
        Silenced(finding(8), Silence.BASELINE),
        Silenced(finding(7), Silence.SETTINGS),
        Silenced(finding(6), Silence.UNCHANGED),
    ),
)


def migrated() -> Report:
    """Of three findings one is repaired, one goes with it, one stays; one comes up only afterwards."""
    gone, stays = finding(2, message="goes with it"), finding(3, "b.py", "stays", fixes=(DISABLE,))
    later = finding(2, "b.py", "comes up later")
    changes = (
        FileChange("train.py", ROWS.encode(), b"scaler.step(opt)\n"),
        FileChange("conf/a b.yaml", b"dtype: fp16\n", b"dtype: bf16\n"),
    )
    return Report(
        *(TARGET, (FULL, gone, stays), (finding(2, "b.py", "stays", fixes=(DISABLE,)), later), changes),
        applied=((FULL, BOTH),),
        files_seen=7,
        rules=(RULE, OTHER),
    )


def hostile(*, changed: bool = False) -> Report:
    """Every text that comes from a project is hostile, in every place that a report has."""
    findings, applied, changes = [], [], []
    for number, path in enumerate(NASTY_PATHS):
        text = NASTY_TEXTS[number % len(NASTY_TEXTS)]
        bad = Fix(text, text, UNSAFE, (Edit(path, RemoveStatement(Span(1, 1, 1, 2))),))
        place = Place(path, Span(1, 1, 1, 2), text)
        rule = Rule("PF101", f"n{text}", "", lambda project: ())
        findings.append(rule.found(Place(path, Span(1, 1, 2, 1), text), [place], [bad]))
        if changed and number % 2:
            applied.append((findings[-1], bad))
            before, after = (f"{mark}{text}\n".encode("utf-8", "replace") for mark in ("old ", "new "))
            changes.append(FileChange(path, before, after))
    left = tuple(each for each in findings if each not in dict(applied))
    trouble = tuple(Skipped(path, text) for path, text in zip(NASTY_PATHS, NASTY_TEXTS, strict=True))
    silenced = tuple(Silenced(finding(9, each.path), Silence.COMMENT, each.reason) for each in trouble)
    return Report(
        *(TARGET, tuple(findings), left, tuple(changes), tuple(applied), trouble, 7, 7, trouble, silenced),
    )


# --- real projects ----------------------------------------------------------------------------------------------------


def write_project(root: Path) -> Path:
    """Real mistakes under names that want to do harm; a notebook, and a file that cannot be read."""
    code = (
        "import torch\nfrom torch.cuda.amp import GradScaler, autocast\n\nscaler = GradScaler()\n"
        "for x in loader:\n    with autocast(dtype=torch.bfloat16):\n        loss = model(x)\n"
        "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n"
    )
    for name in ("plain.py", "a b ü.py", "::error::x,y%0A.py", "new\nline.py", "<script>`]]>.py"):
        (root / name).write_text(code)
    (root / "broken.py").write_text("from torch.cuda.amp import GradScaler\ndef (:\n")
    lines = ",\n".join('    "' + line.replace('"', '\\"') + '\\n"' for line in code.splitlines())
    cell = f'{{"cell_type": "code", "execution_count": null, "metadata": {{}}, "outputs": [], "source": [\n{lines}\n]}}'
    (root / "note book.ipynb").write_text(
        f'{{"cells": [\n{cell}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}'
    )
    return root
