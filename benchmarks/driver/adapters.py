"""Every engine by the same few words: start, submit, map, graph, stop. Each as its own documentation shows it."""

import importlib.metadata
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.driver import tasks


class Unsupported(Exception):
    """The engine has no such thing: a dash in the table, not a failure."""


class Engine:
    distribution = ""

    def start(self, worker_count: int) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Something with `result()`."""
        raise NotImplementedError

    def map(self, function: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
        raise NotImplementedError

    def share(self, value: Any) -> Any:
        """A value that many tasks will use, sent once where the engine can."""
        return value

    def graph(self, graph: dict[str, Any], key: str) -> Any:
        raise Unsupported("no graphs")

    def plan(self, graph: dict[str, Any], key: str, with_graphblas: bool) -> int:
        """How many tasks the client would submit for this key."""
        raise Unsupported("nothing that plans graphs apart from running them")

    def fibonacci(self, n: int) -> int:
        raise Unsupported("tasks cannot submit tasks")

    def scheduler_id(self) -> int | None:
        """The process that schedules, where there is one."""
        return None

    def version(self) -> str:
        return importlib.metadata.version(self.distribution) if self.distribution else ""


class Pool(Engine):
    """The standard library's `ProcessPoolExecutor`."""

    def start(self, worker_count: int) -> None:
        from concurrent.futures import ProcessPoolExecutor

        self._pool = ProcessPoolExecutor(worker_count)

    def stop(self) -> None:
        self._pool.shutdown()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._pool.submit(function, *arguments)

    def map(self, function: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
        return list(self._pool.map(function, values))


class Loky(Pool):
    distribution = "loky"

    def start(self, worker_count: int) -> None:
        import loky

        self._pool = loky.ProcessPoolExecutor(worker_count)


class Scaler(Engine):
    """Any distribution that exposes `scaler.Client`: this one, an older one, or its predecessor."""

    def start(self, worker_count: int) -> None:
        from scaler import Client, SchedulerClusterCombo

        self._combo: Any = SchedulerClusterCombo(n_workers=worker_count)
        self._client: Any = Client(address=self._combo.get_address())

    def stop(self) -> None:
        self._client.disconnect()
        self._combo.shutdown()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.submit(function, *arguments)

    def map(self, function: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
        if hasattr(self._client, "starmap"):
            return list(self._client.map(function, values))
        return list(self._client.map(function, [(value,) for value in values]))

    def share(self, value: Any) -> Any:
        return self._client.send_object(value)

    def graph(self, graph: dict[str, Any], key: str) -> Any:
        return self._client.get(graph, keys=[key])[key]

    def plan(self, graph: dict[str, Any], key: str, with_graphblas: bool) -> int:
        try:
            from scaler.client.graph import nodes, plan, sparse
        except ImportError as error:
            raise Unsupported("another client") from error
        reader = nodes.Reader(graph)
        if not with_graphblas:
            return len(plan.plan(reader, [key]).functions)
        planned = sparse.sparse_plan(reader, [key])
        if planned is None:
            raise Unsupported("no python-graphblas in this interpreter")
        return len(planned.functions)

    def fibonacci(self, n: int) -> int:
        return int(self._client.submit(tasks.fibonacci_scaler, self._client, n).result())

    def scheduler_id(self) -> int | None:
        process = getattr(self._combo, "_scheduler", None)
        return getattr(process, "pid", None)

    def version(self) -> str:
        # An editable install lists no packages; ours is known by name.
        names = importlib.metadata.packages_distributions().get("scaler") or ["scaler-client"]
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in sorted(set(names)))


class Dask(Engine):
    distribution = "distributed"

    def start(self, worker_count: int) -> None:
        from distributed import Client, LocalCluster

        self._cluster: Any = LocalCluster(
            n_workers=worker_count, threads_per_worker=1, processes=True, dashboard_address=None
        )
        self._client: Any = Client(self._cluster)

    def stop(self) -> None:
        self._client.close()
        self._cluster.close()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.submit(function, *arguments, pure=False)

    def map(self, function: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
        return list(self._client.gather(self._client.map(function, list(values), pure=False)))

    def share(self, value: Any) -> Any:
        return self._client.scatter(value, broadcast=False)

    def graph(self, graph: dict[str, Any], key: str) -> Any:
        return self._client.get(graph, key)

    def fibonacci(self, n: int) -> int:
        return int(self.submit(tasks.fibonacci_dask, n).result())


class RayFuture:
    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def result(self) -> Any:
        import ray

        return ray.get(self.reference)


class Ray(Engine):
    distribution = "ray"

    def start(self, worker_count: int) -> None:
        import ray

        ray.init(num_cpus=worker_count, include_dashboard=False, log_to_driver=False, configure_logging=False)
        self._calls: dict[Callable[..., Any], Any] = {}

    def stop(self) -> None:
        import ray

        ray.shutdown()

    def _call(self, function: Callable[..., Any]) -> Any:
        import ray

        if function not in self._calls:
            self._calls[function] = ray.remote(function)
        return self._calls[function]

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return RayFuture(self._call(function).remote(*arguments))

    def map(self, function: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
        import ray

        call = self._call(function)
        return list(ray.get([call.remote(value) for value in values]))

    def share(self, value: Any) -> Any:
        import ray

        return ray.put(value)

    def graph(self, graph: dict[str, Any], key: str) -> Any:
        """Ray has no graph as data; references passed on are its way to say the same."""
        import ray

        made: dict[str, Any] = {}
        for name, node in graph.items():  # listed in the order of dependence
            is_task = isinstance(node, tuple)
            made[name] = self._call(node[0]).remote(*(made[each] for each in node[1:])) if is_task else node
        return ray.get(made[key])

    def fibonacci(self, n: int) -> int:
        return int(self.submit(tasks.fibonacci_ray, n).result())


ADAPTERS: dict[str, type[Engine]] = {
    "pool": Pool,
    "loky": Loky,
    "dask": Dask,
    "distributed": Dask,
    "ray": Ray,
    "scaler": Scaler,
}


def adapter_for(name: str) -> type[Engine]:
    """By the first word of the engine's name: `ray`, `dask-2024`; any other name is a dist that exposes `scaler`."""
    return ADAPTERS.get(name.partition("-")[0].lower(), Scaler)
