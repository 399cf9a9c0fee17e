"""A move is held to the ledger of the new texts: what does not arrive is withdrawn, what is left is said."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from precfix.codemod import engine
from precfix.codemod.engine import Options
from precfix.codemod.model import Edit, Finding, ReplaceText, Rule
from precfix.codemod.moving.carrying import move
from precfix.codemod.outcome import MoveState, Report, RunMove, Target
from precfix.codemod.source.project import Project
from precfix.transforms.frameworks import load_frameworks

from .fixture_cases import all_rules
from .project_tree import open_tree, write_tree
from .test_cli import precfix
from .warm_torch import python

CODE = """
    import torch
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

    (args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)
    Trainer(model.requires_grad_(False), args).train()
"""
FLAGS = "--fp16 True --output_dir out --per_device_train_batch_size 1 --learning_rate 1e-5\n"
TWO_RUNS = {
    "one.py": CODE,
    "one.sh": f"python one.py {FLAGS}",
    "two.py": CODE,
    "two.sh": f"python two.py {FLAGS}",
    "requirements.txt": "torch>=2.4\ntransformers>=4.40,<5\n",
}
REQUIRED = {"requirements.txt": "torch>=2.4\ntransformers>=4.40,<5\naccelerate>=1.0\n"}
TARGET = Target("bf16-mixed", "a test")


def planted(changes: Callable[[Edit], Edit]) -> list[Rule]:
    """The rule of a move, whose edits of one.sh were tampered with."""
    (honest,) = (rule for rule in all_rules() if rule.code == "PF001")

    def check(project: Project) -> Iterator[Finding]:
        for finding in honest.check(project):
            fixes = [replace(fix, edits=tuple(map(changes, fix.edits))) for fix in finding.fixes]
            yield replace(finding, fixes=tuple(fixes))

    return [replace(honest, check=check)]


def moved(
    tmp_path: Path, rules: list[Rule], files: dict[str, str], regime: str = TARGET.regime, *, unsafe: bool = False
) -> tuple[Report, dict[str, RunMove]]:
    project = open_tree(tmp_path, files).with_frameworks(load_frameworks()).with_target(regime)
    report = move(project, rules, Target(regime, "a test"), Options(unsafe_fixes=unsafe), all_rules())
    assert not report.failed_rules
    return report, {each.path: each for each in report.moves}


def paths_changed(report: Report) -> set[str]:
    return {change.path for change in report.changes}


def tampered(edit: Edit, text: str) -> Edit:
    is_step = edit.path == "one.sh" and isinstance(edit.operation, ReplaceText)
    return replace(edit, operation=replace(edit.operation, text=text)) if is_step else edit


def test_both_runs_move_where_every_step_arrives(tmp_path: Path) -> None:
    report, runs = moved(tmp_path, planted(lambda edit: edit), TWO_RUNS)
    assert paths_changed(report) == {"one.py", "one.sh", "two.py", "two.sh"}
    assert {each.state for each in runs.values()} == {MoveState.MOVED}
    assert {(each.before, each.after) for each in runs.values()} == {("fp16-mixed", "bf16-mixed")}


def test_a_run_with_a_step_that_does_not_arrive_is_withdrawn_and_the_other_one_is_not(tmp_path: Path) -> None:
    report, runs = moved(tmp_path, planted(lambda edit: tampered(edit, "fp")), TWO_RUNS)
    assert paths_changed(report) == {"two.py", "two.sh"}, "nothing of the first run is written, one.py neither"
    assert (runs["one.sh"].state, runs["one.sh"].after) == (MoveState.WITHDRAWN, "fp16-mixed")
    assert runs["two.sh"].state is MoveState.MOVED
    assert "after the edits the run would compute in fp16-mixed" in runs["one.sh"].why[0].message


def test_a_run_that_its_edits_would_bring_into_contradiction_is_withdrawn(tmp_path: Path) -> None:
    report, runs = moved(tmp_path, planted(lambda edit: tampered(edit, "bf16 True --fp")), TWO_RUNS)
    assert paths_changed(report) == {"two.py", "two.sh"}
    assert runs["one.sh"].state is MoveState.WITHDRAWN
    assert any("PF402 would be new" in place.message for place in runs["one.sh"].why)


def test_runs_that_share_a_file_are_withdrawn_together(tmp_path: Path) -> None:
    files = {**TWO_RUNS, "two.sh": f"python one.py {FLAGS}"}
    report, runs = moved(tmp_path, planted(lambda edit: tampered(edit, "fp")), files)
    assert not {"one.py", "one.sh", "two.sh"} & paths_changed(report)
    assert {runs["one.sh"].state, runs["two.sh"].state} == {MoveState.WITHDRAWN}


def test_a_run_whose_deepspeed_file_is_not_there_does_not_move_by_itself(tmp_path: Path) -> None:
    files = {**TWO_RUNS, "one.sh": f"python one.py --deepspeed conf/ds.json {FLAGS}"}
    report, runs = moved(tmp_path, planted(lambda edit: edit), files)
    assert paths_changed(report) == {"two.py", "two.sh"}
    assert "conf/ds.json, which the line names, is not seen here" in " ".join(
        place.message for place in runs["one.sh"].why
    )


@pytest.mark.parametrize("unsafe", [False, True])
def test_a_run_whose_weights_would_stay_in_the_other_type_is_withdrawn(unsafe: bool, tmp_path: Path) -> None:
    cast = CODE.replace(", torch_dtype=torch.float16)", ")\n    dtype = torch.float16\n    model.to(dtype=dtype)")
    files = {**TWO_RUNS, "one.py": cast}
    report, runs = moved(tmp_path, planted(lambda edit: edit), files, unsafe=unsafe)
    assert paths_changed(report) == {"two.py", "two.sh"}
    assert (runs["one.sh"].state, runs["two.sh"].state) == (MoveState.WITHDRAWN, MoveState.MOVED)
    assert "model.to() stays float16: move it by hand" in [place.message for place in runs["one.sh"].why]


TENSORS = {
    "a cast of tensors": ("torch.ones(2).to(torch.float16)", "torch.ones(2).to(torch.bfloat16)"),
    "a cast by type": ("torch.ones(2).type(torch.half)", "torch.ones(2).type(torch.bfloat16)"),
    "a tensor of a dtype": ("torch.ones(2, dtype=torch.half)", "torch.ones(2, dtype=torch.bfloat16)"),
    "one like another": ("model.w.new_zeros(2, dtype=torch.half)", "model.w.new_zeros(2, dtype=torch.bfloat16)"),
    "a tensor of numbers": ("torch.as_tensor(1, dtype=torch.half)", "torch.as_tensor(1, dtype=torch.bfloat16)"),
}


@pytest.mark.parametrize(("before", "after"), TENSORS.values(), ids=TENSORS)
def test_tensors_in_the_other_type_move_with_the_only_run_that_makes_them(
    before: str, after: str, tmp_path: Path
) -> None:
    files = {**TWO_RUNS, "one.py": CODE.replace("torch.float16)", f"torch.float32)\n    batch = {before}")}
    report, runs = moved(tmp_path / "safe", planted(lambda edit: edit), files)
    assert paths_changed(report) == {"two.py", "two.sh"}
    assert "what else reads the tensor is not known" in runs["one.sh"].why[0].message
    report, runs = moved(tmp_path / "unsafe", planted(lambda edit: edit), files, unsafe=True)
    (change,) = (change for change in report.changes if change.path == "one.py")
    assert after.encode() in change.after
    assert runs["one.sh"].state is MoveState.MOVED


STAYING = {
    "a cast by the name of a type": (
        'batch = torch.ones(2).type("torch.cuda.HalfTensor")',
        "torch.ones(2).type() stays float16: move it by hand",
    ),
    "a tensor of a type": ("batch = torch.cuda.HalfTensor([2])", "HalfTensor() stays float16: move it by hand"),
    "a variable that no branch sets to the target": (
        "if args.seed:\n        dtype = torch.float16",
        "dtype stays float16: move it by hand",
    ),
}


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize(("statement", "left"), STAYING.values(), ids=STAYING)
def test_what_stays_in_the_other_type_beside_the_weights_withdraws_a_run(
    statement: str, left: str, unsafe: bool, tmp_path: Path
) -> None:
    files = {**TWO_RUNS, "one.py": CODE.replace("torch.float16)", f"torch.float32)\n    {statement}")}
    report, runs = moved(tmp_path, planted(lambda edit: edit), files, unsafe=unsafe)
    assert paths_changed(report) == {"two.py", "two.sh"}
    assert left in [place.message for place in runs["one.sh"].why]
    assert runs["one.sh"].state is MoveState.WITHDRAWN


@pytest.mark.parametrize(("hook", "state"), [("predict_step", MoveState.MOVED), ("training_step", MoveState.LEFT)])
def test_a_tensor_of_a_stage_that_training_does_not_enter_holds_nothing_back(
    hook: str, state: MoveState, tmp_path: Path
) -> None:
    code = f"""
        import torch
        from lightning import LightningModule, Trainer

        class Module(LightningModule):
            def {hook}(self, batch):
                return self.net(batch) + torch.ones(2, dtype=torch.float16)

        if __name__ == "__main__":
            Trainer(precision="16-mixed").fit(Module())
    """
    files = {"train.py": code, "requirements.txt": "torch>=2.4\nlightning>=2.2\n"}
    _, runs = moved(tmp_path, planted(lambda edit: edit), files)
    assert runs["train.py"].state is state


def test_a_tensor_that_another_program_makes_too_holds_a_run_back(tmp_path: Path) -> None:
    shared = "import torch\n\n\ndef masks():\n    return torch.ones(2, dtype=torch.float16)\n"
    files = {
        **TWO_RUNS,
        "shared.py": shared,
        "one.py": CODE.replace("torch.float16)", "torch.float32)\n    import shared\n    batch = shared.masks()"),
        "serve.py": "import shared\n\nprint(shared.masks())\n",
    }
    report, runs = moved(tmp_path, planted(lambda edit: edit), files, unsafe=True)
    assert paths_changed(report) == {"two.py", "two.sh"}
    assert runs["one.sh"].state is MoveState.WITHDRAWN


@pytest.mark.parametrize(
    "new",
    [
        "torch.float32)\n    batch = torch.ones(2, dtype=torch.float32)",
        "torch.float32)\n    is_half = model.dtype == torch.float16",
    ],
    ids=["a tensor in float32", "a question"],
)
def test_what_is_no_tensor_in_the_other_type_holds_nothing_back(new: str, tmp_path: Path) -> None:
    files = {**TWO_RUNS, "one.py": CODE.replace("torch.float16)", new)}
    report, _ = moved(tmp_path, planted(lambda edit: edit), files)
    assert "one.sh" in paths_changed(report)


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("load", ["", ", torch_dtype=torch.float16"])
def test_quantized_weights_alone_take_no_run_to_a_target(load: str, unsafe: bool, tmp_path: Path) -> None:
    code = f"""
        import torch
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

        config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
        model = AutoModelForCausalLM.from_pretrained("m", quantization_config=config{load})
        Trainer(model=model, args=TrainingArguments(output_dir="out")).train()
    """
    report, runs = moved(tmp_path, planted(lambda edit: edit), {"train.py": code}, unsafe=unsafe)
    assert not report.changes
    assert runs["train.py"].is_left


def test_a_variable_with_a_branch_for_the_target_holds_nothing_back(tmp_path: Path) -> None:
    choice = "\n    dtype = torch.float16 if args.fp16 else torch.bfloat16"
    report, _ = moved(
        tmp_path,
        planted(lambda edit: edit),
        {**TWO_RUNS, "one.py": CODE.replace(", torch_dtype=torch.float16)", f"){choice}")},
    )
    assert "one.sh" in paths_changed(report)


def test_weights_in_a_dtype_that_is_not_known_leave_a_run_to_the_user(tmp_path: Path) -> None:
    files = {**TWO_RUNS, "one.py": CODE.replace("torch.float16)", "chosen(args))")}
    report, runs = moved(tmp_path / "safe", planted(lambda edit: edit), files)
    assert paths_changed(report) == {"two.py", "two.sh"}
    assert "loads weights in a dtype that is not known here" in runs["one.sh"].why[0].message
    report, runs = moved(tmp_path / "unsafe", planted(lambda edit: edit), files, unsafe=True)
    assert "one.sh" in paths_changed(report)


def test_weights_named_by_a_string_move(tmp_path: Path) -> None:
    files = {**TWO_RUNS, "one.py": CODE.replace("torch.float16)", 'getattr(torch, "float16"))')}
    report, _ = moved(tmp_path, planted(lambda edit: edit), files)
    (change,) = (change for change in report.changes if change.path == "one.py")
    assert b'getattr(torch, "bfloat16")' in change.after


def test_weights_that_a_switch_loads_without_a_dtype_are_said(tmp_path: Path) -> None:
    files = {**TWO_RUNS, "one.py": CODE.replace("torch.float16)", "torch.float16 if args.fp16 else None)")}
    report, runs = moved(tmp_path / "safe", planted(lambda edit: edit), files)
    assert paths_changed(report) == {"two.py", "two.sh"}
    assert "loads the weights without a dtype" in runs["one.sh"].why[0].message
    report, runs = moved(tmp_path / "unsafe", planted(lambda edit: edit), files, unsafe=True)
    assert paths_changed(report) == {"one.sh", "two.py", "two.sh"}
    assert runs["one.sh"].state is MoveState.MOVED


IN_CODE = """
    import torch

    use_amp = False
    net = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
    with torch.autocast("cuda", dtype=torch.DTYPE, enabled=use_amp):
        loss = net(torch.ones(2, 4).cuda()).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
