"""Counts the work of a check: every call that Python makes while it runs, and some of them by name.

Counted calls are the same on every machine, unlike seconds. Projects come in shapes that can be made twice as large.
"""

from __future__ import annotations

import cProfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import CodeType

from precfix.codemod.engine import check
from precfix.codemod.model import Finding, Rule
from precfix.codemod.source.project import Project
from precfix.transforms.frameworks import load_frameworks

from .fixture_cases import all_rules
from .rule_runs import TARGET

Shape = Callable[[int], Mapping[str, str]]


@dataclass(frozen=True)
class Work:
    """How much was done."""

    calls: int
    """Calls of functions, methods and built-ins, and steps of generators."""
    by_function: Mapping[tuple[str, str], int]
    """(file below the package, name) -> calls."""
    findings: int

    def of(self, file: str, name: str) -> int:
        """How often a function of precfix was called."""
        return self.by_function.get((file, name), 0)


def work_of(folder: Path, files: Mapping[str, str]) -> Work:
    """What it takes to check these files with all rules."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    rules, frameworks = all_rules(), load_frameworks()
    return counted(lambda: _checked(Project.open([folder]).with_frameworks(frameworks), rules))


def _checked(project: Project, rules: Sequence[Rule]) -> tuple[Finding, ...]:
    report = check(project, rules, TARGET)
    assert not report.failed_rules
    return report.findings


def counted(work: Callable[[], Sequence[object]]) -> Work:
    """What it takes to do some work, which answers with what it found."""
    profile = cProfile.Profile()
    profile.enable()
    found = work()
    profile.disable()
    entries = profile.getstats()
    named: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        if isinstance(entry.code, CodeType):
            named[_name(entry.code)] += entry.callcount
    return Work(sum(entry.callcount for entry in entries), named, len(found))


def fastest_growing(one: Work, two: Work, number: int = 10) -> list[tuple[int, str, str, int]]:
    """(calls in the larger run, file, name, calls in the smaller run) of what grew most."""
    more = sorted(two.by_function, key=lambda name: 2 * one.by_function.get(name, 0) - two.by_function[name])
    return [(two.by_function[name], *name, one.by_function.get(name, 0)) for name in more[:number]]


def _name(code: CodeType) -> tuple[str, str]:
    parts = Path(code.co_filename).parts
    below = next((at for at, part in enumerate(parts) if part in ("codemod", "transforms")), 0)
    return "/".join(parts[below:]), code.co_name


# --- shapes -----------------------------------------------------------------------------------------------------------

HEAD = "import torch\nfrom torch import nn\nfrom torch.amp import GradScaler, autocast\n\n\n"


def repeated(text: str, number: int) -> str:
    """``text`` with ``@`` replaced by each number in turn."""
    return "".join(dedent(text).lstrip("\n").replace("@", str(index)) for index in range(number))


def autocasts(number: int) -> dict[str, str]:
    """Functions with an autocast region each, in one file."""
    body = """
    def step@(model, batch):
        with autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch).mean()
        loss.backward()


    """
    return {"train.py": HEAD + repeated(body, number)}


def autocasts_in_a_function(number: int) -> dict[str, str]:
    """All regions in one function."""
    rows = "".join(f'    with autocast("cuda"):\n        x = model{n}(x)\n' for n in range(number))
    return {"train.py": f"{HEAD}def run(x):\n{rows}    return x\n"}


def kept_regions(number: int) -> dict[str, str]:
    """Regions that are kept in a variable of the same name before they are entered, and losses behind them."""
    rows = """
    def run@(model, batch, optimizer, dtype=torch.float16):
        region = autocast("cuda", dtype=dtype)
        with region:
            loss = model(batch)
        loss.backward()
        optimizer.step()


    """
    return {"train.py": HEAD + repeated(rows, number)}


def losses_in_a_function(number: int) -> dict[str, str]:
    """Regions with a backward pass each, one behind the other."""
    rows = "".join(
        f'    with autocast("cuda"):\n        loss = model{n}(x)\n    loss.backward()\n' for n in range(number)
    )
    return {"train.py": f"{HEAD}def run(x, optimizer):\n{rows}    optimizer.step()\n"}


def scalers(number: int) -> dict[str, str]:
    """Training steps with a scaler each."""
    body = """
    def train@(model, batches, optimizer):
        scaler = GradScaler("cuda")
        for batch in batches:
            with autocast("cuda", dtype=torch.float16):
                loss = model(batch).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()


    """
    return {"train.py": HEAD + repeated(body, number)}


def modules(number: int) -> dict[str, str]:
    """Layers that use one another, made, cast and run."""
    body = """
    class Block@(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.up = nn.Linear(width, width)
            self.norm = nn.LayerNorm(width)

        def forward(self, x, mask=None):
            position = torch.arange(x.shape[1], device=x.device).float()
            mask = torch.zeros(x.shape[0]) if mask is None else mask
            return torch.cat([self.up(self.norm(x)), mask], dim=1) + position


    def run@(x, mask):
        model = Block@(64).to(torch.bfloat16)
        with torch.no_grad():
            return model(x.to(torch.bfloat16), mask) + eps@(x)


    def eps@(x):
        return (x.half() + 1e-8).masked_fill(x > 0, -1e9)


    """
    return {"model.py": HEAD + repeated(body, number)}


def callers(number: int) -> dict[str, str]:
    """One helper that everybody calls."""
    body = """
    def use@(model, x):
        y = helper(model.half(), x.float(), torch.float16)
        return y.sum()


    """
    helper = "def helper(model, x, dtype):\n    return model(torch.cat([x, torch.zeros(3)])).to(dtype)\n\n\n"
    return {"helpers.py": HEAD + helper, "use.py": HEAD + "from helpers import helper\n\n\n" + repeated(body, number)}


def filled_lists(number: int) -> dict[str, str]:
    """Lists that are filled and passed on, beside an optimizer whose parameters a list could hold."""
    body = """
    def gather@(batches):
        found = []
        for batch in batches:
            found.append(batch)
        return len(found)


    """
    made = "def made(model):\n    return torch.optim.SGD(model.half().parameters(), lr=0.1)\n\n\n"
    return {"train.py": HEAD + made + repeated(body, number)}


def angles(number: int) -> dict[str, str]:
    """Models that turn positions into angles, and steps that cast the positions that they pass."""
    body = """
    class Rotary@(nn.Module):
        def forward(self, x, position_ids):
            angles = position_ids[:, None] * self.inv_freq
            return x * angles.cos()


    def step@(x, ids):
        model@ = Rotary@()
        loss = model@(x, position_ids=ids.to(torch.bfloat16)).sum()
        loss.backward()


    """
    return {"run.py": HEAD + repeated(body, number)}


def a_long_function(number: int) -> dict[str, str]:
    """Statements in a row, each on the value of the one before."""
    rows = "".join(
        f"    x{n + 1} = torch.relu(layer(x{n}.to(torch.bfloat16)).float())\n"
        f"    if flag{n % 7}:\n        x{n + 1} = x{n + 1}.half()\n"
        for n in range(number)
    )
    return {"run.py": f"{HEAD}def run(x0, layer):\n{rows}    return x{number}\n"}


def plain_lines(number: int) -> dict[str, str]:
    """A long file in which precision plays a small part."""
    body = """
    def part@(values, limit):
        total = 0
        for index, value in enumerate(values):
            if value > limit:
                total += value * index
            else:
                total -= value
        return total


    """
    return {"long.py": autocasts(3)["train.py"] + repeated(body, number)}


def files(number: int) -> dict[str, str]:
    """Many files, some of which train and import their neighbours."""
    found = {}
    for index in range(number):
        name = f"pkg/part{index // 50}/module{index}.py"
        if index % 10:
            found[name] = f"from .module{index - 1} import value\n\nvalue = value + {index}\n"
        else:
            imported = f"from .module{index + 1} import value\n\n\n"
            found[name] = HEAD + imported + scalers(1)["train.py"].removeprefix(HEAD).replace("train0", f"train{index}")
    return found


def configurations(number: int) -> dict[str, str]:
    """Launch scripts and the files they name, which contradict each other."""
    found = {}
    for index in range(number):
        found[f"conf/a{index}.yaml"] = "compute_environment: LOCAL_MACHINE\nmixed_precision: fp16\n"
        found[f"scripts/run{index}.sh"] = (
            f"accelerate launch --config_file conf/a{index}.yaml --mixed_precision bf16 train.py\n"
        )
    train = """
    import argparse
    from accelerate import Accelerator

    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", default="no")
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    """
    return {**found, "train.py": repeated(train, 1)}


def run_logs(number: int, keys: int = 10) -> dict[str, str]:
    """A folder of runs, each with its settings and results that no trainer knows."""
    settings = "precision_of_results: fp16\nresults:\n" + "".join(f"  part{n}: {n}\n" for n in range(keys))
    return {"train.py": HEAD} | {f"logs/run{index}/config.yaml": settings for index in range(number)}


def sections(number: int) -> dict[str, str]:
    """A file of sections, each of which a trainer reads."""
    rows = "".join(f"  - deepspeed: {{bf16: {{enabled: true}}, part: {index}}}\n" for index in range(number))
    return {"train.py": HEAD, "sweep.yaml": f"runs:\n{rows}"}
