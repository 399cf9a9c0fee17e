"""PF106 and PF110: checkpoints without the scaler, states that are not loaded, scalers made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from .scaler_snippets import findings, fixed, rule_named, run

RULE = rule_named("scaler_state_not_saved")
LOST = rule_named("scaler_state_lost")
SAVE = 'torch.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, "ckpt.pt")'
LOAD = 'checkpoint = torch.load("ckpt.pt")\nopt.load_state_dict(checkpoint["optimizer"])'


def script(
    save: str = SAVE, load: str = LOAD, made: str = "scaler = torch.amp.GradScaler('cuda')", signature: str = ""
) -> str:
    def at(text: str, by: int) -> str:
        return "\n".join(" " * by + line for line in text.splitlines())

    return (
        f"import torch\n\ndef train(model, opt, loader, resume=False{signature}):\n"
        f"{at(made, 4)}\n    if resume:\n{at(load, 8)}\n"
        "    for epoch in range(3):\n        for x in loader:\n            scaler.scale(model(x)).backward()\n"
        f"            scaler.step(opt)\n            scaler.update()\n{at(save, 8)}\n\n"
        "train(None, None, [], resume=True)\n"
    )


def test_one_line_dictionary(tmp_path: Path) -> None:
    assert len(findings(RULE, tmp_path, script())) == 1
    after = fixed(RULE, tmp_path / "fixed", script())
    assert '"optimizer": opt.state_dict(), "scaler": scaler.state_dict()}' in after
    assert (
        '        opt.load_state_dict(checkpoint["optimizer"])\n'
        '        if checkpoint.get("scaler"):\n'
        '            scaler.load_state_dict(checkpoint["scaler"])\n'
    ) in after
    assert not findings(RULE, tmp_path / "after", after)


def test_one_dictionary_in_two_files(tmp_path: Path) -> None:
    save = "state = {'optimizer': opt.state_dict()}\ntorch.save(state, 'last.pt')\ntorch.save(state, 'best.pt')"
    after = fixed(RULE, tmp_path, script(save))
    assert "state = {'optimizer': opt.state_dict(), 'scaler': scaler.state_dict()}\n" in after


@pytest.mark.parametrize("comma", ["", ","])
def test_dictionary_over_several_lines(comma: str, tmp_path: Path) -> None:
    save = (
        f"state = {{\n    'model': model.state_dict(),\n"
        f"    'optimizer': opt.state_dict(){comma}  # with moments\n}}\ntorch.save(state, 'c.pt')"
    )
    after = fixed(RULE, tmp_path, script(save))
    assert (
        "            'optimizer': opt.state_dict(),  # with moments\n"
        f"            'scaler': scaler.state_dict(){comma}\n        }}\n"
    ) in after


def test_line_endings_are_kept(tmp_path: Path) -> None:
    save = "state = {\n    'optimizer': opt.state_dict(),\n}\ntorch.save(state, 'c.pt')"
    (tmp_path / "train.py").write_bytes(script(save).replace("\n", "\r\n").encode())
    from precfix.codemod import engine
    from precfix.codemod.outcome import Target
    from precfix.codemod.source.project import Project

    report = engine.migrate(Project.open([tmp_path]), [RULE], Target("auto", "test"), engine.Options(unsafe_fixes=True))
    (change,) = report.changes
    assert b"'scaler': scaler.state_dict(),\r\n" in change.after
    assert change.after.count(b"\n") == change.after.count(b"\r\n")


CLASS = """
import torch

class Trainer:
    def __init__(self, model, opt):
        self.model, self.opt = model, opt
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, x):
        self.scaler.scale(self.model(x)).backward()
        self.scaler.step(self.opt)
        self.scaler.update()

    def save(self, path):
        torch.save({"opt": self.opt.state_dict()}, path)

    def load(self, path):
        state = torch.load(path)
        self.opt.load_state_dict(state["opt"])

trainer = Trainer(None, None)
trainer.load("last.pt")
for batch in []:
    trainer.step(batch)
"""


def test_class(tmp_path: Path) -> None:
    after = fixed(RULE, tmp_path, CLASS)
    assert '"scaler": self.scaler.state_dict()}' in after
    assert '        if state.get("scaler"):\n            self.scaler.load_state_dict(state["scaler"])\n' in after


HELPERS = """
import torch

