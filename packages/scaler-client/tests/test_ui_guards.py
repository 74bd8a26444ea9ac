"""Who may read the page: decisions over headers, and over the options of the command."""

from __future__ import annotations

import pytest

from scaler.ui import __main__ as ui
from scaler_protocol.process import UsageError
from scaler_protocol.web.guards import COOKIE, VISIT_SECONDS, VISITS_LIMIT, Guard, Visits, cookie_name, host_name

OURS = Guard(frozenset({"localhost", "127.0.0.1", "::1"}))
SECRET = Guard(frozenset({"board.example"}), "s3cret")


@pytest.mark.parametrize("host", ["localhost:8081", "127.0.0.1:8081", "[::1]:8081", "LOCALHOST", "127.0.0.1"])
def test_our_names(host: str) -> None:
    assert not OURS.refusal({"Host": host}, {}, 0.0)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8081",
        "127.0.0.1.evil.example",
        "",
        "[",
        "localhost@evil",
        "::1",
        "[::1].evil",
        "evil@localhost",
        "localhost/evil",
        "localhost\\evil",
        "localhost?evil",
        "evil#@localhost",
        "127.0.0.1:80:evil",
        "localhost:",
        "localhost:x",
        "localhost:123456",
        " localhost",
        "localhost\n",
        "ⅼocalhost",
    ],
)
def test_other_names_are_refused(host: str) -> None:
    """Such as the one of a stranger's domain that resolves to this machine."""
    assert "not served under that name" in OURS.refusal({"Host": host}, {}, 0.0)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://localhost", "http://localhost:1", "null", "", "http://["]
)
def test_pages_of_other_origins_are_refused(origin: str) -> None:
    assert "other origins" in OURS.refusal({"Host": "localhost:8081", "Origin": origin}, {}, 0.0)


@pytest.mark.parametrize("origin", ["http://localhost:8081", "https://localhost:8081", "http://LOCALHOST:8081"])
def test_our_own_origin_also_behind_a_proxy(origin: str) -> None:
    assert not OURS.refusal({"Host": "localhost:8081", "Origin": origin}, {}, 0.0)


def test_what_browsers_say_of_who_asks() -> None:
    def refused(**words: str) -> bool:
        return bool(
            OURS.refusal({"Host": "localhost"} | {f"Sec-Fetch-{key}": word for key, word in words.items()}, {}, 0.0)
        )

    assert not refused(Site="none") and not refused(Site="same-origin")
    assert refused(Site="cross-site") and refused(Site="same-site")
    assert refused(Site="cross-site", Mode="no-cors", Dest="script")
    assert refused(Site="cross-site", Mode="navigate", Dest="iframe")
    assert not refused(Site="cross-site", Mode="navigate", Dest="document"), "a link to the page may be followed"


def test_a_token() -> None:
    host = {"Host": "board.example:8081"}
    assert "token is needed" in SECRET.refusal(host, {}, 0.0)
    for wrong in ("Bearer nonsense", "Basic s3cret", "Bearer", "Bearer \udcff"):
        assert SECRET.refusal({**host, "Authorization": wrong}, {}, 0.0), wrong
    assert not SECRET.refusal({**host, "Authorization": "bearer s3cret"}, {}, 0.0)
    assert SECRET.refusal(host, {f"{COOKIE}_8081": "s3cret"}, 0.0), "a cookie is never the token"
    assert "name" in SECRET.refusal({"Host": "other", "Authorization": "Bearer s3cret"}, {}, 0.0)


def test_a_cookie_is_of_one_visit_to_one_page() -> None:
    guard, other = (Guard(frozenset({"board.example"}), "s3cret") for _ in range(2))
    cookie = guard.visits.begin(0.0)
    assert cookie != guard.visits.begin(0.0) and "s3cret" not in cookie and len(cookie) > 40

    def is_let_in(guard: Guard, now: float, port: int = 8081, **headers: str) -> bool:
        host = {"Host": "board.example:8081", **headers}
        return not guard.refusal(host, {f"{COOKIE}_{port}": cookie}, now)

    assert is_let_in(guard, 1.0) and not is_let_in(other, 1.0)
    assert not is_let_in(guard, 1.0, 8082), "that is the cookie of another page on this host"
    assert not is_let_in(guard, 1.0, Authorization=f"Bearer {cookie}"), "and programs have none"
    assert not is_let_in(guard, 1.0, Origin="http://evil.example")
    assert is_let_in(guard, VISIT_SECONDS + 1.0), "it was used a week ago"
    assert not is_let_in(guard, 2 * VISIT_SECONDS + 2.0) and not is_let_in(guard, 2.0), "then it is forgotten"


