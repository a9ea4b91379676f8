"""The files for CI that docs/howto/ci.md shows: they are what GitHub and GitLab take, and their commands run.

Each job works in a checkout of its own, as on a runner. PyTorch is stood in for by a module that the first job has, and
that cannot be imported in the second one: what is handed over by cache or artefact is the only way to pass.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs_pages import ROOT, blocks, run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = ROOT / "docs/howto/ci.md"
FILES = {block.value: block.text for block in blocks(PAGE) if block.note == "project"}
GITHUB, GITLAB = ".github/workflows/accuracy.yml", ".gitlab-ci.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# What of GitHub's actions the file uses: the arguments that they are to have, and those that they may have.
ACTIONS = {
    "actions/checkout@v4": ((), ()),
    "actions/setup-python@v5": (("python-version",), ()),
    "actions/cache@v4": (("path", "key"), ()),
    "actions/cache/restore@v4": (("path", "key"), ("fail-on-cache-miss",)),
    "actions/upload-artifact@v4": (("name", "path"), ()),
}
TORCH = """
import numpy

__version__ = "2.0"
from_numpy = numpy.asarray


def relu(x):
    return numpy.maximum(x, 0)
"""
NO_TORCH = "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"


@dataclass(frozen=True)
class Job:
    """What a job of either kind comes down to."""

    commands: list[str]
    takes: list[str]  # paths that an earlier job hands over
    hands: list[str]  # paths that it hands to later ones
    keeps: list[str]  # paths that stay for people, also when a command fails


def github() -> list[Job]:
    jobs = yaml.safe_load(FILES[GITHUB])["jobs"]
    assert jobs["gate"]["needs"] == "reference"
    return [_github_job(jobs[name]["steps"]) for name in ("reference", "gate")]


def _github_job(steps: list[dict[str, Any]]) -> Job:
    def paths(action: str, condition: str | None = None) -> list[str]:
        return [
            path
            for step in steps
            if step.get("uses") == action and step.get("if") == condition
            for path in step["with"]["path"].split()
        ]

    return Job(
        commands=[step["run"] for step in steps if "run" in step],
        takes=paths("actions/cache/restore@v4"),
        hands=paths("actions/cache@v4"),
        keeps=paths("actions/upload-artifact@v4", "${{ !cancelled() }}"),
    )


def gitlab() -> list[Job]:
    file = yaml.safe_load(FILES[GITLAB])
    assert file["stages"] == [file[name]["stage"] for name in ("reference", "gate")] == ["reference", "gate"]
    made = []
    for name in ("reference", "gate"):
        artefacts = file[name]["artifacts"]
        always = artefacts.get("when") == "always"
        handed = [path for needed in file[name].get("needs", ()) for path in file[needed]["artifacts"]["paths"]]
        kept = artefacts["paths"] if always else []
        made.append(Job(file[name]["script"], handed, artefacts["paths"], kept))
    return made


PROVIDERS = {"GitHub": github, "GitLab": gitlab}


@dataclass
class Runner:
    """Runs jobs one after the other."""

    home: Path

    def __post_init__(self) -> None:
        self.store = self.home / "store"
        for has_torch, text in ((True, TORCH), (False, NO_TORCH)):
            folder = self.home / str(has_torch)
            folder.mkdir(parents=True)
            (folder / "torch.py").write_text(text)

    def checkout(self, name: str) -> Path:
        folder = self.home / name
        for path, text in FILES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        shutil.copytree(ROOT / "example_suites/01_lenet_port", folder / "gates/lenet")
        return folder

    def take(self, job: Job, folder: Path) -> None:
        for path in job.takes:
            shutil.copytree(self.store / path, folder / path)

    def run(self, job: Job, folder: Path, *, torch: bool) -> tuple[int, list[str]]:
        """Run the commands up to the first that fails; what they printed."""
        printed: list[str] = []
        for command in job.commands:
            if command.startswith("pip install"):
                continue
            given = f"export PYTHONPATH={self.home / str(torch)}${{PYTHONPATH:+:$PYTHONPATH}}; {command}"
            code, said = run(given, folder, self.home)
            printed += said
            if code:
                return code, printed
        return 0, printed

    def hand(self, job: Job, folder: Path) -> None:
        for path in job.hands:
            if (folder / path).is_dir():
                shutil.copytree(folder / path, self.store / path)


@pytest.fixture(scope="module", params=PROVIDERS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Runner, Job]:
    """A runner after the first job, and the second job."""
    reference, gate = PROVIDERS[request.param]()
    runner = Runner(tmp_path_factory.mktemp(request.param))
    folder = runner.checkout("first")
    code, printed = runner.run(reference, folder, torch=True)
    assert code == 0, "\n".join(printed)
    runner.hand(reference, folder)
    return runner, gate


@pytest.mark.e2e
def test_the_commands_run_and_the_gate_needs_no_reference_framework(made: tuple[Runner, Job]) -> None:
    runner, gate = made
    folder = runner.checkout("passes")
    runner.take(gate, folder)
    code, printed = runner.run(gate, folder, torch=False)
    assert code == 0, "\n".join(printed)
    # Eleven items of the suite file and two tests.
    assert any(re.search(r"\b13 passed\b", line) for line in printed), "\n".join(printed)
    assert {"gate.xml", "gate-report/"} == set(gate.keeps)
    assert (folder / "gate-report/gl-code-quality.json").is_file() == any("gitlab" in one for one in gate.commands)
    assert all((folder / path).exists() for path in gate.keeps)


@pytest.mark.e2e
@pytest.mark.parametrize("made", ["GitHub"], indirect=True)
def test_a_gate_that_fails_leaves_its_reports_and_an_exit_code_of_1(made: tuple[Runner, Job]) -> None:
    runner, gate = made
    folder = runner.checkout("fails")
    runner.take(gate, folder)
    shutil.rmtree(folder / "gates/lenet/run")
    shutil.copytree(ROOT / "example_suites/02_failing_on_purpose/run", folder / "gates/lenet/run")
    code, printed = runner.run(gate, folder, torch=False)
    assert code == 1, "\n".join(printed)
    assert any(re.search(r"\b7 failed, 6 passed\b", line) for line in printed), "\n".join(printed)
    assert all((folder / path).exists() for path in gate.keeps)
    assert (folder / "gate-report/results.json").is_file()


def test_both_files_run_the_same_commands() -> None:
    # But for what each service alone can read.
    kinds = {"GitHub": ",github ", "GitLab": ",gitlab "}
    told = {name: [command for job in make() for command in job.commands] for name, make in PROVIDERS.items()}
    assert all(sum(kind in command for command in told[name]) == 1 for name, kind in kinds.items())
    first, second = ([command.replace(kinds[name], " ") for command in told[name]] for name in told)
    assert first == second


def commands() -> Iterator[str]:
    for make in PROVIDERS.values():
        for job in make():
            yield from job.commands


def test_what_is_installed_is_this_package_with_extras_that_it_has() -> None:
    installing = [command for command in commands() if command.startswith("pip install")]
    assert len(installing) == 4
    tested = {re.split(r"[<>=\[]", needed)[0] for needed in PROJECT["optional-dependencies"]["test"]}
    for command in installing:
        package, *others = shlex.split(command)[2:]
        package, _, address = package.partition(" @ ")
        assert address == f"git+{PROJECT['urls']['Repository']}"
        name, _, extras = package.rstrip("]").partition("[")
        assert name == PROJECT["name"]
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
        assert set(others) <= tested
    # Nothing else is left out when the commands are run.
    assert {shlex.split(command)[0] for command in commands()} == {"pip", "pytest"}


def test_githubs_steps_are_whole() -> None:
    file = yaml.safe_load(FILES[GITHUB])
    # PyYAML takes the word `on` for a truth value; GitHub does not.
    assert set(file) == {"name", True, "permissions", "jobs"}
    assert set(file[True]) == {"push", "pull_request"}
    for job in file["jobs"].values():
        assert job["runs-on"] == "ubuntu-latest"
        for step in job["steps"]:
            assert set(step) <= {"id", "if", "uses", "with", "run"}
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                needed, allowed = ACTIONS[step["uses"]]
                assert set(needed) <= set(step.get("with", ())) <= {*needed, *allowed}
