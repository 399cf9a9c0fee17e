"""Calls seen in a text that is not parsed: what is certain is right, and the rest is said to be unknown."""

from __future__ import annotations

import ast

import pytest
from precfix.codemod.python.glimpses import MAX_LENGTH, calls_seen, is_in_code
from precfix.codemod.python.names import names_of
from precfix.codemod.source.project import Project
from precfix.transforms.dtype import constant_overflows_half

from .fixture_cases import FIXTURES

SEEN = {
    "a method": ("x.clamp(min=0)", ["f(min=0)"]),
    "two calls": ("clamp(1)\nclamp(2)", ["f(1)", "f(2)"]),
    "brackets inside": ("clamp((1, [2]), {3: 4})", ["f((1, [2]), {3: 4})"]),
    "over lines": ("clamp(\n    1,  # one\n)", ["f(1)"]),
    "spaces and a continued line": ("x.clamp \\\n  (1)", ["f(1)"]),
    "a longer name": ("clamp_min(1) + my_clamp(2) + clamped(3)", []),
    "no call": ("clamp = clamp.forward", []),
    "what is called is the result": ("clamp(1)(2)", ["f(1)"]),
    "a comment before the parenthesis": ("(clamp # here\n(1))", [None]),
    "a bracket in a string": ("clamp(')', 1)", [None]),
    "a bracket in a comment": ("clamp(1, # :)\n2)", [None]),
    "two brackets in strings": ("clamp('(', ')')", ["f('(', ')')"]),
    "not closed": ("clamp(1", [None]),
    "too long": (f"clamp({'1, ' * MAX_LENGTH})", [None]),
}


@pytest.mark.parametrize("case", SEEN)
def test_what_is_passed_is_read_or_unknown(case: str) -> None:
    text, expected = SEEN[case]
    assert [call and ast.unparse(call) for call in calls_seen(text, "clamp")] == expected


def test_no_file_with_a_large_number_is_passed_over() -> None:
    """All fixtures: whoever parses every file finds no more."""
    project = Project.open([FIXTURES])
    words = constant_overflows_half.WORDS
    looked_at = set(project.python_paths(words, ("torch",), where=constant_overflows_half._may_overflow))
    writing = {
        document.path
        for document in project.python_documents(words, ("torch",))
        if any(constant_overflows_half._writes(project, names_of(project, document)))
    }
    assert writing
    assert writing <= looked_at
    assert len(looked_at) < len(project.python_paths(words, ("torch",)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = torch.float16", True),
        ("x = 'float16'  # text", True),
        ('x = f"""{torch.float16}"""', True),
        ("x = 1  # float16", False),
        ('def f():\n    """In \\"float16\\"."""\n', False),
        ("x = '#'; y = torch.Float16", True),
        ("# text\rx = torch.float16\r", True),
        ("x = 'a\\\r\n# '; y = torch.float16", True),
        ("x = '''\n\"float16\" # '''\n", False),
    ],
)
def test_words_in_comments_and_long_strings_are_not_in_code(text: str, expected: bool) -> None:
    assert is_in_code(text, ("bfloat16", "float16")) == expected


@pytest.mark.parametrize("part", ['\\"""\n', '\\"', '"', "'\\", '"""\\'])
def test_strings_that_are_never_closed_cost_no_square(part: str) -> None:
    assert not is_in_code('"""' + part * 100_000, ("float16",))
    assert not is_in_code('"' + part * 100_000 + "\\", ("float16",))
