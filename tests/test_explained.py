"""`precfix explain --project` on the fixtures that raise: it names the mistake and a line that the fix changes."""

from __future__ import annotations

import pytest

from .explained import measured, raising_cases
from .nightly import NIGHTLY

pytest.importorskip("torch")
LEAST = 0.9


def test_real_tracebacks_lead_to_the_line_that_the_fix_changes() -> None:
    """All cases at night, else one in eight: they are run, and what they die with is explained."""
    listed = raising_cases() if NIGHTLY else raising_cases()[::8]
    verdicts = {each.case.id: each.verdict for each in measured(listed)}
    wrong = {name: verdict for name, verdict in verdicts.items() if verdict != "right"}
    assert len(verdicts) == len(listed) >= 10
    assert len(wrong) <= (1 - LEAST) * len(listed), wrong
