"""Moves that would break or half-move a run: they are left, or need leave, and the table of runs says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.model import Applicability
from precfix.codemod.moving.verifying import CHANGED
from precfix.codemod.outcome import MoveState, RunMove

from .fixture_cases import all_rules
from .test_moving import REQUIRED, moved, paths_changed

SWITCHED = """
    import argparse

    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--scale", action="store_true")
    args = parser.parse_args()
    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=args.SCALE)
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.DTYPE, enabled=args.amp):
            loss = model(torch.randn(2, 4).cuda()).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def said(run: RunMove) -> str:
    return " ".join(place.message for place in run.why)


def switched(dtype: str, scale: str = "amp") -> dict[str, str]:
    code = SWITCHED.replace("DTYPE", dtype).replace("SCALE", scale)
    return {"train.py": code, "run.sh": "python train.py\n", "requirements.txt": "torch>=2.4\n"}


@pytest.mark.parametrize(("dtype", "regime"), [("float16", "bf16-mixed"), ("bfloat16", "fp16-mixed")])
def test_a_region_and_its_scaler_move_together_and_the_run_without_them_says_so(
    dtype: str, regime: str, tmp_path: Path
) -> None:
    report, runs = moved(tmp_path, all_rules(), switched(dtype), regime)
    assert paths_changed(report) == {"train.py"}
    assert b"GradScaler" not in report.changes[0].after or regime == "fp16-mixed"
    assert (runs["run.sh"].state, runs["run.sh"].after) == (MoveState.LEFT, "fp32")
    assert CHANGED in said(runs["run.sh"])
    assert not report.remaining


def test_a_region_stays_where_another_switch_leaves_its_scaler_off(tmp_path: Path) -> None:
    report, runs = moved(tmp_path, all_rules(), switched("bfloat16", "scale"), "fp16-mixed")
    assert not report.changes
    assert "leaves this GradScaler switched off" in said(runs["run.sh"])


CALLED = """
    import argparse

    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()


    def table(model, data):
        dtype = torch.half if args.amp else torch.float
        scores = torch.zeros(4, dtype=DTYPE)
        scores[0] = model(data).sum()
        return scores


    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=args.amp):
            loss = model(torch.randn(2, 4).cuda()).sum()
            table(model, torch.randn(2, 4).cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(("dtype", "is_safe"), [("dtype", False), ("torch.float", True)])
def test_a_dtype_that_the_switch_of_the_region_picks_needs_leave(dtype: str, is_safe: bool, tmp_path: Path) -> None:
    code = CALLED.replace("dtype=DTYPE", f"dtype={dtype}")
    if is_safe:
        code = code.replace("dtype = torch.half if args.amp else torch.float", "pass")
    files = {"train.py": code, "run.sh": "python train.py --amp\n", "requirements.txt": "torch>=2.4\n"}
    report, runs = moved(tmp_path / "safe", all_rules(), files)
    assert bool(report.changes) == is_safe
    assert is_safe or "still says float16: torch.half" in said(runs["run.sh"])
    report, runs = moved(tmp_path / "unsafe", all_rules(), files, unsafe=True)
    levels = {fix.applicability for finding, fix in report.applied if finding.code == "PF001"}
    assert levels == {Applicability.SAFE if is_safe else Applicability.UNSAFE}


FILLED = """
    import argparse

    import yaml
    from accelerate import Accelerator


    def main(lr: float = 0.1, mixed_precision: str = "fp16"):
        accelerator = Accelerator(mixed_precision=mixed_precision)
        model, optimizer = accelerator.prepare(build(), build())
        loss = model()
        accelerator.backward(loss)
        optimizer.step()


    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--config")
        CALL
