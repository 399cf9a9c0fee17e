"""Start a rule: ``python -m tests.new_rule PF215 default-dtype-half --family dtype`` makes the files that it needs.

What it writes runs and finds nothing yet. CONTRIBUTING.md, "Adding a rule", says what comes next.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from .fixture_cases import FIXTURES, REPOSITORY, all_rules

MODULE = '''"""TITLE: one sentence that names the mistake.

## What goes wrong

The symptom, and the exact text of the error.

## Why

The cause, with its source: the PyTorch version it was measured with, an issue, documentation.

## Fix

`name` [safe]: what is written, and why it is safe; or: reported only, and why.

## Not flagged

The look-alikes that are right.
"""

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.purpose.files import purpose_of
from ...codemod.python.names import names_of
from ...codemod.source.project import Project

WORDS = ("set_default_dtype",)
"""A file without any of these words is not read."""


def check(project: Project) -> Iterator[Finding]:
    for document in project.python_documents(WORDS):
        module = names_of(project, document)
        if purpose_of(document.path).is_left_alone:
            continue
        for call in module.calls_by_name.get("set_default_dtype", []):
            if module.qualified(call.func) == "torch.set_default_dtype":
                yield rule.at(module, call, "what is wrong here, and what it leads to")


rule = Rule.of("CODE", check)
'''
FINDS = '"""What the rule finds."""\n\nimport torch  # mark each line with a finding: "# want CODE"\n'
SILENT = '"""Looks like the mistake and is right."""\n\nimport torch\n'


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    name = asked.name.replace("_", "-")
    wrong = _mistake(asked.code, name, asked.family)
    if wrong:
        print(f"new_rule: {wrong}")
        return 2
    written = list(_files(asked.code, name, asked.family))
    for path, text in written:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        print(path.relative_to(REPOSITORY).as_posix())
    print(
        f"Next: write the manual and check(), fill the two cases, add a line to CHANGELOG.md,"
        f" then run python -m tests.regenerate {name} and python -m tests.regenerate"
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.new_rule", description="Start a rule.")
    parser.add_argument("code", help="a code that was never used, such as PF215")
    parser.add_argument("name", help="the mistake in a few words: default-dtype-half")
    parser.add_argument("--family", required=True, choices=families(), help="the folder below transforms/")
    return parser


def families() -> list[str]:
    """The folders of rules."""
    folders = (path.parent for path in (REPOSITORY / "transforms").glob("*/__init__.py"))
    return sorted(folder.name for folder in folders if folder.name != "frameworks")


def _mistake(code: str, name: str, family: str) -> str:
    """What is wrong with the request; empty for nothing."""
    rules = all_rules()
    if not re.fullmatch(r"PF\d{3}", code):
        return f"{code!r} must be PF and three digits"
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        return f"{name!r} must be lower-case words joined by dashes"
    taken = next((rule for rule in rules if code == rule.code or name == rule.name), None)
    if taken is not None:
        return f"{taken.code} {taken.name} exists already"
    module = REPOSITORY / "transforms" / family / name.replace("-", "_")
    return f"{module} exists already" if module.exists() or module.with_suffix(".py").exists() else ""


def _files(code: str, name: str, family: str) -> list[tuple[Path, str]]:
    cases = FIXTURES / "rules" / name
    return [
        (REPOSITORY / "transforms" / family / f"{name.replace('-', '_')}.py", MODULE.replace("CODE", code)),
        (cases / "finds" / "input" / "train.py", FINDS.replace("CODE", code)),
        (cases / "finds" / "settings.toml", "example = true\n"),
        (cases / "silent-look-alikes" / "input" / "train.py", SILENT),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
