"""joblib's parallel calls, and scikit-learn's, on real workers: as alone, and sent once, nested, failing, canceled."""

from __future__ import annotations

import multiprocessing
import os
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy
import pytest
from joblib import delayed

import scaler.joblib
from scaler import Client
from scaler.utility.exceptions import RemoteError
from tests.support.clusters import RealCluster
from tests.support.processes import Stage, until
from tests.support.tasks import wait_for_file


@pytest.fixture(scope="module")
def client(module_stage: Stage) -> Iterator[Client]:
    cluster = RealCluster(module_stage, 2)
    with Client(cluster.address) as client:
        yield client


@pytest.fixture(autouse=True)
def on_the_cluster(client: Client) -> Iterator[None]:
    with joblib.parallel_config(backend="scaler", client=client):
        yield


def parallel(calls: Any, n_jobs: int = -1, **options: Any) -> Any:
    return joblib.Parallel(n_jobs=n_jobs, **options)(calls)


def squares_below(end: int, n_jobs: int) -> int:
    return sum(parallel((delayed(pow)(number, 2) for number in range(end)), n_jobs))


def divided(number: int) -> float:
    return 1 / number


def noted(folder: str, number: int) -> None:
    Path(folder, str(number)).touch()
    if number == 1:
        raise RuntimeError("the first fails")
    wait_for_file(f"{folder}/never")  # until it is canceled


def initialize(folder: str, names: list[str]) -> None:
    """Fails if it is called twice in one process."""
    (name,) = names
    os.environ["TEST_JOBLIB"] = name
    Path(folder, f"{name} {os.getpid()}").touch(exist_ok=False)


def interrupted() -> None:
    raise KeyboardInterrupt


def test_calls_of_ones_own(client: Client) -> None:
    assert client.cluster_info().worker_count == 2
    assert parallel(delayed(pow)(number, 2) for number in range(500)) == [number**2 for number in range(500)]
    assert parallel([]) == []
    assert list(parallel((delayed(abs)(-n) for n in range(20)), 2, return_as="generator")) == list(range(20))
    found = parallel((delayed(abs)(-n) for n in range(20)), 2, return_as="generator_unordered")
    assert sorted(found) == list(range(20))
    with pytest.raises(ValueError, match="n_jobs == 0"):
        parallel([delayed(abs)(1)], 0)


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_nested_calls_lend_their_places(n_jobs: int) -> None:
    """Twelve parents wait on two workers."""
    expected = [sum(number**2 for number in range(end)) for end in range(12)]
    assert parallel((delayed(squares_below)(end, n_jobs) for end in range(12)), 12) == expected


