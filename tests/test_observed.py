"""``--observed``: what a rehearsal saw becomes findings, proves fixes, and silences what it contradicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from precfix.codemod.cli.options import Format
from precfix.codemod.cli.rehearsed import report_rehearsal
from precfix.codemod.observed.agreeing import disagreements
from precfix.codemod.observed.observation import Observation
from precfix.codemod.observed.observed_file import parse_observation

from .observed_files import failure, observation, operand, save, value
from .test_cli import Run, precfix

MODEL = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.fc = nn.Linear(4, 4)

    def forward(self, x, extra):
        for layer in self.layers:
            x = layer(x)
        y = self.fc(x)
        return torch.matmul(y, extra)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "net.py").write_text(MODEL)
    return folder


def of_linear(root: Path, call: str, argument: str) -> dict[str, Any]:
    """A layer with bfloat16 weights that was given float32."""
    operands = [
        operand(root, "net.py", "bfloat16", role="parameter"),
        operand(root, "net.py", "float32", argument),
        operand(root, "net.py", "bfloat16", role="parameter"),
    ]
    return failure(root, "net.py", call, operands, module="fc", module_class="torch.nn.modules.linear.Linear")


def checked(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: Path, *more: object
) -> list[dict[str, Any]]:
    done = precfix(capfd, monkeypatch, "check", root, "--output-format", "json", *more)
    assert done.code in (0, 1), done.err
    found: list[dict[str, Any]] = json.loads(done.out)["diagnostics"]
    return found


def migrated(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: Path, *more: object) -> Run:
    return precfix(capfd, monkeypatch, "migrate", root, "--allow-dirty", *more)


def test_nothing_is_found_without_it(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked(capfd, monkeypatch, root) == []


def test_a_failure_is_a_finding_of_the_rule_that_knows_it_with_a_safe_fix(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(
        root,
        observation(root, [of_linear(root, "self.fc(x)", "self.fc(|x|)")]),
    )
    [found] = checked(capfd, monkeypatch, root)
    assert found["code"] == "PF204"
    assert found["message"] == "x is float32 and the weights of self.fc are bfloat16: this raises"
    assert found["location"]["row"] == 14
    assert found["fix"]["applicability"] == "safe"
    assert "proved by the rehearsal of `python train.py --bf16`" in found["fix"]["message"]
    assert any("raises here: mat1 and mat2" in each["message"] for each in found["evidence"])
    assert migrated(capfd, monkeypatch, root).code == 0
    assert "self.fc(x.to(self.fc.weight.dtype))" in (root / "net.py").read_text()


def test_a_line_is_no_expression_where_python_says_no_columns(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then a place is a whole line, and so is many an expression: which part of it failed is not known."""
    (root / "net.py").write_text("from torch import nn\n\nfc = nn.Linear(4, 4)\nx = load()\nfc(x)\n")
    seen = of_linear(root, "fc(x)", "fc(|x|)")
    for python, codes in (("3.12", ["PF204"]), ("3.10", ["PF901"])):
        save(root, observation(root, [seen], python=python))
        assert [each["code"] for each in checked(capfd, monkeypatch, root)] == codes


