"""PF107: float16 parameters under a GradScaler."""

from __future__ import annotations

from pathlib import Path

import pytest

from .scaler_snippets import findings, fixed, rule_named, run

RULE = rule_named("scaler_with_16_bit_parameters")
TRAIN = """
for x in [torch.ones(2, 4)]:
    with torch.autocast("DEVICE", dtype=torch.float16):
        loss = model(x.to(next(model.parameters()).dtype)).float().mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
print("done")
"""


def script(
    model: str,
    optimizer: str = "torch.optim.SGD(model.parameters(), lr=0.1)",
    scaler: str = "torch.amp.GradScaler('DEVICE')",
) -> str:
    return f"import copy\nimport torch\n{model}\nopt = {optimizer}\nscaler = {scaler}\n{TRAIN}".replace("DEVICE", "cpu")


WRONG = {
    "half": "model = torch.nn.Linear(4, 1).half()",
    "half in place": "model = torch.nn.Linear(4, 1)\nmodel.half()",
    "half again": "model = torch.nn.Linear(4, 1)\nmodel = model.half()\nmodel.train()",
    "to": "model = torch.nn.Linear(4, 1).to(torch.float16)",
    "to with a device": "model = torch.nn.Linear(4, 1)\nmodel.to('cpu', dtype=torch.half)",
    "through a name": "wanted = torch.float16\nmodel = torch.nn.Linear(4, 1).to(dtype=wanted)",
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found_and_crashes(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (finding,) = findings(RULE, tmp_path, script(WRONG[name]))
    assert finding.fixes == ()
    assert "Attempting to unscale FP16 gradients" in run(script(WRONG[name]))


SOME = "torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)"


def test_some_parameters_are_half_too(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert len(findings(RULE, tmp_path, script(WRONG["half"], SOME))) == 1
    assert "Attempting to unscale FP16 gradients" in run(script(WRONG["half"], SOME))


RIGHT = {
    "float32": "model = torch.nn.Linear(4, 1)",
    "a copy": "model = torch.nn.Linear(4, 1)\nema = copy.deepcopy(model).half()",
    "a copy first": "model = torch.nn.Linear(4, 1)\nteacher = model\nteacher2 = torch.nn.Linear(4, 1).half()",
    "cast back": "model = torch.nn.Linear(4, 1).half()\nmodel = model.float()",
    "cast back by to": "model = torch.nn.Linear(4, 1).half()\nmodel.to(torch.float32)",
    "cast back in a loop": (
        "model = torch.nn.Linear(4, 1).half()\nfor p in model.parameters():\n    p.data = p.data.float()"
    ),
    "in a branch": "import os\nmodel = torch.nn.Linear(4, 1)\nif os.environ.get('HALF'):\n    model = model.half()",
    "chosen elsewhere": (
        "import os\nwanted = getattr(torch, os.environ.get('DTYPE', 'float32'))\n"
        "model = torch.nn.Linear(4, 1).to(wanted)"
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert findings(RULE, tmp_path, script(RIGHT[name])) == ()
    assert run(script(RIGHT[name])) == "done\n"


SILENT = {
    "switched by a setting": script(WRONG["half"], scaler="torch.amp.GradScaler('cpu', enabled=copy)"),
    "frozen": script(WRONG["half"] + "\nmodel.requires_grad_(False)"),
    "switched off": script(WRONG["half"], scaler="torch.amp.GradScaler('cpu', enabled=False)"),
    "adapter": script(
        "model = Net.from_pretrained('x', torch_dtype=torch.float16)\nmodel = get_peft_model(model, config)"
    ),
    "upcast": script("model = Net.from_pretrained('x', torch_dtype=torch.float16)\ncast_training_params(model)"),
    "quantized": script("model = Net.from_pretrained('x', torch_dtype=torch.float16, load_in_8bit=True)"),
    "other parameters": script(WRONG["half"], "torch.optim.SGD(adapter.parameters())"),
    "own optimizer": script(WRONG["half"], "MasterWeights(model.parameters())"),
    "patched": script(WRONG["half"]).replace("\nfor x in", "\nscaler._unscale_grads_ = patched\nfor x in"),
    "no scaler": script(WRONG["half"]).replace("scaler.step(opt)", "opt.step()"),
}


@pytest.mark.parametrize("name", SILENT)
def test_stays_silent_too(name: str, tmp_path: Path) -> None:
    assert findings(RULE, tmp_path, SILENT[name]) == ()


@pytest.mark.parametrize("adapters", ["", "\nmodel.add_adapter(config)"])
def test_loaded_in_half(adapters: str, tmp_path: Path) -> None:
    code = f"model = Net.from_pretrained('x', torch_dtype=torch.float16){adapters}"
    assert len(findings(RULE, tmp_path, script(code))) == 1


ACCELERATE = """
import torch
from accelerate import Accelerator

def main(loader):
    accelerator = Accelerator(mixed_precision="fp16")
    unet = UNet.from_pretrained("x", torch_dtype=torch.float16)
    opt = torch.optim.AdamW(unet.parameters())
    unet, opt, loader = accelerator.prepare(unet, opt, loader)
    for x in loader:
        accelerator.backward(unet(x))
        opt.step()
"""


def test_accelerate(tmp_path: Path) -> None:
    assert len(findings(RULE, tmp_path, ACCELERATE)) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('mixed_precision="fp16"', 'mixed_precision="bf16"'),
        ('mixed_precision="fp16"', "mixed_precision=wanted"),
        ("torch.float16", "torch.float32"),
        ("prepare(unet, opt", "prepare(other, opt"),
        ("unet.parameters()", "lora.parameters()"),
    ],
)
def test_accelerate_that_is_right(old: str, new: str, tmp_path: Path) -> None:
    assert old in ACCELERATE
    assert findings(RULE, tmp_path, ACCELERATE.replace(old, new)) == ()


PIPELINE = """
import torch

def validate(accelerator, unet, wanted):
    pipeline = DiffusionPipeline.from_pretrained("x", unet=accelerator.unwrap_model(unet))
    CAST
    return pipeline("a horse")

def main(accelerator, unet, loader):
    opt = torch.optim.AdamW(unet.parameters())
    for x in loader:
        accelerator.backward(unet(x))
        opt.step()
        CALL
"""


def pipeline(cast: str, call: str = "validate(accelerator, unet, None)") -> str:
    return PIPELINE.replace("CAST", cast).replace("CALL", call)


CASTS = {
    "pipeline = pipeline.to(accelerator.device, torch.float16)": "pipeline = pipeline.to(accelerator.device)",
    "pipeline.to(accelerator.device, dtype=torch.float16)": "pipeline.to(accelerator.device)",
    "pipeline = pipeline.to(dtype=torch.float16)": "pipeline = pipeline",
}


@pytest.mark.parametrize("cast", CASTS)
def test_pipeline_that_halves_the_live_model(cast: str, tmp_path: Path) -> None:
    assert len(findings(RULE, tmp_path, pipeline(cast))) == 1
    after = fixed(RULE, tmp_path / "fixed", pipeline(cast))
    assert f"    {CASTS[cast]}\n" in after


def test_pipeline_cast_alone_goes(tmp_path: Path) -> None:
    assert ".to(" not in fixed(RULE, tmp_path, pipeline("pipeline.to(torch.float16)"))


@pytest.mark.parametrize(
    "source",
    [
        pipeline("pipeline.to(accelerator.device)"),
        pipeline("pipeline.to(accelerator.device, dtype=torch.float32)"),
        pipeline("pipeline.to(accelerator.device, dtype=wanted)"),
        pipeline("pipeline.to(accelerator.device, torch.float16)", "pass"),
        pipeline("pipeline.to(accelerator.device, torch.float16)").replace("accelerator.unwrap_model(unet)", "None"),
    ],
)
def test_pipeline_that_is_right(source: str, tmp_path: Path) -> None:
    assert findings(RULE, tmp_path, source) == ()
