"""Units as worker groups that another service starts: the one behind the webhook of the Worker Adapter standard.

Every request carries its id in `metadata`, and is repeated under the same one, so an adapter that knows what it has
done answers again instead of doing it twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import aiohttp

from scaler_protocol.errors import ScalerError
from scaler_protocol.keys import Pass
from scaler_protocol.messages import Capability
from scaler_protocol.process import StartupError, shown_url
from scaler_worker.manager.config import WebhookConfig
from scaler_worker.manager.core import UnitEnded, UnitFound, UnitRuns
from scaler_worker.manager.service import ManagerConfig, ManagerService, Report, first_of

logger = logging.getLogger("scaler.manager")

Answer = TypeVar("Answer")

ANSWER_SECONDS = 60.0
"""An adapter answers when the work is done, which may be the start of a machine."""
ACCEPTED_SECONDS = 600.0
"""How long a request that was accepted (202) is asked for again."""
PAUSE_SECONDS = 1.0
PAUSE_LIMIT_SECONDS = 30.0
SHUT_DOWN_SECONDS = 120.0
"""How long groups get to end when the manager is to end."""
ANSWER_BYTES = 1 << 20

OK, ACCEPTED, BAD_REQUEST, UNAUTHORIZED, NOT_FOUND = 200, 202, 400, 401, 404
NEVER_AGAIN = (BAD_REQUEST, UNAUTHORIZED)
UNANSWERED = (502, 504)
"""A proxy answers so when it had no answer of the adapter: the adapter may have done what it was asked for, or not."""
MANY_WORKERS = 1_000_000


class WebhookError(ScalerError):
    """`status` is that of the adapter's answer, 0 when there was none."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class AdapterInfo:
    max_workers: int = MANY_WORKERS
    workers_per_group: int = 1
    capabilities: tuple[Capability, ...] = ()


class Webhook:
    """The requests, and what can be wrong with their answers. To be closed."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url = url
        self._shown = shown_url(url)
        self._token = token
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS))

    async def close(self) -> None:
        await self._session.close()

    async def info(self) -> AdapterInfo:
        """What it can have. Adapters of the first standard do not know the question: then anything is possible."""
        try:
            answer = await self._ask("get_worker_adapter_info", "info")
        except WebhookError as error:
            if error.status == BAD_REQUEST:
                return AdapterInfo()
            raise
        return _info(answer)

    async def start_group(self, request_id: str) -> tuple[str, tuple[str, ...]]:
        """The id of a new group, and the names of its workers."""
        answer = await self._ask("start_worker_group", request_id)
        group_id, worker_ids = answer.get("worker_group_id"), answer.get("worker_ids", [])
        if not isinstance(group_id, str) or not group_id or not isinstance(worker_ids, list):
            raise WebhookError(f"{self._shown} answered without a worker_group_id: {str(answer)[:200]}")
        return group_id, tuple(str(worker_id) for worker_id in worker_ids)

    async def shut_down_group(self, group_id: str) -> None:
        """Returns when it is gone; also when there is no such group."""
        try:
            await self._ask("shutdown_worker_group", f"stop-{group_id}", worker_group_id=group_id)
        except WebhookError as error:
            if error.status != NOT_FOUND:
                raise

    async def _ask(self, action: str, request_id: str, **fields: str) -> dict[str, Any]:
        body: dict[str, Any] = {"action": action, "metadata": {"request_id": request_id}, **fields}
        if self._token:
            body["auth_token"] = self._token
        end_at = asyncio.get_running_loop().time() + ACCEPTED_SECONDS
        while True:
            status, answer = await self._post(action, body)
            if status == OK:
                return answer
            if status != ACCEPTED:
                reason = answer.get("error") or answer.get("status") or "it gives no reason"
                text = f"{self._shown} answered {action} with {status}: {str(reason)[:200]}"
                raise WebhookError(text, 0 if status in UNANSWERED else status)
            if asyncio.get_running_loop().time() > end_at:
                raise WebhookError(f"{self._shown} accepted {action} and has not done it within {ACCEPTED_SECONDS:g} s")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _post(self, action: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        try:
            async with self._session.post(self._url, json=body, allow_redirects=False) as response:
                answer = _decoded(response.status, await _read(response))
        except asyncio.TimeoutError:
            raise WebhookError(f"{self._shown} did not answer {action} within {ANSWER_SECONDS:g} s") from None
        except (aiohttp.ClientError, ValueError) as error:
            raise WebhookError(f"{self._shown} cannot be asked for {action}: {self._reason(error)}") from None
        if not isinstance(answer, dict):
            raise WebhookError(f"{self._shown} answered {action} with {response.status} and no JSON object")
        return response.status, answer

    def _reason(self, error: Exception) -> str:
        """Some errors of the HTTP library repeat the whole URL."""
        return (str(error) or type(error).__name__).replace(self._url, self._shown)


async def _read(response: aiohttp.ClientResponse) -> bytearray:
    """All of it. Raises ValueError when there is no end to it."""
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > ANSWER_BYTES:
            raise ValueError(f"it answers with more than {ANSWER_BYTES} bytes")
    return data


def _decoded(status: int, data: bytearray) -> Any:
    """Errors may come from a proxy in between, which speaks no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None if status == OK else {}


