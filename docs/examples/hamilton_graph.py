import sys

from hamilton import driver
from hamilton.execution import executors
from hamilton.htypes import Collect, Parallelizable

import scaler


def city() -> Parallelizable[str]:
    yield from ("Lima", "Oslo", "Rome")


def letters(city: str) -> int:
    return len(set(city.lower()))


def total(letters: Collect[int]) -> int:
    return sum(letters)


class OnCluster(executors.PoolExecutor):
    def create_pool(self) -> scaler.Client:
        return client

    def finalize(self) -> None:
        """The client is not Hamilton's to shut down."""


with scaler.local(workers=2) as client:
    graph = (
        driver.Builder()
        .enable_dynamic_execution(allow_experimental_mode=True)
        .with_modules(sys.modules[__name__])
        .with_remote_executor(OnCluster(max_tasks=100))
        .build()
    )
    print("letters:", graph.execute(["total"])["total"])