"""
LOADED = "main(**yaml.safe_load(open(parser.parse_args().config)))"


@pytest.mark.parametrize(("call", "is_moved"), [(LOADED, False), ("main(**dict())", False), ("main()", True)])
def test_a_default_that_a_loaded_mapping_replaces_does_not_move(call: str, is_moved: bool, tmp_path: Path) -> None:
    files = {"train.py": FILLED.replace("CALL", call), "run.sh": "python train.py --config $CONFIG\n", **REQUIRED}
    report, runs = moved(tmp_path, all_rules(), files)
    assert bool(report.changes) == is_moved
    assert (runs["run.sh"].state is MoveState.MOVED) == is_moved


CHOSEN = """
    import argparse

    from accelerate import Accelerator

    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", default=DEFAULT, choices=["no", "fp16"OTHER])
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    model, optimizer = accelerator.prepare(build(), build())
    loss = model()
    accelerator.backward(loss)
    optimizer.step()
"""
LINES = {
    "flag": ("None", "accelerate launch train.py --mixed_precision fp16\n"),
    "flag of a script that is known": ("None", "accelerate launch train_text_to_image.py --mixed_precision fp16\n"),
    "default": ('"fp16"', "accelerate launch train.py\n"),
}


@pytest.mark.parametrize("other", ["", ', "bf16"'])
@pytest.mark.parametrize(("default", "line"), LINES.values(), ids=LINES)
def test_a_word_that_the_option_refuses_needs_leave(default: str, line: str, other: str, tmp_path: Path) -> None:
    script = line.split()[2]
    code = CHOSEN.replace("DEFAULT", default).replace("OTHER", other)
    files = {script: code, "run.sh": line, **REQUIRED}
    report, runs = moved(tmp_path / "safe", all_rules(), files)
    assert bool(report.changes) == bool(other)
    assert runs["run.sh"].after == ("bf16-mixed" if other else "fp16-mixed")
    report, runs = moved(tmp_path / "unsafe", all_rules(), files, unsafe=True)
    assert runs["run.sh"].after == "bf16-mixed"
    assert other or b'"fp16", "bf16"]' in {item.path: item.after for item in report.changes}[script]
    more = "args = parser.parse_args()\n    print(args.mixed_precision[2:])"
    read_again = code.replace("args = parser.parse_args()", more)
    report, _ = moved(tmp_path / "read", all_rules(), {**files, script: read_again}, unsafe=True)
    assert bool(report.changes) == bool(other)


RESIZED = """
    import torch
    from torch.nn.functional import interpolate


    class Net(torch.nn.Module):
        def forward(self, x):
            return interpolate(x, scale_factor=2)


    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.randn(2, 4, 4, 4).cuda()).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(("pin", "is_safe"), [("torch>=1.13", False), ("torch>=2.1", True), ("", False)])
def test_a_kernel_that_older_releases_lack_needs_leave(pin: str, is_safe: bool, tmp_path: Path) -> None:
    files = {"train.py": RESIZED, "run.sh": "python train.py\n", **({"requirements.txt": f"{pin}\n"} if pin else {})}
    report, _ = moved(tmp_path / "safe", all_rules(), files)
    assert bool(report.changes) == is_safe
    report, _ = moved(tmp_path / "unsafe", all_rules(), files, unsafe=True)
    assert report.changes


def test_what_only_resizes_a_checkpoint_needs_no_leave(tmp_path: Path) -> None:
    code = RESIZED.replace("interpolate(x, scale_factor=2)", "x")
    resized = "def resized(weights):\n        return interpolate(weights, scale_factor=2)\n\n\n    "
    for number, used in enumerate(("x", "resized(x)")):
        text = code.replace("return x", f"return {used}").replace("net = Net", f"{resized}net = Net")
        files = {"train.py": text, "requirements.txt": "torch>=1.13\n"}
        report, _ = moved(tmp_path / str(number), all_rules(), files)
        told = [fix.message for item in report.findings if item.code == "PF001" for fix in item.fixes]
        assert ("a bfloat16 kernel for interpolate" in told[0]) == (used != "x")


