"""Keys of dictionary literals and arguments of calls that tables rename, drop and add: everything else stays."""

from __future__ import annotations

import ast

import pytest
from precfix.codemod.model import EditRefused
from precfix.codemod.source.documents import Document, FileKind
from precfix.codemod.trainers.writing.literal_editing import LiteralDraft


def draft_of(text: str) -> tuple[Document, LiteralDraft]:
    """A draft of the value of the last statement, an assignment or an expression."""
    document = Document("config.py", FileKind.PYTHON, text.encode())
    statement = document.tree.body[-1]
    assert isinstance(statement, ast.Assign | ast.Expr)
    return document, LiteralDraft(document, statement.value)


def written(document: Document, draft: LiteralDraft) -> str:
    text = document.text
    for edit in sorted(draft.edits(), key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


CONFIG = """import torch  # é

config = {
    "train_batch_size": 8,
    'fp16': {
        "enabled": True,  # V100
        "loss_scale": 0,  # dynamic
    },
    **others,
    "steps": [1, 2],
}
"""


def test_a_section_changes_its_name_and_loses_a_key() -> None:
    document, draft = draft_of(CONFIG)
    draft.drop("fp16.loss_scale")
    draft.rename("fp16", "bf16")
    expected = CONFIG.replace("'fp16'", "'bf16'").replace('        "loss_scale": 0,  # dynamic\n', "")
    assert written(document, draft) == expected


def test_keys_join_in_the_layout_and_quotes_of_the_others() -> None:
    document, draft = draft_of(CONFIG)
    assert draft.add("fp16.hysteresis", "2")
    assert draft.add("amp", "False")
    assert not draft.add("bf16.enabled", "True")
    expected = CONFIG.replace("  # dynamic\n", '  # dynamic\n        "hysteresis": 2,\n')
    assert written(document, draft) == expected.replace("[1, 2],\n", '[1, 2],\n    "amp": False,\n')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c = {'a': 1, 'fp16': True, **more}", "c = {'a': 1, **more}"),
        ("c = {'a': 1, **more, 'fp16': True}", "c = {'a': 1, **more}"),
        ("c = {'fp16': True}", "c = {}"),
        ("c = dict(a=1, fp16=True)", "c = dict(a=1)"),
        ("c = f(x, *rest, fp16=True, **more)", "c = f(x, *rest, **more)"),
        ("c = f(fp16=True)(fp16=True, a=1)", "c = f(fp16=True)(a=1)"),
        ("c = {'fp16': False, 'a': 1, 'fp16': True}", None),
        ("c = {'fp16': (True), 'a': 1}", None),
        ("c = {('fp16'): True, 'a': 1}", None),
    ],
)
def test_a_key_leaves_or_the_edit_is_refused(before: str, after: str | None) -> None:
    document, draft = draft_of(before)
    if after is None:
        with pytest.raises(EditRefused):
            draft.drop("fp16")
    else:
        draft.drop("fp16")
        assert written(document, draft) == after


def test_an_argument_changes_name_and_value_where_it_stands() -> None:
    text = "x = Arguments(\n    'out', fp16 = True,  # T4\n    steps=[\n        1,\n    ],\n)\n"
    document, draft = draft_of(text)
    draft.set("fp16", "maybe")
    draft.rename("fp16", "bf16")
    assert draft.add("tf32", "True")
    expected = text.replace("fp16 = True", "bf16 = maybe").replace("    ],\n)", "    ],\n    tf32=True,\n)")
    assert written(document, draft) == expected


def test_concatenated_and_escaped_keys_are_refused() -> None:
    _, draft = draft_of("c = {'fp' '16': True, 'bf\\x316': False}")
    for key in ("fp16", "bf16"):
        with pytest.raises(EditRefused):
            draft.rename(key, "amp")


def test_crlf_and_tabs_stay() -> None:
    document, draft = draft_of('c = {\r\n\t"fp16": True,\r\n\t"a": 1\r\n}\r\n')
    draft.drop("fp16")
    assert draft.add("bf16", "True")
    assert written(document, draft) == 'c = {\r\n\t"a": 1,\r\n\t"bf16": True\r\n}\r\n'