DEFAULT_OFF = {
    "run.sh": "python train.py --output_dir out --bf16 False --fp16 False --learning_rate 1e-5\n",
    "train.py": """
        from trl import SFTConfig, SFTTrainer, TrlParser

        (args,) = TrlParser((SFTConfig,)).parse_args_and_config()
        SFTTrainer("m", args=args).train()
    """,
}
OFF = {
    "a switch in code, to float16": ({"train.py": IN_CODE.replace("DTYPE", "bfloat16")}, "fp16-mixed"),
    "a switch in code, to bfloat16": ({"train.py": IN_CODE.replace("DTYPE", "float16")}, "bf16-mixed"),
    "a default that a launch line refuses": (DEFAULT_OFF, "fp16-mixed"),
}


@pytest.mark.parametrize(("files", "regime"), OFF.values(), ids=OFF)
def test_a_run_in_which_mixed_precision_is_off_is_left(files: dict[str, str], regime: str, tmp_path: Path) -> None:
    report, runs = moved(tmp_path, planted(lambda edit: edit), {**files, "requirements.txt": "torch>=2.4\n"}, regime)
    assert not report.changes
    assert [(run.before, run.after, run.state) for run in runs.values()] == [("fp32", "fp32", MoveState.LEFT)]


def test_a_program_whose_switch_is_off_by_default_moves_for_those_who_pass_it(tmp_path: Path) -> None:
    asked = "import argparse\n\n    import torch\n\n    parser = argparse.ArgumentParser()\n"
    asked += '    parser.add_argument("--amp", action="store_true")\n    use_amp = parser.parse_args().amp'
    code = IN_CODE.replace("DTYPE", "float16").replace("import torch\n\n    use_amp = False", asked)
    _, runs = moved(tmp_path, all_rules(), {"train.py": code, "requirements.txt": "torch>=2.4\n"})
    run = runs["train.py"]
    assert (run.before, run.after) == ("fp32; fp16-mixed with amp", "fp32; bf16-mixed with amp")
    assert [place.message for place in run.why] == ["computes in fp32 except with amp"]


@pytest.mark.parametrize(
    ("given", "held"),
    [("--bf16", True), ("--bf16 True", True), ("--bf16 False", False), ("--no_bf16", False), ("--max_steps 9", False)],
)
def test_what_a_read_me_passes_to_a_program_holds_its_files_back(given: str, held: bool, tmp_path: Path) -> None:
    machine = "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 4\n"
    line = f"accelerate launch --config_file machine.yaml \\\n    tune.py \\\n    {given}\n"
    code = CODE.replace(", torch_dtype=torch.float16)", ")")
    files = {**REQUIRED, "tune.py": code, "machine.yaml": machine}
    _, runs = moved(tmp_path / "safe", all_rules(), files, "fp16-mixed")
    assert runs["machine.yaml"].state is not MoveState.WITHDRAWN
    files["README.md"] = f"# Tune\n\n```bash\n{line}```\n"
    report, runs = moved(tmp_path / "told", all_rules(), files, "fp16-mixed")
    assert runs["tune.py"].state is (MoveState.WITHDRAWN if held else MoveState.MOVED)
    assert paths_changed(report) == (set() if held else {"machine.yaml"})
    assert not held or "README.md" in [place.path for place in runs["tune.py"].why]


NAMED = """
    import argparse

    import torch


    def score(net, data, mixed):
        with torch.no_grad(), torch.autocast("cuda", enabled=mixed):
            return net(data)


    def fit(net, optimizer, data, args):
        mixed = SWITCH
        scaler = torch.amp.GradScaler("cuda", enabled=mixed)
        for part in data:
            with torch.autocast("cuda", enabled=mixed):
                loss = net(part.cuda()).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        score(net, data, mixed)


    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", default="16-mixed")
    net = torch.nn.Linear(4, 4).cuda()
    fit(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.ones(2, 2, 4), parser.parse_args())
"""


