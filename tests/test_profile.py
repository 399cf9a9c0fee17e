"""Profiles: what is written is read again, what is unknown is kept, what is broken is one clear error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from precfix.codemod.model import UsageError
from precfix.codemod.profiles.profile import (
    CheckResult,
    DtypeVerdict,
    Fact,
    OpSupport,
    Profile,
    ProfiledDevice,
    ProfileSource,
    Recommendation,
    Status,
    Support,
)
from precfix.codemod.profiles.profile_file import MARK, MAX_BYTES, VERSION, dump, load, parse, save

from .fixture_cases import FIXTURES

PROFILES = sorted((FIXTURES / "profiles").glob("*.json"))
T4 = ProfiledDevice(
    "cuda:0", "cuda", "Tesla T4", "7.5", 16 << 30, {"bf16": DtypeVerdict(Support.EMULATED, ("slow",), 0.4)}
)
FULL = Profile(
    created="2026-01-01T00:00:00+00:00",
    mode="quick",
    seconds=3.5,
    devices=(
        replace(
            T4,
            recommended=Recommendation("fp16-mixed", "bf16 is emulated"),
            checks=(CheckResult("matmul", Status.CRASHED, "segfault", "It died.", 1.5, {"a": [1, {"b": None}]}),),
            ops=(OpSupport("linear", "bf16", "ok", "-", "bfloat16"),),
            facts=(Fact("encoder", True, "it raises"), Fact("other")),
            rank=3,
            host="node7",
        ),
    ),
    checks=(CheckResult("environment"),),
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    save(FULL, tmp_path / "p.json")
    assert load(tmp_path / "p.json") == FULL
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
    assert json.loads((tmp_path / "p.json").read_text())[MARK] == VERSION


def test_unknown_fields_are_kept_everywhere() -> None:
    plain = json.loads(dump(FULL))
    places = [plain, plain["machine"], plain["torch"], plain["recommended"], plain["devices"][0], plain["checks"][0]]
    device = plain["devices"][0]
    places += [device["verdicts"]["bf16"], device["checks"][0], device["ops"][0], device["facts"][0]]
    for number, place in enumerate(places):
        place["later"] = {"n": [number, None, "x"]}
    text = json.dumps(plain)
    assert json.loads(dump(parse(text, "p"))) == plain
    assert dump(parse(text, "p")).count('"later"') == len(places)


def test_missing_fields_take_their_defaults() -> None:
    """What an older release did not write yet."""
    read = parse('{"precfix_profile": 1, "devices": [{"device": "cuda:0"}]}', "p")
    assert read.devices == (ProfiledDevice("cuda:0"),)
    assert read.support("bf16") is Support.UNKNOWN
    assert parse('{"precfix_profile": 1, "machine": null, "devices": null}', "p") == Profile()


def test_a_number_that_is_none_is_written_as_null() -> None:
    measured = replace(FULL, seconds=float("nan"), checks=(CheckResult("c", numbers={"gap": float("inf")}),))
    read = parse(dump(measured), "p")
    assert (read.seconds, read.checks[0].numbers) == (None, {"gap": None})


BROKEN = {
    "not json": ("{", "is not a precfix profile"),
    "empty": ("", "is not a precfix profile"),
    "foreign": ('{"name": "package"}', "no 'precfix_profile'"),
    "a list": ("[1]", "no 'precfix_profile'"),
    "newer": ('{"precfix_profile": 2}', "update precfix"),
    "version of another kind": ('{"precfix_profile": "1"}', 'its version is "1"'),
    "true": ('{"precfix_profile": true}', "its version is true"),
    "zero": ('{"precfix_profile": 0}', "its version is 0"),
    "devices no list": ('{"precfix_profile": 1, "devices": {}}', "devices is {}, not a list"),
    "device no object": ('{"precfix_profile": 1, "devices": [3]}', "devices[0] is 3, not an object"),
    "wrong word": (
        '{"precfix_profile": 1, "devices": [{"verdicts": {"bf16": {"support": "maybe"}}}]}',
        'devices[0].verdicts.bf16.support is "maybe", not one of native, emulated',
    ),
    "verdict no object": ('{"precfix_profile": 1, "devices": [{"verdicts": {"bf16": true}}]}', "verdicts.bf16 is true"),
    "wrong number": ('{"precfix_profile": 1, "devices": [{"memory_bytes": "16G"}]}', "memory_bytes"),
    "flag for a number": ('{"precfix_profile": 1, "devices": [{"rank": true}]}', "rank is true, not a whole number"),
    "deep": ('{"precfix_profile": 1, "x": ' + "[" * 90 + "]" * 90 + "}", "nested too deeply"),
    "very deep": ('{"precfix_profile": 1, "x": ' + "[" * 200000 + "]" * 200000 + "}", "profile"),
    "endless digits": ('{"precfix_profile": 1, "seconds": ' + "9" * 5000 + "}", "profile"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_and_foreign_files_are_one_clear_error(tmp_path: Path, name: str) -> None:
    text, said = BROKEN[name]
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        load(path)
    assert said in str(error.value)
    assert "p.json" in str(error.value)
    assert "probe --save" in str(error.value)
    assert len(str(error.value)) < 300 + len(str(path))


def test_unreadable_files_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large").write_bytes(b" " * (MAX_BYTES + 1))
    for name, said in (("missing", "No such file"), ("", "directory"), ("binary", "UTF-8"), ("large", "larger than")):
        with pytest.raises(UsageError, match=said):
            load(tmp_path / name)
    with pytest.raises(UsageError, match="cannot be written"):
        save(FULL, tmp_path / "no folder" / "p.json")


KNOWN = st.sampled_from(
    ["source", "machine", "torch", "devices", "checks", "recommended", "verdicts", "bf16", "support", "numbers", "rank"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["measured", "native", "\ud800", "ok"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KNOWN, inner, max_size=3),
    max_leaves=8,
)
NESTED = st.dictionaries(KNOWN, JSON, max_size=4)


@given(NESTED)
def test_whatever_the_json_it_is_read_or_refused(value: dict[str, object]) -> None:
    text = json.dumps({MARK: VERSION, **value})
    try:
        read = parse(text, "p")
    except UsageError:
        return
    assert parse(dump(read), "p") == parse(dump(parse(dump(read), "p")), "p")


def test_support_is_that_of_the_weakest_training_device() -> None:
    a100 = ProfiledDevice("cuda:1", "cuda", "A100", "8.0", None, {"bf16": DtypeVerdict(Support.NATIVE)})
    cpu = ProfiledDevice("cpu", "cpu", verdicts={"bf16": DtypeVerdict(Support.ABSENT)})
    both = Profile(devices=(a100, T4, cpu))
    assert both.training_devices == (a100, T4)
    assert both.support("bf16") is Support.EMULATED
    assert both.weakest("bf16") == T4
    assert Profile(devices=(cpu,)).support("bf16") is Support.ABSENT
    assert Profile(devices=(a100, ProfiledDevice("cuda:2", "cuda"))).support("bf16") is Support.UNKNOWN
    assert Profile().support("bf16") is Support.UNKNOWN
    assert Profile().weakest("bf16") is None


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_recorded_profiles_are_whole(path: Path) -> None:
    profile = load(path)
    assert dump(profile) == path.read_text("utf-8"), "not as precfix writes it"
    assert profile.devices
    for device in profile.devices:
        assert device.name
        for dtype in ("bf16", "fp16", "tf32", "fp8"):
            assert device.support(dtype) is not Support.UNKNOWN or profile.real
            assert device.verdicts[dtype].evidence
    assert profile.recommended.regime
    assert profile.recommended.reason
    assert profile.real or "Hand-made" in profile.note


def test_recorded_profiles_say_what_is_published() -> None:
    found = {path.stem: load(path) for path in PROFILES}
    assert {"t4", "v100", "a100", "h100", "h200", "rtx3090", "rtx4090", "mi300x", "m2", "cpu"} <= set(found)
    native = {name for name, profile in found.items() if profile.support("bf16") is Support.NATIVE}
    assert {"a100", "h100", "h200", "rtx3090", "rtx4090", "mi300x"} <= native
    assert not {"t4", "v100", "m2"} & native
    assert {name for name in found if found[name].support("fp8") is Support.NATIVE} >= {"h100", "h200", "rtx4090"}
    assert found["a100"].support("fp8") is Support.ABSENT
    assert found["t4"].recommended.regime == "fp16-mixed"
    assert found["t4"].source is ProfileSource.PUBLISHED
