"""What a trainer gets or makes out of sight has to fit after a move, too: a DeepSpeed file, a scaler."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fixture_cases import all_rules
from .test_moving import moved, paths_changed

PINS = "torch>=2.4\ntransformers>=4.40\naccelerate>=1.0\nlightning>=2.2\n"
TRAINER = """
    import argparse
    import os

    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--out", default="out")
    parser.add_argument("--deepspeed", default=DEFAULT)
    args = parser.parse_args()
    settings = TrainingArguments(args.out, fp16=SWITCH, deepspeed=args.deepspeed)
    Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), settings).train()
"""
SHARDED = '{"fp16": {"enabled": true, "loss_scale": 0}, "zero_optimization": {"stage": 2}}\n'


@pytest.mark.parametrize(
    ("default", "switch", "texts", "is_safe"),
    [
        ("None", "True", {"run.sh": "python train.py\n"}, True),
        ("None", "True", {"run.sh": "python train.py --out $OUT\n"}, True),
        ("None", "args.fp16", {"run.sh": "python train.py --fp16 $DS\n"}, False),
        (
            "None",
            "True",
            {"run.sh": 'F=""\nif [ $N -gt 1 ]; then F="--deepspeed z/ds.json"; fi\npython train.py $F\n'},
            False,
        ),
        ("None", "True", {"run.sh": 'python train.py --out x "$@"\n'}, False),
        ("None", "True", {"run.sh": "python train.py --deepspeed $DS\n"}, False),
        ("None", "args.fp16", {"run.sh": "python train.py --fp16\n"}, True),
        (
            "None",
            "args.fp16",
            {"run.sh": "source env.sh\npython train.py --fp16 $DS\n", "env.sh": 'export DS="--deepspeed z/ds.json"\n'},
            False,
        ),
        ('os.environ.get("DS")', "True", {"run.sh": "export DS=z/ds.json\npython train.py\n"}, False),
        ('""', "True", {"run.sh": "export DS=z/ds.json\npython train.py\n"}, True),
    ],
)
def test_a_trainer_that_may_get_a_deepspeed_file_does_not_move_without_it(
    default: str, switch: str, texts: dict[str, str], is_safe: bool, tmp_path: Path
) -> None:
    code = TRAINER.replace("DEFAULT", default).replace("SWITCH", switch)
    pins = PINS.replace(">=4.40", ">=4.40,<5")  # 5.0 loads weights as they are saved
    files = {"train.py": code, "z/ds.json": SHARDED, "requirements.txt": pins, **texts}
    report, runs = moved(tmp_path, all_rules(), files, "fp32")
    assert (not paths_changed(report).isdisjoint(("train.py", "run.sh"))) == is_safe
    assert is_safe or any("z/ds.json" in place.message for place in runs["run.sh"].why)


OF_ACCELERATE = """
    from accelerate import Accelerator

    acc = Accelerator(mixed_precision="fp16")
    model, optimizer, data = acc.prepare(build(), make(), load())
    for x in data:
        acc.backward(model(x).float().mean())
        optimizer.step()
        READ
"""
OF_LIGHTNING = """
    import lightning as L
    import torch


    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def training_step(self, batch, index):
            return self.layer(batch).float().pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

        def on_before_optimizer_step(self, optimizer):
            READ


    L.Trainer(precision="16-mixed", accelerator="gpu").fit(Net(), load())