def test_a_layer_of_a_list_is_asked_by_its_class_as_it_was_seen(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(root, observation(root, [of_linear(root, "layer(x)", "layer(|x|)")]))
    assert migrated(capfd, monkeypatch, root).code == 0
    assert "x = layer(x.to(layer.weight.dtype))" in (root / "net.py").read_text()


def test_operands_of_a_function_are_known_by_their_values(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = "torch.matmul(y, extra)"
    operands = [operand(root, "net.py", "float32"), operand(root, "net.py", "bfloat16")]
    values = [
        value(root, "net.py", "matmul(|y|, extra", "float32"),
        value(root, "net.py", "matmul(y, |extra|", "bfloat16"),
    ]
    save(root, observation(root, [failure(root, "net.py", call, operands, op="aten.mm.default")], values))
    [found] = checked(capfd, monkeypatch, root)
    assert (found["code"], found["message"]) == ("PF203", "y is float32 and extra is bfloat16: this raises")
    assert migrated(capfd, monkeypatch, root).code == 0
    assert "torch.matmul(y.to(extra.dtype), extra)" in (root / "net.py").read_text()


def test_what_no_rule_knows_is_told_as_it_was_seen(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    operands = [operand(root, "net.py", "float32", born="nn.Linear(4, 4)"), operand(root, "net.py", "bfloat16")]
    save(root, observation(root, [failure(root, "net.py", "torch.matmul(y, extra)", operands, error="odd\nerror")]))
    [found] = checked(capfd, monkeypatch, root)
    assert (found["code"], found["fix"]) == ("PF901", None)
    assert "this raises in the rehearsal of `python train.py --bf16`: RuntimeError: odd error" in found["message"]
    assert "(float32 [2, 4] meets bfloat16 [2, 4])" in found["message"]
    assert migrated(capfd, monkeypatch, root).code == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("Attempting to unscale FP16 gradients.", "PF107"),
        ("\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'", "PF101"),
        ("something else about a dtype", "PF901"),
    ],
)
def test_an_error_of_the_scaler_is_told_by_the_rule_that_knows_its_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: str, code: str
) -> None:
    text = "import torch\n\nscaler = torch.amp.GradScaler()\n\n\ndef step(optimizer):\n    scaler.step(optimizer)\n"
    (tmp_path / "net.py").write_text(text)
    seen = failure(tmp_path, "net.py", "scaler.step(optimizer)", [], kind="other", error=error)
    save(tmp_path, observation(tmp_path, [seen]))
    found = checked(capfd, monkeypatch, tmp_path)
    assert [(each["code"], each["location"]["row"]) for each in found] == [(code, 7)]


def test_numpy_that_was_seen_to_refuse_bfloat16_is_cast_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import torch\n\n\ndef kept(output):  # of bfloat16 in some runs\n    return output.detach().numpy()\n"
    (tmp_path / "net.py").write_text(text)
    place = "output.detach().numpy()"
    error = "Got unsupported ScalarType BFloat16"
    save(tmp_path, observation(tmp_path, [failure(tmp_path, "net.py", place, [], kind="other", error=error)]))
    [found] = checked(capfd, monkeypatch, tmp_path)
    assert (found["code"], found["fix"]["applicability"]) == ("PF208", "unsafe")
    migrated(capfd, monkeypatch, tmp_path, "--unsafe-fixes")
    assert "output.detach().float().numpy()" in (tmp_path / "net.py").read_text()


def test_a_rehearsal_is_compared_with_what_a_gpu_did(root: Path) -> None:
    """Both records are stand-ins: none was ever made on a GPU."""

    def seen(failures: list[dict[str, Any]], *dtypes: str, **more: Any) -> Observation:
        values = [value(root, "net.py", "self.fc(x)", *dtypes)]
        return parse_observation(json.dumps(observation(root, failures, values, **more)), "it")

    one, other = of_linear(root, "self.fc(x)", "self.fc(|x|)"), of_linear(root, "layer(x)", "layer(|x|)")
    same = seen([one], "bfloat16")
    assert disagreements(same, same) == ()
    assert disagreements(same, seen([other], "float32", steps=1)) == (
        f"net.py:14: the GPU raises, the rehearsal does not: {one['error']}",
        f"net.py:13: the rehearsal raises, the GPU does not: {one['error']}",
        "net.py:14:13: bfloat16 on the GPU, float32 in the rehearsal",
        "optimizer steps: 3 on the GPU, 1 in the rehearsal",
    )


def test_a_file_that_changed_is_left_out_and_said_once(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "other.py").write_text("import torch\n")
    record = observation(root, [of_linear(root, "self.fc(x)", "self.fc(|x|)")])
    saved = save(root, record, "elsewhere.json")
    (root / "net.py").write_text(MODEL + "\n")
    done = precfix(capfd, monkeypatch, "check", root, "--observed", saved)
    assert done.code == 0
    assert done.err.count("net.py changed after the rehearsal of `python train.py --bf16`") == 1
    (root / "net.py").write_text(MODEL)
    (root / "other.py").write_text("import torch.nn\n")
    [found] = checked(capfd, monkeypatch, root, "--observed", saved)
    assert found["fix"]["applicability"] == "unsafe"
    assert "other.py changed after the rehearsal" in found["fix"]["message"]


