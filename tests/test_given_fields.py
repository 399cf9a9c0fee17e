"""A field of a class that code overwrites: the later value is what runs, and what a move changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_moving import moved, paths_changed

LIBRARY = """
    from dataclasses import dataclass

    import torch


    @dataclass
    class TrainConfig:
        steps: int = 10
        dtype: str = "float16"


    class Other:
        dtype = ""


    def train(config):
        chosen = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[config.dtype]
        net = torch.nn.Linear(8, 8).cuda()
        optimizer = torch.optim.AdamW(net.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled=(config.dtype == "float16"))
        for _ in range(config.steps):
            with torch.amp.autocast(device_type="cuda", dtype=chosen):
                loss = net(torch.randn(4, 8).cuda()).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
RUN = """
    import dataclasses
    import sys

    from lib import Other, TrainConfig, train

    if __name__ == "__main__":
        BODY
"""
OVERWRITTEN = {
    "an attribute": 'config = TrainConfig()\nconfig.steps = 3\nconfig.dtype = "bfloat16"\ntrain(config)',
    "setattr": 'config = TrainConfig()\nsetattr(config, "dtype", "bfloat16")\ntrain(config)',
    "vars": 'config = TrainConfig()\nvars(config).update(dtype="bfloat16")\ntrain(config)',
    "__dict__": 'config = TrainConfig()\nconfig.__dict__.update({"dtype": "bfloat16"})\ntrain(config)',
    "replace": 'train(dataclasses.replace(TrainConfig(), dtype="bfloat16"))',
    "a keyword": 'train(TrainConfig(dtype="bfloat16"))',
    "in its turn": 'train(TrainConfig(3, "bfloat16"))',
    "a dictionary": 'train(TrainConfig(**{"dtype": "bfloat16"}))',
    "a call of dict": 'train(TrainConfig(**dict(dtype="bfloat16")))',
}
PERHAPS = {
    "an update": 'given = dict(steps=3)\ngiven.update(dtype="bfloat16")\ntrain(TrainConfig(**given))',
    "under a test": 'config = TrainConfig()\nif sys.argv[1:]:\n    config.dtype = "bfloat16"\ntrain(config)',
    "of another object": 'config = TrainConfig()\nother = TrainConfig()\nother.dtype = "bfloat16"\ntrain(config)',
    "after the training": 'config = TrainConfig()\ntrain(config)\nconfig.dtype = "bfloat16"',
}
NOT_GIVEN = {
    "nothing": "train(TrainConfig())",
    "another class": 'other = Other()\nother.dtype = "bfloat16"\ntrain(TrainConfig())',
    "another field": 'config = TrainConfig()\nconfig.name = "bfloat16"\ntrain(config)',
}


def files(body: str) -> dict[str, str]:
    lines = body.replace("\n", "\n        ")
    return {"lib.py": LIBRARY, "run.py": RUN.replace("BODY", lines), "requirements.txt": "torch==2.4.0\n"}


@pytest.mark.parametrize("body", OVERWRITTEN.values(), ids=OVERWRITTEN)
def test_what_overwrites_a_default_is_what_runs_and_moves(body: str, tmp_path: Path) -> None:
    report, runs = moved(tmp_path / "away", all_rules(), files(body), "fp16-mixed")
    assert (runs["run.py"].before, runs["run.py"].state) == ("bf16-mixed", MoveState.MOVED)
    assert paths_changed(report) == {"run.py"}
    report, runs = moved(tmp_path / "there", all_rules(), files(body), "bf16-mixed")
    assert (runs["run.py"].state, paths_changed(report)) == (MoveState.THERE, set()), "the default is dead"


@pytest.mark.parametrize("body", PERHAPS.values(), ids=PERHAPS)
def test_what_may_overwrite_it_moves_as_well(body: str, tmp_path: Path) -> None:
    report, runs = moved(tmp_path / "away", all_rules(), files(body), "fp16-mixed")
    assert (runs["run.py"].before, runs["run.py"].after) == ("unknown", "fp16-mixed")
    assert paths_changed(report) == {"run.py"}
    report, runs = moved(tmp_path / "other", all_rules(), files(body), "bf16-mixed")
    assert (runs["run.py"].after, paths_changed(report)) == ("bf16-mixed", {"lib.py"})


@pytest.mark.parametrize("body", NOT_GIVEN.values(), ids=NOT_GIVEN)
def test_a_default_counts_where_nothing_overwrites_it(body: str, tmp_path: Path) -> None:
    report, runs = moved(tmp_path, all_rules(), files(body), "bf16-mixed")
    assert (runs["run.py"].before, runs["run.py"].after) == ("fp16-mixed", "bf16-mixed")
    assert paths_changed(report) == {"lib.py"}


def test_a_dictionary_that_goes_through_a_function_is_followed(tmp_path: Path) -> None:
    keeping = """

    class Trainer:
        def __init__(self, settings: dict):
            self.config = TrainConfig(**settings)

        def start(self):
            train(self.config)
    """
    given = files("Trainer(settings).start()")
    given["lib.py"] += keeping
    run = given["run.py"].replace("TrainConfig, train", "Trainer")
    given["run.py"] = run.replace(
        "    if __name__", '    settings = {"steps": 3, "dtype": "bfloat16"}\n\n    if __name__'
    )
    report, runs = moved(tmp_path, all_rules(), given, "fp16-mixed")
    assert (runs["run.py"].before, runs["run.py"].after) == ("bf16-mixed", "fp16-mixed")
    assert paths_changed(report) == {"run.py"}


def test_each_script_has_the_value_that_it_gives(tmp_path: Path) -> None:
    given = files(OVERWRITTEN["an attribute"])
    given["plain.py"] = RUN.replace("BODY", NOT_GIVEN["nothing"])
    _, runs = moved(tmp_path, all_rules(), given, "bf16-mixed")
    assert {(path, run.before, run.after) for path, run in runs.items()} == {
        ("run.py", "bf16-mixed", "bf16-mixed"),
        ("plain.py", "fp16-mixed", "bf16-mixed"),
    }