def test_a_model_that_overflows_in_float16_needs_leave(tmp_path: Path) -> None:
    code = """
        from dataclasses import dataclass

        from transformers import AutoModelForSeq2SeqLM, HfArgumentParser, Trainer, TrainingArguments

        @dataclass
        class ModelArguments:
            model_name_or_path: str

        model_args, args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
        Trainer(AutoModelForSeq2SeqLM.from_pretrained(model_args.model_name_or_path), args).train()
    """
    files = {
        "train.py": code,
        "run.sh": "python train.py --model_name_or_path t5-large --bf16 --output_dir out\n",
        **REQUIRED,
    }
    report, runs = moved(tmp_path / "safe", all_rules(), files, "fp16-mixed")
    assert not report.changes
    assert "PF604 would be new" in said(runs["run.sh"])
    report, _ = moved(tmp_path / "unsafe", all_rules(), files, "fp16-mixed", unsafe=True)
    assert paths_changed(report) == {"run.sh"}
    assert all(fix.applicability is Applicability.UNSAFE for finding, fix in report.applied if finding.code == "PF001")


POLICIES = """
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

    half = MixedPrecision(param_dtype=torch.float16, reduce_dtype=torch.float16)
    wide = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)


    def policy(config):
        if config.use_fp16:
            return half
        return wide


    model = FullyShardedDataParallel(build(), mixed_precision=policy(load()))
    model().sum().backward()
"""


def test_one_of_two_policies_between_which_a_branch_chooses_stays(tmp_path: Path) -> None:
    report, runs = moved(tmp_path, all_rules(), {"train.py": POLICIES, **REQUIRED}, unsafe=True)
    assert not report.changes
    assert "are there to choose from" in said(runs["train.py"])


LAUNCHER = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: fp16\n"


def test_a_file_of_a_launcher_that_nothing_reads_does_not_move_alone(tmp_path: Path) -> None:
    code = CHOSEN.replace("DEFAULT", '"fp16"').replace("OTHER", ', "bf16"')
    files = {"train.py": code, "run.sh": "python train.py\n", "conf/two.yaml": LAUNCHER, **REQUIRED}
    report, runs = moved(tmp_path, all_rules(), files, unsafe=True)
    assert paths_changed(report) == {"train.py"}
    assert "nothing here is known to read this file" in said(runs["conf/two.yaml"])


@pytest.mark.parametrize(
    ("condition", "is_safe"),
    [
        ("args.kind == torch.float16", False),
        ("model.weight.dtype == torch.float16", True),
        ("args.kind in (torch.float16, torch.bfloat16)", True),
    ],
)
def test_a_branch_for_the_other_dtype_alone_needs_leave(condition: str, is_safe: bool, tmp_path: Path) -> None:
    code = CALLED.replace(
        "dtype = torch.half if args.amp else torch.float", f"if {condition}:\n            model.eval()"
    )
    files = {"train.py": code.replace("DTYPE", "torch.float"), "run.sh": "python train.py --amp\n"}
    report, runs = moved(tmp_path, all_rules(), {**files, "requirements.txt": "torch>=2.4\n"})
    assert bool(report.changes) == is_safe
    assert is_safe or "still says float16" in said(runs["run.sh"])


OF_TRAINER = """
    import torch
    from torch.cuda.amp import autocast
    from transformers import HfArgumentParser, Trainer, TrainingArguments


    class Own(Trainer):
        def training_step(self, model, inputs):
            if SWITCH:
                with autocast(dtype=torch.float16):
                    loss = model(**inputs).loss
            self.scaler.scale(loss).backward()
            return loss


    (args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
    Own(load(), args).train()
"""


