"""What an expression can be: the tracer's way through a project, its look-alikes, its limits, and its domains."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from precfix.codemod.python.creations import creations_of, only_call
from precfix.codemod.python.limits import MAX_DEPTH, MAX_VALUES
from precfix.codemod.python.names import ModuleNames, names_of
from precfix.codemod.python.numbers import number_of
from precfix.codemod.source.project import Project
from precfix.codemod.torch.devices import devices_of
from precfix.codemod.torch.dtype_values import constants_of, scenarios_of
from precfix.codemod.torch.dtypes import Dtype, Unknown
from precfix.codemod.trainers.reading.links import sources

from .project_tree import open_tree

HEAD = "import torch\n"


def asked(root: Path, source: str, **more: str) -> tuple[Project, ModuleNames, ast.expr]:
    """The project of ``train.py`` (and more modules), and the argument of its ``use(...)``."""
    project = open_tree(root, {"train.py": HEAD + source, **{f"{name}.py": HEAD + text for name, text in more.items()}})
    document = project.document("train.py")
    assert document is not None
    module = names_of(project, document)
    (call,) = (call for call in module.calls if isinstance(call.func, ast.Name) and call.func.id == "use")
    return project, module, call.args[0]


def dtypes(root: Path, source: str, **more: str) -> set[str]:
    found = constants_of(*asked(root, source, **more))
    return {
        "?" if isinstance(item, Unknown) else item.name if isinstance(item, Dtype) else repr(item) for item in found
    }


WAYS = {
    "the test of an elif, whatever the branch above assigns": (
        "def f(d):\n    x = d.kind\n    if x == 1:\n        x = torch.half\n    elif use(x):\n        pass\n",
        {"?"},
    ),
    "an else in a loop sees what the other branch assigned in the round before": (
        "def f(d):\n    x = d.kind\n    for _ in d:\n        if d.a:\n            x = torch.half\n"
        "        else:\n            use(x)\n",
        {"?", "float16"},
    ),
    "a chain of names": ("a = torch.half\nb = a\nc = b\nuse(c)", {"float16"}),
    "or": ("use(given or torch.half)", {"?", "float16"}),
    "a walrus": ("use(kept := torch.half)", {"float16"}),
    "paired targets": ("a, b = torch.half, torch.bfloat16\nuse(b)", {"bfloat16"}),
    "a tuple that a function returns": (
        "def make():\n    return 1, torch.half\n\n_, dtype = make()\nuse(dtype)",
        {"float16"},
    ),
    "through two functions": (
        "def inner():\n    return 1, torch.half\n\ndef outer():\n    return inner()\n\n_, d = outer()\nuse(d)",
        {"float16"},
    ),
    "an attribute unpacked": (
        "def make():\n    return 1, torch.half\n\nclass A:\n    def __init__(self):\n"
        "        self.x, self.d = make()\n    def f(self):\n        use(self.d)",
        {"float16"},
    ),
    "an attribute of the base class": (
        "class A:\n    def __init__(self):\n        self.d = torch.half\n\n"
        "class B(A):\n    def f(self):\n        use(self.d)",
        {"float16"},
    ),
    "an own attribute hides that of the base class": (
        "class A:\n    d = torch.half\n\nclass B(A):\n    d = torch.bfloat16\n    def f(self):\n        use(self.d)",
        {"bfloat16"},
    ),
    "a coroutine that is awaited": (
        "async def make():\n    return torch.half\n\nasync def f():\n    use(await make())",
        {"float16"},
    ),
    "a parameter of a parameter": (
        "def inner(d):\n    use(d)\n\ndef outer(d):\n    inner(d)\n\nouter(torch.half)",
        {"float16"},
    ),
    "an entry with a literal key": ("T = {'a': torch.half, 'b': torch.bfloat16}\nuse(T['b'])", {"bfloat16"}),
    "a table that is passed": (
        "def f(table, key):\n    use(table[key])\n\nf({'a': torch.half}, key)",
        {"float16"},
    ),
    "get with a default": ("T = {'a': torch.half}\nuse(T.get(k, torch.bfloat16))", {"float16", "bfloat16"}),
}
LOOK_ALIKES = {
    "a local name shadows the constant": (
        "D = torch.half\n\ndef f():\n    D = torch.bfloat16\n    use(D)",
        {"bfloat16"},
    ),
    "a parameter shadows the constant": ("D = torch.half\n\ndef f(D):\n    use(D)", {"?"}),
    "a class body is not around its methods": ("class A:\n    D = torch.half\n    def f(self):\n        use(D)", {"?"}),
    "torch is something else": ("def f(torch):\n    use(torch.half)", {"?"}),
    "augmented": ("d = 1\nd += 1\nuse(d)", {"?"}),
    "a loop variable": ("for d in (torch.half, torch.float32):\n    use(d)", {"?"}),
    "a context": ("with make() as d:\n    use(d)", {"?"}),
    "one branch of two": ("d = torch.half\nif c:\n    d = torch.bfloat16\nuse(d)", {"float16", "bfloat16"}),
    "both branches": (
        "if c:\n    d = torch.half\nelse:\n    d = torch.bfloat16\nuse(d)",
        {"float16", "bfloat16"},
    ),
    "changed at the end of a loop": (
        "d = torch.half\nfor x in y:\n    use(d)\n    d = torch.bfloat16",
        {"float16", "bfloat16"},
    ),
    "a global that a function changes": (
        "D = torch.half\n\ndef change():\n    global D\n    D = torch.bfloat16\n\ndef f():\n    use(D)",
        {"float16", "bfloat16"},
    ),
    "a generator gives no dtype": ("def make():\n    yield\n    return torch.half\n\nuse(make())", {"?"}),
    "a function that returns nothing": ("def make():\n    return\n\nuse(make())", {"?"}),
    "a method is no attribute": (
        "class A:\n    def d(self):\n        return torch.half\n    def f(self):\n        use(self.d)",
        {"?"},
    ),
    "a keyword argument of any name": (
        "def f(d=torch.half):\n    use(d)\n\nf(**options)",
        {"?"},
    ),
    "all positional arguments at once": ("def f(*d):\n    use(d)\n\nf(torch.half)", {"?"}),
    "a lambda's parameter": ("f = lambda d: use(d)\nf(torch.half)", {"?"}),
    "dtype of a tensor is no option": (
        "parser.add_argument('--dtype', choices=['float16'])\nuse(getattr(torch, x.dtype))",
        {"bfloat16", "float16", "float32"},
    ),
    "a table with an unknown key": ("T = {name: torch.half}\nuse(T[k])", {"?"}),
    "a table made twice": ("T = {'a': torch.half}\nif c:\n    T = {'a': torch.float32}\nuse(T['a'])", {"?"}),
}
CYCLES = {
    "a name that is wrapped": (
        "d = torch.half if a else None\nfor x in y:\n    d = d or torch.bfloat16\nuse(d)",
        {"float16", "bfloat16", "None"},
    ),
    "two functions": (
        "def a(d):\n    use(d)\n    b(d)\n\ndef b(d):\n    a(d)\n\na(torch.half)",
        {"float16"},
    ),
    "an attribute": (
        "class A:\n    def f(self):\n        self.d = self.d\n        use(self.d)",
        {"?"},
    ),
    "a function of itself": ("def make():\n    return make()\n\nuse(make())", {"?"}),
    "a table of itself": ("t = t[x]\nuse(t[y])", {"?"}),
}


@pytest.mark.parametrize("cases", [WAYS, LOOK_ALIKES, CYCLES], ids=["ways", "look-alikes", "cycles"])
def test_what_a_dtype_can_be(cases: dict[str, tuple[str, set[str]]], tmp_path: Path) -> None:
    wrong = {}
    for index, (name, (source, wanted)) in enumerate(cases.items()):
        found = dtypes(tmp_path / str(index), source)
        if found != wanted:
            wrong[name] = found
    assert not wrong


# --- other files ------------------------------------------------------------------------------------------------------


def test_imports_are_followed_to_their_end(tmp_path: Path) -> None:
    last = "DTYPE = torch.half"
    files = {"consts": last, "middle": "from consts import DTYPE\nfrom consts import *\n"}
    assert dtypes(tmp_path / "a", "from middle import DTYPE\nuse(DTYPE)", **files) == {"float16"}
    assert dtypes(tmp_path / "b", "import middle\nuse(middle.DTYPE)", **files) == {"float16"}
    assert dtypes(tmp_path / "c", "from consts import *\nuse(DTYPE)", **files) == {"float16"}
    assert dtypes(tmp_path / "d", "import middle as m\nuse(m.OTHER)", **files) == {"?"}


def test_modules_that_import_each_other(tmp_path: Path) -> None:
    assert dtypes(tmp_path, "from a import D\nuse(D)", a="from b import D", b="from a import D") == {"?"}


def test_what_tests_pass_says_nothing(tmp_path: Path) -> None:
    files = {
        "train.py": "import torch\ndef f(d):\n    use(d)\n",
        "main.py": "import torch, train\ntrain.f(torch.bfloat16)\n",
        "tests/test_train.py": "import torch, train\ntrain.f(torch.float16)\n",
    }
    project = open_tree(tmp_path, files)
    document = project.document("train.py")
    assert document is not None
    module = names_of(project, document)
    (call,) = module.calls_by_name["use"]
    assert constants_of(project, module, call.args[0]) == {Dtype("bfloat16")}


# --- limits -----------------------------------------------------------------------------------------------------------


def test_too_long_a_chain_is_unknown(tmp_path: Path) -> None:
    steps = [f"x{number} = x{number - 1}" for number in range(1, MAX_DEPTH + 2)]
    near = "\n".join(["x0 = torch.half", *steps[: MAX_DEPTH // 2], f"use(x{MAX_DEPTH // 2})"])
    far = "\n".join(["x0 = torch.half", *steps, f"use(x{MAX_DEPTH + 1})"])
    assert dtypes(tmp_path / "near", near) == {"float16"}
    assert dtypes(tmp_path / "far", far) == {"?"}


def test_too_many_values_are_unknown(tmp_path: Path) -> None:
    few, many = ({f"k{number}": number for number in range(size)} for size in (MAX_VALUES, MAX_VALUES + 1))
    assert len(dtypes(tmp_path / "few", f"use({few}[key])")) == MAX_VALUES
    assert dtypes(tmp_path / "many", f"use({many}[key])") == {"?"}


def test_wide_and_deep_code_ends(tmp_path: Path) -> None:
    lines = ["def f0(d):", "    use(d)"]
    for number in range(1, 12):
        calls = "\n".join(f"    f{number - 1}(d if c else torch.half)" for _ in range(12))
        lines += [f"def f{number}(d):", calls]
    assert "?" in dtypes(tmp_path, "\n".join(lines))


CIRCLE = (
    "def a(d):\n    use(d)\n    b(d)\n\ndef b(e):\n    a(e)\n    c(e)\n\n"
    "def c(g):\n    b(g or torch.half)\n\na(torch.bfloat16)"
)
LONG = "x0 = torch.half\n" + "\n".join(f"x{at + 1} = x{at}" for at in range(MAX_DEPTH)) + f"\nuse(x{MAX_DEPTH})"
CALLERS = (
    "def a(d):\n    use(d)\n\ndef b(e):\n    a(e)\n\ndef c(f):\n    b(f)\n\ndef d(g):\n    c(g)\n\n"
    "def e(h):\n    d(h)\n\ne(torch.half)"
)


@pytest.mark.parametrize("source", [CIRCLE, LONG, CALLERS])
def test_the_answer_does_not_depend_on_what_was_asked_before(source: str, tmp_path: Path) -> None:
    def answers(order: list[tuple[int, int]]) -> dict[tuple[int, int], list[object]]:
        project, module, _ = asked(tmp_path, source)
        loads = {(load.lineno, load.col_offset): load for found in module.name_loads.values() for load in found}
        order = order or sorted(loads)
        return {place: [item.value for item in scenarios_of(project, module, loads[place])] for place in order}

    places = list(answers([]))
    alone = {place: answers([place])[place] for place in places}
    assert answers(places) == answers(places[::-1]) == alone


# --- domains ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "wanted"),
    {
        "use(-1e9)": -1e9,
        "use(2 ** 10 * 4)": 4096,
        "EPS = 1e-8\nuse(EPS / 2)": 5e-9,
        "use(float('-inf'))": float("-inf"),
        "use(torch.finfo(torch.float32).max)": 3.4028234663852886e38,
        "def f(eps=1e-8):\n    use(eps)\n\nf()": 1e-8,
        "def f(eps=1e-8):\n    use(eps)\n\nf(1e-5)": 1e-5,
        "def f(eps=1e-8):\n    use(eps)": None,
        "eps = 1e-8\nif c:\n    eps = 1e-5\nuse(eps)": None,
        "n = 1\nfor x in y:\n    n = n * 2\nuse(n)": None,
        "use(True)": None,
        "use(1 / 0)": None,
        "use('1')": None,
    }.items(),
)
def test_numbers(source: str, wanted: float | None, tmp_path: Path) -> None:
    assert number_of(*asked(tmp_path, source)) == wanted


@pytest.mark.parametrize(
    ("source", "wanted"),
    {
        "use('cuda:0')": {("cuda", "text")},
        "use(torch.device('cuda'))": {("cuda", "object")},
        "use(torch.device('cuda').type)": {("cuda", "text")},
        "TABLE = {'a': 'cuda', 'b': 'cpu'}\nuse(TABLE[x])": {("cuda", "text"), ("cpu", "text")},
        "device = 'cuda' if torch.cuda.is_available() else 'cpu'\nuse(device)": {("cuda", "text"), ("cpu", "text")},
        "def f(device: torch.device):\n    use(device)": {("", "object")},
        "use(x.device)": {("", "")},
        "use('disk')": {("", "")},
    }.items(),
)
def test_devices(source: str, wanted: set[tuple[str, str]], tmp_path: Path) -> None:
    assert {(value.kind, value.form) for value in devices_of(*asked(tmp_path, source))} == wanted


@pytest.mark.parametrize(
    ("source", "wanted"),
    {
        "model = Net()\nuse(model)": {"Net()"},
        "model = Net().cuda().eval()\nuse(model)": {"Net()"},
        "model = Net() if c else Other()\nuse(model)": {"Net()", "Other()"},
        "model = None\nmodel = Net()\nuse(model)": {"Net()"},
        "model = Net()\nmodel = get_peft_model(model, config)\nuse(model)": {"Net()"},
        "model, tokenizer = load(name)\nuse(model)": {"load(name)"},
        "model, tokenizer = load(name)\nuse(tokenizer)": set(),
        "model, optimizer = accelerator.prepare(Net(), Adam())\nuse(optimizer)": {"Adam()"},
        "def make():\n    return Net()\n\nuse(make())": {"Net()"},
        "def f(model):\n    use(model)\n\nf(Net())": {"Net()"},
        "def f(model):\n    use(model)": set(),
        "model = Net() if c else given\nuse(model)": set(),
        "model = DDP(Net().cuda())\nuse(model.module)": {"Net()"},
        "def f(model):\n    use(model._orig_mod)\n\nf(torch.compile(Net()))": {"Net()"},
        "holder = Net()\nuse(holder.module)": set(),
        "class A:\n    module = Net()\n    def f(self):\n        use(self.module)": {"Net()"},
    }.items(),
)
def test_creations(source: str, wanted: set[str], tmp_path: Path) -> None:
    assert {ast.unparse(item.call) for item in creations_of(*asked(tmp_path, source))} == wanted


def test_what_wraps_an_object_and_its_names_are_told(tmp_path: Path) -> None:
    source = "model = Net()\nwrapped = torch.compile(model.half())\nuse(wrapped)"
    (found,) = creations_of(*asked(tmp_path, source))
    assert [ast.unparse(call) for call in found.through] == ["torch.compile(model.half())", "model.half()"]
    assert [name.text for name in found.names] == ["wrapped", "model"]
    assert only_call(*asked(tmp_path, source)) is None


@pytest.mark.parametrize(
    ("source", "wanted"),
    {
        "dtype = 'fp16'\nuse(dtype)": {("constant", "dtype", "fp16")},
        "class C:\n    dtype = 'fp16'\n    def f(self):\n        use(self.dtype)": {("field", "dtype", "fp16")},
        "def f(dtype='fp16'):\n    use(dtype.lower())\n\nf('bf16')": {
            ("parameter", "dtype", "fp16"),
            ("argument", "dtype", "bf16"),
        },
        "parser.add_argument('--dtype', default='fp16')\nuse(args.dtype)": {("option", "dtype", "fp16")},
        "use('fp16' if torch.cuda.is_available() and c else other)": set(),
        "def make():\n    return 'fp16'\n\nuse(make())": set(),
    }.items(),
)
def test_literals(source: str, wanted: set[tuple[str, str, str]], tmp_path: Path) -> None:
    assert {(item.kind, item.key, item.value) for item in sources(*asked(tmp_path, source))} == wanted
