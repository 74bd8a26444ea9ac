"""The calls of a client that ask how its tasks stand."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scaler.client.future import ScalerFuture
from scaler.client.futures.explaining import Questions
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import NO_TASK

if TYPE_CHECKING:
    from scaler.client.futures.stacks import TaskStack


F = TypeVar("F", bound="concurrent.futures.Future[Any]")


class Connected(Protocol):
    """What a client has while it is connected."""

    @property
    def connection(self) -> Any: ...


class Asking:
    """The calls of a client that ask how its tasks stand."""

    _serializer: Any

    def _ready(self) -> Connected:
        """Connected, or ClientQuitException."""
        raise NotImplementedError

    @property
    def _questions(self) -> Questions:
        found: Questions = self._ready().connection.questions
        return found

    def explain(self, future: ScalerFuture[Any] | str) -> str:
        """Why this task has not ended, or how it ended: one sentence, from the scheduler's point of view.

        Args:
            future: a future of this client, or the id of one of its tasks as a text: short ("648752af:9") or in full.

        Raises:
            TypeError: it is neither a future nor a text.
            ValueError: the text is no id, or the future is another client's.
            ClientQuitException: the client is disconnected.
        """
        task_id, known = self._known_of(future, "explain")
        return known or self._questions.sentence_on(task_id)

    def stack(self, future: ScalerFuture[Any] | str) -> TaskStack:
        """Where a running task is in its code now: names of files and functions and lines of code, no values.

        If the task does not run, the `text` is empty and `reason` is a sentence. The answer comes within some seconds
        (SCH-93). The task itself loses about a millisecond.

        Args:
            future: as for `explain`.

        Raises:
            TypeError: as for `explain`.
            ValueError: as for `explain`.
            ClientQuitException: the client is disconnected.
        """
        from scaler.client.futures.stacks import stack_of, without_stack

        task_id, known = self._known_of(future, "stack")
        if known:
            has_ended = isinstance(future, ScalerFuture) and future.done()
            return without_stack(known, "ended" if has_ended else "waiting" if task_id else "")
        return stack_of(self._questions.stack_of(task_id))

    def as_completed(self, futures: Iterable[F], timeout: float | None = None) -> Iterator[F]:
        """The futures in the order in which they end: `concurrent.futures.as_completed`.

        Args:
            futures: of any client.
            timeout: seconds for all of them. None: no limit.

        Raises:
            TimeoutError: by the iterator, if not all have ended in time.
        """
        ended: Iterator[Any] = concurrent.futures.as_completed(futures, timeout)
        return ended

    def _known_of(self, task: ScalerFuture[Any] | str, asked: str) -> tuple[TaskId, str]:
        """Which task it is, and a sentence if nothing more need be asked of the scheduler."""
        if not isinstance(task, ScalerFuture | str):
            kind = type(task).__name__
            raise TypeError(f"{asked}() takes a future of this client, or the id of a task as a text, got {kind}")
        if isinstance(task, ScalerFuture) and task.done():
            return task.task_id, _ended_sentence(task)
        connection = self._ready().connection
        if isinstance(task, str):
            found = self._questions.named(task, tuple(connection.deferred))
            if isinstance(found, str):
                return NO_TASK, found
        elif not task.is_of(connection, self._serializer):
            raise ValueError("this future is of another client: ask that one")
        else:
            found = task.task_id
        deferred = connection.deferred.get(found)
        if deferred is None or not deferred.missing_count:
            return found, ""
        return (
            found,
            f"it has not been sent: {deferred.missing_count} of the futures among its arguments have not ended",
        )


def _ended_sentence(future: ScalerFuture[Any]) -> str:
    """Of a future that is done. Its result is neither read nor fetched."""
    from scaler.client.futures.ended import duration_text, line_of  # few programs ask

    if future.cancelled():
        return "it was canceled"
    seconds = future.profiling_info().duration_s
    after = f" after {duration_text(seconds)}" if seconds > 0 else ""
    failure = future.failure()
    return f"it has ended{after}: ask for its result" if failure is None else f"it failed{after}: {line_of(failure)}"
