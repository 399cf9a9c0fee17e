"""PF306 beyond its fixtures: which encoders, precisions, devices, releases and machines count, and what is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from precfix.codemod.model import Applicability, Finding
from precfix.codemod.profiles.profile import Fact, Profile, ProfiledDevice, Torch
from precfix.codemod.source.project import Project

from .fixture_cases import profile_named
from .rule_runs import findings, migrated, rule_of, written

RULE = rule_of("autocast.transformer_encoder_fast_path")

MODEL = """
    import lightning.pytorch as pl
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Tagger(pl.LightningModule):
        def __init__(self, width=32, heads=4):
            super().__init__()
            {layer}
            self.encoder = {stack}

        def forward(self, words, padding):
            return self.encoder(words{mask})

        def {step}(self, batch, index):
            return self(*batch).mean()
"""
LAYER = "layer = nn.TransformerEncoderLayer(width, heads, batch_first=True)"
STACK = "nn.TransformerEncoder(layer, 2)"
PADDED = ", src_key_padding_mask=padding"
TRAIN = """
    import lightning.pytorch as pl
    import torch
    from model import Tagger

    trainer = pl.Trainer({arguments})
    trainer.fit(Tagger())
"""
NEW_TORCH = "torch>=2.6\n"
SWITCHED = "torch.backends.mha.set_fastpath_enabled(False)"


def project(
    folder: Path,
    arguments: str = 'precision="bf16-mixed"',
    *,
    layer: str = LAYER,
    stack: str = STACK,
    mask: str = PADDED,
    step: str = "validation_step",
    requirements: str = NEW_TORCH,
    **more: str,
) -> Project:
    """A Lightning project: its model and its trainer; keyword arguments name further files (``a__b_py``)."""
    files = {
        "model.py": MODEL.format(layer=layer, stack=stack, mask=mask, step=step),
        "train.py": TRAIN.format(arguments=arguments),
        "requirements.txt": requirements,
        **{
            name.replace("__", "/").replace("_py", ".py").replace("_yaml", ".yaml"): text for name, text in more.items()
        },
    }
    return written(folder, files)


def only(found: Project) -> Finding:
    (finding,) = findings(RULE, found)
    return finding


# --- precision and accelerator ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        'precision="bf16-mixed"',
        'precision="bf16"',
        'precision="16-mixed"',
        'precision="16"',
        "precision=16",
        'accelerator="auto", precision="bf16-mixed"',
        'accelerator="cpu", precision=16',
        'accelerator="xpu", precision="bf16-mixed"',
        'accelerator="gpu" if torch.cuda.is_available() else "cpu", precision="bf16-mixed"',
        'precision="bf16-mixed", strategy="ddp"',
        'precision="bf16-mixed" if torch.cuda.is_bf16_supported() else 16',
        'precision="bf16-mixed" if fast else "32-true"',
        'precision="bf16-mixed" if torch.cuda.is_available() else 32, accelerator="cpu"',
        "gpus=0, precision=16",
    ],
)
def test_mixed_precision_that_may_leave_cuda(tmp_path: Path, arguments: str) -> None:
    finding = only(project(tmp_path, arguments))
    assert (finding.path, finding.span.row) == ("train.py", 5)
    assert "nn.TransformerEncoder fails in evaluation" in finding.message
    assert [place.path for place in finding.evidence if "stack" in place.message] == ["model.py"]
    assert [fix.name for fix in finding.fixes if fix.applicability is Applicability.SAFE] == ["fastpath-off"]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "precision=32",
        'precision="32-true"',
        'precision="bf16-true"',
        'precision="16-true"',
        "precision=True",
        'precision="transformer-engine"',
        'accelerator="gpu", precision="bf16-mixed"',
        'accelerator="cuda", precision=16',
        'accelerator="tpu", precision="bf16"',
        'accelerator="mps", precision="16-mixed"',
        'precision="bf16-mixed", gpus=1',
        "precision=16, gpus=torch.cuda.device_count()",
        'precision="16", tpu_cores=8',
        'precision="bf16-mixed", strategy="deepspeed_stage_2"',
        'precision="bf16-mixed", strategy="fsdp"',
        'precision=16, amp_backend="apex"',
        'precision="bf16-mixed", plugins=[plugin]',
        'precision="bf16-mixed" if torch.cuda.is_available() else "32-true"',
        'precision="bf16-mixed" if torch.cuda.is_bf16_supported() else "32-true"',
        'precision="bf16-mixed", **options',
    ],
)
def test_other_precisions_and_devices_are_right(tmp_path: Path, arguments: str) -> None:
    assert findings(RULE, project(tmp_path, arguments)) == ()


def test_the_precision_of_an_option(tmp_path: Path) -> None:
    source = """
        import argparse
        from lightning import Trainer
        from model import Tagger

        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("--precision", default={default}{choices})
            parser.add_argument("--accelerator", default={accelerator})
            args = parser.parse_args()
            Trainer(precision=args.precision, accelerator=args.accelerator).fit(Tagger())
    """
    for default, choices, accelerator, expected in (
        ('"bf16-mixed"', "", '"auto"', ["fastpath-off", "bf16-true"]),
        ('"32-true"', ', choices=["32-true", "16-mixed"]', '"cpu"', ["fastpath-off"]),
        ('"32-true"', "", '"auto"', None),
        ('"bf16-mixed"', "", '"gpu"', None),
    ):
        text = source.format(default=default, choices=choices, accelerator=accelerator)
        found = findings(RULE, project(tmp_path, train_py=text))
        assert [[fix.name for fix in item.fixes] for item in found] == ([expected] if expected else [])


def test_other_libraries_have_trainers_too(tmp_path: Path) -> None:
    own = "class Trainer:\n    def __init__(self, precision): ...\n"
    text = (
        TRAIN.format(arguments="precision=16").replace("import torch", "from own import Trainer").replace("pl.T", "T")
    )
    assert findings(RULE, project(tmp_path, train_py=text, own_py=own)) == ()


# --- encoders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "stack"),
    [
        ("layer = nn.TransformerEncoderLayer(width, 4, 64, 0.1, 'gelu', 1e-5, True)", STACK),
        ("layer = nn.TransformerEncoderLayer(d_model=width, nhead=8, activation=F.gelu, batch_first=True)", STACK),
        ("layer = nn.TransformerEncoderLayer(width, heads, activation=nn.ReLU(), batch_first=True)", STACK),
        ("layer = nn.TransformerEncoderLayer(width, heads, batch_first=True, norm_first=False)", STACK),
        ("first = True; layer = nn.TransformerEncoderLayer(width, heads, batch_first=first)", STACK),
        (LAYER, "nn.TransformerEncoder(encoder_layer=layer, num_layers=2, norm=nn.LayerNorm(width))"),
        ("", "nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, batch_first=True), 2)"),
        ("", "nn.Transformer(width, heads, batch_first=True)"),
    ],
)
def test_encoders_with_a_fast_path(tmp_path: Path, layer: str, stack: str) -> None:
    assert len(findings(RULE, project(tmp_path, layer=layer, stack=stack))) == 1


@pytest.mark.parametrize(
    ("layer", "stack"),
    [
        ("layer = nn.TransformerEncoderLayer(width, heads)", STACK),
        ("layer = nn.TransformerEncoderLayer(width, heads, batch_first=False)", STACK),
        ("layer = nn.TransformerEncoderLayer(width, heads, batch_first=unknown)", STACK),
        ("layer = nn.TransformerEncoderLayer(width, heads, batch_first=True, norm_first=True)", STACK),
        ("layer = nn.TransformerEncoderLayer(width, 3, batch_first=True)", STACK),
        ("layer = nn.TransformerEncoderLayer(width, heads, activation=F.silu, batch_first=True)", STACK),
        ("layer = nn.TransformerEncoderLayer(width, heads, activation=nn.Mish(), batch_first=True)", STACK),
        ("layer = nn.TransformerEncoderLayer(width, heads, bias=False, batch_first=True)", STACK),
        ("layer = nn.TransformerEncoderLayer(width, heads, **dict(batch_first=True))", STACK),
        ("layer = nn.TransformerDecoderLayer(width, heads, batch_first=True)", "nn.TransformerDecoder(layer, 2)"),
        (LAYER, "nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)"),
        ("", "nn.MultiheadAttention(width, heads, batch_first=True)"),
        ("", "nn.Transformer(width, heads, custom_encoder=own, batch_first=True)"),
    ],
)
def test_encoders_without_one(tmp_path: Path, layer: str, stack: str) -> None:
    assert findings(RULE, project(tmp_path, layer=layer, stack=stack)) == ()


SUBCLASSED = """
    from torch import nn

    class Block(nn.TransformerEncoderLayer):
        def __init__(self, width, heads):
            super().__init__(width, heads, batch_first=True)
            self.scale = nn.Parameter(nn.Identity().weight)
    {forward}
