from scaler import Client, SchedulerClusterCombo


def greet(name):
    print(f"hello, {name}")


cluster = SchedulerClusterCombo(n_workers=1, logging_level="WARNING")

with Client(address=cluster.get_address(), stream_output=True) as client:
    client.submit(greet, "world").result()

cluster.shutdown()
