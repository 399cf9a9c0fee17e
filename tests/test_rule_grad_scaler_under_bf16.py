"""PF101: an active GradScaler under bfloat16, in the shapes real projects give it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from precfix.codemod import engine
from precfix.codemod.model import Applicability
from precfix.codemod.profiles.profile import Fact, Profile, ProfiledDevice

from .project_tree import open_tree, write_tree
from .scaler_snippets import TARGET, findings, fixed, rule_named

RULE = rule_named("grad_scaler_under_bf16")
HEAD = "import torch\nfrom torch.cuda.amp import GradScaler, autocast\n\n"
STEP = """
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def loop(
    before: str, region: str = "with autocast(dtype=dtype):", head: str = "def train(model, optimizer, data, args):"
) -> str:
    """A training function: ``before`` stands above the loop, ``region`` opens autocast."""
    lines = "".join(f"    {line}\n" for line in before.strip().splitlines())
    return f"{HEAD}{head}\n{lines}    for x in data:\n        {region}\n            loss = model(x)" + STEP


def migrated(root: Path, files: dict[str, str]) -> dict[str, str]:
    """Every file after the fixes; all of them parse, and a second run changes nothing."""
    report = engine.migrate(open_tree(root, files), [RULE], TARGET, engine.Options())
    assert not report.failed_rules
    assert not report.skipped
    texts = {path: (root / path).read_text() for path in files}
    texts.update({change.path: change.after.decode() for change in report.changes})
    for text in texts.values():
        ast.parse(text)
    again = engine.migrate(open_tree(root / "again", texts), [RULE], TARGET, engine.Options())
    assert not again.changes
    return texts


# --- the condition that a run-time choice gets ------------------------------------------------------------------------

