"""The audit of a cluster of real processes: scheduler and storage log who was let in and who was refused."""

from __future__ import annotations

import pytest

from scaler.utility.exceptions import RejectedError
from scaler_protocol import codes
from tests.integration.test_keys import Keyed
from tests.support.processes import Stage


def test_both_servers_say_who_was_let_in_and_who_was_not(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = Keyed(stage)
    monkeypatch.setenv("SCALER_NO_LANE", "1")
    path = keyed.ticket("audited.key", codes.ROLE_CLIENT, user="audited")
    with keyed.client(path) as client:
        assert client.submit(abs, -1).result() == 1
        assert client.submit(len, client.send_object(b"x" * 100_000)).result() == 100_000
    told = r"admitted client from 127\.0\.0\.1, user audited, ticket [0-9a-f]{16}"
    keyed.scheduler.wait_for(f"Scheduler: {told}")
    keyed.storage.wait_for(f"ObjectStorageServer: {told}")
    expired = keyed.ticket("late.key", codes.ROLE_CLIENT, user="late", expires=1.0)
    with pytest.raises(RejectedError, match="expired"):
        keyed.client(expired)
    keyed.scheduler.wait_for(r"refused a Hello as client from 127\.0\.0\.1, claimed user late, ticket [0-9a-f]{16}: ")
