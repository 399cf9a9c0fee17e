"""Rules of other distributions: installed as a user does it, run by the real command; broken ones are reported."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from precfix.codemod import engine
from precfix.codemod.model import (
    AddImport,
    Applicability,
    Edit,
    Finding,
    Fix,
    InsertStatement,
    Operation,
    Place,
    RemoveStatement,
    ReplaceExpression,
    ReplaceText,
    Rule,
    Span,
)
from precfix.codemod.outcome import Target
from precfix.codemod.plugins.distributions import declaring
from precfix.codemod.plugins.plugins import GROUP, LoadedRules, with_plugins
from precfix.codemod.plugins.testing import try_rule
from precfix.codemod.source.project import Project

from . import warm
from .fixture_cases import FIXTURES, REPOSITORY
from .project_tree import open_tree, write_tree

EXAMPLE = FIXTURES / "plugin"
TARGET = Target("unknown", "a test")
SOURCE = """\
import torch

from ours import OurScaler

scaler = OurScaler(start=1024)
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = model(batch)
"""
FIXED = SOURCE.replace("start=1024", "start=1024, enabled=False")
RULE = '''"""{title}"""
from precfix.codemod.model import Place, Rule, Span
def check(project):
    for document in project.python_documents():
        yield rule.found(Place(document.path, Span(1, 1, 1, 1), "found"))
rule = Rule({code!r}, {name!r}, __doc__, check)
'''


def rule_text(code: str, name: str = "a-rule", title: str = "A rule.") -> str:
    return RULE.format(code=code, name=name, title=title)


def add_plugin(site: Path, name: str, module: str | None, value: str = "", version: str = "1.0") -> None:
    """A distribution as an installer leaves it: one module and the metadata with one entry point."""
    stem = name.replace("-", "_")
    files = {f"{stem}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
    files[f"{stem}-{version}.dist-info/entry_points.txt"] = f"[{GROUP}]\nit = {value or f'{stem}:rule'}\n"
    if module is not None:
        files[f"{stem}.py"] = module
    write_tree(site, files)


def load_from(monkeypatch: pytest.MonkeyPatch, site: Path, scanned: Path | None = None) -> LoadedRules:
    """What is loaded where ``site`` is on the path; modules of earlier tests are forgotten."""
    monkeypatch.syspath_prepend(str(site))
    before = set(sys.modules)
    try:
        return with_plugins((), [scanned] if scanned else [])
    finally:
        for name in set(sys.modules) - before:
            if name.endswith("_rules"):
                del sys.modules[name]


def run(*arguments: str, cwd: Path, path: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(path), "COLUMNS": "200"}
    return warm.text(warm.precfix(*arguments, cwd=cwd, environment=environment))


@pytest.fixture(scope="session")
def example_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built and installed by pip without a network."""
    folder = tmp_path_factory.mktemp("example")
    source, site = folder / "source", folder / "site"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(site), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return site


# --- the example ------------------------------------------------------------------------------------------------------


def test_check_and_migrate_use_the_example(example_site: Path, tmp_path: Path) -> None:
    project = write_tree(tmp_path / "project", {"train.py": SOURCE})
    done = run("check", ".", "--output-format", "json", cwd=project, path=example_site)
    assert done.returncode == 1, done.stderr
    (found,) = (each for each in json.loads(done.stdout)["diagnostics"] if each["code"] == "OUR101")
    assert found["url"] == "https://rules.example/our-scaler-under-bf16"
    run("migrate", ".", "--select", "OUR101", cwd=project, path=example_site)
    assert (project / "train.py").read_text() == FIXED


def test_the_example_is_listed_and_explained(example_site: Path, tmp_path: Path) -> None:
    listed = run("rules", cwd=tmp_path, path=example_site).stdout
    assert re.search(r"^OUR101 +our-scaler-under-bf16 +Our loss scaler", listed, re.MULTILINE)
    manual = run("explain", "our101", cwd=tmp_path, path=example_site).stdout
    assert "# OUR101 our-scaler-under-bf16" in manual
    assert "`disable` [safe]" in manual


