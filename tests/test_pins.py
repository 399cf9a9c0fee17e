"""What versions of torch a project's manifests allow."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.releases.pins import VersionRange, allowed

from .rule_runs import written


def pins(folder: Path, files: dict[str, str], near: str | None = None, package: str = "torch") -> VersionRange | None:
    return allowed(written(folder, files), package, near)


ONE_LINE = [
    ("torch==1.6.0", "1.6", "1.7"),
    ("torch>=1.6,<3", "1.6", "1.7"),
    ("torch~=2.1", "2.1", "2.2"),
    ("torch >= 2.0  # the reason", "2.0", "2.1"),
    ("torch==1.7.1+cu110", "1.7.1", "1.8"),
    ("torch>=1.7.*", "1.7", "1.8"),
    ('torch==1.9.0 ; python_version < "3.9"', "1.9", "1.10"),
    ("torch[opt-einsum]>=2.3", "2.3", "2.4"),
    ("torch==2.1.0 --hash=sha256:00 \\", "2.1", "2.2"),
    ("Torch===2.1.0", "2.1", "2.2"),
    ("torch==1.13.*", "1.13", "1.14"),
    ("https://example.org/whl/torch-1.13.1%2Bcu116-cp310-cp310-linux_x86_64.whl", "1.13.1", "1.14"),
    ("torch @ https://example.org/torch-2.1.0-cp311-cp311-linux_x86_64.whl#sha256=00", "2.1", "2.2"),
]


@pytest.mark.parametrize(("line", "not_below", "below"), ONE_LINE)
def test_requirements_lines(tmp_path: Path, line: str, not_below: str, below: str) -> None:
    found = pins(tmp_path, {"requirements.txt": f"numpy\n{line}\n"})
    assert found is not None
    assert not found.may_be_below(not_below)
    assert found.may_be_below(below)
    assert (found.places[0].path, found.places[0].span.row) == ("requirements.txt", 2)


@pytest.mark.parametrize(
    "line",
    [
        "torch",
        "torchvision==0.9",
        "torch @ https://example.invalid/torch-1.8.0.whl",
        "git+https://example.invalid/torch.git@v1.8",
        "# torch==1.6",
        "-r more.txt",
        "torch=1.6",
        "torch==",
        "\x00torch==1",
        "torch==" + "1" * 5000,
        "(((",
        "./torch==1.6",
    ],
)
def test_lines_that_pin_nothing(tmp_path: Path, line: str) -> None:
    assert (
        pins(tmp_path, {"requirements.txt": line + "\n", "setup.cfg": "[options\n", "pyproject.toml": "x = ["}) is None
    )


def test_no_lower_bound_allows_everything_old(tmp_path: Path) -> None:
    found = pins(tmp_path, {"requirements.txt": "torch<3,!=2.0.0\n"})
    assert found is not None
    assert found.may_be_below("1.0")
    assert found.may_reach("2.9")
    assert not found.may_reach("3.0")


@pytest.mark.parametrize(
    ("specifier", "reaches", "not_reached"),
    [("==1.6.0", "1.6.0", "1.6.1"), ("~=2.1", "2.9", "3.0"), ("==1.13.*", "1.13.9", "1.14"), ("<=2.2", "2.2", "2.3")],
)
def test_upper_bounds(tmp_path: Path, specifier: str, reaches: str, not_reached: str) -> None:
    found = pins(tmp_path, {"requirements.txt": f"torch{specifier}\n"})
    assert found is not None
    assert found.may_reach(reaches)
    assert not found.may_reach(not_reached)


def test_the_loosest_of_several_run_time_pins_counts(tmp_path: Path) -> None:
    found = pins(tmp_path, {"requirements.txt": "torch>=2.1\n", "setup.py": "setup(install_requires=['torch>=1.9'])\n"})
    assert found is not None
    pin = found.pin_below("2.3")
    assert pin is not None
    assert (pin.place.path, str(pin.specifiers)) == ("setup.py", ">=1.9")


def test_development_and_lock_files_count_only_where_nothing_else_does(tmp_path: Path) -> None:
    files = {
        "requirements-dev.txt": "torch==1.8\n",
        "docs/requirements.txt": "torch==1.8\n",
        "poetry.lock": '[[package]]\nname = "torch"\nversion = "2.1.0"\n\n[[package]]\nname = "b"\nversion = "1.0"\n',
        "requirements.txt": "torch\n",
    }
    found = pins(tmp_path, files)
    assert found is not None
    assert [pin.place.path for pin in found.pins] == ["poetry.lock"]
    assert not found.may_be_below("2.1")


PYPROJECT = """
[project]
dependencies = ["torch>=2.1", 'numpy']
[project.optional-dependencies]
old = ["torch>=1.8"]
[dependency-groups]
dev = ["torch==1.7", {include-group = "x"}]
"""
POETRY = """
[tool.poetry.dependencies]
python = "^3.10"
torch = {version = "^1.10", extras = ["x"]}
[tool.poetry.group.dev.dependencies]
torch = "*"
"""


@pytest.mark.parametrize(
    ("name", "text", "lower", "upper"),
    [
        ("pyproject.toml", PYPROJECT, "2.1", "9"),
        ("pyproject.toml", POETRY, "1.10", "1.99"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^2.4.0+cu124"\n', "2.4", "2.99"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "~2.1.2"\n', "2.1.2", "2.1.9"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "2.0.1"\n', "2.0.1", "2.0.1"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^0.4.1"\n', "0.4.1", "0.4.9"),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=1.9; python_version>'3'\n", "1.9", "9"),
        ("setup.py", "NEEDS = ['torch>=1.9']\nsetup(name='x', install_requires=NEEDS + ['y'])\n", "1.9", "9"),
        ("setup.py", "import setuptools\nsetuptools.setup(extras_require={'all': ['torch>=1.9']})\n", "1.9", "9"),
        ("setup.py", "_deps = [\n    'torch>=1.9',\n]\nsetup(install_requires=[d for d in _deps])\n", "1.9", "9"),
        ("environment.yml", "dependencies:\n  - pytorch=1.7.1=py3.7_cuda10\n", "1.7.1", "1.7.1.5"),
        ("environment.yml", "dependencies:\n  - pytorch::pytorch>=1.7,<2\n", "1.7", "1.9"),
        ("environment.yaml", "dependencies:\n  - pip:\n    - torch==2.0.1\n", "2.0.1", "2.0.1"),
        ("meta.yaml", "requirements:\n  run:\n    - pytorch >=1.10,<2\n", "1.10", "1.99"),
        ("Pipfile", '[packages]\ntorch = "==2.2.0+cu118"\n', "2.2.0", "2.2.0"),
        ("Pipfile.lock", '{"default": {\n"torch": {\n"hashes": [],\n"version": "==2.1.0"\n}}}', "2.1", "2.1"),
        ("uv.lock", '[[package]]\nname = "torch"\nversion = "2.1.0"\nsource = {}\n', "2.1", "2.1"),
        ("Dockerfile", "FROM --platform=x pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel AS a\n", "2.1", "2.1"),
        ("Dockerfile", f"FROM pytorch/pytorch:2.1.0-runtime@sha256:{'0' * 64}\n", "2.1", "2.1"),
        ("requirements/base.txt", "torch>=2.2\n", "2.2", "9"),
    ],
)
def test_manifests(tmp_path: Path, name: str, text: str, lower: str, upper: str) -> None:
    found = pins(tmp_path, {name: text})
    assert found is not None
    assert not found.may_be_below(lower)
    assert found.may_be_below(f"{lower}.1") or found.may_be_below(upper)
    assert found.may_reach(upper)


def test_a_manifest_elsewhere_does_not_count_for_a_file(tmp_path: Path) -> None:
    files = {"requirements.txt": "torch>=2.4\n", "examples/old/requirements.txt": "torch==1.4\n", "src/a.py": "x = 1\n"}
    assert not pins(tmp_path, files, near="src/a.py").may_be_below("2.4")  # type: ignore[union-attr]
    assert pins(tmp_path, files, near="examples/old/a.py").may_be_below("2.4")  # type: ignore[union-attr]
    assert pins(tmp_path, files).may_be_below("2.4")  # type: ignore[union-attr]


def test_setup_py_is_not_executed(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    text = f"open({str(marker)!r}, 'w')\nsetup(install_requires=['torch>=2'])\nraise SystemExit\n"
    assert pins(tmp_path, {"setup.py": text}) is not None
    assert not marker.exists()


def test_strange_manifests_are_survived(tmp_path: Path) -> None:
    nested = "[" * 3000
    files = {
        "pyproject.toml": "a = " + nested,
        "setup.py": "setup(install_requires=" + "[" * 150 + "'torch>=2'" + "]" * 150 + ")\n",
        "setup.cfg": "[options]\ninstall_requires: %(x)s\n",
        "poetry.lock": 'name = "torch"\n' + "x = 1\n" * 100 + 'version = "1.0"\n',
        "environment.yml": "- " * 500 + "\n&a [*a]\n",
        "Dockerfile": "FROM\nFROM pytorch/pytorch\nFROM pytorch/pytorch:latest\n",
    }
    found = pins(tmp_path, files)
    assert found is None or [pin.place.path for pin in found.pins] == ["setup.py"]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("    pip install torch==1.11.0 torchvision==0.12.0", "1.11.0"),
        ("$ conda install pytorch=1.12 cudatoolkit -c pytorch", "1.12"),
        ("1. `pip install torch==2.1.0`", "2.1.0"),
        ("* torch==2.0.0", "2.0.0"),
        ("pytorch==1.12.1", "1.12.1"),
    ],
)
def test_an_install_line_of_a_readme_pins_where_nothing_else_does(tmp_path: Path, line: str, version: str) -> None:
    found = allowed(written(tmp_path, {"README.md": f"# x\n\n{line}\n"}), "torch")
    assert found is not None
    assert str(found.pins[0].specifiers).startswith(f"=={version}")
    assert found.pins[0].place.span.row == 3


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("- PyTorch >= 1.9 : https://pytorch.org", ">=1.9"),
        ("* [PyTorch](http://pytorch.org/) version >= 1.5.0", ">=1.5.0"),
        ("  1. **PyTorch 2.0+**", ">=2.0"),
        ("| torch | 2.1 |", ""),
        ("- torch 1.12.1", ">=1.12.1"),
        ("PyTorch 2.0 brought a compiler.", ""),
        ("- PyTorch Lightning 1.5", ""),
        ("- PyTorch-Lightning 2.0", ""),
    ],
)
def test_a_list_in_a_readme_says_the_oldest_release(tmp_path: Path, line: str, asked: str) -> None:
    found = allowed(written(tmp_path, {"README.md": f"{line}\n"}), "torch")
    assert (str(found.pins[0].specifiers) if found is not None else "") == asked


def test_a_readme_pins_other_libraries_too(tmp_path: Path) -> None:
    text = "```\ndeepspeed==0.9.1\npeft == 0.3\n```\npip install -U 'transformers>=4.30' --index-url https://x/y==1\n"
    project = written(tmp_path, {"README.md": text})
    found = {name: allowed(project, name) for name in ("deepspeed", "transformers", "peft")}
    assert {name: str(item.pins[0].specifiers) for name, item in found.items() if item is not None} == {
        "deepspeed": "==0.9.1",
        "transformers": ">=4.30",
    }


def test_prose_about_versions_pins_nothing(tmp_path: Path) -> None:
    files = {"README.md": "We install torch==1.0 never.\nNeeds torch==1.11.0.\npip install mytorch==1.0\n"}
    assert allowed(written(tmp_path, files), "torch") is None


@pytest.mark.parametrize("other", ["requirements.txt", "environment.yml", "requirements_cpu.txt"])
def test_a_plain_name_beside_a_bound_allows_every_release(tmp_path: Path, other: str) -> None:
    plain = "dependencies:\n  - pytorch\n" if other.endswith(".yml") else "numpy\ntorch\n"
    bound = {"requirements_cu128.txt": "torch==2.8.0\n", "setup.py": "setup(install_requires=['torch>=2.8'])\n"}
    both = pins(tmp_path, {other: plain, **bound}, "train.py")
    assert both is not None
    assert both.may_be_below("2.4")


@pytest.mark.parametrize(
    "files",
    [
        {"requirements.txt": "torch\n", "src/requirements.txt": "torch==2.8.0\n"},
        {"requirements.txt": "torch\n", "Dockerfile": "FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime\n"},
    ],
    ids=["a folder above", "an image"],
)
def test_a_plain_name_leaves_the_answer_to_what_is_nearer_or_fixed(tmp_path: Path, files: dict[str, str]) -> None:
    found = pins(tmp_path, files, "src/train.py")
    assert found is not None
    assert not found.may_be_below("2.4")


@pytest.mark.parametrize("path", ["learning.yaml", "requirements_gpu.yml", "conda/cluster.yml"])
def test_an_environment_of_conda_under_any_name(tmp_path: Path, path: str) -> None:
    text = "name: learning\nchannels:\n  - pytorch\ndependencies:\n  - python=3.8\n  - pytorch=1.9\n"
    found = pins(tmp_path, {path: text}, "train.py")
    assert found is not None
    assert not found.may_reach("2.0")


def test_other_files_that_name_dependencies_pin_nothing(tmp_path: Path) -> None:
    text = "name: step\ndependencies:\n  - torch=1.9\n"
    assert pins(tmp_path, {"pipeline.yaml": text}, "train.py") is None


@pytest.mark.parametrize(
    ("path", "line", "version"),
    [
        ("setup/setup.sh", "conda install pytorch==2.0.0 torchvision==0.15.0 -c pytorch -c nvidia -y", "2.0.0"),
        ("install.sh", "pip install torch==1.13.1  # not torch==2.0.0", "1.13.1"),
        ("scripts/setup_env.bash", 'python -m pip install "torch==2.1.0"', "2.1.0"),
        ("job.slurm", "    torch==1.12.1 \\", "1.12.1"),
    ],
)
def test_an_install_line_of_a_shell_script_pins_where_nothing_else_does(
    tmp_path: Path, path: str, line: str, version: str
) -> None:
    found = pins(tmp_path, {path: f"set -e\npip install \\\n{line}\n", "tools/train.py": ""}, "tools/train.py")
    assert found is not None
    assert [str(pin.specifiers) for pin in found.pins] == [f"=={version}"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("install.sh", "# pip install torch==1.13.1"),
        ("install.sh", "pip install torch==${VERSION}"),
        ("other/install.sh", "pip install torch==1.13.1"),
        ("scripts/old.sh", "pip install torch==1.13.1"),
        ("Makefile", "\tpip install torch==1.13.1"),
        ("Dockerfile", "# RUN pip install torch==1.13.1"),
    ],
)
def test_other_lines_of_shell_pin_nothing(tmp_path: Path, path: str, line: str) -> None:
    assert pins(tmp_path, {path: f"pip install tqdm\n{line}\n", "tools/train.py": ""}, "tools/train.py") is None


def test_a_manifest_says_more_than_a_shell_script(tmp_path: Path) -> None:
    found = pins(tmp_path, {"install.sh": "pip install torch==1.13.1\n", "requirements.txt": "torch>=2.6\n"}, "a.py")
    assert found is not None
    assert not found.may_be_below("2.6")
