"""A slice has all that a name leads to in its file, and nothing that does not matter there."""

from __future__ import annotations

import pytest
from precfix.codemod.source.documents import Document, FileKind
from precfix.codemod.source.slices import Slices

TEXT = """import torch

LIMIT = 3
__all__ = ["Layer", "alone"]


def helper(x):
    return x.float()


class Base:
    pass


class Layer(Base):
    def forward(self, x):
        return helper(x)


def alone(x):
    return x
"""


def digest(text: str, name: str = "Layer") -> str:
    return Slices(Document("a.py", FileKind.PYTHON, text.encode())).of(name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x\n", "return x.half()\n"),
        ("def alone", "def other"),
        ("def alone(x):\n    return x\n", ""),
        ("\n\ndef alone", "\n# a comment\n\n\ndef more():\n    pass\n\n\ndef alone"),
        ("import torch\n", "import torch\n\n\ndef more():\n    pass\n"),
    ],
)
def test_what_a_name_does_not_lead_to_does_not_count(old: str, new: str) -> None:
    assert digest(TEXT.replace(old, new)) == digest(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.float()", "x.half()"),
        ("LIMIT = 3", "LIMIT = 4"),
        ("import torch\n", "import torch as th\n"),
        ("    pass", "    dtype = None"),
        ("class Layer(Base)", "@final\nclass Layer(Base)"),
        ("def helper(x)", "def helper(x, y)"),
        ("def alone", "def helper"),
        ("    return x\n", "    global helper\n    helper = None\n"),
        ("LIMIT = 3", "LIMIT = alone"),
    ],
)
def test_what_a_name_leads_to_counts(old: str, new: str) -> None:
    assert digest(TEXT.replace(old, new)) != digest(TEXT)


def test_the_order_of_what_a_name_leads_to_counts() -> None:
    moved = TEXT.replace("LIMIT = 3\n", "") + "\n\nLIMIT = 3\n"
    assert digest(moved) != digest(TEXT)
    assert digest(TEXT, "alone") != digest(TEXT, "nothing")
