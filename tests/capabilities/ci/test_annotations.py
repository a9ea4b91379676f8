"""What machines of CI read: commands that GitHub's runner understands, and entries that GitLab takes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from report import samples

from pytest_msdump.core.compare.assemble import assemble
from pytest_msdump.core.report.base import printed_lines, write_kind
from pytest_msdump.core.report.record_json import from_json

CODE = "x = self.conv2(x)"
HOSTILE = (
    "a\n::error file=x::owned",
    "a\r\n::add-mask::b",
    "100%0A::stop-commands::t",
    "a,file=/etc/passwd",
    "a::b:c,d%",
    "\u2028::error::x",
    "\udcff",
    "\x1b[31m",
)


@pytest.fixture(autouse=True)
def no_service(monkeypatch):
    """These tests run on such machines, too."""
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)


def drifted(name="conv2", **changes):
    entry = samples.entry(samples.drifted())
    return from_json({**entry, "left": {**entry["left"], "address": f"{name}:output:0"}, **changes})


def role(kind, *causes):
    return {"role": kind, "causes": list(causes), "role_reason": "because"}


def report(*records, rerun=(), paired=2):
    pairing = samples.pairing([samples.pair()] * len(records), paired=paired, total=2)
    return replace(assemble(*samples.dumps(), pairing, records, profile="default"), rerun=rerun)


def understood(line):
    """What GitHub's runner makes of a line: (command, properties, message). Its rules, in its order."""
    assert line.isprintable()
    line.encode("utf-8")
    head, separator, message = line.removeprefix("::").partition("::")
    assert line.startswith("::")
    assert separator
    command, _, told = head.partition(" ")
    properties = {}
    for part in told.split(","):
        key, equals, value = part.partition("=")
        assert equals
        assert key not in properties
        for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            value = value.replace(code, char)
        properties[key] = value
    for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        message = message.replace(code, char)
    return command, properties, message


def github(*reports, root):
    return [understood(line) for line in printed_lines(["github"], reports, root)]


def gitlab(*reports, root, out):
    """What is in the file, every entry held against the fields that GitLab documents."""
    entries = json.loads(write_kind("gitlab", reports, out, root)[0].read_text("ascii"))
    for entry in entries:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert re.fullmatch("[0-9a-f]{64}", entry["fingerprint"])
        assert set(entry["location"]) == {"path", "lines"}
        path = entry["location"]["path"]
        assert path
        assert not path.startswith(("/", "./"))
        assert ".." not in path.split("/")
        assert entry["location"]["lines"]["begin"] >= 1
        assert entry["description"].isprintable()
        json.dumps(entry, ensure_ascii=False).encode("utf-8")
    prints = [entry["fingerprint"] for entry in entries]
    assert len(prints) == len(set(prints))
    return entries


def program(root, name="nets/net.py", text=f"import x\n    {CODE}\n\n"):
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def source(file, line=2, text=CODE):
    return {"source": {"file": str(file), "line": line, "text": text}}


def test_an_error_stands_at_the_line_of_the_program(tmp_path):
    file = program(tmp_path)
    ((command, properties, message),) = github(report(drifted(**source(file), **role("cause"))), root=tmp_path)
    assert command == "error"
    assert properties == {"file": "nets/net.py", "line": "2", "title": "msdump: conv2:output:0"}
    first, second = message.split("\n")
    assert first == "cause: because"
    assert second.startswith("DRIFT conv2:output:0 [net.py:2]: cosine_similarity 0.390511 is below 0.999")


@pytest.mark.parametrize(
    "written", ["nets/net.py", "./nets/net.py", "/build/17/src/nets/net.py", r"C:\src\nets\net.py"]
)
def test_a_program_that_ran_elsewhere_is_found_by_its_line(tmp_path, written):
    program(tmp_path)
    ((_, properties, _),) = github(report(drifted(**source(written))), root=tmp_path)
    assert (properties["file"], properties["line"]) == ("nets/net.py", "2")


