"""Draws training programs: how a precision is chosen, where it acts, what else hangs on it, how code is laid out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from .actions import Action, action_of
from .sources import Source, source_of

NET = """
class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, width), nn.{norm}, nn.GELU(), nn.Linear(width, 4))
{buffer}
    def forward(self, x):
        return {result}
"""


@dataclass
class Program:
    """Files, the lines that the project gives to start it, and lines that a user may type besides."""

    name: str
    files: dict[str, str]
    given: list[str]
    typed: dict[str, str]
    """Line -> the dtype, or ``on`` and ``off``, that it asks for by name."""
    choices: dict[str, str] = field(default_factory=dict)


class Draw:
    """A random choice by its name."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self.choices: dict[str, str] = {}
        self.plain = self.random.choice((0.0, 0.5, 0.75))
        """How often the first option is taken: a program with one odd part is moved more often than one with ten."""

    def one(self, name: str, *options: str) -> str:
        self.choices[name] = options[0] if self.random.random() < self.plain else self.random.choice(options)
        return self.choices[name]

    def maybe(self, name: str, chance: float) -> bool:
        self.choices[name] = "yes" if self.random.random() < chance * (1 - self.plain / 2) else "no"
        return self.choices[name] == "yes"


def drawn(seed: int, number: int) -> Program:
    """The program of this number; the same for each machine."""
    draw = Draw(f"{seed}/{number}")
    source = source_of(draw)
    action = action_of(draw, source)
    files: dict[str, str] = {"requirements.txt": draw.one("pin", "torch>=2.4\n", "torch==2.6.0\n", "torch\n")}
    extras = _extras(draw, source, action.wants_cast)
    classes = NET.format(
        norm="LayerNorm(width)",
        buffer=draw.one("buffer", "", "", '        self.register_buffer("shift", torch.zeros(4))\n'),
        result="self.layers(x)",
    )
    if "shift" in classes:
        classes = classes.replace("self.layers(x)", "self.layers(x) + self.shift")
    if action.decorator:
        classes = classes.replace("    def forward", f"    {action.decorator}\n    def forward")
    layout = draw.one("layout", "script", "main", "class", "package", "engine")
    code = _laid_out(draw, layout, source, action, classes, extras)
    files |= {**code, **source.files}
    given, typed = _launched(draw, files, source, layout)
    _others(draw, files, given, source, action, layout)
    return Program(f"{seed}/{number}", files, given, typed, draw.choices)


def _is_command(source: Source) -> bool:
    """Whether the main function reads the command line itself."""
    return source.call in ("main()", "typer.run(main)") and not source.parse


def _extras(draw: Draw, source: Source, has_cast: bool) -> Mapping[str, str]:
    """What else the program decides, by the switch or not."""
    on = source.test
    found = {"device": '"cuda"', "batch": "4", "lr": "1e-3", "eps": "1e-8"}
    kind = draw.one("extra", *["none"] * 9, "device", "batch", "lr", "eps", "eps")
    other = {"device": '"cpu:0"', "batch": "2", "lr": "5e-4", "eps": "1e-6"}
    found["branch"] = ""
    how = draw.one("extra as", "choice", "branch", "table", "sum") if kind != "none" else "choice"
    if kind != "none" and how == "branch":
        found["branch"] = f"if not ({on}):\n    {kind} = {other[kind]}"
    elif kind != "none" and how == "table":
        found[kind] = f"{{True: {found[kind]}, False: {other[kind]}}}[bool({on})]"
    elif kind == "batch" and how == "sum":
        found[kind] = f"2 + 2 * int({on})"
    elif kind != "none":
        found[kind] = f"{found[kind]} if {on} else {other[kind]}"
    logs = {
        "no": "",
        "plain": f'print("precision", {source.shown})',
        "text": f'print("mixed precision" if {on} else "full precision")',
        "name": f'name = "run-" + str({source.shown})\nprint(name)',
        "folder": f'os.makedirs(os.path.join("logs", str({source.shown})), exist_ok=True)',
    }
    found["log"] = logs[draw.one("log", *logs)]
    saves = {
        "no": "",
        "fixed": 'torch.save(model.state_dict(), "last.pt")',
        "named": f'torch.save(model.state_dict(), "last-" + str({source.shown}) + ".pt")',
        "half": 'torch.save({k: v.half() for k, v in model.state_dict().items()}, "half.pt")',
    }
    found["save"] = saves[draw.one("save", "no", "no", "fixed", "named", "half")]
    after = {
        "no": "",
        "eval": "model.eval()\nwith torch.no_grad():\n    {x}\n    print('eval', model(x).float().sum().item() != 0)",
        "numpy": "with torch.no_grad():\n    {x}\n    print(model(x).{f}cpu().numpy().shape)",
    }
    found["after"] = after[draw.one("after", "no", "no", *after)]
    return found


