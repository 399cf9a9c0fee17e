"""PF406: misspelled precisions and values that are not read as they are written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from precfix.transforms.trainer.misspelled_precision.misspelled_torch_names import SHORT
from precfix.transforms.trainer.misspelled_precision.misspellings import DTYPES, respelled, respelled_dtype, slips

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("trainer.misspelled_precision")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("bloat16", "bfloat16"),
        ("bfloa16", "bfloat16"),
        ("flaot16", "float16"),
        ("folat32", "float32"),
        ("mix_precision", "mixed_precision"),
        ("mix-precision", "mixed-precision"),
        ("mixed_precison", "mixed_precision"),
        ("amp_percision", "amp_precision"),
        ("BLOAT16", "BFLOAT16"),
    ],
)
def test_slips(wrong: str, right: str) -> None:
    assert respelled(wrong) == right


@pytest.mark.parametrize(
    "word",
    [
        *DTYPES,
        "precision",
        "precisions",
        "mixed_precision",
        "float8",
        "float6",
        "bfloat8",
        "cfloat16",
        "flat16",
        "mix",
        "BFLOAT_16",
    ],
)
def test_words_that_are_none(word: str) -> None:
    assert respelled(word) is None


def test_a_dtype_is_a_whole_word() -> None:
    assert respelled_dtype("torch.bloat16") == "torch.bfloat16"
    assert respelled_dtype("BLOAT16") == "BFLOAT16"
    assert respelled_dtype("precison") is None
    assert respelled_dtype("my_bloat16") is None


def test_torch_has_none_of_these_names() -> None:
    torch = pytest.importorskip("torch")
    names = {*SHORT, *(slip for slip, word in slips().items() if word in DTYPES)}
    assert not [name for name in names if hasattr(torch, name)]


WRONG = {
    "attribute": "import torch\nx = torch.bf16",
    "renamed import": "import torch as th\nx = th.zeros(1, dtype=th.bloat16)  # torch",
    "capitals": "import torch\nx = torch.Float16",
    "bfloat": "import torch\nx = torch.bfloat  # bfloat16",
    "by name": 'import torch\nx = getattr(torch, "fp16")',
    "keyword": 'def f(model): return model.load(torch_dtype="bloat16")',
    "default": 'def f(dtype="flaot16"): return dtype',
    "variable": 'compute_dtype = "bfloa16"',
    "compared": 'def f(kind): return kind == "bloat16"',
    "key of a table": 'def f(kind): return {"bloat16": 2, "float32": 4}[kind]',
    "choices": 'def f(p): p.add_argument("--kind", choices=["fp32", "bloat16"])',
    "bool": '"x.py --fp16 False"\ndef f(p): p.add_argument("--fp16", default=False, type=bool)',
    "mixed": '"x.py --mixed-precision=no"\ndef f(p): p.add_argument("--mixed-precision", type=bool)',
    "autocast": 'import torch\nx = torch.autocast("cuda", enabled="False")',
    "trl": 'from trl import SFTConfig\nx = SFTConfig("o", bf16="True")',
    "heir": (
        "from transformers import TrainingArguments\nclass Mine(TrainingArguments):\n    pass\n"
        'x = Mine("o", fp16="false")'
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found_and_gone_after_the_fix(name: str, tmp_path: Path) -> None:
    report, texts = migrated([RULE], written(tmp_path, {"train.py": WRONG[name]}), unsafe=True)
    assert len(report.findings) == 1, report.findings
    assert texts
    assert not report.remaining


RIGHT = {
    "right name": "import torch\nx = torch.bfloat16, torch.float16",
    "own torch": "from mine import torch\nx = torch.bf16",
    "local torch": "def f(torch): return torch.bf16",
    "test": "import torch\nx = torch.fp16 if hasattr(torch, 'fp16') else torch.float16",
    "default of getattr": "import torch\nx = getattr(torch, 'bf16', None)",
    "in try": "import torch\ntry:\n    x = torch.bf16\nexcept AttributeError:\n    x = torch.bfloat16",
    "patched": "import torch\ntorch.bf16 = torch.bfloat16\nx = torch.bf16",
    "said to a person": 'raise_error("bloat16 is no dtype")',
    "not a dtype": 'def f(log): log("bloat16")',
    "both": 'def f(k): return k in ("bloat16", "bfloat16")',
    "no bool": 'def f(p, bool): p.add_argument("--fp16", type=bool)',
    "switch": 'def f(p): p.add_argument("--fp16", action="store_true")',
    "other option": 'def f(p): p.add_argument("--half-life", type=bool)',
    "registered": 'def f(p):\n    p.register("type", bool, str)\n    p.add_argument("--fp16", type=bool)',
    "own parser": (
        'class P:\n    def add_argument(self, *a, **k): ...\ndef f():\n    P().add_argument("--fp16", type=bool)'
    ),
    "tap": 'from tap import Tap\nclass A(Tap):\n    def f(self): self.add_argument("--fp16", type=bool)',
    "text": 'def f(run): run(fp16="False")',
    "straight": "def f(args, run): run(fp16=args.fp16, bf16=args.bf16)",
    "not": "def f(args, run): run(fp16=not args.bf16, bf16=args.bf16)",
    "supported": "def f(s, run): run(fp16=s.bf16_supported, bf16=s.fp16_supported)",
    "declared": 'def f(p):\n    p.add_argument("--mix_precision")\n    return p.parse_args().mix_precision',
}


@pytest.mark.parametrize("name", RIGHT)
def test_is_silent(name: str, tmp_path: Path) -> None:
    assert not findings(RULE, written(tmp_path, {"train.py": RIGHT[name]}))


def test_tests_may_spell_as_they_like(tmp_path: Path) -> None:
    assert not findings(RULE, written(tmp_path, {"tests/test_dtypes.py": 'assert parse(dtype="bloat16") == "bloat16"'}))


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        ("a.yaml", "dtype: bloat16  # half\n", "dtype: bfloat16  # half\n"),
        ("a.json", '{"train": {"torch_dtype": "flaot16"}}\n', '{"train": {"torch_dtype": "float16"}}\n'),
        ("a.toml", '[train]\nprecision = "bfloa16"\n', '[train]\nprecision = "bfloat16"\n'),
        ("a.sh", "python train.py --dtype=bloat16 --lr 1\n", "python train.py --dtype=bfloat16 --lr 1\n"),
    ],
)
def test_values_in_configuration_files(name: str, text: str, after: str, tmp_path: Path) -> None:
    report, texts = migrated([RULE], written(tmp_path, {name: text}), unsafe=True)
    assert len(report.findings) == 1
    assert texts == {name: after}


def test_a_slip_that_all_places_share_works(tmp_path: Path) -> None:
    files = {"a.yaml": "dtype: bloat16\n", "train.py": 'def f(cfg): return cfg.dtype == "bloat16"'}
    assert not findings(RULE, written(tmp_path, files))


FIELDS = """
from dataclasses import dataclass{imports}
@dataclass
class Settings{base}:
    mixed_precision: str = "no"
    {more}
