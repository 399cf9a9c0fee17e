"""PF601 and PF602 beyond their fixtures: what the profile changes, and more look-alikes."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from precfix.codemod.model import Applicability
from precfix.codemod.profiles.profile import DtypeVerdict, Profile, ProfiledDevice, Support

from .fixture_cases import profile_named
from .rule_runs import findings, migrated, rule_of, written

BF16 = rule_of("hardware.bf16_without_native_support")
EMULATED = rule_of("hardware.emulated_bf16_counts_as_supported")
AUTOCAST = "import torch\nwith torch.autocast({device!r}, dtype=torch.bfloat16):\n    pass\n"
ASKS = "import torch\nuse_bf16 = torch.cuda.is_bf16_supported()\n"


def on(backend: str, bf16: Support, fp16: Support = Support.NATIVE) -> Profile:
    verdicts = {"bf16": DtypeVerdict(bf16), "fp16": DtypeVerdict(fp16)}
    return Profile(devices=(ProfiledDevice(f"{backend}:0", backend, "Some Device", "6.0", None, verdicts),))


# --- PF601 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "device", "found"),
    [
        (on("cuda", Support.EMULATED), "cuda", "only emulates it"),
        (on("cuda", Support.ABSENT), "cuda", "does not have it"),
        (on("cuda", Support.EMULATED), "cuda:1", "only emulates it"),
        (on("cuda", Support.UNKNOWN), "cuda", ""),
        (on("cuda", Support.NATIVE), "cuda", ""),
        (on("rocm", Support.EMULATED), "cuda", "only emulates it"),
        (on("cuda", Support.EMULATED), "cpu", ""),
        (on("mps", Support.EMULATED), "mps", "only emulates it"),
        (on("mps", Support.EMULATED), "cuda", ""),
        (Profile(), "cuda", ""),
    ],
)
def test_the_device_of_the_region_decides(tmp_path: Path, profile: Profile, device: str, found: str) -> None:
    project = written(tmp_path, {"a.py": AUTOCAST.format(device=device)}).with_profile(profile)
    said = [finding.message for finding in findings(BF16, project)]
    assert bool(said) == bool(found)
    assert all(found in message for message in said)


def test_float16_is_offered_only_where_it_is_native(tmp_path: Path) -> None:
    source = "from transformers import TrainingArguments\na = TrainingArguments('out', bf16=True)\n"
    project = written(tmp_path, {"a.py": source})
    (first,) = findings(BF16, project.with_profile(on("cuda", Support.ABSENT)))
    assert [fix.applicability for fix in first.fixes] == [Applicability.UNSAFE]
    (second,) = findings(BF16, project.with_profile(on("cuda", Support.ABSENT, Support.ABSENT)))
    assert second.fixes == ()
    assert "native 16-bit" not in second.message


@pytest.mark.parametrize(
    "source",
    [
        "from transformers import TrainingArguments\na = TrainingArguments('o', bf16=True, fp16=args.fp16)\n",
        "from transformers import TrainingArguments\na = TrainingArguments('o', bf16=True, **more)\n",
        "from lightning import Trainer\na = Trainer(precision='bf16-true')\n",
        "from accelerate import Accelerator\na = Accelerator(mixed_precision='bf16')\nmodel.half()\n",
    ],
)
def test_no_fix_where_float16_is_not_certain(tmp_path: Path, source: str) -> None:
    (finding,) = findings(BF16, written(tmp_path, {"a.py": source}).with_profile(profile_named("t4")))
    assert finding.fixes == ()


@pytest.mark.parametrize(
    "source",
    [
        "from mine import TrainingArguments\na = TrainingArguments('o', bf16=True)\n",
        "from numpy import set_printoptions\nset_printoptions(precision='bf16')\n",
        "from transformers import TrainingArguments\na = TrainingArguments('o', bf16=False)\n",
        "import torch\nfrom transformers import AutoModel\nd = torch.bfloat16 if args.b else torch.float16\n"
        "m = AutoModel.from_pretrained('x', torch_dtype=d)\n",
        "import torch\nx = torch.zeros(2, dtype=torch.bfloat16)\n",
    ],
)
def test_what_does_not_ask_for_bf16_training_is_silent(tmp_path: Path, source: str) -> None:
    assert findings(BF16, written(tmp_path, {"a.py": source}).with_profile(profile_named("t4"))) == ()


# --- PF602 ------------------------------------------------------------------------------------------------------------


def test_the_argument_exists_and_counts_emulation_by_default() -> None:
    """What the rule and its fix rest on, in the torch that is installed."""
    torch = pytest.importorskip("torch")
    parameters = inspect.signature(torch.cuda.is_bf16_supported).parameters
    assert parameters["including_emulation"].default is True
    assert torch.cuda.is_bf16_supported(including_emulation=False) in (True, False)


@pytest.mark.parametrize(
    ("requirement", "found", "fixes"),
    [
        ("torch>=2.4", 1, 1),
        ("torch>=2.4.1,<3", 1, 1),
        ("torch", 1, 1),
        ("torch>=2.3", 1, 0),
        ("torch==2.3.1", 1, 0),
        ("torch<3", 1, 0),
        ("torch<2.3", 0, 0),
        ("torch==1.13.1", 0, 0),
    ],
)
def test_the_requirements_decide_about_the_argument(tmp_path: Path, requirement: str, found: int, fixes: int) -> None:
    project = written(tmp_path, {"a.py": ASKS, "requirements.txt": f"{requirement}\n"})
    done = findings(EMULATED, project.with_profile(profile_named("t4")))
    assert (len(done), sum(len(finding.fixes) for finding in done)) == (found, fixes)


def test_the_fix_is_not_safe_and_settles(tmp_path: Path) -> None:
    project = written(tmp_path, {"a.py": ASKS}).with_profile(profile_named("t4"))
    report, texts = migrated([EMULATED], project)
    assert texts == {}
    report, texts = migrated([EMULATED], project, unsafe=True)
    assert texts == {"a.py": ASKS.replace("supported()", "supported(including_emulation=False)")}
    assert report.remaining == ()


@pytest.mark.parametrize(
    ("profile", "found"), [("t4", 1), ("v100", 1), ("a100", 0), ("mi300x", 0), ("m2", 1), ("cpu", 1)]
)
def test_a_machine_with_native_bf16_is_silent(tmp_path: Path, profile: str, found: int) -> None:
    project = written(tmp_path, {"a.py": ASKS}).with_profile(profile_named(profile))
    assert len(findings(EMULATED, project)) == found


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntry:\n    bf16 = torch.cuda.is_bf16_supported()\nexcept AttributeError:\n    bf16 = False\n",
        "import torch\ndef bf16():\n    return torch.cuda.is_bf16_supported()\n",
        "from torch import cuda\nbf16 = cuda.is_available() and cuda.is_bf16_supported()\n",
        "import torch as t\nd = 'bf16' if not (not t.cuda.is_bf16_supported()) else 'fp16'\n",
    ],
)
def test_other_spellings_are_found(tmp_path: Path, source: str) -> None:
    project = written(tmp_path, {"a.py": source})
    assert len(findings(EMULATED, project.with_profile(profile_named("t4")))) == 1
    assert findings(EMULATED, project) == ()


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.cuda.is_bf16_supported()\n",
        "import torch\nlog(f'{torch.cuda.is_bf16_supported()}')\n",
        "import torch\nx = torch.cuda.is_bf16_supported(*a)\n",
        "import torch\nbf16 = torch.xpu.is_bf16_supported()\n",
        "import torch\nif torch.cuda.is_bf16_supported():\n    benchmark()\n",
        "try:\n    from torch.cuda import is_bf16_supported\nexcept ImportError:\n"
        "    def is_bf16_supported():\n        return False\nbf16 = is_bf16_supported()\n",
    ],
)
def test_what_is_no_choice_is_silent(tmp_path: Path, source: str) -> None:
    assert findings(EMULATED, written(tmp_path, {"a.py": source}).with_profile(profile_named("t4"))) == ()
