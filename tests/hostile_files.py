"""Files written to hang, crash or mislead whoever reads them: bombs, depth, length, number. Not a test.

Each file says a precision somewhere, since precfix reads only files that do. The sizes are such that a reader or rule
whose work grows with the square (or worse) of the input takes minutes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from .nightly import NIGHTLY

MANY = 6_000 if NIGHTLY else 2_000
DEEP = 100_000


def _notebook(*sources: str, **metadata: object) -> str:
    cells = [
        {"cell_type": "code", "id": "../../x", "metadata": metadata, "outputs": [], "source": source}
        for source in sources
    ]
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def _laughs(merge: bool) -> str:
    lines = ["mixed_precision: fp16", "a0: &a0 {k: fp16}" if merge else "a0: &a0 [fp16, fp16]"]
    for number in range(1, 40):
        below = ", ".join([f"*a{number - 1}"] * 9)
        lines.append(f"a{number}: &a{number} " + (f"{{<<: [{below}]}}" if merge else f"[{below}]"))
    return "\n".join(lines) + "\n"


def _block(depth: int) -> str:
    return "".join("  " * level + "bf16:\n" for level in range(depth))


def _doubling(first: str, step: str, count: int = 60) -> str:
    """``step`` speaks of ``{new}`` and ``{old}``: each line doubles what the line before it means."""
    return first + "".join(step.format(new=f"V{number + 1}", old=f"V{number}") for number in range(count))


FILES: Mapping[str, Callable[[], str]] = {
    # YAML
    "laughs.yaml": lambda: _laughs(merge=False),
    "merges.yaml": lambda: _laughs(merge=True),
    "itself.yaml": lambda: "bf16: &a [*a, *a]\nfp16: &b {<<: *b, x: *b}\n",
    "deep.yaml": lambda: "bf16: " + "[" * DEEP + "]" * DEEP + "\n",
    "deep_open.yaml": lambda: "bf16: " + "{a: " * DEEP,
    "deep_block.yaml": lambda: _block(600),
    "dashes.yaml": lambda: "bf16:\n" + "- " * DEEP + "x\n",
    "questions.yaml": lambda: "bf16: 1\n" + "? " * DEEP + "x\n",
    "anchor.yaml": lambda: "bf16: &" + "a" * 450_000 + " true\n",
    "anchors.yaml": lambda: "".join(f"k{number}: &a{number} fp16\n" for number in range(MANY // 3)),
    "aliases.yaml": lambda: "bf16: &a true\nx: [" + "*a, " * MANY + "]\n",
    "line.yaml": lambda: 'bf16: "' + "x" * 3_000_000 + '"\n',
    "words.yaml": lambda: "bf16: " + "fp16 " * 40_000 + "\n",
    "quote.yaml": lambda: "bf16: '" + "x\n\n" * 50_000,
    "same_keys.yaml": lambda: "mixed_precision: fp16\n" * (MANY // 3),
    "documents.yaml": lambda: "---\nmixed_precision: fp16\n" * (MANY // 4),
    "flow.yaml": lambda: "bf16: [" + "fp16, " * MANY + "]\n",
    "directives.yaml": lambda: "%TAG ! tag:x,2000:\n" * (MANY // 3) + "---\nbf16: true\n",
    "tags.yaml": lambda: "bf16: !!python/object/apply:os.system ['touch executed']\n",
    "folded.yaml": lambda: "bf16: >\n" + "  x\n" * 40_000,
    "colons.yaml": lambda: "bf16: 1\nx: " + "a:" * 220_000 + "\n",
    # JSON
    "deep.json": lambda: '{"bf16": ' + "[" * DEEP + "]" * DEEP + "}",
    "deep_open.json": lambda: '{"bf16": ' + '{"a":' * 90_000,
    "line.json": lambda: '{"bf16": "' + "x" * 3_000_000 + '"}',
    "keys.json": lambda: '{"fp16": 1' + "".join(f', "k{number}": "fp16"' for number in range(MANY // 2)) + "}",
    "same_keys.json": lambda: "{" + '"fp16": {"enabled": true},' * (MANY // 3) + '"bf16": {"enabled": true}}',
    "number.json": lambda: '{"bf16": {"enabled": true, "loss_scale": ' + "9" * 450_000 + "}}",
    "exponent.json": lambda: '{"bf16": {"enabled": true, "loss_scale": 1e999999999}}',
    "comments.json": lambda: '{"bf16": true, ' + "/* " * 50_000,
    "slashes.json": lambda: '{"bf16": true, ' + "//\n" * 50_000 + "}",
    "escapes.json": lambda: '{"bf16": "' + "\\ud800" * 30_000 + '"}',
    "backslashes.json": lambda: '{"bf16": "' + "\\" * 450_001,
    "nul.json": lambda: '{"bf16": "\0", "mixed_precision": "fp16"}',
    # TOML
    "deep.toml": lambda: "bf16 = " + "[" * DEEP + "]" * DEEP + "\n",
    "deep_table.toml": lambda: "bf16 = " + "{a = " * 90_000,
    "dotted.toml": lambda: ".".join(["bf16"] * MANY) + " = 1\n",
    "header.toml": lambda: "[" + ".".join(["bf16"] * MANY) + "]\n",
    "tables.toml": lambda: "[[bf16]]\nx = 1\n" * (MANY // 5),
    "keys.toml": lambda: "".join(f'k{number} = "fp16"\n' for number in range(MANY // 5)),
    "line.toml": lambda: 'bf16 = "' + "x" * 3_000_000 + '"\n',
    "quote.toml": lambda: 'bf16 = """' + '\\\n"" ' * 90_000,
    "number.toml": lambda: "bf16 = " + "9" * 450_000 + "\n",
    # shell
    "substitutions.sh": lambda: "accelerate launch --mixed_precision " + "$(" * DEEP + "\n",
    "backticks.sh": lambda: "accelerate launch --mixed_precision=fp16 " + "`\\" * DEEP + "\n",
    "parens.sh": lambda: "accelerate launch --fp16 x.py; " + "( " * DEEP + "\n",
    "braces.sh": lambda: "accelerate launch --mixed_precision=${" * 12_000 + "\n",
    "line.sh": lambda: "accelerate launch train.py " + "--bf16 " * 8_000 + "\n",
    "chain.sh": lambda: "accelerate launch train.py --fp16" + " && deepspeed x.py --bf16" * 1_000 + "\n",
    "continued.sh": lambda: "accelerate launch " + "\\\n --bf16 " * 6_000 + "\n",
    "heredocs.sh": lambda: "accelerate launch --fp16\n" + "cat <<EOF\n" * 40_000,
    "variables.sh": lambda: _doubling("V0=--fp16\n", "{new}=${old}${old}\n") + "accelerate launch $V60 x.py\n",
    "assignments.sh": lambda: "".join(f"export A{number}=fp16\n" for number in range(5_000)) + "accelerate launch x\n",
    "functions.sh": lambda: "f() { f; f; accelerate launch --fp16 x.py; }\n" * 400 + "f\n",
    "ifs.sh": lambda: "if true; then\n" * 8_000 + "accelerate launch --fp16 x.py\n",
    "quotes.sh": lambda: "accelerate launch --fp16 " + "\"'" * 200_000 + "\n",
    "sources_itself.sh": lambda: "source sources_itself.sh\n" * 300 + "accelerate launch --fp16 x.py\n",
    "passwd.sh": lambda: (
        "source ../../../../etc/passwd\n. /etc/shadow\nsource ~/.bashrc\naccelerate launch --fp16 x.py\n"
    ),
    "long.env": lambda: "".join(f"PRECISION{number}=fp16\n" for number in range(5_000)),
    "Makefile": lambda: "train:\n\taccelerate launch --fp16 " + "$(A)" * MANY + "\n",
    # Python
    "parens.py": lambda: "GradScaler = " + "(" * DEEP + ")" * DEEP,
    "sum.py": lambda: "import torch\nbfloat16 = " + "1 + " * MANY + "1\n",
    "attributes.py": lambda: "import torch\nautocast = torch" + ".bfloat16" * 900 + "\n",
    "calls.py": lambda: "import torch\nautocast" + "()" * 20_000 + "\n",
    "lambdas.py": lambda: "autocast = " + "lambda: " * 20_000 + "0\n",
    "elifs.py": lambda: "import torch\nif autocast: pass\n" + "elif bf16: pass\n" * 20_000,
    "semicolons.py": lambda: "import torch\n" + "bf16 = torch.bfloat16; " * MANY + "\n",
    "line.py": lambda: "import torch\nautocast = '" + "x" * 3_000_000 + "'\n",
    "chain.py": lambda: (
        "import torch\nV0 = torch.bfloat16\n"
        + "".join(f"V{number + 1} = V{number}\n" for number in range(8_000))
        + "with torch.autocast('cuda', dtype=V8000):\n    pass\n"
    ),
    "doubling.py": lambda: (
        _doubling("import torch\nV0 = torch.bfloat16\n", "{new} = {old} if a else ({old}, {old})\n")
        + "with torch.autocast('cuda', dtype=V60):\n    pass\n"
    ),
    "functions.py": lambda: (
        "import torch\n"
        + "".join(
            f"def V{number}(x):\n    return V{number + 1}(V{number + 1}(x.bfloat16()))\n" for number in range(1_100)
        )
    ),
    "cycle.py": lambda: (
        "import torch\nfrom cycle import *\nclass A(B):\n    pass\nclass B(A):\n    autocast = A.autocast\n"
        "x = x\ndef f():\n    return g()\ndef g():\n    return f().to(torch.bfloat16)\n"
        "with torch.autocast('cuda', dtype=x):\n    f()\n"
    ),
    "scalers.py": lambda: (
        "import torch\n"
        + "".join(
            f"s{number} = torch.amp.GradScaler()\n"
            f"with torch.autocast('cuda', dtype=torch.bfloat16):\n    x{number} = m(x)\n"
            for number in range(200)
        )
    ),
    "regions.py": lambda: (
        "import torch\ndef f(x):\n"
        + "".join(f"{' ' * level}with torch.autocast('cuda'):\n" for level in range(1, 95))
        + " " * 95
        + "return x\n"
    ),
    "fstrings.py": lambda: "bf16 = " + "f'{x}' " * MANY + "\n",
    "strings.py": lambda: "import torch\nautocast = (\n" + "'bf16'\n" * MANY + ")\n",
    "dictionary.py": lambda: "import torch\nautocast = {" + "'bf16': torch.bfloat16, " * 5_000 + "}\n",
    "comments.py": lambda: "import torch\n" + "# bf16\n" * 40_000 + "with autocast():\n    pass\n",
    "backslashes.py": lambda: "import torch\nbf16 = \\\n" + "\\\n" * MANY + "1\n",
    "tabs.py": lambda: "bf16 = 1\n" + "\t" * 1_000_000 + "x = 1\n",
    "decorators.py": lambda: "import torch\n" + "@torch.cuda.amp.autocast()\n" * 500 + "def f(): pass\n",
    "nul.py": lambda: "bf16 = '\0'\n",
    "cookie.py": lambda: "# coding: " + "x" * 100_000 + "\nbf16 = 1\n",
    "unicode_escape.py": lambda: "# coding: unicode_escape\nbf16 = 1\\x0aimport os\n",
    # notebooks
    "deep.ipynb": lambda: '{"cells": ' + "[" * DEEP + '"bf16"',
    "cells.ipynb": lambda: _notebook(*["x = 'bf16'\n"] * 5_000),
    "line.ipynb": lambda: _notebook("bf16 = '" + "x" * 3_000_000 + "'\n"),
    "magics.ipynb": lambda: _notebook("!echo bf16\n" * 1_500 + "%env A=bf16\n" * 1_500),
    "writes.ipynb": lambda: _notebook(
        "%%writefile ../../executed\nbf16 = 1\n",
        "%run ../executed.py\nbf16 = 1\n",
        "!touch executed; accelerate launch --fp16 ../../x.py\n",
        "%load ../../../../etc/passwd\nbf16 = 1\n",
        "%%bash\nsource ../../../../etc/passwd; accelerate launch --fp16 x.py\n",
        name="../../../x",
        path="/etc/passwd",
    ),
    "sentinels.ipynb": lambda: _notebook(
        "__precfix_cell_1__\nbf16 = 1\n", "pass  #precfix-magic#!touch executed\nbf16 = 1\n"
    ),
    # lists of packages and words
    "requirements.txt": lambda: "".join(f"torch>=2.{number}  # bf16\n" for number in range(MANY)),
    "line.txt": lambda: "torch" + "," * 1_000_000 + "bf16\n",
    "includes.txt": lambda: (
        "-r includes.txt\n-r ../../../../etc/passwd\n-c https://example.org/x\n" * 2_000 + "torch bf16\n"
    ),
    "setup.cfg": lambda: "[options]\ninstall_requires =\n" + "  torch>=2\n" * MANY,
}
"""Name -> the text of the file."""
