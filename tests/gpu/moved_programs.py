"""Programs of several kinds, each in one regime, that train a few steps on a GPU; :mod:`tests.gpu.moves` moves them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

REQUIREMENTS = "torch>=2.4\ntransformers>=4.46\naccelerate>=1.0\nlightning>=2.2\ndeepspeed>=0.17.2\n"


@dataclass(frozen=True)
class Program:
    """Files that ``bash run.sh`` runs."""

    name: str
    regime: str
    files: Mapping[str, str]


def _program(name: str, regime: str, code: str, command: str = "python train.py", **more: str) -> Program:
    files = {
        "train.py": textwrap.dedent(code).strip() + "\n",
        "run.sh": command + "\n",
        "requirements.txt": REQUIREMENTS,
    }
    return Program(
        name,
        regime,
        {**files, **{key.replace("__", "."): textwrap.dedent(text).strip() + "\n" for key, text in more.items()}},
    )


_NET = """
import argparse
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x)


"""
_DATA = """
data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=16)
"""
_SCALED = (
    _NET
    + """
def main():
    data = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(4)]
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in data:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    print(loss.item())


main()
"""
)
_REGION = (
    _NET
    + """
def main():
    data = [(torch.randn(8, 16), torch.randint(0, 4, (8,))) for _ in range(4)]
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in data:
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
    print(loss.item())


main()
"""
)
_SWITCH = (
    _NET
    + """
parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
args = parser.parse_args()
dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[args.dtype]
model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", enabled=args.dtype == "float16")
for _ in range(4):
    x, y = torch.randn(8, 16, device="cuda"), torch.randint(0, 4, (8,), device="cuda")
    with torch.autocast("cuda", dtype=dtype, enabled=args.dtype != "float32"):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
)
_FLAG = (
    _NET
    + """
parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
for _ in range(4):
    x, y = torch.randn(8, 16).cuda(), torch.randint(0, 4, (8,)).cuda()
    with torch.cuda.amp.autocast(enabled=args.amp):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
)
_WEIGHTS = (
    _NET
    + """
model = Net().to("cuda", dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    x = torch.randn(8, 16, device="cuda", dtype=torch.bfloat16)
    y = torch.randint(0, 4, (8,), device="cuda")
    loss = nn.functional.cross_entropy(model(x).float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)
_PLAIN = (
    _NET
    + """
def main():
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        x, y = torch.randn(8, 16).cuda(), torch.randint(0, 4, (8,)).cuda()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
"""
)
_ACCELERATE = (
    _NET.replace("import argparse\n", "")
    + "from accelerate import Accelerator\n"
    + _DATA
    + """
accelerator = Accelerator({})
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""
)
_ACCELERATE_FILE = """
compute_environment: LOCAL_MACHINE
distributed_type: 'NO'
mixed_precision: fp16
num_machines: 1
num_processes: 1
use_cpu: false
"""
_LIGHTNING = (
    _NET.replace("import argparse\n", "")
    + """
import lightning as L


class Task(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

"""
    + _DATA
    + """
trainer = L.Trainer(
    max_steps=3, accelerator="gpu", devices=1, {}logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(Task(), loader)
"""
)
_TRAINER = """
import torch
from transformers import BertConfig, BertForSequenceClassification, HfArgumentParser, Trainer, TrainingArguments

config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
rows = [{"input_ids": torch.randint(3, 60, (8,)), "labels": torch.tensor(n % 2)} for n in range(32)]
ARGUMENTS
model = BertForSequenceClassification(config)
Trainer(model, arguments, train_dataset=rows).train()
"""
_KEYWORDS = """arguments = TrainingArguments(
    "out", max_steps=3, per_device_train_batch_size=4, report_to=[], save_strategy="no", disable_tqdm=True, {}
)"""
_PARSED = "(arguments,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()"
_FLAGS = (
    "--output_dir out --max_steps 3 --per_device_train_batch_size 4 "
    "--report_to none --save_strategy no --disable_tqdm true"
)
_DEEPSPEED = (
    _NET.replace("import argparse\n", "import json\n")
    + """
import deepspeed

with open("ds_config.json") as stream:
    config = json.load(stream)
model = Net()
engine, optimizer, _, _ = deepspeed.initialize(
    model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3), config=config
)
for _ in range(3):
    x, y = torch.randn(8, 16, device=engine.device), torch.randint(0, 4, (8,), device=engine.device)
    loss = nn.functional.cross_entropy(engine(x.to(next(engine.parameters()).dtype)).float(), y)
    engine.backward(loss)
    engine.step()
"""
)
_DEEPSPEED_FILE = """
{
  "train_micro_batch_size_per_gpu": 8,
  "zero_allow_untested_optimizer": true,
  "zero_optimization": {"stage": 1},
  SECTIONS
}
"""
_AUTO_FILE = """
{
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "zero_allow_untested_optimizer": true,
  "zero_optimization": {"stage": 1},
  "fp16": {"enabled": "auto"},
  "bf16": {"enabled": "auto"}
}
"""
_FSDP = (
    _NET.replace("import argparse\n", "")
    + """
import torch.distributed as dist
from torch.distributed.fsdp import {}

dist.init_process_group("nccl", rank=0, world_size=1)
torch.cuda.set_device(0)
{}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    x, y = torch.randn(8, 16, device="cuda"), torch.randint(0, 4, (8,), device="cuda")
    loss = nn.functional.cross_entropy(model(x).float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""
)
_FSDP1 = """half = torch.bfloat16
policy = MixedPrecision(param_dtype=half, reduce_dtype=half, buffer_dtype=half)
model = FullyShardedDataParallel(Net().cuda(), mixed_precision=policy, device_id=0)"""
_FSDP2 = """model = Net().cuda()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
fully_shard(model, mp_policy=policy)"""
_LOADED = """
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

config = LlamaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
LlamaForCausalLM(config).save_pretrained("/tmp/precfix-moves-{}")
model = AutoModelForCausalLM.from_pretrained("/tmp/precfix-moves-{}", torch_dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    ids = torch.randint(0, 60, (2, 8), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

PROGRAMS = (
    _program("plain loop", "fp32", _PLAIN),
    _program("region and scaler", "fp16-mixed", _SCALED),
    _program("region", "bf16-mixed", _REGION),
    _program("an option for the dtype", "bf16-mixed", _SWITCH, "python train.py --dtype bfloat16"),
    _program("an option, default", "fp32", _SWITCH),
    _program("--amp", "fp16-mixed", _FLAG, "python train.py --amp"),
    _program("bfloat16 weights", "bf16-true", _WEIGHTS),
    _program("accelerate, argument", "fp16-mixed", _ACCELERATE.format('mixed_precision="fp16"')),
    _program(
        "accelerate, launcher",
        "bf16-mixed",
        _ACCELERATE.format(""),
        "accelerate launch --num_processes 1 --num_machines 1 --dynamo_backend no --mixed_precision bf16 train.py",
    ),
    _program(
        "accelerate, file",
        "fp16-mixed",
        _ACCELERATE.format(""),
        "accelerate launch --config_file accelerate.yaml train.py",
        accelerate__yaml=_ACCELERATE_FILE,
    ),
    _program("Lightning 16-mixed", "fp16-mixed", _LIGHTNING.format('precision="16-mixed", ')),
    _program("Lightning bf16-mixed", "bf16-mixed", _LIGHTNING.format('precision="bf16-mixed", ')),
    _program("Lightning, nothing said", "fp32", _LIGHTNING.format("")),
    _program("Trainer fp16=True", "fp16-mixed", _TRAINER.replace("ARGUMENTS", _KEYWORDS.format("fp16=True"))),
    _program(
        "Trainer --bf16", "bf16-mixed", _TRAINER.replace("ARGUMENTS", _PARSED), f"python train.py {_FLAGS} --bf16 True"
    ),
    _program("Trainer, nothing said", "fp32", _TRAINER.replace("ARGUMENTS", _PARSED), f"python train.py {_FLAGS}"),
    _program(
        "DeepSpeed bf16",
        "bf16-mixed",
        _DEEPSPEED,
        ds_config__json=_DEEPSPEED_FILE.replace("SECTIONS", '"bf16": {"enabled": true}'),
    ),
    _program(
        "DeepSpeed fp16",
        "fp16-mixed",
        _DEEPSPEED,
        ds_config__json=_DEEPSPEED_FILE.replace(
            "SECTIONS",
            '"fp16": {"enabled": true, "initial_scale_power": 8, "hysteresis": 1},\n  "bf16": {"enabled": false}',
        ),
    ),
    _program(
        "Trainer, DeepSpeed auto",
        "bf16-mixed",
        _TRAINER.replace("ARGUMENTS", _PARSED),
        f"python train.py {_FLAGS} --bf16 True --deepspeed ds_config.json",
        ds_config__json=_AUTO_FILE,
    ),
    _program("FSDP1", "bf16-mixed", _FSDP.format("FullyShardedDataParallel, MixedPrecision", _FSDP1)),
    _program("FSDP2", "bf16-mixed", _FSDP.format("MixedPrecisionPolicy, fully_shard", _FSDP2)),
    _program("loaded in bfloat16", "bf16-true", _LOADED.replace("{}", "loaded")),
)