def save(path, model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

def load(path, model, optimizer):
    optimizer.load_state_dict(torch.load(path)["optimizer"])
"""


def test_helpers_in_another_file_are_reported_only(tmp_path: Path) -> None:
    source = script("helpers.save('c.pt', model, opt)", "helpers.load('c.pt', model, opt)")
    (finding,) = findings(
        RULE, tmp_path, source.replace("import torch", "import torch\nimport helpers", 1), helpers=HELPERS
    )
    assert finding.fixes == ()


SAVED = SAVE.replace("opt.state_dict()", 'opt.state_dict(), "scaler": scaler.state_dict()')


def test_a_state_that_is_saved_and_never_loaded(tmp_path: Path) -> None:
    assert findings(RULE, tmp_path / "kept", script(SAVED)) == ()
    (finding,) = findings(LOST, tmp_path / "lost", script(SAVED))
    assert finding.message.startswith("the optimizer's state is loaded and the scaler's is not, though it is saved")
    assert [(fix.name, fix.applicability.value) for fix in finding.fixes] == [("load", "unsafe")]


RIGHT = {
    "saved and loaded": script(SAVED, LOAD + '\nscaler.load_state_dict(checkpoint["scaler"])'),
    "saved, the key is read": script(SAVED, LOAD + '\nrestore(scaler_state=checkpoint["scaler"])'),
    "never resumed": script(load="pass"),
    "a switch that is off": script().replace("resume=True", "resume=False"),
    "a method that nothing calls": CLASS.replace('trainer.load("last.pt")\n', ""),
    "never saved": script(save="pass"),
    "weights only": script(save='torch.save(model.state_dict(), "m.pt")'),
    "kept by a library": script(save=SAVE + "\nlibrary.keep(scaler)"),
    "kept under a key": script(load=LOAD + '\nrestore(checkpoint, "grad_scaler")'),
    "another optimizer": script(SAVE.replace("opt.", "other."), LOAD.replace("opt.load", "other.load")),
    "switched off": script(made="scaler = torch.amp.GradScaler('cuda', enabled=False)"),
    "bfloat16": script().replace(
        "scaler.scale(model(x)).backward()",
        "with torch.autocast('cuda', dtype=torch.bfloat16):\n"
        "                loss = model(x)\n            scaler.scale(loss).backward()",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_stays_silent(name: str, tmp_path: Path) -> None:
    assert findings(RULE, tmp_path, RIGHT[name]) == findings(LOST, tmp_path / "lost", RIGHT[name]) == ()


NO_FIX = {
    "one of two scalers": script(
        made="scaler = torch.amp.GradScaler('cuda')\nother = torch.amp.GradScaler('cuda')\nother.scale(loader)"
    ),
    "made after the load": script(made="pass", load=LOAD + "\nscaler = torch.amp.GradScaler('cuda')").replace(
        "    for epoch", "    scaler = torch.amp.GradScaler('cuda')\n    for epoch", 1
    ),
    "made under a condition": script(
        made="scaler = None\nif torch.cuda.is_available():\n    scaler = torch.amp.GradScaler('cuda')"
    ),
    "a dictionary by call": script(
        save='state = {"optimizer": opt.state_dict()}; torch.save(state, "c.pt")',
        load=('opt.load_state_dict(torch.load("c.pt")["optimizer"])'),
    ),
}


@pytest.mark.parametrize("name", NO_FIX)
def test_is_reported_only(name: str, tmp_path: Path) -> None:
    found = [item for item in findings(RULE, tmp_path, NO_FIX[name]) if "checkpoint keeps" in item.message]
    assert found
    assert all(item.fixes == () for item in found)


ANEW = """
import torch

def train(model, opt, loader):
    for epoch in range(3):
        # scales the loss
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            with torch.autocast("cuda"):
                loss = model(x)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
"""


def test_made_each_epoch(tmp_path: Path) -> None:
    (finding,) = findings(RULE, tmp_path, ANEW)
    assert (finding.span.row, finding.fixes) == (6, ())


def test_made_for_each_fold_is_right(tmp_path: Path) -> None:
    assert findings(RULE, tmp_path, ANEW.replace("epoch", "fold")) == ()


def test_made_together_with_the_optimizer_is_right(tmp_path: Path) -> None:
    source = ANEW.replace("        scaler = ", "        opt = torch.optim.SGD(model.parameters())\n        scaler = ")
    assert findings(RULE, tmp_path, source) == ()


def test_made_together_with_an_optimizer_of_the_object_is_right(tmp_path: Path) -> None:
    source = ANEW.replace("opt", "self.opt").replace("self.opt, loader", "loader")
    source = source.replace("train(model", "train(self, model")
    assert len(findings(RULE, tmp_path / "kept", source)) == 1
    source = source.replace("        scaler = ", "        self.opt = copy.copy(self.opt)\n        scaler = ")
    assert findings(RULE, tmp_path / "made", source) == ()


def test_loaded_before_it_is_made(tmp_path: Path) -> None:
    source = """
import torch

def train(model, opt, loader, state):
    scaler = torch.amp.GradScaler("cuda")
    scaler.load_state_dict(state["scaler"])
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x)).backward()
        scaler.step(opt)
        scaler.update()
"""
    (finding,) = findings(LOST, tmp_path, source)
    assert finding.span.row == 6
    assert "replaces" in finding.message


RESUMED = """
import torch
def session(resume):
    model = torch.nn.Linear(2, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", growth_interval=1)
    if resume:
        checkpoint = torch.load("FOLDER/ckpt.pt")
        opt.load_state_dict(checkpoint["optimizer"])
    print(scaler.get_scale())
    scaler.scale(model(torch.ones(1, 2)).sum()).backward()
    scaler.step(opt)
    scaler.update()
    torch.save({"optimizer": opt.state_dict()}, "FOLDER/ckpt.pt")
session(False)
session(True)
"""


def test_the_scale_goes_on_only_after_the_fix(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert run(RESUMED.replace("FOLDER", str(tmp_path))) == "65536.0\n65536.0\n"
    after = fixed(RULE, tmp_path / "fixed", RESUMED)
    assert run(after.replace("FOLDER", str(tmp_path))) == "65536.0\n131072.0\n"


def test_an_older_checkpoint_still_loads_after_the_fix(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert run(RESUMED.replace("FOLDER", str(tmp_path))).endswith("65536.0\n")
    after = fixed(RULE, tmp_path / "fixed", RESUMED).replace("session(False)\n", "")
    assert run(after.replace("FOLDER", str(tmp_path))) == "65536.0\n"