def test_broken_plugins_do_not_stop_the_others(example_site: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    add_plugin(broken, "leaving-rules", "print('noise')\nraise SystemExit('gone')\n")
    add_plugin(broken, "garbage-rules", rule_text("BAD001", "garbage").replace("Span(1, 1, 1, 1)", "None"))
    project = write_tree(tmp_path / "project", {"train.py": SOURCE})
    both = Path(f"{example_site}{os.pathsep}{broken}")
    done = run("check", ".", "--output-format", "json", cwd=project, path=both)
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    failed = {each["code"]: each["reason"] for each in report["failed_rules"]}
    assert set(failed) == {"leaving-rules", "BAD001"}
    assert failed["leaving-rules"].endswith("(leaving_rules:rule): SystemExit: gone")
    assert "what it yielded.span is None" in failed["BAD001"]
    assert "OUR101" in {each["code"] for each in report["diagnostics"]}


def test_the_tests_of_the_example_pass(example_site: Path, tmp_path: Path) -> None:
    tests = shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    environment = {**os.environ, "PYTHONPATH": str(example_site)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    "name",
    [
        "pyproject.toml",
        "precfix_example_rules/our_scaler_under_bf16.py",
        "tests/test_our_scaler_under_bf16.py",
    ],
)
def test_the_documentation_shows_the_example(name: str) -> None:
    shown = re.findall(r"^```\w+\n(.*?)^```$", (REPOSITORY / "docs" / "plugins.md").read_text("utf-8"), re.M | re.S)
    assert (EXAMPLE / name).read_text("utf-8") in shown


# --- what an entry point may be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["rule", "[rule]", "(each for each in [rule])", "lambda: rule", "lambda: iter((rule,))"]
)
def test_forms_of_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    add_plugin(tmp_path, "acme-rules", rule_text("ACME001") + f"given = {value}\n", "acme_rules:given")
    loaded = load_from(monkeypatch, tmp_path)
    assert loaded.problems == ()
    assert [(rule.code, rule.url) for rule in loaded.rules] == [("ACME001", "")]


BROKEN_MODULES = {
    "no module": (None, "ModuleNotFoundError: No module named 'acme_rules'"),
    "an import fails": (
        "from precfix.codemod.model import NoSuchName\n",
        "ImportError: cannot import name 'NoSuchName'",
    ),
    "a syntax error": ("def\n", "SyntaxError"),
    "it exits": ("import sys\nsys.exit(7)\n", "SystemExit: 7"),
    "its error cannot be told": (
        "class E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E\n",
        "(acme_rules:rule): E",
    ),
    "nothing there": ("", "AttributeError: module 'acme_rules' has no attribute 'rule'"),
    "no rule": ("rule = 3\n", "TypeError: neither a Rule nor an iterable of rules, but of type int"),
    "a text": ("rule = 'ACME001'\n", "of type str"),
    "texts": ("rule = ['ACME001']\n", "not a Rule, but of type str"),
    "a function with arguments": ("def rule(project): return []\n", "TypeError: rule() missing 1 required"),
    "no end": ("import itertools\nrule = itertools.count()\n", "ValueError: more than 1000 rules"),
    "a wrong code": (rule_text("acme-1"), "code 'acme-1' is not two to eight capital letters"),
    "a code of precfix": (rule_text("PF901"), "PF belongs to precfix itself"),
    "a code that is no text": (rule_text("A").replace("Rule('A'", "Rule(17"), "code, name, docs and url are strings"),
    "a wrong name": (rule_text("ACME001", "A_Rule"), "name 'A_Rule' is not lower-case words"),
    "no manual": (rule_text("ACME001", title=""), "its docs do not begin with a title line"),
    "no check": (rule_text("ACME001").replace("check)", "None)"), "its check is not callable"),
    "a wrong url": (
        rule_text("ACME001").replace("check)", "check, 'see wiki')"),
        "url 'see wiki' is not a web address",
    ),
}


@pytest.mark.parametrize("case", BROKEN_MODULES)
def test_a_broken_plugin_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    module, said = BROKEN_MODULES[case]
    add_plugin(tmp_path, "acme-rules", module, version="2.5")
    add_plugin(tmp_path, "other-rules", rule_text("OTHER001"))
    loaded = load_from(monkeypatch, tmp_path)
    assert [rule.code for rule in loaded.rules] == ["OTHER001"]
    (problem,) = loaded.problems
    assert problem.path == "acme-rules"
    assert problem.reason.startswith("version 2.5: entry point 'it' (acme_rules:rule): ")
    assert said in problem.reason
    assert "\n" not in problem.reason


