"""Functions and classes that code finds under a name that it computes are used as if they were named."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.model import Finding, Span
from precfix.codemod.purpose.given import acts

from .project_tree import open_tree

HERE = "def distill():\n    here()\n"
CLASS = "class Job:\n    def distill(self):\n        here()\n"
HIDDEN = "class Job(Base):\n    def __call__(self):\n        here()\n"
MAIN = "\n\nif __name__ == '__main__':\n    "

USED = {
    "of a module": {"lib.py": HERE, "main.py": f"import lib{MAIN}getattr(lib, input())()\n"},
    "of a loop over its own variable": {
        "lib.py": HERE,
        "main.py": f"import lib{MAIN}for x in 'a', 'b':\n        for x in x, 'distill': getattr(lib, x)()\n",
    },
    "by its beginning": {"lib.py": HERE, "main.py": f"import lib{MAIN}getattr(lib, 'dis' + input())()\n"},
    "of its own module": {"lib.py": f"{HERE}{MAIN}globals()[input()]()\n"},
    "with a default": {"lib.py": f"{HERE}{MAIN}globals().get(input(), print)()\n"},
    "of all names here": {"lib.py": f"{HERE}{MAIN}locals()[input()]()\n"},
    "of what is imported": {"lib.py": HERE, "main.py": f"from lib import distill{MAIN}globals()[input()]()\n"},
    "of what a star imports": {"lib.py": HERE, "main.py": f"from lib import *{MAIN}globals()[input()]()\n"},
    "in a table of all": {"lib.py": f"{HERE}JOBS = {{k: v for k, v in globals().items()}}{MAIN}JOBS[input()]()\n"},
    "of all members": {
        "lib.py": HERE,
        "main.py": f"import inspect, lib{MAIN}dict(inspect.getmembers(lib))[input()]()\n",
    },
    "of its variables": {"lib.py": HERE, "main.py": f"import lib{MAIN}vars(lib)[input()]()\n"},
    "of itself": {"lib.py": f"import sys\n{HERE}{MAIN}getattr(sys.modules[__name__], input())()\n"},
    "evaluated": {"lib.py": f"{HERE}{MAIN}eval(input())()\n"},
    "of a module that a text names": {
        "lib/one.py": HERE,
        "main.py": f"import importlib{MAIN}getattr(importlib.import_module(f'lib.{{input()}}'), input())()\n",
    },
    "of a package": {
        "lib/__init__.py": "from .one import *\n",
        "lib/one.py": HERE,
        "main.py": f"import lib{MAIN}getattr(lib, input())()\n",
    },
    "beside a caller that nobody calls": {
        "lib.py": f"{HERE}\n\ndef dead():\n    distill()\n",
        "main.py": f"import lib{MAIN}getattr(lib, input())()\n",
    },
    "by fire": {"lib.py": f"import fire\n{HERE}{MAIN}fire.Fire()\n"},
    "a method, by fire": {"lib.py": f"import fire\n{CLASS}{MAIN}fire.Fire()\n"},
    "a method, by fire of an object": {"lib.py": f"from fire import Fire\n{CLASS}{MAIN}Fire(Job())\n"},
    "a method, by fire of a table": {"lib.py": f"import fire\n{CLASS}{MAIN}fire.Fire({{'job': Job}})\n"},
    "a method": {"lib.py": f"{CLASS}{MAIN}getattr(Job(), input())()\n"},
    "a method of the object itself": {
        "lib.py": f"{CLASS}\n    def run(self, name):\n        getattr(self, name)()\n{MAIN}Job().run(input())\n"
    },
    "a class that a decorator takes": {
        "lib.py": "from reg import add\n\n@add('job')\n" + HIDDEN,
        "reg.py": "ALL = {}\n\ndef add(name):\n    return lambda made: ALL.setdefault(name, made)\n",
        "main.py": f"import lib\nfrom reg import ALL{MAIN}ALL[input()]()()\n",
    },
    "a class below one that knows them": {
        "lib.py": f"class Base:\n    pass\n\n\n{HIDDEN}",
        "main.py": f"from lib import Base{MAIN}Base.__subclasses__()[0]()()\n",
    },
    "a class below one that notes them": {
        "lib.py": f"class Base:\n    def __init_subclass__(cls):\n        ALL.append(cls)\n\n\n{HIDDEN}",
        "main.py": f"from lib import ALL{MAIN}ALL[0]()()\n",
    },
    "a class whose metaclass notes it": {
        "lib.py": f"class Noting(type):\n    pass\n\n\nclass Base(metaclass=Noting):\n    pass\n\n\n{HIDDEN}",
        "main.py": f"from lib import ALL{MAIN}ALL[0]()()\n",
    },
    "a method of a class that is handed on": {"lib.py": f"{CLASS}\n{MAIN}serve(Job)\n"},
}
UNUSED = {
    "never": {"lib.py": HERE, "main.py": f"import lib{MAIN}print(lib)\n"},
    "by another beginning": {"lib.py": HERE, "main.py": f"import lib{MAIN}getattr(lib, f'run_{{input()}}')()\n"},
    "of another module": {
        "lib.py": HERE,
        "more.py": "",
        "main.py": f"import lib, more{MAIN}getattr(more, input())()\n",
    },
    "by another name": {"lib.py": f"{HERE}{MAIN}globals()['other']()\n"},
    "only set": {"lib.py": f"{HERE}{MAIN}globals().update(rate=1)\n"},
    "by a name that callers pass": {
        "lib.py": HERE,
        "main.py": f"import lib\n\ndef run(name):\n    getattr(lib, name)()\n{MAIN}run('other')\n",
    },
    "another text evaluated": {"lib.py": f"{HERE}{MAIN}eval('other')()\n"},
    "of modules that are called otherwise": {
        "lib/one.py": HERE,
        "main.py": f"import importlib{MAIN}getattr(importlib.import_module(f'more.{{input()}}'), input())()\n",
    },
    "where no run comes": {
        "lib.py": HERE,
        "main.py": f"import lib\n\ndef run(x=False):\n    if x:\n        getattr(lib, input())()\n{MAIN}run()\n",
    },
    "a method of another object": {
        "lib.py": f"{CLASS}\n\nclass Other:\n    pass\n{MAIN}Job()\n    getattr(Other(), input())()\n"
    },
    "a method that is passed on": {
        "lib.py": f"{CLASS}\n    def __getattr__(self, name):\n        return getattr(self, name)\n{MAIN}Job()\n"
    },
    "by fire of something else": {"lib.py": f"import fire\n{CLASS}\n\ndef main():\n    pass\n{MAIN}fire.Fire(main)\n"},
    "a class with fields": {
        "lib.py": f"import dataclasses\n\nclass Base:\n    pass\n\n\n@dataclasses.dataclass\n{HIDDEN}{MAIN}print()\n"
    },
}


@pytest.mark.parametrize("name", [*USED, *UNUSED])
def test_what_is_found_by_a_computed_name_counts(name: str, tmp_path: Path) -> None:
    files = {**USED, **UNUSED}[name]
    project = open_tree(tmp_path, files)
    path, text = next((path, text) for path, text in files.items() if "here()" in text)
    row = next(row for row, line in enumerate(text.splitlines(), 1) if "here()" in line)
    column = text.splitlines()[row - 1].index("here") + 1
    assert acts(project, Finding("PF999", "x", "x", path, Span(row, column, row, column + 6))) is (name in USED)
