"""A model of about a billion parameters with random weights: ``python tests/gpu/real_size.py bf16|fp16|fp32 [STEPS]``.

Alone it prints its time and memory; under ``precfix rehearse`` it is recorded.
"""

from __future__ import annotations

import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

REGIME, STEPS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
SMALL = len(sys.argv) > 3
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=32000,
    hidden_size=64 if SMALL else 2048,
    num_hidden_layers=2 if SMALL else 16,
    num_attention_heads=4 if SMALL else 16,
    intermediate_size=128 if SMALL else 5504,
)
with torch.device(DEVICE):
    model = LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=DEVICE == "cuda")
scaler = torch.amp.GradScaler(DEVICE, enabled=REGIME == "fp16")
dtype = torch.float16 if REGIME == "fp16" else torch.bfloat16
times, loss = [], torch.zeros(())
for _ in range(STEPS):
    ids = torch.randint(0, 32000, (4, 64 if SMALL else 1024), device=DEVICE)
    began = time.perf_counter()
    with torch.autocast(DEVICE, dtype=dtype, enabled=REGIME != "fp32"):
        loss = model(input_ids=ids, labels=ids).loss
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    times.append(loss.item() and time.perf_counter() - began)
count = sum(p.numel() for p in model.parameters())
peak = torch.cuda.max_memory_allocated() / 2**30 if DEVICE == "cuda" else 0
timing = f"ms {1000 * min(times):.0f} first {1000 * times[0]:.0f} peak {peak:.1f} GiB"
print(f"SIZE {REGIME} {count / 1e9:.2f}e9 loss {loss.item():.3f} {timing}", flush=True)