"""
OF_PLUGIN = "self.trainer.precision_plugin"


@pytest.mark.parametrize("regime", ["bf16-mixed", "fp32"])
@pytest.mark.parametrize(
    ("code", "read", "is_safe"),
    [
        (OF_ACCELERATE, "print(acc.scaler.get_scale())", False),
        (OF_ACCELERATE, "print(acc.scaler.get_scale() if acc.scaler is not None else 1)", True),
        (OF_ACCELERATE, "held = acc.scaler; print(held.get_scale())", False),
        (OF_ACCELERATE, "held = acc.scaler; print(held.get_scale() if held is not None else 1)", True),
        (OF_ACCELERATE, "print(acc.num_processes)", True),
        (OF_ACCELERATE, "print(data.scaler.inverse_transform(x))", True),
        (OF_LIGHTNING, f"self.log('scale', {OF_PLUGIN}.scaler.get_scale())", False),
        (OF_LIGHTNING, f"{OF_PLUGIN}.scaler and self.log('scale', {OF_PLUGIN}.scaler.get_scale())", True),
    ],
)
def test_a_trainer_whose_scaler_is_read_leaves_float16_with_leave(
    code: str, read: str, is_safe: bool, regime: str, tmp_path: Path
) -> None:
    files = {"train.py": code.replace("READ", read), "requirements.txt": PINS}
    report, runs = moved(tmp_path / "safe", all_rules(), files, regime)
    assert bool(report.changes) == is_safe
    assert is_safe or "reads the scaler" in runs["train.py"].why[0].message
    report, _ = moved(tmp_path / "unsafe", all_rules(), files, regime, unsafe=True)
    assert paths_changed(report) == {"train.py"}


SEGMENTED = """
    import lightning as L
    import torch
    from torch.nn import functional


    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 3, 3)

        def training_step(self, batch, index):
            return functional.cross_entropy(functional.interpolate(self.conv(batch[0]), scale_factor=2), batch[1])

        def validation_step(self, batch, index):
            return {"logits": self.conv(batch[0])}
"""
OF_LIGHTNING = {
    "net.py": SEGMENTED,
    "train.py": 'from lightning.pytorch.cli import LightningCLI\n\nif __name__ == "__main__":\n    LightningCLI()\n',
    "config.yaml": "trainer:\n  precision: 16-mixed\n  accelerator: gpu\nmodel:\n  class_path: net.Net\n",
    "run.sh": "python train.py fit --config config.yaml\n",
}
OF_HYDRA = {
    "net.py": SEGMENTED,
    "train.py": """
        import hydra


        @hydra.main(config_path="conf", config_name="config", version_base=None)
        def main(config):
            hydra.utils.instantiate(config.trainer).fit(hydra.utils.instantiate(config.model))


        if __name__ == "__main__":
            main()
    """,
    "conf/config.yaml": "trainer:\n  _target_: lightning.Trainer\n  precision: 16-mixed\nmodel:\n  _target_: net.Net\n",
    "run.sh": "python train.py\n",
}
WRITES = """
    import numpy as np
    from lightning.pytorch.callbacks import Callback


    class Writes(Callback):
        def on_validation_batch_end(self, trainer, module, outputs, batch, batch_idx):
            np.save("out.npy", outputs["logits"]CAST.cpu().numpy())
"""
ACCELERATED = """
    import numpy as np
    import torch
    from accelerate import Accelerator
    IMPORTS

    accelerator = Accelerator(mixed_precision="fp16")
    head = torch.nn.Linear(4, 4).to(accelerator.device)
    net = torch.nn.Linear(8, 4)
    net, opt = accelerator.prepare(net, torch.optim.AdamW(net.parameters()))
    for x in torch.randn(3, 2, 8):
        with accelerator.autocast():
            made = head(net(x))
            loss = made.float().pow(2).mean()
        accelerator.backward(loss)
        opt.step()
        KEPT
"""
SHARDS = """
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    half = MixedPrecision(param_dtype=torch.float16, reduce_dtype=torch.float16)
    net = FullyShardedDataParallel(torch.nn.Linear(8, 4).cuda(), mixed_precision=half)
    opt, scaler = torch.optim.AdamW(net.parameters()), ShardedGradScaler()


    def train():
        for x in torch.randn(3, 2, 8).cuda():
            made = net(x)
            scaler.scale(made.float().pow(2).mean()).backward()
            scaler.step(opt)
            scaler.update()
            KEPT


    train()
"""
ENGINE = """
    import deepspeed
    import torch

    net = torch.nn.Linear(8, 4)
    config = {"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "Adam"}, "fp16": {"enabled": True}}
    engine, optimizer, _, _ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=config)
    for x in torch.randn(3, 4, 8).cuda():
        ASKED
        engine.backward(engine(x).float().pow(2).mean())
        engine.step()
"""
LOADING = """
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    net = AutoModelForCausalLM.from_pretrained("m"GIVEN)
    Trainer(net, TrainingArguments("out", bf16=True)).train()