@pytest.mark.parametrize(
    ("switch", "is_left"),
    [
        ('args.precision == "16-mixed"', True),
        ('args.precision == "16-mixed" and torch.cuda.is_available()', True),
        ('torch.cuda.is_available() and args.precision in ("fp16", "16-mixed")', True),
        ('"fp16" in args.precision', True),
        ("args.precision == 16", True),
        ("args.amp == 1", False),
        ('args.precision == "16-mixed" or args.fast', False),
        ('args.precision in ("16-mixed", "bf16-mixed")', False),
        ('args.precision != "fp32"', False),
        ('args.precision == "mixed"', False),
        ("torch.cuda.is_available()", False),
    ],
)
def test_a_region_that_a_word_for_another_dtype_switches_on_stays(switch: str, is_left: bool, tmp_path: Path) -> None:
    files = {"train.py": NAMED.replace("SWITCH", switch), "requirements.txt": "torch>=2.4\n"}
    report, runs = moved(tmp_path, list(all_rules()), files)
    assert [(run.state, bool(report.changes)) for run in runs.values()] == [
        (MoveState.LEFT, False) if is_left else (MoveState.MOVED, True)
    ]
    assert is_left == any("switches it on for another dtype only" in item.message for item in report.remaining)


WITH_SCALER_ONLY = """
    import argparse
    import contextlib

    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", default="float16")
    args = parser.parse_args()
    net = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda") if args.kind == "float16" else None
    with torch.autocast("cuda") if scaler is not None else contextlib.nullcontext():
        loss = net(torch.ones(2, 4).cuda()).sum()
    if scaler is not None:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("kind", "is_left"), [("float16", True), ("mixed", False)])
def test_a_region_beside_a_scaler_that_a_word_asks_for_stays(kind: str, is_left: bool, tmp_path: Path) -> None:
    files = {"train.py": WITH_SCALER_ONLY.replace("float16", kind), "requirements.txt": "torch>=2.4\n"}
    report, runs = moved(tmp_path, list(all_rules()), files)
    assert [bool(report.changes), *(run.state is MoveState.LEFT for run in runs.values())] == [not is_left, is_left]


TWIN = """
    from accelerate import Accelerator
    from nets import loss_of, net, optimizer


    class Loop:
        def __init__(self, amp=False, kind="fp16"):
            self.accelerator = Accelerator(mixed_precision=kind if amp else "no")

        def run(self):
            self.accelerator.backward(loss_of(self.accelerator.prepare(net)))
            optimizer.step()


    if __name__ == "__main__":
        Loop(amp=AMP).run()
"""


def test_the_value_of_a_branch_that_no_caller_takes_stays(tmp_path: Path) -> None:
    files = {"gpu.py": TWIN.replace("AMP", "True"), "cpu.py": TWIN.replace("AMP", "False"), **REQUIRED}
    report, runs = moved(tmp_path, list(all_rules()), files)
    assert paths_changed(report) == {"gpu.py"}
    assert {path: (run.before, run.after, run.state) for path, run in runs.items()} == {
        "gpu.py": ("fp16-mixed", "bf16-mixed", MoveState.MOVED),
        "cpu.py": ("fp32", "fp32", MoveState.LEFT),
    }


BY_SWITCH = "torch_dtype=torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else torch.float32"
FOLLOWING = CODE.replace("torch_dtype=torch.float16", BY_SWITCH).replace(".requires_grad_(False)", "")
ADAPTED = FOLLOWING.replace("    Trainer(", "    model = get_peft_model(model, LoraConfig())\n    Trainer(").replace(
    "    from", "    from peft import LoraConfig, get_peft_model\n    from", 1
)
BF16_LINE = f"python train.py {FLAGS.replace('--fp16', '--bf16')}"
FLOAT16_WEIGHTS = {
    "weights that follow the switch": (FOLLOWING, BF16_LINE, MoveState.WITHDRAWN),
    "and where bfloat16 is off": (
        FOLLOWING.replace(BY_SWITCH, "torch_dtype=torch.bfloat16 if args.bf16 else torch.float16"),
        BF16_LINE,
        MoveState.WITHDRAWN,
    ),
    "adapters that an option asks for": (
        ADAPTED.replace("model = get", "if args.seed:\n        model = get"),
        BF16_LINE,
        MoveState.WITHDRAWN,
    ),
    "adapters": (ADAPTED, BF16_LINE, MoveState.MOVED),
    "sharded weights": (FOLLOWING, BF16_LINE.replace("python", "deepspeed"), MoveState.MOVED),
    "weights in float32": (FOLLOWING.replace("torch.float16", "torch.float32"), BF16_LINE, MoveState.MOVED),
}


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize(("code", "line", "state"), FLOAT16_WEIGHTS.values(), ids=FLOAT16_WEIGHTS)
def test_a_trainer_does_not_move_where_its_switch_loads_float16_weights(
    code: str, line: str, state: MoveState, unsafe: bool, tmp_path: Path
) -> None:
    files = {"train.py": code, "run.sh": line, "requirements.txt": "torch>=2.4\ntransformers>=4.40,<5\npeft>=0.12\n"}
    report, runs = moved(tmp_path, planted(lambda edit: edit), files, "fp16-mixed", unsafe=unsafe)
    assert runs["run.sh"].state is state
    assert paths_changed(report) == ({"run.sh"} if state is MoveState.MOVED else set())
    told = " ".join(place.message for place in runs["run.sh"].why)
    assert ("Attempting to unscale FP16 gradients" in told) == (state is MoveState.WITHDRAWN)


CONFIGURED = {
    "configs/_base_/schedule.py": """
        from mmengine.optim import AmpOptimWrapper

        optim_wrapper = dict(type=AmpOptimWrapper, dtype="bfloat16", optimizer=dict(type="AdamW", lr=1e-4))
    """,
    "configs/plain.py": """
        from mmengine.config import read_base

        with read_base():
            from ._base_.schedule import *
    """,
    "requirements.txt": "mmengine>=0.8\n",
}
WEIGHTS = '\n        model.update(weight_dtype="bf16")\n'


def test_a_python_configuration_is_a_run_with_what_it_builds_on(tmp_path: Path) -> None:
    report, runs = moved(tmp_path, planted(lambda edit: edit), CONFIGURED, "fp16-mixed")
    assert paths_changed(report) == {"configs/_base_/schedule.py"}
    assert {path: each.state for path, each in runs.items()} == {"configs/plain.py": MoveState.MOVED}


@pytest.mark.parametrize("unsafe", [False, True])
def test_weights_that_a_python_configuration_asks_for_withdraw_what_it_builds_on(unsafe: bool, tmp_path: Path) -> None:
    files = {**CONFIGURED, "configs/weights.py": CONFIGURED["configs/plain.py"] + WEIGHTS}
    report, runs = moved(tmp_path, planted(lambda edit: edit), files, "fp16-mixed", unsafe=unsafe)
    assert not report.changes, "both are built on the same file"
    assert [place.message for place in runs["configs/weights.py"].why][:1] == [
        "update(weight_dtype=) stays bf16: move it by hand"
    ]


CASCADE = """
    import argparse
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16", "fp16_autocast"])
    args = parser.parse_args()
    if args.precision == "fp32":
        compute, policy = torch.float16, None
    elif args.precision == "bf16":
        compute = torch.bfloat16
        policy = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    else:
        compute = torch.float16
        policy = MixedPrecision(param_dtype=torch.float16, reduce_dtype=torch.float16)
    model = FullyShardedDataParallel(torch.nn.Linear(2, 2).cuda(), mixed_precision=policy)
    with torch.autocast("cuda", dtype=compute):
        loss = model(torch.ones(2, 2).cuda()).sum()
    loss.backward()
