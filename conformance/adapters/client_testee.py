"""Our client, driven by JSON lines on stdin and stdout as `ports/ADAPTER.md` describes.

Commands that may take their time are done beside the loop that reads them, so answers come in any order.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

from mapped_calls import mapped
from named_streams import streamed

from scaler import Client, ScalerFuture
from scaler.client.submitting.options import options_of
from scaler.client.submitting.streams import ScalerStream

SUCCESS, FAILED, CANCELED = 0, 1, 2
CANCELED_OUTCOME, TOO_LATE_OUTCOME = 0, 1
CANCEL_SECONDS = 60.0
_WRITING = threading.Lock()


def joined(*values: bytes) -> bytes:
    return b"".join(values)


class Refused(Exception):
    """The command cannot be done, and why."""


def say(content: dict[str, Any]) -> None:
    with _WRITING:
        sys.stdout.write(json.dumps(content) + "\n")
        sys.stdout.flush()


class Testee:
    def __init__(self) -> None:
        self._client: Client | None = None
        self._futures: dict[str, ScalerFuture] = {}
        self._streams: dict[str, ScalerStream[bytes]] = {}
        self._beside = ThreadPoolExecutor(16)
        self._ops: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "info": self._info,
            "connect": self._connect,
            "submit": self._submit,
            "map": self._map,
            "graph": self._graph,
            "stream": self._stream,
            "take": self._take,
            "drop": self._drop,
            "cancel": self._cancel,
            "shutdown": self._shutdown,
            "close": self._close,
        }

    def run(self, lines: Iterable[str]) -> None:
        for line in lines:
            try:
                command = json.loads(line)
                number, op = command["id"], command["op"]
            except (ValueError, KeyError, TypeError):
                say({"id": None, "error": {"text": "each line is one JSON object with an id and an op"}})
                continue
            if op == "exit":
                say({"id": number, "ok": {}})
                return
            if op not in self._ops:
                say({"id": number, "unsupported": True})
            elif op in ("connect", "close", "shutdown", "take"):
                self._beside.submit(self._obey, number, self._ops[op], command)
            else:
                self._obey(number, self._ops[op], command)

    def _obey(self, number: Any, act: Callable[[dict[str, Any]], dict[str, Any]], command: dict[str, Any]) -> None:
        try:
            say({"id": number, "ok": act(command)})
        except Exception as error:  # noqa: BLE001  whatever it was, whoever asked is told
            say({"id": number, "error": {"text": f"{type(error).__name__}: {error}"}})

    # ------------------------------------------------------------ commands

    def _info(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"adapter": 1, "name": "scaler-client", "version": "0.1", "roles": ["client"], "features": []}

    def _connect(self, command: dict[str, Any]) -> dict[str, Any]:
        if self._client is not None:
            raise Refused("there is a connection; close it first")
        self._client = Client(
            command["scheduler"],
            timeout_seconds=command.get("give_up", command.get("lease", 60)),
            heartbeat_interval_seconds=command.get("heartbeat", 2),
            stream_output=True,
        )
        return {}

    def _connected(self) -> Client:
        if self._client is None:
            raise Refused("connect first")
        return self._client

    def _submit(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"task": self._call(command, command.get("arguments", []))}

    def _map(self, command: dict[str, Any]) -> dict[str, Any]:
        options = options_of(
            command.get("capabilities"),
            command.get("priority", 0),
            command.get("retries", 0),
            command.get("timeout") or None,
        )
        calls = [tuple([bytes.fromhex(argument) for argument in arguments]) for arguments in command["calls"]]
        futures = mapped(self._connected(), command["function"], calls, options)
        return {"tasks": [self._note(future) for future in futures]}

    def _graph(self, command: dict[str, Any]) -> dict[str, Any]:
        graph = {
            node["name"]: (joined, *map(bytes.fromhex, node.get("arguments", [])), *node.get("needs", []))
            for node in command["nodes"]
        }
        futures = self._connected().get(graph, command["wanted"], block=False)
        return {"tasks": {name: self._note(future) for name, future in futures.items()}}

    def _stream(self, command: dict[str, Any]) -> dict[str, Any]:
        arguments = tuple(map(bytes.fromhex, command.get("arguments", [])))
        options = options_of(command.get("capabilities"), command.get("priority", 0), 0, command.get("timeout") or None)
        stream = streamed(self._connected(), command["function"], command["window"], arguments, options)
        task = self._note(stream.future)
        self._streams[task] = stream
        return {"task": task}

    def _take(self, command: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"value": next(self._streams[command["task"]]).hex()}
        except Exception:  # noqa: BLE001  the end of the stream, which the result tells of
            return {"value": None}

    def _drop(self, command: dict[str, Any]) -> dict[str, Any]:
        self._streams[command["task"]].close()
        return {}

    def _call(self, command: dict[str, Any], arguments: list[str]) -> str:
        future = self._connected().submit_named(
            command["function"],
            *(bytes.fromhex(argument) for argument in arguments),
            capabilities=command.get("capabilities"),
            priority=command.get("priority", 0),
            retries=command.get("retries", 0),
            timeout=command.get("timeout") or None,
        )
        return self._note(future)

    def _note(self, future: ScalerFuture) -> str:
        task = bytes(future.task_id).hex()
        self._futures[task] = future
        future.add_done_callback(lambda done: self._beside.submit(self._tell, task, done))
        return task

    def _tell(self, task: str, future: ScalerFuture) -> None:
        event: dict[str, Any] = {"event": "result", "task": task}
        try:
            value = future.result()
            event |= {"status": SUCCESS, "value": bytes(value).hex()}
        except CancelledError:
            event |= {"status": CANCELED, "error": {"code": 0, "type": "CancelledError", "message": ""}}
        except Exception as error:  # noqa: BLE001  the task's own
            event |= {"status": FAILED, "error": {"code": 0, "type": type(error).__name__, "message": str(error)}}
        say(event)
        self._futures.pop(task, None)

    def _cancel(self, command: dict[str, Any]) -> dict[str, Any]:
        for task in command["tasks"]:
            future = self._futures.get(task)
            if future is not None:
                self._beside.submit(self._cancel_one, task, future)
        return {}

    def _cancel_one(self, task: str, future: ScalerFuture) -> None:
        # With a timeout it tells what the scheduler answers; without one it would not wait for that.
        outcome = CANCELED_OUTCOME if future.cancel(timeout=CANCEL_SECONDS) else TOO_LATE_OUTCOME
        say({"event": "cancel", "task": task, "outcome": outcome})

    def _shutdown(self, _: dict[str, Any]) -> dict[str, Any]:
        self._connected().shutdown()
        return {}

    def _close(self, _: dict[str, Any]) -> dict[str, Any]:
        client, self._client = self._connected(), None
        client.disconnect()
        self._futures.clear()
        self._streams.clear()
        return {}


if __name__ == "__main__":
    Testee().run(sys.stdin)
