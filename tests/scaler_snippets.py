"""One-file projects for the tests of the scaler rules: what is found in them, and what they become."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from pathlib import Path

from precfix.codemod import engine
from precfix.codemod.model import Finding, Rule
from precfix.codemod.outcome import Target

from .project_tree import open_tree

TARGET = Target("auto", "test")


def rule_named(name: str) -> Rule:
    """The rule of module ``transforms/scaler/<name>.py``."""
    rule: Rule = import_module(f"precfix.transforms.scaler.{name}").rule
    return rule


def findings(rule: Rule, root: Path, source: str, **more: str) -> tuple[Finding, ...]:
    """What ``rule`` finds in ``train.py`` (and further files ``more``, by module name)."""
    files = {"train.py": source, **{f"{name}.py": text for name, text in more.items()}}
    report = engine.check(open_tree(root, files), [rule], TARGET)
    assert not report.failed_rules
    return report.findings


def fixed(rule: Rule, root: Path, source: str) -> str:
    """``train.py`` after all fixes of ``rule``; a second run must change nothing."""
    project = open_tree(root, {"train.py": source})
    options = engine.Options(unsafe_fixes=True)
    report = engine.migrate(project, [rule], TARGET, options)
    assert not report.failed_rules
    assert not report.skipped
    if not report.changes:
        return (root / "train.py").read_text()
    text = report.changes[0].after.decode()
    again = engine.migrate(open_tree(root / "again", {"train.py": text}), [rule], TARGET, options)
    assert not again.changes
    return text


def run(source: str) -> str:
    """What a program prints, or the error it dies of."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "train.py", "exec"), {"__name__": "__main__"})
    except (RuntimeError, AssertionError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return printed.getvalue()
