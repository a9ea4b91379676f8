"""The protocol of S3 itself: moto's server on this machine, asked by s3fs. Lane ``s3`` has both; elsewhere skipped."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from plugin.suites import write_suite

from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import as_path, index, open_view
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.report.json_report import read_json

pytestmark = pytest.mark.e2e  # a server, and whatever its packages ask the system

KEYS = {"AWS_ACCESS_KEY_ID": "testing-key", "AWS_SECRET_ACCESS_KEY": "hunter2hunter2"}
REGION = {"AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of an S3 server with nothing in it."""
    lacking = [name for name in ("s3fs", "moto", "flask") if find_spec(name) is None]
    if lacking and os.environ.get("MSDUMP_S3"):
        pytest.fail(f"{lacking} are missing, and MSDUMP_S3 asks for them")
    if lacking:
        pytest.skip(f"{lacking} are not installed")
    from moto.server import ThreadedMotoServer

    running = ThreadedMotoServer(port=0)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def s3(server, monkeypatch, lenet):
    """fsspec's S3 on that server, with lenet's dumps in the bucket ``dumps``."""
    import s3fs

    for name, value in (KEYS | REGION).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    system = s3fs.S3FileSystem(skip_instance_cache=True)
    if not system.exists("dumps"):
        system.mkdir("dumps")
        for side in ("target_bad", "reference"):
            system.put(str(lenet / side), f"dumps/{side}", recursive=True)
    return system


def test_the_gate_of_two_dumps_on_s3_is_that_of_the_local_ones(s3, tmp_path, monkeypatch, lenet, capsys):
    monkeypatch.chdir(tmp_path)
    assert s3.exists("dumps/reference")
    write_suite(tmp_path / "suite.toml", lenet, "target_bad")
    reports = []
    for sides in (
        ["s3://dumps/target_bad", "s3://dumps/reference"],
        [str(lenet / "target_bad"), str(lenet / "reference")],
    ):
        assert main(["compare", *sides, "--config", "suite.toml"]) == 1
        reports.append(read_json(Path("msdump-report/results.json")))
    assert reports[0]["left"]["directory"] == "s3://dumps/target_bad"
    assert reports[0]["tensors"] == reports[1]["tensors"]
    assert reports[0]["counts"]["fail"]
    assert "hunter2" not in capsys.readouterr().out


def test_a_folder_of_more_files_than_one_answer_lists_is_listed_whole(s3):
    s3.pipe({f"dumps/many/op{number}.0.{number + 1}.npy": b"x" for number in range(1001)}, batch_size=50)
    assert len(index(as_path("s3://dumps/many")).refs) == 1001


def test_a_file_that_is_written_anew_after_it_was_listed_is_an_error_of_its_pair(s3):
    s3.pipe_file("dumps/anew/op.0.1.npy", npy(0.0))
    ref = index(as_path("s3://dumps/anew")).refs[0]
    with closing(open_view(ref)) as view:
        assert view.read(0, view.size).tolist() == [0.0]
    s3.pipe_file("dumps/anew/op.0.1.npy", npy(1.0))
    with pytest.raises(TensorFileError, match="has changed since its name was listed"):
        open_view(ref)


def npy(value: float) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([value]))
    return stream.getvalue()


@pytest.mark.parametrize("url", ["s3://nosuchbucket/x", "s3://dumps/nosuch", "s3://nosuchbucket"])
def test_what_is_not_there_is_one_line_and_exit_code_4(s3, capsys, url):
    assert s3
    assert main(["compare", url, url]) == 4
    told = capsys.readouterr().err
    assert told.startswith(f"msdump: {url}: nothing has that name")
    assert len(told.strip().splitlines()) == 1


def test_a_server_that_is_not_there_is_one_line_and_exit_code_4(s3, monkeypatch, capsys):
    import s3fs

    from pytest_msdump.capabilities.remote import listings

    assert s3
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    listings._system.cache_clear()
    assert main(["compare", "s3://dumps/x", "x"]) == 4
    told = capsys.readouterr().err
    assert "s3://dumps/x: cannot be listed: " in told
    assert "127.0.0.1:9" in told
    assert len(told.strip().splitlines()) == 1
    assert not any(secret in told for secret in KEYS.values())
    s3fs.S3FileSystem.clear_instance_cache()
    listings._system.cache_clear()
