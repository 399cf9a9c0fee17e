"""A call that an option passes one switch gets the other one: a second option, key or argument beside the first."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.engine import Options
from precfix.codemod.model import Applicability
from precfix.codemod.moving.carrying import move
from precfix.codemod.outcome import MoveState, Report, Target
from precfix.transforms.frameworks import load_frameworks

from .fixture_cases import all_rules
from .project_tree import open_tree


def moved(root: Path, files: dict[str, str], regime: str, *, unsafe: bool = True) -> tuple[Report, dict[str, str]]:
    """The report of a move, and the files that it changes."""
    rules, target = all_rules(), Target(regime, "a test")
    project = open_tree(root, files).with_frameworks(load_frameworks()).with_target(regime)
    report = move(
        project, [rule for rule in rules if rule.code == "PF001"], target, Options(unsafe_fixes=unsafe), rules
    )
    assert not report.failed_rules
    return report, {change.path: change.after.decode() for change in report.changes}


def trainer_of(argument: str, *lines: str) -> str:
    """A program whose parser gets ``lines`` and whose trainer is passed ``argument``."""
    declared = "".join(f"    {line}\n" for line in lines)
    return (
        "import argparse\nimport torch\nimport yaml\nfrom transformers import Trainer, TrainingArguments\n\n\n"
        f"def main():\n    parser = argparse.ArgumentParser()\n{declared}    args = parser.parse_args()\n"
        f'    training = TrainingArguments("out", {argument})\n    Trainer(model=None, args=training).train()\n\n\n'
        'if __name__ == "__main__":\n    main()\n'
    )


FLAG = 'parser.add_argument("--fp16", action="store_true", help="float16")'
PINNED = {"requirements.txt": "transformers>=4.40\n"}


def test_option_gets_a_counterpart_and_launch_lines_ask_for_it(tmp_path: Path) -> None:
    files = {
        "train.py": trainer_of("fp16=args.fp16", FLAG),
        "a.sh": "python train.py --fp16\n",
        "b.sh": "python train.py\n",
    }
    report, after = moved(tmp_path, {**files, **PINNED}, "bf16-mixed")
    assert after["a.sh"] == "python train.py --bf16\n"
    assert "b.sh" not in after  # a run in float32 stays one
    new = 'parser.add_argument("--bf16", action="store_true", help="Train in bf16 mixed precision.")'
    assert after["train.py"] == files["train.py"].replace(FLAG, f"{FLAG}\n    {new}").replace(
        "fp16=args.fp16", "fp16=args.fp16, bf16=args.bf16"
    )
    assert {each.path: each.state for each in report.moves} == {"a.sh": MoveState.MOVED, "b.sh": MoveState.LEFT}
    assert [each.after for each in report.moves] == ["bf16-mixed", "fp32"]
    safe, unchanged = moved(tmp_path / "safe", {**files, **PINNED}, "bf16-mixed", unsafe=False)
    assert not unchanged
    assert "the program gets an option of its own for it" in safe.remaining[0].fixes[0].message


def test_default_that_is_on_goes_over_to_the_counterpart(tmp_path: Path) -> None:
    line = 'parser.add_argument("--use-fp16", action=argparse.BooleanOptionalAction, default=True)'
    files = {"train.py": trainer_of("fp16=args.use_fp16", line), "a.sh": "python train.py\n"}
    _, after = moved(tmp_path, files, "bf16-mixed")
    assert line.replace("True", "False") in after["train.py"]
    assert line.replace("fp16", "bf16") in after["train.py"]
    assert "bf16=args.use_bf16" in after["train.py"]
    files["b.sh"] = "python train.py --no-use-fp16\n"  # would get the new one, which is on by default
    _, after = moved(tmp_path, files, "bf16-mixed")
    assert not after


def test_field_goes_behind_the_others(tmp_path: Path) -> None:
    code = """
        from dataclasses import dataclass
        from transformers import HfArgumentParser, Trainer, TrainingArguments
        @dataclass
        class Own:
            fp16: bool = True
            rank: int = 8
        own = HfArgumentParser(Own).parse_args_into_dataclasses()[0]
        Trainer(model=None, args=TrainingArguments("out", fp16=own.fp16)).train()
    """
    _, after = moved(tmp_path, {"train.py": code}, "bf16-mixed")
    assert "    fp16: bool = False\n    rank: int = 8\n    bf16: bool = True\n" in after["train.py"]


SECTION = """
import argparse
import yaml
from transformers import Trainer, TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--config")
config = yaml.safe_load(open(parser.parse_args().config))
part = config["training"]
Trainer(model=None, args=TrainingArguments("out", learning_rate=part["lr"], bf16=part["bf16"])).train()
"""


def test_key_of_a_file_gets_a_counterpart_and_both_have_a_default(tmp_path: Path) -> None:
    on, off = ("training:\n  lr: 0.1\n  bf16: true  # fast\n", "training:\n  lr: 0.1\n  bf16: false\n")
    files = {
        "train.py": SECTION,
        "a.yaml": on,
        "b.yaml": off,
        "c.yaml": on,
        "a.sh": "python train.py --config a.yaml\n",
    }
    _, after = moved(tmp_path, files, "fp16-mixed")
    assert after["a.yaml"] == on.replace("bf16", "fp16")
    assert not {"b.yaml", "c.yaml"} & after.keys()  # nothing is seen to read them
    assert 'bf16=part.get("bf16", False), fp16=part.get("fp16", False)' in after["train.py"]
    report, _ = moved(tmp_path / "two", {name: text for name, text in files.items() if name != "b.yaml"}, "fp16-mixed")
    assert ("a.sh", "fp16-mixed") in {(each.path, each.after) for each in report.moves}


@pytest.mark.parametrize(
    ("argument", "lines", "more"),
    [
        ("fp16=args.fp16", [FLAG, "print(args.fp16)"], ""),
        ("fp16=args.fp16", [FLAG.replace("store_true", "store_false")], ""),
        ("fp16=args.fp16", ['parser.add_argument("--half", dest="fp16", action="store_true")'], " --half"),
        ("fp16=args.fp16", [FLAG], ""),
        ("fp16=args.half", [FLAG.replace("fp16", "half")], " --half"),
    ],
    ids=["read elsewhere", "on by default", "flag of another name", "never on", "names float16"],
)
def test_no_counterpart(tmp_path: Path, argument: str, lines: list[str], more: str) -> None:
    line = f"python train.py{more or (' --fp16' if len(lines) > 1 else '')}\n"
    files = {"train.py": trainer_of(argument, *lines), "a.sh": line}
    _, after = moved(tmp_path, files, "bf16-mixed")
    assert not after


def test_switch_that_asks_the_hardware_stays_beside_the_other_one(tmp_path: Path) -> None:
    """On a machine with bfloat16 the test is false, so both agree there; no other machine can run the target."""
    argument = "fp16=torch.cuda.get_device_capability()[0] < 8"
    files = {"train.py": trainer_of(argument), "a.sh": "python train.py\n"}
    report, after = moved(tmp_path, files, "bf16-mixed")
    assert f"{argument}, bf16=True" in after["train.py"]
    assert not any(fix.applicability is Applicability.SAFE for _, fix in report.applied)


@pytest.mark.parametrize("is_safe", [True, False])
def test_switch_that_names_no_precision_goes_to_the_other_argument(tmp_path: Path, is_safe: bool) -> None:
    argument = "torch.cuda.is_available()" if is_safe else "args.mixed"
    option = 'parser.add_argument("--mixed", action="store_true")'
    files = {"train.py": trainer_of(f"fp16={argument}", option), "a.sh": "python train.py --mixed\n", **PINNED}
    _, after = moved(tmp_path, files, "bf16-mixed", unsafe=not is_safe)
    assert after == {"train.py": files["train.py"].replace("fp16=", "bf16=")}
    _, back = moved(tmp_path / "back", {**files, **after}, "fp16-mixed", unsafe=not is_safe)
    assert back == {"train.py": files["train.py"]}


def test_key_that_is_on_by_default_stays_on_where_a_file_names_neither(tmp_path: Path) -> None:
    files = {
        "train.py": SECTION.replace('part["bf16"]', 'part.get("bf16", True)'),
        "a.yaml": "training:\n  lr: 0.1\n  bf16: true\n",
        "a.sh": "python train.py --config a.yaml\n",
    }
    _, after = moved(tmp_path, files, "fp16-mixed")
    assert after["a.yaml"] == files["a.yaml"].replace("bf16", "fp16")
    assert 'bf16=part.get("bf16", False), fp16=part.get("fp16", "bf16" not in part)' in after["train.py"]


def test_attribute_that_may_be_missing_gets_no_counterpart(tmp_path: Path) -> None:
    files = {"train.py": trainer_of('fp16=getattr(args, "fp16", False)', FLAG), "a.sh": "python train.py --fp16\n"}
    _, after = moved(tmp_path, files, "bf16-mixed")
    assert not after


NEGATIVE = """
    import argparse

    from transformers import Trainer, TrainingArguments

    parser = argparse.ArgumentParser()
    parser.add_argument("--no_fp16", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()
    Trainer(None, args=TrainingArguments("out", SWITCHES)).train()
"""


@pytest.mark.parametrize(
    ("switches", "line"),
    [("fp16=not args.no_fp16, bf16=args.bf16", "python train.py --bf16 --no_fp16\n"), ("fp16=not args.no_fp16", None)],
)
def test_a_negative_switch_is_given_where_the_other_one_has_an_option(
    switches: str, line: str | None, tmp_path: Path
) -> None:
    files = {
        "train.py": NEGATIVE.replace("SWITCHES", switches),
        "run.sh": "python train.py\n",
        "requirements.txt": "torch>=2.4\ntransformers>=4.45\n",
    }
    report, after = moved(tmp_path, files, "bf16-mixed")
    assert [each.before for each in report.moves] == ["fp16-mixed"]
    assert after == ({"run.sh": line} if line else {})
