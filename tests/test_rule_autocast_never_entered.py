"""PF305: autocast objects that nobody enters."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from precfix.codemod.model import Applicability

from .rule_runs import findings, migrated, rule_of, written

torch = pytest.importorskip("torch")

RULE = rule_of("autocast.autocast_never_entered")


def run(source: str) -> list[object]:
    """Execute a program; what it put into ``seen``."""
    space: dict[str, object] = {"seen": [], "torch": torch}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, "<program>", "exec"), space)
    seen = space["seen"]
    assert isinstance(seen, list)
    return seen


FOUND = {
    "statement": "import torch\ndef f(x):\n    torch.autocast('cpu')\n    return x @ x\n",
    "statement of the old api": "from torch.cuda.amp import autocast\nautocast()\n",
    "yield": "import contextlib, torch\n@contextlib.contextmanager\ndef f():\n    yield torch.autocast('cpu')\n",
    "yield of a choice": (
        "from contextlib import contextmanager, nullcontext\nimport torch\n@contextmanager\ndef f(on):\n"
        "    yield torch.autocast('cpu') if on else nullcontext()\n"
    ),
    "bare decorator": "import torch\n@torch.autocast\ndef f(x): ...\n",
    "bare old decorator": "from torch.cuda.amp import autocast\n@autocast\ndef f(x): ...\n",
    "class in with": "import torch\nwith torch.cuda.amp.autocast:\n    pass\n",
}
SILENT = {
    "with": "import torch\nwith torch.autocast('cpu'): pass\n",
    "called decorator": "import torch\n@torch.cuda.amp.autocast()\ndef f(): ...\n@torch.autocast('cpu')\ndef g(): 1\n",
    "returned": "import torch\ndef f():\n    return torch.autocast('cpu')\n",
    "kept": "import torch\nctx = torch.autocast('cpu')\nwith ctx: pass\n",
    "entered by hand": "import torch\ntorch.autocast('cpu').__enter__()\n",
    "entered by a stack": "import torch\nstack.enter_context(torch.autocast('cpu'))\n",
    "generator": "import torch\ndef contexts():\n    yield torch.autocast('cpu')\n",
    "entered by its callers": (
        "import torch\nfrom contextlib import contextmanager\n"
        "@contextmanager\ndef f():\n    yield torch.autocast('cpu')\n"
        "with f() as context:\n    with context: pass\n"
    ),
    "yield inside": (
        "import torch\nfrom contextlib import contextmanager\n@contextmanager\ndef f():\n"
        "    with torch.autocast('cpu'):\n        yield\n"
    ),
    "a fixture that yields one": "import torch, pytest\n@pytest.fixture\ndef f():\n    yield torch.autocast('cpu')\n",
    "expected to raise": "import torch, pytest\nwith pytest.raises(RuntimeError):\n    torch.autocast('nothing')\n",
    "tried": "import torch\ntry:\n    torch.autocast('mps')\nexcept RuntimeError:\n    pass\n",
    "own function": "def autocast(): ...\nautocast()\n@autocast\ndef f(): ...\n",
    "variable": "def f(autocast):\n    with autocast: pass\n    autocast()\n",
}


@pytest.mark.parametrize("name", FOUND)
def test_found(tmp_path: Path, name: str) -> None:
    assert len(findings(RULE, written(tmp_path, {"a.py": FOUND[name]}))) == 1


@pytest.mark.parametrize("name", SILENT)
def test_silent(tmp_path: Path, name: str) -> None:
    assert findings(RULE, written(tmp_path, {"a.py": SILENT[name]})) == ()


def fixed(folder: Path, source: str) -> str:
    report, texts = migrated([RULE], written(folder, {"a.py": source}), unsafe=True)
    assert not report.remaining
    return texts["a.py"]


def test_a_statement_becomes_a_region(tmp_path: Path) -> None:
    before = (
        "def f(x):\n    x = x * 2\n    # fast\n    torch.autocast('cpu', dtype=torch.bfloat16)\n    y = x @ x\n"
        "    return y\n\nseen.append(f(torch.ones(2, 2)).dtype)\n"
    )
    after = fixed(tmp_path, "import torch\n" + before)
    assert "    with torch.autocast('cpu', dtype=torch.bfloat16):\n        y = x @ x\n        return y\n" in after
    assert (run(before), run(after)) == ([torch.float32], [torch.bfloat16])


def test_a_yield_is_put_inside(tmp_path: Path) -> None:
    before = (
        "import torch\nfrom contextlib import contextmanager\n\n@contextmanager\ndef context():\n"
        "    yield torch.autocast('cpu')\n\n"
        "with context():\n    seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)\n"
    )
    after = fixed(tmp_path, before)
    assert "    with torch.autocast('cpu'):\n        yield\n" in after
    assert (run(before), run(after)) == ([torch.float32], [torch.bfloat16])


@pytest.mark.parametrize(
    "before",
    [
        "import torch\n@torch.cpu.amp.autocast\ndef f(x):\n    return x @ x\nseen.append(f(torch.ones(2, 2)).dtype)\n",
        "import torch\nwith torch.cpu.amp.autocast:\n    seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)\n",
    ],
)
def test_the_bare_class_crashes_and_is_called(tmp_path: Path, before: str) -> None:
    with pytest.raises((TypeError, AttributeError)):
        run(before)
    (found,) = findings(RULE, written(tmp_path, {"a.py": before}))
    assert found.fixes[0].applicability == Applicability.SAFE
    assert run(fixed(tmp_path, before)) == [torch.bfloat16]


def test_the_device_is_not_guessed(tmp_path: Path) -> None:
    before = "import torch\n@torch.autocast\ndef f(x):\n    return x\n"
    with pytest.raises(ValueError, match="device_type"):
        run(before)
    (found,) = findings(RULE, written(tmp_path, {"a.py": before}))
    assert not found.fixes


@pytest.mark.parametrize(
    "rest", ["    loss = model(x)\n    loss.backward()\n", "    def g(): ...\n", "    import os\n", ""]
)
def test_what_does_not_belong_into_a_region(tmp_path: Path, rest: str) -> None:
    (found,) = findings(
        RULE, written(tmp_path, {"a.py": f"import torch\ndef f(x):\n    torch.autocast('cpu')\n{rest}"})
    )
    assert not found.fixes


def test_both_rules_together_settle(tmp_path: Path) -> None:
    source = "from torch.cuda.amp import autocast\n\n@autocast\ndef f(x):\n    with autocast:\n        return x\n"
    rules = [RULE, rule_of("autocast.deprecated_cuda_amp")]
    report, texts = migrated(rules, written(tmp_path, {"requirements.txt": "torch>=2.4\n", "a.py": source}))
    assert not report.remaining
    assert texts["a.py"] == (
        'from torch.amp import autocast\n\n@autocast("cuda")\ndef f(x):\n    with autocast("cuda"):\n        return x\n'
    )
