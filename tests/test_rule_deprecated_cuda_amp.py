"""PF301: what is found, what stays silent, and that each rewritten program runs as before, without the warning."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from textwrap import dedent

import pytest
from precfix.codemod.model import Applicability
from precfix.transforms.autocast.deprecated_cuda_amp.deprecated_uses import DEPRECATED

from .rule_runs import findings, migrated, rule_of, written

torch = pytest.importorskip("torch")

RULE = rule_of("autocast.deprecated_cuda_amp")


RECENT = {"requirements.txt": "torch>=2.4\n"}
"""A lower bound that has all the new names."""


def rewritten(folder: Path, source: str, *, unsafe: bool = False) -> str:
    """The new text of a one-file project; a second run must be silent and the text must parse."""
    report, texts = migrated([RULE], written(folder, {**RECENT, "a.py": source}), unsafe=unsafe)
    assert report.findings
    assert not report.remaining
    ast.parse(texts["a.py"])
    return texts["a.py"]


def run(source: str) -> list[object]:
    """Execute a program with FutureWarning and DeprecationWarning as errors; what it put into ``seen``."""
    space: dict[str, object] = {"seen": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", FutureWarning)
        warnings.simplefilter("error", DeprecationWarning)
        exec(compile(source, "<program>", "exec"), space)
    seen = space["seen"]
    assert isinstance(seen, list)
    return seen


SHOW = """

def show(made):
    seen.append((made.device, made.fast_dtype, made._enabled, made._cache_enabled))

def scaler_facts(made):
    numbers = (made._init_scale, made._growth_factor) if made._enabled else None
    seen.append((made._device, numbers))

def inside(made):
    with made:
        seen.append(torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2)).dtype)
