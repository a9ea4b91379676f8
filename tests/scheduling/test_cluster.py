"""``msdump compare --scheduler``: real workers, real deaths; the report is that of one process, or says what is not."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from scheduling import clusters
from scheduling.dumps import LARGE, as_written, file_of, has_not_ended, results, write_pairs
from storage.shelf import SHELF

from pytest_msdump.cli import main
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.report.build import build_report
from pytest_msdump.core.suite import load_suite

SIZES = [12, LARGE, 40, LARGE, 7, 900] * 4
DRIFTING = (1, 2, 9)


def _missing():
    """Where Dask is asked for, its absence is a failure."""
    if os.environ.get("MSDUMP_DASK"):
        pytest.fail("distributed is missing, and MSDUMP_DASK asks for it")
    pytest.skip("distributed is not installed")


@contextmanager
def two_workers(**options):
    """Two worker processes, which are started again when they end."""
    try:
        import dask
        from distributed import LocalCluster
    except ImportError:
        _missing()
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit=0,
            silence_logs=50,
            **options,
        ) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def address():
    """Where a cluster is whose workers live."""
    with two_workers() as made:
        yield made.scheduler_address


@pytest.fixture
def doomed():
    """A cluster of its own, for workers that will not live."""
    with two_workers() as made:
        yield made


@pytest.fixture
def dumps(tmp_path, monkeypatch):
    """Two dumps in the current folder."""
    write_pairs(tmp_path, SIZES, drifting=DRIFTING)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def befallen(address, plugin, *, is_undone=True):
    """Workers that something has befallen, those of the place of dead ones too; healthy ones afterwards."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.register_plugin(plugin, name="befalls")
        try:
            yield client
        finally:
            if is_undone:
                client.unregister_worker_plugin("befalls")


def compare(*arguments):
    return main(["compare", "left", "right", "--quiet", *arguments])


@pytest.mark.dask
def test_the_report_is_that_of_one_process_to_the_byte(dumps, address):
    file_of(dumps / "left", "op5").write_bytes(b"not an array")
    assert compare("--spread", "all") == 1
    alone = as_written(dumps)
    assert compare("--spread", "all", "--scheduler", address) == 1
    assert as_written(dumps) == alone
    verdicts = {record["left"]["name"]: record["verdict"] for record in results(dumps)["tensors"]}
    assert (verdicts["op0"], verdicts["op1"], verdicts["op5"]) == ("pass", "fail", "error")


@pytest.mark.dask
def test_a_scheduler_file_is_an_address(dumps, address):
    # As `dask scheduler --scheduler-file` writes it.
    entry = {"type": "Scheduler", "id": "Scheduler-1", "address": address, "services": {}, "started": 0, "workers": {}}
    (dumps / "scheduler.json").write_text(json.dumps(entry))
    assert compare("--scheduler", "scheduler.json") == 1
    assert results(dumps)["complete"] is True


@pytest.mark.dask
def test_a_worker_killed_in_the_middle_loses_nothing(dumps, doomed):
    compare()
    alone = as_written(dumps)
    log = dumps / "log"
    killed = []

    class Watch:
        """Once the first record has come, kills the process that begins a pair next, in the midst of it."""

        def __call__(self, items, *_told):
            for item in items:
                if not killed:
                    before = after = log.read_text().split()
                    while len(after) == len(before):
                        time.sleep(0.005)
                        after = log.read_text().split()
                    killed.append(int(after[-1]))
                    os.kill(killed[0], signal.SIGKILL)
                yield item

    from pytest_msdump.core.scheduling import records_of

    address = doomed.scheduler_address
    with befallen(address, clusters.slow(log, 0.3)):
        planned = plan(load_suite(file=None, options={"left": "left", "right": "right"}, directory=dumps))
        records, notes = records_of(planned, Watch(), scheduler=address)
    begun = log.read_text().split()
    assert len(begun) > len(SIZES), "what the dead worker had begun was begun again"
    assert str(killed[0]) in begun
    assert notes == ()
    from pytest_msdump.core.report.json_report import write_json

    write_json(build_report(planned, records), dumps / "msdump-report")
    assert as_written(dumps) == alone


