"""PF303: autocast for another device than the tensors', and arguments that it does not take."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from precfix.codemod.model import Applicability
from precfix.codemod.torch.autocast import autocasts
from precfix.codemod.torch.devices import OPEN, devices_of

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("autocast.autocast_device_hard_coded")
DEPRECATED = rule_of("autocast.deprecated_cuda_amp")
CHOSEN = 'device = torch.device("cuda" if torch.cuda.is_available() else "mps")\n'
STEP = "def step(model, x):\n    with {}:\n        return model(x.to({}))\n"


def program(made: str, device: str = CHOSEN, used: str = "device", head: str = "") -> str:
    return f"import torch\n{head}\n{device}\n{STEP.format(made, used)}"


FOLLOWED = {
    "a torch.device": (program('torch.autocast("cuda")'), "torch.autocast(device.type)"),
    "a text": (
        program('torch.autocast("cuda")', 'device = "cuda" if torch.cuda.is_available() else "mps"'),
        "torch.autocast(device)",
    ),
    "a text with an index": (
        program('torch.autocast("cuda")', 'device = "cuda:1" if torch.cuda.is_available() else "mps"'),
        "torch.autocast(torch.device(device).type)",
    ),
    "chosen by an if": (
        program('torch.autocast("cuda")', 'device = "xpu"\nif torch.cuda.is_available():\n    device = "cuda"\n'),
        "torch.autocast(device)",
    ),
    "chosen by a function": (
        program(
            'torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)',
            "def pick():\n    if torch.cuda.is_available():\n        return torch.device('cuda')\n"
            "    return torch.device('mps')\ndevice = pick()\n",
        ),
        "torch.amp.autocast(device_type=device.type, dtype=torch.bfloat16)",
    ),
    "float16 stays off on a CPU": (
        program(
            'torch.autocast("cuda", torch.float16, enabled=True)',
            CHOSEN + "if not torch.backends.mps.is_available():\n    device = torch.device('cpu')\n",
        ),
        'torch.autocast(device.type, torch.float16, enabled=device.type != "cpu")',
    ),
    "a module of settings": (
        "import torch, settings\n" + STEP.format('torch.autocast("cuda")', "settings.DEVICE"),
        "torch.autocast(settings.DEVICE.type)",
    ),
}
SETTINGS = {"settings.py": "import torch\nDEVICE = torch.device('cuda' if torch.cuda.is_available() else 'mps')\n"}


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_region_follows_the_device(name: str, tmp_path: Path) -> None:
    source, wanted = FOLLOWED[name]
    project = written(tmp_path, {"train.py": source, **SETTINGS})
    (finding,) = findings(RULE, project)
    assert finding.fixes[0].applicability is Applicability.UNSAFE
    assert "to(" in project.document("train.py").line(finding.evidence[0].span.row)  # type: ignore[union-attr]
    report, texts = migrated([RULE], project, unsafe=True)
    assert f"with {wanted}:" in texts["train.py"]
    assert not report.remaining


SILENT = {
    "falls back to the CPU": program(
        'torch.autocast("cuda")', 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    ),
    "tested elsewhere": (
        "import torch\nclass T:\n    def log(self):\n        return self.device.type == 'cuda'\n"
        "    def step(self, x):\n        with torch.autocast('cuda'):\n            return self.m(x.to(self.device))\n"
    ),
    "follows": program("torch.autocast(device.type)"),
    "guarded switch": program('torch.autocast("cuda", enabled=torch.cuda.is_available())'),
    "switch of a function": program(
        'torch.autocast("cuda", enabled=mixed())', head="def mixed():\n    return torch.cuda.is_available()\n"
    ),
    "switch of a scaler": program(
        'torch.autocast("cuda", enabled=scaler is not None)',
        CHOSEN + "scaler = torch.amp.GradScaler('cuda') if device.type == 'cuda' else None\n",
    ),
    "island": program('torch.autocast("cuda", enabled=False)'),
    "only CUDA": program('torch.autocast("cuda")', "device = torch.device('cuda:0')"),
    "unknown": "import torch\ndef step(m, x, device):\n    with torch.autocast('cuda'):\n        m(x.to(device))\n",
    "moves by itself": program('torch.autocast("cuda")') + "\ndef main(m):\n    m.cuda()\n",
    "in a function for CUDA": program('torch.autocast("cuda")').replace("def step", "def step_on_gpu"),
    "in a handler": (
        f"import torch\n{CHOSEN}\ndef f(m, x):\n    try:\n        pass\n    except ValueError:\n"
        "        with torch.autocast('cuda'):\n            return m(x.to(device))\n"
    ),
    "own autocast": "from mine import autocast\n" + program('autocast("cuda", dtype="half")'),
}


@pytest.mark.parametrize("name", SILENT)
def test_right_code_is_silent(name: str, tmp_path: Path) -> None:
    assert not findings(RULE, written(tmp_path, {"train.py": SILENT[name]}))


def test_tests_are_left_alone(tmp_path: Path) -> None:
    assert not findings(RULE, written(tmp_path, {"tests/test_x.py": program('torch.autocast("cuda")')}))


def test_what_tests_pass_does_not_count(tmp_path: Path) -> None:
    engine = "import torch\ndef run(m, x, device):\n    with torch.autocast({}):\n        m(x.to(device))\n"
    passes = "from {} import run\ndef test_it(m, x):\n    run(m, x, {})\n"
    files = {
        "first.py": engine.format('"cuda"'),
        "second.py": engine.format("device").replace("run", "run_too"),
        "main.py": "import first, second\nfirst.run(0, 1, 'cuda')\nsecond.run_too(0, 1, 'cuda')\n",
        "tests/test_first.py": passes.format("first", "'cpu'"),
        "tests/test_second.py": passes.format("second", "'cuda:0'").replace("run", "run_too"),
    }
    assert not findings(RULE, written(tmp_path, files))
    files["main.py"] = files["main.py"].replace("'cuda'", "'cuda:0' if first else 'mps'")
    assert len(findings(RULE, written(tmp_path / "chosen", files))) == 2


def test_an_option_can_be_anything_and_says_so_by_its_choices(tmp_path: Path) -> None:
    flag = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--device', default='cuda'{})\n"
    source = flag + program('torch.autocast("cuda")', "args = p.parse_args()\n", "args.device")
    open_ended = written(tmp_path / "open", {"train.py": source.format("")})
    assert not findings(RULE, open_ended)
    (region,) = autocasts(open_ended)
    moved = region.module.calls_by_name["to"][0].args[0]
    assert {value.kind for value in devices_of(open_ended, region.module, moved)} == {"cuda", OPEN}
    chosen = written(tmp_path / "chosen", {"train.py": source.format(", choices=['cuda', 'mps']")})
    (finding,) = findings(RULE, chosen)
    assert "args.device may be mps" in finding.message


def test_mps_before_it_had_autocast(tmp_path: Path) -> None:
    device = "device = 'mps' if torch.backends.mps.is_available() else 'cuda'"
    files = {"train.py": program('torch.autocast("cuda")', device)}
    old = written(tmp_path / "old", {**files, "requirements.txt": "torch>=2.0\n"})
    new = written(tmp_path / "new", {**files, "requirements.txt": "torch>=2.5\n"})
    assert findings(RULE, old)[0].fixes[0].applicability is Applicability.DISPLAY_ONLY
    assert findings(RULE, new)[0].fixes[0].applicability is Applicability.UNSAFE


@pytest.mark.parametrize("style", ["torch.cuda.amp.autocast({})", "autocast({})", "amp.autocast({})"])
@pytest.mark.parametrize("given", ["", "enabled=True", "True, torch.bfloat16", "dtype=torch.bfloat16"])
def test_the_order_of_rules_does_not_matter(style: str, given: str, tmp_path: Path) -> None:
    heads = {"autocast({})": "from torch.cuda.amp import autocast", "amp.autocast({})": "from torch.cuda import amp"}
    source = program(style.format(given), head=heads.get(style, ""))
    results = []
    for index, rules in enumerate(([RULE, DEPRECATED], [DEPRECATED, RULE])):
        project = written(tmp_path / str(index), {"train.py": source})
        report, texts = migrated(rules, project, unsafe=True)
        assert not report.remaining
        results.append(texts["train.py"])
    assert results[0] == results[1]
    assert "autocast(device.type" in results[0]


WRONG = {
    "no device": ("torch.autocast()", "torch.autocast(device_type=device.type)"),
    "no device in torch.amp": (
        "torch.amp.autocast(enabled=False)",
        "torch.amp.autocast(enabled=False, device_type=device.type)",
    ),
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
    project = written(tmp_path, {"train.py": program(made)})
    assert len(findings(RULE, project)) == 1
    _, texts = migrated([RULE], project, unsafe=True)
    assert f"with {wanted}:" in texts["train.py"]


def test_without_a_known_device_there_is_no_fix(tmp_path: Path) -> None:
    source = "import torch\ndef f(x):\n    with torch.autocast(dtype=torch.bfloat16):\n        return x\n"
    (finding,) = findings(RULE, written(tmp_path, {"train.py": source}))
    assert not finding.fixes


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


def test_autocast_for_another_device_has_no_effect() -> None:
    torch = pytest.importorskip("torch")
    layer, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert layer(x).dtype == torch.float32
    with torch.autocast(x.device.type):
        assert layer(x).dtype == torch.bfloat16
