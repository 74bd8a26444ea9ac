"""How far many tasks are, for people who wait for them: a bar in a terminal, or in a notebook."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import IO, Any, TypeVar

from scaler.client.future import ScalerFuture

_NOT_YET_SECONDS = 1e-9
"""tqdm's constructor draws no bar that has a delay."""

F = TypeVar("F", bound=concurrent.futures.Future[Any])


def progress(futures: Iterable[F], description: str = "tasks", *, file: IO[str] | None = None) -> list[F]:
    """Show a bar until all futures have ended, with the number of failed and canceled ones. Returns them in order::

        values = [future.result() for future in scaler.progress(futures)]

    It does not raise the tasks' exceptions, and Ctrl-C leaves the tasks running.

    Args:
        futures: of any client.
        description: a text in front of the bar.
        file: where a terminal's bar goes. None: standard error.

    Raises:
        ModuleNotFoundError: tqdm is not installed: `pip install 'scaler-client[progress]'`.
    """
    listed = list(futures)
    counts = {"failed": 0, "canceled": 0}
    with _bar(description, len(set(listed)), file) as bar:
        for future in concurrent.futures.as_completed(listed):
            how = _trouble(future)
            if how:
                counts[how] += 1
                bar.set_postfix_str(", ".join(f"{count} {name}" for name, count in counts.items() if count), False)
            bar.update()
    return listed


def _trouble(future: concurrent.futures.Future[Any]) -> str:
    if future.cancelled():
        return "canceled"
    has_failed = future.has_failed() if isinstance(future, ScalerFuture) else future.exception() is not None
    return "failed" if has_failed else ""


@contextmanager
def of_map(wanted: bool | str, iterables: tuple[Iterable[Any], ...]) -> Iterator[Callable[[int], None] | None]:
    """What a map tells how many of its tasks are done; None if no display is wanted. A text is the description."""
    if wanted is False:
        yield None
        return
    sizes = [len(one) for one in iterables if isinstance(one, Sized)]
    total = min(sizes) if sizes and len(sizes) == len(iterables) else None
    with _bar(wanted if isinstance(wanted, str) else "map", total, None) as bar:

        def tell(done_count: int) -> None:
            bar.update(done_count - bar.n)

        yield tell


@contextmanager
def _bar(description: str, total: int | None, file: IO[str] | None) -> Iterator[Any]:
    """A bar that is closed whatever happens. A bar that an interrupt left open would take its line for ever, and each
    bar of later would be drawn one line below. In a notebook every drawing waits for the output to be sent, which is
    where interrupts hit: so the first drawing is not left to tqdm's constructor, from which nothing is closed."""
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "a progress display needs tqdm: pip install 'scaler-client[progress]'", name="tqdm"
        ) from None
    options: dict[str, Any] = {"file": file, "unit": "task", "dynamic_ncols": True, "delay": _NOT_YET_SECONDS}
    with tqdm(desc=description, total=total, **options) as bar:
        try:
            bar.refresh()
        finally:
            bar.delay = 0  # else a bar of tasks that end at once would not be drawn to its end
        yield bar