"""

PROGRAMS = {
    # (before, after): a line of the program, and what must stand there afterwards
    "comment in parentheses": (
        "import torch\nshow(torch.cuda.amp.autocast(  # c\n))",
        'torch.amp.autocast(  # c\n    "cuda",\n)',
    ),
    "import torch": ("import torch\nshow(torch.cuda.amp.autocast())", 'torch.amp.autocast("cuda")'),
    "import torch as th": ("import torch as th\nimport torch\nshow(th.cuda.amp.autocast())", 'th.amp.autocast("cuda")'),
    "import torch.cuda.amp": ("import torch.cuda.amp\nshow(torch.cuda.amp.autocast())", 'torch.amp.autocast("cuda")'),
    "from torch import cuda": (
        "import torch\nfrom torch import cuda\nshow(cuda.amp.autocast(False))",
        'torch.amp.autocast("cuda", enabled=False)',
    ),
    "from torch import cuda, no torch": (
        "from torch import cuda\nmade = cuda.amp.autocast(False)\nimport torch as t\ntorch = t\nshow(made)",
        None,
    ),
    "from torch.cuda import amp": (
        "import torch\nfrom torch.cuda import amp\nshow(amp.autocast(True))",
        'from torch import amp\nshow(amp.autocast("cuda", enabled=True))',
    ),
    "from torch.cuda import amp as a": (
        "import torch\nfrom torch.cuda import amp as a\nscaler_facts(a.GradScaler(enabled=False))",
        'from torch import amp as a\nscaler_facts(a.GradScaler("cuda", enabled=False))',
    ),
    "import torch.cuda.amp as amp": (
        "import torch\nimport torch.cuda.amp as amp\nshow(amp.autocast())",
        'import torch.amp as amp\nshow(amp.autocast("cuda"))',
    ),
    "from torch.cuda.amp import": (
        "import torch\nfrom torch.cuda.amp import autocast, GradScaler  # both\nshow(autocast())\n"
        "scaler_facts(GradScaler(32.0, 4.0, enabled=True))",
        'from torch.amp import autocast, GradScaler  # both\nshow(autocast("cuda"))\n'
        'scaler_facts(GradScaler("cuda", 32.0, 4.0, enabled=True))',
    ),
    "from torch.cuda.amp import as": (
        "import torch\nfrom torch.cuda.amp import autocast as ac\nshow(ac(dtype=torch.bfloat16, enabled=False))",
        'from torch.amp import autocast as ac\nshow(ac("cuda", dtype=torch.bfloat16, enabled=False))',
    ),
    "submodule": (
        "import torch\nfrom torch.cuda.amp.autocast_mode import autocast\nshow(autocast())",
        'from torch.amp import autocast\nshow(autocast("cuda"))',
    ),
    "star": (
        "import torch\nfrom torch.cuda.amp import *\nshow(autocast(False, torch.float16, False))",
        'from torch.amp import *\nshow(autocast("cuda", enabled=False, dtype=torch.float16, cache_enabled=False))',
    ),
    "inside a function": (
        "import torch\ndef f():\n    from torch.cuda.amp import autocast\n"
        "    show(autocast(True, torch.bfloat16))\nf()",
        '    from torch.amp import autocast\n    show(autocast("cuda", enabled=True, dtype=torch.bfloat16))',
    ),
    "cpu": ("import torch\ninside(torch.cpu.amp.autocast())", 'torch.amp.autocast("cpu")'),
    "cpu float16": (
        "import torch\ninside(torch.cpu.amp.autocast(True, torch.float16))",
        'torch.amp.autocast("cpu", enabled=True, dtype=torch.float16)',
    ),
    "cpu off": ("import torch\ninside(torch.cpu.amp.autocast(False))", 'torch.amp.autocast("cpu", enabled=False)'),
    "cpu import": (
        "import torch\nfrom torch.cpu.amp import autocast, GradScaler\ninside(autocast())\nscaler_facts(GradScaler())",
        'from torch.amp import autocast, GradScaler\ninside(autocast("cpu"))\nscaler_facts(GradScaler("cpu"))',
    ),
    "keywords passed on": (
        "import torch\ndef make(**kw):\n    return torch.cuda.amp.autocast(**kw), torch.cuda.amp.GradScaler(**kw)\n"
        "show(make(enabled=False)[0])",
        'torch.amp.autocast("cuda", **kw), torch.amp.GradScaler("cuda", **kw)',
    ),
    "arguments of a scaler passed on": (
        "import torch\ndef make(*a, **kw):\n    return torch.cuda.amp.GradScaler(*a, **kw)\nscaler_facts(make(8.0))",
        'torch.amp.GradScaler("cuda", *a, **kw)',
    ),
    "decorator": (
        "import torch\n@torch.cpu.amp.autocast()\ndef f(x):\n    return x @ x\nseen.append(f(torch.ones(2, 2)).dtype)",
        '@torch.amp.autocast("cpu")\ndef f',
    ),
    "partial": (
        "import torch\nfrom functools import partial\n"
        "ctx = partial(torch.cpu.amp.autocast, dtype=torch.float16)\ninside(ctx())",
        'partial(torch.amp.autocast, "cpu", dtype=torch.float16)',
    ),
    "annotation of a rewritten import": (
        "import torch\nfrom torch.cuda.amp import GradScaler\n"
        "def f(s: GradScaler | None = None) -> GradScaler: return s\n"
        "f(GradScaler(enabled=False))",
        'f(GradScaler("cuda", enabled=False))',
    ),
    "custom": (
        "import torch\nfrom torch.cuda.amp import custom_fwd, custom_bwd\n"
        "class F(torch.autograd.Function):\n"
        "    @staticmethod\n    @custom_fwd\n    def forward(ctx, x):\n        return x * 2\n"
        "    @staticmethod\n    @custom_bwd\n    def backward(ctx, g):\n        return g * 2\n"
        "x = torch.ones(2, requires_grad=True)\nF.apply(x).sum().backward()\nseen.append(x.grad.tolist())",
        '@custom_fwd(device_type="cuda")',
    ),
    "custom with casts": (
        "import torch\n"
        "class F(torch.autograd.Function):\n"
        "    @staticmethod\n    @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)\n"
        "    def forward(ctx, x):\n        return x * 2\n"
        "    @staticmethod\n    @torch.cuda.amp.custom_bwd\n    def backward(ctx, g):\n        return g * 2\n"
        "seen.append(F.apply(torch.ones(2)).dtype)",
        '@torch.amp.custom_fwd(cast_inputs=torch.float32, device_type="cuda")',
    ),
    "custom as a function": (
        "import torch\ndef f(ctx, x): return x\nclass C: pass\n"
        "g = torch.cuda.amp.custom_fwd(f, cast_inputs=torch.float32)\nseen.append(g(C(), torch.ones(1)).dtype)",
        'torch.amp.custom_fwd(f, cast_inputs=torch.float32, device_type="cuda")',
    ),
    "queries": (
        "import torch\nseen.append((torch.get_autocast_gpu_dtype(), torch.get_autocast_cpu_dtype(), "
        "torch.is_autocast_cpu_enabled()))",
        'torch.get_autocast_dtype("cuda"), torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")',
    ),
    "setters": (
        "import torch\nold = torch.get_autocast_dtype('cpu')\ntorch.set_autocast_cpu_dtype(torch.float16)\n"
        "seen.append(torch.get_autocast_dtype('cpu'))\ntorch.set_autocast_dtype('cpu', old)",
        "torch.set_autocast_dtype('cpu', torch.float16)",
    ),
    "layout and comments": (
        "import torch\nif True:\n    show(torch.cuda.amp.autocast(  # why\n        enabled=(1 > 0),  # on\n"
        "        dtype=torch.float16,\n    ))",
        '    show(torch.amp.autocast(  # why\n        "cuda",\n        enabled=(1 > 0),  # on\n'
        "        dtype=torch.float16,\n    ))",
    ),
    "positional over several lines": (
        "import torch\nshow(torch.cuda.amp.autocast(\n    (1 > 2),\n    (torch.bfloat16),\n))",
        'torch.amp.autocast(\n    "cuda",\n    enabled=(1 > 2),\n    dtype=(torch.bfloat16),\n)',
    ),
}


@pytest.fixture(autouse=True)
def _pretend_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``autocast("cuda")`` be enabled without a GPU; nothing is computed on one."""
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *a, **k: True)
    monkeypatch.setattr(torch.amp.grad_scaler.torch.cuda, "is_available", lambda: True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_before_warns_and_after_does_the_same_silently(tmp_path: Path, name: str) -> None:
    before, expected = PROGRAMS[name]
    before += "\n"
    if expected is None:
        pytest.skip("checked elsewhere")
    after = rewritten(tmp_path, before)
    assert expected in after
    with pytest.raises((FutureWarning, DeprecationWarning), match="deprecated"):
        run(SHOW + before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space: dict[str, object] = {"seen": []}
        exec(compile(SHOW + before, "<before>", "exec"), space)
    assert run(SHOW + after) == space["seen"]


@pytest.mark.parametrize("api", DEPRECATED)
def test_the_table_agrees_with_torch(api: str) -> None:
    """Every entry gives exactly the warning that the table quotes, and its new name exists."""
    entry = DEPRECATED[api]
    arguments = {
        "set_autocast_dtype": (torch.float16 if entry.device == "cuda" else torch.bfloat16,),
        "set_autocast_enabled": (False,),
        "custom_fwd": (len,),
        "custom_bwd": (len,),
    }.get(entry.name, ())
    parts = api.split(".")[1:]
    function = torch
    for part in parts:
        function = getattr(function, part)
    with pytest.warns((FutureWarning, DeprecationWarning)) as caught:
        function(*arguments)
    assert any(str(item.message).startswith(entry.warning) for item in caught)
    assert hasattr(torch if entry.kind == "function" else torch.amp, entry.name)


def test_a_nested_autocast_without_dtype_is_not_the_same() -> None:
    """Why the rewrite is unsafe inside other regions: the old default is fixed, the new one is inherited."""
    with warnings.catch_warnings(), torch.autocast("cpu", dtype=torch.float16):
        warnings.simplefilter("ignore")
        with torch.cpu.amp.autocast():
            old = torch.get_autocast_dtype("cpu")
        with torch.amp.autocast("cpu"):
            new = torch.get_autocast_dtype("cpu")
    assert (old, new) == (torch.bfloat16, torch.float16)


def test_torch_is_imported_where_only_cuda_was(tmp_path: Path) -> None:
    after = rewritten(tmp_path, "from torch import cuda\n\nscaler = cuda.amp.GradScaler()\n")
    assert "import torch\n" in after
    assert "from torch import cuda\n" not in after
    assert 'scaler = torch.amp.GradScaler("cuda")' in after


def test_other_names_of_the_import_stay(tmp_path: Path) -> None:
    source = """
        from torch.cuda.amp.grad_scaler import OptState, GradScaler

        state = OptState.READY
        scaler = GradScaler()
    """
    after = rewritten(tmp_path, source)
    assert "from torch.amp import GradScaler\nfrom torch.cuda.amp.grad_scaler import OptState\n" in after


def test_the_quotes_of_the_file(tmp_path: Path) -> None:
    after = rewritten(tmp_path, "import torch\nname, other = 'a', 'b'\ns = torch.cuda.amp.GradScaler()\n")
    assert "torch.amp.GradScaler('cuda')" in after


def test_a_comment_above_the_import_stays(tmp_path: Path) -> None:
    after = rewritten(tmp_path, "import os\n\n# for amp\nfrom torch.cuda.amp import GradScaler\n\ns = GradScaler()\n")
    assert after == 'import os\n\n# for amp\nfrom torch.amp import GradScaler\n\ns = GradScaler("cuda")\n'


SILENT = {
    "version test": """
        import torch
        from packaging import version
        if version.parse(torch.__version__) >= version.parse("2.4"):
            s = torch.amp.GradScaler("cuda")
        else:
            s = torch.cuda.amp.GradScaler()
    """,
    "conditional expression": """
        import torch
        from torch_utils import TORCH_2_4
        s = torch.amp.GradScaler("cuda") if TORCH_2_4 else torch.cuda.amp.GradScaler()
    """,
    "early return": """
        import torch
        def make():
            if hasattr(torch.amp, "GradScaler"):
                return torch.amp.GradScaler("cuda")
            return torch.cuda.amp.GradScaler()
    """,
    "test kept in a name": """
        import torch
        NEW = hasattr(torch.amp, "custom_fwd")
        fwd = torch.amp.custom_fwd if NEW else torch.cuda.amp.custom_fwd
    """,
    "fallback": """
        import torch
        try:
            s = torch.amp.GradScaler("cuda")
        except (AttributeError, TypeError):
            s = torch.cuda.amp.GradScaler()
    """,
    "import fallback": """
        try:
            from torch.amp import GradScaler
        except ImportError:
            from torch.cuda.amp import GradScaler
        s = GradScaler()
    """,
    "dummy class": """
        try:
            from torch.cuda.amp import autocast
        except ImportError:
            class autocast:
                def __init__(self, enabled=True): ...
        with autocast(False): pass
    """,
    "own class": """
        class GradScaler: ...
        def autocast(enabled=True): ...
        s, c = GradScaler(), autocast(False)
    """,
    "parameter": "def f(autocast, GradScaler, amp):\n    return autocast(), GradScaler(), amp.autocast()\n",
    "new api": """
        import torch
        from torch.amp import autocast, GradScaler
        s = GradScaler("cuda"); c = autocast("cuda"); d = torch.autocast("cuda"); e = torch.is_autocast_enabled()
    """,
    "only names": """
        import torch
        from torch.cuda.amp import GradScaler
        def f(s: GradScaler, t: "torch.cuda.amp.GradScaler" = None):
            return isinstance(s, torch.cuda.amp.GradScaler)
        class Mine(GradScaler): ...
        TABLE = {torch.cuda.amp.GradScaler: 1}
    """,
    "text": '''
        """Uses torch.cuda.amp.autocast()."""
        # torch.cuda.amp.GradScaler()
        name = "torch.cuda.amp.autocast()"
    ''',
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(tmp_path: Path, name: str) -> None:
    assert findings(RULE, written(tmp_path, {"a.py": SILENT[name]})) == ()


NOT_REWRITTEN = {
    "passed on": ("import torch\namp_autocast = torch.cuda.amp.autocast\nwith amp_autocast(): pass\n", "passed on"),
    "chosen": (
        "import torch\nfrom contextlib import nullcontext\nc = torch.cuda.amp.autocast if 1 else nullcontext\n",
        "passed on",
    ),
    "star arguments": ("import torch\ndef f(*a): return torch.cuda.amp.autocast(*a)\n", "*args"),
    "distinguished": (
        "import torch\ns = torch.cuda.amp.GradScaler()\nassert isinstance(s, torch.cuda.amp.GradScaler)\n",
        "distinguished",
    ),
    "a key": ("import torch\nHOOKS[torch.cuda.amp.GradScaler] = 1\ns = torch.cuda.amp.GradScaler()\n", "distinguished"),
    "replaced": ("import torch\ntorch.cuda.amp.autocast = mine\nwith torch.cuda.amp.autocast(): pass\n", "replaces"),
    "guarded import": (
        "try:\n    from torch.cuda.amp import GradScaler\nexcept ImportError:\n    pass\ns = GradScaler()\n",
        "guarded by try",
    ),
    "another use of the import": (
        "from torch.cuda.amp import GradScaler\ns = GradScaler()\nclass Mine(GradScaler): ...\n",
        "another way",
    ),
    "an unknown part of the module": (
        "from torch.cuda import amp\ns = amp.GradScaler()\nprint(amp.common)\n",
        "another way",
    ),
    "partial called with positions": (
        "import torch\nfrom functools import partial\nc = partial(torch.cuda.amp.autocast)\nwith c(False): pass\n",
        "positional",
    ),
    "offered": ("from torch.cuda.amp import autocast\n__all__ = ['autocast']\nwith autocast(): pass\n", "exports"),
    "f-string": ("import torch\nprint(f'{torch.cuda.amp.GradScaler()}')\n", "f-string"),
    "comment in an import": (
        "from torch.cuda.amp import (\n    GradScaler,  # c\n)\ns = GradScaler()\n",
        "contains comments",
    ),
    "torch is something else": (
        "from torch import cuda\ndef f(torch): return cuda.amp.GradScaler()\n",
        "something else",
    ),
    "old side of an old test": (
        'import torch\nif torch.__version__ >= "1.6":\n    c = torch.cuda.amp.autocast\n',
        "passed on",
    ),
}


@pytest.mark.parametrize("name", NOT_REWRITTEN)
def test_reported_without_a_fix(tmp_path: Path, name: str) -> None:
    source, reason = NOT_REWRITTEN[name]
    found = findings(RULE, written(tmp_path, {"a.py": source}))
    stuck = [item for item in found if not item.fixes]
    assert stuck
    assert all("not rewritten" in item.message and reason in item.message for item in stuck)


def test_a_name_that_other_files_import_stays(tmp_path: Path) -> None:
    files = {
        "common.py": "from torch.cuda.amp import autocast\nfrom torch.cuda import amp\nautocast()\namp.autocast()\n",
        "train.py": "from common import autocast\nwith autocast(False): pass\n",
        "star.py": "from common import *\nwith amp.autocast(False): pass\n",
    }
    report, texts = migrated([RULE], written(tmp_path, files))
    assert not texts
    assert {item.path for item in report.findings} == {"common.py", "train.py"}
    assert all("not rewritten" in item.message for item in report.findings)


def test_a_tuple_with_the_new_class_accepts_both(tmp_path: Path) -> None:
    source = """
        import torch
        s = torch.cuda.amp.GradScaler()
        ok = isinstance(s, (torch.cuda.amp.GradScaler, torch.amp.GradScaler))
    """
    assert 's = torch.amp.GradScaler("cuda")' in rewritten(tmp_path, source)


@pytest.mark.parametrize(
    ("pin", "scaler", "autocast", "custom"),
    [
        ("torch>=1.6.0", "display-only", "display-only", "display-only"),
        ("torch>=2.0", "display-only", "safe", "display-only"),
        ("torch>=2.3", "safe", "safe", "display-only"),
        ("torch>=2.4", "safe", "safe", "safe"),
        ("torch", "unsafe", "unsafe", "unsafe"),
    ],
)
def test_pins_decide_what_may_be_written(tmp_path: Path, pin: str, scaler: str, autocast: str, custom: str) -> None:
    files = {
        "requirements.txt": f"{pin}\n",
        "a.py": "import torch\ns = torch.cuda.amp.GradScaler()\n",
        "b.py": "import torch\nwith torch.cuda.amp.autocast(): pass\n",
        "c.py": "import torch\n@torch.cuda.amp.custom_bwd\ndef f(): ...\n",
    }
    found = findings(RULE, written(tmp_path, files))
    assert [item.fixes[0].applicability for item in found] == [
        Applicability(word) for word in (scaler, autocast, custom)
    ]
    assert all("requirements.txt:1" in item.message for item in found if item.fixes[0].applicability == "display-only")


def test_half_of_an_import_may_be_rewritten(tmp_path: Path) -> None:
    files = {
        "requirements.txt": "torch>=2.0\n",
        "a.py": "from torch.cuda.amp import GradScaler, autocast\n\ns = GradScaler()\nwith autocast():\n    pass\n",
    }
    _, texts = migrated([RULE], written(tmp_path, files))
    assert texts["a.py"] == (
        "from torch.amp import autocast\nfrom torch.cuda.amp import GradScaler\n\ns = GradScaler()\n"
        'with autocast("cuda"):\n    pass\n'
    )


NESTED = """
    import torch

    def encode(x):
        with torch.cuda.amp.autocast({}):
            return x @ x

    def main(x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return encode(x)
"""


@pytest.mark.parametrize(
    ("arguments", "applicability"),
    [("", "unsafe"), ("enabled=False", "safe"), ("dtype=torch.float16", "safe"), ("True", "unsafe")],
)
def test_a_region_that_may_be_inside_another(tmp_path: Path, arguments: str, applicability: str) -> None:
    (found,) = findings(RULE, written(tmp_path, {**RECENT, "a.py": NESTED.format(arguments)}))
    assert found.fixes[0].applicability == Applicability(applicability)


def test_the_training_loop_opens_the_outermost_region(tmp_path: Path) -> None:
    source = (
        NESTED.format("")
        + """
        def train(model, loader):
            for x in loader:
                with torch.cuda.amp.autocast():
                    loss = model(x)
                loss.backward()
    """.replace("\n    ", "\n")
    )
    found = findings(RULE, written(tmp_path, {**RECENT, "a.py": source}))
    assert sorted(item.fixes[0].applicability.value for item in found) == ["safe", "unsafe"]


def test_evidence_names_every_use(tmp_path: Path) -> None:
    source = "import torch\ns = torch.cuda.amp.GradScaler()\n\nwith torch.cuda.amp.autocast():\n    pass\n"
    (found,) = findings(RULE, written(tmp_path, {"a.py": source}))
    assert [place.span.row for place in found.evidence] == [2, 4]
    assert "Please use `torch.amp.GradScaler('cuda', args...)` instead" in found.message


def test_line_endings_and_tabs_are_kept(tmp_path: Path) -> None:
    text = "import torch\r\nif True:\r\n\twith torch.cuda.amp.autocast(\r\n\t\tenabled=True,\r\n\t):\r\n\t\tpass\r\n"
    (tmp_path / "a.py").write_bytes(text.encode())
    (tmp_path / "requirements.txt").write_text(RECENT["requirements.txt"])
    from precfix.codemod.source.project import Project

    _, texts = migrated([RULE], Project.open([tmp_path]))
    expected = text.replace("torch.cuda.amp", "torch.amp").replace("\t\tenabled", '\t\t"cuda",\r\n\t\tenabled')
    assert texts["a.py"] == expected


def test_two_statements_on_one_line(tmp_path: Path) -> None:
    source = "import os; from torch.cuda.amp import GradScaler; s = GradScaler()\n"
    after = rewritten(tmp_path, dedent(source))
    assert "from torch.amp import GradScaler" in after
    assert 'GradScaler("cuda")' in after


def test_awkward_layouts(tmp_path: Path) -> None:
    """Comments with commas and parentheses, nested parentheses, a backslash: the same call as before."""
    source = """
        import torch
        a = torch.cuda.amp.autocast((x)  # ), (
                                    , (  # why
                                       torch.float16), )
        b = torch.cuda.amp.autocast( \\
            x > 1)
        c = torch.cuda.amp.custom_fwd((f), cast_inputs=(t),)
    """
    after = rewritten(tmp_path, source)
    calls = [ast.unparse(node.value) for node in ast.parse(after).body[1:] if isinstance(node, ast.Assign)]
    assert calls == [
        "torch.amp.autocast('cuda', enabled=x, dtype=torch.float16)",
        "torch.amp.autocast('cuda', enabled=x > 1)",
        "torch.amp.custom_fwd(f, cast_inputs=t, device_type='cuda')",
    ]
    assert after.count("#") == 2


def test_several_imports_in_one_statement(tmp_path: Path) -> None:
    after = rewritten(tmp_path, "import torch.cuda.amp as amp, os\n\ns = amp.GradScaler()\nprint(os.name)\n")
    assert after == 'import torch.amp as amp\nimport os\n\ns = amp.GradScaler("cuda")\nprint(os.name)\n'