"""


def test_a_subclass_keeps_the_fast_path_unless_it_has_its_own_forward(tmp_path: Path) -> None:
    layer = "from blocks import Block; layer = Block(width, heads)"
    blocks = SUBCLASSED.format(forward="")
    assert len(findings(RULE, project(tmp_path, layer=layer, blocks_py=blocks))) == 1
    blocks = SUBCLASSED.format(forward="    def forward(self, src, *args, **kwargs):\n            return src\n")
    assert findings(RULE, project(tmp_path, layer=layer, blocks_py=blocks)) == ()


def test_a_copy_in_the_project_is_not_reached_by_the_switch(tmp_path: Path) -> None:
    layer = (
        "from copied import TransformerEncoderLayer; layer = TransformerEncoderLayer(width, heads, batch_first=True)"
    )
    copied = "from torch import nn\nclass TransformerEncoderLayer(nn.Module):\n    def forward(self, src): ...\n"
    assert findings(RULE, project(tmp_path, layer=layer, copied_py=copied)) == ()
    layer = (
        "from others import TransformerEncoderLayer; layer = TransformerEncoderLayer(width, heads, batch_first=True)"
    )
    assert findings(RULE, project(tmp_path / "b", layer=layer)) == ()


# --- padding and releases ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "requirements", "expected"),
    [
        (PADDED, "torch>=2.6\n", True),
        (PADDED, "torch==2.5.1\n", True),
        ("", "torch>=2.6\n", False),
        ("", "torch>=2.5\n", True),
        ("", "torch\n", True),
        (", mask=padding", "torch>=2.6\n", False),
        (", mask=padding, src_key_padding_mask=padding", "torch>=2.6\n", False),
        (", mask=None, src_key_padding_mask=padding", "torch>=2.6\n", True),
        (", src_key_padding_mask=None", "torch>=2.6\n", False),
        (", None, padding", "torch>=2.6\n", True),
        (PADDED, "torch<1.12\n", False),
    ],
)
def test_since_torch_2_6_only_padding_fails(tmp_path: Path, mask: str, requirements: str, expected: bool) -> None:
    found = findings(RULE, project(tmp_path, mask=mask, requirements=requirements))
    assert len(found) == expected
    assert all(("before 2.6" in item.message) is (not mask) for item in found)


def test_nested_tensors_switched_off_do_not_help_before_2_6(tmp_path: Path) -> None:
    stack = "nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)"
    assert len(findings(RULE, project(tmp_path, stack=stack, requirements="torch>=2.1\n"))) == 1


def test_a_mask_that_nobody_passes(tmp_path: Path) -> None:
    model = MODEL.format(layer=LAYER, stack=STACK, mask=PADDED, step="validation_step").replace(
        "words, padding)", "words, padding=None)"
    )
    assert findings(RULE, project(tmp_path, model_py=model.replace("self(*batch)", "self(batch)"))) == ()
    passed = model.replace("self(*batch)", 'self(batch["words"], batch["padding"])')
    assert len(findings(RULE, project(tmp_path, model_py=passed))) == 1


@pytest.mark.parametrize(
    ("requirements", "expected", "level"),
    [
        ("torch>=2.3\n", SWITCHED, Applicability.SAFE),
        ("lightning\n", SWITCHED, Applicability.UNSAFE),
        ("torch>=2.0\n", f'if hasattr(torch.backends, "mha"):\n    {SWITCHED}', Applicability.SAFE),
        ("torch>=1.13,<2.3\n", None, None),
        ("torch==2.2.2\n", None, None),
    ],
)
def test_the_switch_came_with_2_3(
    tmp_path: Path, requirements: str, expected: str | None, level: Applicability | None
) -> None:
    finding = only(project(tmp_path, requirements=requirements))
    assert next((fix.applicability for fix in finding.fixes if fix.name == "fastpath-off"), None) is level
    _, changed = migrated([RULE], project(tmp_path, requirements=requirements), unsafe=True)
    if expected is not None:
        assert f"\n{expected}\ntrainer = pl.Trainer" in changed["train.py"]


@pytest.mark.parametrize(
    ("requirements", "offered"),
    [("lightning>=2.1\n", True), ("lightning\n", True), ("lightning>=2.0\n", False), ("pytorch-lightning<2\n", False)],
)
def test_true_precision_needs_lightning_2_1(tmp_path: Path, requirements: str, offered: bool) -> None:
    fixes = only(project(tmp_path, requirements=requirements)).fixes
    assert ("bf16-true" in [fix.name for fix in fixes]) is offered


# --- evaluation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["validation_step", "test_step", "predict_step"])
def test_every_kind_of_evaluation(tmp_path: Path, step: str) -> None:
    assert len(findings(RULE, project(tmp_path, step=step))) == 1


def test_a_model_that_is_only_trained(tmp_path: Path) -> None:
    assert findings(RULE, project(tmp_path, step="training_step")) == ()


def test_a_model_that_this_trainer_does_not_use(tmp_path: Path) -> None:
    other = """
        import lightning.pytorch as pl
        class Other(pl.LightningModule):
            def validation_step(self, batch, index): ...
    """
    train = TRAIN.format(arguments='precision="bf16-mixed"').replace(
        "from model import Tagger", "from other import Other"
    )
    assert findings(RULE, project(tmp_path, train_py=train.replace("Tagger()", "Other()"), other_py=other)) == ()


@pytest.mark.parametrize(
    "where",
    [
        {"train_py": TRAIN.format(arguments="precision=16").replace("trainer =", f"{SWITCHED}\n    trainer =")},
        {"model_py": MODEL.format(layer=f"{SWITCHED}; {LAYER}", stack=STACK, mask=PADDED, step="test_step")},
        {
            "train_py": "import setup\n" + TRAIN.format(arguments="precision=16").replace("\n    ", "\n"),
            "setup_py": f"import torch\n{SWITCHED}\n",
        },
    ],
)
def test_a_project_that_switches_it_off_already(tmp_path: Path, where: dict[str, str]) -> None:
    assert findings(RULE, project(tmp_path, **where)) == ()


def test_switching_it_on_is_no_cure(tmp_path: Path) -> None:
    on = SWITCHED.replace("False", "True")
    train = TRAIN.format(arguments="precision=16").replace("trainer =", f"{on}\n    trainer =")
    assert len(findings(RULE, project(tmp_path, train_py=train))) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return self.encoder(words", "words = words.cuda(); return self.encoder(words"),
        ("return self.encoder(words", 'words = words.to("cuda"); return self.encoder(words'),
        ("return self.encoder", 'with torch.autocast("cpu", enabled=False): return self.encoder'),
    ],
)
def test_models_that_need_cuda_or_leave_autocast(tmp_path: Path, old: str, new: str) -> None:
    model = MODEL.format(layer=LAYER, stack=STACK, mask=PADDED, step="validation_step")
    assert findings(RULE, project(tmp_path, model_py=model.replace(old, new))) == ()


def test_casting_the_input_is_no_cure(tmp_path: Path) -> None:
    model = MODEL.format(layer=LAYER, stack=STACK, mask=PADDED, step="validation_step")
    assert len(findings(RULE, project(tmp_path, model_py=model.replace("encoder(words", "encoder(words.float()")))) == 1


def test_a_trainer_for_machines_with_a_gpu(tmp_path: Path) -> None:
    train = """
        import lightning.pytorch as pl
        import torch
        from model import Tagger

        if torch.cuda.is_available():
            trainer = pl.Trainer(precision="bf16-mixed")
        else:
            trainer = pl.Trainer(precision="32-true")
        trainer.fit(Tagger())
    """
    assert findings(RULE, project(tmp_path, train_py=train)) == ()


def test_tests_are_left_alone(tmp_path: Path) -> None:
    train = TRAIN.format(arguments='precision="bf16-mixed"')
    assert findings(RULE, project(tmp_path, train_py="", tests__test_train_py=train)) == ()


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("import torch", f"{SWITCHED}\n"),
        ("import torch as th", "th.backends.mha.set_fastpath_enabled(False)\n"),
        ("import torch.nn as nn", f"{SWITCHED}\n"),
        ("from torch import nn", f"{SWITCHED}\n"),
        ("", f"{SWITCHED}\n"),
    ],
)
def test_torch_is_imported_where_it_is_missing(tmp_path: Path, imports: str, expected: str) -> None:
    train = TRAIN.format(arguments='precision="bf16-mixed"').replace("import torch", imports)
    _, changed = migrated([RULE], project(tmp_path, train_py=train))
    assert expected in changed["train.py"]
    assert changed["train.py"].count("import torch\n") == (0 if " as th" in imports else 1)


def test_one_switch_serves_the_trainers_below_it(tmp_path: Path) -> None:
    train = """
        import lightning.pytorch as pl
        import torch
        from model import Tagger

        def main(fast):
            trainer = pl.Trainer(precision="bf16-mixed")
            if fast:
                trainer = pl.Trainer(precision="16-mixed")
            trainer.fit(Tagger())

        def again(fast):
            if fast:
                trainer = pl.Trainer(precision=16)
            else:
                trainer = pl.Trainer(precision="bf16-mixed", max_steps=1)
            trainer.test(Tagger())
    """
    report, changed = migrated([RULE], project(tmp_path, train_py=train))
    assert changed["train.py"].count("set_fastpath_enabled(False)") == 3
    assert f"def main(fast):\n    {SWITCHED}\n" in changed["train.py"]
    assert len(report.findings) == 1
    assert report.remaining == ()


def test_a_torch_of_the_functions_own_is_left_alone(tmp_path: Path) -> None:
    train = """
        import lightning.pytorch as pl
        from model import Tagger

        def main():
            trainer = pl.Trainer(precision=16)
            import torch
            trainer.fit(Tagger())
    """
    assert [fix.name for fix in only(project(tmp_path, train_py=train)).fixes] == ["bf16-true"]


def test_true_precision_respells_every_literal(tmp_path: Path) -> None:
    train = """
        import lightning.pytorch as pl
        import torch
        from model import Tagger

        mixed = 'bf16' if torch.__version__ else 16
        pl.Trainer(precision=mixed).fit(Tagger())
    """
    found = only(project(tmp_path, train_py=train))
    assert found.span.row == 5
    fix = found.fixes[1]
    assert fix.applicability is Applicability.UNSAFE
    written_as = [edit.operation.parts for edit in fix.edits]  # type: ignore[union-attr]
    assert written_as == [("'bf16-true'",), ('"16-true"',)]


# --- configuration files ----------------------------------------------------------------------------------------------

CLI = "from lightning.pytorch.cli import LightningCLI\nfrom model import Tagger\n\nLightningCLI(Tagger)\n"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("trainer:\n  precision: bf16-mixed\n", True),
        ("fit:\n  trainer:\n    precision: 16\n    accelerator: cpu\n", True),
        ("trainer:\n  precision: bf16-mixed\n  accelerator: gpu\n", False),
        ("trainer:\n  precision: 32\n", False),
        ("trainer:\n  precision: bf16-true\n", False),
        ("trainer:\n  precision: 16\n  strategy: deepspeed_stage_2\n", False),
        ("model:\n  precision: bf16-mixed\n", False),
        ("trainer:\n  precision: [bf16-mixed\n", False),
    ],
)
def test_the_command_line_interface_reads_yaml(tmp_path: Path, config: str, expected: bool) -> None:
    found = findings(RULE, project(tmp_path, train_py=CLI, config_yaml=config))
    assert [(item.path, item.span.row) for item in found] == ([("train.py", 4)] if expected else [])


def test_the_switch_stands_before_the_interface_and_yaml_can_be_respelled(tmp_path: Path) -> None:
    shown = project(tmp_path, train_py=CLI, config_yaml="trainer:\n  precision: bf16-mixed  # fast\n")
    report, changed = migrated([RULE], shown)
    assert f"\n{SWITCHED}\nLightningCLI(Tagger)\n" in changed["train.py"]
    assert "import torch\n" in changed["train.py"]
    assert [edit.path for edit in report.findings[0].fixes[1].edits] == ["config.yaml"]


def test_hydra_and_splatted_sections(tmp_path: Path) -> None:
    config = "trainer:\n  _target_: lightning.pytorch.Trainer\n  precision: 16-mixed\n"
    for call in ("hydra.utils.instantiate(cfg.trainer)", "pl.Trainer(**cfg.trainer)", 'pl.Trainer(**cfg["trainer"])'):
        imports = "import hydra\nimport lightning.pytorch as pl\nfrom model import Tagger\n"
        text = f"{imports}def main(cfg):\n    {call}.fit(Tagger())\n"
        assert len(findings(RULE, project(tmp_path, train_py=text, config_yaml=config))) == 1
    composed = f"defaults:\n  - gpu\n{config}"
    assert findings(RULE, project(tmp_path, train_py=text, config_yaml=composed)) == ()


# --- autocast by hand -------------------------------------------------------------------------------------------------

LOOP = """
    import contextlib
    import torch
    from torch import nn

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(32, 4, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)

        def forward(self, words, padding):
            return self.encoder(words, src_key_padding_mask=padding)

    {loop}

    model = Tagger().to(device)
    evaluate(model, [])