@pytest.mark.dask
def test_a_pair_that_ends_every_worker_fails_and_the_others_are_compared(dumps, doomed, capsys):
    compare()
    alone = results(dumps)["tensors"]
    with befallen(doomed.scheduler_address, clusters.deadly("op3")):
        assert compare("--scheduler", doomed.scheduler_address) == 1
    found = results(dumps)["tensors"]
    (deadly,) = [record for record, other in zip(found, alone, strict=True) if record != other]
    assert (deadly["left"]["name"], deadly["verdict"]) == ("op3", "error")
    assert "comparing this pair ended 2 workers one after the other" in deadly["findings"][0]["sentence"]
    assert "op3" in capsys.readouterr().out


@pytest.mark.dask
def test_workers_that_see_another_file_make_that_pair_an_error(dumps, address):
    with befallen(address, clusters.elsewhere()):
        assert compare("--scheduler", address, "--select", "op[0-2]") == 1
    verdicts = {record["left"]["name"]: record for record in results(dumps)["tensors"]}
    assert [verdicts[name]["verdict"] for name in ("op0", "op1", "op2")] == ["pass", "error", "fail"]
    sentence = verdicts["op1"]["findings"][0]["sentence"]
    assert "is another file there, of another size or time" in sentence
    assert "the same storage at the same path" in sentence


@pytest.mark.dask
@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        (lambda: clusters.older(0), "it has pytest-msdump 0.0.9, not "),
        (clusters.bare, "which cannot do this"),
    ],
    ids=["older", "bare"],
)
def test_a_cluster_where_nobody_can_compare_is_refused(dumps, address, capsys, plugin, why):
    with befallen(address, plugin()):
        assert compare("--scheduler", address) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"msdump: --scheduler {address}: none of its workers can compare: tcp://")
    assert why in line
    assert has_not_ended(dumps)


@pytest.mark.dask
def test_a_worker_that_cannot_compare_is_left_out_and_named(dumps, address):
    compare()
    alone = results(dumps)
    with befallen(address, clusters.older(1)):
        assert compare("--scheduler", address) == 1
    found = results(dumps)
    (note,) = found.pop("notes")
    assert "workers that compared nothing: tcp://" in note
    assert "it has pytest-msdump 0.0.9" in note
    assert found == alone


@pytest.mark.dask
def test_what_nobody_is_left_to_compare_is_not_run(dumps, doomed):
    from distributed import Client

    from pytest_msdump.capabilities.cluster.cluster import Cluster

    planned = plan(load_suite(file=None, options={"left": "left", "right": "right"}, directory=dumps))
    address = doomed.scheduler_address
    with befallen(address, clusters.slow(dumps / "log", 0.05)), Client(address, set_as_default=False) as client:
        cluster = Cluster(planned, client, address, patience_seconds=1)
        found = cluster.records(range(len(SIZES)))
        first = dict([next(found)])
        doomed.scale(0)
        first.update(found)
        report = build_report(planned, first)
    assert "no worker was left for 1 s; the rest was not compared" in cluster.notes[0]
    assert not report.complete
    assert 0 < len(first) < len(SIZES)


_CLUSTER = (
    "from distributed import LocalCluster\n"
    "if __name__ == '__main__':\n"
    "    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=':0', memory_limit=0) as made:\n"
    "        print(made.scheduler_address, flush=True)\n"
    "        input()\n"
)


