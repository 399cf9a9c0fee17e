"""What a safe fix needs: read off its edits, and said by the rule; what is not known makes it unsafe."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest
from precfix.codemod.model import Applicability, Edit, Fix
from precfix.codemod.proof.needs import RAISES, Known, Need, Release
from precfix.codemod.proof.proving import proved
from precfix.codemod.python.names import ModuleNames, names_of
from precfix.codemod.source.project import Project

from .rule_runs import written


def at_mark(project: Project, text: str, *needs: Need) -> Fix:
    """A fix that puts ``text`` where ``MARK`` stands."""
    module, node = _marked(project)
    return proved(project, "trial", "write it", [module.replace(node, text)], *(needs or (RAISES,)))


def _marked(project: Project) -> tuple[ModuleNames, ast.Name]:
    document = project.document("train.py")
    assert document is not None
    module = names_of(project, document)
    return module, module.name_loads["MARK"][0]


def opened(folder: Path, code: str, **files: str) -> Project:
    others = {name.replace("__", "."): text for name, text in files.items()}
    return written(folder, {"train.py": dedent(code), **others})


def test_a_fix_without_needs_is_a_mistake_of_the_rule(tmp_path: Path) -> None:
    project = opened(tmp_path, "print(MARK)\n")
    with pytest.raises(TypeError, match="does not say why it is safe"):
        proved(project, "trial", "write it", [])


def test_what_the_rule_does_not_know_is_said(tmp_path: Path) -> None:
    project = opened(tmp_path, "print(MARK)\n")
    fix = at_mark(project, "1", Known(False, "the operand may be a dictionary"), Known(True, "never said"))
    assert fix.applicability is Applicability.UNSAFE
    assert fix.message == "write it; unsafe, as the operand may be a dictionary"


BOUND = {
    "parameter": "def f(x):\n    return x + MARK",
    "assigned above": "def f():\n    x = 1\n    return 1 + MARK",
    "both branches": "def f(a):\n    if a:\n        x = 1\n    else:\n        x = 2\n    return 1 + MARK",
    "under the same test": "def f(a):\n    if a:\n        x = 1\n    if a:\n        return 1 + MARK",
    "the other branch leaves": "def f(a):\n    if a:\n        x = 1\n    else:\n        return 0\n    return 1 + MARK",
    "loop variable": "for x in range(3):\n    print(MARK)",
    "comprehension": "print([MARK for x in range(3)])",
    "read by the same statement": "def f(a):\n    if a:\n        x = 1\n    return x + MARK",
    "module level": "import os\nx = 1\ndef f():\n    return 1 + MARK",
}
UNBOUND = {
    "nowhere": "print(MARK)",
    "one branch": "def f(a):\n    if a:\n        x = 1\n    return 1 + MARK",
    "below": "def f():\n    y = MARK\n    x = 1\n    return x",
    "in a try": "def f():\n    try:\n        x = int('1')\n    except ValueError:\n        pass\n    return MARK",
    "after the loop": "def f(items):\n    for x in items:\n        pass\n    return MARK",
    "deleted": "def f():\n    x = 1\n    del x\n    return MARK",
    "deleted on one path": "def f(a):\n    x = 1\n    if a:\n        del x\n    return MARK",
    "deleted in a loop": "def f(n):\n    x = 1\n    for _ in range(n):\n        y = MARK\n        del x",
    "a test that changes": "def f(a, b):\n    if a:\n        x = 1\n    a = b\n    if a:\n        return MARK",
    "a test that is thrown": "def f(r):\n    if r.random():\n        x = 1\n    if r.random():\n        return MARK",
    "called too early": "def f():\n    return MARK\n\ndef g():\n    f()\n\ng()\nx = 1",
    "another function": "def g():\n    x = 1\n\ndef f():\n    return MARK",
    "read by one side of a condition": "def f(a):\n    if a:\n        x = 1\n    return (x if a else 0) + MARK",
    "an exception": "def f():\n    try:\n        pass\n    except ValueError as x:\n        pass\n    return MARK",
    "the body of a while": "def f(n):\n    while n:\n        x = n\n        n -= 1\n    return MARK",
    "a match": "def f(n):\n    match n:\n        case 1:\n            x = 1\n    return MARK",
}


@pytest.mark.parametrize("name", BOUND)
def test_names_that_have_a_value(name: str, tmp_path: Path) -> None:
    assert at_mark(opened(tmp_path, BOUND[name]), "x").applicability is Applicability.SAFE


@pytest.mark.parametrize("name", UNBOUND)
def test_names_that_may_have_none(name: str, tmp_path: Path) -> None:
    fix = at_mark(opened(tmp_path, UNBOUND[name]), "x")
    assert fix.applicability is Applicability.UNSAFE
    assert fix.message.endswith("unsafe, as x may have no value here on some path")


CLASS = """
class Net:
    {body}
    def __init__(self, wide=None):
        {start}

    def later(self):
        self.late = 1

    def run(self, wide):
        {run}
        return 1 + MARK