"""
LOOPS = {
    "region in no_grad": """
    def evaluate(model, batches):
        model.eval()
        with torch.no_grad():
            for words, padding in batches:
                with {autocast}:
                    model(words, padding)
    """,
    "no_grad in region": """
    def evaluate(model, batches):
        model.eval()
        for words, padding in batches:
            with {autocast}:
                with torch.inference_mode():
                    model(words, padding)
    """,
    "one with": """
    def evaluate(model, batches):
        model.eval()
        with torch.no_grad(), {autocast}:
            model(*batches)
    """,
    "decorated": """
    @torch.no_grad()
    def evaluate(model, batches):
        model.eval()
        with {autocast}:
            model(*batches)
    """,
    "through a name": """
    def evaluate(model, batches):
        model.eval()
        context = {autocast}
        with torch.no_grad(), context:
            model(*batches)
    """,
    "by the caller": """
    def predicted(model, batch):
        with {autocast}:
            return model(*batch)

    def evaluate(model, batches):
        model.eval()
        with torch.no_grad():
            for batch in batches:
                predicted(model, batch)
    """,
    "a choice": """
    def evaluate(model, batches):
        model.eval()
        with torch.no_grad(), ({autocast} if batches else contextlib.nullcontext()):
            model(*batches)
    """,
}


def loop(folder: Path, autocast: str, text: str = "region in no_grad", **more: str) -> Project:
    source = LOOP.format(loop=LOOPS.get(text, text).format(autocast=autocast).strip())
    return project(folder, train_py=source, model_py="", **more)


@pytest.mark.parametrize("text", LOOPS)
def test_loops_that_evaluate(tmp_path: Path, text: str) -> None:
    finding = only(loop(tmp_path, 'torch.autocast("cpu", dtype=torch.bfloat16)', text))
    assert [fix.name for fix in finding.fixes] == ["fastpath-off"]
    report, changed = migrated([RULE], loop(tmp_path, 'torch.autocast("cpu", dtype=torch.bfloat16)', text))
    assert changed["train.py"].count(SWITCHED) == 1
    assert report.remaining == ()


@pytest.mark.parametrize(
    "autocast",
    [
        "torch.autocast(device_type=device.type, dtype=torch.bfloat16)",
        "torch.autocast(device.type)",
        'torch.autocast("cpu")',
        'torch.amp.autocast("xpu", torch.bfloat16)',
        "torch.cpu.amp.autocast()",
    ],
)
def test_regions_that_may_leave_cuda(tmp_path: Path, autocast: str) -> None:
    assert len(findings(RULE, loop(tmp_path, autocast))) == 1


@pytest.mark.parametrize(
    "autocast",
    [
        'torch.autocast("cuda", dtype=torch.bfloat16)',
        "torch.autocast(device.type) if device.type == 'cuda' else contextlib.nullcontext()",
        "torch.cuda.amp.autocast()",
        'torch.autocast("mps", dtype=torch.float16)',
        'torch.autocast("cpu", enabled=False)',
        'torch.autocast(device.type, enabled=device.type == "cuda")',
        "torch.autocast(device.type, torch.bfloat16, torch.cuda.is_available())",
        "torch.autocast(device_type=unknown, dtype=torch.bfloat16)",
        "torch.no_grad()",
    ],
)
def test_regions_that_do_not(tmp_path: Path, autocast: str) -> None:
    assert findings(RULE, loop(tmp_path, autocast)) == ()


def test_regions_that_train(tmp_path: Path) -> None:
    train = """
    def evaluate(model, batches):
        for words, padding in batches:
            with {autocast}:
                model(words, padding).sum().backward()
    """
    assert findings(RULE, loop(tmp_path, 'torch.autocast("cpu")', train)) == ()
    assert (
        findings(RULE, loop(tmp_path, 'torch.autocast("cpu")', LOOPS["one with"].replace("model.eval()", "pass"))) == ()
    )


def test_the_switch_stands_outside_loops(tmp_path: Path) -> None:
    _, changed = migrated([RULE], loop(tmp_path, 'torch.autocast("cpu")'))
    assert f"    model.eval()\n    {SWITCHED}\n    with torch.no_grad():\n" in changed["train.py"]


# --- machines ---------------------------------------------------------------------------------------------------------


def machine(backend: str, holds: bool | None, torch: str = "2.13.0", *more: ProfiledDevice) -> Profile:
    facts = (Fact("encoder-fast-path", holds),) if holds is not None else ()
    return Profile(
        devices=(ProfiledDevice(f"{backend}:0", backend, "Some Device", facts=facts), *more), torch=Torch(torch)
    )


CPU = ProfiledDevice("cpu", "cpu", "Some CPU", facts=(Fact("encoder-fast-path", True),))


@pytest.mark.parametrize(
    ("profile", "accelerator", "expected"),
    [
        (machine("cpu", True), "auto", "was seen to do"),
        (machine("cpu", False), "auto", ""),
        (machine("cpu", None), "auto", "on a CPU"),
        (machine("cuda", False, "2.13.0", CPU), "auto", ""),
        (machine("cuda", None, "2.13.0", CPU), "auto", ""),
        (machine("mps", None, "2.13.0", CPU), "auto", ""),
        (machine("xpu", True, "2.13.0", CPU), "auto", "was seen to do"),
        (machine("cuda", False, "2.13.0", CPU), "cpu", "Some CPU was seen to do"),
        (machine("cuda", False), "cpu", "on a CPU"),
    ],
)
def test_a_profile_knows(tmp_path: Path, profile: Profile, accelerator: str, expected: str) -> None:
    shown = project(tmp_path, f'precision="bf16-mixed", accelerator="{accelerator}"').with_profile(profile)
    found = findings(RULE, shown)
    assert bool(found) is bool(expected)
    assert all(expected in item.message for item in found)


def test_a_choice_follows_the_machine(tmp_path: Path) -> None:
    shown = project(tmp_path, 'precision=16, accelerator="gpu" if torch.cuda.is_available() else "cpu"')
    assert findings(RULE, shown.with_profile(machine("cuda", False, "2.13.0", CPU))) == ()
    assert len(findings(RULE, shown.with_profile(machine("cpu", True)))) == 1


def test_the_release_on_the_machine_decides_about_padding(tmp_path: Path) -> None:
    shown = project(tmp_path, mask="", requirements="torch\n")
    assert findings(RULE, shown.with_profile(machine("cpu", True, "2.13.0+cpu"))) == ()
    assert len(findings(RULE, shown.with_profile(machine("cpu", True, "2.5.1+cu124")))) == 1


def test_recorded_and_published_machines(tmp_path: Path) -> None:
    shown = project(tmp_path)
    assert "was seen to do" in only(shown.with_profile(profile_named("cpu-epyc"))).message
    assert findings(RULE, shown.with_profile(profile_named("a100"))) == ()
    broken = replace(profile_named("cpu-epyc"), torch=Torch("not a version"))
    assert len(findings(RULE, shown.with_profile(broken))) == 1