@pytest.fixture
def mortal(tmp_path):
    """The process of a cluster, and its address."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        _missing()
    program = tmp_path / "a_cluster.py"
    program.write_text(_CLUSTER)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, program], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


@pytest.mark.dask
def test_what_was_not_compared_when_the_scheduler_died_is_not_run(dumps, mortal, monkeypatch):
    from pytest_msdump.capabilities.cluster import cluster as module
    from pytest_msdump.capabilities.cluster.cluster import Cluster

    monkeypatch.setattr(module, "_CONNECT_SECONDS", 2)
    compare()
    alone = results(dumps)["tensors"]
    process, address = mortal
    planned = plan(load_suite(file=None, options={"left": "left", "right": "right"}, directory=dumps))
    with befallen(address, clusters.slow(dumps / "log", 0.2), is_undone=False), module.connected(address) as client:
        cluster = Cluster(planned, client, address, patience_seconds=4)
        found = cluster.records(range(len(SIZES)))
        records = dict([next(found)])
        process.kill()
        records.update(found)
        assert client.status == "closed", "the client has given its scheduler up meanwhile"
        report = build_report(planned, records)
    assert cluster.notes == [f"--scheduler {address}: no worker was left for 4 s; the rest was not compared"]
    assert not report.complete
    assert 0 < len(records) < len(SIZES)
    verdicts = [record["verdict"] for record in alone]
    assert [(number, record.verdict.outcome) for number, record in records.items()] == [
        (number, verdicts[number]) for number in records
    ]


@pytest.mark.dask
def test_a_scheduler_that_comes_back_is_given_what_it_did_not_take(dumps, address, monkeypatch):
    from pytest_msdump.capabilities.cluster import cluster as module
    from pytest_msdump.capabilities.cluster.cluster import Cluster

    planned = plan(load_suite(file=None, options={"left": "left", "right": "right"}, directory=dumps))
    with module.connected(address) as client:
        cluster = Cluster(planned, client, address, patience_seconds=20)
        submit, nthreads, back = client.submit, client.nthreads, []

        def refused_once(*arguments, **options):
            if not back:
                back.append(time.monotonic() + 1.5)
                raise RuntimeError("gone")
            return submit(*arguments, **options)

        monkeypatch.setattr(client, "submit", refused_once)
        monkeypatch.setattr(client, "nthreads", lambda: {} if back and time.monotonic() < back[0] else nthreads())
        records = {}
        # Not in this thread: who waits for nothing waits without end.
        thread = threading.Thread(target=lambda: records.update(cluster.records(range(len(SIZES)))), daemon=True)
        thread.start()
        thread.join(15)
        assert sorted(records) == [*range(len(SIZES))]


@pytest.mark.dask
def test_code_of_a_user_does_not_travel(dumps, address, capsys):
    (dumps / "mine" / "algorithm").mkdir(parents=True)
    (dumps / "mine" / "algorithm" / "alg_mine.py").write_text("def compare(left, right, args): return '1', ''\n")
    assert compare("--scheduler", address, "-custom", "mine") == 4
    assert "--scheduler: code of -custom does not run" in capsys.readouterr().err


@pytest.mark.dask
@pytest.mark.usefixtures("dumps", "address")
@pytest.mark.parametrize("named", ["tcp://127.0.0.1:9", "127.0.0.1:9", "wrong://127.0.0.1:9", "tcp://nowhere"])
def test_an_address_where_nobody_answers_is_told_on_a_line(capsys, monkeypatch, named):
    from pytest_msdump.capabilities.cluster import cluster as module

    monkeypatch.setattr(module, "_CONNECT_SECONDS", 0.3)
    assert compare("--scheduler", named) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"msdump: --scheduler {named}: no scheduler answers there (")


_CONNECTING = (
    "import sys\nfrom pytest_msdump.cli import main\nfrom pytest_msdump.capabilities.cluster import cluster\n"
    "cluster._CONNECT_SECONDS = 1\nsys.exit(main(sys.argv[1:]))\n"
)


@pytest.mark.dask
@pytest.mark.usefixtures("address")
def test_what_takes_the_connection_and_is_no_scheduler_is_told_on_a_line(dumps):
    """The port of a dashboard, say: Dask would wait for its greeting without end."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        named = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        words = ("compare", "left", "right", "--quiet", "--scheduler", named)
        done = subprocess.run(
            [sys.executable, "-c", _CONNECTING, *words], cwd=dumps, capture_output=True, text=True, timeout=30
        )
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"msdump: --scheduler {named}: what answers there is not a scheduler")
    assert "is it the dashboard's port?" in line
    assert done.returncode == 4


@pytest.mark.usefixtures("dumps")
def test_without_dask_one_line_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert compare("--scheduler", "tcp://127.0.0.1:8786") == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install 'pytest-msdump[distributed]'" in line


# -- shards on object storage ------------------------------------------------------------------------------------------

TESTS = Path(__file__).parents[1]
SHARDS = """[msdump]
left = "shelf://left"
right = "shelf://right"
[msdump.shards]
left = {{ axes = {{ tp = 2, cp = 2 }} }}
{dims}"""


