"""PF303: arguments that autocast does not take."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from precfix.codemod.torch.autocast import autocasts
from precfix.codemod.torch.devices import OPEN, devices_of

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("autocast.autocast_arguments")
DEPRECATED = rule_of("autocast.deprecated_cuda_amp")
CHOSEN = 'device = torch.device("cuda" if torch.cuda.is_available() else "mps")\n'
STEP = "def step(model, x):\n    with {}:\n        return model(x.to({}))\n"


def program(made: str, device: str = CHOSEN, used: str = "device", head: str = "") -> str:
    return f"import torch\n{head}\n{device}\n{STEP.format(made, used)}"


SILENT = {
    "another accelerator": program('torch.autocast("cuda")'),
    "follows": program("torch.autocast(device.type)"),
    "guarded switch": program('torch.autocast("cuda", enabled=torch.cuda.is_available())'),
    "island": program('torch.autocast("cuda", enabled=False)'),
    "unknown": "import torch\ndef step(m, x, device):\n    with torch.autocast('cuda'):\n        m(x.to(device))\n",
    "own autocast": "from mine import autocast\n" + program('autocast("cuda", dtype="half")'),
}


@pytest.mark.parametrize("name", SILENT)
def test_right_code_is_silent(name: str, tmp_path: Path) -> None:
    assert not findings(RULE, written(tmp_path, {"train.py": SILENT[name]}))


def test_tests_are_left_alone(tmp_path: Path) -> None:
    assert not findings(RULE, written(tmp_path, {"tests/test_x.py": program("torch.autocast()")}))


def test_an_option_can_be_any_device(tmp_path: Path) -> None:
    flag = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--device', default='cuda')\n"
    source = flag + program('torch.autocast("cuda")', "args = p.parse_args()\n", "args.device")
    project = written(tmp_path, {"train.py": source})
    (region,) = autocasts(project)
    moved = region.module.calls_by_name["to"][0].args[0]
    assert {value.kind for value in devices_of(project, region.module, moved)} == {"cuda", OPEN}


WRONG = {
    "a device": ("torch.autocast(device)", "torch.autocast(device.type)"),
    "a made device": ('torch.autocast(torch.device("cpu"))', 'torch.autocast(torch.device("cpu").type)'),
    "a choice of devices": (
        'torch.autocast(device if x is None else torch.device("cpu"))',
        'torch.autocast((device if x is None else torch.device("cpu")).type)',
    ),
    "an index": ('torch.autocast("cpu:0")', 'torch.autocast("cpu")'),
    "a dtype as text": (
        'torch.autocast("cuda", dtype="float16", enabled=torch.cuda.is_available())',
        'torch.autocast("cuda", dtype=torch.float16, enabled=torch.cuda.is_available())',
    ),
    "a dtype of torch as text": ('torch.autocast("cpu", "torch.bfloat16")', 'torch.autocast("cpu", torch.bfloat16)'),
    "the switch second": ('torch.autocast("cpu", True)', 'torch.autocast("cpu", enabled=True)'),
    "the old api with a device": (
        'torch.cuda.amp.autocast(device_type="cpu", dtype=torch.bfloat16)',
        'torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16)',
    ),
    "the old api with a dtype first": (
        "torch.cpu.amp.autocast(torch.bfloat16, cache_enabled=False)",
        "torch.cpu.amp.autocast(dtype=torch.bfloat16, cache_enabled=False)",
    ),
    "a number as switch": ('torch.autocast("cpu", enabled=0)', 'torch.autocast("cpu", enabled=False)'),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str, tmp_path: Path) -> None:
    made, wanted = WRONG[name]
    project = written(tmp_path, {"train.py": program(made), "requirements.txt": "torch==2.3.1\n"})
    assert len(findings(RULE, project)) == 1
    _, texts = migrated([RULE], project, unsafe=True)
    assert f"with {wanted}:" in texts["train.py"]


def test_without_a_known_device_there_is_no_fix(tmp_path: Path) -> None:
    source = "import torch\ndef f(x):\n    with torch.autocast(dtype=torch.bfloat16):\n        return x\n"
    (finding,) = findings(RULE, written(tmp_path / "open", {"train.py": source}))
    assert not finding.fixes
    on_cuda = source + "def main(m):\n    m.cuda()\n"
    _, texts = migrated([RULE], written(tmp_path / "cuda", {"train.py": on_cuda}), unsafe=True)
    assert 'torch.autocast(dtype=torch.bfloat16, device_type="cuda")' in texts["train.py"]


def test_the_old_api_with_a_device_is_not_respelled_twice(tmp_path: Path) -> None:
    head = "from torch.cuda.amp import autocast, GradScaler\nscaler = GradScaler()\n"
    source = program('autocast(device_type="cuda", enabled=torch.cuda.is_available())', head=head)
    for index, rules in enumerate(([RULE, DEPRECATED], [DEPRECATED, RULE])):
        report, texts = migrated(
            rules, written(tmp_path / str(index), {"requirements.txt": "torch>=2.4\n", "train.py": source})
        )
        assert not report.remaining
        assert "torch.cuda.amp" not in texts["train.py"]
        assert texts["train.py"].count('device_type="cuda"') == 1


# --- what PyTorch does ------------------------------------------------------------------------------------------------


def test_the_crashes_are_crashes() -> None:
    torch = pytest.importorskip("torch")

    def entered(make: Callable[[], object]) -> None:
        with make():  # type: ignore[attr-defined]
            pass

    cases: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: torch.autocast(), TypeError, "device_type"),
        (lambda: torch.autocast(torch.device("cpu")), ValueError, "Expected `device_type` of type `str`"),
        (lambda: torch.cpu.amp.autocast(device_type="cpu"), TypeError, "unexpected keyword argument"),
        (lambda: torch.cpu.amp.autocast("cpu"), TypeError, "must be bool"),
        (lambda: torch.autocast("cpu", enabled=1), TypeError, "must be bool"),
        (lambda: torch.autocast("cpu", enabled=None), TypeError, "must be bool"),
        (lambda: torch.set_autocast_dtype("cuda", "float16"), TypeError, "must be torch.dtype"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make, error, text in cases:
            with pytest.raises(error, match=text):
                entered(make)


@pytest.mark.parametrize(("switch", "scale"), [(True, 1.0), (False, 0.0)])
def test_a_switch_is_the_scale_that_a_scaler_starts_with(switch: bool, scale: float) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = torch.cpu.amp.GradScaler(switch)
    weight = torch.ones(1, requires_grad=True)
    scaler.scale(weight.sum()).backward()
    assert scaler.get_scale() == scale
    scaler.step(torch.optim.SGD([weight], 0.5))
    assert weight.isnan().item() is not switch
