"""A cluster with a key, of real processes: which programs are let in, and where secrets never are."""

from __future__ import annotations

import base64
import os
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from scaler import Client, ObjectReference, SchedulerClusterCombo
from scaler.monitoring import Recorder, Subscription
from scaler.utility.exceptions import RejectedError
from scaler_protocol import codes
from scaler_protocol.keys import KeyFileError, KeyOptions, Keyring, NoKeyFound
from scaler_protocol.keys.derivation import CURVE_LABEL, GRANT_LABEL, TICKET_LABEL, derived
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.texts import key_text, ticket_text
from tests.support.processes import WAIT, Command, Stage, until

USER = "user-of-secrets"
KEY, OTHER = bytes(range(100, 132)), bytes(range(200, 232))


def write(path: Path, text: str) -> str:
    replace_file(str(path), text.encode())
    return str(path)


class Keyed:
    """Storage, scheduler and workers that are given files: the servers the key, the workers a ticket."""

    def __init__(self, stage: Stage, *workers: str, scheduler: Sequence[str] = (), storage: Sequence[str] = ()) -> None:
        self.stage = stage
        self.folder = stage.directory
        port = stage.ports()
        self.address, self.storage_address = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
        self.key = write(self.folder / "cluster.key", key_text([KEY]))
        self.worker_key = self.ticket("worker.key", codes.ROLE_WORKER)
        self.storage = stage.start("scaler_storage", self.storage_address, "--key-file", self.key, *storage)
        self.scheduler = stage.start(
            "scaler_scheduler",
            self.address,
            "-osa",
            self.storage_address,
            "--key-file",
            self.key,
            "--heartbeat-seconds=0.2",
            *scheduler,
        )
        self.workers = stage.start(*(workers or ("scaler_worker",)), self.address, *self.of_workers(bool(workers)))

    def of_workers(self, is_manager: bool) -> list[str]:
        if is_manager:
            return ["--key-file", self.key, "--max-task-concurrency=1"]
        return ["-n", "1", "--key-file", self.worker_key, "--code-directory", str(self.folder / "places")]

    def ticket(
        self, name: str, *roles: int, user: str = "ana", expires: float = 0.0, keys: Sequence[bytes] = (KEY,)
    ) -> str:
        return write(self.folder / name, ticket_text(Keyring(keys).derive(user, frozenset(roles), expires=expires)))

    def client(self, key_file: str | None = None, **others: object) -> Client:
        return Client(self.address, key_file=key_file or self.key, timeout_seconds=20, **others)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def keyed(module_stage: Stage) -> Keyed:
    return Keyed(module_stage)


# ------------------------------------------------------------ programs that are let in


def test_the_key_opens_everything(keyed: Keyed, way: None) -> None:
    with keyed.client() as client:
        assert client.map(abs, range(-20, 0)) == list(range(20, 0, -1))
        large = os.urandom(3_000_000)
        assert client.submit(len, large).result() == len(large)
        assert client.submit(bytes.upper, b"a" * 3_000_000).result() == b"A" * 3_000_000


def test_a_clients_ticket_opens_what_clients_need(keyed: Keyed, way: None) -> None:
    with keyed.client(keyed.ticket("client.key", codes.ROLE_CLIENT)) as client:
        assert client.submit(sum, [1, 2, 3]).result() == 6
        assert client.submit(len, os.urandom(3_000_000)).result() == 3_000_000


def test_modules_of_two_users_stay_apart(keyed: Keyed, way: None, tmp_path: Path) -> None:
    """Each with a ticket, on a worker with a ticket: the code of a client is its own. (WRK-50)"""

    def which() -> str:
        import module_of_a_user  # type: ignore[import-not-found]

        return str(module_of_a_user.OWNER)

    for user in ("ana", "ben"):
        (tmp_path / user).mkdir()
        (tmp_path / user / "module_of_a_user.py").write_text(f"OWNER = {user!r}\n")
        key_file = keyed.ticket(f"{user}.key", codes.ROLE_CLIENT, user=user)
        with keyed.client(key_file, code=tmp_path / user / "module_of_a_user.py") as client:
            assert client.submit(which).result() == user
    key_file = keyed.ticket("cal.key", codes.ROLE_CLIENT, user="cal")
    with keyed.client(key_file) as client, pytest.raises(ModuleNotFoundError):
        client.submit(which).result()


def _children(count: int) -> int:
    with Client() as client:
        return sum(client.map(abs, range(-count, 0)))


def test_tasks_submit_tasks_with_the_ticket_of_their_worker(keyed: Keyed, way: None) -> None:
    with keyed.client() as client:
        assert client.submit(_children, 4).result() == 10