def write_shards(folder):
    """Four ranks with many tensors each, and the whole ones: a drift, a copy that differs, and a missing rank."""
    random = np.random.default_rng(3)
    for number in range(6):
        hidden = random.standard_normal((2, 8, 4 * LARGE // 64)).astype(np.float32)
        norm = random.standard_normal(30).astype(np.float32)
        parts = random.standard_normal((2, 40)).astype(np.float32)
        whole = {"hidden": hidden * np.float32(1.1 if number == 1 else 1), "norm": norm, "out": parts.sum(0)}
        for name, values in whole.items():
            save(folder / f"right/{name}{number}.npy", values)
        for rank in range(4):
            tp, cp = rank % 2, rank // 2
            chunks = np.split(hidden, 4, 1)
            mine = {
                "hidden": np.split(np.concatenate([chunks[cp], chunks[3 - cp]], 1), 2, 2)[tp],
                "norm": norm + np.float32(rank == 3 and number == 2),
                "out": np.split(parts[tp], 2)[cp],
            }
            for name, values in mine.items():
                if (rank, name, number) != (2, "out", 4):
                    save(folder / f"left/rank_{rank}/{name}{number}.npy", values)
    dims = {"hidden*": "b s[cp:zigzag] h[tp]", "norm*": "h # tp:replicated cp:replicated", "out*": "h[tp:partial,cp]"}
    entries = "".join(f'[[msdump.dims]]\nmatch = "{match}"\ndims = "{text}"\n' for match, text in dims.items())
    (folder / "shards.toml").write_text(SHARDS.format(dims=entries), "utf-8")


def save(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)


@pytest.mark.dask
def test_shards_on_object_storage_are_put_together_by_workers(tmp_path, monkeypatch):
    """The report is that of one process; the shards of a tensor are read by one worker, and by nothing else."""
    write_shards(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(SHELF, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS.parent)]))
    words = ["compare", "--config", "shards.toml", "--quiet", "--cache=off"]
    assert main(words) == 1
    alone = as_written(tmp_path)
    codes = {
        record["left"]["name"]: [one["code"] for one in record["findings"]] for record in results(tmp_path)["tensors"]
    }
    assert {name: found for name, found in codes.items() if found} == {
        "hidden1": codes["hidden1"],
        "norm2": ["replica"],
        "out4": ["incomplete"],
    }
    log = tmp_path / "log"
    with two_workers(preload="storage.shelf") as made, befallen(made.scheduler_address, clusters.reads(log)):
        assert main([*words, "--scheduler", made.scheduler_address]) == 1
    assert as_written(tmp_path) == alone
    readers = defaultdict(set)
    for line in log.read_text().splitlines():
        process, name = line.split()
        readers[name.removesuffix(".npy")].add(process)
    assert {name for name in readers if name.startswith("hidden")} == {f"hidden{number}" for number in range(6)}
    assert {len(found) for found in readers.values()} == {1}
    assert os.getpid() not in {int(one) for found in readers.values() for one in found}
    assert len(set.union(*readers.values())) == 2


@pytest.mark.dask
def test_an_object_that_has_changed_since_it_was_listed_is_an_error_of_its_pair(tmp_path, monkeypatch):
    write_shards(tmp_path)
    monkeypatch.setenv(SHELF, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS.parent)]))
    planned = plan(load_suite(file=Path("shards.toml"), options={}, directory=tmp_path))
    with two_workers(preload="storage.shelf") as made:
        from distributed import Client

        from pytest_msdump.capabilities.cluster.cluster import Cluster

        with Client(made.scheduler_address, set_as_default=False) as client:
            cluster = Cluster(planned, client, made.scheduler_address)
            # Listed first, then written anew: of the same size, but the drift is gone.
            save(tmp_path / "right/hidden1.npy", np.load(tmp_path / "right/hidden1.npy") / np.float32(1.1))
            records = dict(cluster.records(range(len(planned.pairing.pairs))))
    verdicts = {record.left.key.op.name: record.verdict for record in records.values()}
    assert verdicts["hidden1"].outcome == "error"
    assert "changed" in verdicts["hidden1"].findings[0].sentence
    assert [name for name, one in verdicts.items() if one.outcome == "error"] == ["hidden1", "out4"]
