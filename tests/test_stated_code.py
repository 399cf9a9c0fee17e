"""What the ledger lists of plain code: dtypes that are written down, wherever; and nothing that only looks like it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from precfix.codemod.source.project import Project
from precfix.codemod.trainers.reading.code_declarations import code_declarations

STATED = {
    "variable of a Python configuration": ('dtype = "bf16"', ("dtype", "constant", "bf16")),
    "choice by the machine": (
        'import torch\ndtype = "bfloat16" if torch.cuda.is_available() else "float16"',
        ("dtype", "constant", "'bfloat16' if torch.cuda.is_available() else 'float16'"),
    ),
    "local that a load reads": (
        "import torch\ndef load(m):\n    load_type = torch.float16\n    return m.from_config(dtype=load_type)",
        ("load_type", "constant", "float16"),
    ),
    "choice by a switch": (
        "import torch\ndef f(args):\n    compute = torch.bfloat16 if args.bf16 else torch.float32",
        ("compute", "constant", "torch.bfloat16 if args.bf16 else torch.float32"),
    ),
    "float32 branch of a cascade": (
        "import torch\ndef f(args):\n    kept = torch.float32\n    if args.fp16:\n        kept = torch.float16",
        ("kept", "constant", "float32"),
    ),
    "entry of kwargs": (
        "import torch\ndef f(kwargs):\n    kwargs['torch_dtype'] = torch.float16",
        ("kwargs['torch_dtype']", "setting", "float16"),
    ),
    "attribute": ("def f(args):\n    args.mixed_precision = 'fp16'", ("args.mixed_precision", "setting", "fp16")),
    "dictionary": ('SETTINGS = {"--mixed_precision": "bf16"}', ("--mixed_precision", "entry", "bf16")),
    "dictionary for **": (
        "def f(load, dtype):\n    extra = dict(torch_dtype=dtype)\n    return load(**extra)",
        ("dict(torch_dtype=)", "argument", "dtype"),
    ),
    "keyword of a loader's own": (
        "def f(m):\n    return m.from_pretrained('x', bf16=True)",
        ("from_pretrained(bf16=)", "weights", "true"),
    ),
    "compute dtype of quantized weights": (
        "from transformers import BitsAndBytesConfig\ndef f(compute):\n"
        "    return BitsAndBytesConfig(bnb_4bit_compute_dtype=compute)",
        ("BitsAndBytesConfig(bnb_4bit_compute_dtype=)", "argument", "compute"),
    ),
    "enumeration": (
        "from core import DType, Policy\npolicy = Policy(param_dtype=DType.bfloat16)",
        ("Policy(param_dtype=)", "argument", "bfloat16"),
    ),
    "default of a parameter": (
        "import torch\ndef load(path, torch_dtype=torch.bfloat16): ...",
        ("torch_dtype", "parameter", "bfloat16"),
    ),
    "what a missing key means": ('def f(cfg):\n    return cfg.get("dtype", "bf16")', ("dtype", "fallback", "bf16")),
    "what a missing variable means": (
        'import os\nvalue = os.getenv("MIXED_PRECISION", "no")',
        ("MIXED_PRECISION", "fallback", "no"),
    ),
    "field of any declaration": (
        'field = ConfigField(name="mixed_precision", default_value="bf16")',
        ("mixed_precision", "option", "bf16"),
    ),
    "switch without a default": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--fp16', action='store_true')",
        ("fp16", "option", "false"),
    ),
    "loaded and cast": (
        "from transformers import AutoModel\nmodel = AutoModel.from_pretrained('x').half().cuda()",
        ("AutoModel.from_pretrained('x').half()", "weights", "float16"),
    ),
    "part of a model back to float32": (
        "def f(model):\n    model.prefix_encoder.float()",
        ("model.prefix_encoder.float()", "weights", "float32"),
    ),
    "16-bit input": (
        "import torch\ndef f(image, device):\n    return image.to(device, dtype=torch.float16)",
        ("image.to()", "cast", "float16"),
    ),
    "a tensor that is created": (
        "import torch\ndef f():\n    return torch.zeros(2, dtype=torch.float16)",
        ("zeros(dtype=)", "cast", "float16"),
    ),
    "what is saved": (
        "import torch\ndef f(state):\n    torch.save({k: v.half() for k, v in state.items()}, 'm.pt')",
        ("v.half()", "cast", "float16"),
    ),
    "apex": (
        "from apex import amp\ndef f(m, o):\n    return amp.initialize(m, o, opt_level='O1')",
        ("amp.initialize", "compute", "O1"),
    ),
    "command line in one string": (
        "def f(cmd):\n    cmd += ' --fp16 True'\n    return cmd",
        ("--fp16", "flag", "True"),
    ),
    "command line as a list": (
        "import subprocess\nsubprocess.run(['accelerate', 'launch', '--mixed_precision', 'bf16', 'train.py'])",
        ("--mixed_precision", "flag", "bf16"),
    ),
    "command line that grows": (
        "def f(cmd, bf16):\n    if bf16:\n        cmd.append('--bf16')",
        ("--bf16", "flag", "true"),
    ),
    "command line that grows by a flag and its word": (
        "import sys\nsys.argv.append('--torch_dtype')\nsys.argv.append('bfloat16')",
        ("--torch_dtype", "flag", "bfloat16"),
    ),
    "switch before another word": (
        "import sys\nsys.argv.append('--bf16')\nsys.argv.append('out.txt')",
        ("--bf16", "flag", "true"),
    ),
    "command line that is extended": (
        "import sys\nsys.argv.extend(['--torch_dtype', 'bfloat16'])",
        ("--torch_dtype", "flag", "bfloat16"),
    ),
    "word for float32 by default": ('def f(precision="fp32"): ...', ("precision", "parameter", "fp32")),
    "cast of a pipeline": (
        "import torch\ndef f(pipe):\n    pipe.to(torch_dtype=torch.float16)",
        ("pipe.to()", "weights", "float16"),
    ),
    "command line filled in": (
        "def f(env):\n    return [f\"--mixed_precision={env.get('P', 'bf16')}\"]",
        ("--mixed_precision", "flag", "{env.get('P','bf16')}"),
    ),
}
SILENT = {
    "words that only hold one": "sample = 'bf16x'\nclamp = True\ntimestamp = False\nexample_config = 'fp16'",
    "a table of words": "import torch\nTABLE = {'fp16': torch.float16, 'bf16': torch.bfloat16}",
    "tensors": "import torch\ndef f(x):\n    return x.sum(dtype=torch.float32), torch.zeros(2, dtype=torch.float32)",
    "a tensor in float32": "def f(embeddings, loss):\n    return embeddings.float(), loss.float()",
    "a choice without a 16-bit dtype": (
        "import torch\ndef f(is_mps):\n    dtype = torch.float32 if is_mps else torch.float64\n    return dtype"
    ),
    "data of another library": "import numpy as np\nkind = np.float16",
    "a flag that is given an object": "LINE = '--modules_dtype {\"a\": [1]}'",
    "prose": "def f():\n    raise ValueError('use --bf16 only where the device has it')",
    "a question about flags": "def f(argv):\n    return '--fp16' in argv or argv.index('--bf16')",
    "a default of nothing": "def f(dtype=None, fp16=False): ...",
}


def _told(folder: Path, code: str) -> list[tuple[str, str, str]]:
    (folder / "code.py").write_text(dedent(code) + "\n")
    return [(item.key, item.role, item.value) for item in code_declarations(Project.open([folder]))]


@pytest.mark.parametrize("name", STATED)
def test_what_code_states_is_listed(tmp_path: Path, name: str) -> None:
    code, expected = STATED[name]
    assert expected in _told(tmp_path, code)


@pytest.mark.parametrize("name", SILENT)
def test_what_only_looks_like_it_is_not(tmp_path: Path, name: str) -> None:
    assert _told(tmp_path, SILENT[name]) == []


def test_a_place_is_told_once(tmp_path: Path) -> None:
    code = "import torch\nfrom m import AutoModel\nmodel = AutoModel.from_pretrained(torch_dtype=torch.half)"
    assert _told(tmp_path, code) == [("from_pretrained(torch_dtype=)", "weights", "float16")]


def test_tests_of_a_project_state_nothing_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_model.py").write_text("import torch\ndef test(model):\n    model.to(torch.float16)\n")
    assert code_declarations(Project.open([tmp_path])) == ()
