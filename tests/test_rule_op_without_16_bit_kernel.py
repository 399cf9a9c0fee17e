"""PF211: 16-bit tensors in operations that have no kernel for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.profiles.profile import OpSupport, Profile, ProfiledDevice

from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("dtype.op_without_16_bit_kernel")
CAST = """
import torch
import torch.nn.functional as F

def run(x, y):
    h = x.{cast}
    return {text}
"""


def cast(text: str, how: str = "bfloat16()") -> dict[str, str]:
    return {"run.py": CAST.format(text=text, cast=how)}


def found(tmp_path: Path, files: dict[str, str]) -> list[int]:
    return [finding.span.row for finding in findings(RULE, written(tmp_path, files))]


GAPS = {
    "torch.fft.fft(h)": "torch.fft.fft(h.float())",
    "torch.fft.rfftn(h.flatten(1), norm='ortho')": "torch.fft.rfftn(h.flatten(1).float(), norm='ortho')",
    "torch.linalg.svd(h)": "torch.linalg.svd(h.float())",
    "torch.linalg.inv(h)": "torch.linalg.inv(h.float()).to(h.dtype)",
    "h.inverse()": "h.float().inverse().to(h.dtype)",
    "torch.quantile(h, 0.5)": "torch.quantile(h.float(), 0.5).to(h.dtype)",
    "h.quantile(0.5, dim=1)": "h.float().quantile(0.5, dim=1).to(h.dtype)",
    "torch.quantile(input=h, q=0.5)": "torch.quantile(input=h.float(), q=0.5).to(h.dtype)",
    "torch.linalg.solve(h, y)": "torch.linalg.solve(h.float(), y.float()).to(h.dtype)",
    "torch.cdist(h, h)": "torch.cdist(h.float(), h.float()).to(h.dtype)",
    "torch.stft(h, 64, return_complex=True)": "torch.stft(h.float(), 64, return_complex=True)",
    "torch.linalg.det(h + h)": "torch.linalg.det((h + h).float()).to(torch.bfloat16)",
    "torch.view_as_complex(h)": "torch.view_as_complex(h.float())",
}


@pytest.mark.parametrize("text", GAPS)
def test_certain_crash_and_its_fix(text: str, tmp_path: Path) -> None:
    report, changed = migrated([RULE], written(tmp_path, cast(text)), unsafe=True)
    assert f"return {GAPS[text]}\n" in changed["run.py"]
    assert not report.remaining


RIGHT = {
    "cast": "torch.fft.rfft(h.float())",
    "cast by dtype": "torch.linalg.svd(h.to(torch.float32))",
    "cast by another tensor": "torch.linalg.svd(h.to(y))",
    "unknown": "torch.linalg.svd(y)",
    "has a kernel": "torch.linalg.norm(h) + h.cumsum(0)",
    "interpolate": "F.interpolate(h, scale_factor=2)",
    "antialias on CUDA": "F.interpolate(h, scale_factor=2, mode='bilinear', antialias=True)",
    "integers": "torch.quantile(h.argmax(-1), 0.5)",
    "of numpy": "np.fft.rfft(h)",
    "own function": "quantile(h, 0.5)",
}


@pytest.mark.parametrize("name", RIGHT)
def test_silent(name: str, tmp_path: Path) -> None:
    assert found(tmp_path, cast(RIGHT[name])) == []


def test_float16_has_ffts_on_cuda_and_no_decompositions(tmp_path: Path) -> None:
    assert found(tmp_path / "fft", cast("torch.fft.rfft(h)", "half()")) == []
    assert found(tmp_path / "svd", cast("torch.linalg.svd(h)", "half()")) == [6]


def test_dtype_that_is_chosen(tmp_path: Path) -> None:
    source = """
        import torch

        def run(x, args):
            weight_dtype = torch.float32
            if args.bf16:
                weight_dtype = torch.bfloat16
            h = x.to(weight_dtype)
            return torch.quantile(h, 0.9)

        def other(x, args):
            dtype = torch.float64 if args.exact else torch.float32
            return torch.quantile(x.to(dtype), 0.9)
    """
    (finding,) = findings(RULE, written(tmp_path, {"run.py": source}))
    assert finding.span.row == 8
    assert "if weight_dtype is" in finding.message


FORWARD = """
import torch
from torch import nn

class {base}(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)

    def {method}(self, x):
        h = self.proj(x)
        return {text}
"""
TRAIN = """
import torch
from model import {base}

def train(x):
    model = {base}()
    with torch.autocast({region}):
        model(x).backward()