@pytest.mark.parametrize(("switch", "is_left"), [("self.args.fp16", True), ("self.args.amp", False)])
def test_a_region_for_the_switch_of_a_trainer_stays(switch: str, is_left: bool, tmp_path: Path) -> None:
    report, _ = moved(
        tmp_path, all_rules(), {"train.py": OF_TRAINER.replace("SWITCH", switch), **REQUIRED}, unsafe=True
    )
    (message, *_) = [item.message for item in report.findings if item.code == "PF001"]
    assert ("switches it on for another dtype only" in message) == is_left
    assert any(b"bfloat16" in change.after for change in report.changes) != is_left


@pytest.mark.parametrize("word", ["fp8", "bf16"])
def test_what_computes_in_float8_is_left(word: str, tmp_path: Path) -> None:
    code = """
        import torch
        from accelerate import Accelerator

        if torch.cuda.get_device_capability()[0] >= 9:
            accelerator = Accelerator(mixed_precision="WORD")
        else:
            accelerator = Accelerator(mixed_precision="bf16")
        model, optimizer = accelerator.prepare(build(), build())
        accelerator.backward(model())
        optimizer.step()
    """
    files = {"train.py": code.replace("WORD", word), **REQUIRED}
    report, runs = moved(tmp_path, all_rules(), files, "fp16-mixed", unsafe=True)
    assert bool(report.changes) == (word == "bf16")
    assert word == "bf16" or "float8" in said(runs["train.py"])


OWN_LOOP = """
    import argparse

    import torch
    import yaml
    IMPORT

    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    cfg = yaml.safe_load(open(parser.parse_args().config))
    print(cfg["trainer"]["precision"])
"""
OF_LIGHTNING = "trainer:\n  precision: 16-mixed\n  accelerator: gpu\n  max_epochs: 3\n"


@pytest.mark.parametrize(("line", "is_trainer"), [("import os", False), ("import lightning as L", True)])
def test_a_file_is_of_a_trainer_that_its_program_uses(line: str, is_trainer: bool, tmp_path: Path) -> None:
    files = {
        "train.py": OWN_LOOP.replace("IMPORT", line),
        "run.sh": "python train.py --config conf/a.yaml\n",
        "conf/a.yaml": OF_LIGHTNING,
    }
    report, _ = moved(tmp_path, all_rules(), {**files, "requirements.txt": "torch>=2.4\n"}, unsafe=True)
    assert ("conf/a.yaml" in paths_changed(report)) == is_trainer


BUILT = """
    import importlib

    import hydra
    from accelerate import Accelerator


    def load(path):
        holder, name = path.rsplit(".", 1)
        return getattr(importlib.import_module(holder), name)


    @hydra.main(config_path="conf", config_name="config")
    def main(cfg):
        accelerator = Accelerator(mixed_precision=cfg.mixed_precision)
        runner = load(cfg.runner)(cfg, accelerator)
        accelerator.backward(runner.loss())


    main()
"""
RUNNER = """
    import torch


    class Runner:
        def __init__(self, cfg, accelerator):
            self.kind = KIND
"""


@pytest.mark.parametrize(("kind", "is_safe"), [("torch.float16", False), ("torch.float32", True)])
def test_what_a_program_imports_by_its_name_belongs_to_its_run(kind: str, is_safe: bool, tmp_path: Path) -> None:
    files = {
        "train.py": BUILT,
        "runners.py": RUNNER.replace("KIND", kind),
        "conf/config.yaml": "mixed_precision: fp16\nrunner: runners.Runner\nlr: 0.1\n",
        "run.sh": "python train.py\n",
        **REQUIRED,
    }
    report, runs = moved(tmp_path, all_rules(), files)
    assert bool(report.changes) == is_safe
    assert is_safe or "runners.py" in {place.path for place in runs["run.sh"].why}


