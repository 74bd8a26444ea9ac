from scaler import Client, SchedulerClusterCombo

cluster = SchedulerClusterCombo(
    n_workers=1,
    per_worker_capabilities={"linux": -1, "gpu": 2},  # -1: it has it; 2: it has two of them
    logging_level="WARNING",
)

with Client(address=cluster.get_address()) as client:
    print(client.submit_verbose(round, (3.15,), {}, capabilities={"gpu": -1}).result())
    print(client.map(abs, [-1, -2], capabilities={"gpu": 2}))

    # No worker has it: the task waits until one joins that has, and delays no other task meanwhile.
    waiting = client.submit_verbose(abs, (-5,), {}, capabilities={"tape_drive": 1})
    print(client.explain(waiting))
    print(client.submit(abs, -3).result())
    print(waiting.cancel())

cluster.shutdown()
