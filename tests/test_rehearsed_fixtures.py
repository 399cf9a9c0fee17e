"""A rehearsal tells of examples that raise: by their own rule at their line, and of nothing after the fix."""

from __future__ import annotations

import pytest

from .nightly import NIGHTLY

pytest.importorskip("torch")
from .rehearsal_runs import HAS_COLUMNS
from .rehearsed_fixtures import AFTER, NOT_OWN, ON_DEVICE, RAISING, told_of

FEW = (
    "rules/autograd-function-without-custom-fwd/half-of-the-pair",
    "rules/factory-without-dtype/drawn-from-numbers",
    "rules/hard-float-cast/sinusoidal-embedding",
    "rules/mask-concat-dtype/frames-are-stacked",
    "rules/misspelled-precision/field-name",
    "rules/submodule-dtype/part-cast-back",
    "rules/transformer-encoder-fast-path/padded-evaluation",
)
"""By day: each of these was told by another rule once, or by none. By night all of them."""
SELECTED = [case for case in RAISING if NIGHTLY or case.id in FEW]


def test_each_is_told_by_its_own_rule_or_named_with_a_reason() -> None:
    told = told_of(SELECTED)
    assert [each.case.id for each in told if each.state == AFTER and not _is_silent(each.failures)] == []
    before = [each for each in told if each.state != AFTER]
    assert len(before) == len(SELECTED)
    for each in before:
        code, _ = NOT_OWN.get(each.case.id, ("", ""))
        is_own = each.at_its_line or (not HAS_COLUMNS and "PF901" in each.codes)
        assert is_own or code in (each.codes or ("-",)), each


def _is_silent(failures: tuple[str, ...]) -> bool:
    return all(ON_DEVICE in error for error in failures)


def test_the_reasons_are_given_for_examples_that_exist() -> None:
    assert NOT_OWN.keys() <= {case.id for case in RAISING}
    assert {*FEW} <= {case.id for case in RAISING} - NOT_OWN.keys()
