from scaler import Client, SchedulerClusterCombo


def busy(count):
    numbers = list(range(count))
    return sum(number * number for number in numbers)


cluster = SchedulerClusterCombo(n_workers=1, logging_level="WARNING")

with Client(address=cluster.get_address()) as client:
    future = client.submit(busy, 500_000)
    future.result()
    profile = future.profiling_info()
    print(profile.duration_s > 0, profile.cpu_time_s > 0, profile.memory_peak > 1_000_000)

    # The same by their other names: microseconds and bytes.
    print(profile.duration_us == profile.duration_s * 1e6, profile.peak_memory == profile.memory_peak)

cluster.shutdown()