x = Settings(mix_precision="bf16")
"""


@pytest.mark.parametrize(
    ("imports", "base", "more", "count"),
    [
        ("", "", "steps: int = 1", 1),
        ("\nfrom mine import Base", "(Base)", "steps: int = 1", 0),
        ("", "", "def __init__(self, **settings): ...", 0),
        ("", "", "for i in range(3): ...", 0),
    ],
)
def test_fields_of_dataclasses(imports: str, base: str, more: str, count: int, tmp_path: Path) -> None:
    text = FIELDS.format(imports=imports, base=base, more=more)
    assert len(findings(RULE, written(tmp_path, {"train.py": text}))) == count


def test_a_keyword_given_twice_is_only_reported(tmp_path: Path) -> None:
    text = 'from accelerate import Accelerator\na = Accelerator(mix_precision="bf16", mixed_precision="no")'
    (found,) = findings(RULE, written(tmp_path, {"train.py": text}))
    assert not found.fixes


def test_a_text_over_several_lines_keeps_its_indentation(tmp_path: Path) -> None:
    text = (
        "from accelerate import Accelerator\n\n\ndef f():\n    return Accelerator(\n"
        '        mix_precision="bf16",\n        project_dir="""a\n  b""",\n    )\n'
    )
    _, texts = migrated([RULE], written(tmp_path, {"train.py": text}))
    assert '"""a\n  b"""' in texts["train.py"]
    assert 'mixed_precision="bf16"' in texts["train.py"]
    assert "mix_precision=" not in texts["train.py"]


def test_the_new_reader_reads_both_words(tmp_path: Path) -> None:
    text = dedent("""
        '''python train.py --fp16 False'''
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--fp16", type=bool, default=True)
        print(parser.parse_args().fp16)
        """)
    _, texts = migrated([RULE], written(tmp_path, {"train.py": text}), unsafe=True)

    def says(source: str, *words: str) -> str:
        done = subprocess.run([sys.executable, "-c", source, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert says(text, "--fp16", "False") == "True"
    assert says(texts["train.py"], "--fp16", "False") == "False"
    assert says(texts["train.py"], "--fp16", "True") == "True"
    assert says(texts["train.py"]) == "True"
