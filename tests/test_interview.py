"""The interview behind ``migrate --interactive`` without a terminal: what is asked, in which order, how often."""

from __future__ import annotations

import ast
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod import engine
from precfix.codemod.engine import Options
from precfix.codemod.interactive.interview import interviewed
from precfix.codemod.interactive.terminal import Terminal
from precfix.codemod.model import (
    Applicability,
    Edit,
    Finding,
    Fix,
    Place,
    RemoveStatement,
    ReplaceExpression,
    ReplaceText,
    Rule,
    Span,
    UsageError,
)
from precfix.codemod.outcome import Report, Screened, Target
from precfix.codemod.report.text import View, finding_lines, plain

from .nightly import examples
from .project_tree import open_tree

TARGET = Target("unknown", "a test")
SAFE, UNSAFE, SHOWN = Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY_ONLY


class Talk:
    """A migration in which the questions were answered from a list."""

    def __init__(
        self, root: Path, files: dict[str, str], rules: list[Rule], answers: str, options: Options | None = None
    ) -> None:
        """``answers`` are lines parted by blanks; after the last one the input ends."""
        self.before = files
        out = io.StringIO()
        source = io.StringIO("".join(f"{answer}\n" for answer in answers.split()))
        asking, interview = interviewed(options or Options(), Terminal(source, out))
        self.report: Report = engine.migrate(open_tree(root, files), rules, TARGET, asking)
        interview.end()
        self.screen = out.getvalue()
        self.unread = source.read()

    @property
    def after(self) -> dict[str, str]:
        return {**self.before, **{change.path: change.after.decode() for change in self.report.changes}}

    @property
    def asked(self) -> list[str]:
        """The headings of the questions."""
        return [line for line in self.screen.splitlines() if line.startswith("[")]


def statement_rule(code: str, name: str, *fixes: tuple[str, str, Applicability]) -> Rule:
    """Finds statements ``name``; each fix (name, replacement, applicability) replaces it, or removes it for ``""``."""

    def fix_of(path: str, span: Span, word: str, new: str, level: Applicability) -> Fix:
        edit = Edit(path, ReplaceExpression(span, (new,)) if new else RemoveStatement(span))
        return Fix(word, f"write {new or 'nothing'}", level, (edit,))

    def check(project: engine.Project) -> Iterator[Finding]:
        for document in project.python_documents():
            for node in ast.walk(document.tree):
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Name) and node.value.id == name:
                    path, span = document.path, document.span(node)
                    offered = tuple(fix_of(path, span, *fix) for fix in fixes)
                    yield Finding(code, f"no-{name}", f"{name} stands here", path, span, (), offered)

    return Rule(code, f"no-{name}", "", check)


DROP = statement_rule("T001", "one", ("drop", "", SAFE))
CHOICE = statement_rule("T001", "one", ("two", "two", SAFE), ("three", "three", UNSAFE), ("note", "four", SHOWN))


def test_what_was_declined_is_never_done_though_rows_move_and_lines_are_alike(tmp_path: Path) -> None:
    talk = Talk(tmp_path, {"a.py": "one\none\nx\none\n"}, [DROP], "y n y")
    assert talk.after == {"a.py": "one\nx\n"}
    assert len(talk.asked) == 3
    assert "2 fixes accepted, 1 declined" in talk.screen


@pytest.mark.parametrize("answers", ["n y n", "n n y", "y n n", "y y n"])
def test_every_pattern_of_answers_to_equal_lines(tmp_path: Path, answers: str) -> None:
    text = "def a():\n    one\n    x\ndef b():\n    one\n    y\ndef c():\n    one\n    z\n"
    talk = Talk(tmp_path, {"a.py": text}, [DROP], answers)
    kept = [answer == "n" for answer in answers.split()]
    blocks = zip("abc", "xyz", kept, strict=True)
    expected = "".join(f"def {name}():\n" + "    one\n" * keep + f"    {end}\n" for name, end, keep in blocks)
    assert talk.after == {"a.py": expected}
    assert len(talk.asked) == 3


STATEMENTS = st.lists(st.tuples(st.sampled_from(["one", "two", "x", "y"]), st.sampled_from(["\n", "; "])), max_size=9)


