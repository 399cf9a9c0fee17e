"""The catalog of `precfix explain`: every entry knows its texts in two wordings, and not those that look alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from precfix.codemod.diagnosis.catalog import CatalogInvalid, load_catalog, read_entries
from precfix.codemod.diagnosis.log import read_log
from precfix.codemod.diagnosis.matching import matches, telling
from precfix.transforms import load

TEXTS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("diagnosis_texts.yaml").read_text("utf-8"))
LOOK_ALIKES: list[str] = TEXTS["look-alikes"]
ENTRIES = load_catalog()
VALID = """
- id: one
  title: One
  words: [one]
  patterns: ['one {first}']
  means: It means one.
  question: none
  causes:
    - {id: a, says: A., share: 1/2, fix: F., when: [{says: [x], weight: 2}]}
"""


def known(text: str) -> list[str]:
    return [match.entry.id for match in matches(read_log(text.encode(), telling(ENTRIES)), ENTRIES)]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_every_entry_knows_its_wordings_and_not_the_look_alike(entry: Any) -> None:
    texts = TEXTS[entry.id]
    assert known(texts["new"]) == [entry.id]
    assert known(texts["old"]) == [entry.id]
    assert texts["new"] != texts["old"]
    assert entry.id not in known(texts["not"])


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_looks_alike_is_not_known(text: str) -> None:
    assert known(text) == []


def test_every_rule_that_is_named_exists() -> None:
    named = {code for entry in ENTRIES for code in entry.rules}
    assert named <= {rule.code for rule in load()}


def test_shares_add_up_to_at_most_what_was_seen() -> None:
    wrong = [entry.id for entry in ENTRIES if sum(cause.seen for cause in entry.causes) > entry.causes[0].of]
    assert wrong == []


def test_causes_that_compete_have_a_question() -> None:
    assert [entry.id for entry in ENTRIES if len(entry.causes) > 2 and not entry.question] == []


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("share: 1/2", "share: half", "share must be written like 3/10"),
        ("title: One", "titel: One", "unknown keys ['titel'], missing keys ['title']"),
        ("'one {first}'", "'one ('", "missing ), unterminated subpattern"),
        ("{says: [x], weight: 2}", "{says: [x], code: [y]}", "a condition is about one thing"),
        ("{says: [x], weight: 2}", "{owner: [nobody]}", "owner must be one of user, library, torch"),
        ("words: [one]", "words: one", "must be a list"),
        ("fix: F.", "fix: F., rules: [P1]", "rules must be codes"),
    ],
)
def test_what_is_not_in_the_schema_is_refused(was: str, now: str, said: str) -> None:
    assert [entry.id for entry in read_entries(VALID, "x.yaml")] == ["one"]
    with pytest.raises(CatalogInvalid) as refused:
        read_entries(VALID.replace(was, now), "x.yaml")
    assert said in str(refused.value)
    assert str(refused.value).startswith("x.yaml")
