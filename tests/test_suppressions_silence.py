"""Findings that comments silence, and comments that silence nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod import engine
from precfix.codemod.model import Applicability, Edit, Finding, Fix, ReplaceText, Rule, Span
from precfix.codemod.outcome import Report, Screened, Silence, Target
from precfix.codemod.screening.suppressing import silence, without_protected_edits
from precfix.codemod.source.documents import FileKind
from precfix.codemod.source.project import Project
from precfix.codemod.source.store import FileStore
from precfix.transforms.suppression.unused_suppression import rule as UNUSED

from .fixture_cases import write_files
from .nightly import examples

TARGET = Target("auto", "test")


def words(code: str, name: str, word: str, into: str = "", **more: tuple[str, ...]) -> Rule:
    """A rule that finds a word on any row of a Python file outside of comments, and replaces it by another one."""

    def check(project: Project) -> Iterator[Finding]:
        for path in project.paths:
            document = project.document(path)
            if document is None:
                continue
            for found in re.finditer(rf"\b{word}\b", re.sub("#[^\r\n]*", lambda at: " " * len(at[0]), document.text)):
                row, column = document.position(found.start())
                edit = Edit(path, ReplaceText(found.start(), found.end(), into))
                fixes = (Fix("replace", "replace it", Applicability.SAFE, (edit,)),) if into else ()
                span = Span(row, column, row, column + len(word))
                yield Finding(code, name, f"{word} was found", path, span, (), fixes)

    return Rule(code, name, "", check, **more)  # type: ignore[arg-type]  # depends_on only


ONE = words("AB101", "bad-one", "one")
TWO = words("AB102", "bad-two", "two")
OTHER = words("CD101", "bad-other", "other", "one")
ON_MACHINE = words("CD201", "on-machine", "machine", depends_on=("profile",))
ALL = (ONE, TWO, OTHER, ON_MACHINE, UNUSED)


def run(root: Path, files: Mapping[str, str], ran: tuple[Rule, ...] = ALL, repair: bool = False) -> Report:
    write_files(root, {name: text.encode() for name, text in files.items()})

    def screen(project: Project, found: tuple[Finding, ...]) -> Screened:
        return silence(project, found, ran, ALL)

    work = engine.migrate if repair else engine.check
    return work(Project.open([root]), ran, TARGET, engine.Options(screen=screen))


def told(report: Report) -> list[tuple[str, int, str]]:
    return [(each.code, each.span.row, each.message) for each in report.findings]


def rows_of(report: Report, code: str) -> list[int]:
    return [each.span.row for each in report.findings if each.code == code]


def repaired(root: Path, text: str, path: str = "a.py", ran: tuple[Rule, ...] = ALL) -> str:
    changes = run(root, {path: text}, ran, repair=True).changes
    return changes[0].after.decode() if changes else text


# --- silencing --------------------------------------------------------------------------------------------------------


def test_a_comment_silences_what_it_names(tmp_path: Path) -> None:
    report = run(tmp_path, {"a.py": "one, two  # precfix: ignore[AB101] why\none\n"})
    assert [(code, row) for code, row, _ in told(report)] == [("AB102", 1), ("AB101", 2)]
    (silenced,) = report.silenced
    assert (silenced.finding.code, silenced.by, silenced.reason) == ("AB101", Silence.COMMENT, "why")


@pytest.mark.parametrize("codes", ["AB101, AB102", "AB", "ab1", "bad-one bad-two", "AB102, bad-one", "AB101,AB102,"])
def test_codes_beginnings_and_names(codes: str, tmp_path: Path) -> None:
    assert told(run(tmp_path, {"a.py": f"one, two  # precfix: ignore[{codes}]\n"})) == []


def test_what_is_silenced_is_not_repaired(tmp_path: Path) -> None:
    text = "other  # precfix: ignore[CD101]\n"
    assert repaired(tmp_path, text) == text


def test_a_whole_file(tmp_path: Path) -> None:
    files = {"a.py": "one\ntwo\n# precfix: ignore-file[AB101] why\none\n", "b.py": "one\n"}
    report = run(tmp_path, files)
    assert [(each.code, each.path) for each in report.findings] == [("AB102", "a.py"), ("AB101", "b.py")]
    assert len(report.silenced) == 2


def test_a_bare_ignore_file_silences_everything_and_is_never_unused(tmp_path: Path) -> None:
    text = "# precfix: ignore-file copied\n{} = 1  # precfix: noqa\nx = 2  # precfix: ignore[AB101]\n"
    report = run(tmp_path, {"a.py": text.format("one"), "b.py": text.format("fine")})
    assert told(report) == []
    assert [each.reason for each in report.silenced] == ["copied"]


def test_no_fix_touches_a_file_with_a_bare_ignore_file(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"a.py": b"x = 1\n", "b.py": b"# precfix: ignore-file\n", "c.py": b"# precfix: ignore-file[A]\n"}
    )
    project = Project.open([tmp_path])

    def fix(*paths: str) -> Fix:
        return Fix("x", "x", Applicability.SAFE, tuple(Edit(path, ReplaceText(0, 0, "#")) for path in paths))

    finding = Finding(
        "AB101", "bad-one", "x", "a.py", Span(1, 1, 1, 2), (), (fix("a.py"), fix("a.py", "b.py"), fix("c.py"))
    )
    assert [each.fixes for each in without_protected_edits(project, [finding])] == [(fix("a.py"), fix("c.py"))]
    assert silence(project, [finding], ALL, ALL).findings[0].fixes == (fix("a.py"), fix("c.py"))


# --- unused -----------------------------------------------------------------------------------------------------------


def test_unused_comments_are_found_and_removed(tmp_path: Path) -> None:
    text = "x = 1  # precfix: ignore[AB101] gone\n  # precfix: ignore[AB102]\ny = 2\n"
    report = run(tmp_path, {"a.py": text})
    assert told(report) == [
        ("PF002", 1, "AB101 has nothing to silence here"),
        ("PF002", 2, "AB102 has nothing to silence here"),
    ]
    assert repaired(tmp_path, text) == "x = 1\ny = 2\n"


def test_only_the_unused_codes_go(tmp_path: Path) -> None:
    text = "one  # precfix: ignore[AB102, bad-one, CD101] why\n"
    (finding,) = run(tmp_path, {"a.py": text}).findings
    assert finding.message == "AB102, CD101 have nothing to silence here"
    assert repaired(tmp_path, text) == "one  # precfix: ignore[bad-one] why\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # noqa: E501  # precfix: ignore[AB101]\n", "x = 1  # noqa: E501\n"),
        ("x = 1  # precfix: ignore[AB101] why # noqa: E501\n", "x = 1  # noqa: E501\n"),
        ("x = 1  # precfix: ignore[AB101] see #12\t\n", "x = 1\t\n"),
        ("# noqa  # precfix: ignore[AB101]\nx = 1\n", "# noqa\nx = 1\n"),
        ("# precfix: ignore[AB101]  # noqa\nx = 1\n", "# noqa\nx = 1\n"),
        ("x = 1\n# precfix: ignore[AB101]", "x = 1"),
        ("x = 1\r\n\t# precfix: ignore[AB101]\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n"),
        ("# precfix: ignore[AB101]", ""),
        ("def f():  # precfix: ignore[AB101]\n    # precfix: ignore[AB101]\n    pass\n", "def f():\n    pass\n"),
        ("# precfix: ignore-file[AB101]\nx = 1\n", "x = 1\n"),
    ],
)
def test_what_is_removed_is_the_comment_and_nothing_else(before: str, after: str, tmp_path: Path) -> None:
    trailing = "\t\n" if before.endswith("\t\n") else ""
    assert repaired(tmp_path, before) == (after if not trailing else after.replace("\t\n", "\n")) or (
        repaired(tmp_path, before) == after
    )


def test_a_comment_inside_a_continued_command_is_not_taken_away(tmp_path: Path) -> None:
    text = "run \\\n# precfix: ignore[AB101]\n--x\n"
    (finding,) = run(tmp_path, {"a.sh": text}).findings
    assert (finding.code, finding.fixes) == ("PF002", ())


def test_comments_go_after_all_other_repairs(tmp_path: Path) -> None:
    """``other`` becomes ``one``, which the comment is for."""
    text = "other  # precfix: ignore[AB101]\n"
    assert rows_of(run(tmp_path, {"a.py": text}), "PF002") == [1]
    assert repaired(tmp_path, text) == "one  # precfix: ignore[AB101]\n"


def test_comments_about_rules_that_did_not_run_are_not_judged(tmp_path: Path) -> None:
    files = {"a.py": "x  # precfix: ignore[AB101]\nx  # precfix: ignore[AB101, AB102]\nx  # precfix: ignore[AB]\n"}
    assert rows_of(run(tmp_path, files, (ONE, UNUSED)), "PF002") == [1]
    assert rows_of(run(tmp_path, files, (ONE, TWO, UNUSED)), "PF002") == [1, 2, 3]
    assert told(run(tmp_path, files, (ONE, TWO))) == []


def test_comments_about_rules_that_depend_on_the_machine_are_not_judged(tmp_path: Path) -> None:
    files = {"a.py": "x  # precfix: ignore[CD201]\nx  # precfix: ignore[CD]\nx  # precfix: ignore[CD101]\n"}
    assert rows_of(run(tmp_path, files), "PF002") == [3]


def test_nothing_is_judged_while_a_rule_fails(tmp_path: Path) -> None:
    def failing(project: Project) -> Iterator[Finding]:
        raise ValueError("broken")
        yield

    report = run(tmp_path, {"a.py": "x  # precfix: ignore[AB101]\n"}, (ONE, Rule("XY1", "x", "", failing), UNUSED))
    assert report.findings == ()
    assert [each.path for each in report.failed_rules] == ["XY1"]


@pytest.mark.parametrize(
    ("path", "text"), [("a.py", "x  # precfix: ignore[AB101]\ndef\n"), ("a.yaml", "# precfix: ignore[AB101]\na: [\n")]
)
def test_files_that_cannot_be_read_are_not_judged(path: str, text: str, tmp_path: Path) -> None:
    assert told(run(tmp_path, {path: text})) == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("AB1O1", "did you mean AB101?"),
        ("AB103", "did you mean AB10"),
        ("bad-onee", "bad-one?"),
        ("ZZ", "precfix rules"),
    ],
)
def test_unknown_codes_are_told_with_what_was_meant(code: str, said: str, tmp_path: Path) -> None:
    (finding,) = run(tmp_path, {"a.py": f"x  # precfix: ignore[{code}]\n"}).findings
    assert finding.code == "PF002"
    assert f"no rule '{code}'" in finding.message
    assert said in finding.message
    assert finding.fixes == ()


def test_malformed_comments_are_told_and_silence_nothing(tmp_path: Path) -> None:
    report = run(tmp_path, {"a.py": "one  # precfix: noqa\n"})
    assert [code for code, _, _ in told(report)] == ["AB101", "PF002"]
    assert "write `# precfix: ignore[" in report.findings[1].message


# --- the rule about itself --------------------------------------------------------------------------------------------


def test_unused_comments_can_be_silenced(tmp_path: Path) -> None:
    texts = [
        "x  # precfix: ignore[AB101, PF002] soon\n",
        "# precfix: ignore[unused-suppression]\nx  # precfix: ignore[AB101]\n",
        "# precfix: ignore[PF002]\n# precfix: ignore[AB101]\nx = 1\n",
        "# precfix: ignore[PF002]\nx  # precfix: noqa\n",
        "# precfix: ignore-file[PF002]\nx  # precfix: noqa\nx  # precfix: ignore[AB101]\n",
    ]
    for number, text in enumerate(texts):
        report = run(tmp_path / str(number), {"a.py": text})
        assert told(report) == [], text
        assert report.silenced, text


def test_what_silences_no_unused_comment_is_unused_itself(tmp_path: Path) -> None:
    text = "x  # precfix: ignore[PF002]\none  # precfix: ignore[AB101, PF002]\n# precfix: ignore-file[PF002]\n"
    assert told(run(tmp_path, {"a.py": text})) == [
        ("PF002", 1, "PF002 has nothing to silence here"),
        ("PF002", 2, "PF002 has nothing to silence here"),
        ("PF002", 3, "PF002 has nothing to silence in this file"),
    ]
    assert repaired(tmp_path, text) == "x\none  # precfix: ignore[AB101]\n"


def test_beginnings_of_codes_do_not_silence_this_rule(tmp_path: Path) -> None:
    assert rows_of(run(tmp_path, {"a.py": "x  # precfix: ignore[PF, AB101]\n"}), "PF002") == [1]


# --- anything ---------------------------------------------------------------------------------------------------------

CODES = st.lists(st.sampled_from(["AB101", "AB102", "AB", "bad-one", "CD101", "PF002", "CD2", "nope"]), max_size=3)
COMMENTS = st.builds(
    "# precfix: {}[{}]{}".format, st.sampled_from(["ignore", "ignore-file"]), CODES.map(", ".join), st.just(" r")
)
ROWS = st.builds(
    "{}{}".format,
    st.sampled_from(["one", "two", "one, two", "x = 1", "", "if one: two", "other", "f(\n one,\n two)"]),
    st.one_of(st.just(""), COMMENTS.map("  {}".format)),
)


@settings(max_examples=examples(150))
@given(st.lists(ROWS, min_size=1, max_size=8).map("\n".join))
def test_screening_loses_nothing_and_repairs_settle(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.mktemp("any")
    report = run(root, {"a.py": text})
    plain = {finding for rule in ALL[:-1] for finding in rule.check(Project.open([root]))}
    seen = [*report.findings, *(each.finding for each in report.silenced)]
    assert {each for each in seen if each.code != "PF002"} == plain
    assert len(seen) == len(set(seen))
    once = repaired(root, text)
    again = repaired(root, once)
    assert again == once
    assert (
        re.sub("#.*", "", once).replace("other", "one").split()
        == re.sub("#.*", "", text).replace("other", "one").split()
    )


def test_files_without_the_word_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"{number}.py": b"import torch\n" for number in range(5)}
    write_files(tmp_path, {**files, "a.py": b"x  # PRECFIX: ignore[AB101]\n"})
    project = Project.open([tmp_path])
    assert list(project.documents(FileKind.PYTHON, ("bf16",))) == []
    read: list[str] = []
    reading = FileStore._read
    monkeypatch.setattr(FileStore, "_read", lambda store, path: read.append(path) or reading(store, path))
    assert len(silence(project, (), ALL, ALL).findings) == 1
    assert read == ["a.py"]