@settings(max_examples=examples(100))
@given(STATEMENTS, st.lists(st.booleans(), min_size=9, max_size=9))
def test_exactly_what_was_accepted_is_done_and_nothing_is_asked_twice(
    tmp_path_factory: pytest.TempPathFactory, statements: list[tuple[str, str]], answers: list[bool]
) -> None:
    other = statement_rule("T002", "two", ("next", "five", SAFE))
    text = "".join(name + end for name, end in statements) + "z\n"
    yes = iter(answers)
    expected = []
    for name, _ in statements:
        accepted = name in ("one", "two") and next(yes)
        expected += [] if accepted and name == "one" else ["five" if accepted else name]
    words = " ".join("yn"[not answer] for answer in answers)
    talk = Talk(tmp_path_factory.mktemp("project"), {"a.py": text}, [DROP, other], words)
    assert talk.after["a.py"].replace(";", "").split() == [*expected, "z"]
    assert len(talk.asked) == sum(name in ("one", "two") for name, _ in statements)


def test_where_answers_cannot_be_told_apart_the_question_is_put_again(tmp_path: Path) -> None:
    """A row like the declined one appears while the accepted one goes: two are alike, the answers were different."""
    born = statement_rule("T002", "seed", ("grow", "one", SAFE))
    talk = Talk(tmp_path, {"a.py": "one\nx\none\ny\nseed\n"}, [DROP, born], "y n y n n")
    assert talk.after == {"a.py": "x\none\ny\none\n"}
    assert len(talk.asked) == 5


def test_a_row_like_the_declined_one_that_appears_later_is_asked_about(tmp_path: Path) -> None:
    born = statement_rule("T002", "seed", ("grow", "one", SAFE))
    talk = Talk(tmp_path, {"a.py": "one\nseed\nx\n"}, [DROP, born], "n y n y")
    assert talk.after == {"a.py": "one\nx\n"}
    assert len(talk.asked) == 4


def test_a_declined_finding_whose_row_another_fix_changes_is_not_asked_about_again(tmp_path: Path) -> None:
    other = statement_rule("T002", "two", ("drop", "", SAFE))
    talk = Talk(tmp_path, {"a.py": "one; two; x\n"}, [DROP, other], "n y")
    assert talk.after == {"a.py": "one; x\n"}
    assert len(talk.asked) == 2


def test_a_fix_under_text_that_is_about_to_change_is_asked_about_when_it_has(tmp_path: Path) -> None:
    """Both rules want the same statement; after the first fix there is nothing left to ask."""
    other = statement_rule("T002", "one", ("six", "six", SAFE))
    assert Talk(tmp_path / "a", {"a.py": "one\n"}, [CHOICE, other], "y y").unread == "y\n"
    declined = Talk(tmp_path / "b", {"a.py": "one\n"}, [CHOICE, other], "n y")
    assert declined.after == {"a.py": "six\n"}


def test_later_rounds_ask_about_what_is_new(tmp_path: Path) -> None:
    other = statement_rule("T002", "two", ("next", "five", SAFE))
    talk = Talk(tmp_path, {"a.py": "one\n", "b.py": "x\n"}, [CHOICE, other], "y n")
    assert talk.after == {"a.py": "two\n", "b.py": "x\n"}
    assert [line.split()[0] for line in talk.asked] == ["[1/1]", "[2/2]"]


def test_an_unsafe_fix_is_offered_marked_and_done_when_it_is_accepted(tmp_path: Path) -> None:
    rule = statement_rule("T001", "one", ("two", "two", UNSAFE))
    talk = Talk(tmp_path, {"a.py": "one\n"}, [rule], "y")
    assert "Fix [unsafe] two: write two (numerics, memory or speed may change)\n" in talk.screen
    assert "Apply this unsafe fix [y,n,a,d,e,q,?]? " in talk.screen
    assert talk.after == {"a.py": "two\n"}


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (Options(), "Fix 2 [safe]"),
        (Options(unsafe_fixes=True), "Fix 1 [unsafe]"),
        (Options(chosen={"T001": "two"}), "Fix 1"),
    ],
)
def test_the_fix_proposed_is_the_one_that_would_be_used_without_asking(
    tmp_path: Path, options: Options, first: str
) -> None:
    rule = statement_rule("T001", "one", ("two", "two", UNSAFE), ("three", "three", SAFE))
    talk = Talk(tmp_path, {"a.py": "one\n"}, [rule], "n", options)
    assert next(line for line in talk.screen.splitlines() if line.startswith("Fix")).startswith(first)


def test_what_is_only_shown_has_no_number_and_cannot_be_chosen(tmp_path: Path) -> None:
    talk = Talk(tmp_path, {"a.py": "one\n"}, [CHOICE], "3 2 y")
    assert "\n  - [display-only] note: write four (shown only, never written)\n" in talk.screen
    assert "There is no fix with this number that may be written." in talk.screen
    assert talk.after == {"a.py": "three\n"}
    only = statement_rule("T001", "one", ("note", "four", SHOWN))
    silent = Talk(tmp_path / "only", {"a.py": "one\n"}, [only], "y")
    assert (silent.screen, silent.unread) == ("", "y\n")