"""
CONFIG = """
    _base_ = "BASE"
    optim_wrapper = dict(type="AmpOptimWrapper", loss_scale="dynamic", optimizer=dict(type="AdamW"))
"""


def _of(code: str, pins: str = PINS, **changed: str) -> dict[str, str]:
    for name, text in changed.items():
        code = code.replace(name, text)
    return {"train.py": code, "requirements.txt": pins}


@pytest.mark.parametrize(
    ("files", "target", "is_safe"),
    [
        ({**OF_LIGHTNING, "requirements.txt": "torch>=2.0\nlightning>=2.2\n"}, "bf16-mixed", False),
        ({**OF_LIGHTNING, "requirements.txt": PINS}, "bf16-mixed", True),
        ({**OF_LIGHTNING, "requirements.txt": PINS, "seen.py": WRITES.replace("CAST", "")}, "bf16-mixed", False),
        ({**OF_LIGHTNING, "requirements.txt": PINS, "seen.py": WRITES.replace("CAST", ".float()")}, "bf16-mixed", True),
        ({**OF_HYDRA, "requirements.txt": "torch==1.13.1\nlightning>=2.2\n"}, "bf16-mixed", False),
        ({**OF_HYDRA, "requirements.txt": PINS}, "bf16-mixed", True),
        (_of(ACCELERATED, IMPORTS="", KEPT="pass"), "bf16-mixed", True),
        (_of(ACCELERATED, IMPORTS="", KEPT="np.save('a.npy', made.detach().cpu().numpy())"), "bf16-mixed", False),
        (
            _of(ACCELERATED, IMPORTS="", KEPT="np.save('a.npy', made.detach().float().cpu().numpy())"),
            "bf16-mixed",
            True,
        ),
        (_of(ACCELERATED, IMPORTS="import torch_scatter", KEPT="pass"), "bf16-mixed", False),
        (
            _of(ACCELERATED, f"{PINS}torch-scatter>=2.1\n", IMPORTS="import torch_scatter", KEPT="pass"),
            "bf16-mixed",
            True,
        ),
        (_of(ACCELERATED, IMPORTS="from mmcv.ops import RoIAlign", KEPT="pass"), "bf16-mixed", False),
        (_of(SHARDS, KEPT="pass"), "bf16-mixed", True),
        (_of(SHARDS, KEPT="print(made.detach().cpu().numpy())"), "bf16-mixed", False),
        (_of(SHARDS, KEPT="print(made.detach().cpu().numpy())"), "fp32", True),
        (_of(ENGINE, ASKED="pass"), "bf16-mixed", True),
        (_of(ENGINE, "deepspeed==0.4.5\n", ASKED="pass"), "bf16-mixed", False),
        (_of(ENGINE, ASKED="x = x.half() if engine.fp16_enabled() else x"), "bf16-mixed", False),
        (_of(ENGINE, ASKED="x = x.half() if engine.fp16_enabled() else x"), "fp32", True),
        (_of(ENGINE, ASKED="print(engine.fp16_enabled(), engine.bfloat16_enabled())"), "bf16-mixed", True),
        (_of(ENGINE, ASKED="print(optimizer.cur_scale)"), "fp32", False),
        (_of(LOADING, GIVEN=""), "fp16-mixed", False),
        (_of(LOADING, "torch>=2.4\ntransformers>=4.40,<5\n", GIVEN=""), "fp16-mixed", True),
        (_of(LOADING, GIVEN=", dtype='float32'"), "fp16-mixed", True),
        ({"config.py": CONFIG.replace("BASE", "mmdet::mask2former/r50.py")}, "bf16-mixed", False),
        (
            {"config.py": CONFIG.replace("BASE", "./base.py"), "base.py": "model = dict(type='Net')\n"},
            "bf16-mixed",
            True,
        ),
        (
            {"config.py": CONFIG.replace("BASE", "./base.py"), "requirements.txt": "mmengine==0.5.0\n"},
            "bf16-mixed",
            False,
        ),
    ],
)
def test_what_runs_beside_a_trainer_s_setting_has_to_fit(
    files: dict[str, str], target: str, is_safe: bool, tmp_path: Path
) -> None:
    report, _ = moved(tmp_path, all_rules(), files, target)
    assert bool(report.changes) == is_safe


CHECKED = """
    import argparse

    import torch
    from transformers import AutoModel, HfArgumentParser, Trainer, TrainingArguments

    TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


    def check(name):
        if name not in KNOWN:
            raise ValueError(name)


    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--precision", choices=["fp16", "bf16", "fp32"], default="fp32")
        args = parser.parse_args()
        check(args.precision)
        dtype = TYPES[args.precision]
        net = torch.nn.Linear(8, 4).cuda()
        opt, scaler = torch.optim.AdamW(net.parameters()), torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
        for x in torch.randn(3, 4, 8).cuda():
            with torch.autocast("cuda", dtype=dtype):
                loss = net(x).pow(2).mean()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()


    main()