def test_a_failure_is_raised_and_the_others_are_canceled(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        parallel(delayed(divided)(number) for number in (3, 2, 1, 0))
    with pytest.raises(RuntimeError, match="the first fails"):
        parallel((delayed(noted)(str(tmp_path), number) for number in range(2)), 2, batch_size=1)
    until(lambda: client.cluster_info().task_counts["dispatched"] == 0, "the other task is canceled")


def test_an_initializer_runs_once_in_each_process(client: Client, tmp_path: Path) -> None:
    """Before the first call there. A later Parallel with an equal one finds the processes initialized."""
    for _ in range(2):
        calls = [delayed(os.getenv)("TEST_JOBLIB") for _ in range(40)]
        found = parallel(calls, 2, initializer=initialize, initargs=(str(tmp_path), ["first"]))
        assert set(found) == {"first"}
    assert 1 <= len(list(tmp_path.iterdir())) <= 2
    started = {"initializer": initialize, "initargs": (str(tmp_path), ["second"])}
    with joblib.parallel_config("scaler", client=client, **started):
        assert set(parallel([delayed(os.getenv)("TEST_JOBLIB") for _ in range(40)], 2)) == {"second"}


def test_an_interrupt_of_a_call_is_one_here_as_with_other_backends() -> None:
    with pytest.raises(KeyboardInterrupt):
        parallel([delayed(interrupted)()], 2)
    with pytest.raises(RemoteError, match="SystemExit"):
        parallel([delayed(sys.exit)(3)], 2)


def test_batches_begin_small_in_each_with_block() -> None:
    """How long a call of the one before took says nothing about those of the next."""
    with joblib.Parallel(2) as calls:
        calls(delayed(abs)(-n) for n in range(2_000))
        sizes = calls._backend._effective_batch_size
    assert sizes > 1
    assert calls._backend._effective_batch_size == 1


def test_a_large_array_is_sent_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    send_object = Client.send_object

    def noted_send(self: Client, value: Any, name: Any = None) -> Any:
        sent.append(value.nbytes)
        return send_object(self, value, name)

    monkeypatch.setattr(Client, "send_object", noted_send)
    one, other, small = numpy.ones(200_000), numpy.ones(300_000), numpy.ones(10)
    calls = [delayed(numpy.dot)(array, b=array) for array in (one, other, small) for _ in range(10)]
    assert parallel(calls) == [200_000] * 10 + [300_000] * 10 + [10] * 10
    assert sent == [1_600_000, 2_400_000]
    assert parallel([delayed(len)(one)]) == [200_000]
    assert sent == [1_600_000, 2_400_000, 1_600_000], "the next call sends anew: the array may have changed"
    until(lambda: client.cluster_info().object_bytes < 1_000_000, "what was sent is released")


def test_scikit_learn_finds_what_it_finds_alone() -> None:
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import GridSearchCV, cross_val_score

    features, labels = make_classification(300, random_state=0)

    def found(n_jobs: int) -> tuple[Any, list[float], float]:
        forest = RandomForestClassifier(10, random_state=0, n_jobs=n_jobs)
        search = GridSearchCV(forest, {"max_depth": [2, 4]}, n_jobs=n_jobs, cv=3).fit(features, labels)
        scores = cross_val_score(forest, features, labels, n_jobs=n_jobs)
        return search.best_params_, list(scores), forest.fit(features, labels).score(features, labels)

    with joblib.parallel_config(backend="sequential"):
        alone = found(1)
    assert found(2) == alone


def test_what_the_backend_is_given(client: Client) -> None:
    with (
        pytest.raises(ValueError, match="not both"),
        joblib.parallel_config("scaler", client=client, address="tcp://x:1"),
    ):
        pass
    with pytest.raises(TypeError, match=r"must be a scaler\.Client"), joblib.parallel_config("scaler", client=3):
        pass
    with (
        joblib.parallel_config("scaler", client=client, capabilities={"absent": 1}),
        pytest.raises(multiprocessing.TimeoutError),
    ):
        parallel([delayed(abs)(1)], 2, timeout=0.2)


def test_without_a_client_it_starts_a_cluster_of_its_own(stage: Stage) -> None:
    program = """
import joblib, scaler.joblib
with joblib.parallel_config(backend="scaler"):
    print(sum(joblib.Parallel(n_jobs=-1)(joblib.delayed(abs)(-n) for n in range(10))))
    print(sum(joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(-n) for n in range(10))))
"""
    ended = stage.start_program(program)
    assert ended.wait() == 0 and ended.lines == ["45", "45"], ended.text
    assert "Traceback" not in ended.text


class Alive:
    """Counts the items of a lazily fed call that are alive."""

    def __init__(self, size: int) -> None:
        self._items: list[weakref.ref[Any]] = []
        self._size = size
        self.most = 0

    def arrays(self, count: int) -> Iterator[Any]:
        for number in range(count):
            self.most = max(self.most, sum(one() is not None for one in self._items))
            item = numpy.full(self._size, number)
            self._items.append(weakref.ref(item))
            yield item
            del item


@pytest.mark.parametrize("return_as", ("generator", "list"))
def test_large_arguments_are_alive_as_long_as_their_calls(client: Client, return_as: str) -> None:
    """Checks that large arguments are released. Formerly one Parallel kept every large argument that it had seen, here
    and in the storage."""
    alive = Alive(200_000)  # of 1.6 MB
    calls = (delayed(first_of)(array) for array in alive.arrays(24))
    found = list(joblib.Parallel(n_jobs=2, return_as=return_as)(calls))
    assert found == list(range(24))
    assert alive.most <= 12, "a window of joblib's, and what is under way"


def first_of(array: Any) -> int:
    return int(array[0])


def test_bytes_are_sent_once_and_few_are_kept(client: Client) -> None:
    backend = scaler.joblib.ScalerBackend(client)
    value = bytes(scaler.joblib.SHARED_BYTES)
    assert backend._shared.reference(value, client) is backend._shared.reference(value, client)
    for number in range(2 * scaler.joblib.KEPT_ARGUMENTS):
        backend._shared.reference(bytes([number]) * scaler.joblib.SHARED_BYTES, client)
    assert len(backend._shared._kept) == len(backend._shared._known) == scaler.joblib.KEPT_ARGUMENTS


def test_a_cluster_of_its_own_that_has_died_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call after its death waited for a minute, and failed."""
    made: list[Any] = []

    class Cluster:
        _has_died = False

    class Local:
        def __init__(self) -> None:
            self.cluster = Cluster()
            self.is_closed = False
            made.append(self)

        def disconnect(self) -> None:
            self.is_closed = True

    monkeypatch.setattr(scaler.joblib, "local", Local)
    monkeypatch.setattr(scaler.joblib, "_local_client", [])
    first = scaler.joblib._shared_local_client()
    assert scaler.joblib._shared_local_client() is first
    made[0].cluster._has_died = True
    assert scaler.joblib._shared_local_client() is made[1] and made[0].is_closed
    assert scaler.joblib._shared_local_client() is made[1]