@pytest.mark.parametrize("line", ["it", "it = ", "it = 3 4:!", "[", "it = acme_rules:rule:rule", "\x00 = \x1b"])
def test_broken_metadata_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    add_plugin(tmp_path, "acme-rules", rule_text("ACME001"))
    (tmp_path / "acme_rules-1.0.dist-info" / "entry_points.txt").write_text(f"[{GROUP}]\n{line}\n")
    (tmp_path / "acme_rules-1.0.dist-info" / "METADATA").write_bytes(b"\xff\x00")
    add_plugin(tmp_path, "other-rules", rule_text("OTHER001"))
    loaded = load_from(monkeypatch, tmp_path)
    assert [rule.code for rule in loaded.rules] == ["OTHER001"]
    assert {problem.path for problem in loaded.problems} == {"acme-rules"}


def test_undecodable_entry_points_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_plugin(tmp_path, "acme-rules", rule_text("ACME001"))
    (tmp_path / "acme_rules-1.0.dist-info" / "entry_points.txt").write_bytes(f"[{GROUP}]\nit = \xff".encode("latin-1"))
    (problem,) = load_from(monkeypatch, tmp_path).problems
    assert "its entry points cannot be read" in problem.reason


def test_the_first_name_has_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("zeta-rules", "acme-rules", "mid-rules"):
        add_plugin(tmp_path, name, rule_text("SAME001", f"{name}-one"))
    add_plugin(tmp_path, "nu-rules", rule_text("NU001", "acme-rules-one"))
    loaded = load_from(monkeypatch, tmp_path)
    assert [rule.name for rule in loaded.rules] == ["acme-rules-one"]
    assert [(problem.path, problem.reason.rpartition(": ")[2]) for problem in loaded.problems] == [
        ("mid-rules", "SAME001 is a rule of acme-rules already"),
        ("nu-rules", "acme-rules-one is a rule of acme-rules already"),
        ("zeta-rules", "SAME001 is a rule of acme-rules already"),
    ]


def test_of_two_copies_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_plugin(tmp_path / "new", "acme-rules", rule_text("ACME002"), version="2.0")
    add_plugin(tmp_path / "old", "Acme.Rules", rule_text("ACME001"), version="1.0")
    monkeypatch.syspath_prepend(str(tmp_path / "old"))
    loaded = load_from(monkeypatch, tmp_path / "new")
    assert [rule.code for rule in loaded.rules] == ["ACME002"]
    assert loaded.problems == ()


def test_a_newer_copy_without_rules_hides_the_older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_plugin(tmp_path / "new", "acme-rules", rule_text("ACME002"), version="2.0")
    (tmp_path / "new" / "acme_rules-2.0.dist-info" / "entry_points.txt").unlink()
    add_plugin(tmp_path / "old", "acme-rules", rule_text("ACME001"), version="1.0")
    monkeypatch.syspath_prepend(str(tmp_path / "old"))
    assert load_from(monkeypatch, tmp_path / "new") == LoadedRules(())


def test_what_a_plugin_prints_goes_to_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = rule_text("ACME001").replace("    for document", "    print('checking')\n    for document")
    add_plugin(tmp_path / "site", "acme-rules", noisy + "print('importing')\n")
    rules = load_from(monkeypatch, tmp_path / "site").rules
    report = engine.check(open_tree(tmp_path / "project", {"a.py": "pass\n"}), rules, TARGET)
    assert [finding.code for finding in report.findings] == ["ACME001"]
    out, err = capsys.readouterr()
    assert (out, err) == ("", "importing\nchecking\n")


# --- the scanned project is not executed ------------------------------------------------------------------------------

MARK = "import pathlib\npathlib.Path(__file__).with_name('executed').touch()\n"


@pytest.mark.parametrize("below", ["", "src"])
def test_a_plugin_in_the_project_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    site = tmp_path / below
    add_plugin(site, "evil-rules", MARK + rule_text("EVIL001"))
    loaded = load_from(monkeypatch, site, scanned=tmp_path)
    assert loaded.rules == ()
    assert [problem.path for problem in loaded.problems] == ["evil-rules"]
    assert "it is in the scanned project" in loaded.problems[0].reason
    assert not (site / "executed").exists()


