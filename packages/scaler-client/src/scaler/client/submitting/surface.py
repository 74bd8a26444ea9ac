"""What a program asks of a client: to run calls, maps and graphs, and to store objects.

Theory of the types. A function's own signature checks the call (`ParamSpec`). Where a future or a reference stands for
an argument, the next overloads take it apart: up to four positions each take the value, or what will bring it. What is
by keyword is then not checked, because the type system has no words for it; the call is, when it is submitted.

A map over one or two iterables tells a generic function or a lambda the type of its items. No type of items is refused,
because the last overload takes any: the call is checked when it is submitted.
"""

from __future__ import annotations

import concurrent.futures
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar, overload

from scaler.client.future import ScalerFuture
from scaler.client.futures.progress import of_map
from scaler.client.graph.run import GraphRun
from scaler.client.object_reference import ObjectReference
from scaler.client.submitting.calls import Calls
from scaler.client.submitting.mapping import MapRun, unpacked
from scaler.client.submitting.options import NO_OPTIONS, CallOptions, end_of, options_of
from scaler.client.submitting.signatures import check_call
from scaler_protocol.messages import NO_TASK

if TYPE_CHECKING:
    from typing import Concatenate, TypeAlias, TypedDict

    from typing_extensions import Unpack

    from scaler.client.futures.stacks import TaskStack
    from scaler.client.submitting.named import NamedCalls
    from scaler.client.submitting.streaming import Results
    from scaler.client.submitting.streams import ScalerStream
    from scaler_protocol.ids import TaskId

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
F = TypeVar("F", bound="concurrent.futures.Future[Any]")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class Pending(Protocol[T_co]):
    """What a future is to the type of a call: its value comes later."""

    def result(self, timeout: float | None = None) -> T_co: ...

    def cancelled(self) -> bool: ...


if TYPE_CHECKING:
    Argument: TypeAlias = A | Pending[A] | ObjectReference[A]

    class GetOptions(TypedDict, total=False):
        capabilities: dict[str, int] | None
        priority: int
        retries: int
        timeout: float | None
        reserialize: bool
        lost_processors_limit: int | None

    class MapOptions(GetOptions, total=False):
        chunksize: int
        progress: bool | str
        buffersize: int | None

    class StarmapOptions(GetOptions, total=False):
        progress: bool | str

    class ImapOptions(GetOptions, total=False):
        ordered: bool
        window: int | None