def _indent(text: str, depth: int = 1) -> str:
    return (
        "".join(f"{'    ' * depth}{line}\n" if line else "\n" for line in text.strip("\n").split("\n")) if text else ""
    )


def _laid_out(
    draw: Draw, layout: str, source: Source, action: Action, classes: str, extras: Mapping[str, str]
) -> dict[str, str]:
    imports = "import argparse\nimport contextlib\nimport json\nimport os\nimport torch\nfrom torch import nn\n"
    holder = source.holder
    act = action
    base = "nn.functional.cross_entropy({out}, y)"
    loss = base.format(out=draw.one("loss", "out", "out", "out.float()"))
    structure = draw.one("structure", "plain", "plain", "plain", "accumulate", "ema", "gan", "frozen")
    if structure in ("accumulate", "gan") and act.scaling not in ("plain", "none"):
        structure = "plain"
    before = (
        f"torch.manual_seed(0)\ndevice = {extras['device']}\nbatch, lr, eps = {extras['batch']}, {extras['lr']}, "
        f"{extras['eps']}\n{extras['branch']}\nprint('keep', str(device)[:3], batch, lr, eps)\n{extras['log']}\n"
        f"model = Net().to(device)\n{act.cast}\n"
    )
    if structure == "frozen":
        before += (
            "teacher = Net().to(device)\nteacher.requires_grad_(False)\n" + act.cast.replace("model", "teacher") + "\n"
        )
    if structure == "ema":
        before += "average = {k: v.clone() for k, v in model.state_dict().items()}\n"
    before += "optimizer = torch.optim.AdamW(model.parameters(), lr=lr, eps=eps)\n" + act.scaler + "\n"
    if structure == "gan":
        before += "critic = Net().to(device)\n" + act.cast.replace("model", "critic") + "\n"
        before += "optimizer_d = torch.optim.AdamW(critic.parameters(), lr=lr, eps=eps)\n"
    inputs = f"x = torch.randn(batch, 8, device=device){act.input}\ny = torch.randint(0, 4, (batch,), device=device)"
    inside = {
        "frozen": f"out = model(x) + 0.1 * teacher(x).detach()\nloss = {loss}",
        "gan": f"out = model(x)\nloss = {loss} + critic(x + 0 * out.mean()).mean().abs()",
    }.get(structure, f"out = model(x)\nloss = {loss}" + ("\nloss = loss / 2" if structure == "accumulate" else ""))
    region = (
        act.region.replace("@INSIDE4", _indent(inside, 2)).replace("@INSIDE", _indent(inside)).replace("@PLAIN", inside)
    )
    clip = draw.maybe("clip", 0.3)
    step = act.step(clip, "optimizer", "model")
    if structure == "gan":
        step += "\n" + act.step(False, "optimizer_d", "critic").replace(act.backward + "\n", "", 1)
        step = act.once(step)
    if structure == "ema":
        step += "\nfor k, v in model.state_dict().items():\n    average[k].mul_(0.9).add_(v, alpha=0.1)"
    if structure == "accumulate":
        first, _, rest = step.partition("\n")
        step = f"{first}\nif (i + 1) % 2 == 0:\n{_indent(rest)}"
        zero = ""
    else:
        zero = "optimizer.zero_grad()\n" + ("optimizer_d.zero_grad()\n" if structure == "gan" else "")
    loop = f"for i in range(2):\n{_indent(inputs)}{_indent(zero)}{_indent(region)}{_indent(step)}"
    tail = extras["after"].format(x=inputs.split("\n")[0], f="float()." if draw.maybe("floated", 0.7) else "")
    rest = f"print('loss', loss.item())\n{tail}\n{extras['save']}\n"
    top = source.top + act.top
    if layout == "script":
        return {"train.py": f"{imports}{source.imports}\n{top}\n{classes}\n\n{source.parse}\n{before}{loop}{rest}"}
    call, parameters = source.call, source.parameters
    if layout in ("main", "package") or _is_command(source):
        body = f"def main({parameters}):\n{_indent(before + loop + rest)}\n"
        end = f"\nif __name__ == '__main__':\n{_indent(source.parse)}{_indent(call)}"
        if layout != "package":
            return {"train.py": f"{imports}{source.imports}\n{top}\n{classes}\n\n{source.decorators}{body}{end}"}
        own = (
            f"from lab.net import Net\nfrom lab.options import {', '.join(source.names + act.names)}\n"
            if source.names + act.names
            else "from lab.net import Net\n"
        )
        used = "from lab.options import *\n" if act.decorator and top.strip() else "\n"
        return {
            "lab/__init__.py": "",
            "lab/net.py": f"import torch\nfrom torch import nn\n{used}{classes}",
            "lab/options.py": f"{imports}{source.imports}\n{top}\n",
            "train.py": f"{imports}{source.imports}{own}\n\n{source.decorators}{body}{end}",
        }
    if layout == "class":
        code = (
            f"class Trainer:\n    def __init__(self, {holder}):\n"
            f"{_indent(_of_self(before, act, structure, holder), 2)}\n"
            f"    def fit(self):\n{_indent(_read_self(loop + rest, act, structure, holder), 2)}\n"
        )
        end = f"\nif __name__ == '__main__':\n{_indent(source.parse)}    Trainer({holder}).fit()\n"
        return {"train.py": f"{imports}{source.imports}\n{top}\n{classes}\n\n{code}{end}"}
    passed = ["model", "optimizer", "batch", "device", holder, *act.made]
    passed += {"gan": ["critic", "optimizer_d"], "frozen": ["teacher"], "ema": ["average"]}.get(structure, [])
    engine = f"def train_epoch({', '.join(passed)}):\n{_indent(loop)}    return loss\n"
    run = f"{source.parse}\n{before}loss = train_epoch({', '.join(passed)})\n{rest}"
    return {
        "engine.py": f"{imports}{source.imports}\n{act.top}\n\n{engine}"
        if not source.top
        else f"{imports}{source.imports}from options import *\n\n\n{engine}",
        **({"options.py": f"{imports}{source.imports}\n{top}\n"} if source.top else {}),
        "train.py": f"{imports}{source.imports}from engine import *\n\n{classes}\n\n{run}",
    }


