"""The tables of operations against the installed torch: results, mixes, autocast (CPU run, CUDA simulated)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from precfix.codemod.torch.tables.kernels import missing_dtypes
from precfix.codemod.torch.tables.operations import OPERATIONS, TorchOperation, operation
from torch._subclasses.fake_tensor import FakeTensorMode

from . import flow_calls
from .flow_calls import case_of, explained
from .soft import Soft

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
BF16, FP32, FP64, INT64 = torch.bfloat16, torch.float32, torch.float64, torch.int64
Dtypes = tuple[torch.dtype, ...]
COMPLEX = {torch.float16: torch.complex32, FP32: torch.complex64, FP64: torch.complex128}
RAISES = "raises"
NOT_RUN = {
    **dict.fromkeys(("cuda", "xpu", "pin_memory"), "moves to a device that is not there"),
    **dict.fromkeys(("backward", "retain_grad"), "gives no tensor"),
}
"""Entries that no test runs, and why."""

WIDE_ONLY = {"view_as_real", "imag", "istft"}
"""They take complex tensors, and no bfloat16 one exists."""
INTEGERS_ONLY = {name for name in OPERATIONS if name.startswith("bitwise_") or name in ("gcd", "lcm")}
READINGS = {name for name, op in OPERATIONS.items() if op.result in ("scalar", "array") and op.mix == "none"}
BIRTHS = {name for name, op in OPERATIONS.items() if not op.operands}
NOT_SIMULATED = {
    *(
        "affine_grid",
        "allclose",
        "argwhere",
        "coalesce",
        "conv_tbc",
        "copy_",
        "ctc_loss",
        "equal",
        "gaussian_nll_loss",
        "grad",
    ),
    *("grid_sample", "instance_norm", "linalg.lstsq", "masked_select", "multi_margin_loss", "new_tensor", "nonzero"),
    "multi_head_attention_forward",
    *("share_memory_", "to", "to_dense", "uniform_", "unique", "unique_consecutive", "__getitem__", "__setitem__"),
    *(name for name in OPERATIONS if name.startswith("init.")),
}
"""Simulated CUDA tensors cannot run them."""


def dtypes_in(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.dtype
    if isinstance(value, tuple | list):
        return tuple(dtypes_in(each) for each in value)
    return None


def tensors(shapes: tuple[tuple[int, ...], ...], dtypes: Dtypes) -> list[torch.Tensor]:
    """Values between 0 and 1; square matrices are positive definite, as their diagonal outweighs the rest."""
    device = flow_calls.device()
    return [tensor(shape, dtype, device).clone() for shape, dtype in zip(shapes, dtypes, strict=True)]


@cache
def tensor(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    values = torch.rand(shape, device=device) * 0.5 + 0.2
    if shape == flow_calls.SQ:
        values = (0.15 * (values + values.mT) + 2 * torch.eye(4, device=device)).clamp(max=0.95)
    return values.to(dtype) if dtype.is_floating_point else torch.ones(shape, dtype=dtype, device=device)


def measured(name: str, dtypes: Dtypes) -> object:
    """The dtypes of the result, or ``raises``."""
    case = case_of(name)
    operands = tensors(case.shapes, dtypes)
    try:
        return dtypes_in(case.call(*operands))
    except (RuntimeError, ValueError, TypeError, NotImplementedError):
        return RAISES


def promoted(dtypes: Dtypes) -> torch.dtype:
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = torch.promote_types(result, dtype)
    return result


def result_of(op: TorchOperation, dtypes: Dtypes) -> object:
    """What the table says of the result; ``dtypes`` are those of the operands in the table's order."""
    rule, first = op.result, dtypes[0]
    if rule.startswith("cast:"):
        return getattr(torch, rule.removeprefix("cast:"))
    if rule in ("promote", "where", "max-like"):
        return promoted(dtypes)
    if rule in ("promote-float", "first-float"):
        dtype = promoted(dtypes) if rule == "promote-float" else first
        return dtype if dtype.is_floating_point else FP32
    if rule == "sum-like":
        return first if first.is_floating_point else INT64
    if rule in ("bool", "int64"):
        return getattr(torch, rule)
    if rule == "values_indices":
        return (first, INT64)
    if rule == "tuple_of_each":
        return dtypes
    if rule == "complex":
        return COMPLEX.get(first, torch.complex64)
    if rule == "real":
        return first if first.is_floating_point else FP32
    if rule.startswith("operand:"):
        return dtypes[[each.position for each in op.operands].index(int(rule.removeprefix("operand:")))]
    if rule == "type_as":
        return BF16
    if rule in ("none", "scalar"):
        return None
    return first


