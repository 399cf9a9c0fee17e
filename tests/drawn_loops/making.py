"""Draws a training loop with autocast and a GradScaler, and writes it with a mistake or without."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from textwrap import indent

NAMES = (
    ("model", "optimizer", "scaler", "loss", "inputs", "targets"),
    ("net", "opt", "grad_scaler", "loss", "x", "y"),
    ("model", "optim", "scaler", "total_loss", "images", "labels"),
)
LAYOUTS = ("flat", "main", "other-file", "package", "class", "class-with-settings", "notebook")
SETTINGS = {
    "constant": "USE_AMP",
    "flag": "args.amp",
    "default": "args.amp",
    "yaml": 'cfg["amp"]',
    "dataclass": "cfg.amp",
    "none": "True",
}
GIVEN = ("flag", "default", "yaml", "dataclass")
"""Settings that a function is passed."""
REGIONS = ("cuda.amp", "autocast", "variable", "chosen")
SCALERS = ("always", "enabled", "or-none")
IMPORTS = """from contextlib import nullcontext

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""
NET = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.body(x)
"""
DATA = "loader = DataLoader(TensorDataset(torch.randn(64, 16), torch.rand(64, 4)), batch_size=8)\n"
PARSER = "parser = argparse.ArgumentParser()\nparser.add_argument('--amp', {how})\nargs = parser.parse_args()\n"
SETUPS = {
    "flag": PARSER.format(how="action='store_true'"),
    "default": PARSER.format(how="type=bool, default=True"),
    "yaml": "with open('config.yaml') as stream:\n    cfg = yaml.safe_load(stream)\n",
    "dataclass": "cfg = Config()\n",
}
TOPS = {
    "flag": "import argparse\n",
    "default": "import argparse\n",
    "yaml": "import yaml\n",
    "constant": "USE_AMP = True\n",
    "dataclass": "from dataclasses import dataclass\n\n\n@dataclass\nclass Config:\n    amp: bool = True\n",
}


@dataclass(frozen=True, slots=True)
class Loop:
    """One drawn program, before a mistake is planted."""

    names: tuple[str, ...]
    layout: str
    setting: str
    region: str
    scaler: str
    accumulates: bool
    clips: bool
    is_new: bool
    """Whether it writes ``torch.amp.GradScaler`` instead of ``torch.cuda.amp.GradScaler``."""
    device: str = "cuda"

    @property
    def shape(self) -> str:
        words = [self.layout, self.setting, self.region, self.scaler]
        return ", ".join(words + ["accumulates"] * self.accumulates + ["clips"] * self.clips)


def drawn(seed: int, number: int) -> Loop:
    draw = random.Random(f"{seed}/{number}")
    layout = LAYOUTS[number % len(LAYOUTS)]
    setting = draw.choice(["none", "constant"] if layout == "notebook" else [*SETTINGS])
    return Loop(
        draw.choice(NAMES),
        layout,
        setting,
        draw.choice(REGIONS),
        draw.choice(SCALERS) if setting != "none" else "always",
        draw.random() < 0.35,
        draw.random() < 0.5,
        draw.random() < 0.6,
    )


def written(loop: Loop, mistake: str) -> dict[str, str]:
    """The files of the program."""
    return _Writer(loop, mistake).files()


class _Writer:
    def __init__(self, loop: Loop, mistake: str) -> None:
        self.loop, self.mistake = loop, mistake
        self.model, self.optimizer, self.scaler, self.loss, self.x, self.y = loop.names
        self.own = "self." if loop.layout.startswith("class") else ""
        self.cfg = "args" if "args" in SETTINGS[loop.setting] else "cfg"
        self.dtype = "torch.bfloat16" if mistake in ("scaler under bfloat16", "bfloat16 to NumPy") else "torch.float16"
        switch = SETTINGS[loop.setting]
        self.switch = switch
        if loop.layout == "class-with-settings" and loop.setting in GIVEN:
            self.switch = "self.use_amp"
        elif loop.layout == "class" and loop.setting in GIVEN:
            self.switch = f"self.{switch}"

    # --- parts ---------------------------------------------------------------------------------------------------

    def region(self, switch: str) -> str:
        device, is_on = self.loop.device, f", enabled={switch}" if switch != "True" else ""
        if self.loop.region == "cuda.amp" and device == "cuda":
            return f"torch.cuda.amp.autocast(dtype={self.dtype}{is_on})"
        plain = f'torch.autocast("{device}", dtype={self.dtype}'
        if self.loop.region == "chosen" and is_on:
            return f"{plain}) if {switch} else nullcontext()"
        return f"{plain}{is_on})"

    def made_scaler(self, switch: str) -> str:
        new = self.loop.is_new or self.loop.device != "cuda"
        start = f'torch.amp.GradScaler("{self.loop.device}"' if new else "torch.cuda.amp.GradScaler("
        if self.loop.scaler == "enabled":
            return f"{start}{', ' if new else ''}enabled={switch})"
        return f"{start})" + (f" if {switch} else None" if self.loop.scaler == "or-none" else "")

    def pass_lines(self) -> list[str]:
        """One pass of the loop."""
        model, optimizer, mistake = self.own + self.model, self.own + self.optimizer, self.mistake
        lines = [] if self.loop.accumulates else [f"{optimizer}.zero_grad()"]
        if mistake == "scaler in the loop":
            lines.append(f"{self.own}{self.scaler} = {self.made_scaler(self.switch)}")
        lines += [
            f"with {self.own}amp_region:" if self.loop.region == "variable" else f"with {self.region(self.switch)}:"
        ]
        lines.append(f"    outputs = {model}({self.x})")
        if mistake == "constant beyond float16":
            lines.append(f"    outputs = outputs.masked_fill({self.y} == 0, -1e9)")
        if mistake == "BCE under autocast":
            lines.append(f"    {self.loss} = nn.functional.binary_cross_entropy(torch.sigmoid(outputs), {self.y})")
        else:
            lines.append(f"    {self.loss} = {self.own}criterion(outputs, {self.y})")
        if self.loop.accumulates:
            lines.append(f"    {self.loss} = {self.loss} / 4")
        if self.loop.scaler == "or-none" and mistake != "no scaler":
            lines += [f"if {self.own}{self.scaler} is not None:", *(f"    {item}" for item in self.scaled_lines())]
            lines += ["else:", *(f"    {item}" for item in self.plain_lines())]
        else:
            lines += self.plain_lines() if mistake == "no scaler" else self.scaled_lines()
        if mistake == "bfloat16 to NumPy":
            lines.append("predictions.append(outputs.detach().cpu().numpy())")
        return lines

    def scaled_lines(self) -> list[str]:
        scaler, optimizer, mistake = self.own + self.scaler, self.own + self.optimizer, self.mistake
        clip = f"torch.nn.utils.clip_grad_norm_({self.own}{self.model}.parameters(), 1.0)"
        unscale, step = f"{scaler}.unscale_({optimizer})", f"{scaler}.step({optimizer})"
        backward = [f"{scaler}.scale({self.loss}).backward()"]
        end = [unscale, clip, step] if self.loop.clips or mistake in CLIPPING else [step]
        if mistake == "loss not scaled":
            backward = [f"{self.loss}.backward()"]
        elif mistake == "scaled loss unused":
            backward = [f"{scaler}.scale({self.loss})", f"{self.loss}.backward()"]
        elif mistake == "second loss not scaled":
            backward = [f"{scaler}.scale({self.loss}).backward(retain_graph=True)", "outputs.abs().mean().backward()"]
        elif mistake == "unscaled in each micro-batch":
            backward, end = [*backward, unscale], [clip, step]
        elif mistake == "clip of scaled":
            end = [clip, step]
        elif mistake == "clamp of scaled":
            clamp = f"for weight in {self.own}{self.model}.parameters():"
            end = [clamp, "    weight.grad.clamp_(-1, 1)", step]
        elif mistake == "clip behind the step":
            end = [step, clip]
        elif mistake == "unscaled twice":
            end = [unscale, *end]
        elif mistake == "plain step":
            end[-1] = f"{optimizer}.step()"
        return self.accumulated(backward, end if mistake == "no update" else [*end, f"{scaler}.update()"])

    def plain_lines(self) -> list[str]:
        clip = f"torch.nn.utils.clip_grad_norm_({self.own}{self.model}.parameters(), 1.0)"
        clips = self.loop.clips or self.mistake in CLIPPING
        return self.accumulated([f"{self.loss}.backward()"], [clip] * clips + [f"{self.own}{self.optimizer}.step()"])

    def accumulated(self, backward: list[str], end: list[str]) -> list[str]:
        if not self.loop.accumulates:
            return [*backward, *end]
        return [
            *backward,
            "if (i + 1) % 4 == 0:",
            *(f"    {item}" for item in (*end, f"{self.own}{self.optimizer}.zero_grad()")),
        ]

    def epoch(self) -> str:
        """The loop over batches."""
        lines = ["predictions = []"] if self.mistake == "bfloat16 to NumPy" else []
        lines.append(f"for i, ({self.x}, {self.y}) in enumerate({self.own}loader):")
        moved = [f"{self.x}, {self.y} = {self.x}.to({self.own}device), {self.y}.to({self.own}device)"]
        lines += [f"    {item}" for item in (*moved, *self.pass_lines())]
        return "\n".join(lines) + "\n"

    def prepared(self, switch: str) -> str:
        """The model, its optimizer, the scaler, and the region where a variable holds it."""
        cast = ".half()" if self.mistake == "float16 weights" else ""
        text = f"{self.own}device = torch.device('{self.loop.device}')\n"
        text += f"{self.own}{self.model} = Net().to({self.own}device){cast}\n"
        text += f"{self.own}{self.optimizer} = torch.optim.AdamW({self.own}{self.model}.parameters(), lr=1e-3)\n"
        text += f"{self.own}criterion = nn.MSELoss()\n"
        if self.mistake not in ("no scaler", "scaler in the loop"):
            text += f"{self.own}{self.scaler} = {self.made_scaler(switch)}\n"
        return text + (f"{self.own}amp_region = {self.region(switch)}\n" if self.loop.region == "variable" else "")

    def saved(self) -> str:
        """What follows each epoch."""
        return f"torch.save({self.own}{self.model}.half().state_dict(), 'last.pt')\n" * (
            self.mistake == "halved by the save"
        )

    # --- files ---------------------------------------------------------------------------------------------------

    def files(self) -> dict[str, str]:
        setting, layout = self.loop.setting, self.loop.layout
        files = {"requirements.txt": "torch>=2.4\n"}
        if setting == "yaml":
            files["config.yaml"] = "amp: true\n"
        if setting == "flag":
            files["run.sh"] = "#!/bin/bash\npython train.py --amp\n"
        top, setup = IMPORTS + TOPS.get(setting, ""), SETUPS.get(setting, "")
        if layout.startswith("class"):
            return files | self.class_files(top, setup)
        if layout in ("other-file", "package"):
            return files | self.function_files(top, setup)
        whole = (
            setup
            + DATA
            + self.prepared(self.switch)
            + f"for epoch in range(2):\n{indent(self.epoch() + self.saved(), '    ')}"
        )
        if layout == "notebook":
            return files | {"train.ipynb": _notebook([top, NET, whole])}
        if layout == "flat":
            return files | {"train.py": f"{top}\n\n{NET}\n\n{whole}"}
        return files | {"train.py": f"{top}\n\n{NET}\n\n{_main(whole)}"}

    def function_files(self, top: str, setup: str) -> dict[str, str]:
        folder = "src/" if self.loop.layout == "package" else ""
        given = [self.model, "loader", self.optimizer, "criterion", "device"]
        given += [self.scaler] * (self.mistake not in ("no scaler", "scaler in the loop"))
        given += [self.cfg] * (self.loop.setting in GIVEN) + ["amp_region"] * (self.loop.region == "variable")
        constant = TOPS["constant"] if self.loop.setting == "constant" else ""
        engine = f"{IMPORTS}{constant}\n\ndef train_one_epoch({', '.join(given)}):\n{indent(self.epoch(), '    ')}"
        call = f"for epoch in range(2):\n    train_one_epoch({', '.join(given)})\n{indent(self.saved(), '    ')}"
        package = folder.replace("/", ".")
        imported = f"from {package}engine import train_one_epoch\nfrom {package}net import Net\n"
        files = {f"{folder}engine.py": engine, f"{folder}net.py": f"from torch import nn\n\n\n{NET}"}
        files["train.py"] = imported + top + "\n\n" + _main(setup + DATA + self.prepared(self.switch) + call)
        return files | ({"src/__init__.py": ""} if folder else {})

    def class_files(self, top: str, setup: str) -> dict[str, str]:
        is_given, by_attribute = self.loop.setting in GIVEN, self.loop.layout == "class"
        held = (
            f"self.{self.cfg} = {self.cfg}\n" if by_attribute else f"self.use_amp = {SETTINGS[self.loop.setting]}\n"
        ) * is_given
        start = f"def __init__(self, loader{', ' * is_given}{self.cfg * is_given}):\n" + indent(
            held + "self.loader = loader\n" + self.prepared(self.switch), "    "
        )
        epoch = f"def train_epoch(self):\n{indent(self.epoch(), '    ')}"
        fit = "def fit(self):\n    for epoch in range(2):\n        self.train_epoch()\n" + indent(
            self.saved(), "        "
        )
        constant = TOPS["constant"] if self.loop.setting == "constant" else ""
        body = indent("\n".join((start, epoch, fit)), "    ")
        trainer = f"{IMPORTS}from net import Net\n\n{constant}\n\nclass Trainer:\n{body}"
        call = f"Trainer(loader{', ' * is_given}{self.cfg * is_given}).fit()\n"
        main = f"{top}from trainer import Trainer\n\n\n{_main(setup + DATA + call)}"
        return {"train.py": main, "trainer.py": trainer, "net.py": f"from torch import nn\n\n\n{NET}"}


CLIPPING = ("clip of scaled", "clip behind the step", "unscaled twice", "unscaled in each micro-batch")
"""Mistakes that need a clip."""


def _main(body: str) -> str:
    return f"def main():\n{indent(body, '    ')}\n\nif __name__ == '__main__':\n    main()\n"


def _notebook(cells: list[str]) -> str:
    parts = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text.splitlines(True)}
        for text in cells
    ]
    return json.dumps({"cells": parts, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
