# ruff: noqa: E501 - the lines are the texts
"""Small texts that use much of what a reader knows: the fuzzer starts from them, too."""

from __future__ import annotations

import json

_MANIFEST = {
    "version": 1,
    "state": "done",
    "token": "0123456789ab",
    "files": [
        {
            "path": "train.py",
            "mode": 420,
            "offset": 0,
            "size": 3,
            "before": "cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4",
            "after": "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437",
        }
    ],
}
EXTRA_SEEDS: dict[str, tuple[bytes, ...]] = {
    "journal": (json.dumps(_MANIFEST).encode(),),
    "ignore": (b"*.pyc\n!a/**/b\n/[a-z]*[!0-9]/\n\\#x\n**/foo\nabc/**\n[[:alpha:]]\n a\\ \n",),
    "sourced": (b"source config.env\n. ./scripts/config.env && x\nif true; then . 'a.env'; fi\nsource ../a.env\n",),
    "settings": (
        b'target = "fp32"\nframeworks = ["a.yaml"]\n',
        b'[tool.precfix]\ntarget = "auto"\n',
        b'select = ["PF101", "PF2"]\nignore = ["PF301"]\n[per-file-ignores]\n"tests/*" = ["PF1"]\n',
        b'exclude = ["third_party/"]\nbaseline = "known.json"\nprofile = "gpu.json"\n',
    ),
    "pins": (
        b"torch>=2.0,<3 ; python_version < '3.12'\n-r other.txt\n-e git+https://x/y#egg=torch\ntorch==2.1.0+cu118 \\\n  --hash=x\n",
        b"from setuptools import setup\nreq = ['torch>=1.7.*']\nsetup(install_requires=req + ['a'], extras_require={'b': ['c']})\n",
        b'[tool.poetry.dependencies]\ntorch = {version = "^2.1", optional = true}\n[project]\ndependencies = ["torch~=2.0"]\n',
        b"dependencies:\n  - pytorch::pytorch=2.1=py3_cuda\n  - pip:\n    - torch==2.0\n",
        b"FROM --platform=x docker.io/pytorch/pytorch:2.1.0-cuda11.8 AS a\nRUN pip install torch==2.0\n",
        b"[options]\ninstall_requires =\n  torch>=2\n[options.extras_require]\ndev = a; b\n%(x)s = 1\n",
    ),
    "document-text": (b"torch>=2\n",),
    "document-notebook": (
        b'{"cells": [{"cell_type": "code", "source": ["!ls\\n", "%env A=1\\n", "x = !ls\\n", "x\\u0020= 1"]}, '
        b'{"cell_type": "code", "source": "%%bash\\nls"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
    ),
    "format-env": (b"export A='1'\nB=\"x $A\" # c\nC=\nD=a\\ b\n",),
    "format-makefile": (b"X ?= 1\nexport Y := a\nrun: dep\n\t@python t.py --fp16 --a=$(X) \\\n\t  --b 1\n",),
    "format-dockerfile": (
        b'FROM a AS b\nENV A=1 B="2"\nENV C 3\nARG D=4\nRUN python t.py --fp16 \\\n  --a 1\nCMD ["python", "t.py", "--fp16"]\n',
    ),
    "format-json": (b'// c\n{a: 1, /* x */ "b": [1, {"c": .5,},], \'d\': +1, "fp16": {"enabled": "auto"},}\n',),
    "format-toml": (
        b'a.b = 1\n[x."y z"]\nq = {a = 1, b.c = "d"}\n[[t]]\nm = """\nx\\\n  y"""\n[[t]]\nd = 1979-05-27\n',
    ),
    "format-yaml": (
        b"%YAML 1.1\n---\na: &x {b: 1, c: [d, e]}\n<<: *x\n? k\n: v\ns: |+\n  t\n\nf: >-\n  u\n  v\n...\n---\n- !!str 1\n- - a\n  - b: c\n",
    ),
    "format-shell": (
        b"A=1 B='x' python t.py --fp16 \"$@\" \\\n  --a=${C:-d} <<EOF | cat && for i in 1; do ARGS+=(--b 2); done\nx: 1\nEOF\n",
    ),
}
