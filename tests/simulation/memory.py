"""What a client was told of its graphs, kept apart from its core: a node whose result it knows never runs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler_protocol.codes import KIND_OBJECT, STATUS_SUCCESS
from scaler_protocol.columns import offsets, split_ids, split_u32
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import KeptResults, Results, Submit
from scaler_protocol.session import Lost, Opened, Received

if TYPE_CHECKING:
    from tests.simulation.clients import Call, ClientNode


class Memory:
    def __init__(self, client: ClientNode) -> None:
        self._client = client
        #: nodes of graphs -> their calls
        self._nodes: dict[TaskId, bytes] = {}
        #: nodes whose success this client was told of -> the object, if it is one
        self._told: dict[TaskId, ObjectId | None] = {}
        #: nodes that this session must not submit
        self._known: set[TaskId] = set()

    def note_graph(self, calls: list[Call]) -> None:
        self._nodes.update({call.task_id: call.line for call in calls})

    def note(self, event: object) -> None:
        """Before the core has it."""
        if isinstance(event, Received) and isinstance(event.message, (Results, KeptResults)):
            self._note_results(event.message)
        elif isinstance(event, Lost):
            self._known = set()
        elif isinstance(event, Opened):
            # A scheduler that does not take results has to run everything again.
            self._known = set(self._told) if "kept-results" in event.welcome.features else set()

    def _note_results(self, message: Results | KeptResults) -> None:
        ids, starts = split_ids(message.ids), offsets(split_u32(message.sizes))
        kinds = message.kinds or bytes(len(ids))
        statuses = message.statuses if isinstance(message, Results) else b""
        for row, task_id in enumerate(map(TaskId, ids)):
            call = self._client.calls.get(task_id)
            if call is not None and call.status is not None:
                continue  # it has run a second time, for others
            if task_id in self._nodes and (not statuses or statuses[row] == STATUS_SUCCESS):
                value = bytes(message.payload[starts[row] : starts[row + 1]])
                self._told[task_id] = ObjectId(value) if kinds[row] == KIND_OBJECT else None

    def lose(self, object_id: ObjectId) -> None:
        """It is in the storage no more."""
        for task_id in [task_id for task_id, stored in self._told.items() if stored == object_id]:
            del self._told[task_id]
            self._known.discard(task_id)

    def check(self, message: Submit) -> None:
        for task_id in map(TaskId, split_ids(message.ids)):
            is_again = task_id in self._known
            self._client.world.law(
                not is_again, f"{self._nodes.get(task_id)!r} is known and is submitted again (CLI-17)"
            )
