"""What becomes of a region's results: arrays, which NumPy lacks in bfloat16, and a loss, which float16 wants scaled."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_moving import moved

TOP = """
    import numpy as np
    import torch
    from somewhere import Base, Batch, build

    scaler = torch.amp.GradScaler("cuda")
    REST
"""
MODELS = """
    from typing import NamedTuple

    import torch
    from torch import nn


    class Batch(NamedTuple):
        out: torch.Tensor
        loss: torch.Tensor


    class Base:
        pass


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, y):
            out = self.layer(x)
            return out, nn.functional.mse_loss(out, y)


    def build():
        return Net()
"""
STEP = """
    def step(model, x, y, opt):
        with torch.autocast("cuda", dtype=torch.float16):
            out, loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        RETURN

    HELPER

    def main(data):
        model = build().cuda()
        opt = torch.optim.Adam(model.parameters())
        for x, y in data:
            got = step(model, x, y, opt)
            READ
"""
METHOD = """
    class Mine(OWNER):
        def step(self, x, y):
            with torch.autocast("cuda", dtype=torch.float16):
                self.out, loss = self.model(x, y)
            scaler.scale(loss).backward()
            scaler.step(self.opt)
            scaler.update()
            return self.out

        def shown(self):
            READ
"""
LOOP = """
    class Loop(Base):
        def step(self, x, y):
            raise NotImplementedError

        def run(self, data):
            for x, y in data:
                LOOPED
"""
AS_ARRAY = "def to_numpy(x):\n        return x.detach().cpu().numpy()"
METER = """class Meter:
        def __init__(self):
            self.seen = {}

        def update(self, **given):
            for key, value in given.items():
                if isinstance(value, torch.Tensor):
                    value = value.item()
                ASSERTED
                self.seen.setdefault(key, []).append(value)

        def mean(self):
            return {key: np.mean(np.array(values)) for key, values in self.seen.items()}


    meter = Meter()
"""
COUNTED = """class Scored:
        def counted(self, out):
            return out.argmax(-1).eq(0).sum().item()

        def shown(self, out):
            print(np.array([self.counted(out)]))


    class Other(BASE):
        def counted(self, out):
            return out.detach().cpu()


    scored = MADE()
