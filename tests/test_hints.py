"""What beside manifests says that a project lives with an old PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.transforms.autocast.deprecated_cuda_amp.older_releases import runs_older

from .rule_runs import written

OLDER = {
    "a sibling in a folder for images": ({"docker/requirements.txt": "torchaudio==0.8.0\n"}, "1.9", "1.8"),
    "torchvision": ({"requirements.txt": "torchvision==0.9.1\n"}, "1.9", "1.8"),
    "torchvision of 2.x": ({"requirements.txt": "torchvision<=0.18\n"}, "2.4", "2.3"),
    "torchaudio of 2.x": ({"requirements.txt": "torchaudio==2.1.0\n"}, "2.2", "2.1"),
    "torchtext": ({"environment.yml": "dependencies:\n  - torchtext=0.9\n"}, "1.9", "1.8"),
    "a month": ({"docker/Dockerfile": "FROM nvcr.io/nvidia/pytorch:21.02-py3\n"}, "2.0", "1.14"),
    "a later month": ({"Dockerfile": "FROM nvcr.io/nvidia/pytorch:24.04-py3\n"}, "2.4", "2.3"),
    "an argument of the build": (
        {"Dockerfile": 'ARG TORCH="1.9.0"\nARG CUDA=11.1\nFROM pytorch/pytorch:${TORCH}-cuda${CUDA}-devel\n'},
        "1.10",
        "1.9",
    ),
    "names that begin alike": (
        {"Dockerfile": "ARG A=x\nARG AB=1.9.0\nFROM pytorch/pytorch:$AB-devel\n"},
        "2.0",
        "1.9",
    ),
    "a default of its own": ({"Dockerfile": "ARG T\nFROM pytorch/pytorch:${T:-1.9.0}-devel\n"}, "2.0", "1.9"),
    "another vendor": ({"Dockerfile": "FROM --platform=x vendor/pytorch:2.0.1-py3.10-cuda11 AS base\n"}, "2.1", "2.0"),
    "a folder of instructions": ({"build_notes/Dockerfile": "FROM vendor/pytorch:2.0.1\n"}, "2.1", "2.0"),
    "a digest": ({"Dockerfile": f"FROM vendor/pytorch:2.0.1-gpu@sha256:{'0' * 64}\n"}, "2.1", "2.0"),
    "a registry": ({"Dockerfile": "FROM host.example:5000/pytorch-training:2.0.0-gpu\n"}, "2.1", "2.0"),
    "the newest of several": (
        {"Dockerfile": "FROM vendor/pytorch:1.9.0\n", "more.dockerfile": "FROM vendor/pytorch:2.1.0\n"},
        "2.2",
        "2.1",
    ),
}
SILENT = {
    "no bound": {"requirements.txt": "torchaudio>=0.8\n"},
    "one of two has none": {"requirements.txt": "torchvision==0.9\n", "more/requirements.txt": "torchvision>=0.9\n"},
    "a bound that says nothing": {"requirements.txt": "torchvision<1\n"},
    "a new month": {"Dockerfile": "FROM nvcr.io/nvidia/pytorch:24.05-py3\n"},
    "no number": {"Dockerfile": "ARG TORCH\nFROM vendor/pytorch:${TORCH}\n"},
    "the newest": {"Dockerfile": "FROM vendor/pytorch:latest\n"},
    "the first releases": {"requirements.txt": "torchvision==0.0.1\n", "more/requirements.txt": "torchaudio<0.1\n"},
    "another image": {"Dockerfile": "FROM vendor/transformers-pytorch-gpu:1.2.3\n"},
    "an image far below": {"tools/build/Dockerfile": "FROM vendor/pytorch:1.9.0\n"},
    "an image beside other code": {"demo/Dockerfile": "FROM vendor/pytorch:1.9.0\n", "demo/app.py": ""},
}


@pytest.mark.parametrize("name", OLDER)
def test_the_first_release_that_a_hint_excludes(name: str, tmp_path: Path) -> None:
    files, excluded, held = OLDER[name]
    project = written(tmp_path, files)
    assert runs_older(project, excluded, "train.py") is not None
    assert runs_older(project, held, "train.py") is None


@pytest.mark.parametrize("name", SILENT)
def test_what_excludes_no_release(name: str, tmp_path: Path) -> None:
    assert runs_older(written(tmp_path, SILENT[name]), "9.9", "train.py") is None
