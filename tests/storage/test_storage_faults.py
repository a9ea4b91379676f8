"""What storages do wrong, and what people did: one clear line and the right exit code, and nothing is passed over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from storage.shelf import TroubledFileSystem

from pytest_msdump.capabilities.remote import listings
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import as_path, index, open_dump
from pytest_msdump.core.errors import DumpNotFoundError, UnknownDumpFormatError
from pytest_msdump.core.report.json_report import read_json

pytestmark = pytest.mark.usefixtures("troubled")


EXTRA = "pip install 'pytest-msdump[remote]'"


class StorageError(Exception):
    """As botocore's and aiohttp's, it is no OSError."""


def failing(error: Exception, *endings: str):
    def trouble(path: str) -> None:
        if path.endswith(endings):
            raise error

    return trouble


@pytest.fixture
def reference(put, lenet) -> str:
    return put(lenet / "reference", "troubled", "bucket/reference")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            FileNotFoundError("/bucket/reference"),
            "nothing has that name; give the URL of the folder a dump was",
        ),
        (FileNotFoundError("The specified bucket does not exist"), "(The specified bucket does not exist); give the"),
        (PermissionError("Forbidden"), "cannot be listed: Forbidden; check the network, the name and your permissions"),
        (StorageError("Unable to locate\ncredentials"), "cannot be listed: Unable to locate credentials; check the"),
        (TimeoutError(), "cannot be listed: TimeoutError; check the network"),
        (OSError(5, "Input/output error"), "cannot be listed: [Errno 5] Input/output error; check"),
    ],
)
@pytest.mark.parametrize("run", ["command", "pytest"])
def test_a_dump_that_cannot_be_listed_is_one_line_and_exit_code_4(
    troubled, reference, pytester, lenet, capsys, error, line, run
):
    troubled.trouble = failing(error, "reference")
    sides = (str(lenet / "target"), reference)
    if run == "command":
        assert main(["compare", *sides]) == 4
        told = capsys.readouterr().err
    else:
        result = pytester.runpytest(f"--msdump-left={sides[0]}", f"--msdump-right={sides[1]}")
        assert result.ret == 4
        told = result.stderr.str()
    assert "troubled://bucket/reference: " in told
    assert line in told
    assert len(told.strip().splitlines()) == 1
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG", "bad key wJalrXUtnFEMI/K7MDENG for you"),
        ("AWS_SESSION_TOKEN", "hunter2hunter2", "token [hunter2hunter2] has expired"),
        ("AZURE_STORAGE_KEY_SAS", "hunter2hunter2", "hunter2hunter2"),
        ("X", "", "GET https://b.s3.amazonaws.com/?X-Amz-Signature=hunter2&X-Amz-Credential=hunter2%2F2026 failed"),
        ("X", "", "Authorization: Bearer hunter2"),
        ("X", "", "{'aws_secret_access_key': 'hunter2', 'account_key': \"hunter2\"}"),
        ("X", "", "cannot reach ftp://me:hunter2@host/x"),
        ("X", "", "sv=2020&sig=hunter2&se=2026"),
    ],
)
def test_no_message_tells_a_secret(troubled, reference, capsys, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    troubled.trouble = failing(StorageError(message), "reference")
    assert main(["compare", reference, "x"]) == 4
    told = capsys.readouterr().err
    assert "***" in told
    assert "hunter2" not in told
    assert value == "" or value not in told


@pytest.mark.parametrize(
    "error", [PermissionError("Forbidden"), StorageError("connection reset"), FileNotFoundError("x")]
)
def test_a_file_that_cannot_be_fetched_is_an_error_of_its_own_tensor_alone(
    troubled, reference, tmp_path, lenet, monkeypatch, error
):
    monkeypatch.chdir(tmp_path)
    name = next(path.name for path in (lenet / "reference").iterdir() if path.name.startswith("relu2"))
    troubled.trouble = failing(error, name)
    assert main(["compare", reference, str(lenet / "reference"), "--profile=bitwise"]) == 1
    report = read_json(Path("msdump-report/results.json"))
    assert report["counts"]["error"] == 1
    assert report["counts"]["pass"] == 9
    record = next(one for one in report["tensors"] if one["verdict"] == "error")
    sentence = record["findings"][0]["sentence"]
    assert sentence.startswith(f"troubled://bucket/reference/{name}: cannot be read at byte 0: ")
    assert record["left"]["file"] == name


def test_a_side_file_that_changes_while_a_dump_is_indexed_is_exit_code_4(troubled, put, capsys):
    url = put(Path(__file__).parents[1] / "data" / "training", "troubled")
    listed = index(as_path(url))
    assert listed.graphs

    def trouble(path: str) -> None:
        if path.endswith(".ir"):
            TroubledFileSystem.trouble = None
            TroubledFileSystem().pipe_file(path, b"# another graph\n")

    troubled.trouble = trouble
    assert main(["inspect", url]) == 4
    told = capsys.readouterr().err
    assert ".ir: has changed since its name was listed; run again when nothing writes to it" in told
    assert len(told.strip().splitlines()) == 1


def test_a_side_file_that_cannot_be_fetched_is_noted_as_a_local_one_is(troubled, put):
    root = Path(__file__).parents[1] / "data" / "training"
    url = put(root, "troubled")
    whole = index(as_path(url))
    assert whole.graphs
    troubled.trouble = failing(PermissionError("Forbidden"), ".ir", ".csv", ".json")
    dump = index(as_path(url))
    assert len(dump.refs) == len(whole.refs)
    assert not dump.graphs
    assert any("Forbidden" in note for note in dump.notes)


@pytest.mark.parametrize(
    "name",
    [
        "../evil.0.1700000000000001.npy",
        "a/../../evil.0.1700000000000001.npy",
        "/evil.0.1700000000000001.npy",
        "a//evil.0.1700000000000001.npy",
        "evil\0.0.1700000000000001.npy",
        "a/./evil.npy",
        "x.0.1700000000000001.npy/evil.0.1700000000000001.npy",
    ],
    ids=lambda name: repr(name[:24]),
)
def test_a_name_that_cannot_be_a_files_is_told_and_is_in_no_folder(troubled, put, tmp_path, name):
    np.save(tmp_path / "x.0.1700000000000001.npy", np.arange(3.0))
    url = put(tmp_path, "troubled", "bucket/deep/d")
    troubled.listed[name] = 200
    dump = index(as_path(url))
    assert [ref.key.address for ref in dump.refs] == ["x:output:0"]
    assert dump.unexplained == (Path(name),)
    assert [path.name for path in dump.root.iterdir() if path.is_file()] == ["x.0.1700000000000001.npy"]


def test_a_name_that_is_too_long_for_a_disk_is_a_tensor(put, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3.0))
    url = put(tmp_path / "x.npy", "troubled", f"bucket/d/{'n' * 300}.0.1700000000000001.npy").rpartition("/")[0]
    dump = open_dump(url)
    assert list(dump) == ["n" * 300 + ":output:0"]
    assert dump.read("n" * 300).tolist() == [0.0, 1.0, 2.0]


def test_a_dump_of_such_names_alone_is_exit_code_4(troubled, put, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x").touch()
    url = put(tmp_path / "d", "troubled", "bucket/d")
    TroubledFileSystem().rm("/bucket/d/x")
    TroubledFileSystem().makedirs("/bucket/d", exist_ok=True)
    troubled.listed["../x.0.1700000000000001.npy"] = 200
    with pytest.raises(
        UnknownDumpFormatError, match=r"holds no name that can be a file's \(found e.g. '../x.0.1700000000000001.npy'\)"
    ):
        index(as_path(url))


def test_an_empty_folder_is_an_empty_dump_and_an_object_that_stands_for_a_folder_is_no_file(troubled):
    TroubledFileSystem().makedirs("/bucket/d", exist_ok=True)
    assert index(as_path("troubled://bucket/d")).reader == "empty"
    troubled.listed.update({"": 0, "a/": 0})
    dump = index(as_path("troubled://bucket/d"))
    assert (dump.reader, dump.unexplained) == ("empty", ())


def test_listing_again_sees_what_has_changed(troubled, put, tmp_path):
    np.save(tmp_path / "x.0.1700000000000001.npy", np.arange(3.0))
    url = put(tmp_path, "troubled", "bucket/d")
    assert list(open_dump(url)) == ["x:output:0"]
    (tmp_path / "x.0.1700000000000001.npy").rename(tmp_path / "y.0.1700000000000001.npy")
    TroubledFileSystem().rm("/bucket/d", recursive=True)
    put(tmp_path, "troubled", "bucket/d")
    # Somebody else in this process has listed the folder before it changed, and fsspec's file systems are shared.
    troubled.known["/bucket/d {'detail': True}"] = {"/bucket/d/x.0.1700000000000001.npy": {"size": 152}}
    assert list(open_dump(url)) == ["y:output:0"]
    assert not troubled.known
    assert open_dump(f"{url}/y.0.1700000000000001.npy").read("y").tolist() == [0.0, 1.0, 2.0]
    TroubledFileSystem().rm("/bucket/d", recursive=True)
    with pytest.raises(DumpNotFoundError):
        open_dump(url)


@pytest.mark.parametrize(
    ("url", "modules", "line"),
    [
        (
            "s3://b/x",
            ["fsspec", "fsspec.core"],
            "reading from a URL needs more packages; pip install 'pytest-msdump[remote]'",
        ),
        ("s3://b/x", ["s3fs"], "reading from s3 needs more packages; pip install 'pytest-msdump[remote]'"),
        ("gs://b/x", ["gcsfs"], f"beside {EXTRA}"),
        ("nosuch://b/x", [], "Protocol not known: nosuch; known are the storages of fsspec"),
    ],
)
def test_what_is_not_installed_is_said_with_the_command_that_installs_it(monkeypatch, capsys, url, modules, line):
    listings._system.cache_clear()
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    assert main(["compare", url, "x"]) == 4
    told = capsys.readouterr().err
    assert line in told
    assert len(told.strip().splitlines()) == 1


@pytest.mark.e2e
def test_without_a_url_fsspec_is_not_loaded_and_nothing_is_made(lenet, tmp_path):
    program = (
        "import sys\nfrom pytest_msdump.cli import main\n"
        f"assert main(['compare', {str(lenet / 'target')!r}, {str(lenet / 'target')!r}]) == 0\n"
        "heavy = [name for name in sys.modules if name.startswith('fsspec')]\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    environ = os.environ | {"TMPDIR": str(tmp_path / "t"), "LC_ALL": "C.UTF-8"}
    (tmp_path / "t").mkdir()
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.stderr.strip() == "[]", done.stderr
    assert list((tmp_path / "t").iterdir()) == []