"""
CALLS = "def call(fn, batch):\n        return np.asarray(fn(*batch))"


def filled(text: str, **words: str) -> str:
    for key, word in words.items():
        text = text.replace(key.strip("_").upper(), word)
    return TOP.replace("REST", text.strip())


ARRAYS = {
    "of what the function returns": filled(STEP, return_="return out", helper="", read="print(got.cpu().numpy())"),
    "of an entry of it": filled(STEP, return_='return {"out": out}', helper="", read='np.asarray(got["out"].cpu())'),
    "in a function that is passed it": filled(
        STEP, return_="return {0: out}", helper=AS_ARRAY, read="print([to_numpy(v) for v in got.values()])"
    ),
    "of what it gives a function that is passed it": filled(
        STEP, return_="return out", helper=CALLS, read="print(call(step, (model, x, y, opt)))"
    ),
    "by a library": filled(
        STEP, return_="return out", helper="import matplotlib.pyplot as plt\n", read="plt.imshow(got.cpu()[0])"
    ),
    "of an attribute": filled(METHOD, owner="Base", read="return self.out.cpu().numpy()"),
    "in a class below": filled(METHOD, owner="Base", read="pass")
    + "\n    def main(trainer, data):\n        print(trainer.step(*data).cpu().numpy())\n",
    "of what a comparison was made of": filled(
        STEP, return_="return out", helper="", read="hits = got > 0; print(np.asarray(got.cpu()), hits)"
    ),
    "of a comparison on one branch only": filled(
        STEP,
        return_="return out",
        helper="",
        read="if len(data) > 1:\n                got = got > 0\n            print(np.asarray(got.cpu()))",
    ),
    "of what a function stores in its argument": filled(
        STEP,
        return_="return out",
        helper="def keep(x, into):\n        into[0] = x\n        return into",
        read="seen = keep(got, {}); print(np.asarray(seen[0].cpu()))",
    ),
    "of what a function stores in a variable of its caller": filled(
        STEP,
        return_="return out",
        helper="def keep(x, into):\n        into.append(x)",
        read="seen = []; keep(got, seen); print(np.asarray(seen[0].cpu()))",
    ),
    "of what the method of a class below gives": filled(
        STEP,
        return_="return out",
        helper=COUNTED.replace("BASE", "Scored").replace("MADE", "Other"),
        read="scored.shown(got)",
    ),
    "of what a wrapped function gives": filled(
        STEP,
        return_="return out",
        helper="from somewhere_else import wrapped\n\n    @wrapped\n    def count(x):\n        return x.sum().item()",
        read="print(np.array([count(got)]))",
    ),
    "of what a meter holds": filled(
        STEP, return_="return out", helper=METER.replace("ASSERTED", "pass"), read="meter.update(out=(got,))"
    ),
    "in a class above": filled(LOOP + METHOD, looped="print(self.step(x, y).cpu().numpy())", owner="Loop", read="pass"),
}
NO_ARRAYS = {
    "a field of a known class, which moves to float32 first": filled(
        STEP, return_="return Batch(out, loss)", helper="", read="got.out.cpu().numpy()"
    ),
    "a number": filled(STEP, return_="return loss", helper="", read="print(np.array([got.item()]))"),
    "float32 by a library": filled(
        STEP, return_="return out", helper="import matplotlib.pyplot as plt\n", read="plt.imshow(got.float().cpu())"
    ),
    "float32": filled(STEP, return_="return out", helper="", read="print(got.float().cpu().numpy())"),
    "an input": filled(STEP, return_="return out", helper=AS_ARRAY, read="print(to_numpy(x), x.cpu().numpy())"),
    "another function": filled(
        STEP, return_="return out", helper="def other(x):\n        return x", read="print(other(y).cpu().numpy())"
    ),
    "a comparison": filled(STEP, return_="return out", helper="", read="got = got > 0; print(np.asarray(got.cpu()))"),
    "the keys of a dictionary": filled(
        STEP, return_="return {0: out}", helper="", read="print(np.unique(list(got.keys())))"
    ),
    "a number that a function makes of it": filled(
        STEP,
        return_="return out",
        helper="def count(x, into):\n        into = x.argmax(-1)\n        return into.sum().item()",
        read="print(np.array([count(got, x)]))",
    ),
    "a number that a method makes of it": filled(
        STEP,
        return_="return out",
        helper=COUNTED.replace("BASE", "Base").replace("MADE", "Scored"),
        read="scored.shown(got)",
    ),
    "a number that a meter makes of it": filled(
        STEP,
        return_="return loss",
        helper=METER.replace("ASSERTED", "assert isinstance(value, (float, int))"),
        read="meter.update(loss=got); print(meter.mean())",
    ),
    "labels": filled(STEP, return_="return out.argmax(-1)", helper="", read="print(got.cpu().numpy())"),
}


@pytest.mark.parametrize(
    ("code", "is_safe"),
    [*((code, False) for code in ARRAYS.values()), *((code, True) for code in NO_ARRAYS.values())],
    ids=[*ARRAYS, *NO_ARRAYS],
)
def test_an_array_of_what_a_region_computes_needs_leave(code: str, is_safe: bool, tmp_path: Path) -> None:
    files = {"train.py": code, "somewhere.py": MODELS, "requirements.txt": "torch>=2.4\n"}
    report, _ = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert bool(report.changes) == is_safe


ARMS = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 3, padding=1)

        def forward(self, x):
            return torch.sigmoid(self.conv(x))


    def draw(images):
        for image in range(4):
            print(images[image].cpu().squeeze(0).numpy())


    def main(batches, use):
        model = Net().cuda()
        opt = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cuda")
        for x, y in batches:
            if use:
                with torch.autocast("cuda"):
                    out = model(x)
                    loss = nn.functional.mse_loss(out, y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            else:
                OTHER
            draw(out)
"""
IN_FLOAT32 = "out = model(x)\n                nn.functional.mse_loss(out, y).backward()\n                opt.step()"


@pytest.mark.parametrize(("other", "is_repaired"), [(IN_FLOAT32, False), ("continue", True)])
def test_an_array_that_is_bfloat16_in_one_arm_only_needs_leave(other: str, is_repaired: bool, tmp_path: Path) -> None:
    files = {"train.py": ARMS.replace("OTHER", other), "requirements.txt": "torch>=2.4\n"}
    report, _ = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert bool(report.changes) == is_repaired
    assert not is_repaired or b".float().numpy()" in report.changes[0].after