def same(measured_dtypes: object, expected: object, op: TorchOperation) -> bool:
    if op.result == "tuple_of_first" and expected != RAISES:
        return isinstance(measured_dtypes, tuple) and set(measured_dtypes) <= {expected, torch.int32, INT64, None}
    return measured_dtypes == expected


def expected(op: TorchOperation, dtypes: Dtypes, device: str = "cpu", autocast: bool = False) -> object:
    policy = op.autocast(device) if autocast else ""
    if policy == "banned":
        return RAISES
    if policy in ("lower", "fp32", "set_opt_dtype"):
        target = BF16 if policy == "lower" else FP32
        dtypes = tuple(target if dtype.is_floating_point else dtype for dtype in dtypes)
    if policy == "promote":
        dtypes = tuple(promoted(dtypes) for _ in dtypes)
    if raises(op, dtypes, device):
        return RAISES
    return result_of(op, tuple(BF16 for _ in dtypes) if policy == "agree-lower" else dtypes)


def raises(op: TorchOperation, dtypes: Dtypes, device: str) -> bool:
    """Whether operands of these dtypes raise, autocast having cast what it casts."""
    if {str(dtype).removeprefix("torch.") for dtype in dtypes} & set(missing_dtypes(op.name, device)):
        return True
    mix = op.mix_on_cuda if device != "cpu" and op.mix_on_cuda else op.mix
    mix = mix if len(set(dtypes)) > 1 else "none"
    if mix == "raises-narrow-weight":
        return len(set(dtypes[1:])) > 1 or dtypes[1].itemsize < dtypes[0].itemsize
    if mix == "raises-mask":
        return not (len(set(dtypes[:3])) == 1 and dtypes[3] == FP32)
    return mix in ("raises", "raises-destination")


@cache
def fake() -> FakeTensorMode:
    """The first one imports half of torch's compiler: not where tests are only collected."""
    return FakeTensorMode()


@contextmanager
def simulated_cuda() -> Iterator[None]:
    """Fake CUDA tensors under CUDA autocast: the dispatcher casts as on a GPU, no kernel runs."""
    with fake(), flow_calls.on_device("cuda"), torch.no_grad():
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", BF16)
        try:
            yield
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.set_autocast_dtype("cuda", torch.float16)


def rows(*, wide: bool = False) -> list[tuple[str, TorchOperation]]:
    """The entries with a case; ``wide``: those that take 16-bit operands."""
    elsewhere = {*NOT_RUN, *READINGS, *BIRTHS, *(WIDE_ONLY | INTEGERS_ONLY if wide else ())}
    return [(name, op) for name, op in OPERATIONS.items() if name not in elsewhere]


def pure(count: int) -> list[Dtypes]:
    return [(BF16,) * count, (FP32,) * count]


def mixed(count: int) -> list[Dtypes]:
    """Every way to mix two dtypes; for many operands only those where one differs from all others."""
    every = itertools.product((BF16, FP32), repeat=count)
    return [each for each in every if len(set(each)) > 1 and (count < 5 or len(set(each[1:])) == 1)]


def operands_of(name: str) -> int:
    return len(case_of(name).shapes)


def check(name: str, op: TorchOperation, dtypes: Dtypes, device: str = "cpu", autocast: bool = False) -> None:
    found, told = measured(name, dtypes), expected(op, dtypes, device, autocast)
    assert same(found, told, op), f"{name}{dtypes}: torch gives {found}, the table says {told}"


def without_autocast(name: str, op: TorchOperation) -> None:
    for dtypes in pure(operands_of(name)) + mixed(operands_of(name)):
        if not (name.startswith("conv_transpose") and bias_goes_unseen(dtypes)):
            check(name, op, dtypes)


def bias_goes_unseen(dtypes: Dtypes) -> bool:
    """oneDNN refuses another dtype of a transposed convolution's bias, and is used where a CPU has AVX-512."""
    return len(set(dtypes[:2])) == 1 and not torch.ops.mkldnn._is_mkldnn_bf16_supported()


