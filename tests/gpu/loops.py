"""Training loops of other libraries, and what only a GPU does; each ends by itself."""

from __future__ import annotations

_NET = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
"""
_ACCELERATE = (
    _NET
    + """
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="{}")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(data, batch_size=8)
net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x), y)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""
)
_LIGHTNING = """
import torch
from torch import nn
import lightning as L
class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x.to(self.dtype)), y)
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)
data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
trainer = L.Trainer(max_steps=3, precision="{}", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False, accelerator="gpu", devices=1)
trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=8))
"""
_TRAINER = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
rows = [{"input_ids": torch.randint(3, 60, (8,)), "labels": torch.tensor(n % 2)} for n in range(32)]
arguments = TrainingArguments("out", max_steps=3, per_device_train_batch_size=4, report_to=[], save_strategy="no",
                              disable_tqdm=True, {})
Trainer(BertForSequenceClassification(config), arguments, train_dataset=rows).train()
"""
_STEP = """
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
LOOPS: dict[str, str] = {
    **{f"accelerate {each}": _ACCELERATE.replace("{}", each) for each in ("no", "bf16", "fp16")},
    **{f"lightning {each}": _LIGHTNING.replace("{}", each) for each in ("bf16-mixed", "16-mixed", "bf16-true")},
    **{f"trainer {each}": _TRAINER.replace("{}", each) for each in ("bf16=True", "fp16=True", "bf16=False")},
    "compiled": _NET
    + """
net = torch.compile(net.cuda())
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for x, y in torch.utils.data.DataLoader(data, batch_size=8):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
"""
    + _STEP,
    "CUDA graph": _NET
    + """
net = net.cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
x, y = torch.randn(8, 16, device="cuda"), torch.randint(0, 4, (8,), device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
for _ in range(3):
    graph.replay()
print(float(loss))
""",
    "DDP with one rank": _NET
    + """
import os
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000), RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("nccl")
net = nn.parallel.DistributedDataParallel(net.cuda(), device_ids=[0])
optimizer, scaler = torch.optim.AdamW(net.parameters(), fused=True), torch.amp.GradScaler("cuda")
for x, y in torch.utils.data.DataLoader(data, batch_size=8):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
torch.distributed.destroy_process_group()
""",
    "FSDP2 with one rank": _NET
    + """
import os
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000), RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("nccl")
net = net.cuda()
fully_shard(net, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
optimizer = torch.optim.AdamW(net.parameters())
for x, y in torch.utils.data.DataLoader(data, batch_size=8):
    loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
"""
    + _STEP
    + "torch.distributed.destroy_process_group()\n",
    "loader processes and pinned memory": _NET
    + """
net = net.cuda()
optimizer = torch.optim.AdamW(net.parameters())
for x, y in torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, pin_memory=True):
    x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x), y)
"""
    + _STEP,
    "out of memory": _NET
    + """
net = net.cuda().bfloat16()
optimizer = torch.optim.AdamW(net.parameters())
try:
    torch.cat([torch.zeros(1, 1 << 16, device="cuda"), torch.zeros(1, 1 << 16, device="cuda", dtype=torch.bfloat16)])
    torch.where(torch.ones(1 << 18, 1, dtype=torch.bool, device="cuda"), torch.zeros(1, 1 << 22, device="cuda"),
                torch.zeros(1, 1 << 22, device="cuda", dtype=torch.bfloat16))
except torch.OutOfMemoryError as error:
    print("full")
for x, y in torch.utils.data.DataLoader(data, batch_size=8):
    loss = nn.functional.cross_entropy(net(x.cuda().bfloat16()), y.cuda())
"""
    + _STEP,
}