"""


def test_branches_that_a_word_for_a_precision_picks_stay(tmp_path: Path) -> None:
    files = {"train.py": CASCADE, "run.sh": "python train.py --precision bf16\n"}
    report, _ = moved(tmp_path, planted(lambda edit: edit), files, "fp16-mixed", unsafe=True)
    texts = b"".join(change.after for change in report.changes)
    assert b"param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16" in texts or not report.changes
    assert b"--precision fp32" not in texts
    assert b'default="fp32"' not in texts


def test_dtypes_that_branches_give_to_what_a_call_is_passed_stay(tmp_path: Path) -> None:
    policy = """
        import torch
        from torch.distributed.fsdp import MixedPrecision

        def policy_of(precision):
            if precision == "16-mixed":
                param = torch.float32
            elif precision == "bf16-mixed":
                param = torch.bfloat16
            else:
                param = torch.float32
            return MixedPrecision(param_dtype=param, reduce_dtype=param)
    """
    report, _ = moved(tmp_path, planted(lambda edit: edit), {"policy.py": policy}, "fp16-mixed", unsafe=True)
    assert not report.changes


@pytest.mark.parametrize(
    ("fields", "after"),
    [
        ("bf16: bool = True", "fp16: bool = True"),
        ("bf16: bool = field(default=True)\n        fp16: bool = False", "bf16: bool = field(default=False)"),
    ],
    ids=["one switch", "both switches"],
)
def test_a_switch_that_a_subclass_has_on_by_default_goes_over(fields: str, after: str, tmp_path: Path) -> None:
    code = f"""
    from dataclasses import dataclass, field
    import transformers

    @dataclass
    class Arguments(transformers.TrainingArguments):
        {fields}
    """
    report, _ = moved(tmp_path, planted(lambda edit: edit), {"args.py": code}, "fp16-mixed", unsafe=True)
    (change,) = report.changes
    assert after.encode() in change.after
    assert not moved(tmp_path / "safe", planted(lambda edit: edit), {"args.py": code}, "fp16-mixed")[0].changes


def test_a_file_that_trains_and_stays_is_told_though_nothing_starts_it(tmp_path: Path) -> None:
    code = """
        import torch
        from contextlib import suppress

        def epoch(model, batches, args):
            autocast = torch.cuda.amp.autocast if args.precision == "amp" else suppress
            for batch in batches:
                with autocast():
                    loss = model(batch)
                loss.backward()
    """
    report, runs = moved(tmp_path, planted(lambda edit: edit), {"loop.py": code}, "bf16-mixed")
    assert not report.changes
    assert runs["loop.py"].state is MoveState.LEFT


def test_what_other_rules_change_does_not_take_a_run_away_from_its_target(tmp_path: Path) -> None:
    code = """
        import argparse
        import torch

        parser = argparse.ArgumentParser()
        parser.add_argument("--dtype", default="bfloat16")
        args = parser.parse_args()
        model = torch.nn.Linear(2, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.cuda.amp.GradScaler(enabled=args.dtype in ("float16", "bfloat16"))
        with torch.cuda.amp.autocast():
            loss = model(torch.ones(2, 2).cuda()).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """
    rules = [rule for rule in all_rules() if rule.code in ("PF001", "PF302")]
    files = {"train.py": code, "requirements.txt": "torch>=2.4\n"}
    report, runs = moved(tmp_path, rules, files, "fp16-mixed", unsafe=True)
    assert [item.code for item in report.findings] == ["PF302"], "it passes the option to the region"
    assert [b'default="float16"' in change.after for change in report.changes] == [True]
    assert runs["train.py"].after == "fp16-mixed"


def test_a_cast_that_the_switch_makes_goes_with_it(tmp_path: Path) -> None:
    cast = CODE.replace(", torch_dtype=torch.float16)", ")\n    if args.fp16:\n        model.to(torch.float16)")
    _, runs = moved(tmp_path, planted(lambda edit: edit), {**TWO_RUNS, "one.py": cast})
    assert {run.state for run in runs.values()} == {MoveState.MOVED}


def test_the_plan_says_what_migrate_then_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {**TWO_RUNS, "two.sh": f"python two.py --model m-gptq {FLAGS}"}
    write_tree(tmp_path, files)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    asked = ("--to", "bf16-mixed", "--output-format", "json")
    plan = precfix(capfd, monkeypatch, "audit", tmp_path, "--plan", *asked)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, *asked)
    planned = json.loads(plan.out)["moves"]
    assert (plan.code, done.code, planned) == (1, 1, json.loads(done.out)["moves"])
    states = {each["filename"]: (each["state"], each["before"], each["after"]) for each in planned}
    assert states == {
        "one.sh": ("moved", "fp16-mixed", "bf16-mixed"),
        "two.sh": ("left", "fp16-mixed", "fp16-mixed"),
    }
    assert "GPTQ" in next(each["why"][0]["message"] for each in planned if each["filename"] == "two.sh")


@pytest.mark.parametrize("words", [("--plan",), ("--to", "bf16-mixed"), ("--unsafe-fixes",)])
def test_a_plan_needs_a_target_and_a_target_a_plan(
    words: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"train.py": "import torch\n"})
    done = precfix(capfd, monkeypatch, "audit", tmp_path, *words)
    assert (done.code, done.err.count("\n")) == (2, 1)


LOOP = """\
import torch
from torch import nn
from torch.amp import GradScaler, autocast

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def main(epochs=2, steps=4):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler(DEVICE)
    for epoch in range(epochs):
        for step in range(steps):
            batch = torch.randn(4, 8, device=DEVICE)
            optimizer.zero_grad()
            with autocast(DEVICE, dtype=torch.float16):
                out = model(batch)
                loss = out.float().pow(2).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        print(f"{epoch} {loss.item():.3f}")
    with torch.no_grad(), autocast(DEVICE, dtype=torch.float16):
        print(out.dtype, model(batch).cpu().numpy().shape)


if __name__ == "__main__":
    main()
"""


def test_there_and_back_again_every_program_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scaler goes with float16 and comes back with it; what NumPy does not take is cast behind the move."""
    write_tree(tmp_path, {"train.py": LOOP, "requirements.txt": "torch>=2.4\n"})
    first = executed(tmp_path / "train.py")
    assert "torch.float16 (4, 1)" in first
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, "--to", "bf16-mixed")
    text = (tmp_path / "train.py").read_text()
    assert (done.code, "torch.float16" in text, "scaler" in text.lower()) == (0, False, False)
    assert "torch.bfloat16 (4, 1)" in executed(tmp_path / "train.py")
    precfix(capfd, monkeypatch, "migrate", tmp_path, "--to", "fp16-mixed")
    text = (tmp_path / "train.py").read_text()
    assert ("torch.bfloat16" in text, text.count("scaler.")) == (False, 4), "scale, unscale_, step, update"
    assert executed(tmp_path / "train.py") == first


