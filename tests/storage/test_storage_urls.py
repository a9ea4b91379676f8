"""What a user may write for a side, and how a path on object storage behaves."""

import pickle
from pathlib import Path

import pytest

from pytest_msdump.core.compare.opening import as_path
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.storage.locations import RemotePath, absolute_path, is_url, parse_location
from pytest_msdump.core.suite import load_suite

HERE = Path("/here")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("S3://bucket/a/b/", "s3://bucket/a/b"),
        ("memory:///a", "memory://a"),
        ("https://host:8080/a b/ü%20", "https://host:8080/a b/ü%20"),
        ("s3://bucket", "s3://bucket"),
        ("abc+d.e-f://x/name@host/a::b", "abc+d.e-f://x/name@host/a::b"),
    ],
)
def test_a_url_is_told_as_it_is_called(text, shown):
    path = parse_location(text, HERE)
    assert isinstance(path, RemotePath)
    assert (str(path), repr(path), path.as_posix()) == (shown, f"RemotePath({shown!r})", shown)
    assert parse_location(shown, HERE) == path == as_path(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("dump", "/here/dump"),
        ("/dump", "/dump"),
        ("s3:/bucket", "/here/s3:/bucket"),
        ("file:///a%20b/c", "/a b/c"),
        ("FILE://localhost/a", "/a"),
        ("1s3://x", "/here/1s3:/x"),
    ],
)
def test_other_texts_are_paths_of_this_machine(text, path):
    found = parse_location(text, HERE)
    assert (type(found), str(found)) == (type(Path()), path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s3://", "names nothing"),
        ("s3:///dump", "names nothing"),
        ("s3://bucket/../x", "holds an empty part, '.' or '..'"),
        ("s3://..", "holds an empty part, '.' or '..'"),
        ("s3://bucket//x", "holds an empty part, '.' or '..'"),
        ("s3://bucket/./x", "holds an empty part, '.' or '..'"),
        ("s3://bucket/a\nb", "control character"),
        ("s3://KEY:hunter2@bucket/x", "a name or password in a URL would stand in every report"),
        ("https://host/x?X-Amz-Signature=hunter2", "a query, which may be a signature"),
        ("zip://a.zip::s3://bucket/hunter2", "chains file systems"),
        ("file://other/x", "names another machine"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_in_one_line_without_its_secrets(text, reason):
    with pytest.raises(ConfigError) as caught:
        parse_location(text, HERE, where="--msdump-left")
    assert str(caught.value).startswith("--msdump-left: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_nul_byte_is_refused_where_a_side_is_read():
    with pytest.raises(ConfigError, match="NUL byte"):
        load_suite(file=None, options={"left": "s3://a/\0", "right": "x"}, directory=HERE)


@pytest.mark.parametrize("option", ["report_dir", "fusion", "quant_fusion", "close_fusion"])
def test_only_the_sides_may_be_urls(option):
    said = {"left": "s3://a/b", "right": "memory://c"}
    suite = load_suite(file=None, options=said, directory=HERE)
    assert (str(suite.left.path), str(suite.right.path)) == ("s3://a/b", "memory://c")
    with pytest.raises(ConfigError, match="must be a path of this machine: only dumps may be URLs"):
        load_suite(file=None, options=said | {option: "s3://a/b"}, directory=HERE)
    with pytest.raises(ConfigError, match=r"graph_files\[0\] must be a path of this machine"):
        load_suite(file=None, table={"graph_files": ["s3://a/b"]}, options=said, directory=HERE)


def test_a_remote_path_joins_splits_compares_and_travels_as_any_path_does():
    root = parse_location("s3://bucket/dump", HERE)
    path = root / "rank_0" / "a.b.npy"
    assert str(path) == "s3://bucket/dump/rank_0/a.b.npy"
    assert all(isinstance(one, RemotePath) for one in (path, path.parent, root.joinpath("x", "y"), path.with_name("z")))
    assert (path.name, path.suffix, path.parent.parent) == ("a.b.npy", ".npy", root)
    assert path.is_relative_to(root)
    assert not root.is_relative_to(path)
    assert path.relative_to(root).as_posix() == str(path.relative_to(root)) == "rank_0/a.b.npy"
    assert pickle.loads(pickle.dumps(path)) == path
    assert isinstance(pickle.loads(pickle.dumps(path)), RemotePath)
    assert {path: 1}[root / "rank_0/a.b.npy"] == 1
    assert root < path < root / "rank_1"
    assert path.absolute() == path.resolve() == absolute_path(path) == path
    assert as_path(path) is path
    assert str(path.parents[2]) == "s3://bucket"
    assert [str(one) for one in root.parents][:2] == ["s3://bucket", "s3://"]
    assert is_url(str(path))


def test_of_what_was_not_listed_nothing_is_there_and_no_storage_is_asked():
    path = parse_location("nosuch://bucket/dump", HERE)
    assert [path.exists(), path.is_dir(), path.is_file(), path.is_symlink()] == [False] * 4
    with pytest.raises(FileNotFoundError, match="nothing has that name"):
        path.stat()
    with pytest.raises(FileNotFoundError):
        list(path.iterdir())


def test_object_storage_is_only_read():
    with pytest.raises(OSError, match="object storage is only read here"):
        parse_location("s3://bucket/x", HERE).open("w")
