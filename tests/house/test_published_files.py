"""What GitHub, PyPI and pre-commit read of this repository: workflows, the action, the hook, links of the README."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs_pages import PAGES, ROOT, blocks

from pytest_msdump.core.suite import read_toml
from pytest_msdump.plugin.discovery import is_suite_file

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
REPOSITORY = read_toml(ROOT / "pyproject.toml")["project"]["urls"]["Repository"]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
(STEP,) = ACTION["runs"]["steps"]
HOSTILE = "$(touch gone) `touch gone` ; touch gone ' \" * %s"


def jobs(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))["jobs"]
    return found


def steps() -> Iterator[dict[str, Any]]:
    yield STEP
    for file in WORKFLOWS:
        for job in jobs(file).values():
            yield from job["steps"]


def test_no_script_holds_what_others_can_write() -> None:
    scripts = [step["run"] for step in steps() if "run" in step]
    assert len(scripts) >= 6
    assert [script for script in scripts if "${{" in script] == []


def test_every_workflow_may_read_alone_and_publishing_needs_no_password() -> None:
    assert len(WORKFLOWS) == 2
    for file in WORKFLOWS:
        assert yaml.safe_load(file.read_text("utf-8"))["permissions"] == {"contents": "read"}
        assert "secrets." not in file.read_text("utf-8")
    publish = jobs(ROOT / ".github/workflows/release.yml")["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(publish["needs"]) == {"wheels", "source"}


def test_actions_of_others_are_pinned_by_commit() -> None:
    used = [step["uses"] for step in steps() if "uses" in step]
    assert len(used) >= 6
    # A tag can be moved to other code.
    assert [one for one in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", one)] == []


def test_the_workflow_runs_every_lane() -> None:
    (job,) = jobs(ROOT / ".github/workflows/ci.yml").values()
    named = re.search(r"^ALL_LANES=\(([^)]*)\)", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)
    assert named is not None
    assert sorted(job["strategy"]["matrix"]["lane"]) == sorted(named[1].split())


# -- the action --------------------------------------------------------------------------------------------------------


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A folder with programs that note how they were called."""
    (tmp_path / "bin").mkdir()
    note = f'#!{sys.executable}\nimport json, sys\nfrom pathlib import Path\nHERE = Path("{tmp_path}")\n'
    note += 'with (HERE / Path(sys.argv[0]).name).open("a") as file:\n    print(json.dumps(sys.argv[1:]), file=file)\n'
    fake = note + 'out = next(word[13:] for word in sys.argv if word.startswith("--report-dir="))\n'
    fake += 'Path(out).mkdir()\n(Path(out) / "summary.md").write_text("7 fail")\nsys.exit(1)\n'
    for name, text in (("msdump", fake), ("gh", note + "sys.stdin.read()\nsys.exit((HERE / 'gh_fails').exists())\n")):
        (tmp_path / "bin" / name).write_text(text, "utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "work").mkdir()
    return tmp_path


def act(runner: Path, path: str = "", **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's script as GitHub does."""
    variables = dict.fromkeys(STEP["env"], "") | inputs
    places = {"RUNNER_TEMP": runner / "temp", "GITHUB_OUTPUT": runner / "output", "GITHUB_STEP_SUMMARY": runner / "sum"}
    (runner / "temp").mkdir()
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", STEP["run"]],
        cwd=runner / "work",
        env={
            "PATH": f"{path or runner / 'bin'}:{os.environ['PATH']}",
            "GITHUB_REPOSITORY": "a/b",
            **{name: str(place) for name, place in places.items()},
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def calls(runner: Path, program: str) -> list[list[str]]:
    lines = (runner / program).read_text("utf-8").splitlines() if (runner / program).exists() else []
    return [ast.literal_eval(line) for line in lines]


def test_every_input_reaches_the_script_as_a_variable() -> None:
    assert {f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]} <= set(STEP["env"].values())
    used = set(re.findall(r"\$\{?([A-Z_]+)", STEP["run"]))
    assert set(STEP["env"]) <= used
    assert used - set(STEP["env"]) == {"RUNNER_TEMP", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_REPOSITORY"}


@pytest.mark.e2e
def test_the_action_gates_writes_the_summary_and_comments(runner: Path) -> None:
    done = act(
        runner,
        LEFT=HOSTILE,
        RIGHT="-r",
        CONFIG="a b.toml",
        ARGS=f"{HOSTILE}\n\n--io=all\n",
        GH_TOKEN="t",
        PULL_REQUEST="7",
    )
    assert done.returncode == 1, done.stderr
    report = f"{runner}/temp/msdump-report"
    words = [f"--left={HOSTILE}", "--right=-r", "--config=a b.toml", HOSTILE, "--io=all"]
    assert calls(runner, "msdump") == [
        ["compare", *words, "--report=json,md,html,github", f"--report-dir={report}"],
    ]
    assert list((runner / "work").iterdir()) == []
    assert (runner / "sum").read_text("utf-8") == "7 fail"
    assert (runner / "output").read_text("utf-8") == f"report={report}\n"
    assert calls(runner, "gh") == [["pr", "comment", "7", "--repo", "a/b", "--body-file", "-", "--edit-last"]]


@pytest.mark.e2e
@pytest.mark.parametrize("given", [{}, {"GH_TOKEN": "t"}, {"PULL_REQUEST": "7"}])
def test_without_a_token_or_a_pull_request_nothing_is_commented(runner: Path, given: dict[str, str]) -> None:
    assert act(runner, **given).returncode == 1
    assert calls(runner, "gh") == []


@pytest.mark.e2e
def test_a_comment_that_cannot_be_written_changes_no_outcome(runner: Path) -> None:
    (runner / "gh_fails").touch()
    done = act(runner, GH_TOKEN="t", PULL_REQUEST="7")
    assert done.returncode == 1
    assert "::warning::msdump could not comment" in done.stdout
    assert len(calls(runner, "gh")) == 2


@pytest.mark.e2e
@pytest.mark.parametrize(("example", "code"), [("01_lenet_port", 0), ("02_failing_on_purpose", 1)])
def test_the_action_runs_the_real_command(runner: Path, example: str, code: int) -> None:
    suite = str(ROOT / "example_suites" / example / "msdump.toml")
    done = act(runner, path=str(Path(sys.executable).parent), CONFIG=suite)
    assert done.returncode == code, done.stderr
    assert "10 tensors" in (runner / "sum").read_text("utf-8")
    assert (runner / "temp/msdump-report/index.html").is_file()


# -- the hook of pre-commit --------------------------------------------------------------------------------------------

(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))


@pytest.mark.parametrize(
    "name", ["msdump.toml", "a/msdump.toml", "b/net.msdump.toml", "xmsdump.toml", "pyproject.toml"]
)
def test_the_hook_takes_the_files_that_pytest_collects(name: str) -> None:
    assert bool(re.search(HOOK["files"], name)) == is_suite_file(Path(name))


@pytest.mark.e2e
def test_the_hook_reads_suite_files_without_dumps(tmp_path: Path) -> None:
    good = tmp_path / "msdump.toml"
    good.write_text('[msdump]\nleft = "nowhere"\n', "utf-8")
    for number, text in enumerate(("[msdump]\nprofil = 'strict'\n", "[msdump\n")):
        (tmp_path / f"{number}.msdump.toml").write_text(text, "utf-8")
    names = sorted(path.name for path in tmp_path.iterdir())
    for files, code, lines in ((["msdump.toml"], 0, 0), (names, 4, 2)):
        words = [sys.executable, *HOOK["entry"].split()[1:], *files]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, len(done.stderr.splitlines())) == (code, lines), done.stderr
    assert "profil" in done.stderr


# -- addresses ---------------------------------------------------------------------------------------------------------


def test_the_readme_of_a_release_has_no_relative_link(tmp_path: Path) -> None:
    (made,) = (
        node for node in ast.parse((ROOT / "setup.py").read_text("utf-8")).body if getattr(node, "name", "") == "readme"
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    text = "[a](docs/a.md#b) [c](https://d.e/f) [g](#h)\n[i\nj](LICENSE) [k](mailto:l) ![m](n.svg)"
    (tmp_path / "README.md").write_text(text, "utf-8")
    names: dict[str, Any] = {"ROOT": tmp_path, "re": re}
    exec(compile(ast.Module([made], []), "setup.py", "exec"), names)
    blob = f"{REPOSITORY}/blob/main"
    assert names["readme"]() == (
        f"[a]({blob}/docs/a.md#b) [c](https://d.e/f) [g](#h)\n[i\nj]({blob}/LICENSE) [k](mailto:l) "
        f"![m]({REPOSITORY}/raw/main/n.svg)"
    )


def test_the_package_is_installed_from_the_repository_and_its_address_is_the_projects() -> None:
    found = set()
    for page in PAGES:
        text = page.read_text("utf-8")
        found |= set(re.findall(r"git\+(https?://[^\s\"'`]+)", text))
        fenced = [line for block in blocks(page) for line in block.lines]
        for line in fenced:
            is_ours = "pip install" in line and "pytest-msdump" in line
            assert not is_ours or "git+" in line, f"{page.name}: {line}"
    assert found == {REPOSITORY}