@pytest.mark.parametrize("name", sorted(WIDE_ONLY))
def test_operations_on_complex_tensors(name: str) -> None:
    for dtype in (FP32, FP64):
        check(name, OPERATIONS[name], (dtype,))


def integers(name: str, op: TorchOperation) -> None:
    """What integers give, where the operation takes them at all."""
    if name in WIDE_ONLY:
        return
    for dtype in (INT64, torch.int32):
        dtypes = (dtype,) * operands_of(name)
        found = measured(name, dtypes)
        assert op.result == "real" or found == RAISES or same(found, result_of(op, dtypes), op), dtype


def cpu_autocast(name: str, op: TorchOperation) -> None:
    with torch.autocast("cpu", dtype=BF16):
        for dtypes in pure(operands_of(name)) + mixed(operands_of(name)):
            check(name, op, dtypes, autocast=True)


def cuda_autocast_simulated(name: str, op: TorchOperation) -> None:
    """Kernels do not run here, so what they refuse is not seen: only results and what autocast itself refuses."""
    policy = op.autocast("cuda")
    with simulated_cuda():
        for dtypes in pure(operands_of(name)) + (mixed(operands_of(name)) if policy else []):
            if policy == "banned" or expected(op, dtypes, "cuda", True) != RAISES:
                check(name, op, dtypes, "cuda", autocast=True)


def missing_kernels_on_the_cpu(name: str, op: TorchOperation) -> None:
    for dtype in (BF16, torch.float16):
        refused = measured(name, (dtype,) * operands_of(name)) == RAISES
        assert refused == (str(dtype).removeprefix("torch.") in missing_dtypes(name, "cpu"))


@pytest.mark.parametrize(("name", "op"), rows(), ids=[name for name, _ in rows()])
def test_each_operation_is_as_its_row_says(name: str, op: TorchOperation) -> None:
    wide = name not in WIDE_ONLY | INTEGERS_ONLY
    with Soft() as soft:
        with soft("integers"):
            integers(name, op)
        for label, holds, applies in (
            ("without autocast", without_autocast, wide),
            ("CPU autocast", cpu_autocast, wide and name != "init.orthogonal_"),
            ("CUDA autocast, simulated", cuda_autocast_simulated, wide and name not in NOT_SIMULATED),
            ("missing kernels on the CPU", missing_kernels_on_the_cpu, wide),
        ):
            if applies:
                with soft(label):
                    holds(name, op)


def test_orthogonal_runs_under_cpu_autocast_alone() -> None:
    """Autocast runs its qr in float32; what it fills keeps its dtype."""
    assert "bfloat16" in missing_dtypes("init.orthogonal_", "cpu")
    with torch.autocast("cpu", dtype=BF16):
        assert torch.nn.init.orthogonal_(torch.empty(4, 4, dtype=BF16)).dtype == BF16


def test_what_is_not_run_is_in_the_table() -> None:
    assert {*NOT_RUN, *NOT_SIMULATED, *WIDE_ONLY} <= set(OPERATIONS)


def test_every_word_is_explained() -> None:
    results, mixes = explained("operations.txt", "Result"), explained("operations.txt", "Mix")
    for op in OPERATIONS.values():
        assert op.result in results or isinstance(getattr(torch, op.result.removeprefix("cast:")), torch.dtype)
        assert op.mix in mixes
        assert op.mix_on_cuda in {"", *mixes}
        assert op.mix == "none" or len(op.operands) > 1 or op.operands[0].spread
        positions = [operand.position for operand in op.operands]
        assert positions == sorted(set(positions))


@pytest.mark.parametrize("name", ["addr", "huber_loss"])
def test_mixes_that_raise_only_in_backward(name: str) -> None:
    assert OPERATIONS[name].mix == "raises-backward"
    case = case_of(name)
    for dtypes in mixed(len(case.shapes))[:2]:
        result = case.call(*[each.requires_grad_() for each in tensors(case.shapes, dtypes)])
        with pytest.raises(RuntimeError, match="dtype"):
            result.sum().backward()


