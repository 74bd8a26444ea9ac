"""What a client shows of itself and of the tasks it waits for."""

from __future__ import annotations

import concurrent.futures
import io
import sys
import threading
from dataclasses import replace

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_publisher import FakePublisher
from tests.support.waiting import WAIT, eventually

from scaler import Client, progress
from scaler.client.glimpse import Glimpse
from scaler.client.info import ClusterInfo
from scaler.monitoring import MonitorError
from scaler_protocol.ids import new_peer_id, shown_task
from scaler_protocol.keys import KeyOptions
from scaler_protocol.messages import ClusterStatus, WorkerEntry


def divided(value: int) -> float:
    return 1 / value


def test_a_bar_for_futures_tells_how_they_ended(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    futures = [client.submit(divided, value) for value in range(3)]
    futures[2].cancel()
    cluster.release()
    shown = io.StringIO()
    assert progress(futures, "divisions", file=shown) == futures
    last = shown.getvalue().rstrip().split("\r")[-1]
    assert "divisions: 100%" in last and "3/3" in last and "1 failed" in last and "1 canceled" in last
    assert futures[1].result(WAIT) == 1.0 and futures[0].has_failed() and not futures[1].has_failed()
    assert isinstance(futures[0].exception(WAIT), ZeroDivisionError) and futures[0].has_failed()


class Interrupted(io.StringIO):
    """Ctrl-C hits while this is flushed for the so-manieth time."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def flush(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", [1, 2])
def test_a_bar_that_was_interrupted_takes_no_line_of_later_ones(at: int) -> None:
    done: concurrent.futures.Future[int] = concurrent.futures.Future()
    done.set_result(1)
    errors = []  # as a notebook keeps the last one, with the frames of its traceback
    try:
        progress([done], file=Interrupted(at))
    except KeyboardInterrupt as error:
        errors.append(error)
    shown = io.StringIO()
    progress([done], file=shown)
    assert errors, "the first drawing and the last are flushed"
    assert "\x1b[A" not in shown.getvalue() and "1/1" in shown.getvalue()


def test_a_bar_for_futures_of_others_and_for_none() -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        future = executor.submit(divided, 0)
        shown = io.StringIO()
        assert progress([future, future], file=shown) == [future, future]
        assert "1/1" in shown.getvalue() and "1 failed" in shown.getvalue()
    assert progress([], file=io.StringIO()) == []


def test_a_bar_for_a_map(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.map(abs, range(-50, 0), progress="sizes") == list(range(50, 0, -1))
    assert "sizes: 100%" in (told := capsys.readouterr().err) and "50/50" in told
    assert client.map(pow, [2, 3], iter([2, 2]), progress=True) == [4, 9]
    assert "map: 2task" in capsys.readouterr().err, "how many there are is not known beforehand"
    assert client.starmap(pow, [(2, 2)], progress=True) == [4]
    assert "1/1" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        client.map(divided, [0], progress=True)
    assert client.map(abs, [], progress=True) == [] and client.map(abs, [-1]) == [1]


def test_without_the_library_it_says_what_to_install(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ModuleNotFoundError, match=r"scaler-client\[progress\]"):
        client.map(abs, [-1], progress=True)
    with pytest.raises(ModuleNotFoundError, match=r"scaler-client\[progress\]"):
        progress([])


def test_a_client_says_where_it_stands(cluster: FakeCluster) -> None:
    client = Client(cluster.address, timeout_seconds=10)
    assert repr(client) == f"<Client of {cluster.address}, connected, 0 unfinished tasks>"
    cluster.hold()
    future = client.submit(abs, -1)
    eventually(lambda: "1 unfinished task>" in repr(client), "the task is counted")
    cluster.release()
    assert future.result(WAIT) == 1
    assert cluster.address in client._repr_html_()
    client.disconnect()
    assert repr(client) == f"<Client of {cluster.address}, disconnected>"
    assert "disconnected" in client._repr_html_()


def test_to_say_so_never_waits(client: Client) -> None:
    """Also while another thread leads the connection, or connects."""
    connection = client._calls.connection  # type: ignore[union-attr]
    said: list[str] = []
    with connection.lock, client._lock:
        thread = threading.Thread(target=lambda: said.append(repr(client) + client._repr_html_()))
        thread.start()
        thread.join(WAIT)
    assert said


def test_figures_are_asked_for_in_the_background(publisher: FakePublisher) -> None:
    glimpse, keys = Glimpse(), KeyOptions()
    assert glimpse.look(publisher.address, keys) is None
    publisher.repeat = ClusterStatus(workers=(WorkerEntry(new_peer_id()),))
    eventually(lambda: glimpse.look(publisher.address, keys) is not None, "the figures have come")
    info = glimpse.look(publisher.address, keys)
    assert info is not None and info._figures["Workers"].startswith("1 on 1 host")


def test_to_show_a_client_waits_for_no_figures(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    answered, asked = threading.Event(), []

    def answer(address: str, *_: object) -> ClusterInfo:
        asked.append(address)
        assert answered.wait(WAIT)
        return INFO

    monkeypatch.setattr("scaler.client.info.cluster_info", answer)
    shown = [client._repr_html_() for _ in range(20)]
    assert all("not known yet" in one for one in shown)
    answered.set()
    eventually(lambda: "<td>3 on 2 hosts</td>" in client._repr_html_(), "the answer is shown")
    assert len(asked) == 1, "figures that have just come are not asked for again"


def test_figures_that_cannot_be_had_are_no_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> ClusterInfo:
        raise MonitorError("not with this ticket")

    monkeypatch.setattr("scaler.client.info.cluster_info", refuse)
    client._repr_html_()
    assert client._glimpse is not None
    client._glimpse._info = INFO
    client._glimpse._ask(client._address, KeyOptions())
    assert "not known yet" in client._repr_html_()


def test_one_that_arrived_in_a_task_is_not_connected_for_it(client: Client) -> None:
    copy = Client.__new__(Client)
    copy.__setstate__(client.__getstate__())
    assert "not connected yet" in repr(copy) and copy.dashboard_link is None
    copy._address = "tcp://<b>:1"
    assert "<code>tcp://&lt;b&gt;:1</code>" in copy._repr_html_()


def test_a_future_tells_name_short_id_and_state(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    kept, broken, dropped = client.submit(divided, 2), client.submit(divided, 0), client.submit(divided, 1)
    source = kept.task_id.hex()[:8]
    assert repr(kept) == f"<ScalerFuture {source}:0 of divided: has not ended>"
    dropped.cancel()
    cluster.release()
    concurrent.futures.wait([kept, broken], WAIT)
    assert repr(kept) == f"<ScalerFuture {source}:0 of divided: done, its result is not read yet>"
    assert repr(broken) == f"<ScalerFuture {source}:1 of divided: failed>"
    assert repr(dropped) == f"<ScalerFuture {source}:2 of divided: canceled>"
    assert (kept.result(WAIT), repr(kept)[-16:]) == (0.5, " returned float>")
    assert isinstance(broken.exception(WAIT), ZeroDivisionError)
    assert repr(broken).endswith(": failed with ZeroDivisionError>")
    whole = client.get({"a": 1}, ["a"], block=False)["a"]
    assert repr(whole) == "<ScalerFuture: returned int>"


def refuse(text: str) -> None:
    raise ValueError(text)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not to be printed")


def test_a_future_is_a_table_in_a_notebook(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    kept, broken, long = client.submit(abs, -1), client.submit(refuse, "<b>no</b>"), client.submit(refuse, "x" * 5000)
    assert "<td>abs</td>" in kept._repr_html_() and "<td>has not ended</td>" in kept._repr_html_()
    assert f"<td>{shown_task(kept.task_id)}</td>" in kept._repr_html_()
    cluster.release()
    concurrent.futures.wait([kept, broken, long], WAIT)
    assert "<td>done, its result is not read yet</td>" in kept._repr_html_() and "Error" not in kept._repr_html_()
    told = "<tr><th>Error</th><td>ValueError: &lt;b&gt;no&lt;/b&gt;</td></tr>"
    assert told in broken._repr_html_() and "<td>failed</td>" in broken._repr_html_()
    assert isinstance(broken.exception(WAIT), ValueError)
    assert told in broken._repr_html_(), "after it was read, too"
    assert len(long._repr_html_()) < 1500
    whole = client.get({"a": 1}, ["a"], block=False)["a"]
    told = "<tr><th>State</th><td>returned int</td></tr><tr><th>Value</th><td>1</td></tr>"
    assert whole._repr_html_() == f"<b>Future</b><table>{told}</table>"
    for value, shown in (("<b>", "&#x27;&lt;b&gt;&#x27;"), (None, "None"), (0.5, "0.5"), (b"x", "b&#x27;x&#x27;")):
        whole._result = value
        assert f"<td>{shown}</td>" in whole._repr_html_()
    for value in ("x" * 201, 10**5000, [1], Unprintable()):
        whole._result = value
        assert "Value" not in whole._repr_html_()
    broken._exception = Unprintable()
    assert "<td>Unprintable</td>" in broken._repr_html_()


INFO = ClusterInfo("tcp://<b>:1", "1.0", 3, 2, {"gpu": 1, "<i>": 3}, {"queued": 4_000}, 3 << 20, 5, 1 << 30)


def test_figures_of_a_cluster_are_a_table_in_a_notebook() -> None:
    info = INFO
    table = info._repr_html_()
    assert "<td>3 on 2 hosts</td>" in table and "<td>4,000 queued</td>" in table
    assert "<td>gpu (1), &lt;i&gt; (3)</td>" in table and "tcp://&lt;b&gt;:1" in table
    assert "<td>3.0MiB</td>" in table and "<td>5 of 1.0GiB</td>" in table
    assert "<td>1 on 1 host</td>" in replace(info, worker_count=1, host_count=1)._repr_html_()
