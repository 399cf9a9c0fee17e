"""Whether a run that the project gives comes to a place: calls, arguments, options, constructors."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest
from precfix.codemod.model import Finding, Span
from precfix.codemod.purpose.given import acts
from precfix.codemod.purpose.proved_reach import is_reached
from precfix.codemod.python.names import names_of

from .project_tree import open_tree

PARSER = "import argparse\nparser = argparse.ArgumentParser()\n"
MAIN = "\n\nif __name__ == '__main__':\n    main()\n"

REACHED = {
    "called": "def main():\n    here()\n",
    "a test of data": "def main(x):\n    if x.shape[0] > 1:\n        here()\n",
    "an argument that a caller passes": (
        "def f(x, mask=None):\n    if mask is not None:\n        here()\n\ndef main():\n    f(1, mask=object())\n"
    ),
    "an argument by position": "def f(x, on=False):\n    if on:\n        here()\n\ndef main():\n    f(1, True)\n",
    "an attribute of the constructor": (
        "class Net:\n    def __init__(self, deep=False):\n        self.deep = deep\n\n"
        "    def run(self):\n        if self.deep:\n            here()\n\ndef main():\n    Net(deep=True).run()\n"
    ),
    "an option that is on": PARSER
    + "parser.add_argument('--deep', default=True)\n\ndef main():\n    args = parser.parse_args()\n"
    + "    if args.deep:\n        here()\n",
    "an option that code sets": PARSER
    + "parser.add_argument('--deep', action='store_true')\n\ndef main():\n    args = parser.parse_args()\n"
    + "    args.deep = True\n    if args.deep:\n        here()\n",
    "an option that code passes to a program": PARSER
    + "parser.add_argument('--deep', action='store_true')\n\ndef main():\n    args = parser.parse_args()\n"
    + "    if args.deep:\n        here()\n\ndef other(run):\n    run(['python', 'main.py', '--deep'])\n",
    "one of several ways": (
        "def f(x=None):\n    if x is None:\n        here()\n\ndef main():\n    f(object())\n    f()\n"
    ),
    "a command of click": "@cli.command()\ndef deep():\n    here()\n\ndef main():\n    cli()\n",
    "a hook of a library's class": (
        "class Net(Base):\n    def step(self):\n        here()\n\ndef main():\n    fit(Net())\n"
    ),
    "a method that torch calls": (
        "import torch.nn as nn\n\nclass Net(nn.Module):\n    def reset_parameters(self):\n        here()\n\n"
        "def main():\n    fit(Net())\n"
    ),
    "a method that transformers calls": (
        "from transformers import PreTrainedModel\n\nclass Net(PreTrainedModel):\n    def get_encoder(self):\n"
        "        here()\n\ndef main():\n    fit(Net())\n"
    ),
    "a hook of a library's class that a base has": (
        "class Own(Base):\n    pass\n\nclass Net(Own):\n    def shared(self):\n        here()\n\n"
        "def main():\n    fit(Net())\n"
    ),
}
NOT_REACHED = {
    "a method of a model of transformers that nobody calls": (
        "from transformers.modeling_utils import PreTrainedModel\n\nclass Net(PreTrainedModel):\n"
        "    def quantize(self):\n        here()\n\ndef main():\n    fit(Net())\n"
    ),
    "a method of a module that nobody calls": (
        "from torch import nn\n\nclass Own(nn.Module):\n    pass\n\nclass Net(Own):\n"
        "    def shared(self):\n        here()\n\ndef main():\n    Net()(1)\n"
    ),
    "called by nobody": "def f():\n    here()\n\ndef main():\n    pass\n",
    "called by what nobody calls": "def g():\n    f()\n\ndef f():\n    here()\n\ndef main():\n    pass\n",
    "an argument that nobody passes": (
        "def f(x, mask=None):\n    if mask is not None:\n        here()\n\ndef main():\n    f(1)\n"
    ),
    "behind an early return": (
        "def f(x, on=False):\n    if not on:\n        return\n    here()\n\ndef main():\n    f(1)\n"
    ),
    "an attribute that no constructor asks for": (
        "class Net:\n    def __init__(self, deep=False):\n        self.deep = deep\n\n"
        "    def run(self):\n        if self.deep:\n            here()\n\ndef main():\n    Net().run()\n"
    ),
    "a part that is only made in another case": (
        "class Net:\n    def __init__(self, deep=False):\n        if deep:\n            self.part = Part()\n"
        "        else:\n            self.part = None\n\n"
        "    def run(self):\n        if self.part is not None:\n            here()\n\ndef main():\n    Net().run()\n"
    ),
    "an option that is off": PARSER
    + "parser.add_argument('--deep', action='store_true', help='see --deep')\n\ndef main():\n"
    + "    args = parser.parse_args()\n    if args.deep:\n        here()\n",
    "another choice": PARSER
    + "parser.add_argument('--kind', default='a', choices=['a', 'b'])\n\ndef main():\n"
    + "    args = parser.parse_args()\n    if args.kind == 'b':\n        here()\n",
    "a part that is only made behind a constant": (
        "DEEP = False\n\nclass Part:\n    def forward(self):\n        here()\n\n"
        "def main():\n    return Part() if DEEP else None\n"
    ),
    "a constant": "DEEP = False\n\ndef main():\n    if DEEP:\n        here()\n",
}


def comes_to(tmp_path: Path, body: str, **others: str) -> bool:
    files = {"main.py": dedent(body) + MAIN, **{".".join(name.rsplit("_", 1)): text for name, text in others.items()}}
    project = open_tree(tmp_path, files)
    document = project.document("main.py")
    assert document is not None
    module = names_of(project, document)
    return is_reached(project, module, next(call for call in module.of_type(ast.Call) if ast.unparse(call) == "here()"))


@pytest.mark.parametrize("name", REACHED)
def test_a_run_comes_here(name: str, tmp_path: Path) -> None:
    assert comes_to(tmp_path, REACHED[name])


@pytest.mark.parametrize("name", NOT_REACHED)
def test_no_run_comes_here(name: str, tmp_path: Path) -> None:
    assert not comes_to(tmp_path, NOT_REACHED[name])


def test_a_launch_line_switches_an_option_on(tmp_path: Path) -> None:
    assert comes_to(tmp_path, NOT_REACHED["an option that is off"], run_sh="python main.py --deep\n")
    assert not comes_to(tmp_path / "two", NOT_REACHED["an option that is off"], run_sh="python main.py --deeper\n")


def test_a_configuration_switches_an_option_on(tmp_path: Path) -> None:
    assert comes_to(tmp_path, NOT_REACHED["another choice"], config_yaml="kind: b\n")


CHOSEN = "def f(kind):\n    if kind in ('deep', 'wide'):\n        here()\n\ndef main():\n    f(read()['kind'])\n"


def test_a_word_that_nothing_spells_is_not_chosen(tmp_path: Path) -> None:
    assert not comes_to(tmp_path, CHOSEN, config_yaml="kind: flat\n")
    assert comes_to(tmp_path / "two", CHOSEN, config_yaml="kind: wide\n")
    either = CHOSEN.replace("kind in ('deep', 'wide')", "kind == 'deep' or kind == 'wide'")
    assert not comes_to(tmp_path / "three", either, config_yaml="kind: flat\n")
    assert comes_to(tmp_path / "four", either, config_yaml="kind: wide\n")


CONSTANT = "import sys\nDEEP = False\n\ndef main():\n    if DEEP:\n        here()\n"
SET = {
    "another file": ({"other_py": "import main\nmain.DEEP = True\n"}, True),
    "another file, off": ({"other_py": "import main\nmain.DEEP = False\n"}, False),
    "another name of it": ({"other_py": "import main\nmain.WIDE = True\n"}, False),
    "another module's name": ({"other_py": "import lib\nlib.DEEP = True\n"}, False),
    "a test": ({"test_main_py": "import main\nmain.DEEP = True\n"}, False),
}
SET_HERE = {
    "by key": ("globals()['DEEP'] = True", True),
    "by another key": ("globals()['WIDE'] = True", False),
    "by a key that begins otherwise": ("globals()[f'WIDE{1}'] = True", False),
    "with all others": ("globals().update(load())", True),
    "with some others": ("globals().update(WIDE=True)", False),
    "on the module": ("setattr(sys.modules[__name__], name(), True)", True),
    "by a file that nothing launches": ("exec(open('more.py').read())", False),
}


@pytest.mark.parametrize("name", SET)
def test_a_constant_that_another_file_sets(name: str, tmp_path: Path) -> None:
    files, reached = SET[name]
    assert comes_to(tmp_path, CONSTANT, **files) is reached


@pytest.mark.parametrize("name", SET_HERE)
def test_a_constant_that_its_own_file_sets(name: str, tmp_path: Path) -> None:
    line, reached = SET_HERE[name]
    assert comes_to(tmp_path, f"{CONSTANT}\n{line}\n") is reached


def test_a_constant_that_a_file_of_variables_overrides(tmp_path: Path) -> None:
    text = f"{CONSTANT}\nexec(open('more.py').read())\n"
    assert comes_to(tmp_path, text, fast_py="DEEP = True\n")
    assert not comes_to(tmp_path / "two", text, fast_py="import os\nDEEP = True\n")
    assert comes_to(tmp_path / "three", text, run_sh="python main.py --DEEP=True\n")
    assert not comes_to(tmp_path / "four", CONSTANT, fast_py="DEEP = True\n")


def test_a_file_without_a_program_is_called_by_others(tmp_path: Path) -> None:
    text = "def f():\n    here()\n"
    project = open_tree(tmp_path, {"main.py": text})
    document = project.document("main.py")
    assert document is not None
    module = names_of(project, document)
    assert is_reached(project, module, module.of_type(ast.Call)[0])


@pytest.mark.parametrize(
    ("main", "others", "reached"),
    [
        ("import lib\nlib.g()\n", {}, False),
        ("import lib\nlib.f()\n", {}, True),
        ("import lib\nlib.g()\n", {"setup.py": "setup()\n"}, False),
        ("from lib import f, g\ng()\n", {"setup.py": "setup()\n"}, True),
        ("from lib import *\ng()\n", {"setup.py": "setup()\n"}, True),
        ("from lib import f, g\ng()\n", {"pyproject.toml": "[project]\nname = 'lib'\n"}, True),
        ("from lib import f, g\ng()\n", {"pyproject.toml": "[tool.ruff]\n"}, False),
        ("print(1)\n", {}, True),
    ],
)
def test_what_a_program_leaves_out_of_a_file_is_for_others_only_where_a_package_exports_it(
    main: str, others: dict[str, str], reached: bool, tmp_path: Path
) -> None:
    files = {"main.py": main, "lib.py": "def f():\n    here()\n\n\ndef g():\n    pass\n", **others}
    project = open_tree(tmp_path, files)
    document = project.document("lib.py")
    assert document is not None
    module = names_of(project, document)
    assert is_reached(project, module, module.of_type(ast.Call)[0]) is reached


@pytest.mark.parametrize(("main", "told"), [("import lib\nlib.g()\n", False), ("import lib\nlib.f()\n", True)])
def test_a_finding_counts_where_a_program_comes_to_it(main: str, told: bool, tmp_path: Path) -> None:
    main += "\nif __name__ == '__main__':\n    pass\n"
    project = open_tree(tmp_path, {"main.py": main, "lib.py": "def f():\n    here()\n\n\ndef g():\n    pass\n"})
    finding = Finding("PF999", "x", "x", "lib.py", Span(2, 5, 2, 11))
    assert acts(project, finding) is told


@pytest.mark.parametrize(
    ("name", "told"), [("train.py", True), ("train copy.py", False), ("train(copy).py", False), ("old_train.py", False)]
)
def test_what_is_kept_but_no_more_used_counts_nothing(name: str, told: bool, tmp_path: Path) -> None:
    project = open_tree(tmp_path, {name: "if __name__ == '__main__':\n    here()\n"})
    assert acts(project, Finding("PF999", "x", "x", name, Span(2, 5, 2, 11))) is told


@pytest.mark.parametrize(("given", "told"), [("amp: false\n", False), ("amp: true\n", True)])
def test_a_finding_that_each_configuration_switches_off_is_not_told(given: str, told: bool, tmp_path: Path) -> None:
    text = (
        "import yaml\nconfig = yaml.safe_load(open('run.yaml'))\n\n\ndef main():\n    if config['amp']:\n"
        "        here()\n\n\nif __name__ == '__main__':\n    main()\n"
    )
    project = open_tree(tmp_path, {"train.py": text, "run.yaml": given})
    assert acts(project, Finding("PF999", "x", "x", "train.py", Span(7, 9, 7, 15))) is told