def _info(answer: dict[str, Any]) -> AdapterInfo:
    groups, each = answer.get("max_worker_groups", -1), answer.get("workers_per_group", 1)
    named = answer.get("base_capabilities", {})
    is_right = isinstance(groups, int) and isinstance(each, int) and each > 0 and isinstance(named, dict)
    if not is_right or not all(isinstance(amount, int) for amount in named.values()):
        raise WebhookError(f"get_worker_adapter_info was answered with nonsense: {str(answer)[:200]}")
    capabilities = tuple(Capability(str(name), amount) for name, amount in sorted(named.items()))
    return AdapterInfo(MANY_WORKERS if groups < 0 else min(groups * each, MANY_WORKERS), each, capabilities)


class WebhookBackend:
    """Groups by unit. A group that has vanished by itself is noticed by the scheduler, which misses its workers."""

    def __init__(self, report: Report, webhook: Webhook) -> None:
        self._report = report
        self._webhook = webhook
        self._groups: dict[str, str] = {}
        #: ids of requests that were not answered: what they asked for may have been done all the same
        self._unanswered: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, asyncio.Event] = {}

    async def find_units(self) -> list[UnitFound]:
        """None: the standard has no question for it."""
        return []

    def start(self, unit_id: str) -> None:
        self._stops[unit_id] = asyncio.Event()
        self._tasks[unit_id] = asyncio.get_running_loop().create_task(self._run(unit_id))

    def stop(self, unit_id: str) -> None:
        if unit_id in self._stops:
            self._stops[unit_id].set()

    async def close(self) -> None:
        """What could not be shut down in time stays: it is not ours to kill."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for group_id in self._groups.values():
            logger.warning("WorkerManager: the adapter still has worker group %s", group_id)
        for request_id in self._unanswered:
            logger.warning(
                "WorkerManager: the adapter did not answer request %s, and may have started a worker group", request_id
            )

    async def _run(self, unit_id: str) -> None:
        request_id = self._unanswered.pop() if self._unanswered else unit_id
        try:
            group_id, names = await self._webhook.start_group(request_id)
            if group_id in self._groups.values():
                raise WebhookError(f"the adapter answered with worker group {group_id}, which it had given before", OK)
        except asyncio.CancelledError:
            self._unanswered.append(request_id)
            raise
        except WebhookError as error:
            if not error.status:
                self._unanswered.append(request_id)
            self._end(UnitEnded(unit_id, str(error), is_final=error.status in NEVER_AGAIN))
            return
        self._groups[unit_id] = group_id
        self._report(UnitRuns(unit_id, f"worker group {group_id}", names))
        await self._stops[unit_id].wait()
        # A group that is not shut down goes on costing money.
        await _insist(lambda: self._webhook.shut_down_group(group_id))
        del self._groups[unit_id]
        self._end(UnitEnded(unit_id))

    def _end(self, event: UnitEnded) -> None:
        del self._tasks[event.unit_id]
        del self._stops[event.unit_id]
        self._report(event)


async def serve(config: WebhookConfig, shown: Pass | None, stop: asyncio.Event) -> None:
    """A manager of what the adapter can have, which it is asked first. Raises StartupError when it will not say."""
    webhook = Webhook(config.url, config.token)
    try:
        asking = asyncio.ensure_future(_insist(partial(_info_of, webhook)))
        await first_of(asking, stop.wait())
        if asking.cancelled():
            return
        info = asking.result()
        manager = ManagerConfig(
            config.address,
            config.name,
            info.max_workers,
            info.workers_per_group,
            info.capabilities,
            SHUT_DOWN_SECONDS,
            keys=config.keys,
            shown=shown,
        )
        await ManagerService(manager, lambda report: WebhookBackend(report, webhook)).run(stop)
    finally:
        await webhook.close()


async def _info_of(webhook: Webhook) -> AdapterInfo:
    try:
        return await webhook.info()
    except WebhookError as error:
        if error.status in NEVER_AGAIN:
            raise StartupError(str(error)) from None
        raise


async def _insist(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask again and again, until there is an answer."""
    pause = PAUSE_SECONDS
    said = ""
    while True:
        try:
            return await ask()
        except WebhookError as error:
            if str(error) != said:
                said = str(error)
                logger.warning("WorkerManager: %s; asking again until it answers", said)
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_LIMIT_SECONDS)