def test_scalars_without_dimensions_do_not_widen() -> None:
    assert OPERATIONS["tensor"].zero_dim == "literal"
    assert (torch.ones(2, dtype=BF16) * torch.tensor(0.5)).dtype == BF16
    for name, op in rows(wide=True):
        if op.zero_dim == "always" and not missing_dtypes(name, "cpu"):
            case = case_of(name)
            assert case.call(*tensors(case.shapes, (FP32,) * len(case.shapes))).dim() == 0, name
        if op.zero_dim == "without-dim" and op.result not in ("max-like", "tuple_of_first"):
            case = case_of(name)
            assert case.call(*tensors(case.shapes, (FP32,))).dim() == 0, name


@pytest.mark.parametrize("name", sorted(READINGS))
def test_readings_give_no_tensor(name: str) -> None:
    value = torch.ones((), dtype=torch.int64 if name == "__index__" else FP32)
    if name == "__len__":
        value = value.reshape(1)
    read = getattr(value, name)
    assert not isinstance(read() if callable(read) else read, torch.Tensor)


def test_bfloat16_has_no_array() -> None:
    with pytest.raises(TypeError, match="unsupported ScalarType BFloat16"):
        torch.ones(1, dtype=BF16).numpy()
    assert torch.ones(1, dtype=torch.float16).numpy().dtype == "float16"


BORN = {
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn", "eye"), (2,)),
    "range": (0, 3),
    **dict.fromkeys(("linspace", "logspace"), (0, 1, 4)),
    **dict.fromkeys(("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"), (4,)),
    "empty_strided": ((2,), (1,)),
    "normal": (0.0, 1.0, (2,)),
    "fft.fftfreq": (4,),
    "fft.rfftfreq": (4,),
    "scalar_tensor": (1,),
    "randint": (3, (2,)),
    "randperm": (3,),
    "tril_indices": (2, 2),
    "triu_indices": (2, 2),
}


def test_births() -> None:
    assert {*BORN, "arange", "full", "tensor", "as_tensor", "asarray", "from_numpy"} == BIRTHS
    for name, arguments in BORN.items():
        rule = OPERATIONS[name].result
        assert flow_calls.found(name)(*arguments).dtype == (INT64 if rule == "factory:int64" else FP32), name


def test_births_that_follow_their_arguments() -> None:
    assert {OPERATIONS[name].result for name in ("arange", "full")} == {"arguments"}
    assert [torch.arange(3).dtype, torch.arange(3.0).dtype, torch.arange(0, 1, 0.5).dtype] == [INT64, FP32, FP32]
    assert [torch.full((1,), fill).dtype for fill in (1, 1.0, True)] == [INT64, FP32, torch.bool]
    assert torch.full((1,), 1, dtype=BF16).dtype == BF16
    for name in ("tensor", "as_tensor", "asarray"):
        make = getattr(torch, name)
        assert OPERATIONS[name].result == "data"
        assert [make(data).dtype for data in ([1], [1.0], [True], [1, 1.0])] == [INT64, FP32, torch.bool, FP32]
        assert make(torch.ones(1, dtype=BF16)).dtype == BF16


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("torch.nn.functional.linear", "linear"),
        ("torch.matmul", "matmul"),
        ("torch.Tensor.matmul", "matmul"),
        ("matmul", "matmul"),
        ("torch.linalg.norm", "linalg.norm"),
        ("torch.norm", "norm"),
        ("torch.special.expit", "sigmoid"),
        ("torch.special.erf", "erf"),
        ("torch.nn.init.normal_", "init.normal_"),
        ("torch.fft.rfft", "fft.rfft"),
        ("torch.Tensor.add_", "add_"),
    ],
)
def test_names_find_their_entry(spelled: str, name: str) -> None:
    found = operation(spelled)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "spelled",
    ["numpy.stack", "os.path.split", "torch.nn.Linear", "torch.utils.data.random_split", "torch.cuda.stream", ""],
)
def test_other_names_find_nothing(spelled: str) -> None:
    assert operation(spelled) is None


def test_where_as_a_method() -> None:
    where = OPERATIONS["where"]
    assert [each.position for each in where.operands_in(method=True)] == [0, 2]
    assert [each.position for each in where.operands_in(method=False)] == [1, 2]
    mask = torch.ones(2, dtype=torch.bool)
    assert torch.ones(2, dtype=BF16).where(mask, torch.ones(2)).dtype == FP32