"""
ASKING = """
    from transformers import AutoModel, HfArgumentParser, Trainer, TrainingArguments


    def main():
        (args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
        TEST
        Trainer(AutoModel.from_pretrained("m"), args).train()


    main()
"""


@pytest.mark.parametrize(
    ("code", "line", "is_safe"),
    [
        (CHECKED.replace("KNOWN", "('fp16', 'fp32')"), "python train.py --precision fp16\n", False),
        (CHECKED.replace("KNOWN", "('fp16', 'bf16')"), "python train.py --precision fp16\n", True),
        (CHECKED.replace("KNOWN", "('gelu', 'relu', 'fp16x')"), "python train.py --precision fp16\n", True),
        (
            ASKING.replace("TEST", "assert args.fp16, 'kernels of float16'"),
            "python train.py --output_dir o --fp16\n",
            False,
        ),
        (ASKING.replace("TEST", "assert args.fp16 or args.bf16"), "python train.py --output_dir o --fp16\n", True),
        (
            ASKING.replace("TEST", "if args.bf16 and args.no_cuda:\n            raise ValueError('no GPU')"),
            "python train.py --output_dir o --fp16\n",
            True,
        ),
    ],
)
def test_a_check_that_stops_at_the_new_value_holds_the_run_back(
    code: str, line: str, is_safe: bool, tmp_path: Path
) -> None:
    files = {"train.py": code, "run.sh": line, "requirements.txt": PINS}
    report, _ = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert paths_changed(report) == ({"run.sh"} if is_safe else set())


LOOP = _of(
    """
    import torch

    net = torch.nn.Linear(8, 4).cuda()
    opt, scaler = torch.optim.AdamW(net.parameters()), torch.amp.GradScaler("cuda")
    for x in torch.randn(3, 4, 8).cuda():
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    """
)
OLD_JOB = {"job.sbatch": "#!/bin/bash\n#SBATCH --gres=gpu:v100:4\nsrun python train.py\n"}
NEW_JOB = {"new.sbatch": "#!/bin/bash\n#SBATCH --gres=gpu:a100:4\nsrun python train.py\n"}


@pytest.mark.parametrize(
    ("job", "is_safe"),
    [
        (OLD_JOB, False),
        (NEW_JOB, True),
        ({**OLD_JOB, **NEW_JOB}, True),
        ({"job.sbatch": "#SBATCH --constraint=v100-32g\nsrun python train.py\n"}, False),
        ({"job.yaml": "kind: Job\nnodeSelector:\n  cloud.google.com/gke-accelerator: nvidia-tesla-t4\n"}, False),
        ({"serve.yaml": "kind: Deployment\nnodeSelector:\n  cloud/gke-accelerator: nvidia-tesla-t4\n"}, True),
        ({"launch.py": "start('train.py', instance_type='ml.g4dn.xlarge')\n"}, False),
        ({"launch.py": "start('train.py', instance_type='ml.g5.xlarge')\n"}, True),
    ],
)
def test_a_job_on_gpus_without_bfloat16_needs_leave(job: dict[str, str], is_safe: bool, tmp_path: Path) -> None:
    report, _ = moved(tmp_path, all_rules(), {**LOOP, **job}, "bf16-mixed")
    assert bool(report.changes) == is_safe


SHARED = {
    "train.py": """
        import torch
        import yaml

        settings = yaml.safe_load(open("conf.yaml"))
        dtype = getattr(torch, settings["precision"])
        net = torch.nn.Linear(8, 4).cuda()
        opt, scaler = torch.optim.AdamW(net.parameters()), torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
        for x in torch.randn(3, 4, 8).cuda():
            with torch.autocast("cuda", dtype=dtype):
                loss = net(x).pow(2).mean()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        torch.save(net.state_dict(), "net.pt")
    """,
    "conf.yaml": "precision: float16\n",
    "requirements.txt": PINS,
}
EXPORT = """
    import numpy as np
    import torch
    import yaml

    settings = yaml.safe_load(open("conf.yaml"))
    weights = torch.load("net.pt")
    READ
"""
LOOKED_UP = """
    import lightning as L
    import torch

    TABLE = {WORDS}
    net = L.LightningModule()
    trainer = L.Trainer(precision="16-mixed", accelerator="gpu")
    trainer.fit(net)
    print(TABLE[trainer.precision])
"""


@pytest.mark.parametrize(
    ("files", "target", "is_safe"),
    [
        (SHARED, "bf16-mixed", True),
        (
            {
                **SHARED,
                "export.py": EXPORT.replace(
                    "READ", "print(weights['w'].to(getattr(torch, settings['precision'])).numpy())"
                ),
            },
            "bf16-mixed",
            False,
        ),
        ({**SHARED, "export.py": EXPORT.replace("READ", "print(weights['weight'].numpy())")}, "bf16-mixed", True),
        (_of(LOOKED_UP, WORDS="'16-mixed': 2, '32-true': 4"), "bf16-mixed", False),
        (_of(LOOKED_UP, WORDS="'16-mixed': 2, '32-true': 4"), "fp32", True),
        (_of(LOOKED_UP, WORDS="'16-mixed': 2, 'bf16-mixed': 2"), "bf16-mixed", True),
    ],
)
def test_other_readers_of_a_setting_have_to_know_its_new_value(
    files: dict[str, str], target: str, is_safe: bool, tmp_path: Path
) -> None:
    report, _ = moved(tmp_path, all_rules(), files, target)
    assert bool(report.changes) == is_safe


TESTED = """
    import torch
    from train import step


    def test_step():
        out = step(torch.nn.Linear(8, 4).cuda(), torch.randn(2, 8).cuda())
        assert TEST
"""
STEP = """
    import torch


    def step(net, x):
        opt, scaler = torch.optim.AdamW(net.parameters()), torch.amp.GradScaler("cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            out = net(x)
            loss = out.float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return out.detach()


    if __name__ == "__main__":
        step(torch.nn.Linear(8, 4).cuda(), torch.randn(2, 8).cuda())
"""


@pytest.mark.parametrize(
    ("test", "target", "is_safe"),
    [
        ("out.dtype == torch.float16", "bf16-mixed", False),
        ("out.dtype in (torch.float16, torch.bfloat16)", "bf16-mixed", True),
        ("out.shape == (2, 4)", "bf16-mixed", True),
        ("out.dtype == torch.float16", "fp32", False),
    ],
)
def test_a_test_that_demands_the_dtype_of_today_needs_leave(
    test: str, target: str, is_safe: bool, tmp_path: Path
) -> None:
    report, _ = moved(tmp_path, all_rules(), {**_of(STEP), "test_train.py": TESTED.replace("TEST", test)}, target)
    assert bool(report.changes) == is_safe


ATTENDING = """
    import torch
    from torch import nn
    IMPORTED


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(16, 48)

        def forward(self, x):
            q, k, v = self.layer(x).chunk(3, -1)
            return COMPUTED


    net = Net().cuda()
    opt = torch.optim.AdamW(net.parameters())
    for step in range(3):
        for x in torch.randn(3, 1, 4, 1, 16).cuda():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                made = net(x)
                loss = made.float().pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
"""


@pytest.mark.parametrize(
    ("imported", "computed", "target", "is_safe"),
    [
        ("from flash_attn import flash_attn_func", "flash_attn_func(q, k, v)", "fp32", False),
        ("from flash_attn import flash_attn_func", "flash_attn_func(q, k, v)", "fp16-mixed", True),
        ("", "nn.functional.scaled_dot_product_attention(q, k, v)", "fp32", True),
        ("", "q * 1e5 + v", "fp16-mixed", False),
        ("", "q * 1e3 + v", "fp16-mixed", True),
    ],
)
def test_kernels_and_numbers_of_a_region_have_to_fit(
    imported: str, computed: str, target: str, is_safe: bool, tmp_path: Path
) -> None:
    report, _ = moved(tmp_path, all_rules(), _of(ATTENDING, IMPORTED=imported, COMPUTED=computed), target)
    assert bool(report.changes) == is_safe


@pytest.mark.parametrize(("kept", "is_safe"), [(".tobytes()", False), (".mean()", True)])
def test_bytes_of_an_array_are_not_those_of_another_dtype(kept: str, is_safe: bool, tmp_path: Path) -> None:
    code = STEP.replace("return out.detach()", f"print(out.detach().cpu().numpy(){kept})")
    code = code.replace("def step(net, x):", "def step(x):\n        net = torch.nn.Linear(8, 4).cuda()")
    code = code.replace("step(torch.nn.Linear(8, 4).cuda(), ", "step(")
    report, _ = moved(tmp_path, all_rules(), _of(code), "bf16-mixed")
    assert bool(report.changes) == is_safe


PARSED = """
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args).train()
"""
LAUNCHERS = (
    ('L="accelerate launch --config_file z/$1.yaml --role \\\\$(hostname -s): --tee 3"\n', {"run.sh", "z/a.yaml"}),
    ('L="accelerate launch --config_file z/a.yaml"\n', {"run.sh", "z/a.yaml"}),
    ('L="accelerate launch --config_file z/a.yaml; echo done"\n', set()),
    ('if [ "$N" ]; then L="accelerate launch --config_file z/a.yaml"; else L="accelerate launch"; fi\n', set()),
)


@pytest.mark.parametrize(("launcher", "changed"), LAUNCHERS)
def test_a_line_of_which_a_part_is_not_read_does_not_move_alone(
    launcher: str, changed: set[str], tmp_path: Path
) -> None:
    line = 'bash -c "$L --role \\$NODE: train.py --output_dir out --bf16"\n'
    pins = PINS.replace(">=4.40", ">=4.40,<5")
    files = {"train.py": PARSED, "z/a.yaml": "distributed_type: MULTI_GPU\nmixed_precision: bf16\n"}
    files |= {"run.sh": launcher.replace("\\\\", "\\") + line, "requirements.txt": pins}
    report, _ = moved(tmp_path, all_rules(), files, "fp32")
    assert paths_changed(report) == changed


INHERITED = """
    from grad_cache import GradCache
    from transformers import AutoModel, HfArgumentParser, Trainer, TrainingArguments
    from torch.cuda.amp import autocast


    class Cached(Trainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            BODY


    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    trainer = Cached(AutoModel.from_pretrained("bert-base-uncased"), args)
    trainer.train()
"""


@pytest.mark.parametrize(
    ("body", "flag", "regime", "said"),
    [
        ("self.cache = GradCache([self.model], scaler=self.scaler)", "fp16", "fp32", "self.scaler reads the scaler"),
        ("self.cache = GradCache([self.model], scaler=self.scaler)", "bf16", "fp32", "self.scaler reads the scaler"),
        ("self.cache = GradCache([self.model], scaler=self.scaler)", "fp16", "bf16-mixed", "self.scaler reads the"),
        ("self.cache = GradCache([self.model], fp16=self.args.fp16)", "fp16", "bf16-mixed", "a switch that goes off"),
        ("self.cache = GradCache([self.model], fp16=self.args.fp16)", "fp16", "fp32", ""),
        (
            "self.cache = GradCache([self.model], fp16=self.args.fp16, bf16=self.args.bf16)",
            *("fp16", "bf16-mixed", ""),
        ),
        ("self.scaler = None; self.cache = GradCache([self.model], scaler=self.scaler)", "fp16", "fp32", ""),
        ("self.cache = self.scaler if self.args.fp16 else None", "fp16", "fp32", ""),
        ("self.cache = autocast if self.use_cuda_amp else None", "fp16", "bf16-mixed", "is a switch of the Trainer"),
    ],
)
def test_what_a_trainer_has_for_the_type_of_today_alone_needs_leave(
    body: str, flag: str, regime: str, said: str, tmp_path: Path
) -> None:
    pins = PINS.replace(">=4.40", ">=4.40,<5")
    line = f"python train.py --output_dir out --{flag}\n"
    files = {"train.py": INHERITED.replace("BODY", body), "run.sh": line, "requirements.txt": pins}
    report, runs = moved(tmp_path / "safe", all_rules(), files, regime)
    assert bool(report.changes) == (not said)
    assert any(said in place.message for place in runs["run.sh"].why) if said else not runs["run.sh"].why
    report, runs = moved(tmp_path / "unsafe", all_rules(), files, regime, unsafe=True)
    assert paths_changed(report) == {"run.sh"}
    assert runs["run.sh"].after == regime, "the flag is gone, and the Trainer is off where nothing is said"


QUANTIZED = """
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
    from transformers import (
        AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, GPTQConfig, Trainer, TrainingArguments
    )
    import torch

    NAME = "lab/net"
    model = LOAD
    model = get_peft_model(model, LoraConfig(r=8))
    Trainer(model, TrainingArguments("out", bf16=True)).train()
"""
IN_4_BITS = "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32)"


@pytest.mark.parametrize(
    ("load", "is_safe"),
    [
        ("AutoModelForCausalLM.from_pretrained(NAME)", True),
        ("AutoModelForCausalLM.from_pretrained(NAME, quantization_config=GPTQConfig(bits=4))", False),
        ('AutoModelForCausalLM.from_pretrained("lab/net-GPTQ")', False),
        ('AutoModelForCausalLM.from_pretrained("lab/net-AWQ-v2")', False),
        ('AutoModelForCausalLM.from_pretrained("lab/net-bnb-4bit")', False),
        ('AutoTokenizer.from_pretrained("lab/net-AWQ"); model = AutoModelForCausalLM.from_pretrained(NAME)', False),
        (f"AutoModelForCausalLM.from_pretrained(NAME, quantization_config={IN_4_BITS})", False),
        (
            f"AutoModelForCausalLM.from_pretrained(NAME, quantization_config={IN_4_BITS}, torch_dtype=torch.float32)",
            True,
        ),
        (
            f"AutoModelForCausalLM.from_pretrained(NAME, quantization_config={IN_4_BITS});"
            "model = prepare_model_for_kbit_training(model)",
            True,
        ),
    ],
)
def test_quantized_weights_without_a_dtype_compute_in_float16(load: str, is_safe: bool, tmp_path: Path) -> None:
    pins = PINS.replace(">=4.40", ">=4.40,<5")
    files = {"train.py": QUANTIZED.replace("LOAD", load), "requirements.txt": pins}
    report, _ = moved(tmp_path, all_rules(), files, "fp32")
    said = [fix.message for finding in report.findings for fix in finding.fixes]
    assert any("quantized weights without a dtype" in message for message in said) == (not is_safe)
    assert is_safe or not report.changes


COMPOSED = """
    import hydra
    import torch
    from torch import nn


    @hydra.main(config_path=".", config_name="base")
    def main(cfg):
        model = nn.Linear(8, 8).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled=cfg.training.use_amp)
        for batch in [torch.ones(2, 8).cuda()]:
            optimizer.zero_grad()
            with torch.autocast("cuda", enabled=cfg.training.use_amp):
                loss = model(batch).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ("python train.py", "fp16-mixed", None),
        ("python train.py --config-name=base training.use_amp=false", "fp32", None),
        ("python train.py training.use_amp=True", "fp16-mixed", "python train.py training.use_amp=False"),
        ("python train.py +training.use_amp=true", "fp16-mixed", "python train.py +training.use_amp=false"),
    ],
)
def test_what_a_line_sets_over_a_file_counts(line: str, before: str, after: str | None, tmp_path: Path) -> None:
    files = {"train.py": COMPOSED, "base.yaml": "training:\n  use_amp: true\n", "run.sh": f"{line}\n"}
    report, runs = moved(tmp_path, all_rules(), {**files, "requirements.txt": PINS}, "fp32")
    assert (runs["run.sh"].before, runs["run.sh"].after) == (before, "fp32")
    written = {change.path: change.after.decode() for change in report.changes}
    assert written.get("run.sh") == (f"{after}\n" if after else None)