def executed(script: Path) -> str:
    done = subprocess.run([python(), "-W", "ignore", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_scaler_stays_where_its_region_waits_on_the_way_to_float16(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The regions are not moved in this command; without the scaler they could never be."""
    waiting = LOOP.replace("torch.float16", "torch.bfloat16")
    write_tree(tmp_path, {"train.py": waiting, "requirements.txt": "torch>=2.4\n"})
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, "--to", "fp16-mixed", "--select", "PF101")
    assert (done.code, (tmp_path / "train.py").read_text()) == (1, waiting)
    assert "PF101 grad-scaler-under-bf16" in done.out


REGION_LEFT = {
    "train.py": """
        import torch
        from kernels import Scale

        def train(model, batches, optimizer):
            for x, y in batches:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = (Scale.apply(model(x), model.weight) - y).sum()
                loss.backward()
                optimizer.step(lambda: loss)
    """,
    "kernels.py": """
        import torch

        class Scale(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
            def forward(ctx, x, w):
                ctx.save_for_backward(x, w)
                return x @ w

            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")
            def backward(ctx, g):
                x, w = ctx.saved_tensors
                return g @ w.t(), x.t() @ g
    """,
    "requirements.txt": "torch>=2.4\n",
}


def test_what_suits_the_regime_of_a_run_that_is_left_is_not_written(tmp_path: Path) -> None:
    """PF207 would write bfloat16 for a region that waits for its scaler on the way to float16."""
    project = open_tree(tmp_path, REGION_LEFT)
    without = engine.migrate(project, all_rules(), Target("bf16-mixed", "a test"), Options(unsafe_fixes=True))
    assert paths_changed(without) == {"kernels.py"}
    aimed = project.with_frameworks(load_frameworks()).with_target("fp16-mixed")
    report = move(aimed, all_rules(), Target("fp16-mixed", "a test"), Options(unsafe_fixes=True), all_rules())
    assert (paths_changed(report), [each.state for each in report.moves]) == (set(), [MoveState.LEFT])
    assert "PF207" in {finding.code for finding in report.remaining}


def test_auto_moves_where_the_trainer_gives_it_a_meaning(tmp_path: Path) -> None:
    """axolotl's ``bf16: auto`` chooses bfloat16 itself; DeepSpeed's only takes over what another place asks for."""
    files = {"lora.yml": "base_model: m\nmicro_batch_size: 1\nsequence_len: 512\nbf16: auto\n"}
    project = open_tree(tmp_path, files).with_frameworks(load_frameworks()).with_target("fp16-mixed")
    report = move(project, all_rules(), Target("fp16-mixed", "a test"), Options(unsafe_fixes=True), all_rules())
    assert [change.after for change in report.changes] == [
        files["lora.yml"].encode().replace(b"auto", b"false") + b"fp16: true\n"
    ]


def test_the_float16_of_openmmlab_before_mmengine_is_told(tmp_path: Path) -> None:
    code = """
        from mmcv.runner import Fp16OptimizerHook, auto_fp16, build_runner

        def train(cfg, model):
            runner = build_runner(cfg.runner, default_args=dict(model=model))
            fp16_cfg = cfg.get("fp16", None)
            hook = cfg.optimizer_config
            if fp16_cfg is not None:
                hook = Fp16OptimizerHook(**cfg.optimizer_config, **fp16_cfg)
            runner.register_training_hooks(cfg.lr_config, hook)
    """
    _, runs = moved(tmp_path, planted(lambda edit: edit), {"apis/training.py": code})
    (row,) = runs.values()
    assert (row.path, row.state) == ("apis/training.py", MoveState.LEFT)
    assert [place.message for place in row.why] == [
        "Fp16OptimizerHook is float16: no automatic edit is known, change it by hand"
    ]
    _, runs = moved(tmp_path, planted(lambda edit: edit), {"apis/training.py": code}, "fp16-mixed")
    assert not runs


# --- values that a test picks -----------------------------------------------------------------------------------------

SHARDED = """
    import functools
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments


    class Distiller(Trainer):
        def shard(self, model):
            dtype = None
            if self.args.fp16:
                dtype = torch.float16
            elif self.args.bf16:
                dtype = torch.bfloat16
            policy = MixedPrecision(param_dtype=dtype, reduce_dtype=dtype, buffer_dtype=dtype)
            return FSDP(model, mixed_precision=policy)


    (args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
    trainer = Distiller(AutoModelForCausalLM.from_pretrained("m"), args)
    trainer.shard(AutoModelForCausalLM.from_pretrained("teacher"))
    trainer.train()
"""
BY_DEVICE = """
    import torch
    from accelerate import Accelerator

    if torch.cuda.is_available():
        mixed_precision = "bf16"
    else:
        mixed_precision = "no"
    accelerator = Accelerator(mixed_precision=mixed_precision)
    model = accelerator.prepare(torch.nn.Linear(2, 2))
    for batch in ():
        accelerator.backward(model(batch).sum())
"""


@pytest.mark.parametrize("regime", ["fp16-mixed", "bf16-mixed"])
def test_branches_of_a_trainers_switch_stay(tmp_path: Path, regime: str) -> None:
    files = {"train.py": SHARDED, "go.sh": f"torchrun train.py {FLAGS.replace('fp16', 'bf16')}", **REQUIRED}
    report, runs = moved(tmp_path, all_rules(), files, regime)
    assert paths_changed(report) == ({"go.sh"} if regime == "fp16-mixed" else set())
    assert runs["go.sh"].after == regime


@pytest.mark.parametrize("regime", ["fp16-mixed", "bf16-mixed"])
def test_what_a_machine_without_a_gpu_computes_in_stays(tmp_path: Path, regime: str) -> None:
    report, runs = moved(tmp_path, all_rules(), {"train.py": BY_DEVICE, **REQUIRED}, regime, unsafe=True)
    written = [change.after.decode() for change in report.changes]
    assert all('mixed_precision = "no"' in text and '"fp16"' in text for text in written)
    assert bool(written) is (regime == "fp16-mixed")
    assert runs["train.py"].after == regime


def test_the_value_before_a_test_is_its_other_branch(tmp_path: Path) -> None:
    code = """
        import argparse
        import pytorch_lightning as pl
        import torch

        class Net(pl.LightningModule):
            def training_step(self, batch, index):
                return batch.sum()

        parser = argparse.ArgumentParser()
        parser.add_argument("--mixed_precision", action="store_true")
        args = parser.parse_args()
        precision = 32
        if args.mixed_precision:
            precision = 16
        pl.Trainer(precision=precision).fit(Net())
    """
    report, _ = moved(
        tmp_path, all_rules(), {"train.py": code, "requirements.txt": "pytorch-lightning>=2.2\n"}, unsafe=True
    )
    (change,) = report.changes
    text = change.after.decode()
    assert "precision = 32\n" in text
    assert 'precision = "bf16-mixed"' in text


# --- what is not known of a run ---------------------------------------------------------------------------------------

RECIPE = "model_name_or_path: m\nbf16: true\noutput_dir: out\nlearning_rate: 1.0e-5\nper_device_train_batch_size: 1\n"
BY_RECIPE = """
    import sys
    from dataclasses import dataclass
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

    @dataclass
    class ModelArguments:
        model_name_or_path: str = "m"
        torch_dtype: str | None = None

    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model, args = parser.parse_yaml_file(sys.argv[1])
    Trainer(AutoModelForCausalLM.from_pretrained(model.model_name_or_path, torch_dtype=model.torch_dtype), args).train()
"""
LAUNCHER = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 8\n"
LAUNCHED = "accelerate launch --config_file conf/launcher.yaml train.py"


@pytest.mark.parametrize(
    ("name", "is_known"), [("recipes/a.yaml", True), ("recipes/${task}.yaml", True), ("recipes/${1}.yaml", False)]
)
def test_a_recipe_that_a_variable_names_holds_the_rest_of_its_run_back(
    tmp_path: Path, name: str, is_known: bool
) -> None:
    files = {
        "train.py": BY_RECIPE,
        "conf/launcher.yaml": LAUNCHER,
        "recipes/a.yaml": RECIPE,
        "recipes/b.yaml": RECIPE,
        "go.sh": f"for task in a b; do\n  {LAUNCHED} {name}\ndone\n",
        **REQUIRED,
    }
    safe, _ = moved(tmp_path / "safe", all_rules(), files, "fp16-mixed")
    assert ("conf/launcher.yaml" in paths_changed(safe)) is is_known
    unsafe, runs = moved(tmp_path / "unsafe", all_rules(), files, "fp16-mixed", unsafe=True)
    assert {"conf/launcher.yaml", "recipes/a.yaml"} <= paths_changed(unsafe)
    assert runs["go.sh"].after == "fp16-mixed"


@pytest.mark.parametrize("regime", ["fp16-mixed", "bf16-mixed"])
def test_from_pure_to_mixed_takes_memory_and_leave(tmp_path: Path, regime: str) -> None:
    code = """
        import lightning

        class Net(lightning.LightningModule):
            def training_step(self, batch, index):
                return batch.sum()

        lightning.Trainer(precision="bf16-true").fit(Net())
    """
    files = {"train.py": code, "requirements.txt": "lightning>=2.2\n"}
    safe, runs = moved(tmp_path / "safe", all_rules(), files, regime)
    assert not safe.changes
    assert any("twice the memory" in place.message for place in runs["train.py"].why)
    unsafe, runs = moved(tmp_path / "unsafe", all_rules(), files, regime, unsafe=True)
    assert paths_changed(unsafe) == {"train.py"}
    assert runs["train.py"].after == regime


def test_weights_in_16_bits_under_a_region_are_not_called_mixed(tmp_path: Path) -> None:
    code = """
        import torch

        model = torch.nn.Linear(8, 1).to(torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(torch.randn(4, 8)).mean()
            loss.backward()
            optimizer.step()
    """
    _, pure = moved(tmp_path / "true", all_rules(), {"train.py": code}, "bf16-true")
    assert (pure["train.py"].before, pure["train.py"].state) == ("bf16-true", MoveState.THERE)
    _, mixed = moved(tmp_path / "mixed", all_rules(), {"train.py": code}, "bf16-mixed")
    assert (mixed["train.py"].after, mixed["train.py"].state) == ("bf16-true", MoveState.LEFT)
    assert "bf16-mixed keeps in float32" in mixed["train.py"].why[0].message


def test_a_run_that_nobody_can_follow_names_the_regions_of_the_other_type(tmp_path: Path) -> None:
    code = """
        import os

        import torch

        AMP = os.environ.get("AMP", "1") == "1"


        class Settings:
            amp = True
            precision = "fp16"


        def main():
            settings = Settings()
            body, head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
            optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
            for _ in range(2):
                with torch.autocast("cuda", dtype=torch.bfloat16, enabled=AMP):
                    y = body(torch.randn(4, 8))
                with torch.autocast("cuda", enabled=settings.amp and settings.precision == "fp16"):
                    loss = head(y).mean()
                loss.backward()
                optimizer.step()


        if __name__ == "__main__":
            main()
    """
    _, runs = moved(tmp_path, all_rules(), {"train.py": code})
    assert runs["train.py"].state is MoveState.UNSTATED
    assert [(place.span.row, place.message) for place in runs["train.py"].still] == [
        (20, "still says fp16-mixed: autocast is float16 (the default), enabled=settings.amp")
    ]


BUILDS_A_PATH = """
    import argparse

    import torch
    from accelerate import Accelerator

    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", default="no", choices=["no", "fp16", "bf16"])
    parser.add_argument("--resume", default="runs/fp16/net.pt")
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    net, optimizer = accelerator.prepare(net, optimizer)
    accelerator.backward(net(torch.randn(4, 8).to(accelerator.device)).mean())
    optimizer.step()
    print("precision:", args.mixed_precision)
    torch.save(net.state_dict(), "net.pt")
"""


def test_paths_and_searches_with_the_old_word_are_told(tmp_path: Path) -> None:
    launch = "# fp16 is faster\npython train.py --mixed_precision fp16 > log\n"
    lines = f"{launch}grep 'precision: fp16' log\ntest -f runs/fp16/net.pt\n"
    _, runs = moved(tmp_path, all_rules(), {"train.py": BUILDS_A_PATH, "ci.sh": lines, **REQUIRED})
    assert runs["ci.sh"].state is MoveState.MOVED
    assert [(place.path, place.span.row, place.message) for place in runs["ci.sh"].still] == [
        ("ci.sh", 1, "still says float16 in words: fp16 is faster"),
        ("ci.sh", 3, "still says fp16: grep 'precision: fp16' log"),
        ("ci.sh", 4, "still says fp16: test -f runs/fp16/net.pt"),
        ("train.py", 8, "still says fp16: 'runs/fp16/net.pt'"),
    ]


def test_a_method_that_nothing_calls_holds_no_run_back(tmp_path: Path) -> None:
    code = """
        import torch


        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 1)

            def forward(self, x):
                return self.layer(x)

            def CALLED(self):
                self.layer.half()
                return self


        if __name__ == "__main__":
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for _ in range(2):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = net(torch.randn(4, 8)).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    """
    files = {"requirements.txt": "torch>=2.4\n"}
    _, runs = moved(tmp_path / "idle", all_rules(), {"train.py": code.replace("CALLED", "to_half"), **files})
    assert runs["train.py"].state is MoveState.MOVED
    assert not runs["train.py"].still
    _, runs = moved(tmp_path / "called", all_rules(), {"train.py": code.replace("CALLED", "forward"), **files})
    assert runs["train.py"].state is not MoveState.MOVED


def test_a_run_in_the_default_of_its_trainer_is_listed(tmp_path: Path) -> None:
    code = """
        from transformers import AutoModelForCausalLM
        from trl import SFTConfig, SFTTrainer

        args = SFTConfig(output_dir="out", learning_rate=1e-5)
        SFTTrainer(model=AutoModelForCausalLM.from_pretrained("m"), args=args, train_dataset=[]).train()
    """
    files = {"train.py": code, "requirements.txt": "torch>=2.4\ntransformers>=4.56,<5\ntrl>=0.24\n"}
    _, runs = moved(tmp_path / "there", all_rules(), files)
    assert (runs["train.py"].before, runs["train.py"].state) == ("bf16-mixed", MoveState.THERE)
    report, runs = moved(tmp_path / "moved", all_rules(), files, "fp32")
    assert (runs["train.py"].after, runs["train.py"].state) == ("fp32", MoveState.MOVED)
    assert paths_changed(report) == {"train.py"}


def test_weights_of_a_recipe_become_float32_with_leave_only(tmp_path: Path) -> None:
    files = {
        "train.py": BY_RECIPE,
        "recipes/a.yaml": f"torch_dtype: bfloat16\n{RECIPE}",
        "go.sh": "python train.py recipes/a.yaml\n",
        **REQUIRED,
    }
    safe, _ = moved(tmp_path / "safe", all_rules(), files, "fp16-mixed")
    assert not safe.changes
    unsafe, _ = moved(tmp_path / "unsafe", all_rules(), files, "fp16-mixed", unsafe=True)
    (change,) = unsafe.changes
    assert b"torch_dtype: float32" in change.after
    assert b"fp16: true" in change.after


def test_a_program_is_not_held_to_what_it_only_imports(tmp_path: Path) -> None:
    made = """
        import lightning


        class Net(lightning.LightningModule):
            def training_step(self, batch, index):
                return batch.sum()


        def seed():
            return 3


        def build():
            return lightning.Trainer(precision="16-mixed")
    """
    alone = """
        import lightning
        from made import Net, seed

        seed()
        lightning.Trainer(precision="32-true").fit(Net())
    """
    files = {
        "made.py": made,
        "first.py": "from made import Net, build\n\nif __name__ == '__main__':\n    build().fit(Net())\n",
        "alone.py": alone,
        "requirements.txt": "lightning>=2.2\n",
    }
    report, runs = moved(tmp_path, all_rules(), files)
    assert paths_changed(report) == {"made.py"}
    assert (runs["first.py"].state, runs["alone.py"].state) == (MoveState.MOVED, MoveState.LEFT)


@pytest.mark.parametrize(
    ("flags", "is_safe"),
    [("--bits 4", False), ("--bits 16", True), ("--load_in_4bit True", False), ("--load_in_4bit=False", True)],
)
def test_flags_of_quantized_weights_take_leave(tmp_path: Path, flags: str, is_safe: bool) -> None:
    code = """
        from dataclasses import dataclass
        from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

        @dataclass
        class Arguments(TrainingArguments):
            bits: int = 16
            load_in_4bit: bool = False

        (args,) = HfArgumentParser((Arguments,)).parse_args_into_dataclasses()
        model = AutoModelForCausalLM.from_pretrained("m", load_in_4bit=args.bits == 4 or args.load_in_4bit)
        Trainer(model, args).train()
    """
    files = {"train.py": code, "go.sh": f"python train.py {FLAGS.strip()} {flags}\n", **REQUIRED}
    safe, _ = moved(tmp_path / "safe", all_rules(), files)
    assert paths_changed(safe) == ({"go.sh"} if is_safe else set())
    unsafe, _ = moved(tmp_path / "unsafe", all_rules(), files, unsafe=True)
    assert paths_changed(unsafe) == {"go.sh"}


def test_a_recipe_beside_one_that_is_read_moves_with_leave(tmp_path: Path) -> None:
    files = {
        "train.py": BY_RECIPE,
        "recipes/a.yaml": RECIPE,
        "recipes/b.yaml": RECIPE,
        "other/c.yaml": RECIPE,
        "README.md": "    python train.py recipes/a.yaml\n",
        **REQUIRED,
    }
    safe, _ = moved(tmp_path / "safe", all_rules(), files, "fp16-mixed")
    assert paths_changed(safe) <= {"recipes/a.yaml"}
    unsafe, _ = moved(tmp_path / "unsafe", all_rules(), files, "fp16-mixed", unsafe=True)
    assert paths_changed(unsafe) == {"recipes/a.yaml", "recipes/b.yaml"}


def test_a_recipe_does_not_leave_the_dtype_of_quantized_weights_behind(tmp_path: Path) -> None:
    beside = "bnb_4bit_quant_type: nf4\nsave_dtype: bfloat16\nbnb_4bit_compute_dtype: "
    files = {"recipes/b.yaml": f"{RECIPE}{beside}bfloat16\n", **REQUIRED}
    report, runs = moved(tmp_path / "stays", all_rules(), files, "fp16-mixed", unsafe=True)
    assert not report.changes
    (why, *_) = runs["recipes/b.yaml"].why
    assert why.message == "bnb_4bit_compute_dtype stays bfloat16: move it by hand"
    files = {"recipes/b.yaml": f"{RECIPE}{beside}float16\n", **REQUIRED}
    report, _ = moved(tmp_path / "fits", all_rules(), files, "fp16-mixed", unsafe=True)
    assert paths_changed(report) == {"recipes/b.yaml"}


def test_a_recipe_keeps_the_only_key_that_code_reads(tmp_path: Path) -> None:
    code = """
        import sys
        import yaml
        from transformers import Trainer, TrainingArguments

        with open(sys.argv[1]) as file:
            config = yaml.safe_load(file)
        Trainer(None, TrainingArguments("out", bf16=config{read})).train()
    """
    for number, read in enumerate(('["bf16"]', '.get("bf16", True)')):
        files = {"train.py": code.replace("{read}", read), "recipes/b.yaml": RECIPE, **REQUIRED}
        report, runs = moved(tmp_path / str(number), all_rules(), files, "fp16-mixed", unsafe=True)
        assert "recipes/b.yaml" not in paths_changed(report)
        assert "reads bf16" in " ".join(place.message for place in runs["recipes/b.yaml"].why)
    files["train.py"] += '\n        print(config["fp16"])\n'
    report, _ = moved(tmp_path / "both", all_rules(), files, "fp16-mixed", unsafe=True)
    assert "recipes/b.yaml" in paths_changed(report)


def test_a_file_that_a_variable_names_without_a_twin_says_so(tmp_path: Path) -> None:
    files = {
        "train.py": BY_RECIPE,
        "conf/launcher.yaml": LAUNCHER,
        "recipes/a.yaml": RECIPE,
        "go.sh": f"{LAUNCHED} recipes/${{task}}.yaml\n",
        **REQUIRED,
    }
    _, runs = moved(tmp_path, all_rules(), files, "fp16-mixed")
    assert any("which file recipes/${task}.yaml is" in place.message for place in runs["go.sh"].why)


def test_a_line_that_is_withdrawn_leaves_the_others_of_its_script(tmp_path: Path) -> None:
    lines = f"python one.py {FLAGS}python two.py {FLAGS}"
    files = {path: text for path, text in TWO_RUNS.items() if not path.endswith(".sh")} | {"go.sh": lines}

    def spoiled(edit: Edit) -> Edit:
        operation = edit.operation
        is_first = edit.path == "go.sh" and isinstance(operation, ReplaceText) and operation.start < len(lines) // 2
        return replace(edit, operation=replace(operation, text="--tf32")) if is_first else edit

    report, _ = moved(tmp_path, planted(spoiled), files)
    assert paths_changed(report) == {"go.sh", "two.py"}
    (text,) = (change.after.decode() for change in report.changes if change.path == "go.sh")
    assert text == f"python one.py {FLAGS}python two.py {FLAGS.replace('fp16', 'bf16')}"
    assert [each.state for each in report.moves] == [MoveState.WITHDRAWN, MoveState.MOVED]


def test_weights_that_deepspeed_trains_move_with_its_section(tmp_path: Path) -> None:
    code = """
        import deepspeed
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained("m")
        model = model.half().cuda()
        config = {"train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": True}, "zero_optimization": {"stage": 1}}
        engine, optimizer, _, _ = deepspeed.initialize(config=config, model=model, model_parameters=model.parameters())
        for batch in ():
            engine.backward(engine(batch).mean())
            engine.step()
    """
    files = {"train.py": code, "requirements.txt": "torch>=2.4\ndeepspeed>=0.14\n"}
    safe, _ = moved(tmp_path / "safe", all_rules(), files)
    assert not safe.changes
    unsafe, runs = moved(tmp_path / "unsafe", all_rules(), files, unsafe=True)
    (change,) = unsafe.changes
    assert b"model.bfloat16().cuda()" in change.after
    assert b'"bf16": {"enabled": True}' in change.after
    assert runs["train.py"].state is MoveState.MOVED


PARSED = """
    import sys
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

    parser = HfArgumentParser((TrainingArguments,))
    (args,) = parser.parse_yaml_file(sys.argv[1])
    Trainer(AutoModelForCausalLM.from_pretrained("m"), args).train()
"""
SECTION = '{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}, "train_batch_size": "auto"}\n'


UNLAUNCHED = """
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    Trainer(AutoModelForCausalLM.from_pretrained("m"), TrainingArguments("out", fp16=True)).train()
"""
STRAY = SECTION.replace("bf16", "fp16").replace('"auto"}, "zero', 'true}, "zero')


@pytest.mark.parametrize(
    ("files", "is_safe"),
    [
        ({"zero/ds_stage3.json": STRAY}, False),
        ({"zero/ds_stage3.json": STRAY.replace("true", '"auto"')}, True),
        ({"zero/ds_stage3.json": STRAY, "go.sh": "python train.py\n"}, True),
        ({"zero/ds_stage3.json": STRAY, "go.sh": 'accelerate launch "${ARGS[@]}" train.py\n'}, False),
    ],
    ids=["other", "filled in", "launched without it", "launched with a variable"],
)
def test_a_trainer_without_a_launch_line_does_not_leave_a_deepspeed_file_alone(
    files: dict[str, str], is_safe: bool, tmp_path: Path
) -> None:
    files = {"train.py": UNLAUNCHED, **REQUIRED, **files}
    safe, _ = moved(tmp_path / "safe", all_rules(), files)
    assert ("train.py" in paths_changed(safe)) is is_safe
    unsafe, _ = moved(tmp_path / "unsafe", all_rules(), files, unsafe=True)
    assert "train.py" in paths_changed(unsafe)
    assert "zero/ds_stage3.json" in paths_changed(unsafe) or "auto" in files["zero/ds_stage3.json"]


def test_a_program_reads_what_instructions_start_it_with(tmp_path: Path) -> None:
    files = {
        "chat/train.py": PARSED,
        "chat/config.yaml": f"deepspeed: ds.json\n{RECIPE}",
        "chat/ds.json": SECTION,
        "chat/README.md": "    NCCL_DEBUG=info torchrun --nproc_per_node=8 train.py config.yaml --deepspeed=ds.json\n",
        **REQUIRED,
    }
    report, runs = moved(tmp_path / "one", all_rules(), files, "fp16-mixed", unsafe=True)
    assert paths_changed(report) == {"chat/config.yaml", "chat/ds.json"}
    assert (runs["chat/train.py"].before, runs["chat/train.py"].after) == ("bf16-mixed", "fp16-mixed")
    files |= {"chat/other.yaml": RECIPE.replace("bf16", "fp16")}
    files |= {"chat/README.md": files["chat/README.md"] + "    torchrun train.py other.yaml\n"}
    _, runs = moved(tmp_path / "two", all_rules(), files, "fp16-mixed", unsafe=True)
    assert runs["chat/config.yaml"].after == "fp16-mixed"
    assert runs["chat/train.py"].after == "unknown"


def test_what_a_test_of_the_hardware_picks_moves_with_leave(tmp_path: Path) -> None:
    able = "torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 7"
    code = BY_DEVICE.replace("torch.cuda.is_available()", able).replace("bf16", "fp16")
    safe, _ = moved(tmp_path / "safe", planted(lambda edit: edit), {"train.py": code, **REQUIRED})
    assert not safe.changes
    unsafe, _ = moved(tmp_path / "unsafe", planted(lambda edit: edit), {"train.py": code, **REQUIRED}, unsafe=True)
    assert paths_changed(unsafe) == {"train.py"}


STEP = """
    import torch


    def fit(net, optimizer):
        scaler = torch.amp.GradScaler("cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.ones(2, 4).cuda()).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


    if __name__ == "__main__":
        net = torch.nn.Linear(4, 4).cuda()
        fit(net, torch.optim.SGD(net.parameters(), lr=0.1))
"""


def test_a_run_of_which_a_part_would_stay_says_which(tmp_path: Path) -> None:
    """A notebook whose own cells are a copy holds back the module that it shares with a script."""
    cell = textwrap.dedent(STEP).replace("def fit", "def fit_here").replace(" fit(net", " fit_here(net")
    source = f"from work.first import fit\n{cell}\nfit(net, torch.optim.SGD(net.parameters(), lr=0.1))\n"
    kept = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
    notebook = json.dumps({"cells": [kept], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    files = {"work/__init__.py": "", "work/first.py": STEP, "tune.ipynb": notebook, "requirements.txt": "torch>=2.4\n"}
    report, runs = moved(tmp_path, list(all_rules()), files)
    assert not report.changes
    assert "beside the edits this stays fp16-mixed: autocast" in [place.message for place in runs["work/first.py"].why]


HALF_INPUTS = """
    import torch


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.inner(x.half())


    def fit(net, optimizer, scaler):
        loss = net(torch.ones(2, 4).cuda()).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


    if __name__ == "__main__":
        net = Net().cuda()
        fit(net, torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cuda"))
"""


@pytest.mark.parametrize(("regime", "is_told"), [("bf16-mixed", True), ("fp16-mixed", False)])
def test_a_scaler_that_is_on_says_float16_where_nothing_else_does(regime: str, is_told: bool, tmp_path: Path) -> None:
    report, runs = moved(tmp_path, list(all_rules()), {"train.py": HALF_INPUTS}, regime)
    run = runs["train.py"]
    assert (bool(report.changes), run.before, run.state is MoveState.LEFT) == (False, "unknown", is_told)
    assert any("GradScaler is on" in place.message for place in run.why) == is_told


ACCELERATED = """
    import argparse
    import torch
    import yaml
    from accelerate import Accelerator

    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    config = yaml.safe_load(open(parser.parse_args().config))
    accelerator = Accelerator({})
    model = accelerator.prepare(torch.nn.Linear(config["train"]["width"], 4))
    accelerator.backward(model(torch.ones(2, 4)).sum())
"""
BY_DEFAULT = 'PRECISION="${{PRECISION:-fp16}}"\naccelerate launch --mixed_precision $PRECISION one.py --config {}\n'


def test_default_of_a_shell_variable_moves_where_it_is_written(tmp_path: Path) -> None:
    files = {**REQUIRED, "one.py": ACCELERATED.replace("{}", ""), "a.yaml": "train:\n  width: 4\n"}
    files["one.sh"] = BY_DEFAULT.format("a.yaml")
    report, rows = moved(tmp_path, [rule for rule in all_rules() if rule.code == "PF001"], files)
    assert rows["one.sh"].state is MoveState.MOVED
    assert [change.after.decode() for change in report.changes] == [files["one.sh"].replace("fp16", "bf16")]


def test_run_whose_configuration_is_passed_to_the_script_needs_consent(tmp_path: Path) -> None:
    code = ACCELERATED.replace("{}", 'mixed_precision=config["train"]["kind"]')
    files = {**REQUIRED, "one.py": code, "one.sh": BY_DEFAULT.format("conf/$1.yaml")}
    files |= {f"conf/{name}.yaml": "train:\n  width: 4\n  kind: fp16\n" for name in "ab"}
    report, rows = moved(tmp_path, [rule for rule in all_rules() if rule.code == "PF001"], files)
    assert rows["one.sh"].state is MoveState.LEFT
    assert not report.changes


def test_unread_file_keeps_the_key_without_which_code_raises(tmp_path: Path) -> None:
    keys = "per_device_train_batch_size: 2\ngradient_accumulation_steps: 16\nlearning_rate: 2.0e-5\nwarmup_ratio: 0.1\n"
    files = {
        "conf/large.yaml": f"{keys}bf16: true\n",
        "one.py": 'print(CONFIG["bf16"])\n',
        "two.py": 'print(CONFIG.get("fp16"), CONFIG.get("bf16"))\n',
    }
    rules = [rule for rule in all_rules() if rule.code == "PF001"]
    report, _ = moved(tmp_path, rules, files, "fp16-mixed", unsafe=True)
    assert not report.changes
    assert "one.py:1 raises KeyError for a file without bf16" in report.remaining[0].message
    report, _ = moved(tmp_path, rules, {**files, "one.py": files["two.py"]}, "fp16-mixed", unsafe=True)
    assert paths_changed(report) == {"conf/large.yaml"}


BESIDE = """
    import torch
    import yaml
    from accelerate import Accelerator
    from transformers import AutoModelForCausalLM

    config = yaml.safe_load(open("conf.yaml"))
    accelerator = Accelerator()
    student = accelerator.prepare(AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float32))
    teacher = AutoModelForCausalLM.from_pretrained("m", torch_dtype=getattr(torch, config["teacher_dtype"]))
    teacher.eval().requires_grad_(False)
    optimizer = accelerator.prepare(torch.optim.SGD(student.parameters(), lr=config["rate"]))
    with torch.no_grad():
        wanted = teacher(torch.ones(2, 4, dtype=torch.long)).logits.float()
    accelerator.backward((student(torch.ones(2, 4, dtype=torch.long)).logits.float() - wanted).pow(2).mean())
    optimizer.step()
"""


@pytest.mark.parametrize(("flag", "state"), [("", MoveState.WITHDRAWN), ("--mixed_precision fp16 ", MoveState.MOVED)])
def test_the_weights_of_a_frozen_model_move_with_the_runs_that_load_it(
    flag: str, state: MoveState, tmp_path: Path
) -> None:
    files = {**REQUIRED, "one.py": BESIDE, "conf.yaml": "rate: 0.1\nteacher_dtype: float16\n"}
    files["one.sh"] = f"accelerate launch {flag}one.py\n"
    report, rows = moved(tmp_path, list(all_rules()), files)
    assert rows["one.sh"].state is state
    assert paths_changed(report) == ({"one.sh", "conf.yaml"} if flag else set())


BY_NAME = """
    import importlib
    import torch


    def build(name):
        return LOADED.Net


    def main():
        net = build(input())(True).cuda()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cuda")
        for _ in range(4):
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = net(torch.randn(4, 8).cuda()).float().pow(2).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


    if __name__ == "__main__":
        main()
"""
NETWORK = """
    import torch


    class Net(torch.nn.Module):
        def __init__(self, lowered):
            super().__init__()
            self.lowered = lowered
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x):
            with REGION:
                return self.layer(x)
"""
REGION = 'torch.autocast("cuda", enabled=self.lowered)'
LOADED = {
    "relative": ('importlib.import_module(".%s" % name, "parts")', REGION, True),
    "relative by keyword": ('importlib.import_module(f".{name}", package="parts")', REGION, True),
    "below a package": ('importlib.import_module("parts." + name)', REGION, True),
    "a dotted name that is located": ('__import__("pydoc").locate(f"parts.{name}")', REGION, True),
    "a file": ('loaded(importlib.util.spec_from_file_location("net", f"parts/{name}.py"))', REGION, True),
    "a name of which nothing is known": ("importlib.import_module(name)", REGION, True),
    "a dtype by name": ("importlib.import_module(name)", 'torch.autocast("cuda", dtype=torch.float16)', True),
    "the new type": ("importlib.import_module(name)", 'torch.autocast("cuda", dtype=torch.bfloat16)', False),
    "no autocast": ("importlib.import_module(name)", "torch.enable_grad()", False),
    "another package": ('importlib.import_module("others." + name)', REGION, False),
}


@pytest.mark.parametrize(("loaded", "region", "is_held"), LOADED.values(), ids=LOADED)
def test_what_a_run_imports_by_a_computed_name_holds_it_back(
    loaded: str, region: str, is_held: bool, tmp_path: Path
) -> None:
    files = {"train.py": BY_NAME.replace("LOADED", loaded), "parts/net.py": NETWORK.replace("REGION", region)}
    report, rows = moved(tmp_path, list(all_rules()), {**REQUIRED, **files})
    assert rows["train.py"].state is (MoveState.WITHDRAWN if is_held else MoveState.MOVED)
    assert bool(report.changes) != is_held


KEPT = "NAMED = {}\n\n\ndef named(kind):\n    NAMED[kind.__name__] = kind\n    return kind\n"
HOLDERS = {
    "a registry": ("NAMED[name]", "from parts.kept import NAMED", "from parts.kept import named\n\n@named\n", True),
    "no registry": ("torch.nn.Linear", "", "", False),
}


@pytest.mark.parametrize(("found", "line", "above", "is_held"), HOLDERS.values(), ids=HOLDERS)
def test_what_a_run_takes_from_a_registry_holds_it_back(
    found: str, line: str, above: str, is_held: bool, tmp_path: Path
) -> None:
    network = textwrap.dedent(NETWORK.replace("REGION", REGION))
    files = {
        "train.py": textwrap.dedent(BY_NAME.replace("LOADED.Net", found)).replace(
            "import importlib\n", f"{line}\nimport parts.net\n"
        ),
        "parts/kept.py": KEPT,
        "parts/net.py": network.replace("\nclass Net", f"{above}class Net", 1),
        "parts/__init__.py": "",
    }
    report, rows = moved(tmp_path, list(all_rules()), {**REQUIRED, **files})
    assert rows["train.py"].state is (MoveState.WITHDRAWN if is_held else MoveState.MOVED)
    assert bool(report.changes) != is_held


LOOP_OF_ITS_OWN = """
    import torch


    def run(cfg, net, optimizer, scaler):
        for _ in range(4):
            optimizer.zero_grad()
            with torch.autocast("cuda", enabled=cfg["amp"]):
                loss = net(torch.ones(4, 8).cuda()).float().pow(2).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""
STARTS_THE_LOOP = """
    import torch
    import yaml
    from parts.loop import run
    from parts.net import Net


    def main(cfg):
        net = Net(cfg["amp"]).cuda()
        scaler = torch.amp.GradScaler("cuda", enabled=cfg["amp"])
        run(cfg, net, torch.optim.SGD(net.parameters(), 0.1), scaler)


    if __name__ == "__main__":
        main(yaml.safe_load(open("conf.yaml")))
"""


def test_no_consent_is_asked_for_what_it_would_not_bring_about(tmp_path: Path) -> None:
    files = {"train.py": STARTS_THE_LOOP, "parts/loop.py": LOOP_OF_ITS_OWN, "conf.yaml": "amp: true\n"}
    files |= {**REQUIRED, "parts/net.py": NETWORK.replace("REGION", REGION)}
    report, rows = moved(tmp_path, list(all_rules()), files)
    assert (report.changes, rows["train.py"].state) == ((), MoveState.WITHDRAWN)
    assert not any("all the same" in place.message for place in rows["train.py"].why)
    assert not moved(tmp_path / "unsafe", list(all_rules()), files, unsafe=True)[0].changes


@pytest.mark.parametrize(("read", "after"), [("= lowered", "fp32"), ("= True", "fp16-mixed")])
def test_a_run_is_float32_where_each_of_its_regions_is_switched_off(read: str, after: str, tmp_path: Path) -> None:
    files = {"train.py": STARTS_THE_LOOP, "parts/loop.py": LOOP_OF_ITS_OWN, "conf.yaml": "amp: true\n"}
    files |= {**REQUIRED, "parts/net.py": NETWORK.replace("REGION", REGION).replace("= lowered", read)}
    report, rows = moved(tmp_path, list(all_rules()), files, "fp32")
    assert (rows["train.py"].before, rows["train.py"].after) == ("fp16-mixed", after)
    assert paths_changed(report) == ({"conf.yaml"} if after == "fp32" else set())


PLAIN = """
    import argparse

    import torch
    from torch.nn.parallel import DistributedDataParallel

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--steps", type=int, default=1)
        net = DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(parser.parse_args().steps):
            net(torch.randn(4, 8).cuda()).square().mean().backward()
            optimizer.step()
"""


def test_launched_programs_that_state_nothing_are_left(tmp_path: Path) -> None:
    shown = 'import torch\n\nif __name__ == "__main__":\n    print(torch.nn.Linear(8, 8)(torch.ones(1, 8)))\n'
    files = {"plain.py": PLAIN, "show.py": shown, "run.sh": "torchrun plain.py --steps 5\npython show.py\n"}
    report, _ = moved(tmp_path, all_rules(), files)
    assert [(run.path, run.row, run.state) for run in report.moves] == [("run.sh", 1, MoveState.LEFT)]
