"""What a run that has moved still demands, reads or says of the type that it has left is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_moving import moved

LOOP = """
    import sys

    import torch
    from torch import nn


    def hw_test_bf16():
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()


    def main(data, use_bf16=False):
        {test}
        model = nn.Linear(8, 8).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        for batch in data:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(batch).sum()
            loss.backward()
            optimizer.step()


    if __name__ == "__main__":
        main([])
"""
SWITCHED = """
    import argparse

    import torch
    from torch import nn


    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--amp", action="store_true")
        args = parser.parse_args()
        model = nn.Linear(8, 8).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
        for batch in [torch.ones(2, 8).cuda()]:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
                loss = model(batch).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


    if __name__ == "__main__":
        main()
"""
PINS = "torch>=2.4\n"


def still(tmp_path: Path, files: dict[str, str], regime: str, *, unsafe: bool = False) -> list[str]:
    _, runs = moved(tmp_path, all_rules(), {"requirements.txt": PINS, **files}, regime, unsafe=unsafe)
    assert [each.state for each in runs.values()] == [MoveState.MOVED] * len(runs), runs
    return [f"{place.path}:{place.span.row} {place.message}" for each in runs.values() for place in each.still]


@pytest.mark.parametrize("regime", ["fp32", "fp16-mixed"])
@pytest.mark.parametrize(
    ("test", "asked"),
    [
        ("if not torch.cuda.is_bf16_supported(): raise SystemExit('old GPU')", "torch.cuda.is_bf16_supported()"),
        ("if not (torch.cuda.is_available() and torch.cuda.is_bf16_supported()): sys.exit(1)", "is_bf16_supported()"),
        ("assert hw_test_bf16()", "hw_test_bf16()"),
        ("assert bf16_supported", "bf16_supported"),
        ("require_bf16()", "require_bf16()"),
    ],
)
def test_a_demand_of_bfloat16_hardware_is_told(tmp_path: Path, regime: str, test: str, asked: str) -> None:
    (told,) = still(tmp_path, {"train.py": LOOP.format(test=test)}, regime)
    assert told.startswith("train.py:12 still asks for bfloat16 hardware: ")
    assert asked in told


@pytest.mark.parametrize(
    "test",
    [
        "if use_bf16 and not torch.cuda.is_bf16_supported(): raise SystemExit('old GPU')",
        "if not torch.cuda.is_bf16_supported(): print('slow')",
        "if not torch.cuda.is_available(): raise SystemExit('no GPU')",
        "assert data is not None",
        "print('bf16')",
    ],
)
def test_what_demands_no_bfloat16_is_not(tmp_path: Path, test: str) -> None:
    assert still(tmp_path, {"train.py": LOOP.format(test=test)}, "fp32") == []


def test_a_demand_of_float16_hardware_is_told_on_the_way_to_bfloat16(tmp_path: Path) -> None:
    code = LOOP.replace("bfloat16", "float16").format(test="assert fp16_supported(), 'no float16'")
    (told,) = still(tmp_path, {"train.py": code}, "bf16-mixed")
    assert told == "train.py:12 still asks for float16 hardware: fp16_supported()"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('python train.py --amp "$@"', "$@"),
        ("python train.py --amp ${@:2}", "${@:2}"),
        ('python train.py "${ARGS[@]}" --amp', "${ARGS[@]}"),
        ('ARGS=("$@")\npython train.py --amp ${ARGS[@]}', "$@"),
        ("python train.py --amp $EXTRA_ARGS", "$EXTRA_ARGS"),
    ],
)
def test_arguments_that_a_launch_line_passes_on_are_told(tmp_path: Path, line: str, word: str) -> None:
    (told,) = still(tmp_path, {"train.py": SWITCHED, "run.sh": f"{line}\n"}, "fp32")
    assert f"passes on {word}, which may ask for the old precision" in told


@pytest.mark.parametrize(
    "line",
    [
        "python train.py --amp",
        'ARGS=(--amp)\npython train.py "${ARGS[@]}"',
        'train() { python train.py "$@"; }\ntrain --amp',
    ],
)
def test_arguments_that_are_seen_are_not(tmp_path: Path, line: str) -> None:
    assert still(tmp_path, {"train.py": SWITCHED, "run.sh": f"{line}\n"}, "fp32") == []


def test_a_flag_that_the_moved_line_switches_off_is_not_told(tmp_path: Path) -> None:
    code = """
        from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

        (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
        Trainer(AutoModelForCausalLM.from_pretrained("m"), args).train()
    """
    files = {"train.py": code, "run.sh": "python train.py --fp16 True --output_dir out\n"}
    files["requirements.txt"] = f"{PINS}transformers>=4.40,<5\n"
    assert still(tmp_path, files, "fp32") == []


PARSED = """
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments


    def main():
        (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
        Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args).train()


    if __name__ == "__main__":
        main()
"""


def test_a_program_that_only_instructions_start_is_told_with_their_lines(tmp_path: Path) -> None:
    lines = "# Train\n\n```bash\npython -m torch.distributed.launch train.py \\\n  --output_dir out \\\n  --fp16\n```\n"
    files = {"train.py": PARSED, "examples/train_dense.md": lines}
    _, runs = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert runs["train.py"].state is MoveState.LEFT
    assert [(place.path, place.span.row) for place in runs["train.py"].why] == [("examples/train_dense.md", 6)]
    _, runs = moved(tmp_path / "target", all_rules(), files, "fp16-mixed")
    assert not runs or not runs["train.py"].why


def test_a_run_names_the_lines_of_its_own_script_alone(tmp_path: Path) -> None:
    code = """
        import argparse

        import torch
        from torch import nn

        parser = argparse.ArgumentParser()
        parser.add_argument("--precision", default="bf16")
        args = parser.parse_args()
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[args.precision]
        model = nn.Linear(8, 8).to(dtype)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(torch.ones(2, 8, dtype=dtype)).sum().backward()
        optimizer.step()
    """
    files = {"train.py": code, "one.sh": "python train.py --precision bf16\n", "two.sh": "python train.py\n"}
    for regime in ("fp32", "fp16-true"):
        _, runs = moved(tmp_path / regime, all_rules(), files, regime)
        for name in ("one.sh", "two.sh"):
            other = "two.sh" if name == "one.sh" else "one.sh"
            assert other not in {place.path for place in (*runs[name].why, *runs[name].still)}


SHOWING = """
    from kit import c_print
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            BODY
            return self.layer(x)


    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in [torch.ones(2, 8).cuda()]:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x).float().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("body", "is_safe"),
    [
        ("pass", True),
        ('c_print(f"{x.shape = }", color="green")', True),
        ("c_print(x)", False),
        ("x = c_print('x') + x", False),
    ],
)
def test_a_function_that_shows_texts_computes_nothing(body: str, is_safe: bool, tmp_path: Path) -> None:
    files = {"train.py": SHOWING.replace("BODY", body), "requirements.txt": PINS}
    report, _ = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert bool(report.changes) == is_safe