def test_a_fix_that_no_rule_can_prove_for_every_run_is_unsafe(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = of_linear(root, "layer(x)", "layer(|x|)")
    save(root, observation(root, [{**seen, "module_class": "transformers.models.x.Layer"}]))
    [found] = checked(capfd, monkeypatch, root)
    assert found["fix"]["applicability"] == "unsafe"
    assert "other runs may take this mix of dtypes" in found["fix"]["message"]
    assert "next(layer.parameters()).dtype" in found["fix"]["message"]


def test_what_the_rehearsal_contradicts_is_not_reported_and_told_with_v(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """import torch
from torch import nn


def main(model: nn.Linear):
    layer = nn.Linear(4, 4).to(torch.bfloat16)
    noise = torch.zeros(2, 4)
    return layer(noise)


main(None)
"""
    (tmp_path / "net.py").write_text(text)
    assert [each["code"] for each in checked(capfd, monkeypatch, tmp_path)] == ["PF202"]
    save(tmp_path, observation(tmp_path, [], [value(tmp_path, "net.py", "layer(|noise|)", "bfloat16")]))
    assert checked(capfd, monkeypatch, tmp_path) == []
    done = precfix(capfd, monkeypatch, "check", tmp_path, "-v")
    assert "net.py:8: noise was bfloat16 in the rehearsal, and precfix took it for float32" in done.err


def test_what_is_read_as_well_is_told_once_with_what_was_seen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """import torch
from torch import nn


def main():
    layer = nn.Linear(4, 4).to(torch.bfloat16)
    noise = torch.zeros(2, 4)
    return layer(noise)
"""
    (tmp_path / "net.py").write_text(text)
    operands = [
        operand(tmp_path, "net.py", "float32", "layer(|noise|)", born="torch.zeros"),
        operand(tmp_path, "net.py", "bfloat16", role="parameter"),
    ]
    seen = failure(tmp_path, "net.py", "layer(noise)", operands, module_class="torch.nn.modules.linear.Linear")
    save(tmp_path, observation(tmp_path, [seen]))
    [found] = checked(capfd, monkeypatch, tmp_path)
    assert (found["code"], found["location"]["row"]) == ("PF202", 7)
    assert sum("raises here" in each["message"] for each in found["evidence"]) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "there is no 'version' in it"),
        ("{", "is not a precfix observation"),
        ('{"version": 9, "failures": []}', "update precfix"),
        ('{"version": 1, "failures": {}}', "failures is {}, not a list"),
        (
            '{"version": 1, "failures": [{"filename": "../x.py", "location": {"row": 1}}]}',
            "is not a path below the project",
        ),
        ('{"version": 1, "failures": [{"filename": "x.py", "location": {"row": -1, "column": 1}}]}', "row or column"),
        ('{"version": 1, "failures": [], "files": {"/etc/passwd": {}}}', "is not a path below the project"),
        ('{"version": 1, "failures": ' + "[" * 90 + "]" * 90 + "}", "nested too deeply"),
        ('{"version": 1, "failures": [], "training": {"losses": "x"}}', "training.losses"),
    ],
)
def test_a_broken_record_is_one_clear_sentence(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    (root / "precfix-observed.json").write_text(text)
    done = precfix(capfd, monkeypatch, "check", root)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1


def test_places_that_do_not_exist_are_passed_over(
    root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = observation(root, [of_linear(root, "self.fc(x)", "self.fc(|x|)")])
    place = record["failures"][0]
    place["location"], place["end_location"] = {"row": 900, "column": 1}, {"row": 900, "column": 9}
    place["operands"][1]["born"] = [{"filename": "net.py", "row": 5000, "column": 7, "message": ""}]
    save(root, record)
    assert checked(capfd, monkeypatch, root) == []


def reported(capfd: pytest.CaptureFixture[str], root: Path, record: dict[str, Any], chosen: str = "text") -> str:
    report_rehearsal(json.dumps(record), root, Format(chosen))
    return capfd.readouterr().out


def test_losses_that_are_not_all_shown_end_in_one_ellipsis(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = observation(root, [], training={"losses": [2.0] * 9, "loss_dtypes": ["float32"]})
    assert "Losses (float32): 2, 2, 2, 2, 2, 2, 2, 2, ...\n" in reported(capfd, root, record)


def test_the_report_of_a_rehearsal_tells_failures_only(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / "other.py").write_text("import torch\n\n\ndef f(x):\n    return torch.zeros(3, dtype='float16')\n")
    training = {"losses": [2.5, None], "loss_dtypes": ["bfloat16"], "parameter_dtypes": {"float32": 3}}
    record = observation(root, [of_linear(root, "self.fc(x)", "self.fc(|x|)")], training=training, notes=["eager"])
    text = reported(capfd, root, record)
    assert text.count("net.py:14") == 2, "the finding and what was raised"
    assert "other.py" not in text
    assert "PF204 submodule-dtype x is float32 and the weights of self.fc are bfloat16" in text
    assert (
        "Losses (bfloat16): 2.5, not finite.\n"
        "Tensors of weights: 3 float32; gradients: none; optimizer state: none.\n"
        "Autocast: none was entered.\n"
        "  note: eager\n"
    ) in text


def test_the_report_has_what_no_rule_can_look_at(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = observation(root, [of_linear(root, "self.fc(x)", "self.fc(|x|)")])
    (root / "net.py").write_text(MODEL + "\n")
    found = json.loads(reported(capfd, root, record, "json"))
    assert [each["code"] for each in found["diagnostics"]] == ["PF901"]
    assert (found["version"], len(found["failures"]), found["summary"]["findings"]) == (1, 1, 1)
    text = reported(capfd, root, record, "sarif")
    assert [each["ruleId"] for each in json.loads(text)["runs"][0]["results"]] == ["PF901"]
    assert "PF" not in reported(capfd, root, observation(root))


NUMBERS = """import torch
from torch import nn


class Head(nn.Module):
    def forward(self, scores, mask, found):
        scores = found(scores)
        scores = scores.masked_fill(mask, -1e9)
        return torch.linalg.inv(scores), mask / torch.sqrt(scores + 1e-8)
"""


@pytest.mark.parametrize(
    ("place", "code", "words"),
    [
        ("|scores|.masked_fill", "PF209", "in the rehearsal of `python train.py --bf16` this raises"),
        ("inv(|scores|)", "PF211", "can be float16, for which linalg.inv has no kernel"),
        ("sqrt(|scores| + 1e-8)", "PF210", "is not protected in the rehearsal of `python train.py --bf16`"),
    ],
)
def test_a_tensor_that_was_seen_in_16_bits_is_16_bit_where_reading_tells_nothing(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    code: str,
    words: str,
) -> None:
    (tmp_path / "net.py").write_text(NUMBERS)
    save(tmp_path, observation(tmp_path, [], [value(tmp_path, "net.py", place, "float16")]))
    [found] = checked(capfd, monkeypatch, tmp_path)
    assert found["code"] == code
    assert words in found["message"]
    save(tmp_path, observation(tmp_path, [], [value(tmp_path, "net.py", place, "float16", "float32")]))
    assert checked(capfd, monkeypatch, tmp_path) == []


def test_what_is_repaired_where_it_was_made_is_not_told_where_it_raised(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(x)


def sample(latents, weight_dtype):
    latents = latents.to(weight_dtype)
    mask = torch.ones(2, 4)
    both = torch.cat([latents, mask], dim=1)
    return both


def main(net, latents, weight_dtype):
    net = Net().to(weight_dtype)
    return net(sample(latents, weight_dtype))
"""
    (tmp_path / "net.py").write_text(text)
    before = checked(capfd, monkeypatch, tmp_path)
    assert [each["code"] for each in before] == ["PF202", "PF201"]
    born = [
        {"filename": "net.py", "row": 17, "column": 12, "message": "cat keeps float32"},
        {"filename": "net.py", "row": 16, "column": 12, "message": "float32 from ones"},
    ]
    operands = [
        {**operand(tmp_path, "net.py", "float32", "self.fc(|x|)"), "born": born},
        operand(tmp_path, "net.py", "bfloat16", role="parameter"),
    ]
    seen = failure(tmp_path, "net.py", "self.fc(x)", operands, module_class="torch.nn.modules.linear.Linear")
    save(tmp_path, observation(tmp_path, [seen]))
    found = checked(capfd, monkeypatch, tmp_path)
    assert [(each["code"], each["location"]) for each in found] == [(each["code"], each["location"]) for each in before]
    told = [each["code"] for each in found if any("raises here" in item["message"] for item in each["evidence"])]
    assert told, "what was seen is evidence of what is read"


WRITES = """import torch


def fill(table, mask, values, more):
    table[mask] = values
    return table @ more
"""


@pytest.mark.parametrize(
    ("call", "odd", "meant", "code", "fixed"),
    [
        ("|table[mask]| = values", "mask] = |values|", "|table|[mask]", "PF206", "= values.to(table.dtype)"),
        ("table @ more", "@ |more|", "|table| @", "PF203", "@ more.to(table.dtype)"),
    ],
)
def test_what_may_be_a_number_or_an_array_in_another_run_is_cast_by_an_unsafe_fix(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    odd: str,
    meant: str,
    code: str,
    fixed: str,
) -> None:
    (tmp_path / "net.py").write_text(WRITES)
    operands = [
        operand(tmp_path, "net.py", "bfloat16", meant),
        operand(tmp_path, "net.py", "float32", odd),
    ]
    save(tmp_path, observation(tmp_path, [failure(tmp_path, "net.py", call, operands)]))
    [found] = checked(capfd, monkeypatch, tmp_path)
    assert (found["code"], found["fix"]["applicability"]) == (code, "unsafe")
    assert "may be no tensor in other runs" in found["fix"]["message"]
    assert migrated(capfd, monkeypatch, tmp_path, "--unsafe-fixes").code == 0
    assert fixed in (tmp_path / "net.py").read_text()


def test_a_part_of_a_module_with_the_name_of_an_operation_is_a_module(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text("import torch\n\n\ndef run(block, x):\n    return block.inner.linear(x)\n")
    operands = [
        operand(tmp_path, "net.py", "float32", "linear(|x|)"),
        operand(tmp_path, "net.py", "bfloat16", role="parameter"),
    ]
    seen = failure(tmp_path, "net.py", "block.inner.linear(x)", operands, module_class="torch.nn.modules.linear.Linear")
    save(tmp_path, observation(tmp_path, [seen]))
    assert migrated(capfd, monkeypatch, tmp_path).code == 0
    assert "block.inner.linear(x.to(block.inner.linear.weight.dtype))" in (tmp_path / "net.py").read_text()


LOSS = """import torch
from torch.nn import functional as F


def evaluate(net, x, y, region):
    with region:
        return F.binary_cross_entropy(net(x), y)
"""


def test_a_loss_that_autocast_refuses_is_told_with_its_fix_where_the_region_comes_from_elsewhere(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    (root / "net.py").write_text(LOSS)
    assert checked(capfd, monkeypatch, root, "--select", "PF212") == []
    error = "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."
    seen = failure(root, "net.py", "F.binary_cross_entropy(net(x), y)", [], kind="other", error=error)
    save(root, observation(root, [seen]))
    (found,) = checked(capfd, monkeypatch, root)
    assert (found["code"], found["location"]["row"]) == ("PF212", 7)
    assert "raises here" in found["evidence"][0]["message"]
    seen["location"], seen["end_location"] = {"row": 7, "column": 1}, {"row": 7, "column": 49}
    save(root, observation(root, [seen], python="3.10"))
    assert [each["code"] for each in checked(capfd, monkeypatch, root)] == ["PF212"]