def test_none_of_a_rule_covers_later_files_and_later_rounds(tmp_path: Path) -> None:
    born = statement_rule("T002", "seed", ("grow", "one", SAFE))
    talk = Talk(tmp_path, {"a.py": "one\n", "b.py": "seed\none\n"}, [DROP, born], "d y")
    assert talk.after == {"a.py": "one\n", "b.py": "one\none\n"}
    assert "precfix: 1 fix accepted, 3 declined" in talk.screen


def test_all_takes_only_what_is_proposed_in_the_same_way(tmp_path: Path) -> None:
    """A finding of the rule whose best fix is another one is still asked about."""

    def check(project: engine.Project) -> Iterator[Finding]:
        for finding in CHOICE.check(project):
            two, three, note = finding.fixes
            order = (three, two, note) if finding.path == "b.py" else (two, three, note)
            yield Finding(finding.code, finding.name, finding.message, finding.path, finding.span, (), order)

    files = {"a.py": "one\n", "b.py": "one\n", "c.py": "one\n"}
    rule = Rule("T001", "no-one", "", check)
    allowed = Options(unsafe_fixes=True)
    talk = Talk(tmp_path / "1", files, [rule], "a n", allowed)
    assert talk.after == {"a.py": "two\n", "b.py": "one\n", "c.py": "two\n"}
    chosen = Talk(tmp_path / "2", files, [rule], "2 a", allowed)
    assert chosen.after == {"a.py": "three\n", "b.py": "three\n", "c.py": "three\n"}


def test_a_refused_fix_cannot_be_accepted_but_another_one_can(tmp_path: Path) -> None:
    rule = statement_rule("T001", "one", ("broken", "(", SAFE), ("two", "two", SAFE), ("bad", ")", UNSAFE))
    talk = Talk(tmp_path, {"a.py": "one\n"}, [rule], "y a 3 2 y")
    assert talk.screen.count("this fix cannot be carried out: ") == 2
    assert talk.screen.count("That is not possible here.") == 2
    assert "Leave it [n,d,e,1-3,q,?]? " in talk.screen
    assert talk.after == {"a.py": "two\n"}


def test_a_fix_over_several_files_shows_all_of_them(tmp_path: Path) -> None:
    edits = (Edit("b.yaml", ReplaceText(3, 4, "2")), Edit("a.py", ReplaceExpression(Span(1, 1, 1, 4), ("two",))))
    fix = Fix("both", "both", SAFE, edits)
    evidence = (Place("b.yaml", Span(1, 4, 1, 5), "set here"),)
    finding = Finding("T001", "both", "two places", "a.py", Span(1, 1, 1, 4), evidence, (fix,))

    def check(project: engine.Project) -> Iterator[Finding]:
        document = project.document("a.py")
        if document is not None and document.text == "one\n":
            yield finding

    talk = Talk(tmp_path, {"a.py": "one\n", "b.yaml": "x: 1\n"}, [Rule("T001", "both", "", check)], "e y")
    assert "=== a.py\n@@ -1 +1 @@\n-one\n+two\n=== b.yaml\n@@ -1 +1 @@\n-x: 1\n+x: 2\n" in talk.screen
    assert "Evidence 1: b.yaml:1:4 set here\n  |\n1 | x: 1\n  |    ^\n" in talk.screen
    assert talk.after == {"a.py": "two\n", "b.yaml": "x: 2\n"}


def test_one_change_for_several_findings_is_asked_about_once(tmp_path: Path) -> None:
    fix = Fix("it", "do it", SAFE, (Edit("a.yaml", ReplaceText(3, 4, "2")),))

    def check(project: engine.Project) -> Iterator[Finding]:
        document = project.document("a.yaml")
        if document is not None and document.text.startswith("x: 1"):
            yield from (Finding("T001", "it", name, "a.yaml", Span(1, 1, 1, 2), (), (fix,)) for name in ("one", "two"))

    talk = Talk(tmp_path, {"a.yaml": "x: 1\n"}, [Rule("T001", "it", "", check)], "y")
    assert len(talk.asked) == 1
    assert talk.after == {"a.yaml": "x: 2\n"}
    assert "precfix: 2 fixes accepted, 0 declined" in talk.screen


