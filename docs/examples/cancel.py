import time

from scaler import Client, SchedulerClusterCombo

cluster = SchedulerClusterCombo(n_workers=1, logging_level="WARNING")

with Client(address=cluster.get_address()) as client:
    running = client.submit(time.sleep, 600)
    queued = client.submit(time.sleep, 600)
    finished = client.submit_verbose(abs, (-1,), {}, priority=1)

    # A queued task is dropped; a running one is interrupted, and killed when it does not listen.
    print(queued.cancel(), running.cancel(), running.cancelled())

    print(finished.result())
    print(finished.cancel())  # too late

cluster.shutdown()
