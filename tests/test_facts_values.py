"""Values of expressions, callers of functions, options of a project: the facts behind a dtype chosen at run time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from precfix.codemod.python.callers import callers_of
from precfix.codemod.python.functions import called_function
from precfix.codemod.python.names import definition_of, names_of, resolve
from precfix.codemod.python.options import options_named
from precfix.codemod.source.project import Project
from precfix.codemod.torch.autocast import autocasts, dtype_scenarios, runs_without_gradients
from precfix.codemod.torch.dtype_values import scenarios_of
from precfix.codemod.torch.dtypes import UNKNOWN, Dtype, Scenario, TextCondition

from .project_tree import open_tree

HEAD = "import torch\n"


def module_of(project: Project, path: str = "train.py"):
    document = project.document(path)
    assert document is not None
    return names_of(project, document)


def told(given: TextCondition) -> str:
    values = "|".join(getattr(value, "name", repr(value)) for value in given.values)
    return f"{given.text}{'=' if given.equal else '!='}{values}"


def shown(scenario: Scenario) -> str:
    value = "?" if scenario.value is UNKNOWN or scenario.value == UNKNOWN else scenario.value
    name = value.name if isinstance(value, Dtype) else str(value)
    return " ".join([name, *sorted({told(item) for item in scenario.given})])


def values(root: Path, source: str, **more: str) -> set[str]:
    """The scenarios of the argument of ``use(...)`` in ``train.py``."""
    project = open_tree(root, {"train.py": HEAD + source, **{f"{name}.py": text for name, text in more.items()}})
    module = module_of(project)
    (call,) = (call for call in module.calls if isinstance(call.func, ast.Name) and call.func.id == "use")
    return {shown(item) for item in scenarios_of(project, module, call.args[0])}


CASES = {
    "overwritten by a chain": (
        """
def f(args):
    dtype = torch.bfloat16
    if args.mix == "fp16":
        dtype = torch.float16
    elif args.mix == "fp32":
        dtype = torch.float32
    use(dtype)
""",
        {
            "bfloat16 args.mix!='fp16' args.mix!='fp32'",
            "float16 args.mix='fp16'",
            "float32 args.mix!='fp16' args.mix='fp32'",
        },
    ),
    "overwritten for certain": ("dtype = torch.bfloat16\ndtype = torch.float16\nuse(dtype)", {"float16"}),
    "two tests around the overwriting say nothing single": (
        "dtype = torch.bfloat16\nif a:\n    if b:\n        dtype = torch.float16\nuse(dtype)",
        {"bfloat16", "float16 a=True b=True"},
    ),
    "a test of the old value is not a condition for the new one": (
        "dtype = torch.float16\nif dtype == torch.float16 and wants:\n    dtype = torch.bfloat16\nuse(dtype)",
        {"float16", "bfloat16 wants=True"},
    ),
    "the machine's answer": (
        "use(torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.half)",
        {"bfloat16 torch.cuda.is_bf16_supported()=True", "float16 torch.cuda.is_bf16_supported()!=True"},
    ),
    "unpacked from the project's own function": (
        """
def choose(precision):
    if precision == "bf16":
        return "cuda", torch.bfloat16
    return "cuda", torch.float16

def f(config):
    device, dtype = choose(config.precision)
    use(dtype)
""",
        {"bfloat16 config.precision='bf16'", "float16 config.precision!='bf16'"},
    ),
    "unpacked from elsewhere": ("device, dtype = other()\nuse(dtype)", {"?"}),
    "a property": (
        """
class A:
    @property
    def dtype(self):
        return torch.bfloat16 if self.amp == "bf16" else torch.float16

    def f(self):
        use(self.dtype)
""",
        {"bfloat16 self.amp='bf16'", "float16 self.amp!='bf16'"},
    ),
    "handed over by the callers": (
        """
def f(model, dtype=torch.float32):
    use(dtype)

