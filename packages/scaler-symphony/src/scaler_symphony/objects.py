"""Functions and serializers that go with the tasks: fetched from the storage once, beside the loop, and never read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from scaler_protocol.codes import FUNCTION_UNREADABLE, NO_SUCH_OBJECT, ROLE_WORKER, STORAGE_UNREACHABLE
from scaler_protocol.errors import ObjectNotFound, StorageError
from scaler_protocol.ids import ObjectId, content_id
from scaler_protocol.keys import Pass
from scaler_protocol.objects import ObjectClient, Owner
from scaler_protocol.running.calls import OBJECT_WAIT_SECONDS
from scaler_protocol.running.errors import TaskFailed, other_content
from scaler_symphony.core.events import Event, Fetched, FetchFailed

BROUGHT_BYTES = 1024 * 1024
"""What is larger does not travel with every task that needs it: the service fetches it, once for all."""
FETCHES_AT_ONCE = 4


class Fetcher:
    def __init__(self, report: Callable[[Event], None], shown: Pass | None = None) -> None:
        self._report = report
        self._shown = shown
        self._client: ObjectClient | None = None
        self._threads = ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="fetch")

    def use_storage(self, address: str) -> None:
        if self._client is None or self._client.address != address:
            self._close_client()
            self._client = ObjectClient(address, ROLE_WORKER, "scaler-symphony", shown=self._shown)

    def fetch(self, object_id: ObjectId, owner: Owner) -> None:
        assert self._client is not None, "tasks come after the Welcome that names a storage"
        self._threads.submit(self._fetch, self._client, object_id, owner)

    def close(self) -> None:
        """Fetches that are under way fail, so that no thread waits for them."""
        self._close_client()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _close_client(self) -> None:
        if self._client is not None:
            self._client.close()

    def _fetch(self, client: ObjectClient, object_id: ObjectId, owner: Owner) -> None:
        family = owner.family
        try:
            content = bytes(client.get(object_id, OBJECT_WAIT_SECONDS, owner))
            if content_id(content) != object_id:  # it would be kept here, and sent with every task (STO-29)
                raise other_content("the task's function or serializer", object_id)
        except TaskFailed as error:
            self._report(FetchFailed(object_id, error.code, str(error), family))
        except ObjectNotFound:
            text = f"object {object_id.hex()} is lost, and did not come back within {OBJECT_WAIT_SECONDS:g} s"
            self._report(FetchFailed(object_id, NO_SUCH_OBJECT, f"the task's function or serializer, {text}", family))
        except StorageError as error:
            text = f"the task's function or serializer cannot be fetched on this worker: {error}"
            self._report(FetchFailed(object_id, STORAGE_UNREACHABLE, text, family))
        except BaseException as error:  # noqa: BLE001 unreported, its tasks would wait for ever
            reason = str(error) or type(error).__name__
            text = f"the task's function or serializer (object {object_id.hex()}) cannot be fetched: {reason}"
            self._report(FetchFailed(object_id, FUNCTION_UNREADABLE, text, family))
        else:
            self._report(Fetched(object_id, content if len(content) <= BROUGHT_BYTES else None, family))
