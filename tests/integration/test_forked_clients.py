"""A process that holds a client forks: the child has a client that works, and nothing of its parent's to wait for."""

from __future__ import annotations

from textwrap import dedent

from tests.support.clusters import RealCluster
from tests.support.processes import Stage

PROGRAM = """
    import concurrent.futures, os, sys, time, warnings
    from scaler import Client
    from scaler.utility.exceptions import DisconnectedError

    def in_child(client, pending, ended):
        assert ended.result(1) == 1
        assert client.submit(abs, -2).result({wait}) == 2
        assert client.map(abs, range(-50, 0)) == list(range(50, 0, -1))
        done, _ = concurrent.futures.wait(pending, {wait})
        assert len(done) == len(pending)
        for future in pending:
            error = future.exception(0)
            assert isinstance(error, DisconnectedError) and "forked" in str(error), error
            assert not future.cancel()
        future = client.submit(abs, client.submit(len, b"x" * 100_000))
        assert future.result({wait}) == 100_000
        client.disconnect()

    client = Client("{address}", timeout_seconds={wait})
    ended = client.submit(abs, -1)
    concurrent.futures.wait([ended])
    called = []
    pending = [client.submit(time.sleep, 1) for _ in range(3)]
    pending.append(client.submit(abs, pending[0]))
    pending[0].add_done_callback(lambda future: called.append(os.getpid()))
    warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: that there are threads
    child = os.fork()
    if child == 0:
        try:
            in_child(client, pending[:3], ended)
            assert not called
            print("the child is done", flush=True)
        finally:
            sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [future.result({wait}) for future in pending[:3]] == [None] * 3
    assert client.submit(abs, -3).result({wait}) == 3
    client.disconnect()
    assert called == [os.getpid()]
    print("the parent is done", flush=True)
"""


def test_parent_and_child_go_on(stage: Stage) -> None:
    cluster = RealCluster(stage, 2)
    program = stage.start_program(dedent(PROGRAM).format(address=cluster.address, wait=30))
    assert program.wait() == 0, program.text
    assert program.lines == ["the child is done", "the parent is done"] and not program.error_lines, program.text
    cluster.wait_until_empty()


MAPPING = """
    import os, threading, time, warnings
    from scaler import Client

    client = Client("{address}", timeout_seconds={wait})
    found, maps = [], client._ready().maps
    mapping = threading.Thread(target=lambda: found.extend(client.map(time.sleep, [0.5, 0.5])))
    mapping.start()
    while not maps:
        time.sleep(0.01)
    warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: that there are threads
    child = os.fork()
    client.shutdown(wait=True)
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    mapping.join()
    print(found)
"""


def test_a_child_does_not_wait_for_a_map_of_its_parent(stage: Stage) -> None:
    cluster = RealCluster(stage, 1)
    program = stage.start_program(dedent(MAPPING).format(address=cluster.address, wait=30))
    assert program.wait() == 0 and program.lines == ["[None, None]"], program.text


LOCAL = """
    import os, sys, warnings
    import scaler

    warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: that there are threads
    with scaler.SchedulerClusterCombo(1) as cluster, scaler.Client(cluster) as other, scaler.local(workers=1) as client:
        child = os.fork()
        if child == 0:
            client.disconnect()
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        print(client.submit(abs, -1).result({wait}), other.submit(abs, -2).result({wait}))
"""


def test_a_child_that_leaves_its_blocks_ends_no_cluster_of_its_parent(stage: Stage) -> None:
    program = stage.start_program(dedent(LOCAL).format(wait=30))
    assert program.wait() == 0 and program.lines == ["1 2"], program.text
