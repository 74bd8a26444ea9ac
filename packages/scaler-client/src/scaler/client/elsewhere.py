"""What methods of other libraries' clients are called here, for the error of a program that was written for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, TypeVar

T = TypeVar("T")

CALLED_HERE = {
    "apply": "submit(function, *arguments).result()",
    "apply_async": "submit(function, *arguments)",
    "call_stack": "stack(future)",
    "cancel": "future.cancel(), or clear() for all",
    "close": "disconnect(), or leave `with`",
    "compute": "dask.compute(x, scheduler=client)",
    "gather": "[future.result() for future in futures]; map() returns results already",
    "get_dataset": "an ObjectReference, which send_object(x, name=...) returned",
    "get_versions": "submit(platform.python_version), and pip's list in a task",
    "get_worker_logs": "Client(..., stream_output=True) for what tasks print; workers log into --logging-paths",
    "get_executor": "the client itself, which is a concurrent.futures.Executor",
    "imap_unordered": "imap(function, items, ordered=False)",
    "join": "shutdown(wait=True)",
    "map_async": "imap(function, items), or submit(function, item) for each item",
    "ncores": "cluster_info()",
    "nthreads": "cluster_info()",
    "options": "submit_verbose(function, args, kwargs, priority=..., retries=..., timeout=..., capabilities=...)",
    "persist": "dask.compute(x, scheduler=client), or send_object(x)",
    "processing": "cluster_info(), or the page (scaler_ui)",
    "profile": "the page (scaler_ui) or scaler_top; future.profiling_info() for one task",
    "publish_dataset": "send_object(x, name=...)",
    "put": "send_object(x)",
    "register_plugin": "scaler.worker_state",
    "remote": "submit(function, ...)",
    "replicate": "send_object(x): each worker fetches it once",
    "restart": "clear(), which cancels all tasks; a new cluster has new processes",
    "retry": "submit_verbose(function, args, kwargs, retries=...)",
    "run": "submit(function) for one worker; scaler.worker_state for what each process makes once",
    "scatter": "send_object(x)",
    "scheduler_info": "cluster_info()",
    "start_worker": "the command scaler_cluster -n N ADDRESS",
    "story": "explain(future)",
    "starmap_async": "submit(function, *arguments) for each tuple",
    "terminate": "disconnect()",
    "upload_file": 'send_code("mine.py")',
    "wait": "concurrent.futures.wait(futures)",
    "who_has": "the page (scaler_ui), view Objects; values are in the object storage, not on workers",
    "wait_for_workers": "cluster_info().worker_count; tasks wait until there are workers",
}


class Elsewhere:
    """An attribute that is not there. Each name has a descriptor, because `__getattr__` would make every attribute of
    the class slower to read."""

    def __init__(self, name: str, here: str) -> None:
        self._name = name
        self._text = f"has no attribute {name!r}; in Scaler it is {here} (docs: migration)"

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__!r} {self._text}", name=self._name, obj=instance)


OF_FUTURES = {
    "get": "result()",
    "key": "task_id",
    "release": "del future: its value is freed when the program drops it",
    "retry": "submit(...) once more, or submit_verbose(function, args, kwargs, retries=...)",
    "status": "done(), cancelled() and has_failed()",
    "traceback": "exception().__cause__",
}

OF_CLUSTERS = {
    "adapt": "a worker manager, which starts and ends workers as they are needed: scaler_worker_manager",
    "close": "shutdown(), or leave `with`",
    "scheduler_address": "get_address()",
    "scale": "n_workers=..., from the start; scaler_cluster -n N ADDRESS adds workers to it",
}

OF_THE_MODULE = {
    "LocalCluster": "client = scaler.local(workers=N), or scaler.SchedulerClusterCombo(n_workers=N)",
    "ProcessPoolExecutor": "client = scaler.local(workers=N), which is an executor",
    "get": "future.result(), or client.get(graph, keys)",
    "init": "client = scaler.local(), or scaler.Client(address)",
    "put": "client.send_object(x)",
    "remote": "client.submit(function, *arguments)",
    "shutdown": "client.disconnect(), or leave `with`",
    "wait": "concurrent.futures.wait(futures)",
}


def instead_of(name: str) -> str:
    """Returns the end of the sentence about an attribute that the module `scaler` does not have. Empty: no hint."""
    return f"; in Scaler it is {OF_THE_MODULE[name]}" if name in OF_THE_MODULE else ""


def explain_missing(kind: type[T], names: Mapping[str, str] = CALLED_HERE) -> type[T]:
    """A decorator: the class says so of each of these names that it has not."""
    for name, here in names.items():
        assert not hasattr(kind, name), f"{kind.__name__} has {name}"
        setattr(kind, name, Elsewhere(name, here))
    return kind