@pytest.mark.parametrize(
    ("ticket", "said"),
    [
        ({"roles": (codes.ROLE_MONITOR,)}, "for monitor, and not for client"),
        ({"roles": (codes.ROLE_WORKER,)}, "client"),
        ({"roles": (codes.ROLE_CLIENT,), "expires": 5.0}, "expired"),
    ],
)
def test_who_is_refused_is_told_why(keyed: Keyed, way: None, ticket: dict[str, object], said: str) -> None:
    path = keyed.ticket("refused.key", *ticket["roles"], expires=ticket.get("expires", 0.0))  # type: ignore[misc, arg-type]
    with pytest.raises(RejectedError, match=said) as caught:
        keyed.client(path)
    assert path in str(caught.value)


def test_the_key_of_another_cluster_is_told_as_that(keyed: Keyed, way: None) -> None:
    path = write(keyed.folder / "other.key", key_text([OTHER]))
    begun = time.monotonic()
    with pytest.raises(RejectedError, match="not this cluster's") as caught:
        keyed.client(path)
    assert path in str(caught.value)
    assert time.monotonic() - begun < 15, "a wrong key is no server that is down"


def test_without_a_key_nobody_is_let_in(keyed: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_NO_LANE", "1")
    with pytest.raises(RejectedError, match="key"):
        Client(keyed.address, insecure=True, timeout_seconds=20)


def test_health_and_wrong_workers_say_what_is_wrong(keyed: Keyed) -> None:
    stage = keyed.stage
    monitor = keyed.ticket("monitor.key", codes.ROLE_MONITOR)
    assert stage.start("scaler_protocol.health", keyed.address, "--key-file", monitor).wait() == 0
    other = write(keyed.folder / "other.key", key_text([OTHER]))
    health = stage.start("scaler_protocol.health", keyed.address, "--key-file", other)
    assert health.wait() == 1
    assert "not this cluster's" in health.text
    worker = stage.start("scaler_worker", keyed.address, "-n", "1", "--key-file", other)
    assert worker.wait() == 1
    assert "not this cluster's" in worker.text
    storage = stage.start("scaler_storage", "tcp://127.0.0.1:1", "--key-file", monitor)
    assert storage.wait() == 1
    assert "holds a ticket" in storage.text


def test_a_manager_hands_its_units_a_ticket(stage: Stage) -> None:
    cluster = Keyed(stage, "scaler_worker.manager", "baremetal_native")
    with cluster.client() as client:
        assert client.submit(_children, 2).result() == 3
        seen = client.submit(_what_a_task_sees).result()
    assert any(one.startswith("--key-file=fd:") for one in seen)
    assert not [one for one in seen if cluster.key in one]
    assert_no_secret_is_shown(stage, [KEY])


def _what_a_task_sees() -> list[str]:
    """The environment and the arguments of its own process and of all above it, up to its worker manager."""
    found: list[str] = []
    process: psutil.Process | None = psutil.Process()
    while process is not None and "scaler_worker" in process.cmdline():
        found += [f"{name}={value}" for name, value in process.environ().items()]
        found += process.cmdline()
        process = process.parent()
    return found


# ------------------------------------------------------------ secrets


def secrets_of(key: bytes) -> list[bytes]:
    return [key, *(derived(key, label) for label in (CURVE_LABEL, TICKET_LABEL, GRANT_LABEL))]


def encodings(secret: bytes) -> list[bytes]:
    encoded = base64.b64encode(secret).rstrip(b"=")
    return [
        secret,
        secret.hex().encode(),
        secret.hex().upper().encode(),
        encoded,
        base64.urlsafe_b64encode(secret).rstrip(b"="),
        repr(secret).encode(),
    ]


def assert_no_secret_is_shown(
    stage: Stage, keys: list[bytes], secrets: Sequence[bytes] = (), texts: Sequence[bytes] = ()
) -> None:
    """Not in the arguments or the environment of any process, nor in what a command has printed, nor in `texts`."""
    texts = [*texts, *(command.text.encode() for command in stage._commands)]
    for process in stage.processes():
        with open(f"/proc/{process.pid}/cmdline", "rb") as arguments, open(f"/proc/{process.pid}/environ", "rb") as env:
            texts += [arguments.read(), env.read()]
    assert len(texts) > 3
    for secret in (*secrets, *(secret for key in keys for secret in secrets_of(key))):
        for encoded in encodings(secret):
            assert not [text for text in texts if encoded in text]


def test_no_secret_is_in_arguments_environments_or_logs(keyed: Keyed) -> None:
    with keyed.client() as client:
        client.submit(abs, -1).result()
        assert_no_secret_is_shown(keyed.stage, [KEY])


def test_no_secret_is_in_what_a_watcher_is_told(keyed: Keyed, tmp_path: Path) -> None:
    """In dumps, recordings, the monitor's messages and the page: not the key, and nothing by which a watcher could act
    as the client. What is looked for is what the client really has."""
    pytest.importorskip("aiohttp", reason="the page needs its extra")
    recording, port = tmp_path / "run.rec", keyed.stage.ports()
    given = (keyed.address, "--key-file", keyed.ticket("watcher.key", codes.ROLE_MONITOR))
    page = keyed.stage.start("scaler.ui", *given, "--port", str(port), "--token", "of-the-page")
    page.wait_for("is shown at")
    recorder = Recorder(recording)
    watched = Subscription(keyed.address, recorder=recorder, keys=KeyOptions(given[-1]))
    with keyed.client(keyed.ticket("watched.key", codes.ROLE_CLIENT, user=USER)) as client, watched as subscription:
        held = client.submit_verbose(len, (b"held",), {}, capabilities={"nowhere": -1})
        assert client.submit(len, os.urandom(3_000_000)).result() == 3_000_000
        dump = keyed.stage.start("scaler.dump", keyed.address, "-", *given[1:])
        assert dump.wait() == 0 and '"batch"' in dump.text
        connection = client._ready().connection
        owner = connection.storage.present_owner()
        secrets = [connection.peer_id, connection.result_salt, owner.peer_id, owner.grant]
        assert all(len(secret) >= 16 for secret in secrets), "there is something to look for"

        def states() -> list[bytes]:
            subscription.poll(0.1)
            request = urllib.request.Request(f"http://127.0.0.1:{port}/state.json")
            request.add_header("Authorization", "Bearer of-the-page")
            with urllib.request.urlopen(request, timeout=WAIT) as answer:
                return [repr(subscription.state).encode(), answer.read(), recording.read_bytes()]

        until(lambda: all(USER.encode() in text for text in states()), "all three have the client")
        assert_no_secret_is_shown(keyed.stage, [KEY], secrets, states())
        held.cancel()
    recorder.close()
    page.end()


def test_the_text_of_a_key_leaves_the_environment_of_servers_and_tasks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = stage.ports()
    address = f"tcp://127.0.0.1:{port}"
    monkeypatch.setenv("SCALER_KEY", key_text([KEY]))
    stage.start("scaler_scheduler", address)  # starts its storage itself
    monkeypatch.setenv("SCALER_KEY", ticket_text(Keyring([KEY]).derive("ana", frozenset({codes.ROLE_WORKER}))))
    stage.start("scaler_worker", address, "-n", "1")
    monkeypatch.setenv("SCALER_KEY", key_text([KEY]))
    with Client(address, timeout_seconds=20) as client:
        seen = client.submit(_what_a_task_sees).result()
        assert client.submit(len, os.urandom(3_000_000)).result() == 3_000_000
        assert_no_secret_is_shown(stage, [KEY])
    assert not [entry for entry in seen if entry.startswith("SCALER_KEY=") and len(entry) > 11]


# ------------------------------------------------------------ a local cluster


def test_a_local_cluster_with_a_key_of_ones_own(tmp_path: Path, way: None) -> None:
    path = write(tmp_path / "own.key", key_text([KEY]))
    other = write(tmp_path / "other.key", key_text([OTHER]))
    with SchedulerClusterCombo(n_workers=1, key_file=path) as cluster:
        with Client(cluster) as client:
            assert client.submit(_children, 3).result() == 6
        with Client(cluster.get_address(), key_file=path) as client:
            assert client.submit(len, os.urandom(3_000_000)).result() == 3_000_000
        with pytest.raises(RejectedError, match="not this cluster's"):
            Client(cluster.get_address(), key_file=other)


def test_a_cluster_that_is_insecure_says_so_to_those_with_a_key(tmp_path: Path, way: None) -> None:
    path = write(tmp_path / "own.key", key_text([KEY]))
    with SchedulerClusterCombo(n_workers=1, insecure=True) as cluster:
        with Client(cluster.get_address(), insecure=True) as client:
            assert client.submit(_children, 3).result() == 6
        with pytest.raises(RejectedError, match="insecure"):
            Client(cluster.get_address(), key_file=path, timeout_seconds=20)


def test_a_key_and_insecure_exclude_each_other(tmp_path: Path) -> None:
    path = write(tmp_path / "own.key", key_text([KEY]))
    with pytest.raises(KeyFileError, match="exclude each other"):
        Client("tcp://127.0.0.1:1", key_file=path, insecure=True)
    with pytest.raises(KeyFileError, match="exclude each other"):
        SchedulerClusterCombo(n_workers=1, key_file=path, insecure=True)


# ------------------------------------------------------------ rotation


@pytest.fixture
def rotated(stage: Stage) -> Iterator[Keyed]:
    yield Keyed(stage)


def servers_notice(cluster: Keyed, count: int) -> None:
    """At their next heartbeat."""
    for server in (cluster.storage, cluster.scheduler):
        server.wait_for("keys of .* have changed", count)


def test_a_key_is_replaced_while_the_cluster_works(rotated: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_NO_LANE", "1")
    old = write(rotated.folder / "old.key", key_text([KEY]))
    large = os.urandom(1_000_000)
    with rotated.client() as working, rotated.client(old) as left_behind:
        assert working.submit(abs, -1).result() == left_behind.submit(abs, -1).result() == 1
        stored = working.send_object(large)
        write(Path(rotated.key), key_text([OTHER, KEY]))
        servers_notice(rotated, 1)
        rotated.ticket("worker.key", codes.ROLE_WORKER, keys=[OTHER, KEY])
        with rotated.client(old) as during:
            assert during.submit(_reversed, large).result() == large[::-1]
        with rotated.client() as with_both:
            assert with_both.submit(_reversed, large).result() == large[::-1]
        write(Path(rotated.key), key_text([OTHER]))
        servers_notice(rotated, 2)
        with pytest.raises(RejectedError, match="not this cluster's"):
            rotated.client(old)
        with rotated.client() as after:
            assert after.submit(_reversed, large).result(timeout=60) == large[::-1]
        assert working.submit(abs, -4).result(timeout=60) == 4
        assert working.submit(_reversed, stored).result(timeout=60) == large[::-1]


def test_objects_are_stored_and_read_in_each_moment_of_a_rotation(
    rotated: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scheduler and storage read the file at different moments. (STO-34)"""
    monkeypatch.setenv("SCALER_NO_LANE", "1")
    large = os.urandom(1_000_000)
    with rotated.client() as working:
        for count, keys in ((1, [OTHER, KEY]), (2, [OTHER])):
            write(Path(rotated.key), key_text(keys))
            while rotated.storage.text.count("have changed") < count:
                assert working.submit(_reversed, large).result(timeout=60) == large[::-1]
            rotated.scheduler.wait_for("keys of .* have changed", count)
            # As an operator does it: when the servers know the new key. The ticket knows them by both.
            rotated.ticket("worker.key", codes.ROLE_WORKER, keys=[OTHER, KEY])


def test_a_key_that_is_given_as_text_is_replaced_by_restarts(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page on containers tells it: the storage before the scheduler, in both steps."""
    monkeypatch.setenv("SCALER_NO_LANE", "1")
    port, large = stage.ports(), os.urandom(1_000_000)
    address, storage_address = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
    servers = {
        "scaler_storage": (storage_address, "--data-directory", str(tmp_path / "data")),
        "scaler_scheduler": (address, "-osa", storage_address),
    }

    def start(module: str, text: str, *arguments: str) -> Command:
        with monkeypatch.context() as patch:
            patch.setenv("SCALER_KEY", text)
            return stage.start(module, *arguments)

    def ticket(keys: Sequence[bytes]) -> str:
        return ticket_text(Keyring(keys).derive("ana", frozenset({codes.ROLE_WORKER})))

    def client(keys: Sequence[bytes]) -> Client:
        return Client(address, key_file=write(tmp_path / "client.key", key_text(keys)), timeout_seconds=WAIT)

    def restart(keys: Sequence[bytes], user: Client, stored: ObjectReference) -> None:
        for module, arguments in servers.items():
            assert running[module].end() == 0
            running[module] = start(module, key_text(keys), *arguments)
            assert user.submit(_reversed, stored).result(WAIT) == large[::-1]

    running = {module: start(module, key_text([KEY]), *arguments) for module, arguments in servers.items()}
    worker = start("scaler_worker", ticket([KEY]), address, "-n", "1")
    with client([KEY]) as before:
        restart([OTHER, KEY], before, before.send_object(large))
    assert worker.end() == 0
    start("scaler_worker", ticket([OTHER, KEY]), address, "-n", "1")
    with client([OTHER, KEY]) as during:
        restart([OTHER], during, during.send_object(large))
    with client([OTHER]) as after:
        assert after.submit(_reversed, large).result(WAIT) == large[::-1]
    with pytest.raises(RejectedError, match="not this cluster's"):
        client([KEY])


def _reversed(data: bytes) -> bytes:
    return data[::-1]


# ------------------------------------------------------------ pools


def test_a_task_can_ask_for_the_workers_of_a_user(keyed: Keyed, way: None) -> None:
    with keyed.client() as client:
        assert client.submit_verbose(abs, (-1,), {}, capabilities={"user:ana": -1}).result(timeout=30) == 1
        elsewhere = client.submit_verbose(abs, (-2,), {}, capabilities={"user:bob": -1})
        bobs = keyed.ticket("bob.key", codes.ROLE_WORKER, user="bob")
        # What a worker offers itself does not count: this one is ana's all the same.
        options = ("-n", "1", "--worker-names", "pretender", "--per-worker-capabilities", "user:bob")
        pretender = keyed.stage.start("scaler_worker", keyed.address, *options, "--key-file", keyed.worker_key)
        keyed.scheduler.wait_for("pretender")
        worker = keyed.stage.start("scaler_worker", keyed.address, "-n", "1", "--key-file", bobs)
        try:
            assert elsewhere.result(timeout=30) == 2
            assert client.submit_verbose(_worker_name, (), {}, capabilities={"user:bob": -1}).result(timeout=30) == bobs
        finally:
            worker.end()
            pretender.end()


def _worker_name() -> str:
    """The file of the ticket by which the worker of this task has come."""
    arguments = psutil.Process().cmdline()
    return arguments[arguments.index("--key-file") + 1]


# ------------------------------------------------------------ no key yet


@pytest.fixture
def bare(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a scheduler to be, for a user who has never had a key."""
    for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        folder = stage.directory / name
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(name, str(folder))
    return f"tcp://127.0.0.1:{stage.ports()}"


def test_who_configures_nothing_finds_the_key_in_any_order(stage: Stage, bare: str) -> None:
    workers = stage.start("scaler_worker", bare, "-n", "1")
    workers.wait_for("waiting for a key")
    scheduler = stage.start("scaler_scheduler", bare)
    with Client(bare, timeout_seconds=30) as client:
        assert client.submit(_children, 3).result(timeout=60) == 6
    made = stage.directory / "XDG_CONFIG_HOME" / "scaler" / "cluster.key"
    assert made.stat().st_mode & 0o777 == 0o600
    running = stage.directory / "XDG_RUNTIME_DIR" / "scaler"
    assert len(list(running.iterdir())) >= 2, "of scheduler and storage"
    workers.end()
    scheduler.end()
    assert not list(running.iterdir())


def test_a_wait_for_a_key_is_ended_in_order(stage: Stage, bare: str) -> None:
    workers = stage.start("scaler_worker", bare, "-n", "1")
    workers.wait_for("waiting for a key")
    assert workers.end() == 0


def test_a_client_whose_cluster_is_insecure_is_told_at_once(
    stage: Stage, bare: str, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = stage.start("scaler_scheduler", bare, "--insecure")
    scheduler.wait_for("connect to object storage server")
    for server in ("Scheduler", "ObjectStorageServer"):
        scheduler.wait_for(rf"\[WARN\].*: {server}: no keys .*--insecure.*of this machine")
    with pytest.raises(NoKeyFound, match="insecure=True"):
        Client(bare, timeout_seconds=60)
    with caplog.at_level("WARNING", "scaler"), Client(bare, insecure=True, timeout_seconds=20) as client:
        assert client.identity
    assert [bare in record.getMessage() for record in caplog.records if "insecure=True" in record.msg] == [True]


def test_servers_and_standbys_that_are_insecure_warn_of_their_addresses(stage: Stage, bare: str) -> None:
    port = stage.ports()
    anywhere, address, standby = f"tcp://0.0.0.0:{port + 1}", f"tcp://127.0.0.1:{port}", bare
    storage = stage.start("scaler_storage", anywhere, "--insecure")
    storage.wait_for(rf"\[WARN\].*any machine that reaches it, can read and replace all objects through {anywhere}")
    options = ("-osa", f"tcp://127.0.0.1:{port + 1}", "--insecure")
    stage.start("scaler_scheduler", address, *options).wait_for(rf"\[WARN\].*run code on the workers through {address}")
    second = stage.start("scaler_scheduler", standby, *options, "--standby-of", address)
    second.wait_for(rf"\[WARN\].*run code on the workers through {standby}")


def test_servers_with_keys_warn_of_nothing(keyed: Keyed) -> None:
    assert not [line for server in (keyed.scheduler, keyed.storage) for line in server.lines if "--insecure" in line]