class Submitting(concurrent.futures.Executor):
    """The calls of a client. Its life is in `scaler.client.client`."""

    _serializer: Any
    _named: NamedCalls | None

    def _ready(self) -> Calls:
        """Connected, or ClientQuitException."""
        raise NotImplementedError

    @overload
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> ScalerFuture[T]: ...
    @overload
    def submit(  # type: ignore[overload-cannot-match]  # it does: with values to come by keyword
        self, fn: Callable[..., T], /, **kwargs: Any
    ) -> ScalerFuture[T]: ...
    @overload
    def submit(self, fn: Callable[Concatenate[A, ...], T], a: Argument[A], /, **kwargs: Any) -> ScalerFuture[T]: ...
    @overload
    def submit(
        self, fn: Callable[Concatenate[A, B, ...], T], a: Argument[A], b: Argument[B], /, **kwargs: Any
    ) -> ScalerFuture[T]: ...
    @overload
    def submit(
        self,
        fn: Callable[Concatenate[A, B, C, ...], T],
        a: Argument[A],
        b: Argument[B],
        c: Argument[C],
        /,
        **kwargs: Any,
    ) -> ScalerFuture[T]: ...
    @overload
    def submit(
        self,
        fn: Callable[Concatenate[A, B, C, D, ...], T],
        a: Argument[A],
        b: Argument[B],
        c: Argument[C],
        d: Argument[D],
        /,
        *others: Any,
        **kwargs: Any,
    ) -> ScalerFuture[T]: ...
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ScalerFuture[Any]:
        """Run `fn(*args, **kwargs)` in the cluster.

        `profiling=` is taken off, unless the function has such a parameter: every task is measured.
        """
        if "profiling" in kwargs and not _takes(fn, "profiling"):
            del kwargs["profiling"]
        return self._submit(fn, args, kwargs, NO_OPTIONS)

    def submit_verbose(
        self,
        fn: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        capabilities: dict[str, int] | None = None,
        priority: int = 0,
        retries: int = 0,
        timeout: float | None = None,
        reserialize: bool = False,
        lost_processors_limit: int | None = None,
    ) -> ScalerFuture[T]:
        """As `submit`, saying where and how the task shall run. `timeout` bounds its running time, in seconds.

        A task whose process dies runs again until `lost_processors_limit` processes have died, 1 for never; by default
        the scheduler's `--lost-processors-limit`, which is 3.
        `reserialize` does not trust that the function is what it was when it was last submitted.
        """
        options = options_of(capabilities, priority, retries, timeout, lost_processors_limit)
        try:
            if isinstance(args, str | bytes | dict):  # which tuple() would take apart
                raise TypeError
            arguments, keywords = tuple(args), dict(kwargs)
        except (TypeError, ValueError):
            found = f"{type(args).__name__} and {type(kwargs).__name__}"
            raise TypeError(f"args must be a tuple and kwargs a dict, got {found}") from None
        return self._submit(fn, arguments, keywords, options, is_changed=reserialize)

    def submit_named(
        self,
        name: str,
        *args: bytes,
        capabilities: dict[str, int] | None = None,
        priority: int = 0,
        retries: int = 0,
        timeout: float | None = None,
        lost_processors_limit: int | None = None,
    ) -> ScalerFuture[bytes]:
        """Run a function that workers know by its name, in whatever language they are. Its arguments are bytes, and so
        is its result. Python's workers are told which functions these are by `scaler_cluster --functions`.

        Ask for a capability that only workers with this function offer, where there are others.
        """
        calls = self._ready()
        if self._named is None or self._named.calls is not calls:
            from scaler.client.submitting.named import NamedCalls  # few programs call by name

            self._named = NamedCalls(calls)
        options = options_of(capabilities, priority, retries, timeout, lost_processors_limit)
        return self._named.submit(name, args, options, keeper=self)

    def _submit(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: CallOptions,
        *,
        is_changed: bool = False,
    ) -> ScalerFuture[Any]:
        check_call(function, len(args), kwargs)
        calls = self._ready()
        connection = calls.connection
        future: ScalerFuture[Any] = ScalerFuture(
            connection.new_task_ids(1)[0], connection, self._serializer, self, getattr(function, "__name__", "")
        )
        callee, arguments = calls.callee(function, args, is_changed=is_changed)
        try:
            calls.submit(callee, arguments, kwargs, options, future.task_id, future)
        except BaseException:
            connection.cancel((future.task_id,))  # it may have been sent, and the program has no future of it
            raise
        return future

    @overload  # type: ignore[override]  # a list, as it has always been here; a list can be iterated over
    def map(self, fn: Callable[[A], T], a: Iterable[Argument[A]], /, **options: Unpack[MapOptions]) -> list[T]: ...
    @overload
    def map(
        self,
        fn: Callable[[A, B], T],
        a: Iterable[Argument[A]],
        b: Iterable[Argument[B]],
        /,
        **options: Unpack[MapOptions],
    ) -> list[T]: ...
    @overload
    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], **options: Unpack[MapOptions]) -> list[T]: ...
    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        capabilities: dict[str, int] | None = None,
        priority: int = 0,
        retries: int = 0,
        timeout: float | None = None,
        chunksize: int = 1,
        reserialize: bool = False,
        progress: bool | str = False,
        buffersize: int | None = None,
        lost_processors_limit: int | None = None,
    ) -> list[T]:
        """The results of `fn` over the iterables, in order, when all are there.

        The first task that fails raises its exception here, and the others are canceled. Iterables are read as the
        tasks get done. `timeout` bounds the whole. `chunksize` and `buffersize` are accepted because other
        executors have them, and have no effect.
        `progress` shows a bar, with this text if it is one (needs tqdm: the extra `progress`).
        """
        options = options_of(capabilities, priority, retries, None, lost_processors_limit)
        end_at = end_of(timeout)
        run = MapRun(self._ready(), fn, unpacked(fn, iterables), options, is_changed=reserialize)
        with of_map(progress, iterables) as watch:
            return run.run(end_at, watch)

    @overload
    def starmap(
        self,
        fn: Callable[[A, B], T],
        iterable: Iterable[tuple[Argument[A], Argument[B]]],
        **options: Unpack[StarmapOptions],
    ) -> list[T]: ...
    @overload
    def starmap(
        self, fn: Callable[..., T], iterable: Iterable[Iterable[Any]], **options: Unpack[StarmapOptions]
    ) -> list[T]: ...
    def starmap(
        self,
        fn: Callable[..., T],
        iterable: Iterable[Iterable[Any]],
        capabilities: dict[str, int] | None = None,
        priority: int = 0,
        retries: int = 0,
        timeout: float | None = None,
        reserialize: bool = False,
        progress: bool | str = False,
        lost_processors_limit: int | None = None,
    ) -> list[T]:
        """As `map`, over tuples of arguments."""
        options = options_of(capabilities, priority, retries, None, lost_processors_limit)
        end_at = end_of(timeout)
        run = MapRun(self._ready(), fn, map(tuple, iterable), options, is_changed=reserialize)
        with of_map(progress, (iterable,)) as watch:
            return run.run(end_at, watch)

    @overload
    def imap(self, fn: Callable[[A], T], a: Iterable[Argument[A]], /, **options: Unpack[ImapOptions]) -> Results[T]: ...
    @overload
    def imap(
        self,
        fn: Callable[[A, B], T],
        a: Iterable[Argument[A]],
        b: Iterable[Argument[B]],
        /,
        **options: Unpack[ImapOptions],
    ) -> Results[T]: ...
    @overload
    def imap(self, fn: Callable[..., T], *iterables: Iterable[Any], **options: Unpack[ImapOptions]) -> Results[T]: ...
    def imap(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        ordered: bool = True,
        window: int | None = None,
        capabilities: dict[str, int] | None = None,
        priority: int = 0,
        retries: int = 0,
        timeout: float | None = None,
        reserialize: bool = False,
        lost_processors_limit: int | None = None,
    ) -> Results[T]:
        """As `map`, result by result: in the order of the items, or with `ordered=False` as they come.

        The iterables may be without end. No more than `window` items (1,024 by default) are read whose results have not
        been taken: what takes the results slowly slows the reading. The items are read in the thread that takes them.
        A task that fails raises its exception in the place of its result, and the others are canceled; so are they by
        `close()`, by an interrupt, and when the returned iterator is dropped. `timeout` bounds the whole, in seconds.

        Raises TypeError for a call that cannot fit, ValueError for a window below 1, TimeoutError.
        """
        from scaler.client.submitting.streaming import Results, window_of  # few programs stream

        options = options_of(capabilities, priority, retries, None, lost_processors_limit)
        end_at = end_of(timeout)
        calls, items, most = self._ready(), unpacked(fn, iterables), window_of(window)
        run = partial(MapRun, calls, fn, items, options, is_changed=reserialize, window=most)
        return Results(lambda gathering: run(gathering=gathering), calls, end_at, is_ordered=ordered, keeper=self)

    @overload
    def stream(self, fn: Callable[P, Iterable[T]], /, *args: P.args, **kwargs: P.kwargs) -> ScalerStream[T]: ...
    @overload
    def stream(  # type: ignore[overload-cannot-match]  # it does: with a window
        self, fn: Callable[..., Iterable[T]], /, *args: Any, window: int, **kwargs: Any
    ) -> ScalerStream[T]: ...
    def stream(self, fn: Callable[..., Iterable[Any]], /, *args: Any, **kwargs: Any) -> ScalerStream[Any]:
        """Run `fn(*args, **kwargs)`, which returns an iterator, such as a generator function, and iterate over its
        values while it runs.

        The generator runs at most `window` values (16 by default) ahead of those that were taken, and waits there.
        `window=` is taken off, unless the function has such a parameter; then `stream_verbose` takes it.
        The generator is stopped, and its `finally` blocks run, by `cancel()`, by leaving a `with` block of the stream,
        and when the stream is dropped. It is never begun a second time: what keeps it from going on is raised behind
        the values that it had yielded. Up to 4,096 streams of a client may be open.

        Raises TypeError for a call that cannot fit, ValueError for a window that is not from 1 to 65,536.
        """
        window = None
        if "window" in kwargs and not _takes(fn, "window"):
            window = kwargs.pop("window")
        return self._stream(fn, args, kwargs, NO_OPTIONS, window)

    def stream_verbose(
        self,
        fn: Callable[..., Iterable[T]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        window: int | None = None,
        capabilities: dict[str, int] | None = None,
        priority: int = 0,
        timeout: float | None = None,
    ) -> ScalerStream[T]:
        """As `stream`, saying where and how the generator shall run. `timeout` bounds its running time, in seconds,
        with the time in which it waits for values to be taken."""
        options = options_of(capabilities, priority, 0, timeout)
        return self._stream(fn, tuple(args), dict(kwargs), options, window)

    def _stream(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: CallOptions,
        window: int | None,
    ) -> ScalerStream[Any]:
        from scaler.client.submitting.streams import WINDOW, ScalerStream, window_of  # few programs stream

        most = WINDOW if window is None else window_of(window)
        options = options._replace(lost_processors_limit=1)  # a generator is not begun a second time (CLI-27)
        return ScalerStream(self._ready(), function, args, kwargs, options, most, keeper=self)

    def as_completed(self, futures: Iterable[F], timeout: float | None = None) -> Iterator[F]:
        """The futures in the order in which they end: `concurrent.futures.as_completed`."""
        ended: Iterator[Any] = concurrent.futures.as_completed(futures, timeout)
        return ended

    @overload
    def get(
        self, graph: Any, keys: list[str], block: Literal[True] = True, **options: Unpack[GetOptions]
    ) -> dict[str, Any]: ...
    @overload
    def get(
        self, graph: Any, keys: list[str], block: Literal[False], **options: Unpack[GetOptions]
    ) -> dict[str, ScalerFuture[Any]]: ...
    @overload
    def get(self, graph: Any, keys: Any, block: bool = True, **options: Unpack[GetOptions]) -> Any: ...
    def get(
        self,
        graph: Any,
        keys: Any,
        block: bool = True,
        capabilities: dict[str, int] | None = None,
        priority: int = 0,
        retries: int = 0,
        timeout: float | None = None,
        reserialize: bool = False,
        lost_processors_limit: int | None = None,
    ) -> Any:
        """The values of these nodes of a graph, or their futures when `block` is False.

        Of a dict with strings as keys: a dict, in the order of `keys`. Of Dask's graphs: a list in the shape of `keys`.
        For a single key, its value. `timeout` bounds the wait for all; the other keywords apply to every node.
        """
        options = options_of(capabilities, priority, retries, None, lost_processors_limit)
        end_at = end_of(timeout)
        if timeout is not None and not block:
            raise ValueError("timeout bounds the wait of get(): with block=False give it to the futures' result()")
        run = GraphRun(self._ready(), graph, keys, options, is_changed=reserialize, keeper=self)
        return run.results(end_at) if block else run.futures()

    def send_object(self, obj: T, name: str | bytes | None = None) -> ObjectReference[T]:
        """Store an object once; pass the reference to any number of tasks in its place."""
        return self._ready().send_object(obj, name)

    def explain(self, future: ScalerFuture[Any] | str) -> str:
        """Why this task has not ended: one sentence, from the scheduler's point of view.

        Takes a future of this client, or the id of one of its tasks as a text: the short form, such as "648752af:9", or
        all 32 hexadecimal digits. Raises TypeError for anything else, ValueError for a text that is no id and for a
        future of another client.
        """
        task_id, known = self._known_of(future, "explain")
        return known or self._ready().connection.questions.sentence_on(task_id)

    def stack(self, future: ScalerFuture[Any] | str) -> TaskStack:
        """Where a running task is in its code now: names of files and functions and lines of code, no values.

        Of a task that does not run, the `text` is empty and `reason` is a sentence. The question goes through the
        scheduler and the task's worker, and is answered within some seconds (SCH-93); the task itself loses about a
        millisecond. Takes what `explain` takes, and raises the same.
        """
        from scaler.client.futures.stacks import stack_of, without_stack

        task_id, known = self._known_of(future, "stack")
        if known:
            has_ended = isinstance(future, ScalerFuture) and future.done()
            return without_stack(known, "ended" if has_ended else "waiting" if task_id else "")
        return stack_of(self._ready().connection.questions.stack_of(task_id))

    def _known_of(self, task: ScalerFuture[Any] | str, asked: str) -> tuple[TaskId, str]:
        """Which task it is, and a sentence if nothing more need be asked of the scheduler."""
        if not isinstance(task, ScalerFuture | str):
            kind = type(task).__name__
            raise TypeError(f"{asked}() takes a future of this client, or the id of a task as a text, got {kind}")
        if isinstance(task, ScalerFuture) and task.done():
            return task.task_id, "it was canceled" if task.cancelled() else "it has ended: ask for its result"
        connection = self._ready().connection
        if isinstance(task, str):
            found = connection.questions.named(task, tuple(connection.deferred))
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


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        return _declares(function, name)
    except TypeError:  # not hashable
        return _declares.__wrapped__(function, name)


@lru_cache(maxsize=256)
def _declares(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (ValueError, TypeError):  # builtins without a signature
        return False
