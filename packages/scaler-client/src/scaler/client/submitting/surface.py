"""What a program asks of a client: to run calls, maps and graphs, and to store objects. The theory of the types is in
`scaler.client.submitting.options`."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from scaler.client.future import ScalerFuture
from scaler.client.futures.asking import Asking
from scaler.client.futures.progress import of_map
from scaler.client.graph.run import GraphRun
from scaler.client.object_reference import ObjectReference
from scaler.client.submitting.mapping import MapRun, unpacked
from scaler.client.submitting.options import NO_OPTIONS, CallOptions, end_of, options_of
from scaler.client.submitting.signatures import check_call, check_options, takes

if TYPE_CHECKING:
    from typing import Concatenate

    from typing_extensions import Unpack

    from scaler.client.submitting.calls import Calls
    from scaler.client.submitting.named import NamedCalls
    from scaler.client.submitting.options import Argument, GetOptions, ImapOptions, MapOptions, StarmapOptions
    from scaler.client.submitting.streaming import Results
    from scaler.client.submitting.streams import ScalerStream

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class Submitting(Asking, concurrent.futures.Executor):
    """The calls of a client. Its life is in `scaler.client.client`."""

    _named: NamedCalls | None

    if TYPE_CHECKING:

        def _ready(self) -> Calls: ...

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
        """Run `fn(*args, **kwargs)` in the cluster, and return its future at once.

        Args:
            fn: any callable that can be pickled; functions and lambdas of your main program can.
            *args: its arguments. A future or an `ObjectReference` stands for its value.
            **kwargs: the same by name. `profiling` is taken off, unless `fn` has such a parameter: it has no effect.

        Raises:
            TypeError: `fn` cannot be called like this, is async, or it or an argument cannot be pickled.
            ClientQuitException: the client is disconnected.
            ObjectStorageException: a large argument cannot be stored.
            MissingObjects: a reference was released, or is another client's.
        """
        if "profiling" in kwargs and not takes(fn, "profiling"):
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
        """As `submit`, with options for this task.

        Args:
            fn: as for `submit`.
            args: the arguments, as a tuple.
            kwargs: the arguments by name, as a dict.
            capabilities: what a worker must offer, such as `{"gpu": 1}`; the amount -1 is any. None: nothing.
            priority: a whole number from -2**31; tasks of higher priority begin earlier.
            retries: how often a task is run again that raised an exception: 0 to 65,534.
            timeout: seconds for which the task may run, 0 or more; it fails with TaskTimeoutError then. None: no limit.
            reserialize: True if the function has changed since it was last submitted.
            lost_processors_limit: the task fails with ProcessorDiedError when so many processes that ran it have died,
                from 1 (at the first). None: the scheduler's `--lost-processors-limit`, 3 by default.

        Raises:
            TypeError: as for `submit`, and for an option of another type.
            ValueError: an option is out of its range.
            ClientQuitException, ObjectStorageException, MissingObjects: as for `submit`.
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
        """Run a function that workers know by its name, in whatever language they are. Its arguments and its result are
        bytes. Python's workers get such functions by `scaler_cluster --functions`.

        Args:
            name: the name of the function.
            *args: its arguments, as bytes.
            capabilities: what a worker must offer, such as `{"gpu": 1}`; the amount -1 is any. Name one that only
                workers with this function offer, if there are others.
            priority: a whole number from -2**31; tasks of higher priority begin earlier.
            retries: how often a task is run again that raised an exception: 0 to 65,534.
            timeout: seconds for which the task may run. None: no limit.
            lost_processors_limit: from 1: as for `submit_verbose`.

        Raises:
            TypeError: an argument is not bytes, or an option has another type.
            ValueError: an option is out of its range.
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
        is_changed: bool = False,
    ) -> ScalerFuture[Any]:
        check_call(function, len(args), kwargs)
        calls, name = self._ready(), getattr(function, "__name__", "")
        connection = calls.connection
        task_id = connection.new_task_ids(1)[0]
        future: ScalerFuture[Any] = ScalerFuture(task_id, connection, self._serializer, self, name)
        callee, arguments = calls.callee(function, args, is_changed=is_changed)
        try:
            calls.submit(callee, arguments, kwargs, options, task_id, future)
        except BaseException:
            connection.cancel((task_id,))  # it may have been sent, and the program has no future of it
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
        **others: Any,
    ) -> list[T]:
        """The results of `fn` over the iterables, in order, when all are there.

        Iterables are read while tasks end. The first task that fails raises its exception; the others are canceled.

        Args:
            fn: as for `submit`.
            *iterables: one for each parameter of `fn`; the shortest decides.
            capabilities: what a worker must offer, such as `{"gpu": 1}`; the amount -1 is any. None: nothing.
            priority: a whole number from -2**31; tasks of higher priority begin earlier.
            retries: how often a task is run again that raised an exception: 0 to 65,534.
            timeout: seconds for the whole map. None: no limit.
            chunksize: accepted as by other executors, without effect.
            reserialize: True if the function has changed since it was last submitted.
            progress: True, or a text to put in front, shows a bar (needs the extra `progress`).
            buffersize: accepted as by other executors, without effect.
            lost_processors_limit: from 1: as for `submit_verbose`.
            **others: there are none: the TypeError for a name says how to give each call the same value.

        Raises:
            Exception: of the first task that failed, or one of `submit`.
            TimeoutError: not all results were there in time; the tasks are canceled.
            CancelledError: `clear` or `disconnect` was called in another thread.
            ValueError: an option is out of its range.
        """
        check_options("map", fn, others)
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
        **others: Any,
    ) -> list[T]:
        """As `map`, over tuples of arguments.

        Args:
            fn: as for `submit`.
            iterable: a tuple of arguments for each call.
            capabilities: what a worker must offer, such as `{"gpu": 1}`; the amount -1 is any. None: nothing.
            priority: a whole number from -2**31; tasks of higher priority begin earlier.
            retries: how often a task is run again that raised an exception: 0 to 65,534.
            timeout: seconds for the whole map. None: no limit.
            reserialize: True if the function has changed since it was last submitted.
            progress: True, or a text to put in front, shows a bar (needs the extra `progress`).
            lost_processors_limit: from 1: as for `submit_verbose`.
            **others: there are none: the TypeError for a name says how to give each call the same value.

        Raises:
            Exception: as for `map`.
        """
        check_options("starmap", fn, others)
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
        **others: Any,
    ) -> Results[T]:
        """As `map`, result by result.

        The iterables may be endless. They are read in the thread that takes the results. A task that fails raises its
        exception in place of its result, and the others are canceled; so are they by `close()`, by an interrupt, and
        when the returned iterator is dropped.

        Args:
            fn: as for `submit`.
            *iterables: one for each parameter of `fn`; the shortest decides.
            ordered: results in the order of the items; False: in the order in which tasks end.
            window: how many items are read whose results have not been taken, from 1. None: 1,024.
            capabilities: what a worker must offer, such as `{"gpu": 1}`; the amount -1 is any. None: nothing.
            priority: a whole number from -2**31; tasks of higher priority begin earlier.
            retries: how often a task is run again that raised an exception: 0 to 65,534.
            timeout: seconds for all results together. None: no limit.
            reserialize: True if the function has changed since it was last submitted.
            lost_processors_limit: from 1: as for `submit_verbose`.
            **others: there are none: the TypeError for a name says how to give each call the same value.

        Raises:
            TypeError: `fn` cannot be called like this.
            ValueError: an option is out of its range.
            TimeoutError: by the iterator, if not all results were there in time.
        """
        from scaler.client.submitting.streaming import Results, window_of  # few programs stream

        check_options("imap", fn, others)
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
        """Run a generator in the cluster, and iterate over its values while it runs.

        `cancel()`, leaving a `with` block of the stream, and dropping the stream stop the generator, and its `finally`
        blocks run. It is never begun a second time: an error comes behind the values that it had yielded.

        Args:
            fn: a generator function, or one that returns an iterable.
            *args: its arguments, as for `submit`.
            **kwargs: the same by name. `window` is taken off, unless `fn` has such a parameter: how many values the
                generator may be ahead of those that were taken, 1 to 65,536, 16 by default.

        Raises:
            TypeError: `fn` cannot be called like this.
            ValueError: the window is out of its range.
            RuntimeError: 4,096 streams of this client are open.
        """
        window = None
        if "window" in kwargs and not takes(fn, "window"):
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
        """As `stream`, with options for this generator.

        Args:
            fn: as for `stream`.
            args: the arguments, as a tuple.
            kwargs: the arguments by name, as a dict.
            window: how many values the generator may be ahead of those that were taken, 1 to 65,536. None: 16.
            capabilities: what a worker must offer, such as `{"gpu": 1}`; the amount -1 is any. None: nothing.
            priority: a whole number from -2**31; tasks of higher priority begin earlier.
            timeout: seconds for which the generator may run, with the time in which it waits for the program.

        Raises:
            TypeError: as for `stream`.
            ValueError: an option is out of its range.
            RuntimeError: as for `stream`.
        """
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
        """The values of these nodes of a graph, or their futures.

        Args:
            graph: a dict of nodes by their names, or a graph of Dask.
            keys: a list of nodes: the result is a dict, for Dask's graphs a list. A single node: its value.
            block: wait for the values; False: return futures in their place.
            capabilities: what a worker must offer, such as `{"gpu": 1}`; the amount -1 is any. None: nothing.
            priority: a whole number from -2**31; tasks of higher priority begin earlier.
            retries: how often a node is run again that raised an exception: 0 to 65,534.
            timeout: seconds for all nodes, only with `block`. None: no limit.
            reserialize: True if a function has changed since it was last submitted.
            lost_processors_limit: from 1: as for `submit_verbose`.

        Raises:
            Exception: of the first node that failed, or one of `submit`.
            KeyError: a key is missing, or is named twice.
            graphlib.CycleError: nodes depend on each other in a circle.
            TimeoutError: the nodes have not ended in time; they are canceled.
            ValueError: an option is out of its range, or there is a timeout without `block`.
        """
        options = options_of(capabilities, priority, retries, None, lost_processors_limit)
        end_at = end_of(timeout)
        if timeout is not None and not block:
            raise ValueError("timeout bounds the wait of get(): with block=False give it to the futures' result()")
        run = GraphRun(self._ready(), graph, keys, options, is_changed=reserialize, keeper=self)
        return run.results(end_at) if block else run.futures()

    def send_object(self, obj: T, name: str | bytes | None = None) -> ObjectReference[T]:
        """Store an object once; pass the reference to any number of tasks in its place.

        Args:
            obj: anything that can be pickled.
            name: shown in `repr` and in tools. None: the name of its type.

        Raises:
            TypeError: the object cannot be pickled.
            ObjectStorageException: the storage is full or cannot be reached.
        """
        return self._ready().send_object(obj, name)
