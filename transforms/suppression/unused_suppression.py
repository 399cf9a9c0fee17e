"""A suppression comment that silences nothing.

## What goes wrong

`# precfix: ignore[PF101]` stays in a line after the mistake is gone, and hides the next one. Or it never silenced
anything: a misspelled word (`# precfix: noqa`), a code that no rule has, an `ignore` without codes.

## Why

A comment that silences nothing tells readers of a mistake that is not there. Which comments do is known only after
every rule has run, so the findings of this rule are made when those of the others are compared with the comments.

## Fix

`remove` [safe] takes the codes that silence nothing out of the comment, or the whole comment with the blanks before it
and, where it stood alone, its line. Nothing else changes, and it is done after all other repairs. Misspelled comments
and unknown codes are reported with what to write instead.

## Not flagged

Comments that name a rule which did not run (`--select`, `ignore`) or which looks at the machine or the target (PF001,
PF211, PF306, PF404, PF601 to PF604): elsewhere they may be needed. Anything, where only a part of a project is read
(single files, standard input, `--exclude`, a folder below that of the settings or, without settings, below the top of
the repository): what makes a comment needed may stand in the rest. A bare `ignore-file`, which also keeps every fix
out of the file. Files that cannot be read to their end. Comments under `# precfix: ignore[PF002]`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.outcome import UNUSED_SUPPRESSION
from ...codemod.source.project import Project


def check(project: Project) -> Iterator[Finding]:
    """Nothing by itself: what is unused shows when the findings of all rules are known."""
    yield from ()


rule = Rule.of(UNUSED_SUPPRESSION, check, anywhere=True)