def test_no_more_visits_than_a_bound_are_remembered() -> None:
    visits = Visits()
    kept, silent = visits.begin(0.0), visits.begin(0.0)
    for number in range(VISITS_LIMIT - 1):
        assert visits.is_known(kept, number)
        visits.begin(number)
    assert visits.is_known(kept, VISITS_LIMIT) and not visits.is_known(silent, VISITS_LIMIT)
    assert len(visits._last_at) == VISITS_LIMIT


def test_names_and_ports() -> None:
    assert host_name("[::1]:80") == "::1" and host_name("A.b:1") == "a.b" and host_name("[") == ""
    assert cookie_name("a:80") == f"{COOKIE}_80" and cookie_name("a") == COOKIE and cookie_name("[::1]") == COOKIE


def guard_of(*arguments: str) -> Guard:
    return ui.guard_of(ui.parser().parse_args(["tcp://127.0.0.1:1", *arguments]))


def test_loopback_is_the_default() -> None:
    assert ui.parser().parse_args(["x"]).host == "127.0.0.1"
    assert guard_of().hosts == {"localhost", "127.0.0.1", "::1"} and guard_of("--allowed-host", "Board").hosts > {
        "board"
    }


def test_beyond_this_machine_a_token_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ui.TOKEN_VARIABLE, raising=False)
    for host in ("0.0.0.0", "::", "10.0.0.1", "board.example"):
        with pytest.raises(UsageError, match="lets others see this cluster: set SCALER_UI_TOKEN"):
            guard_of("--host", host)
    assert guard_of("--host", "0.0.0.0", "--no-token") == Guard(frozenset())
    assert guard_of("--host", "10.0.0.1", "--token", "x") == Guard(frozenset({"10.0.0.1"}), "x")
    monkeypatch.setenv(ui.TOKEN_VARIABLE, "y")
    assert guard_of("--host", "::", "--allowed-host", "Board") == Guard(frozenset({"::", "board"}), "y")


def test_every_name_is_allowed_with_a_token_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_UI_TOKEN", raising=False)
    assert guard_of("--allowed-host", "board", "*", "--token", "x") == Guard(frozenset(), "x")
    for more in ((), ("--no-token", "--token", "x")):
        with pytest.raises(UsageError, match="needs a token: set SCALER_UI_TOKEN"):
            guard_of("--allowed-host", "*", *more)


def test_the_operators_token_counts_more_than_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ui.TOKEN_VARIABLE, raising=False)

    def token(*arguments: str) -> str:
        return ui.guard_of(ui.parser().parse_args(["tcp://127.0.0.1:1", *arguments]), "of-the-key").token

    assert token() == token("--host", "0.0.0.0") == "of-the-key"
    assert token("--token", "x") == "x" and token("--no-token") == ""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "board.example"])
def test_orders_need_a_token_at_every_host(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a token, a page of another site, or another user of this machine, gives orders as the operator."""
    monkeypatch.delenv(ui.TOKEN_VARIABLE, raising=False)
    control = "--host", host, "--allow-control"
    for more in (("--no-token",), ("--no-token", "--token", "x"), ("--no-token", "--allowed-host", host)):
        with pytest.raises(UsageError, match=r"--allow-control needs a token.* set SCALER_UI_TOKEN"):
            guard_of(*control, *more)
    assert guard_of(*control, "--token", "x").token == "x"


def test_the_token_of_the_clusters_key_is_enough_for_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ui.TOKEN_VARIABLE, raising=False)
    options = ui.parser().parse_args(["tcp://127.0.0.1:1", "--allow-control"])
    assert ui.guard_of(options, "of-the-key").token == "of-the-key"
    with pytest.raises(UsageError, match="needs a token"):
        ui.guard_of(options)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name the address of a scheduler"),
        (("tcp://127.0.0.1:1", "--replay", "x"), "name the address of a scheduler"),
        (("tcp://127.0.0.1:1", "--port", "65536"), "is not a port"),
        (("8516",), "8516"),
        (("--replay", "no-such-file"), "cannot be opened"),
        (("tcp://127.0.0.1:1", "--host", "0.0.0.0", "--insecure"), "SCALER_UI_TOKEN"),
        (("tcp://127.0.0.1:1", "--insecure", "--allow-control"), "--allow-control needs a token"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ui.TOKEN_VARIABLE, raising=False)
    assert ui.main(arguments) != 0
    told = capsys.readouterr().err
    assert words in told and "Traceback" not in told and len(told.strip().splitlines()) == 1
