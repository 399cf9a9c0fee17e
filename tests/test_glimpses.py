"""Calls seen in a text that is not parsed: what is certain is right, and the rest is said to be unknown."""

from __future__ import annotations

import ast

import pytest
from precfix.codemod.purpose.imports import imported_names
from precfix.codemod.purpose.steps import may_be_autocast, may_enter_autocast
from precfix.codemod.python.glimpses import MAX_LENGTH, calls_seen, contexts_seen, is_in_code, words_of_imports
from precfix.codemod.python.names import ModuleNames, names_of
from precfix.codemod.source.documents import Document, FileKind
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


CONTEXTS = {
    "a call": ("with torch.autocast('cuda'):\n    pass", [["torch", "autocast"]]),
    "a slice and a name": ("with x[1:2], ctx: y = {1: 2}", [["x", "1", "2", "ctx"]]),
    "over lines": ("with (\n    a(),  # with b:\n    c,\n):\n    pass", [["a", "c"]]),
    "a string": ('"""with a: b"""\nx = "with c:"', []),
    "a field of an f-string": ("with f'{ctx}': pass", [["f", "ctx"]]),
    "never closed": ("with (", [None]),
}


@pytest.mark.parametrize("case", CONTEXTS)
def test_what_is_entered_is_seen_or_unknown(case: str) -> None:
    text, expected = CONTEXTS[case]
    assert list(contexts_seen(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "import a.b as wanted",
        "try: from wanted import x\nexcept ImportError: pass",
        "x = 1; import wanted",
        "from . import (\n    a,  # (an) a\n    wanted,\n)",
        "from x import \\\n    wanted",
        "from x import \\\r    wanted",
        "# what to import (\nfrom a import (b, wanted)",
        "def f():\n    from .wanted import *",
    ],
)
def test_a_word_of_an_import_is_seen(text: str) -> None:
    names = ModuleNames(Document("a/b.py", FileKind.PYTHON, text.encode()))
    assert "wanted" in " ".join(imported_names(names)) or "wanted" in names.module_scope.bindings
    assert "wanted" in words_of_imports(text)
    assert "other" not in words_of_imports(f"{text}\nother = 1")


def test_no_import_and_no_context_of_the_fixtures_is_passed_over() -> None:
    project, counted = Project.open([FIXTURES]), [0, 0]
    for document in project.python_documents():
        module = names_of(project, document)
        seen, folders = words_of_imports(document.text), set(document.path.split("/"))
        words = {word for name in imported_names(module) for word in name.split(".") if word}
        assert words <= seen | folders
        enters = any(may_be_autocast(item.context_expr) for item in module.of_type(ast.withitem))
        assert may_enter_autocast(document.text) or not enters
        counted = [counted[0] + len(words), counted[1] + enters]
    assert min(counted) > 100