@pytest.mark.parametrize(
    "said",
    [
        source("/elsewhere/nets/net.py", text="y = 2"),  # another program of that name
        source("/elsewhere/nets/net.py", line=3, text=""),  # nothing to know it by
        source("/elsewhere/nets/net.py", line=99),
        source("/elsewhere/../nets/net.py"),
        source("../outside.py"),
        source("nets"),
        source("nets/net.py\0"),
        source("gone.py"),
        {},
    ],
)
def test_where_no_line_is_known_the_suite_file_stands_in(tmp_path, said):
    root = tmp_path / "root"
    program(root)
    program(tmp_path, "outside.py")
    suite = program(root, "gates/msdump.toml", "[msdump]\n")
    asked = report(drifted(**said), rerun=("--config", str(suite), "--threshold=cosine_similarity=0.9"))
    ((_, properties, _),) = github(asked, root=root)
    assert (properties["file"], properties["line"]) == ("gates/msdump.toml", "1")
    (entry,) = gitlab(asked, root=root, out=tmp_path / "out")
    assert entry["location"] == {"path": "gates/msdump.toml", "lines": {"begin": 1}}


@pytest.mark.parametrize(("variable", "tell"), [("GITHUB_WORKSPACE", "github"), ("CI_PROJECT_DIR", "gitlab")])
def test_paths_begin_where_the_service_checked_out(tmp_path, monkeypatch, variable, tell):
    root = tmp_path / "project"
    failing = report(drifted(**source(program(root))))

    def path():
        if tell == "github":
            return github(failing, root=root)[0][1]["file"]
        return gitlab(failing, root=root, out=tmp_path / "out")[0]["location"]["path"]

    monkeypatch.setenv(variable, str(tmp_path))
    assert path() == "project/nets/net.py"
    monkeypatch.setenv(variable, str(tmp_path / "another"))
    assert path() == "nets/net.py"


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_out_of_its_line(tmp_path, name):
    failing = report(drifted(name, **role("cause")))
    found = github(failing, root=tmp_path)
    assert [(command, set(properties)) for command, properties, _ in found] == [("error", {"title"})]
    (_, properties, message) = found[0]
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)
    # A log is scanned for commands, wherever it was broken into lines.
    shown = re.sub("::(error|add-mask|stop-commands)", r":\\x3a\1", shown)
    assert properties["title"] == f"msdump: {shown}:output:0"
    assert message.split("\n")[1].startswith(f"DRIFT {shown}:output:0: ")
    (entry,) = gitlab(failing, root=tmp_path, out=tmp_path)
    assert f"DRIFT {shown}:output:0: " in entry["description"]


def test_ten_errors_are_told_causes_first_and_the_rest_is_counted(tmp_path):
    records = [drifted(f"op{number}", **role("unknown")) for number in range(12)]
    records += [drifted("late", **role("cause")), drifted("after", **role("inherited", "late:output:0"))]
    *errors, last = github(report(*records), root=tmp_path)
    assert [command for command, _, _ in errors] == ["error"] * 10
    assert [properties["title"] for _, properties, _ in errors][:2] == ["msdump: late:output:0", "msdump: op0:output:0"]
    assert last == ("notice", {"title": "msdump"}, "and 3 more failing, 1 inherited; results.json has them all")
    assert len(github(report(*records[:10]), root=tmp_path)) == 10


def test_nothing_compared_comes_first(tmp_path):
    assert github(report(), root=tmp_path)[0][1:] == (
        {"title": "msdump: coverage"},
        "nothing was compared: no tensor is selected",
    )
    (entry,) = gitlab(report(), root=tmp_path, out=tmp_path)
    assert (entry["check_name"], entry["severity"]) == ("msdump.coverage", "critical")


def test_a_fingerprint_stays_while_numbers_lines_and_roles_change(tmp_path):
    def fingerprint(**changes):
        (entry,) = gitlab(report(drifted(**changes)), root=tmp_path, out=tmp_path)
        return entry["fingerprint"]

    program(tmp_path)
    usual = fingerprint()
    for changes in (source("nets/net.py"), role("cause"), {"verdict": "error"}, {"order": 9}, {"metrics": {}}):
        assert fingerprint(**changes) == usual
    for changes in ({"iteration": 1}, {"rank": 3}, {"name": "conv3"}, {"occurrence": 1}):
        assert fingerprint(**changes) != usual
