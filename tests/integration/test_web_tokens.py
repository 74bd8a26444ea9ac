"""The page and the adapter of a cluster with a key: which requests are answered, and with what."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest

from scaler import Client
from scaler_protocol.codes import ROLE_MONITOR
from scaler_protocol.keys import KeyOptions, Keyring
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.texts import key_text, ticket_text
from scaler_protocol.keys.web import ADAPTER_LABEL, PAGE_LABEL, token_of, web_token
from scaler_protocol.web.guards import cookie_name
from tests.support.processes import WAIT, Command, Stage

pytest.importorskip("aiohttp", reason="the page and the adapter need their extras")

KEY = bytes(range(100, 132))
LINK = re.compile(r"scaler_ui: open (http://127\.0\.0\.1:\d+/)\?token=(\S+)")
PAGE, ADAPTER = token_of(KEY, PAGE_LABEL), token_of(KEY, ADAPTER_LABEL)


@pytest.fixture
def key(stage: Stage) -> str:
    path = str(stage.directory / "cluster.key")
    replace_file(path, key_text([KEY]).encode())
    return path


def status(url: str, token: str = "", body: object = None, cookie: str = "") -> int:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    if cookie:
        request.add_header("Cookie", f"{cookie_name(request.host)}={cookie}")
    try:
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def link_of(page: Command) -> tuple[str, str]:
    page.wait_for(LINK.pattern)
    found = LINK.search(page.text)
    assert found is not None
    return found[1], found[2]


def test_the_page_asks_for_the_token_of_the_key_also_on_this_machine(stage: Stage, key: str) -> None:
    address = f"tcp://127.0.0.1:{stage.ports()}"
    log = stage.directory / "ui.log"
    page = stage.start("scaler.ui", address, "--port", "0", "--key-file", key, "--logging-paths", str(log))
    url, token = link_of(page)
    assert token == PAGE and PAGE not in log.read_text(), "the link is for the operator, and logs are read by others"
    for path in ("state.json", "metrics", "", "explain"):
        assert status(url + path) == 403 == status(url + path, ADAPTER)
        assert status(url + path, PAGE) == 200
    assert status(f"{url}?token={PAGE}") == 403, "urllib follows to / and brings no cookie"
    shown = stage.start("scaler.ui", address, "--key-file", key, "--show-token")
    assert shown.wait() == 0 and shown.lines == [PAGE]


def test_a_watcher_with_a_ticket_has_a_token_of_its_own(stage: Stage, key: str) -> None:
    path = str(Path(key).with_name("monitor.key"))
    replace_file(path, ticket_text(Keyring([KEY]).derive("ana", frozenset({ROLE_MONITOR}))).encode())
    address = f"tcp://127.0.0.1:{stage.ports()}"
    url, token = link_of(stage.start("scaler.ui", address, "--port", "0", "--key-file", path))
    assert token != PAGE and len(token) >= 32
    assert (status(url + "state.json"), status(url + "state.json", token)) == (403, 200)
    refused = stage.start("scaler.ui", address, "--key-file", path, "--show-token")
    assert refused.wait() == 2 and "no cluster's key here" in refused.text


def test_an_adapter_with_the_key_asks_for_its_token(stage: Stage, key: str) -> None:
    port = stage.ports()
    adapter = stage.start(
        "scaler_worker.adapter", f"tcp://127.0.0.1:{stage.ports()}", "--host", "127.0.0.1", "--port", str(port),
        "--key-file", key,
    )  # fmt: skip
    adapter.wait_for("NativeWorkerAdapter: listen to")
    body = {"action": "get_worker_adapter_info"}
    found = [status(f"http://127.0.0.1:{port}/", token, body) for token in ("", PAGE, ADAPTER)]
    assert found == [401, 401, 200]


def test_an_adapter_that_is_started_before_the_key_is_made_asks_for_its_token(
    stage: Stage, no_key: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, address = stage.ports(), f"tcp://127.0.0.1:{stage.ports()}"
    url = f"http://127.0.0.1:{port}"
    adapter = stage.start("scaler_worker.adapter", address, "--host", "127.0.0.1", "--port", str(port))
    adapter.wait_for("waiting for a key")
    manager = stage.start("scaler_worker.manager", "webhook", address, "--url", url)
    manager.wait_for("waiting for a key")
    stage.start("scaler_scheduler", address)
    adapter.wait_for("NativeWorkerAdapter: listen to")
    body = {"action": "get_worker_adapter_info"}
    token = web_token(KeyOptions(), address, ADAPTER_LABEL)
    assert [status(url, given, body) for given in ("", token)] == [401, 200]
    with Client(address, timeout_seconds=WAIT) as client:
        assert client.submit(abs, -1).result(WAIT) == 1, "the manager has the token too"
    for command in (manager, adapter):
        assert command.end(signal.SIGTERM) == 0


def test_no_token_but_its_own_opens_a_door(stage: Stage, key: str) -> None:
    """What a user with a ticket can make or find out: of the ticket, of a removed key, of the other door, and nearly
    right ones; in the header, in the address and as a cookie."""
    address, port = f"tcp://127.0.0.1:{stage.ports()}", stage.ports()
    page = stage.start("scaler.ui", address, "--port", "0", "--key-file", key)
    url, _ = link_of(page)
    adapter = stage.start(
        "scaler_worker.adapter", address, "--host", "127.0.0.1", "--port", str(port), "--key-file", key
    )
    adapter.wait_for("NativeWorkerAdapter: listen to")
    ticket = Keyring([KEY]).derive("mallory", frozenset({ROLE_MONITOR}))
    made_of = (ticket.secret_key, ticket.ticket[-32:], bytes(32), bytes(range(32)))
    known = [token_of(secret, label) for secret in made_of for label in (PAGE_LABEL, ADAPTER_LABEL)]
    known += [ticket_text(ticket).strip(), key_text([bytes(range(32))]).strip(), "null", "undefined", "0", "Bearer"]
    body = {"action": "get_worker_adapter_info"}
    doors = (
        (PAGE, ADAPTER, lambda token: status(f"{url}state.json", token)),
        (PAGE, ADAPTER, lambda token: status(f"{url}metrics", cookie=token)),
        (PAGE, ADAPTER, lambda token: status(f"{url}events?token={quote(token)}")),
        (ADAPTER, PAGE, lambda token: status(f"http://127.0.0.1:{port}/", token, body)),
        (ADAPTER, PAGE, lambda token: status(f"http://127.0.0.1:{port}/", body={**body, "auth_token": token})),
        (ADAPTER, PAGE, lambda token: status(f"http://127.0.0.1:{port}/", body=body, cookie=token)),
    )
    for own, other, door in doors:
        near = [own[:-1], own[1:], f"{own}A", own.swapcase(), f"{own}=", own.encode().hex()]
        found = {token: door(token) for token in (*known, other, *near)}
        assert set(found.values()) <= {401, 403}, found
    assert status(f"{url}metrics", cookie=PAGE) == 403, "the token is in no cookie"
    assert (status(f"{url}state.json", PAGE), status(f"http://127.0.0.1:{port}/", ADAPTER, body)) == (200, 200)
