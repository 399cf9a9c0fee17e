"""The engine: rounds, whole-or-nothing fixes, collisions and failing rules, with rules made for the purpose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from precfix.codemod import engine
from precfix.codemod.engine import Options
from precfix.codemod.model import (
    Applicability,
    Edit,
    EditRefused,
    Finding,
    Fix,
    Operation,
    RemoveStatement,
    ReplaceExpression,
    ReplaceText,
    Rule,
    Span,
)
from precfix.codemod.outcome import Target
from precfix.codemod.python.names import names_of
from precfix.codemod.source.project import Project

from .project_tree import open_tree

TARGET = Target("unknown", "a test")


def rename_rule(code: str, old: str, new: str, applicability: Applicability = Applicability.SAFE) -> Rule:
    """A rule that replaces every read of the name ``old`` by ``new``."""

    def check(project: Project) -> Iterator[Finding]:
        for document in project.python_documents():
            for node in names_of(project, document).name_loads.get(old, []):
                span = document.span(node)
                edit = Edit(document.path, ReplaceExpression(span, (new,)))
                fix = Fix("rename", f"use {new}", applicability, (edit,))
                yield Finding(code, f"rename-{old}", f"{old} is read", document.path, span, (), (fix,))

    return Rule(code, f"rename-{old}", "", check)


def finding_with(path: str, *operations: Operation) -> Finding:
    edits = tuple(Edit(path, operation) for operation in operations)
    fix = Fix("it", "do it", Applicability.SAFE, edits)
    return Finding("T000", "test", "found", path, Span(1, 1, 1, 2), (), (fix,))


def constant_rule(*findings: Finding) -> Rule:
    return Rule("T000", "test", "", lambda project: findings)


def text_after(project: Project, rules: list[Rule], options: Options | None = None) -> dict[str, str]:
    report = engine.migrate(project, rules, TARGET, options)
    return {change.path: change.after.decode() for change in report.changes}


def test_rounds_go_on_until_nothing_is_found(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "print(one)\n"})
    rules = [rename_rule("T001", "one", "two"), rename_rule("T002", "two", "three")]
    report = engine.migrate(project, rules, TARGET)
    assert report.changes[0].after == b"print(three)\n"
    assert [finding.code for finding in report.findings] == ["T001"]
    assert [finding.code for finding, _ in report.applied] == ["T001", "T002"]
    assert report.remaining == ()


def test_the_order_of_rules_does_not_matter(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "print(one, x)\nprint(x)\n"})
    rules = [rename_rule("T001", "one", "two"), rename_rule("T002", "x", "y"), rename_rule("T003", "two", "four")]
    assert text_after(project, rules) == text_after(project, rules[::-1]) == {"a.py": "print(four, y)\nprint(y)\n"}


def test_fixes_that_never_settle_are_bounded_and_reported(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "print(one)\n"})
    rules = [rename_rule("T001", "one", "two"), rename_rule("T002", "two", "one")]
    report = engine.migrate(project, rules, TARGET)
    assert len(report.applied) == engine.MAX_ROUNDS
    assert any("did not settle" in skip.reason for skip in report.skipped)


def test_unsafe_and_display_only_fixes_wait_for_permission(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "print(one, shown)\n"})
    rules = [
        rename_rule("T001", "one", "two", Applicability.UNSAFE),
        rename_rule("T002", "shown", "hidden", Applicability.DISPLAY_ONLY),
    ]
    assert text_after(project, rules) == {}
    assert text_after(project, rules, Options(unsafe_fixes=True)) == {"a.py": "print(two, shown)\n"}
    assert text_after(project, rules, Options(chosen={"T001": "rename"})) == {"a.py": "print(two, shown)\n"}


def test_a_fix_across_files_is_whole_or_nothing(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "print(1)\n", "b.py": "print(2)\n"})
    possible = Edit("a.py", ReplaceExpression(Span(1, 7, 1, 8), ("3",)))
    impossible = Edit("b.py", ReplaceExpression(Span(1, 7, 1, 8), ("3 +",)))
    fix = Fix("both", "both", Applicability.SAFE, (possible, impossible))
    rule = constant_rule(Finding("T000", "test", "found", "a.py", Span(1, 1, 1, 2), (), (fix,)))
    report = engine.migrate(project, [rule], TARGET)
    assert report.changes == ()
    assert any("'both' was not applied" in skip.reason and skip.path == "a.py:1" for skip in report.skipped)


def test_a_refused_fix_does_not_stop_its_neighbors(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "print(one)\nprint(2)\n"})
    bad = finding_with("a.py", ReplaceExpression(Span(2, 7, 2, 8), ("(",)))
    report = engine.migrate(project, [constant_rule(bad), rename_rule("T001", "one", "two")], TARGET)
    assert report.changes[0].after == b"print(two)\nprint(2)\n"
    assert len([skip for skip in report.skipped if "T000" in skip.reason]) == 1


def test_colliding_fixes_are_done_one_round_after_the_other(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "f(one)\nprint(2)\n"})

    def check(project: Project) -> Iterator[Finding]:
        document = project.document("a.py")
        assert document is not None
        for node in ast.walk(document.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "f":
                edit = Edit("a.py", ReplaceExpression(document.span(node), ("g(", document.span(node.args[0]), ")")))
                fix = Fix("g", "g", Applicability.SAFE, (edit,))
                yield Finding("T000", "to-g", "f", "a.py", document.span(node), (), (fix,))

    rules = [Rule("T000", "to-g", "", check), rename_rule("T001", "one", "two")]
    assert text_after(project, rules) == {"a.py": "g(two)\nprint(2)\n"}


def test_a_failing_rule_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    def check(project: Project) -> Iterator[Finding]:
        yield finding_with("a.py", RemoveStatement(Span(2, 1, 2, 5)))
        raise KeyError("broken")

    project = open_tree(tmp_path, {"a.py": "print(one)\npass\n"})
    report = engine.check(project, [Rule("T000", "test", "", check), rename_rule("T001", "one", "two")], TARGET)
    assert [skip.path for skip in report.failed_rules] == ["T000"]
    assert "KeyError" in report.failed_rules[0].reason
    assert {finding.code for finding in report.findings} == {"T000", "T001"}


def test_text_edits_of_several_fixes_are_spliced_together(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.yaml": "x: 1\ny: 2\n"})
    rule = constant_rule(finding_with("a.yaml", ReplaceText(3, 4, "10"), ReplaceText(8, 9, "20")))
    texts = engine.texts_with(project, rule.check(project).__iter__().__next__().fixes)
    assert texts == {"a.yaml": "x: 10\ny: 20\n"}


def test_overlapping_text_edits_are_refused(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.yaml": "x: 100\n"})
    fix = finding_with("a.yaml", ReplaceText(3, 5, "1"), ReplaceText(4, 6, "2")).fixes[0]
    with pytest.raises(EditRefused, match="same text"):
        engine.texts_with(project, [fix])


def test_text_and_structure_are_not_mixed_in_one_step(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"a.py": "print(1)\n"})
    fix = finding_with("a.py", ReplaceText(0, 0, "# x\n"), ReplaceExpression(Span(1, 7, 1, 8), ("2",))).fixes[0]
    with pytest.raises(EditRefused, match="one step"):
        engine.texts_with(project, [fix])


def test_what_is_inserted_at_the_edge_of_a_replaced_token_collides_with_it(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"run.sh": "train --dtype float16\n"})
    inserted = finding_with("run.sh", ReplaceText(14, 14, "b"))
    replaced = replace(finding_with("run.sh", ReplaceText(14, 21, "bfloat16")), message="found otherwise")

    def check(asked: Project) -> Iterator[Finding]:
        document = asked.document("run.sh")
        if document is not None and "bfloat16" not in document.text:
            yield from (inserted, replaced)

    assert text_after(project, [Rule("T000", "test", "", check)]) == {"run.sh": "train --dtype bfloat16\n"}
