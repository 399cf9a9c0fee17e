"""The catalog of `precfix explain`: every entry knows its texts in two wordings, and not those that look alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from precfix.codemod.diagnosis.catalog import FOLDER, load_catalog
from precfix.codemod.diagnosis.log import read_log
from precfix.codemod.diagnosis.matching import matches, telling
from precfix.transforms import load

jsonschema = pytest.importorskip("jsonschema", reason="validates the catalog: pip install jsonschema")


def beside(name: str) -> Any:
    return yaml.safe_load(Path(__file__).with_name(name).read_text("utf-8"))


TEXTS: dict[str, Any] = beside("diagnosis_texts.yaml")
SCHEMA = jsonschema.Draft202012Validator(
    beside("diagnosis_schema.yaml"), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)
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


def test_ids_are_unique_and_after_names_entries() -> None:
    ids = [entry.id for entry in ENTRIES]
    assert len(set(ids)) == len(ids)
    assert {name for entry in ENTRIES for name in entry.after} <= set(ids)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_catalog_follows_its_schema(path: Path) -> None:
    assert faults_of(path.read_text("utf-8")) == []


def faults_of(text: str) -> list[str]:
    return [error.json_path for error in SCHEMA.iter_errors(yaml.safe_load(text))]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("share: 1/2", "share: half"),
        ("title: One", "titel: One"),
        ("'one {first}'", "'one ('"),
        ("{says: [x], weight: 2}", "{says: [x], code: [y]}"),
        ("{says: [x], weight: 2}", "{owner: [nobody]}"),
        ("words: [one]", "words: one"),
        ("fix: F.", "fix: F., rules: [P1]"),
    ],
)
def test_what_is_not_in_the_schema_is_refused(was: str, now: str) -> None:
    assert faults_of(VALID) == []
    assert faults_of(VALID.replace(was, now))