ARRAYS = """
    import torch


    def evaluate(model, loader):
        seen = []
        with torch.no_grad():
            for batch in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    first, rest = model.encode(batch.cuda())
                    seen.append(first.cpu())
        return ARRAY


    def train(model, loader, optimizer):
        scaler = torch.amp.GradScaler("cuda")
        for batch in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(batch.cuda()).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        evaluate(model, loader)


    net = build()
    train(net, load(), torch.optim.SGD(net.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    ("array", "is_safe"),
    [
        ("torch.cat([item for item in seen]).numpy()", False),
        ("torch.cat(seen).float().numpy()", True),
        ("torch.cat(seen).argmax(1).numpy()", True),
        ("loader.labels.numpy()", True),
    ],
)
def test_an_array_of_what_nobody_knows_needs_leave(array: str, is_safe: bool, tmp_path: Path) -> None:
    files = {"train.py": ARRAYS.replace("ARRAY", array), "requirements.txt": "torch>=2.4\n"}
    report, runs = moved(tmp_path, all_rules(), files)
    assert bool(report.changes) == is_safe
    assert is_safe or "may then be bfloat16, which NumPy lacks" in said(runs["train.py"])


BY_ACCELERATE = """
    import argparse

    import torch
    from accelerate import Accelerator
    from diffusers import AutoencoderKL, StableDiffusionXLPipeline

    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", choices=["no", "fp16", "bf16"])
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    weight_dtype = torch.float32
    if accelerator.mixed_precision == "fp16":
        weight_dtype = torch.float16
    elif accelerator.mixed_precision == "bf16":
        weight_dtype = torch.bfloat16
    vae = AutoencoderKL.from_pretrained("m").requires_grad_(False)
    CAST
    model, optimizer = accelerator.prepare(build(), build())
    accelerator.backward(model(vae, StableDiffusionXLPipeline))
    optimizer.step()
    READ
"""
NARROW = "vae.to(accelerator.device, dtype=weight_dtype)"
PARTS = {
    "a VAE that follows": (NARROW, "", "fp16-mixed", False),
    "a VAE in float32": ("vae.to(accelerator.device, dtype=torch.float32)", "", "fp16-mixed", True),
    "a VAE in bfloat16": (NARROW, "", "bf16-mixed", True),
    "the scale of an optimizer": ("", "print(optimizer.cur_scale)", "bf16-mixed", False),
    "the scale of an optimizer that float16 has": ("", "print(optimizer.cur_scale)", "fp16-mixed", True),
}


@pytest.mark.parametrize(("cast", "read", "regime", "is_safe"), PARTS.values(), ids=PARTS)
def test_what_else_a_run_has_that_does_not_fit_needs_leave(
    cast: str, read: str, regime: str, is_safe: bool, tmp_path: Path
) -> None:
    old = "bf16" if regime == "fp16-mixed" else "fp16"
    files = {
        "train.py": BY_ACCELERATE.replace("CAST", cast).replace("READ", read),
        "run.sh": f"accelerate launch train.py --mixed_precision {old}\n",
        **REQUIRED,
    }
    report, _ = moved(tmp_path / "safe", all_rules(), files, regime)
    assert bool(report.changes) == is_safe
    report, _ = moved(tmp_path / "unsafe", all_rules(), files, regime, unsafe=True)
    assert paths_changed(report) == {"run.sh"}


def test_a_test_of_the_machine_is_told_once(tmp_path: Path) -> None:
    code = """
        import torch

        dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


        def train(model, loader, optimizer):
            scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
            for batch in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=dtype):
                    loss = model(batch.cuda()).sum()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                with torch.autocast("cuda", dtype=dtype):
                    print(model(batch.cuda()).sum())


        net = build()
        train(net, load(), torch.optim.SGD(net.parameters(), lr=0.1))
    """
    report, runs = moved(tmp_path, all_rules(), {"train.py": code, "requirements.txt": "torch>=2.4\n"}, "fp16-mixed")
    assert not report.changes
    assert len(runs["train.py"].why) == 1


STARTED = """
    import argparse

    import lightning

    from nets import Net

    parser = argparse.ArgumentParser()
    parser.add_argument("--precision")
    lightning.Trainer(precision=parser.parse_args().precision).fit(Net())