CONDITIONS = {
    "default overwritten by ifs": (
        """
scaler = GradScaler()
dtype = torch.bfloat16
if args.mix == "fp16":
    dtype = torch.float16
elif args.mix == "fp32":
    dtype = torch.float32
""",
        'GradScaler(enabled=(args.mix == "fp16"))',
    ),
    "default overwritten later by a flag": (
        "scaler = GradScaler()\ndtype = torch.float16\nif args.bf16:\n    dtype = torch.bfloat16",
        "GradScaler(enabled=not args.bf16)",
    ),
    "several words for bfloat16": (
        """
scaler = GradScaler()
dtype = torch.float16
if args.precision == "bf16":
    dtype = torch.bfloat16
elif args.precision == "bfloat16":
    dtype = torch.bfloat16
""",
        'GradScaler(enabled=(args.precision not in ("bf16", "bfloat16")))',
    ),
    "several words for float16": (
        """
scaler = GradScaler()
dtype = {"fp16": torch.float16, "half": torch.float16, "bf16": torch.bfloat16}[args.precision]
""",
        'GradScaler(enabled=(args.precision in ("fp16", "half")))',
    ),
    "the dtype is known before": (
        "dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16\nscaler = GradScaler()",
        "GradScaler(enabled=(dtype == torch.float16))",
    ),
    "the machine is asked again": (
        "scaler = GradScaler()\ndtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16",
        "GradScaler(enabled=not torch.cuda.is_bf16_supported())",
    ),
    "enabled by position": (
        "dtype = torch.bfloat16 if args.bf16 else torch.float16\nscaler = GradScaler(1024.0, 2.0, 0.5, 2000, args.amp)",
        "GradScaler(1024.0, 2.0, 0.5, 2000, args.amp and (dtype == torch.float16))",
    ),
    "beside another argument": (
        "dtype = torch.bfloat16 if args.bf16 else torch.half\nscaler = GradScaler(init_scale=2**10, enabled=args.amp)",
        "GradScaler(init_scale=2**10, enabled=args.amp and (dtype == torch.float16))",
    ),
    "the switch says nearly the same already": (
        """
dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}[args.dtype]
scaler = GradScaler(enabled=args.dtype in ("float16", "bfloat16"))
""",
        'GradScaler(enabled=args.dtype in ("float16", "bfloat16") and (dtype == torch.float16))',
    ),
    "getattr with choices": (
        "scaler = GradScaler()\ndtype = getattr(torch, args.amp_dtype)",
        'GradScaler(enabled=(args.amp_dtype == "float16"))',
    ),
    "annotated": (
        "dtype = torch.bfloat16 if args.bf16 else torch.float16\nscaler: GradScaler = GradScaler()",
        "scaler: GradScaler = GradScaler(enabled=(dtype == torch.float16))",
    ),
    "under no None": (
        "dtype = torch.bfloat16 if args.bf16 else torch.float16\nscaler = GradScaler() if args.amp else None",
        "GradScaler(enabled=(dtype == torch.float16)) if args.amp else None",
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition(name: str, tmp_path: Path) -> None:
    before, wanted = CONDITIONS[name]
    assert wanted in fixed(RULE, tmp_path, loop(before))


PARSER = """
import argparse

def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp-dtype", default="CHOSEN", choices=["float16", "CHOSEN"])
    return parser.parse_args()
"""


@pytest.mark.parametrize(("chosen", "found"), [("bfloat16", 1), ("float32", 0)])
def test_choices_of_a_flag_decide(chosen: str, found: int, tmp_path: Path) -> None:
    source = loop("scaler = GradScaler()\ndtype = getattr(torch, args.amp_dtype)") + PARSER.replace("CHOSEN", chosen)
    assert len(findings(RULE, tmp_path, source)) == found


def test_a_condition_is_never_written_twice(tmp_path: Path) -> None:
    """The later ``if`` speaks of the value the dtype had before: no reason to believe the scaler active still."""
    source = """
import torch
from torch.cuda.amp import GradScaler, autocast

class Model:
    def __init__(self, opt):
        self.use_amp = opt.use_amp
        self.amp_dtype = torch.bfloat16 if opt.amp_bf16 else torch.float16
        if self.use_amp:
            if self.amp_dtype == torch.float16 and not opt.supports_half:
                self.amp_dtype = torch.bfloat16
        self.init_training()

    def init_training(self):
        self.scaler = GradScaler(enabled=self.use_amp)

    def optimize(self, x):
        with autocast(dtype=self.amp_dtype, enabled=self.use_amp):
            loss = self.net(x)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
    text = fixed(RULE, tmp_path, source)
    assert text.count("(self.amp_dtype == torch.float16)") == 1
    assert "GradScaler(enabled=self.use_amp and (self.amp_dtype == torch.float16))" in text


# --- attributes of self: only where they have their value already -----------------------------------------------------

CLASS = """
import torch
from torch.cuda.amp import GradScaler, autocast

class Trainer:
    def __init__(self, config):
        FIRST
        SECOND

    def set_up(self):
        SETUP

    def step(self, model, optimizer, x):
        with autocast(dtype=self.dtype):
            loss = model(x)
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()
"""
DTYPE = "self.dtype = torch.bfloat16 if config.kind == 0 else torch.float16"
SCALER = "self.scaler = GradScaler()"
ON_SELF = "GradScaler(enabled=(self.dtype == torch.float16))"


@pytest.mark.parametrize(
    ("first", "second", "setup", "knows"),
    [
        (DTYPE, SCALER, "pass", True),
        (SCALER, DTYPE, "pass", False),
        (DTYPE, "self.set_up()", SCALER, True),
        ("self.set_up()", DTYPE, SCALER, False),
        (DTYPE, "pass", SCALER, True),
        (SCALER, "self.config = config", DTYPE.replace("config", "self.config"), False),
    ],
)
def test_attribute_of_self(first: str, second: str, setup: str, knows: bool, tmp_path: Path) -> None:
    source = CLASS.replace("FIRST", first).replace("SECOND", second).replace("SETUP", setup)
    assert len(findings(RULE, tmp_path / "found", source)) == 1
    assert (ON_SELF in fixed(RULE, tmp_path, source)) is knows


def test_setting_of_self_is_spelled_in_full(tmp_path: Path) -> None:
    source = CLASS.replace("FIRST", "self.conf = config").replace("SECOND", "self.set_up()").replace("SETUP", SCALER)
    source = source.replace("dtype=self.dtype", "dtype=torch.bfloat16 if self.conf.amp == 'bf16' else torch.float16")
    assert 'GradScaler(enabled=(self.conf.amp != "bf16"))' in fixed(RULE, tmp_path, source)


# --- a parameter of the function that enters the region ---------------------------------------------------------------

PASSED = """
import torch
from torch.cuda.amp import GradScaler, autocast

def run(rank, hps):
    scaler = GradScaler(enabled=hps.train.fp16_run)
    for epoch in range(3):
        train_epoch(HANDED, model, optimizer, scaler)

def train_epoch(settings, model, optimizer, scaler):
    dtype = torch.bfloat16 if settings.half_type == "bf16" else torch.float16
    for x in data:
        with autocast(enabled=settings.fp16_run, dtype=dtype):
            loss = model(x)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def test_condition_on_a_parameter_in_the_words_of_the_caller(tmp_path: Path) -> None:
    text = fixed(RULE, tmp_path, PASSED.replace("HANDED", "hps.train"))
    assert 'GradScaler(enabled=hps.train.fp16_run and (hps.train.half_type != "bf16"))' in text


def test_condition_on_what_is_computed_later_is_not_written(tmp_path: Path) -> None:
    source = PASSED.replace("HANDED", "load(epoch)")
    assert len(findings(RULE, tmp_path / "found", source)) == 1
    assert fixed(RULE, tmp_path, source) == source.lstrip("\n")


def test_dtype_handed_over_as_an_argument(tmp_path: Path) -> None:
    source = """
import torch
from torch.cuda.amp import GradScaler, autocast

def main(args):
    dtype = torch.bfloat16 if args.bf16 else torch.float16
    train(model, optimizer, dtype, GradScaler())

def train(model, optimizer, dtype, scaler):
    with autocast(dtype=dtype):
        loss = model(x)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    assert "GradScaler(enabled=(dtype == torch.float16))" in fixed(RULE, tmp_path, source)


# --- found across functions, tuples, classes, files -------------------------------------------------------------------

RETURNED = {
    "helper.py": """
from torch.cuda.amp import GradScaler

def init_opt(model, use_bfloat16):
    optimizer = make(model)
    scaler = GradScaler() if use_bfloat16 else None
    return optimizer, scaler, None
""",
    "train.py": """
import torch
from helper import init_opt

def train(model, data, use_bfloat16):
    optimizer, scaler, scheduler = init_opt(model, use_bfloat16)
    for x in data:
        with torch.cuda.amp.autocast(dtype=torch.REGION, enabled=use_bfloat16):
            loss = model(x)
        if use_bfloat16:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
""",
}


def test_scaler_in_a_returned_tuple(tmp_path: Path) -> None:
    files = {name: text.replace("REGION", "bfloat16") for name, text in RETURNED.items()}
    assert "GradScaler(enabled=False) if use_bfloat16 else None" in migrated(tmp_path, files)["helper.py"]


def test_a_switch_that_is_only_named_bf16_is_no_proof(tmp_path: Path) -> None:
    """The step computes in float16, whatever the switch is called: without its scaler it would be worse."""
    files = {name: text.replace("REGION", "float16") for name, text in RETURNED.items()}
    assert migrated(tmp_path, files)["helper.py"] == files["helper.py"].lstrip("\n")


WRAPPER = """
import torch

class NativeScalerWithGradNormCount:
    def __init__(self, enabled=True):
        self._scaler = torch.cuda.amp.GradScaler(ENABLED)

    def __call__(self, loss, optimizer):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()
"""
USER = """
import torch
from misc import NativeScalerWithGradNormCount as NativeScaler

def main(args, model, optimizer):
    dtype = torch.bfloat16 if args.bf16 else torch.float16
    loss_scaler = NativeScaler(GIVEN)
    with torch.cuda.amp.autocast(dtype=dtype):
        loss = model(x)
    loss_scaler(loss, optimizer)
"""


@pytest.mark.parametrize(
    ("enabled", "given", "after"),
    [
        ("", "", "NativeScaler()"),
        ("enabled=enabled", "", "NativeScaler(enabled=(dtype == torch.float16))"),
        ("enabled=enabled", "args.amp", "NativeScaler(args.amp and (dtype == torch.float16))"),
        ("enabled=enabled", "enabled=args.amp", "NativeScaler(enabled=args.amp and (dtype == torch.float16))"),
    ],
)
def test_wrapper_beside_the_script_that_uses_it(enabled: str, given: str, after: str, tmp_path: Path) -> None:
    """Two folders hold a ``misc``: the one beside the script is meant."""
    files = {
        "one-model/misc.py": WRAPPER.replace("ENABLED", enabled),
        "one-model/run.py": USER.replace("GIVEN", given),
        "other/misc.py": "class NativeScalerWithGradNormCount:\n    pass\n",
    }
    report = engine.check(open_tree(tmp_path / "found", files), [RULE], TARGET)
    assert [finding.path for finding in report.findings] == ["one-model/run.py"]
    assert after in migrated(tmp_path, files)["one-model/run.py"]


@pytest.mark.parametrize("given", ["dtype == torch.float16", "enabled=not args.bf16", "enabled=False"])
def test_wrapper_that_is_told_the_dtype(given: str, tmp_path: Path) -> None:
    wrapper = WRAPPER.replace("ENABLED", "enabled=enabled")
    assert not findings(RULE, tmp_path, USER.replace("GIVEN", given), misc=wrapper)


def test_wrapper_that_decides_by_itself(tmp_path: Path) -> None:
    wrapper = WRAPPER.replace("enabled=True", "args").replace("ENABLED", "enabled=args.bf16 is False")
    wrapper_of_half = wrapper.replace("args.bf16 is False", 'args.precision in ["fp16"]')
    user = USER.replace("GIVEN", "args").replace("args.bf16 else", 'args.precision == "bf16" else')
    assert not findings(RULE, tmp_path, user, misc=wrapper_of_half)


@pytest.mark.parametrize("reading", ['loss_scaler.state_dict()["scale"]', "none"])
def test_wrapper_whose_scale_is_logged(reading: str, tmp_path: Path) -> None:
    """The state of a disabled scaler is empty: reading the scale from it would raise a KeyError."""
    user = USER.replace("GIVEN", "").rstrip() + f"\n    log({reading})\n"
    wrapper = (
        WRAPPER.replace("ENABLED", "enabled=enabled")
        + """
    def state_dict(self):
        return self._scaler.state_dict()
"""
    )
    report = engine.check(open_tree(tmp_path, {"run.py": user, "misc.py": wrapper}), [RULE], TARGET)
    assert [len(finding.fixes) for finding in report.findings] == [0 if "scale" in reading else 1]


def test_trainer_object_that_gets_the_scaler(tmp_path: Path) -> None:
    files = {
        "executor.py": """
import torch

class Executor:
    def train(self, model, optimizer, scaler, info):
        dtype = info["dtype"]
        if dtype == "fp16":
            dtype = torch.float16
        elif dtype == "bf16":
            dtype = torch.bfloat16
        with torch.cuda.amp.autocast(enabled=scaler is not None, dtype=dtype):
            loss = model(x)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
""",
        "main.py": """
import torch
from executor import Executor

def main(args, info):
    executor = Executor()
    scaler = torch.cuda.amp.GradScaler() if args.use_amp else None
    executor.train(model, optimizer, scaler, info)
""",
    }
    report = engine.check(open_tree(tmp_path, files), [RULE], TARGET)
    assert [finding.path for finding in report.findings] == ["main.py"]
    assert not report.findings[0].fixes  # what decides is not in sight where the scaler is made


def test_wrapper_through_star_import(tmp_path: Path) -> None:
    files = {
        "utils/__init__.py": "from .scaling import *\n",
        "utils/scaling.py": WRAPPER.replace("ENABLED", ""),
        "run.py": USER.replace("from misc", "from utils").replace("GIVEN", ""),
    }
    report = engine.check(open_tree(tmp_path, files), [RULE], TARGET)
    assert [finding.path for finding in report.findings] == ["run.py"]


OPTIONS = """
import torch
from torch.cuda.amp import GradScaler, autocast

def options(args):
    if args.old:
        return {"enabled": args.amp, "dtype": torch.bfloat16}
    return {"device_type": "cuda", "enabled": args.amp, "dtype": torch.OTHER}

def train(model, optimizer, x, args):
    scaler = GradScaler(enabled=args.amp)
    with autocast(**options(args)):
        loss = model(x)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(("other", "found"), [("bfloat16", 1), ("float16", 0)])
def test_options_of_autocast_in_a_dict(other: str, found: int, tmp_path: Path) -> None:
    assert len(findings(RULE, tmp_path, OPTIONS.replace("OTHER", other))) == found


def test_alternative_contexts_in_a_table(tmp_path: Path) -> None:
    context = '{"bf16": autocast(dtype=torch.bfloat16), "fp16": autocast(dtype=torch.float16)}[args.precision]'
    assert len(findings(RULE, tmp_path, loop("scaler = GradScaler()", f"with {context}:"))) == 1
    guarded = loop('scaler = GradScaler(enabled=args.precision == "fp16")', f"with {context}:")
    assert not findings(RULE, tmp_path / "guarded", guarded)


def test_alternative_branches(tmp_path: Path) -> None:
    """bf16 or fp16 by a flag is a choice of the run; both in one step is a mixture, which is left alone."""
    source = """
import torch
from torch.cuda.amp import GradScaler, autocast

def train(model, optimizer, x, args):
    scaler = GradScaler()
    if args.bf16:
        with autocast(dtype=torch.bfloat16):
            loss = model(x)
    ELSE
        with autocast(dtype=torch.float16):
            loss = model(x)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    assert len(findings(RULE, tmp_path / "choice", source.replace("ELSE", "else:"))) == 1
    assert not findings(RULE, tmp_path / "mixture", source.replace("ELSE", "if args.more:"))


def test_region_in_a_helper_of_another_file(tmp_path: Path) -> None:
    files = {
        "precision.py": """
import torch

def get_autocast(precision):
    if precision == "amp_bf16":
        return lambda: torch.autocast("cuda", dtype=torch.bfloat16)
    return torch.autocast("cuda", dtype=torch.float16)
""",
        "train.py": """
import torch
from precision import get_autocast

def train(model, optimizer, x, args):
    scaler = torch.cuda.amp.GradScaler(GUARD)
    autocast = get_autocast(args.precision)
    with autocast():
        loss = model(x)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    }
    wrong = {path: text.replace("GUARD", "") for path, text in files.items()}
    assert len(engine.check(open_tree(tmp_path / "wrong", wrong), [RULE], TARGET).findings) == 1
    right = {path: text.replace("GUARD", 'enabled=args.precision == "amp"') for path, text in files.items()}
    assert not engine.check(open_tree(tmp_path / "right", right), [RULE], TARGET).findings


# --- look-alikes ------------------------------------------------------------------------------------------------------

DTYPES = "dtype = torch.bfloat16 if args.bf16 else torch.float16\n"
SILENT = {
    "switch of its own": DTYPES + "scaler = GradScaler(enabled=args.use_grad_scaler)",
    "a flag that says no": DTYPES.replace("args.bf16", "not args.no_bf16")
    + "scaler = GradScaler(enabled=args.no_bf16)",
    "asked of the machine": """
dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
scaler = GradScaler(enabled=not torch.cuda.is_bf16_supported())
""",
    "guard clause": DTYPES + 'assert not args.bf16, "no bf16 here"\nscaler = GradScaler()',
    "through a variable": DTYPES + "use_scaler = dtype == torch.float16\nscaler = GradScaler(enabled=use_scaler)",
    "only fp16 in words": 'dtype = getattr(torch, "float16")\nscaler = GradScaler()',
    "never used": DTYPES + "unused = GradScaler()\nscaler = other()",
}


@pytest.mark.parametrize("name", SILENT)
def test_look_alike(name: str, tmp_path: Path) -> None:
    assert not findings(RULE, tmp_path, loop(SILENT[name]))


def test_use_behind_a_test_of_precision(tmp_path: Path) -> None:
    source = """
import torch
from torch.cuda.amp import GradScaler, autocast

class Trainer:
    def __init__(self, precision):
        self.precision = precision
        self.scaler = GradScaler()

    def uses_scaling(self):
        return self.precision == "fp16" and self.scaler.is_enabled()

    def step(self, model, optimizer, x):
        scaling = self.uses_scaling()
        with autocast(dtype=torch.bfloat16 if self.precision == "bf16" else torch.float16):
            loss = model(x)
        if scaling:
            self.scaler.scale(loss).backward()
            self.scaler.step(optimizer)
            self.scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""
    assert not findings(RULE, tmp_path, source)


def test_another_function_with_its_own_step(tmp_path: Path) -> None:
    """The bf16 loop has no scaler, and the loop with a scaler is not bf16."""
    source = """
import torch
from torch.cuda.amp import GradScaler, autocast

def finetune(model, optimizer, x):
    with autocast(dtype=torch.bfloat16):
        loss = model(x)
    loss.backward()
    optimizer.step()

def train(model, optimizer, x):
    scaler = GradScaler()
    scaler.scale(model(x)).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    assert not findings(RULE, tmp_path, source)


# --- dropping ---------------------------------------------------------------------------------------------------------

BF16 = "with autocast(dtype=torch.bfloat16):"
KEPT = {
    "somebody else steps": loop("scaler = GradScaler()", BF16).replace("scaler.step(optimizer)", "optimizer.step()"),
    "the gradients go elsewhere": loop("scaler = GradScaler()", BF16).replace(
        "        scaler.step(optimizer)\n        scaler.update()\n", "        collect(model)\n"
    ),
    "made in a try": loop("try:\n    scaler = GradScaler()\nexcept RuntimeError:\n    raise", BF16),
    "deleted": loop("scaler = GradScaler()", BF16) + "    del scaler\n",
    "the scale is read": loop("scaler = GradScaler()", BF16).replace(
        "scaler.update()", "scaler.update()\n        log(scaler.get_scale())"
    ),
    "global": loop("global scaler\nscaler = GradScaler()", BF16),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept_but_disabled(name: str, tmp_path: Path) -> None:
    text = fixed(RULE, tmp_path, KEPT[name])
    assert "GradScaler(enabled=False)" in text
    assert text.count("scaler.") == KEPT[name].count("scaler.")


DROPPED = {
    "plain": loop("scaler = GradScaler()", BF16),
    "annotated": loop("scaler: GradScaler = GradScaler()", BF16),
    "dtype by position": loop("scaler = GradScaler()", "with autocast(True, torch.bfloat16):"),
    "in the loop": loop("pass", BF16).replace("        with", "        scaler = GradScaler()\n        with"),
    "result of the step": loop("scaler = GradScaler()", BF16).replace("scaler.step(", "done = scaler.step("),
    "both switched alike": loop("scaler = GradScaler(enabled=args.amp)", BF16.replace(")", ", enabled=args.amp)")),
}


@pytest.mark.parametrize("name", DROPPED)
def test_dropped(name: str, tmp_path: Path) -> None:
    text = fixed(RULE, tmp_path, DROPPED[name])
    assert "caler" not in text
    assert "        loss.backward()\n" in text
    assert "optimizer.step()\n" in text


def test_context_kept_in_an_attribute(tmp_path: Path) -> None:
    source = """
import contextlib
import torch

class Trainer:
    def __init__(self, device, amp):
        self.scaler = torch.amp.GradScaler(device=device, enabled=amp)
        if amp:
            self.context = torch.autocast(device_type=device, dtype=torch.bfloat16, enabled=amp)
        else:
            self.context = contextlib.nullcontext()

    def step(self, model, optimizer, x):
        with self.context:
            loss = model(x)
        self.scaler.scale(
            loss
        ).backward()  # plain where amp is off
        self.scaler.unscale_(optimizer)  # clip true gradients
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.scaler.step(optimizer)
        self.scaler.update()
"""
    text = fixed(RULE, tmp_path, source)
    assert "caler" not in text
    assert "        loss.backward()  # plain where amp is off\n" in text
    assert "clip_grad_norm_(model.parameters(), 1.0)\n        optimizer.step()\n" in text


# --- weights ----------------------------------------------------------------------------------------------------------

WEIGHTS = """
import torch
from torch.cuda.amp import GradScaler, autocast
from transformers import AutoModel

def train(data):
    MODEL
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = GradScaler(GIVEN)
    for x in data:
        REGION
            loss = model(x)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def weights(model: str, region: str = "if True:", given: str = "") -> str:
    return WEIGHTS.replace("MODEL", model).replace("REGION", region).replace("GIVEN", given)


BF16_MODELS = (
    "model = Net().cuda().bfloat16()",
    "model = Net().to('cuda', dtype=torch.bfloat16)",
    "model = AutoModel.from_pretrained('x', torch_dtype=torch.bfloat16)",
)


@pytest.mark.parametrize("model", BF16_MODELS)
def test_bf16_weights_without_autocast(model: str, tmp_path: Path) -> None:
    (finding,) = findings(RULE, tmp_path / "found", weights(model))
    assert "_amp_foreach_non_finite_check_and_unscale_cuda" in finding.message
    assert "caler" not in fixed(RULE, tmp_path, weights(model))


@pytest.mark.parametrize("model", BF16_MODELS)
def test_bf16_weights_under_the_default_of_autocast(model: str, tmp_path: Path) -> None:
    """Without its scaler a float16 region would lose gradients: it follows the weights."""
    text = fixed(RULE, tmp_path, weights(model, "with autocast():"))
    assert "GradScaler(enabled=False)" in text
    assert "with autocast(dtype=torch.bfloat16):" in text


@pytest.mark.parametrize(("fails", "number"), [(True, 1), (None, 1), (False, 0)])
def test_a_profile_that_saw_bf16_gradients_unscaled_on_cuda_is_believed(
    fails: bool | None, number: int, tmp_path: Path
) -> None:
    facts = (Fact("scaler-with-bf16-gradients", fails),)
    profile = Profile(devices=(ProfiledDevice("cuda:0", "cuda", facts=facts),))
    project = open_tree(tmp_path, {"train.py": weights(BF16_MODELS[0])}).with_profile(profile)
    assert len(list(RULE.check(project))) == number


def test_bf16_weights_under_float16_on_purpose(tmp_path: Path) -> None:
    source = weights(BF16_MODELS[0], "with autocast(dtype=torch.float16):")
    assert len(findings(RULE, tmp_path / "found", source)) == 1
    assert fixed(RULE, tmp_path, source) == source.lstrip("\n")


@pytest.mark.parametrize(
    "source",
    [
        weights("model = Net().bfloat16().float()"),
        weights("model = Net()\n    if args.bf16:\n        model = model.bfloat16()"),
        weights(
            "model = AutoModel.from_pretrained('x', torch_dtype=torch.bfloat16)\n    model = get_peft_model(model)"
        ),
        weights(BF16_MODELS[0], given="enabled=use_scaler"),
        weights(BF16_MODELS[0]).replace("from torch.cuda.amp", "from torch.cpu.amp"),
        weights(BF16_MODELS[0]).replace("AdamW(model.", "AdamW(adapter."),
    ],
)
def test_weights_that_may_be_float32(source: str, tmp_path: Path) -> None:
    assert not findings(RULE, tmp_path, source)


def test_bf16_gradients_step_on_the_cpu_after_the_fix(tmp_path: Path) -> None:
    """What is left after dropping trains: run on torch's CPU."""
    source = """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
before = model.weight.detach().clone()
for _ in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.ones(2, 4)).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
moved = (model.weight - before).abs().sum().item()
"""
    text = fixed(RULE, tmp_path, source)
    assert "caler" not in text
    names: dict[str, float] = {}
    exec(compile(text, "train.py", "exec"), names)
    assert names["moved"] > 0


def test_unreadable_neighbors_do_not_matter(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"broken.py": "def (:\n", "odd.py": "from . import *\nfrom .. import x\nimport torch.amp as amp\n"}
    )
    assert len(findings(RULE, tmp_path, loop("scaler = GradScaler()", BF16))) == 1


# --- an import that other files take from here ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "user", "stays"),
    [
        ("pkg/__init__.py", "from pkg import GradScaler\nprint(GradScaler)\n", True),
        ("tools.py", "from tools import GradScaler\nprint(GradScaler)\n", True),
        ("tools.py", "import tools\nprint(tools.GradScaler)\n", True),
        ("tools.py", "from tools import *\nprint(GradScaler)\n", True),
        ("tools.py", "from torch.amp import GradScaler\nprint(GradScaler)\n", False),
    ],
)
def test_an_import_that_another_file_takes_stays(tmp_path: Path, path: str, user: str, stays: bool) -> None:
    source = loop("scaler = GradScaler()", "with autocast(dtype=torch.bfloat16):") + "\ntrain(None, None, [], None)\n"
    text = migrated(tmp_path, {path: source, "user.py": user})[path]
    assert "scaler.scale" not in text
    assert ("GradScaler" in text) is stays


