import os
import time

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import ProcessorDiedError, TaskTimeoutError


def divide(left, right):
    return left / right


cluster = SchedulerClusterCombo(n_workers=1, logging_level="ERROR")

with Client(address=cluster.get_address()) as client:
    # A task's exception is raised where its result is asked for, with the frames of the task in its cause.
    failed = client.submit(divide, 1, 0)
    print(type(failed.exception()).__name__, "in divide" in str(failed.exception().__cause__))

    # A task that ends its process tells how.
    try:
        client.submit(os._exit, 3).result()
    except ProcessorDiedError as error:
        print("ProcessorDiedError:", error)

    # A task may be given a time, and may be tried again when it fails.
    try:
        client.submit_verbose(time.sleep, (600,), {}, timeout=0.5).result()
    except TaskTimeoutError:
        print("TaskTimeoutError")

    # All of this concerned these tasks only.
    print(client.submit(divide, 1, 4).result())

cluster.shutdown()