def _kept(act: Action, structure: str) -> list[str]:
    more = {"gan": ["critic", "optimizer_d"], "frozen": ["teacher"], "ema": ["average"]}.get(structure, [])
    return ["model", "optimizer", "batch", "device", *act.made, *more]


def _of_self(before: str, act: Action, structure: str, holder: str) -> str:
    return before + f"self.{holder} = {holder}\n" + "\n".join(f"self.{name} = {name}" for name in _kept(act, structure))


def _read_self(code: str, act: Action, structure: str, holder: str) -> str:
    return "\n".join(f"{name} = self.{name}" for name in (holder, *_kept(act, structure))) + "\n" + code


def _launched(draw: Draw, files: dict[str, str], source: Source, layout: str) -> tuple[list[str], dict[str, str]]:
    lines = [f"{source.before}python train.py{each}" for each in source.given]
    typed = {f"python train.py{each}": means for each, means in source.typed.items()}
    kind = draw.one("launch", "shell", "shell", "variable", "make", "readme", "subprocess", "workflow", "notebook")
    if kind == "shell":
        files["run.sh"] = "#!/bin/bash\nset -e\n" + "\n".join(lines) + "\n"
        return ["bash run.sh"], typed
    if kind == "variable":
        held = [f'ARGS="{each.strip()}"\n{source.before}python train.py $ARGS' for each in source.given]
        files["scripts/run.sh"] = "#!/bin/bash\n" + "\n".join(held) + "\n"
        return ["bash scripts/run.sh"], typed
    if kind == "make":
        files["Makefile"] = "train:\n" + "".join(f"\t{each}\n" for each in lines)
        return ["make train"], typed
    if kind == "subprocess":
        words = [each.split() for each in source.given]
        calls = "".join(f"subprocess.run([sys.executable, 'train.py', *{each!r}], check=True)\n" for each in words)
        files["launch.py"] = f"import subprocess\nimport sys\n\n{calls}"
        return [f"{source.before}python launch.py"], typed
    if kind == "workflow":
        steps = "".join(f"      - run: {json.dumps(each)}\n" for each in lines)
        files[".github/workflows/ci.yml"] = f"on: push\njobs:\n  train:\n    runs-on: gpu\n    steps:\n{steps}"
        return lines, typed
    if kind == "notebook":
        cells = [
            {"cell_type": "code", "source": [f"!{each}"], "metadata": {}, "outputs": [], "execution_count": None}
            for each in lines
        ]
        files["run.ipynb"] = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
        return lines, typed
    files["README.md"] = "# Training\n\n```sh\n" + "\n".join(lines) + "\n```\n"
    return lines, typed


