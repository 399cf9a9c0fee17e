"""PF212: binary cross entropy of probabilities inside an autocast region."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from textwrap import dedent, indent

import pytest

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("dtype.bce_under_autocast")
TORCH_2 = {"requirements.txt": "torch>=2.1\n"}
HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
"""


def source(body: str, *, head: str = "", signature: str = "model, x, y, device, amp=True") -> str:
    return f"{HEAD}{dedent(head)}\ndef step({signature}):\n{indent(dedent(body).strip(), '    ')}\n"


WRONG = {
    "function": "with torch.autocast('cuda'):\n    loss = F.binary_cross_entropy(model(x), y)",
    "old region": "with torch.cuda.amp.autocast(enabled=amp):\n    loss = F.binary_cross_entropy(x, y)",
    "bfloat16": "with torch.autocast(device.type, dtype=torch.bfloat16):\n    nn.functional.binary_cross_entropy(x, y)",
    "criterion": "criterion = nn.BCELoss()\nwith torch.autocast('cuda'):\n    loss = criterion(model(x), y)",
    "moved criterion": (
        "criterion = nn.BCELoss(reduction='sum').to(device)\nwith torch.autocast('cuda'):\n    loss = criterion(x, y)"
    ),
    "made in place": "with torch.autocast('cuda'):\n    loss = nn.BCELoss()(model(x), y)",
    "named region": "ctx = torch.autocast('cuda')\nwith ctx:\n    loss = F.binary_cross_entropy(x, y)",
    "a choice of regions": (
        "from contextlib import nullcontext\nctx = torch.autocast('cuda') if amp else nullcontext()\n"
        "with ctx:\n    loss = F.binary_cross_entropy(x, y)"
    ),
    "float32 region": "with torch.autocast('cuda', dtype=torch.float32):\n    loss = F.binary_cross_entropy(x, y)",
    "cast alone": "with torch.autocast('cuda'):\n    loss = F.binary_cross_entropy(x.float(), y.float())",
    "region inside an island": (
        "with torch.autocast('cuda', enabled=False):\n    with torch.autocast('cuda'):\n"
        "        loss = F.binary_cross_entropy(x, y)"
    ),
    "a choice of criteria": (
        "loss_fn = nn.BCEWithLogitsLoss() if amp == 2 else nn.BCELoss()\n"
        "with torch.autocast('cuda'):\n    loss = loss_fn(x, y)"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found_and_fixed(name: str, tmp_path: Path) -> None:
    project = written(tmp_path, {"train.py": source(WRONG[name]), **TORCH_2})
    (finding,) = findings(RULE, project)
    assert finding.fixes[0].name == "float32"
    _, texts = migrated([RULE], project, unsafe=True)
    assert "enabled=False)" in texts["train.py"]
    assert not findings(RULE, written(tmp_path / "after", texts))


RIGHT = {
    "after the region": "with torch.autocast('cuda'):\n    p = model(x)\nloss = F.binary_cross_entropy(p.float(), y)",
    "island": (
        "with torch.autocast('cuda'):\n    p = model(x)\n    with torch.autocast('cuda', enabled=False):\n"
        "        loss = F.binary_cross_entropy(p.float(), y)"
    ),
    "cpu": "with torch.autocast('cpu', dtype=torch.bfloat16):\n    loss = F.binary_cross_entropy(x, y)",
    "mps": "with torch.autocast(device_type='mps'):\n    loss = F.binary_cross_entropy(x, y)",
    "logits": "with torch.autocast('cuda'):\n    loss = F.binary_cross_entropy_with_logits(x, y)",
    "logits criterion": "c = nn.BCEWithLogitsLoss()\nwith torch.autocast('cuda'):\n    loss = c(x, y)",
    "switched off": "with torch.autocast('cuda', enabled=False):\n    loss = F.binary_cross_entropy(x, y)",
    "the other branch": (
        "with torch.autocast('cuda', enabled=amp):\n    if amp:\n"
        "        loss = F.binary_cross_entropy_with_logits(x, y)\n    else:\n"
        "        loss = F.binary_cross_entropy(x, y)"
    ),
    "asks": (
        "with torch.autocast('cuda'):\n    if not torch.is_autocast_enabled():\n"
        "        loss = F.binary_cross_entropy(x, y)"
    ),
    "on the cpu": "with torch.autocast('cuda'):\n    loss = F.binary_cross_entropy(x.cpu(), y.cpu())",
    "made but called later": "with torch.autocast('cuda'):\n    c, p = nn.BCELoss(), model(x)\nloss = c(p, y)",
    "no region": "loss = F.binary_cross_entropy(x, y)\nwith torch.autocast('cuda'):\n    model(x)",
    "another function of the same name": (
        "def binary_cross_entropy(p, y):\n    return p\n"
        "with torch.autocast('cuda'):\n    loss = binary_cross_entropy(x, y)"
    ),
    "expected": (
        "with torch.autocast('cuda'):\n    try:\n        loss = F.binary_cross_entropy(x, y)\n"
        "    except RuntimeError:\n        loss = 0"
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, {"train.py": source(RIGHT[name])})) == ()


ACROSS = {
    "criterion as a parameter": {
        "train.py": HEAD
        + """
from engine import epoch

def main(model, loader):
    criterion = nn.BCELoss()
    epoch(model, loader, criterion=criterion)
""",
        "engine.py": """
import torch

def epoch(model, loader, criterion):
    for x, y in loader:
        with torch.amp.autocast("cuda"):
            loss = criterion(model(x), y)
""",
    },
    "attribute of self": {
        "train.py": HEAD
        + """
class Trainer:
    def __init__(self):
        self.criterion = nn.BCELoss().cuda()

    def step(self, x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            return self.loss(x, y)

    def loss(self, x, y):
        return self.criterion(x, y)
"""
    },
    "loss module": {
        "losses.py": HEAD
        + """
class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.bce = nn.BCELoss()

    def forward(self, p, y):
        return self.bce(p, y) + (p - y).abs().mean()
""",
        "train.py": """
import torch
from losses import Mixed

def run(model, loader):
    criterion = Mixed()
    for x, y in loader:
        with torch.autocast("cuda"):
            p = model(x)
            loss = criterion(p, y)
""",
    },
    "subclass": {
        "train.py": HEAD
        + """
class NamedBCE(nn.BCELoss):
    name = "bce"

def run(model, x, y):
    criterion = NamedBCE()
    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
"""
    },
    "context manager of the project": {
        "train.py": HEAD
        + """
from contextlib import contextmanager

@contextmanager
def mixed(on):
    if on:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            yield
    else:
        yield

def run(model, x, y):
    with mixed(True):
        loss = F.binary_cross_entropy(model(x), y)
"""
    },
    "decorator": {
        "train.py": HEAD
        + """
@torch.autocast("cuda")
def run(model, x, y):
    return F.binary_cross_entropy(model(x), y)
"""
    },
    "made by a function": {
        "train.py": HEAD
        + """
def make_criterion():
    return nn.BCELoss()

def run(model, x, y):
    criterion = make_criterion()
    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
"""
    },
    "lightning": {
        "module.py": HEAD
        + """
import lightning as L

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)
        self.loss = nn.BCELoss()

    def shared(self, batch):
        x, y = batch
        p = torch.sigmoid(self.net(x))
        return self.loss(p, y)

    def training_step(self, batch, index):
        return self.shared(batch)
""",
        "train.py": """
import lightning as L
from module import Net

trainer = L.Trainer(precision="bf16-mixed", accelerator="gpu")
trainer.fit(Net())
""",
    },
    "accelerate": {
        "train.py": HEAD
        + """
from accelerate import Accelerator

def main(model, loader):
    accelerator = Accelerator(mixed_precision="fp16")
    for x, y in loader:
        with accelerator.autocast():
            loss = F.binary_cross_entropy(model(x), y)
        accelerator.backward(loss)
"""
    },
}


def test_what_old_releases_lack_is_not_written_without_a_manifest(tmp_path: Path) -> None:
    files = ACROSS["lightning"]
    (finding,) = findings(RULE, written(tmp_path / "open", files))
    assert finding.fixes[0].applicability.value == "unsafe"
    assert "no manifest here excludes releases of torch that lack torch.autocast" in finding.fixes[0].message
    (finding,) = findings(RULE, written(tmp_path / "old", {**files, "requirements.txt": "torch>=1.9"}))
    assert "requirements.txt:1 allows releases of torch that lack torch.autocast" in finding.fixes[0].message
    (finding,) = findings(RULE, written(tmp_path / "new", {**files, **TORCH_2}))
    assert "; needs torch 1.10 or newer; unsafe, as the code may be right as it is" in finding.fixes[0].message
    assert "releases of torch" not in finding.fixes[0].message


@pytest.mark.parametrize("name", ACROSS)
def test_is_found_across_functions(name: str, tmp_path: Path) -> None:
    project = written(tmp_path, {**ACROSS[name], **TORCH_2})
    (finding,) = findings(RULE, project)
    assert len(finding.evidence) >= 1
    _, texts = migrated([RULE], project, unsafe=True)
    after = written(tmp_path / "after", {**ACROSS[name], **TORCH_2, **texts})
    assert texts
    assert not findings(RULE, after)


SILENT_ACROSS = {
    "island on the way": {
        "train.py": HEAD
        + """
def loss_of(p, y):
    return F.binary_cross_entropy(p, y)

def run(model, x, y):
    with torch.autocast("cuda"):
        p = model(x)
        with torch.autocast("cuda", enabled=False):
            loss = loss_of(p.float(), y)
"""
    },
    "island decorator": {
        "train.py": HEAD
        + """
@torch.autocast("cuda", enabled=False)
def loss_of(p, y):
    return F.binary_cross_entropy(p.float(), y)

def run(model, x, y):
    with torch.autocast("cuda"):
        loss = loss_of(model(x), y)
"""
    },
    "called outside": {
        "train.py": HEAD
        + """
def loss_of(p, y):
    return F.binary_cross_entropy(p.float(), y)

def run(model, x, y):
    with torch.autocast("cuda"):
        p = model(x)
    return loss_of(p, y)
"""
    },
    "own class": {
        "losses.py": HEAD
        + """
class BCELoss(nn.Module):
    def forward(self, p, y):
        return F.binary_cross_entropy_with_logits(p, y)
""",
        "train.py": """
import torch
from losses import BCELoss

def run(model, x, y):
    criterion = BCELoss()
    with torch.autocast("cuda"):
        return criterion(model(x), y)
""",
    },
    "lightning in float32": {
        "train.py": HEAD
        + """
import lightning as L

class Net(L.LightningModule):
    def training_step(self, batch, index):
        return F.binary_cross_entropy(self(batch[0]), batch[1])

L.Trainer(precision="32-true").fit(Net())
"""
    },
    "lightning on a cpu": {
        "train.py": HEAD
        + """
import lightning as L

class Net(L.LightningModule):
    def training_step(self, batch, index):
        return F.binary_cross_entropy(self(batch[0]), batch[1])

L.Trainer(precision="bf16-mixed", accelerator="cpu").fit(Net())
"""
    },
    "test": {
        "tests/test_loss.py": HEAD
        + """
def test_raises(x, y):
    with torch.autocast("cuda"):
        F.binary_cross_entropy(x, y)
"""
    },
}


@pytest.mark.parametrize("name", SILENT_ACROSS)
def test_stays_silent_across_functions(name: str, tmp_path: Path) -> None:
    assert findings(RULE, written(tmp_path, SILENT_ACROSS[name])) == ()


def fixed(tmp_path: Path, text: str, *, choose: str = "") -> str:
    project = written(tmp_path, {"train.py": text})
    (finding,) = findings(RULE, project)
    assert not choose or choose in [fix.name for fix in finding.fixes]
    return migrated([RULE], project, unsafe=True)[1].get("train.py", "")


def test_the_forward_pass_stays_under_autocast(tmp_path: Path) -> None:
    body = "with torch.autocast('cuda'):\n    loss = F.binary_cross_entropy(model(x), y)"
    after = fixed(tmp_path, source(body))
    assert "        probabilities = model(x)\n" in after
    assert 'with torch.autocast("cuda", enabled=False):\n            loss' in after
    assert "F.binary_cross_entropy(probabilities.float(), y.float())" in after


def test_a_forward_pass_for_the_target_stays_under_autocast_too(tmp_path: Path) -> None:
    body = "with torch.autocast('cuda'):\n    loss = F.binary_cross_entropy(x, model(y))"
    after = fixed(tmp_path, source(body))
    assert "        targets = model(y)\n" in after
    assert "F.binary_cross_entropy(x.float(), targets.float())" in after


def test_other_sums_of_the_statement_stay_under_autocast(tmp_path: Path) -> None:
    loss = "2 * F.binary_cross_entropy(x, y - 1, weight=None) + (x - y).pow(2).sum()"
    body = f"with torch.autocast('cuda'):\n    loss = {loss}"
    after = fixed(tmp_path, source(body))
    assert "            bce = F.binary_cross_entropy(x.float(), (y - 1).float(), weight=None)\n" in after
    assert "        loss = 2 * bce + (x - y).pow(2).sum()\n" in after


def test_two_losses_of_one_statement_are_cast_together(tmp_path: Path) -> None:
    body = (
        "c = nn.BCELoss()\nreal, fake = model(x), model(y)\nwith torch.autocast('cuda'):\n"
        "    loss = c(real, torch.ones_like(real)) + c(fake, torch.zeros_like(fake))"
    )
    project = written(tmp_path, {"train.py": source(body)})
    assert len(findings(RULE, project)) == 2
    after = migrated([RULE], project, unsafe=True)[1]["train.py"]
    assert "c(real.float(), torch.ones_like(real).float()) + c(fake.float(), torch.zeros_like(fake).float())" in after
    assert after.count("enabled=False") == 1


@pytest.mark.parametrize("text", ["loss = {} if amp else model(x).sum()", "if amp: loss = {}"])
def test_a_loss_that_may_not_run_is_reported_only(text: str, tmp_path: Path) -> None:
    body = "with torch.autocast('cuda'):\n    " + text.format("F.binary_cross_entropy(x, y)")
    (finding,) = findings(RULE, written(tmp_path, {"train.py": source(body)}))
    assert finding.fixes == ()


def test_the_device_follows_the_tensor_where_the_region_does_not_name_it(tmp_path: Path) -> None:
    body = "with torch.autocast(device.type):\n    p = model(x)\n    loss = F.binary_cross_entropy(p, y)"
    assert "with torch.autocast(p.device.type, enabled=False):" in fixed(tmp_path, source(body))


LOGITS = {
    "nested": "loss = F.binary_cross_entropy(torch.sigmoid(x), y)",
    "method": "loss = F.binary_cross_entropy(x.sigmoid(), y)",
    "named": "p = torch.sigmoid(x)\nloss = F.binary_cross_entropy(p, y)",
}


@pytest.mark.parametrize("name", LOGITS)
def test_logits_are_offered_where_the_sigmoid_feeds_nothing_else(name: str, tmp_path: Path) -> None:
    body = "with torch.autocast('cuda'):\n" + indent(LOGITS[name], "    ")
    (finding,) = findings(RULE, written(tmp_path, {"train.py": source(body)}))
    assert [(fix.name, fix.applicability.value) for fix in finding.fixes][1:] == [("logits", "unsafe")]


def test_logits_are_not_offered_where_the_probabilities_are_used_again(tmp_path: Path) -> None:
    body = (
        "with torch.autocast('cuda'):\n    p = torch.sigmoid(x)\n    loss = F.binary_cross_entropy(p, y)\n    print(p)"
    )
    (finding,) = findings(RULE, written(tmp_path, {"train.py": source(body)}))
    assert [fix.name for fix in finding.fixes] == ["float32"]


GPU = """
import torch
import torch.nn as nn
from torch._subclasses.fake_tensor import FakeTensorMode

def step(x, y):
    criterion = nn.BCELoss()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        p = torch.sigmoid(x @ x)
        loss = criterion(p, y)
    return loss

with FakeTensorMode():
    x = torch.rand(4, 4, device="cuda")
    try:
        print(step(x, x).dtype)
    except RuntimeError as error:
        print(str(error).splitlines()[0])
"""


def run(text: str) -> str:
    """What the program prints where torch believes in a GPU; in this process, for torch takes seconds to import."""
    import torch

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        patch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        patch.setattr(torch.cuda, "is_bf16_supported", lambda *given: True)
        exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
    return printed.getvalue().strip()


def test_a_gpu_refuses_it_until_it_is_fixed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    expected = "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."
    assert run(GPU) == expected
    assert run(fixed(tmp_path, GPU)) == "torch.float32"
