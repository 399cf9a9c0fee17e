"""PF302: autocast without a dtype in a project that runs bfloat16."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("autocast.autocast_dtype_differs")
PF301 = rule_of("autocast.deprecated_cuda_amp")

TRAIN = """
import torch

def train(model, loader, optimizer, args):
    for x in loader:
        with torch.autocast("cuda", dtype={dtype}):
            loss = model(x).mean()
        loss.backward()
        optimizer.step()

"""


def trained(dtype: str, rest: str) -> str:
    """A training step in ``dtype``, and more code."""
    return dedent(TRAIN).format(dtype=dtype) + dedent(rest)


SECOND = """
def adapt(model, x):
    with torch.autocast("cuda"):
        loss = model(x)
    loss.backward()
"""
EVALUATION = """
@torch.no_grad()
def evaluate(model, x):
    with torch.autocast("cuda"):
        return model(x)
"""

FOUND = {
    "another function": (trained("torch.bfloat16", SECOND), "dtype=torch.bfloat16)"),
    "old spelling": (
        trained("torch.bfloat16", SECOND.replace('autocast("cuda")', "cuda.amp.autocast(True)")),
        "torch.cuda.amp.autocast(True, dtype=torch.bfloat16)",
    ),
    "a constant of the file": (
        "import torch\nDTYPE = torch.bfloat16\n" + trained("DTYPE", SECOND),
        'torch.autocast("cuda", dtype=DTYPE)',
    ),
    "a local variable: its value is written down": (
        trained("half", SECOND).replace("    for x", "    half = torch.bfloat16\n    for x", 1),
        'torch.autocast("cuda", dtype=torch.bfloat16)',
    ),
    "chosen, and not in sight": (trained("torch.bfloat16 if args.bf16 else torch.float16", SECOND), None),
    "torch has another name": (
        trained("half", SECOND)
        .replace("    for x", "    half = torch.bfloat16\n    for x", 1)
        .replace("torch.", "t.")
        .replace("import torch", "import torch as t"),
        't.autocast("cuda", dtype=t.bfloat16)',
    ),
    "a precision behind the same switch": (
        trained("torch.bfloat16", SECOND)
        .replace("dtype=torch.bfloat16", "dtype=torch.bfloat16, enabled=args.fp16")
        .replace('"cuda")', '"cuda", enabled=cfg.train.fp16)'),
        'torch.autocast("cuda", enabled=cfg.train.fp16, dtype=torch.bfloat16)',
    ),
    "the same function": (
        """
        import torch

        def train(g, d, loader, optimizer):
            for x in loader:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    fake = g(x)
                with torch.autocast("cuda"):
                    loss = d(fake).mean()
                loss.backward()
        """,
        '        with torch.autocast("cuda", dtype=torch.bfloat16):\n            loss',
    ),
    "weights cast by a method": (
        """
        import torch
        from torch import nn

        def run(x):
            model = nn.Linear(8, 8).cuda().to(torch.bfloat16)
            with torch.autocast("cuda"):
                loss = model(x).mean()
            loss.backward()
        """,
        'torch.autocast("cuda", dtype=torch.bfloat16)',
    ),
    "weights of an attribute": (
        """
        import torch
        from transformers import AutoModel

        class Encoder:
            def __init__(self, name):
                self.model = AutoModel.from_pretrained(name, dtype=torch.bfloat16)

            def step(self, x):
                with torch.autocast("cuda"):
                    loss = self.model(x).mean()
                loss.backward()
        """,
        'torch.autocast("cuda", dtype=torch.bfloat16)',
    ),
    "a Fabric": (
        """
        import torch
        from lightning.fabric import Fabric

        def main(model, x):
            fabric = Fabric(precision="bf16-mixed")
            model = fabric.setup(model)
            with torch.autocast("cuda"):
                loss = model(x).mean()
            fabric.backward(loss)
        """,
        "with fabric.autocast():",
    ),
    "an accelerator that a caller passes": (
        """
        import torch
        from accelerate import Accelerator

        def adapt(model, x, acc):
            with torch.autocast("cuda"):
                loss = model(x)
            acc.backward(loss)

        def main(args, model, x):
            accelerator = Accelerator(mixed_precision="bf16")
            adapt(accelerator.prepare(model), x, accelerator)
        """,
        "with acc.autocast():",
    ),
    "one of two accelerators": (
        """
        import torch
        from accelerate import Accelerator

        def main(args, model, x):
            how = "bf16"
            accelerator = Accelerator(mixed_precision=how) if args.log else Accelerator(mixed_precision=how)
            with torch.amp.autocast("cuda", enabled=True):
                loss = model(x).mean()
            accelerator.backward(loss)
        """,
        "with accelerator.autocast():",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_is_found(name: str, tmp_path: Path) -> None:
    text, after = FOUND[name]
    (finding,) = findings(RULE, written(tmp_path, {"train.py": text}))
    assert "computes in float16" in finding.message
    assert not any(fix.applicability.value == "safe" for fix in finding.fixes)
    _, changed = migrated([RULE], written(tmp_path, {"train.py": text}), unsafe=True)
    if after is None:
        assert changed == {}
        assert not finding.fixes
    else:
        assert after in changed["train.py"]
        assert not findings(RULE, written(tmp_path, {"train.py": changed["train.py"]}))


SILENT = {
    "an evaluation": trained("torch.bfloat16", EVALUATION),
    "float16 trains": trained("torch.float16", SECOND),
    "unknown dtype": trained("args.dtype", SECOND),
    "off": trained("torch.bfloat16", SECOND.replace('"cuda")', '"cuda", enabled=False)')),
    "on the CPU": trained("torch.bfloat16", SECOND.replace('"cuda"', '"cpu"')),
    "a precision decides": trained("torch.bfloat16", SECOND.replace('"cuda")', '"cuda", enabled=cfg.fp16)')),
    "the default is changed": trained("torch.bfloat16", SECOND + "torch.set_autocast_dtype('cuda', torch.bfloat16)\n"),
    "unknown arguments": trained("torch.bfloat16", SECOND.replace('"cuda")', '"cuda", **options)')),
    "in a region": trained("torch.bfloat16", SECOND).replace("model(x).mean()", "adapt(model, x).mean()"),
    "its own autocast": trained("torch.bfloat16", SECOND.replace('torch.autocast("cuda")', "autocast()"))
    + "def autocast():\n    return torch.no_grad()\n",
    "an accelerator of another kind": """
        import torch
        from pytorch_lightning import Trainer

        def main(model, x, accelerator):
            Trainer(accelerator=accelerator, precision=16).fit(model)
            with torch.autocast("cuda"):
                loss = model(x)
            loss.backward()
        """,
    "behind accelerate's own": """
        import torch
        from accelerate import Accelerator

        def main(args, model, x):
            accelerator = Accelerator(mixed_precision="bf16")
            with accelerator.autocast(), torch.autocast("cuda"):
                accelerator.backward(model(x).mean())
        """,
    "made after the region": """
        import torch
        from accelerate import Accelerator

        def main(args, model, x):
            with torch.autocast("cuda"):
                loss = model(x)
            loss.backward()
            accelerator = Accelerator(mixed_precision="bf16")
            return accelerator
        """,
    "weights of unknown dtype": """
        import torch
        from transformers import AutoModel

        def run(name, x, dtype):
            model = AutoModel.from_pretrained(name, torch_dtype=dtype)
            other = AutoModel.from_pretrained(name, torch_dtype=torch.bfloat16).float()
            with torch.autocast("cuda"):
                loss = model(x) + other(x)
            loss.backward()
        """,
    "weights made ready for quantized training": """
        import torch
        from transformers import AutoModel
        from peft import prepare_model_for_kbit_training

        def run(name, x):
            model = AutoModel.from_pretrained(name, torch_dtype=torch.bfloat16)
            prepare_model_for_kbit_training(model)
            with torch.autocast("cuda"):
                loss = model(x)
            loss.backward()
        """,
    "a trainer of both kinds": """
        import torch
        from transformers import TrainingArguments

        def arguments(kind):
            return TrainingArguments("out", bf16=True) if kind else TrainingArguments("out", fp16=True)

        def run(model, x):
            with torch.autocast("cuda"):
                loss = model(x)
            loss.backward()
        """,
}


@pytest.mark.parametrize("name", SILENT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"train.py": SILENT[name]})) == ()


def test_tests_are_left_alone(tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"tests/test_amp.py": trained("torch.bfloat16", SECOND)})) == ()


@pytest.mark.parametrize("first", [0, 1])
def test_goes_together_with_the_new_spelling(first: int, tmp_path: Path) -> None:
    text = """
    from accelerate import Accelerator
    from torch.cuda.amp import autocast


    def main(args, model, x, flag):
        accelerator = Accelerator(mixed_precision="bf16")
        with autocast():
            loss = model(x).mean()
        accelerator.backward(loss)
        with autocast(flag):
            return model(x)
    """
    rules = [RULE, PF301][:: 1 if first else -1]
    _, changed = migrated(rules, written(tmp_path, {"train.py": text}), unsafe=True)
    assert "with accelerator.autocast():\n" in changed["train.py"]
    assert 'with autocast("cuda", enabled=flag):' in changed["train.py"]
    assert "from torch.amp import autocast\n" in changed["train.py"]


def test_the_dtype_can_be_chosen_instead(tmp_path: Path) -> None:
    text = """
    import torch
    from accelerate import Accelerator

    def main(args, model, x):
        accelerator = Accelerator(mixed_precision="bf16")
        weight_dtype = torch.bfloat16 if accelerator.mixed_precision == "bf16" else torch.float32
        with torch.autocast("cuda"):
            loss = model(x.to(weight_dtype)).mean()
        accelerator.backward(loss)
    """
    (finding,) = findings(RULE, written(tmp_path, {"train.py": text}))
    assert [fix.name for fix in finding.fixes] == ["accelerator", "dtype"]


def test_a_caller_in_another_file(tmp_path: Path) -> None:
    helper = SECOND.replace("    loss.backward()\n", "    return loss\n")
    files = {
        "train.py": "from helpers import *\nfrom helpers import adapt\n"
        + trained("torch.bfloat16", "def main(model, x):\n    adapt(model, x).backward()\n"),
        "helpers.py": "import torch\n" + helper,
        "alone.py": "import torch\n" + helper.replace("adapt", "adapt_alone"),
    }
    (finding,) = findings(RULE, written(tmp_path, files))
    assert finding.path == "helpers.py"


def test_of_very_many_alternatives_none_is_reported(tmp_path: Path) -> None:
    """Only some can be compared with each other; what was not compared must not seem to be the only one."""
    pair = """\
        if mode == {}:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
        else:
            with torch.autocast("cuda"):
                loss = model(x).mean()
"""
    many = "".join(pair.format(number) for number in range(70))
    text = trained("torch.bfloat16", "").replace("        with torch", f"{many}        with torch", 1)
    assert findings(RULE, written(tmp_path, {"train.py": text})) == ()