def _others(draw: Draw, files: dict[str, str], given: list[str], source: Source, action: Action, layout: str) -> None:
    """Other programs of the same project."""
    kind = draw.one("other", "none", "none", "none", "test", "eval", "export", "second")
    if kind == "none" or layout == "script" or layout == "engine" or _is_command(source):
        return
    begin = "import torch\nfrom train import *\n"
    cast = action.cast
    used = _indent(source.parse)
    pass_line = "    batch, device = 4, 'cuda'\n    torch.manual_seed(0)\n    model = Net().to(device)\n"
    work = f"{used}{pass_line}{_indent(cast)}    x = torch.randn(4, 8, device=device){action.input}\n"
    work += "    with torch.no_grad():\n        out = model(x)\n"
    if kind == "test":
        files["test_net.py"] = (
            f"{begin}\n\ndef test_forward():\n{work}    wanted = Net().to(device)(x.float())\n"
            "    assert out.shape == (4, 4)\n    assert torch.isfinite(out).all()\n"
            "    assert wanted.dtype == torch.float32\n\n\ntest_forward()\n"
        )
        given.append("python test_net.py")
    elif kind == "eval":
        files["evaluate.py"] = (
            f"{begin}\n\ndef evaluate():\n{work}    print('sum', out.float().sum().item() != 0)\n\n\nevaluate()\n"
        )
        given.append("python evaluate.py")
    elif kind == "export":
        files["export.py"] = (
            f"{begin}\n\ndef export():\n{work}    torch.save(model.state_dict(), 'model.pt')\n\n\nexport()\n"
        )
        given.append("python export.py")
    else:
        files["finetune.py"] = files["train.py"].replace("1e-3", "1e-4")
        given.extend(f"{source.before}python finetune.py{each}" for each in source.given)