"""
THERE = {
    "set by the constructor": ("pass", "self.x = 1", "pass"),
    "of the class": ("x = 1", "pass", "pass"),
    "a method": ("def x(self): return 1", "pass", "pass"),
    "read above": ("pass", "pass", "print(self.x)"),
    "set above": ("pass", "pass", "self.x = 1"),
}
NOT_THERE = {
    "nobody sets it": ("pass", "pass", "pass"),
    "under a flag": ("pass", "if wide: self.x = 1", "pass"),
    "taken away": ("pass", "self.x = 1", "del self.x"),
    "perhaps None": ("pass", "self.x = 1 if wide else None", "pass"),
    "given, or None": ("pass", "self.x = wide", "pass"),
    "made None elsewhere": ("def drop(self): self.x = None", "self.x = 1", "pass"),
    "read under a flag": ("pass", "pass", "wide and print(self.x)"),
}


@pytest.mark.parametrize("name", THERE)
def test_attributes_that_exist(name: str, tmp_path: Path) -> None:
    body, start, run = THERE[name]
    code = CLASS.format(body=body, start=start, run=run)
    assert at_mark(opened(tmp_path, code), "self.x").applicability is Applicability.SAFE


@pytest.mark.parametrize("name", NOT_THERE)
def test_attributes_that_may_not(name: str, tmp_path: Path) -> None:
    body, start, run = NOT_THERE[name]
    fix = at_mark(opened(tmp_path, CLASS.format(body=body, start=start, run=run)), "self.x.dtype")
    assert fix.applicability is Applicability.UNSAFE
    assert "self.x may" in fix.message


OLD = "[options]\ninstall_requires =\n    torch>=1.9\n"
OPTIONAL = "def f(x, c=None):\n    {}\n    return 1 + MARK"
PRESENT = {
    "tested": OPTIONAL.format("if c is None: return 0"),
    "used above": OPTIONAL.format("print(c.shape)"),
    "used here": "def f(x, c=None):\n    return c.shape + MARK",
    "no default": "def f(x, c):\n    return 1 + MARK",
}
ABSENT = {
    "a default of None": OPTIONAL.format("pass"),
    "tested elsewhere": OPTIONAL.format("if c is not None: x = x + c"),
    "used under a test": OPTIONAL.format("if c is not None: x = x + c.sum()"),
    "annotated": "def f(c: Optional[Tensor]):\n    return 1 + MARK",
    "given on one path": "def f(a):\n    c = None\n    if a: c = a\n    return 1 + MARK",
}


@pytest.mark.parametrize("name", PRESENT)
def test_variables_that_are_not_none(name: str, tmp_path: Path) -> None:
    assert at_mark(opened(tmp_path, PRESENT[name]), "c.dtype").applicability is Applicability.SAFE


@pytest.mark.parametrize("name", ABSENT)
def test_variables_that_may_be_none(name: str, tmp_path: Path) -> None:
    fix = at_mark(opened(tmp_path, ABSENT[name]), "c.dtype")
    assert fix.applicability is Applicability.UNSAFE
    assert fix.message.endswith("c may be None here")


RELEASES = {
    "no manifest": ({}, "unsafe"),
    "a bound": ({"requirements.txt": "torch>=2.4"}, "safe"),
    "an older bound": ({"requirements.txt": "torch>=2.2"}, "unsafe"),
    "no bound": ({"requirements.txt": "torch"}, "unsafe"),
    "an upper bound alone": ({"requirements.txt": "torch<3"}, "unsafe"),
    "two that disagree": ({"requirements.txt": "torch>=2.4", "setup.cfg": OLD}, "unsafe"),
    "another folder's": ({"examples/requirements.txt": "torch>=2.4"}, "unsafe"),
    "a README": ({"README.md": "pip install torch==2.4.1"}, "safe"),
}


@pytest.mark.parametrize("name", RELEASES)
def test_releases_that_new_code_needs(name: str, tmp_path: Path) -> None:
    files, level = RELEASES[name]
    project = written(tmp_path, {"train.py": "import torch\nprint(MARK)\n", **files})
    fix = at_mark(project, 'torch.amp.GradScaler("cuda")')
    assert fix.applicability.value == level
    assert ("torch.amp.GradScaler" in fix.message) if level == "unsafe" else fix.message.endswith("torch 2.3 or newer")


def test_what_a_file_needs_today_is_there(tmp_path: Path) -> None:
    project = opened(tmp_path, "import torch\nscaler = torch.amp.GradScaler('cuda')\nprint(MARK)\n")
    assert at_mark(project, 'torch.autocast("cuda")').applicability is Applicability.SAFE
    code = "import torch\nif hasattr(torch.amp, 'GradScaler'):\n    s = torch.amp.GradScaler('cuda')\nprint(MARK)\n"
    fix = at_mark(opened(tmp_path / "gated", code), "torch.backends.mha.set_fastpath_enabled(False)")
    assert fix.applicability is Applicability.UNSAFE


def test_a_keyword_has_its_release_too(tmp_path: Path) -> None:
    code = "import torch\nwith torch.cuda.amp.autocast(MARK):\n    pass\n"
    for pin, level in (("torch>=1.9", "unsafe"), ("torch>=1.10", "safe"), ("torch==1.9", "unsafe")):
        project = opened(tmp_path / pin, code, requirements__txt=pin)
        module, node = _marked(project)
        call = module.parents[node]
        edit: Edit = module.set_argument(call, "dtype", "torch.bfloat16")
        assert proved(project, "trial", "write it", [edit], RAISES).applicability.value == level


NEEDED_ANYWAY = {
    "Python 3.10 in pyproject": ("", {"pyproject.toml": '[project]\nrequires-python = ">=3.10"\n'}, "safe"),
    "Python 3.10 and an older pin": (
        "",
        {"pyproject.toml": '[project]\nrequires-python = ">=3.10"\ndependencies = ["torch>=1.7"]\n'},
        "safe",
    ),
    "Python 3.9 in setup.py": ("", {"setup.py": "setup(python_requires='>=3.9')\n"}, "unsafe"),
    "Python 3.11 in setup.cfg": ("", {"setup.cfg": "[options]\npython_requires = >=3.11\n"}, "safe"),
    "syntax of Python 3.10": ("def f(x: int | None): ...", {}, "safe"),
    "the same, not evaluated": ("from __future__ import annotations\ndef f(x: int | None): ...", {}, "unsafe"),
    "a union of its own classes": ("def f(x: A | B): ...", {}, "unsafe"),
    "a match statement": ("match 1:\n    case _: pass", {}, "safe"),
    "an import that needs a newer torch": ("import peft", {}, "safe"),
    "an import that may fail": ("try:\n    import peft\nexcept ImportError:\n    pass", {}, "unsafe"),
    "an import for the checker": ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import peft", {}, "unsafe"),
    "what it imports": ("import other", {"other.py": "import torch\ntorch.compile\n"}, "safe"),
    "a newer API as it is imported, and an older pin": ("torch.compile", {"requirements.txt": "torch>=1.9"}, "safe"),
    "a newer API in a function, and an older pin": (
        "def build(net):\n    return torch.compile(net)\n",
        {"requirements.txt": "torch>=1.9"},
        "unsafe",
    ),
}


@pytest.mark.parametrize("name", NEEDED_ANYWAY)
def test_what_runs_anyway_excludes_old_releases(name: str, tmp_path: Path) -> None:
    line, files, level = NEEDED_ANYWAY[name]
    project = written(tmp_path, {"train.py": f"import torch\n{line}\nprint(MARK)\n", **files})
    assert at_mark(project, 'torch.autocast("cuda")').applicability.value == level


def test_a_program_that_imports_the_file_excludes_old_releases(tmp_path: Path) -> None:
    files = {"train.py": "import torch\nprint(MARK)\n", "main.py": "import torch\nimport train\ntorch.compile(train)\n"}
    assert at_mark(written(tmp_path / "one", files), 'torch.autocast("cuda")').applicability is Applicability.SAFE
    files["old.py"] = "import train\n"
    assert at_mark(written(tmp_path / "two", files), 'torch.autocast("cuda")').applicability is Applicability.UNSAFE


def test_a_library_asked_for_by_the_rule(tmp_path: Path) -> None:
    project = opened(tmp_path, "print(MARK)\n", requirements__txt="transformers==4.2.1\n")
    fix = at_mark(project, "1", Release("transformers", "4.3", "train.py", "--bf16"))
    assert fix.message.endswith("unsafe, as requirements.txt:1 allows releases of transformers that lack --bf16")


REPLACING = {
    "model.fc = nn.Identity()": "unsafe",
    'setattr(model, "fc", nn.Identity())': "unsafe",
    "class Small(Net):\n    def __init__(self):\n        self.fc = nn.Identity()": "unsafe",
    "class Other:\n    def __init__(self):\n        self.fc = nn.Identity()": "safe",
    "model.head = nn.Identity()": "safe",
    "print(model.fc)": "safe",
}


@pytest.mark.parametrize("line", REPLACING)
def test_modules_that_other_code_replaces(line: str, tmp_path: Path) -> None:
    """``self.fc.weight`` of a model whose ``fc`` another file makes an Identity raises AttributeError."""
    code = "class Net(nn.Module):\n    def __init__(self):\n        self.fc = nn.Linear(8, 8)\n\n"
    code += "    def forward(self, x):\n        return self.fc(x) + MARK\n"
    project = written(tmp_path, {"train.py": code, "main.py": f"from train import Net\nmodel = Net()\n{line}\n"})
    assert at_mark(project, "self.fc.weight.dtype").applicability.value == REPLACING[line]


def test_what_stood_under_a_condition_may_stand_there_again(tmp_path: Path) -> None:
    """An argument is only moved: ``self.low`` is read where ``self.amp`` says so, before and after."""
    code = """
    class Net:
        def run(self):
            return make(self.low if self.amp else None, MARK)
    """
    project = opened(tmp_path, code)
    module, node = _marked(project)
    call = module.parents[node]
    moved = module.replace(call, "make(dtype=self.low if self.amp else None)")
    lifted = module.replace(call, "make(dtype=self.low)")
    assert proved(project, "trial", "move it", [moved], RAISES).applicability is Applicability.SAFE
    assert proved(project, "trial", "lift it", [lifted], RAISES).applicability is Applicability.UNSAFE