"""


@pytest.mark.parametrize(
    ("other", "is_safe"),
    [({}, True), ({"all.sh": "export PREC=16-mixed\nbash run.sh\n"}, False), ({".env": "PREC=16-mixed\n"}, False)],
    ids=["the default alone", "another script", "an environment"],
)
def test_a_default_of_the_shell_that_others_set_needs_leave(
    other: dict[str, str], is_safe: bool, tmp_path: Path
) -> None:
    files = {
        "train.py": STARTED,
        "run.sh": 'python train.py --precision "${PREC:-16-mixed}"\n',
        "requirements.txt": "torch>=2.4\nlightning==2.2.0\n",
    }
    report, _ = moved(tmp_path, all_rules(), files | other, "bf16-mixed")
    assert bool(report.changes) == is_safe


ENDS = """
    import torch
    from lib import fancy

    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = SCALER
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            out = REGION
            loss = out.sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    LAST
"""


@pytest.mark.parametrize(
    ("region", "last", "pin", "is_safe"),
    [
        ("model(torch.ones(2, 4).cuda()).relu()", "print(loss.item())", "2.4", True),
        ("fancy(model(torch.ones(2, 4).cuda()))", "print(loss.item())", "2.4", False),
        ("fancy(model(torch.ones(2, 4).cuda()))", "print(out.detach().cpu().numpy())", "2.4", False),
        (
            "torch.nn.functional.interpolate(model(torch.ones(2, 1, 4).cuda()), scale_factor=2.0)",
            "print(loss.item())",
            "1.10",
            False,
        ),
    ],
    ids=["a number", "a function that nobody knows", "an array of what it gives", "a late kernel in the region"],
)
def test_what_a_region_makes_behind_it_needs_leave(
    region: str, last: str, pin: str, is_safe: bool, tmp_path: Path
) -> None:
    scaler = "torch.cuda.amp.GradScaler()" if pin == "1.10" else 'torch.amp.GradScaler("cuda")'
    code = ENDS.replace("REGION", region).replace("LAST", last).replace("SCALER", scaler)
    report, _ = moved(tmp_path, all_rules(), {"train.py": code, "requirements.txt": f"torch>={pin}\n"}, "bf16-mixed")
    assert bool(report.changes) == is_safe


EIGHT_BITS = """
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    model = AutoModelForCausalLM.from_pretrained("m", load_in_8bit=QUANTIZED)
    model = get_peft_model(model, LoraConfig())
    args = TrainingArguments("out", fp16=True)
    Trainer(model, args, train_dataset=[]).train()
"""


@pytest.mark.parametrize(("quantized", "is_safe"), [("True", False), ("False", True)])
def test_weights_of_eight_bits_need_leave(quantized: str, is_safe: bool, tmp_path: Path) -> None:
    files = {
        "train.py": EIGHT_BITS.replace("QUANTIZED", quantized),
        "requirements.txt": "torch>=2.4\ntransformers>=4.40\n",
    }
    report, runs = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert (runs["train.py"].state is MoveState.MOVED) == is_safe
    assert bool(report.changes) == is_safe
    assert is_safe or "load_in_8bit computes with quantized weights" in said(runs["train.py"])


def test_weights_of_eight_bits_in_another_file_need_leave(tmp_path: Path) -> None:
    loading = 'from transformers import AutoModel\ndef load():\n    options = {"load_in_8bit": True}\n'
    code = """
        from loading import load
        from transformers import Trainer, TrainingArguments

        Trainer(load(), TrainingArguments("out", fp16=True), train_dataset=[]).train()
    """
    files = {
        "loading.py": f'{loading}    return AutoModel.from_pretrained("m", **options)\n',
        "train.py": code,
        "requirements.txt": "torch>=2.4\ntransformers>=4.40\n",
    }
    report, _ = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert not report.changes