def test_many_regions_of_other_functions_do_not_hide_those_of_the_step(tmp_path: Path) -> None:
    helper = "def helper_{}(model, x):\n    with autocast(dtype=torch.float16):\n        return model(x)\n\n"
    step = loop("scaler = GradScaler()", "with autocast(dtype=torch.bfloat16):")
    text = step.replace(HEAD, HEAD + "".join(helper.format(number) for number in range(110)))
    assert len(findings(RULE, tmp_path, text)) == 1


def test_a_file_that_only_logs_the_scale_is_no_part_of_its_step(tmp_path: Path) -> None:
    plugin = f"{HEAD}class Plugin:\n    def __init__(self):\n        self.grad_scaler_fp16 = GradScaler()\n"
    logs = (
        "import torch\nfrom plugin import Plugin\n\nclass Net:\n"
        "    def __init__(self):\n        self.plugin = Plugin()\n"
        "    def training_step(self, x):\n        with torch.autocast('cuda', dtype=torch.bfloat16):\n"
        "            loss = self.net(x)\n"
        "        self.log('scale', self.plugin.grad_scaler_fp16._scale)\n        return loss\n"
    )
    report = engine.check(open_tree(tmp_path, {"plugin.py": plugin, "net.py": logs}), [RULE], TARGET)
    assert report.findings == ()


# --- what a fix says --------------------------------------------------------------------------------------------------

CLIP = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
CLIPPED = STEP.replace("        scaler.step", f"        scaler.unscale_(optimizer)\n{CLIP}        scaler.step")
STRICT = CLIPPED.replace("1.0)", "1.0, error_if_nonfinite=True)")
BF16_LOOP = loop("scaler = GradScaler()", "with autocast(dtype=torch.bfloat16):")
SKIPPED = "steps with inf or NaN gradients are no longer skipped"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (STEP, SKIPPED),
        (CLIPPED, f"{SKIPPED}, and torch.nn.utils.clip_grad_norm_ (a.py:11) acts on them"),
        (STRICT, SKIPPED),
    ],
)
def test_a_fix_says_what_acts_on_steps_that_are_no_longer_skipped(step: str, said: str, tmp_path: Path) -> None:
    (found,) = engine.check(
        open_tree(tmp_path, {"a.py": BF16_LOOP.replace(STEP, step)}), [RULE], TARGET, engine.Options()
    ).findings
    assert all(fix.applicability is Applicability.SAFE for fix in found.fixes)
    assert all(fix.message.rstrip(".").endswith(said) for fix in found.fixes)