f(1, torch.bfloat16)
f(2, dtype=torch.float16)
""",
        {"bfloat16", "float16"},
    ),
    "a caller that leaves the default": (
        "def f(model, dtype=torch.float32):\n    use(dtype)\n\nf(1, torch.bfloat16)\nf(2)",
        {"bfloat16", "float32"},
    ),
    "a function that is passed on": (
        "def f(model, dtype=torch.float32):\n    use(dtype)\n\nf(1, torch.bfloat16)\nspawn(f)",
        {"?", "bfloat16"},
    ),
    "unpacked from a function that returns itself": (
        "def f(n):\n    if len(n) > 1:\n        return f(n)\n    return 0, torch.half\n\n_, dtype = f(x)\nuse(dtype)",
        {"float16"},
    ),
    "unpacked from functions that return each other": (
        "def f(n):\n    return g(n)\n\ndef g(n):\n    return f(n)\n\nrest, dtype = f(3)\nuse(dtype)",
        {"?"},
    ),
    "recursive": ("def f(dtype):\n    use(dtype)\n    f(dtype)\n\nf(torch.float16)", {"float16"}),
    "a table in the class": (
        "class A:\n    TABLE = {'a': torch.half}\n    def f(self, key):\n        use(self.TABLE[key])",
        {"float16 key='a'"},
    ),
    "getattr with a known name": ("name = 'bfloat16'\nuse(getattr(torch, name))", {"bfloat16"}),
    "getattr with an impossible name": ("name = 'bf16'\nuse(getattr(torch, name))", {"?"}),
    "getattr with any name": (
        "use(getattr(torch, name))",
        {"bfloat16 name='bfloat16'", "float16 name='float16'", "float32 name='float32'"},
    ),
    "a field with a default": (
        "class Config:\n    amp_dtype: object = torch.bfloat16\n\ndef f(cfg):\n    use(cfg.amp_dtype)",
        {"?", "bfloat16 cfg.amp_dtype=bfloat16"},
    ),
    "a node of a configuration tree": (
        "_C.TRAIN.AMP_DTYPE = 'bfloat16'\n\ndef f(cfg):\n    use(cfg.TRAIN.AMP_DTYPE)",
        {"?", "bfloat16 cfg.TRAIN.AMP_DTYPE='bfloat16'"},
    ),
    "choices of a flag": (
        "parser.add_argument('--amp-dtype', choices=('float16', 'float32'))\nuse(getattr(torch, args.amp_dtype))",
        {"float16 args.amp_dtype='float16'", "float32 args.amp_dtype='float32'"},
    ),
    "destination of a flag": (
        "parser.add_argument('-d', dest='amp_dtype', choices=['float16'])\nuse(getattr(torch, args.amp_dtype))",
        {"float16 args.amp_dtype='float16'"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str, tmp_path: Path) -> None:
    source, wanted = CASES[name]
    found = values(tmp_path, source)
    assert {item.replace("bfloat16 cfg.TRAIN", "bfloat16 cfg.TRAIN") for item in found} == wanted


def test_table_of_another_module(tmp_path: Path) -> None:
    table = "import torch as th\nTYPES = {'bf16': th.bfloat16, 'fp16': th.half}\n"
    found = values(tmp_path, "from tables import TYPES\nuse(TYPES.get(precision, torch.float32))", tables=table)
    assert found == {"bfloat16 precision='bf16'", "float16 precision='fp16'", "float32"}


# --- names ------------------------------------------------------------------------------------------------------------


def origin(project: Project, path: str, name: str) -> str | None:
    module = module_of(project, path)
    found = definition_of(project, module, module.name_loads[name][0])
    return found[0].document.path if found is not None else None


def test_the_module_beside_the_script_comes_first(tmp_path: Path) -> None:
    files = {
        "a-b/run.py": "from misc import make\nmake()\n",
        "a-b/misc.py": "def make(): ...\n",
        "c/run.py": "from misc import make\nmake()\n",
        "c/misc.py": "def make(): ...\n",
        "c/deep/run.py": "from misc import make\nmake()\n",
        "pkg/__init__.py": "",
        "pkg/run.py": "from misc import make\nmake()\n",
        "pkg/misc.py": "def make(): ...\n",
        "misc.py": "def make(): ...\n",
    }
    project = open_tree(tmp_path, files)
    assert origin(project, "a-b/run.py", "make") == "a-b/misc.py"
    assert origin(project, "c/run.py", "make") == "c/misc.py"
    assert origin(project, "pkg/run.py", "make") == "misc.py"  # inside a package, the root is on the path
    assert origin(project, "c/deep/run.py", "make") == "misc.py"


def test_relative_import_in_a_folder_that_is_no_identifier(tmp_path: Path) -> None:
    files = {"a-b/run.py": "from .misc import make\nmake()\n", "a-b/misc.py": "def make(): ...\n"}
    assert origin(open_tree(tmp_path, files), "a-b/run.py", "make") == "a-b/misc.py"


def test_star_imports_of_the_project(tmp_path: Path) -> None:
    files = {
        "run.py": "from utils import make\nmake()\n",
        "direct.py": "from utils.inner import *\nmake()\nother()\n",
        "utils/__init__.py": "from .inner import *\n",
        "utils/inner.py": "def make(): ...\n",
        "loop.py": "from loop import *\nmake()\n",
    }
    project = open_tree(tmp_path, files)
    assert origin(project, "run.py", "make") == "utils/inner.py"
    assert origin(project, "direct.py", "make") == "utils/inner.py"
    assert origin(project, "direct.py", "other") is None
    assert origin(project, "loop.py", "make") is None


def test_two_releases_of_one_api_behind_a_re_export(tmp_path: Path) -> None:
    compat = """
try:
    from torch.amp import GradScaler
except ImportError:
    from torch.cuda.amp import GradScaler