def test_a_long_diff_and_a_long_line_are_cut_until_more_is_asked_for(tmp_path: Path) -> None:
    size = 100
    text = "x: " + "1\ny: " * size + "z" * 2000 + "\n"
    new = text.replace("1\n", "2\n").replace("z\n", "a\n")
    fix = Fix("it", "do it", SAFE, (Edit("a.yaml", ReplaceText(0, len(text), new)),))
    finding = Finding("T001", "it", "long", "a.yaml", Span(1, 1, 1, 2), (), (fix,))

    def check(project: engine.Project) -> Iterator[Finding]:
        document = project.document("a.yaml")
        return iter([finding] if document is not None and document.text == text else [])

    talk = Talk(tmp_path, {"a.yaml": text}, [Rule("T001", "it", "", check)], "m m y")
    first, whole = talk.screen.split("Apply this fix [y,n,a,d,e,m,q,?]? ")[:2]
    assert first.count("\n-") < 61
    assert "... 144 more lines left out or cut; m shows all" in first
    assert whole.count("\n-") == whole.count("\n+") == size + 1
    assert "more lines" not in whole
    assert talk.screen.count("That is not possible here.") == 1
    assert talk.after == {"a.yaml": new}


def test_findings_that_do_not_count_are_not_asked_about(tmp_path: Path) -> None:
    def screen(project: engine.Project, findings: tuple[Finding, ...]) -> Screened:
        return Screened(tuple(finding for finding in findings if finding.path != "a.py"))

    talk = Talk(tmp_path, {"a.py": "one\n", "b.py": "one\n"}, [DROP], "y", Options(screen=screen))
    assert len(talk.asked) == 1
    assert talk.asked[0].startswith("[1/1] b.py:1:1 ")
    assert talk.after == {"a.py": "one\n", "b.py": ""}


def test_fixes_that_never_settle_end_and_are_reported(tmp_path: Path) -> None:
    rules = [CHOICE, statement_rule("T002", "two", ("back", "one", SAFE))]
    talk = Talk(tmp_path, {"a.py": "one\n"}, rules, " ".join("y" * 50))
    assert len(talk.asked) == engine.MAX_ROUNDS
    assert any("did not settle" in skip.reason for skip in talk.report.skipped)


def test_quitting_asks_nothing_more_in_later_rounds_either(tmp_path: Path) -> None:
    other = statement_rule("T002", "two", ("next", "five", SAFE))
    talk = Talk(tmp_path, {"a.py": "one\n", "b.py": "one\n"}, [CHOICE, other], "y q y y")
    assert talk.after == {"a.py": "two\n", "b.py": "one\n"}
    assert talk.unread == "y\ny\n"


def test_text_in_other_encodings_and_with_other_newlines_is_shown_decoded(tmp_path: Path) -> None:
    root = tmp_path / "project"
    project = open_tree(root, {"a.py": "x\n"})
    data = "# coding: latin-1\r\n'\xe9'\r\none\r\n".encode("latin-1")
    (root / "a.py").write_bytes(data)
    out = io.StringIO()
    asking, _ = interviewed(Options(), Terminal(io.StringIO("y\n"), out))
    report = engine.migrate(project, [CHOICE], TARGET, asking)
    assert "=== a.py\n@@ -1,3 +1,3 @@\n # coding: latin-1\n '\xe9'\n-one\n+two\n" in out.getvalue()
    assert report.changes[0].after == data.replace(b"one", b"two")


@pytest.mark.parametrize("name", ["stdin", "stderr"])
def test_a_stream_that_is_closed_is_no_terminal(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for stream in ("stdin", "stderr"):
        terminal = io.StringIO()
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr(sys, stream, terminal)
    assert Terminal.here().out is sys.stderr
    monkeypatch.setattr(sys, name, None)
    with pytest.raises(UsageError, match=f"--interactive needs a terminal: {name}, "):
        Terminal.here()


@pytest.mark.parametrize("answers", ["", "y"])
def test_without_findings_nothing_is_said(tmp_path: Path, answers: str) -> None:
    assert Talk(tmp_path, {"a.py": "x\n"}, [DROP], answers).screen == ""


def test_a_finding_that_was_declined_is_not_said_to_have_been_skipped(tmp_path: Path) -> None:
    talk = Talk(tmp_path, {"a.py": "one\n"}, [CHOICE], "n")
    lines = plain(finding_lines(talk.report.remaining[0], View(lambda path: None, asked=True), left=True))
    assert "= not fixed: the fix was not accepted, or it could not be carried out (then see Skipped)\n" in lines
