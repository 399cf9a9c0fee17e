"""Which files of a project hold requirements, and what stands in them: requirements files, conda, locks, images.

Everything here is text written by people: what is no requirement is passed over, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..formats.shell_variables import REFERENCE
from ..source.documents import SHELL_ENDINGS, Document, FileKind
from .package_manifests import pins_of_pipfile, pins_of_pyproject, pins_of_setup_cfg, pins_of_setup_py
from .requirements import Pin, Tier, lines_of, pin_of, speaks_of_development

CONDA_WORD = "dependencies"
"""A word in every environment file of conda, whatever it is called."""
_DEVELOPMENT_FOLDERS = {"docs", "doc", "test", "tests", "ci", ".ci", ".github", ".circleci", "dev"}
_ENVIRONMENT_FOLDERS = {"env", "envs", "environment", "environments", "conda", "docker", "setup", "install"}
"""Folders that hold nothing but ways to install the project around them."""
_YAML = (".yml", ".yaml")
_INSTALLS = ("setup", "install", "env")
"""Words in the names of scripts that install the project around their folder of scripts."""
_LOCKS = ("poetry.lock", "uv.lock", "pdm.lock", "pipfile.lock", "requirements.lock", "pylock.toml")
_BOUND = re.compile(r"[A-Za-z][\w.-]*(\[[\w,-]+\])?[=<>~]")
_EXACT = re.compile(r"[A-Za-z][\w.-]*==\d[\w.+]*")
_STATED = re.compile(
    r"(?: *(?:[-*+|]|\d+[.)]) *)+[`\[*]*(?:py)?torch\]?(?:\([^)]*\))?[ `*]*(?:version )?"
    r"(>=|==|≥|>)?[ `]*v?(\d+\.\d+(?:\.\d+)?)(?![\w.-]*\d)",
    re.IGNORECASE,
)
"""``- PyTorch >= 1.9``, ``* [PyTorch](https://pytorch.org) 2.0+`` in a list of what a project needs."""
_READERS = {
    "pyproject.toml": pins_of_pyproject,
    "setup.cfg": pins_of_setup_cfg,
    "setup.py": pins_of_setup_py,
    "pipfile": pins_of_pipfile,
}


def is_manifest(path: str) -> bool:
    """Whether a file's name says that it holds requirements."""
    name = path.rpartition("/")[2].lower()
    listed = _is_requirements(path.lower()) or name in _LOCKS or name in _READERS
    return listed or _is_conda(name) or is_image(name) or _is_instructions(name)


def directory_of(path: str) -> str:
    """The folder that a manifest (or any file) speaks for; "" for the root. ``requirements/`` speaks for its parent."""
    folder = path.rpartition("/")[0]
    outer, _, last = folder.rpartition("/")
    listed = last.lower() in ("requirements", "requirement", "reqs") and _is_requirements(path.lower())
    kept_apart = last.lower() in _ENVIRONMENT_FOLDERS and (
        is_manifest(path) or path.lower().endswith((*_YAML, *SHELL_ENDINGS))
    )
    return outer if listed or kept_apart or _is_installer(path.lower()) else folder


def pins_in(document: Document) -> Iterator[Pin]:
    """The requirements of one manifest."""
    path = document.path.lower()
    name = path.rpartition("/")[2]
    if name in _READERS:
        yield from _READERS[name](document)
    elif name in _LOCKS and name != "requirements.lock":
        yield from _locked(document)
    elif _is_requirements(path):
        yield from _requirements(document)
    elif _is_conda(name) or (name.endswith(_YAML) and _reads_conda(document)):
        yield from _conda(document)
    elif is_image(name) or _is_instructions(name) or is_script(name):
        yield from _image(document) if is_image(name) else ()
        yield from _instructions(document)


def _is_requirements(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    if name == "requirements.lock":
        return True
    in_folder = folder.rpartition("/")[2] in ("requirements", "requirement", "reqs")
    return name.endswith((".txt", ".in")) and ("requirements" in name or name == "reqs.txt" or in_folder)


def _is_conda(name: str) -> bool:
    return name.endswith(_YAML) and (name.startswith(("env", "conda")) or name == "meta.yaml")


def _reads_conda(document: Document) -> bool:
    """Whether a YAML file under any other name is an environment: its dependencies, and what only conda asks for."""
    lines = [line.partition(" #")[0].rstrip() for line in document.text.splitlines()]
    return "dependencies:" in lines and any(
        line == "channels:" or line.lstrip("- ") in ("pip:", "python") or line.lstrip("- ").startswith("python=")
        for line in lines
    )


def _is_instructions(name: str) -> bool:
    return name.startswith(("readme", "install")) and name.endswith((".md", ".rst", ".txt"))


def is_script(name: str) -> bool:
    """Whether a file, by its name in lower case, is a shell script, which may install what the project runs with."""
    return name.endswith(SHELL_ENDINGS)


def _is_installer(path: str) -> bool:
    """``scripts/install.sh``"""
    folder, _, name = path.rpartition("/")
    return is_script(name) and folder.rpartition("/")[2] == "scripts" and any(word in name for word in _INSTALLS)


def is_image(name: str) -> bool:
    """Whether a file, by its name in lower case, builds an image."""
    return name.startswith("dockerfile") or name.endswith(".dockerfile")


def _requirements(document: Document) -> Iterator[Pin]:
    *folders, name = document.path.lower().split("/")
    tier = Tier.RUN_TIME
    if speaks_of_development(name) or not _DEVELOPMENT_FOLDERS.isdisjoint(folders):
        tier = Tier.DEVELOPMENT
    elif name == "requirements.lock" or "constraints" in name:
        tier = Tier.FIXED
    for row, line in lines_of(document):
        text = line.removesuffix("\\").strip()
        exported = text.count("=") == 2 and "==" not in text  # ``conda list --export``
        yield from pin_of(document, _from_conda(text) if exported else text, tier, row)


def _conda(document: Document) -> Iterator[Pin]:
    section = ""
    for row, line in lines_of(document):
        section = line if line.endswith(":") and not line.startswith("- ") else section
        if line.startswith("- ") and section != "channels:":
            text = line[2:].split(" #")[0].strip().strip("\"'").rpartition("::")[2]
            yield from pin_of(document, _from_conda(text), Tier.RUN_TIME, row)


def _from_conda(text: str) -> str:
    """``pytorch=1.7.1=py3.7_cuda`` and ``pytorch 1.7.*`` as a requirement; what pip understands stays as it is."""
    name, mark, version = text.partition("=")
    if mark and name and name[-1] not in "<>=!~" and not version.startswith("="):
        return f"{name.strip()}=={version.partition('=')[0].partition('+')[0].removesuffix('.*').removesuffix('*')}.*"
    if "==" in text:
        head, _, version = text.partition("==")
        return f"{head}=={version.partition('=')[0]}"
    name, _, version = text.partition(" ")
    return f"{name}=={version.strip()}" if version.strip()[:1].isdigit() else text


def _image(document: Document) -> Iterator[Pin]:
    for row, repository, tag, is_fixed in images_in(document):
        if is_fixed and repository.rpartition("docker.io/")[2] == "pytorch/pytorch" and tag[:1].isdigit():
            yield from pin_of(document, f"torch=={tag.partition('-')[0]}", Tier.FIXED, row)


def images_in(document: Document) -> Iterator[tuple[int, str, str, bool]]:
    """(row, repository, tag, whether no argument of the build changes it) of the images that one is built from."""
    defaults: dict[str, str] = {}
    for row, line in lines_of(document):
        words = line.split()
        if len(words) > 1 and words[0].lower() == "arg":
            name, _, value = words[1].partition("=")
            defaults[name] = value.strip("\"'")
        elif len(words) > 1 and words[0].lower() == "from":
            image = next((word for word in words[1:] if not word.startswith("--")), "")
            filled = REFERENCE.sub(lambda match: _filled(match, defaults), image)
            name = filled.partition("@")[0]  # a digest may stand behind the tag
            repository, _, tag = name.rpartition(":") if ":" in name.rpartition("/")[2] else (name, "", "")
            yield row, repository, tag, filled == image


def _filled(match: re.Match[str], defaults: Mapping[str, str]) -> str:
    """What an argument of the build stands for: its own default, else the one of ``${TORCH:-2.1.0}``."""
    value = defaults.get(match[1] or match[4])
    return value or (match[3] if match[3] is not None else match[0] if value is None else "")


def _instructions(document: Document) -> Iterator[Pin]:
    """``pip install torch==1.11.0``, or a line ``torch==1.11.0``, in a README, an image or a shell script: what
    research code was written for, where nothing else says so."""
    has_comments = document.kind is FileKind.SHELL
    for row, written in lines_of(document):
        line = f" {written}".partition(" #")[0] if has_comments else written
        command, installs, rest = line.partition("install ")
        if not installs:
            alone = line.strip(" `$>*-\\")
            stated = None if has_comments else _STATED.match(line)
            asked = f"torch{'==' if stated[1] == '==' else '>='}{stated[2]}" if stated is not None else ""
            yield from pin_of(document, alone if _EXACT.fullmatch(alone) else asked, Tier.FIXED, row)
        elif command.strip(" `$>*-").rpartition(" ")[2].endswith(("pip", "pip3", "conda", "mamba", "uv")):
            for word in rest.replace("`", " ").split():
                name = word.strip("\"',")
                if _BOUND.match(name):
                    yield from pin_of(document, _from_conda(name), Tier.FIXED, row)


def _locked(document: Document) -> Iterator[Pin]:
    """Lock files are written by programs: a ``name`` line and, near it, a ``version`` line (JSON: ``"torch": {``)."""
    name, name_row = "", 0
    for row, line in lines_of(document):
        key, mark, value = line.rstrip(",").partition(":" if document.path.endswith("Pipfile.lock") else "=")
        key, value = key.strip(" \"'"), value.strip(" \"'")
        if mark and key == "name":
            name, name_row = value, row
        elif mark and value == "{":
            name, name_row = key, row
        elif mark and key == "version" and name and row - name_row <= 40:
            yield from pin_of(document, f"{name}=={value.removeprefix('==')}", Tier.FIXED, row)
            name = ""