"""
    project = open_tree(tmp_path, {"compat.py": compat, "run.py": "from compat import GradScaler\nGradScaler()\n"})
    module = module_of(project, "run.py")
    assert resolve(project, module, module.name_loads["GradScaler"][0]) == "torch.amp.GradScaler"


# --- functions --------------------------------------------------------------------------------------------------------

OBJECTS = """
class Executor:
    def train(self, scaler): ...

class User:
    def __init__(self, executor: Executor):
        self.executor = Executor()
        self.given = executor
        executor.train(1)

    def run(self):
        self.executor.train(2)
        self.given.train(3)

one = Executor()
one.train(4)
two = Executor() if flag else other()
two.train(5)
"""


def test_methods_of_objects_whose_class_is_known(tmp_path: Path) -> None:
    project = open_tree(tmp_path, {"train.py": OBJECTS})
    module = module_of(project)
    calls = module.calls_by_name["train"]
    reached = {ast.unparse(call.args[0]): called_function(project, module, call) is not None for call in calls}
    assert reached == {"1": True, "2": True, "3": False, "4": True, "5": False}


def test_callers_across_files(tmp_path: Path) -> None:
    files = {
        "lib.py": "def fit(model, dtype): ...\n",
        "a.py": "from lib import fit\nfit(1, 2)\n",
        "b.py": "import lib\nlib.fit(3, dtype=4)\n",
        "c.py": "def fit(): ...\nfit()\n",
    }
    project = open_tree(tmp_path, files)
    module = module_of(project, "lib.py")
    function = module.tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    callers = callers_of(project, module, function)
    assert [site.module.document.path for site in callers.sites] == ["a.py", "b.py"]
    assert callers.complete


@pytest.mark.parametrize(
    ("other", "complete"),
    [
        ("def step(net):\n    net.train()\n", True),  # lacks what the function has to be given
        ("def show(train=True):\n    return 1 if train else 2\n", True),
        ("import tensorflow as tf\nprint(tf.train)\n", True),
        ("def step(opt):\n    if opt.train and not opt.test:\n        print(opt)\n", True),
        ("def step(net):\n    net.train(1, 2)\n", False),
        ("def step(net):\n    return net.train\n", False),
    ],
)
def test_callers_beside_the_same_name_elsewhere(tmp_path: Path, other: str, *, complete: bool) -> None:
    files = {"lib.py": "def train(model, dtype): ...\n", "a.py": "from lib import train\ntrain(1, 2)\n", "b.py": other}
    project = open_tree(tmp_path, files)
    module = module_of(project, "lib.py")
    function = module.tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert callers_of(project, module, function).complete is complete


def test_callers_of_a_file_that_nothing_imports(tmp_path: Path) -> None:
    others = {f"other_{number}.py": "def train(model, dtype): ...\n" for number in range(40)}
    project = open_tree(tmp_path, {"run.py": "def train(model, dtype): ...\ntrain(1, 2)\n", **others})
    module = module_of(project, "run.py")
    function = module.tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert callers_of(project, module, function).complete


def test_options_of_the_own_file_first(tmp_path: Path) -> None:
    flag = "parser.add_argument('--amp-dtype', default='{}')  # fp16\n"
    project = open_tree(tmp_path, {"train.py": flag.format("own"), "eval.py": flag.format("other")})
    (option,) = options_named(project, module_of(project), "amp_dtype")
    assert isinstance(option.default, ast.Constant)
    assert option.default.value == "own"
    assert not options_named(project, module_of(project), "learning_rate")


# --- autocast ---------------------------------------------------------------------------------------------------------

SPLATS = {
    "autocast(**{'dtype': torch.bfloat16})": {"bfloat16"},
    "autocast(**dict(enabled=amp, dtype=torch.bfloat16))": {"bfloat16"},
    "autocast(**{'enabled': amp})": {"float16"},
    "autocast(**kept)": {"bfloat16"},
    "autocast(**changing)": {"?"},
    "autocast(**unknown)": {"?"},
    "autocast(*unknown)": {"?"},
    "autocast()": {"float16"},
}


@pytest.mark.parametrize("call", SPLATS)
def test_options_in_a_dict(call: str, tmp_path: Path) -> None:
    source = f"""
import torch
from torch.cuda.amp import autocast
kept = dict(dtype=torch.bfloat16)
changing = dict(dtype=torch.bfloat16)
changing = dict(dtype=torch.float16)
with {call}:
    pass
"""
    project = open_tree(tmp_path, {"train.py": source})
    (region,) = autocasts(project)
    assert {shown(item) for item in dtype_scenarios(project, region)} == SPLATS[call]


@pytest.mark.parametrize(("asked", "without"), [("False", True), ("training", False), ("mode=False", True)])
def test_gradients_under_set_grad_enabled(asked: str, without: bool, tmp_path: Path) -> None:
    source = f"import torch\nwith torch.set_grad_enabled({asked}), torch.autocast('cuda'):\n    pass\n"
    (region,) = autocasts(open_tree(tmp_path, {"train.py": source}))
    assert runs_without_gradients(region) is without
