"""What methods of other libraries' clients are called here, for the error of a program that was written for one."""

from __future__ import annotations

from typing import NoReturn, TypeVar

T = TypeVar("T")

CALLED_HERE = {
    "apply": "submit(function, *arguments).result()",
    "apply_async": "submit(function, *arguments)",
    "cancel": "future.cancel(), or clear() for all",
    "close": "disconnect(), or leave `with`",
    "compute": "dask.compute(x, scheduler=client)",
    "gather": "[future.result() for future in futures]; map() returns results already",
    "get_executor": "the client itself, which is a concurrent.futures.Executor",
    "imap_unordered": "imap(function, items, ordered=False)",
    "join": "shutdown(wait=True)",
    "map_async": "imap(function, items), or submit(function, item) for each item",
    "ncores": "cluster_info()",
    "nthreads": "cluster_info()",
    "persist": "dask.compute(x, scheduler=client), or send_object(x)",
    "publish_dataset": "send_object(x, name=...)",
    "put": "send_object(x)",
    "register_plugin": "scaler.worker_state",
    "remote": "submit(function, ...)",
    "replicate": "send_object(x): each worker fetches it once",
    "retry": "submit_verbose(function, args, kwargs, retries=...)",
    "scatter": "send_object(x)",
    "scheduler_info": "cluster_info()",
    "starmap_async": "submit(function, *arguments) for each tuple",
    "terminate": "disconnect()",
    "upload_file": 'send_code("mine.py")',
    "wait": "concurrent.futures.wait(futures)",
    "wait_for_workers": "cluster_info().worker_count; tasks wait until there are workers",
}


class Elsewhere:
    """An attribute that is not there. Each name has a descriptor, because `__getattr__` would make every attribute of
    the class slower to read."""

    def __init__(self, name: str, here: str) -> None:
        self._name = name
        self._text = (
            f"has no attribute {name!r}; in Scaler it is {here} (docs: coming from Dask, Ray or an earlier Scaler)"
        )

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__!r} {self._text}", name=self._name, obj=instance)


def explain_missing(kind: type[T]) -> type[T]:
    """A decorator: the class says so of each of these names that it has not."""
    for name, here in CALLED_HERE.items():
        assert not hasattr(kind, name), f"{kind.__name__} has {name}"
        setattr(kind, name, Elsewhere(name, here))
    return kind