STEPS = """
    import lightning
    import torch
    from torch import nn


    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, batch):
            out = self.layer(batch["image"])
            return {"image": out, "loss": out.mean()}


    class Base(lightning.LightningModule):
        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())


    class Net(Base):
        def __init__(self):
            super().__init__()
            self.net = Inner()

        def training_step(self, batch, index):
            return self.net(batch)["loss"]

        def validation_step(self, batch, index):
            out = self.net(batch)
            print(READ.cpu().numpy())


    lightning.Trainer(precision="16-mixed").fit(Net())
"""


@pytest.mark.parametrize(
    ("read", "is_safe"),
    [('out["image"]', False), ('out["image"].float()', True), ('batch["image"]', True)],
)
def test_an_array_in_a_step_of_lightning_needs_leave(read: str, is_safe: bool, tmp_path: Path) -> None:
    files = {"train.py": STEPS.replace("READ", read), "requirements.txt": "torch>=2.4\nlightning==2.2.0\n"}
    report, runs = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert bool(report.changes) == is_safe
    assert is_safe or runs["train.py"].state is MoveState.LEFT


LOGGED = """
    import lightning
    import torch
    from torch import nn


    def colors(value):
        return (value / value.max()).detach().cpu().numpy()


    class Log(lightning.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            print(colors(PASSED))


    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 3, padding=1)

        def training_step(self, batch, batch_idx):
            x, y = batch
            pred = self.conv(x)
            return {"loss": nn.functional.mse_loss(pred, y), "pred": pred}

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())


    lightning.Trainer(precision="16-mixed", callbacks=[Log()]).fit(Net())
"""


@pytest.mark.parametrize(("passed", "is_safe"), [('outputs["pred"]', False), ("batch[0]", True)])
def test_an_array_in_a_callback_of_what_a_step_returns_needs_leave(passed: str, is_safe: bool, tmp_path: Path) -> None:
    files = {"train.py": LOGGED.replace("PASSED", passed), "requirements.txt": "torch>=2.4\nlightning==2.2.0\n"}
    report, _ = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert bool(report.changes) == is_safe


TWO_STEPS = """
    import torch
    from torch import nn


    def first(batches):
        model = nn.Linear(4, 4).cuda()
        opt = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cuda")
        for x, y in batches:
            opt.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()


    def second(batches, scaler):
        model = nn.Linear(4, 4).cuda()
        opt = torch.optim.AdamW(model.parameters())
        for x, y in batches:
            opt.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x), y)
                BACKWARD
            STEP


    first([])
    second([], torch.amp.GradScaler("cuda", enabled=True))
"""


@pytest.mark.parametrize(
    ("backward", "step", "is_moved"),
    [
        ("(loss / 2).backward()", "opt.step()", False),
        ("scaler.scale(loss / 2).backward()", "scaler.step(opt)\n            scaler.update()", True),
    ],
)
def test_the_scaler_of_another_step_scales_nothing_here(
    backward: str, step: str, is_moved: bool, tmp_path: Path
) -> None:
    code = TWO_STEPS.replace("BACKWARD", backward).replace("    STEP", f"    {step}")
    report, _ = moved(tmp_path, all_rules(), {"train.py": code, "requirements.txt": "torch>=2.4\n"}, "fp16-mixed")
    assert any(change.path == "train.py" and b"bfloat16" not in change.after for change in report.changes) == is_moved


SAVED = """
    import torch
    from torch import nn


    def main(batches, resume):
        model = nn.Linear(4, 4).cuda()
        opt = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled=False)
        if resume:
            state = torch.load(resume)
            model.load_state_dict(state["model"])
            opt.load_state_dict(state["opt"])
        for x, y in batches:
            opt.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, "a.pt")


    main([], "a.pt")
"""


def test_a_checkpoint_without_the_state_of_the_scaler_withdraws_no_run(tmp_path: Path) -> None:
    files = {"train.py": SAVED, "requirements.txt": "torch>=2.4\n"}
    report, runs = moved(tmp_path, all_rules(), files, "fp16-mixed")
    assert runs["train.py"].state is MoveState.MOVED
    assert {finding.code for finding in report.remaining} == {"PF106"}