"""


def under_autocast(
    text: str, region: str = '"cuda", dtype=torch.bfloat16', base: str = "Block", method: str = "forward"
) -> dict[str, str]:
    return {
        "model.py": FORWARD.format(text=text, base=base, method=method),
        "train.py": TRAIN.format(region=region, base=base),
    }


def test_layer_under_autocast(tmp_path: Path) -> None:
    (finding,) = findings(RULE, written(tmp_path, under_autocast("torch.fft.rfft(h)")))
    assert finding.span.row == 11
    assert {place.path for place in finding.evidence} == {"model.py", "train.py"}


SILENT_UNDER_AUTOCAST = {
    "cast": under_autocast("torch.fft.rfft(h.float())"),
    "cast by autocast itself": under_autocast("torch.cdist(h, h)"),
    "softmax is float32": under_autocast("torch.quantile(h.softmax(-1), 0.5)"),
    "float16 FFTs": under_autocast("torch.fft.rfft(h)", '"cuda"'),
    "switched off": under_autocast("torch.fft.rfft(h)", '"cuda", enabled=False'),
    "CPU": under_autocast("torch.fft.rfft(h)", '"cpu", dtype=torch.bfloat16'),
    "loss": under_autocast("torch.fft.rfft(h)", base="SpectralLoss"),
    "initialization": under_autocast("torch.linalg.qr(h)", method="init_from"),
    "parameter": under_autocast("torch.fft.rfft(x)"),
}


@pytest.mark.parametrize("name", SILENT_UNDER_AUTOCAST)
def test_silent_under_autocast(name: str, tmp_path: Path) -> None:
    assert found(tmp_path, SILENT_UNDER_AUTOCAST[name]) == []


def test_decomposition_in_float16_autocast(tmp_path: Path) -> None:
    assert found(tmp_path, under_autocast("torch.linalg.svd(h)", '"cuda"')) == [11]


def test_optimizer_runs_outside_of_the_region(tmp_path: Path) -> None:
    source = """
        import torch

        class Soap(torch.optim.Optimizer):
            def orthogonal(self, m, o):
                power = m @ o
                return torch.linalg.qr(power)

        def train(model, x):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(x)
            loss.backward()
    """
    assert found(tmp_path, {"train.py": source}) == []


def test_function_that_a_forward_calls(tmp_path: Path) -> None:
    helper = """
        import torch

        def basis(a, b):
            return torch.linalg.svd(a @ b)

        def never_called(a, b):
            return torch.linalg.svd(a @ b)
    """
    files = under_autocast("basis(h, h)") | {"helper.py": helper}
    files["model.py"] = "from helper import basis\n" + files["model.py"]
    assert found(tmp_path, files) == [4]


@pytest.mark.parametrize(
    ("pin", "expected"),
    [("torch==1.13.1", [11]), ("torch>=1.13,<2.0", [11]), ("torch>=1.13", []), ("torch==2.1.0", []), ("", [])],
)
def test_interpolation_by_the_pinned_torch(pin: str, expected: list[int], tmp_path: Path) -> None:
    files = under_autocast("nn.functional.interpolate(h, scale_factor=2)") | {"requirements.txt": f"numpy\n{pin}\n"}
    assert found(tmp_path, files) == expected


def profile(backend: str, *ops: OpSupport) -> Profile:
    return Profile(devices=(ProfiledDevice(device=backend, backend=backend, ops=ops),))


def with_profile(tmp_path: Path, files: dict[str, str], seen: Profile) -> int:
    return len(findings(RULE, written(tmp_path, files).with_profile(seen)))


def test_profile_decides(tmp_path: Path) -> None:
    works = OpSupport("quantile", "bf16", "ok")
    fails = OpSupport("quantile", "bf16", "not-implemented")
    untried = OpSupport("quantile", "bf16", "-")
    files = cast("torch.quantile(h, 0.5)")
    assert with_profile(tmp_path / "a", files, profile("cuda", works)) == 0
    assert with_profile(tmp_path / "b", files, profile("cuda", fails)) == 1
    assert with_profile(tmp_path / "c", files, profile("cuda", untried)) == 1
    assert with_profile(tmp_path / "d", files, profile("mps")) == 0
    assert with_profile(tmp_path / "e", files, profile("mps", fails)) == 1


def test_profile_of_a_cpu_knows_what_cuda_can(tmp_path: Path) -> None:
    files = cast("F.interpolate(h, scale_factor=2, mode='bilinear', antialias=True)")
    assert with_profile(tmp_path / "cpu", files, profile("cpu")) == 1
    assert with_profile(tmp_path / "cuda", files, profile("cuda")) == 0


def test_result_that_is_written_into_a_buffer_has_no_fix(tmp_path: Path) -> None:
    (finding,) = findings(RULE, written(tmp_path, cast("torch.linalg.inv(h, out=y)")))
    assert finding.fixes == ()


HOSTILE = {
    "no arguments": "torch.linalg.svd()",
    "starred": "torch.linalg.solve(*h)",
    "keywords": "torch.cdist(**h)",
    "out": "torch.linalg.inv(h, out=y)",
    "nested": "torch.linalg.inv(torch.linalg.inv(h))",
    "interpolation of anything": "F.interpolate(h, *y)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_odd_sources_do_not_fail(name: str, tmp_path: Path) -> None:
    migrated([RULE], written(tmp_path, cast(HOSTILE[name])), unsafe=True)
