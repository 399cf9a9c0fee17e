"""A move needs leave where what it changes decides something else as well, or makes two runs the same."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_moving import moved

PINS = {"requirements.txt": "torch>=2.4\n"}
PROGRAM = """
    import argparse
    import os

    import torch
    from torch import nn

    DTYPES = {{"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}}
    {top}


    class Net(nn.Linear):
        pass


    class Big(nn.Linear):
        pass


    def main(args):
        on = args.precision != "fp32"
        width, name = 8, "net"
        {before}
        model = Net(8, width).cuda()
        model.to(DTYPES[args.precision])
        optimizer = torch.optim.AdamW(model.parameters())
        for i in range(2):
            x = torch.randn(4, 8, device="cuda").to(DTYPES[args.precision])
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            optimizer.step()


    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--precision", default="fp32", choices=["fp32", "fp16", "bf16"])
        parser.add_argument("--out", default="out")
        main(parser.parse_args())
"""
SIZES = '\n    BATCH = {"fp32": 2, "fp16": 4, "bf16": 4}'
PRESETS = '\n    PRESETS = {"fp32": {"on": False, "batch": 2}, "bf16": {"on": True, "batch": 4}}'
FUNCTION = '\n\n    def size(kind, wide=8):\n        if kind == "bf16":\n            return 4\n        return 2'
LINE = "python train.py --precision bf16\n"
DECIDING = {
    "a choice": 'width = 8 if args.precision == "bf16" else 16',
    "a choice by a variable": "width = 8 if on else 16",
    "a branch": "if on: width = 16",
    "one of two branches": "if not on:\n        width = 4\n    else:\n        width = 8",
    "more of it": "if on: width *= 2",
    "one of several at once": "width, name = (8, 'a') if on else (16, 'b')",
    "a table": "width = BATCH[args.precision]",
    "a table with a default": "width = BATCH.get(args.precision, 3)",
    "a table of presets": 'width = PRESETS[args.precision]["batch"]',
    "a function": "width = size(args.precision)",
    "a match": 'match args.precision:\n        case "bf16": width = 4\n        case _: width = 2',
    "a class": "Net = Big if on else nn.Linear",
    "a model": "model = Big(8, 8) if on else Net(8, 8)",
    "a model of a branch": "if on: model = Big(8, 8)\n    else: model = Net(8, 8)",
    "an option": "if on: args.batch_size = 4",
    "a name": 'name = "run-" + args.precision\n    os.makedirs(name)',
    "a name of a switch": 'out = f"out/{on}"\n    os.makedirs(out, exist_ok=True)',
    "a path": "os.makedirs(os.path.join(args.out, args.precision), exist_ok=True)",
    "a formatted name": 'os.makedirs("out/{}".format(args.precision), exist_ok=True)',
    "a loop": "while on and width > 4: width -= 1",
    "a choice by and and or": "width = on and 4 or 8",
    "an index": "width = (4, 8)[on]",
    "an attribute by its name": "width = getattr(Net, args.precision)",
    "a count": "width = 4 * on",
    "an argument of others": "loader = torch.utils.data.DataLoader([], shuffle=on)",
    "what is done for it alone": "if on: model = torch.compile(Net(8, 8))",
    "a file that is written for it alone": 'if on: torch.save({}, "half.pt")',
    "all settings": 'name = "_".join(f"{k}={v}" for k, v in vars(args).items())\n    os.makedirs(f"runs/{name}")',
    "an attribute": 'args.out = f"{args.out}-{args.precision}"\n    os.makedirs(args.out)',
}
SHOWING = {
    "printed": 'print(f"trains in {args.precision}")',
    "a message": 'message = "trains in " + args.precision\n    print(message)',
    "a choice that is printed": 'print("half" if on else "full precision")',
    "a table that is printed": "print(LABELS[args.precision])",
    "a named text": 'kind = "mixed" if on else "full"\n    print(kind)',
    "raised": 'if args.precision == "int8": raise ValueError(f"no such precision: {args.precision}")',
    "a scale": "init_scale = 1024.0 if on else 1.0",
    "bits": "bits = 16 if on else 32",
    "a context": "context = torch.autocast('cuda') if on else torch.no_grad()",
    "a test of another setting": "width = 8 if args.out else 16",
    "a test that stays": 'width = 8 if args.precision == "fp16" else 16',
    "an attribute of torch": "dtype = getattr(torch, {'fp32': 'float32', 'bf16': 'bfloat16'}[args.precision])",
    "all settings that are printed": "print(vars(args))",
    "what is told for it alone": 'if on: print("mixed precision")',
    "a title": 'run = dict(run_name=f"net-{args.precision}")',
}


TOPS = {
    "a table": SIZES,
    "a table with a default": SIZES,
    "a table of presets": PRESETS,
    "a function": FUNCTION,
    "a table that is printed": '\n    LABELS = {"fp32": "full", "fp16": "half", "bf16": "brain"}',
}


def states(tmp_path: Path, files: dict[str, str], before: str = "", top: str = "") -> dict[str, MoveState]:
    code = textwrap.dedent(PROGRAM).format(top=textwrap.dedent(top), before=before)
    _, runs = moved(tmp_path, all_rules(), {**PINS, "train.py": code, **files}, "fp32")
    return {path: run.state for path, run in runs.items()}


@pytest.mark.parametrize("name", DECIDING)
def test_what_decides_more_than_the_precision_needs_leave(tmp_path: Path, name: str) -> None:
    done = states(tmp_path, {"run.sh": LINE}, DECIDING[name], TOPS.get(name, ""))
    assert done == {"run.sh": MoveState.WITHDRAWN}


@pytest.mark.parametrize("name", SHOWING)
def test_what_is_shown_or_belongs_to_the_precision_does_not(tmp_path: Path, name: str) -> None:
    done = states(tmp_path, {"run.sh": LINE}, SHOWING[name], TOPS.get(name, ""))
    assert done == {"run.sh": MoveState.MOVED}


ALIKE = {
    "lines": {"run.sh": f"{LINE}python train.py --precision fp32\n"},
    "lines of two scripts": {"a.sh": LINE, "b.sh": "python train.py --precision fp32\n"},
    "values of a variable": {
        "run.sh": "ARGS='--precision bf16'\npython train.py $ARGS\nARGS='--precision fp32'\npython train.py $ARGS\n"
    },
}


@pytest.mark.parametrize("name", ALIKE)
def test_two_runs_do_not_become_one(tmp_path: Path, name: str) -> None:
    assert MoveState.MOVED not in states(tmp_path, ALIKE[name]).values()


SCRIPTS = {
    "a test": 'PREC=bf16\nif [ "$PREC" = bf16 ]; then B=4; else B=2; fi\npython train.py --precision $PREC --out $B\n',
    "a path": "PREC=bf16\npython train.py --precision $PREC --out runs/$PREC\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_may_ask_the_variable_for_more(tmp_path: Path, name: str) -> None:
    assert states(tmp_path, {"run.sh": SCRIPTS[name]}) == {"run.sh": MoveState.WITHDRAWN}


def test_what_a_script_prints_is_no_path(tmp_path: Path) -> None:
    script = (
        'PREC=bf16\necho "trains in $PREC"\n[ -n "$PREC" ] && python train.py --precision $PREC | tee log-$PREC.txt\n'
    )
    assert states(tmp_path, {"run.sh": script}) == {"run.sh": MoveState.MOVED}


def test_runs_that_differ_in_more_move(tmp_path: Path) -> None:
    lines = f"{LINE.strip()} --out a\npython train.py --precision fp32 --out b\n"
    assert states(tmp_path, {"run.sh": lines}) == {"run.sh": MoveState.THERE}


OTHERS = {
    "what reads the same file": """
        import yaml

        cfg = yaml.safe_load(open("config.yaml"))
        rows = 13 if cfg["amp"] else 17
    """,
    "what reads what was saved": """
        import torch

        saved = torch.load("last.pt")
        rows = 13 if saved["args"]["amp"] else 17
    """,
}
UNLIKE = {
    "a parser of its own": """
        import argparse

        import torch

        parser = argparse.ArgumentParser()
        parser.add_argument("--amp", action="store_true")
        args = parser.parse_args()
        model = torch.load("last.pt")
        rows = 13 if args.amp else 17
    """,
    "what is shown": """
        import torch

        saved = torch.load("last.pt")
        print("mixed" if saved["args"]["amp"] else "full")
    """,
}
FIT = """
    import torch
    import yaml
    from torch import nn

    cfg = yaml.safe_load(open("config.yaml"))
    model = nn.Linear(8, 4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"])
    scaler = torch.amp.GradScaler("cuda", enabled=cfg["amp"])
    for i in range(2):
        x = torch.randn(4, 8, device="cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=cfg["amp"]):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save({"args": cfg}, "last.pt")
"""


@pytest.mark.parametrize(
    ("name", "state"),
    [*((name, MoveState.WITHDRAWN) for name in OTHERS), *((name, MoveState.MOVED) for name in UNLIKE)],
)
def test_another_program_may_decide_by_the_setting(tmp_path: Path, name: str, state: MoveState) -> None:
    code = {"fit.py": textwrap.dedent(FIT), "export.py": textwrap.dedent({**OTHERS, **UNLIKE}[name])}
    files = {**PINS, **code, "config.yaml": "lr: 0.001\namp: true\n", "run.sh": "python fit.py\n"}
    _, runs = moved(tmp_path, all_rules(), files, "fp32")
    assert runs["run.sh"].state is state