def test_a_plugin_in_the_current_folder_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_plugin(tmp_path, "evil-rules", MARK + rule_text("EVIL001"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert [problem.path for problem in with_plugins(()).problems] == ["evil-rules"]
    assert not (tmp_path / "executed").exists()


def test_the_root_as_current_folder_guards_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where containers start."""
    add_plugin(tmp_path, "acme-rules", rule_text("ACME001"))
    monkeypatch.chdir("/")
    assert [rule.code for rule in load_from(monkeypatch, tmp_path).rules] == ["ACME001"]


def test_a_plugin_reached_by_a_link_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_plugin(tmp_path / "project", "evil-rules", MARK + rule_text("EVIL001"))
    (tmp_path / "link").symlink_to(tmp_path / "project")
    assert load_from(monkeypatch, tmp_path / "link", scanned=tmp_path / "project").rules == ()
    assert not (tmp_path / "project" / "executed").exists()


def test_a_module_of_the_project_does_not_stand_in_for_a_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata lies outside, and PYTHONPATH leads to a module of the same name in the project."""
    project = write_tree(tmp_path / "project", {"acme_rules.py": MARK, "train.py": SOURCE})
    add_plugin(tmp_path / "site", "acme-rules", rule_text("ACME001"))
    monkeypatch.setenv("PYTHONPATH", str(project))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    loaded = load_from(monkeypatch, project, scanned=project)
    assert [rule.code for rule in loaded.rules] == ["ACME001"]
    assert not (project / "executed").exists()
    assert str(project) in sys.path


def test_an_editable_plugin_in_the_project_is_installed_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, site = tmp_path / "project", tmp_path / "site"
    add_plugin(site, "acme-rules", None)
    add_plugin(project, "acme-rules", rule_text("ACME001"))  # the egg-info that a build leaves in the source
    record = {"url": project.as_uri(), "dir_info": {"editable": True}}
    (site / "acme_rules-1.0.dist-info" / "direct_url.json").write_text(json.dumps(record))
    monkeypatch.setenv("PYTHONPATH", str(project))
    monkeypatch.syspath_prepend(str(site))
    loaded = load_from(monkeypatch, project, scanned=project)
    assert loaded.problems == ()
    assert [rule.code for rule in loaded.rules] == ["ACME001"]


def test_an_environment_in_the_project_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / ".venv" / "lib" / "site-packages"
    add_plugin(site, "acme-rules", rule_text("ACME001"))
    monkeypatch.setattr("site.getsitepackages", lambda: [str(site)])
    assert [rule.code for rule in load_from(monkeypatch, site, scanned=tmp_path).rules] == ["ACME001"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_hostile_metadata_does_not_hold_up_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}-1.dist-info").mkdir()
    os.mkfifo(tmp_path / "a-1.dist-info" / "entry_points.txt")
    (tmp_path / "b-1.dist-info" / "entry_points.txt").symlink_to("entry_points.txt")
    (tmp_path / "c-1.dist-info" / "entry_points.txt").write_bytes(b"[precfix.rules]" + b"x" * 2_000_000)
    monkeypatch.setattr(sys, "path", [str(tmp_path), "no\0folder", str(tmp_path / "gone")])
    found = declaring(GROUP, ())
    assert (found.installed, found.refused) == ((), ())


# --- what rules yield -------------------------------------------------------------------------------------------------

HERE = Span(1, 1, 1, 5)


def finding(**changed: object) -> Finding:
    fields: dict[str, object] = {"code": "ACME001", "name": "a-rule", "message": "m", "path": "a.py", "span": HERE}
    return Finding(**{**fields, **changed})  # type: ignore[arg-type]


def fixed(*operations: Operation, path: str = "a.py") -> Finding:
    edits = tuple(Edit(path, each) for each in operations)
    return finding(fixes=(Fix("it", "do it", Applicability.SAFE, edits),))


GARBAGE: Mapping[str, tuple[object, str]] = {
    "none": (None, "what it yielded is None, not Finding"),
    "a text": ("a.py:1", "what it yielded is of type str"),
    "a class": (Finding, "what it yielded is of type type"),
    "another code": (finding(code="PF101"), "the finding's code is 'PF101'"),
    "another name": (finding(name="b"), "the finding's name is 'b'"),
    "a message in bytes": (finding(message=b"m"), ".message is of type bytes, not str"),
    "no span": (finding(span=(1, 1, 1, 2)), ".span is of type tuple, not Span"),
    "a row as text": (finding(span=Span("1", 1, 1, 2)), ".span.row is of type str"),  # type: ignore[arg-type]
    "row 0": (finding(span=Span(0, 1, 1, 2)), "a.py has no place 0:1 to 1:2"),
    "far below": (finding(span=Span(1, 1, 99, 1)), "a.py has no place 1:1 to 99:1"),
    "far right": (finding(span=Span(1, 1, 1, 99)), "a.py has no place"),
    "backwards": (finding(span=Span(1, 4, 1, 2)), "a.py has no place"),
    "outside": (finding(path="../a.py"), "'../a.py' is not a file that was read"),
    "absolute": (finding(path="/etc/passwd"), "'/etc/passwd' is not a file that was read"),
    "a list of evidence": (finding(evidence=[]), ".evidence is of type list, not a tuple"),
    "evidence outside": (finding(evidence=(Place("b.py", HERE, "m"),)), "evidence: 'b.py' is not a file"),
    "no fixes": (finding(fixes=None), ".fixes is None"),
    "a word for a level": (finding(fixes=(Fix("it", "m", "safe", ()),)), "not Applicability"),  # type: ignore[arg-type]
    "no operation": (fixed("x = 1"), ".fixes[0].edits[0].operation is of type str"),  # type: ignore[arg-type]
    "an edit outside": (fixed(ReplaceText(0, 1, "x"), path="../b.py"), "fix 'it': '../b.py' is not a file"),
    "an edit of no file": (fixed(AddImport("import os"), path="new.py"), "'new.py' is not a file"),
    "a text edit backwards": (fixed(ReplaceText(4, 0, "x")), "a.py has no characters 4 to 0"),
    "a text edit too far": (fixed(ReplaceText(0, 999, "x")), "a.py has no characters 0 to 999"),
    "an edit at row -1": (fixed(RemoveStatement(Span(-1, 1, 1, 5))), "a.py has no place -1:1"),
    "a part too far": (fixed(ReplaceExpression(HERE, ("(", Span(9, 1, 9, 2), ")"))), "a.py has no place 9:1"),
    "a number as a part": (fixed(ReplaceExpression(HERE, ("(", 7))), ".parts[1] is of type int"),  # type: ignore[arg-type]
    "a wrong word": (fixed(InsertStatement(HERE, "pass", "under")), "where is 'under'"),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_fails_the_rule_and_nothing_else(tmp_path: Path, case: str) -> None:
    garbage, said = GARBAGE[case]
    yielded = cast("list[Finding]", [finding(message="before"), garbage])
    bad = Rule("ACME001", "a-rule", "A rule.", lambda project: yielded)
    swapped = Fix("swap", "m", Applicability.SAFE, (Edit("a.py", ReplaceExpression(Span(2, 1, 2, 5), ("done",))),))
    good_finding = Finding("GOOD001", "good", "m", "a.py", Span(2, 1, 2, 5), (), (swapped,))
    good = Rule("GOOD001", "good", "Good.", lambda project: [good_finding] if "todo" in text_of(project) else [])
    report = engine.migrate(open_tree(tmp_path, {"a.py": "name\ntodo\n"}), [bad, good], TARGET)
    assert [each.message for each in report.findings] == ["before", "m"]
    assert [each.path for each in report.failed_rules] == ["ACME001"]
    assert said in report.failed_rules[0].reason
    assert [change.after for change in report.changes] == [b"name\ndone\n"]


def text_of(project: Project) -> str:
    document = project.document("a.py")
    return document.text if document is not None else ""


def test_a_rule_that_exits_is_a_failed_rule(tmp_path: Path) -> None:
    def check(project: Project) -> list[Finding]:
        sys.exit("enough")

    report = engine.check(open_tree(tmp_path, {"a.py": "x\n"}), [Rule("ACME001", "a", "A.", check)], TARGET)
    assert "SystemExit: enough" in report.failed_rules[0].reason


def test_text_edits_must_leave_python_that_parses(tmp_path: Path) -> None:
    broken = fixed(ReplaceText(0, 4, "name ("))
    rule = Rule("ACME001", "a-rule", "A rule.", lambda project: [broken])
    report = engine.migrate(open_tree(tmp_path, {"a.py": "name\n"}), [rule], TARGET)
    assert report.changes == ()
    assert "would not be valid Python" in report.skipped[0].reason


def test_a_trial_shows_what_a_rule_does() -> None:
    rule = Rule(
        "ACME001",
        "a-rule",
        "A rule.",
        lambda project: [fixed(ReplaceText(0, 4, "done"))] * ("name" in text_of(project)),
    )
    trial = try_rule(rule, {"a.py": "name\r\n", "sub/b.yaml": "x: 1\n"})
    assert trial.files == {"a.py": "done\r\n", "sub/b.yaml": "x: 1\n"}
    assert (len(trial.findings), trial.remaining, trial.refused) == (1, (), ())
    failing = Rule("ACME001", "a-rule", "A rule.", lambda project: [finding(code="X")])
    with pytest.raises(AssertionError, match="code is 'X'"):
        try_rule(failing, {"a.py": "name\n"})
