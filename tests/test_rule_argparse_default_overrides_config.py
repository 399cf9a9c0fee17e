"""PF405: the default of an option beats what accelerate is configured for."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.model import Applicability

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("trainer.argparse_default_overrides_config")
ACCELERATE_FILE = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16\n"


def script(default: str = '"no"', after: str = "", declared: str = "") -> str:
    option = declared or f'parser.add_argument("--mixed_precision", default={default})'
    return (
        "import argparse\nfrom accelerate import Accelerator\n"
        f"parser = argparse.ArgumentParser()\n{option}\nargs = parser.parse_args()\n"
        f"accelerator = Accelerator(mixed_precision=args.mixed_precision)\n{after}\n"
    )


LAUNCHES = {
    "flag": {"run.sh": "accelerate launch --mixed_precision bf16 train.py\n"},
    "flag with a dash": {"run.sh": "accelerate launch --mixed-precision=bf16 --num_processes 2 ./train.py --lr 1\n"},
    "file named": {
        "run.sh": "accelerate launch --config_file conf/one.yaml train.py\n",
        "conf/one.yaml": ACCELERATE_FILE,
        "conf/two.yaml": ACCELERATE_FILE.replace("bf16", "fp16"),
    },
    "environment": {"run.sh": "export ACCELERATE_MIXED_PRECISION=bf16\n# accelerate\npython train.py --lr 1\n"},
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_what_else_states_a_precision(name: str, tmp_path: Path) -> None:
    found = findings(RULE, written(tmp_path, {"train.py": script(), **LAUNCHES[name]}))
    assert [(item.path, item.span.row) for item in found] == [("train.py", 4)]
    assert "bf16" in found[0].evidence[0].message


SILENT = {
    "no launch line": {"accelerate.yaml": ACCELERATE_FILE},
    "nothing else": {},
    "the option is given": {"run.sh": "accelerate launch --mixed_precision bf16 train.py --mixed_precision bf16\n"},
    "shortened": {"run.sh": "accelerate launch --mixed_precision bf16 train.py --mixed=bf16\n"},
    "hidden": {"run.sh": 'accelerate launch --mixed_precision bf16 train.py "${ARGS[@]}"\n'},
    "another script": {"run.sh": "accelerate launch --mixed_precision bf16 other.py\n", "other.py": "print(1)\n"},
    "the launch line decides": {"run.sh": "accelerate launch train.py\n", "accelerate.yaml": ACCELERATE_FILE},
    "a variable": {"run.sh": "accelerate launch --mixed_precision $PRECISION train.py\n"},
}


@pytest.mark.parametrize("name", SILENT)
def test_is_silent(name: str, tmp_path: Path) -> None:
    assert not findings(RULE, written(tmp_path, {"train.py": script(), **SILENT[name]}))


@pytest.mark.parametrize(
    "text",
    [
        script('"bf16"'),
        script("None"),
        script("DEFAULT"),
        script('"tf32"'),
        script(declared='parser.add_argument("--mixed_precision", required=True, default="no")'),
        script(declared='parser.add_argument("--mixed_precision", default="no")\nparser.add_argument("--x")').replace(
            "accelerator =", "args.mixed_precision = choose()\naccelerator ="
        ),
        script().replace("from accelerate", "from mine"),
        script().replace("mixed_precision=args.mixed_precision", "cpu=True"),
        "from accelerate import Accelerator\naccelerator = Accelerator(mixed_precision='no')\n",
    ],
)
def test_other_scripts_are_silent(text: str, tmp_path: Path) -> None:
    assert not findings(RULE, written(tmp_path, {"train.py": text, **LAUNCHES["flag"]}))


def test_tests_of_the_option_follow_the_accelerator(tmp_path: Path) -> None:
    after = 'if args.mixed_precision == "bf16":\n    print("half")\nprint(args.mixed_precision)'
    files = {"train.py": script(after=after), **LAUNCHES["flag"]}
    report, texts = migrated([RULE], written(tmp_path, files), unsafe=True)
    assert 'parser.add_argument("--mixed_precision", default=None)' in texts["train.py"]
    assert 'if accelerator.mixed_precision == "bf16":' in texts["train.py"]
    assert "print(args.mixed_precision)" in texts["train.py"]
    assert not report.remaining


def test_other_reads_forbid_the_fix(tmp_path: Path) -> None:
    files = {"train.py": script(after="model = build(args.mixed_precision)"), **LAUNCHES["flag"]}
    (found,) = findings(RULE, written(tmp_path, files))
    assert [fix.applicability for fix in found.fixes] == [Applicability.DISPLAY_ONLY]
    assert "train.py:7" in found.fixes[0].message


def test_a_read_before_the_accelerator_forbids_the_fix(tmp_path: Path) -> None:
    text = script().replace("accelerator =", 'half = args.mixed_precision == "bf16"\naccelerator =')
    (found,) = findings(RULE, written(tmp_path, {"train.py": text, **LAUNCHES["flag"]}))
    assert [fix.applicability for fix in found.fixes] == [Applicability.DISPLAY_ONLY]


def test_a_field_of_a_class(tmp_path: Path) -> None:
    text = """
        from dataclasses import dataclass
        from accelerate import Accelerator
        from transformers import HfArgumentParser

        @dataclass
        class Arguments:
            mixed_precision: str = "no"

        (args,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
        accelerator = Accelerator(mixed_precision=args.mixed_precision)
        """
    report, texts = migrated([RULE], written(tmp_path, {"train.py": text, **LAUNCHES["flag"]}), unsafe=True)
    assert "mixed_precision: str = None" in texts["train.py"]
    assert len(report.findings) == 1
