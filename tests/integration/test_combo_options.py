"""Every argument of the local cluster reaches commands that accept it: with all of them it starts and works."""

import importlib.util
from pathlib import Path

from scaler import Client, SchedulerClusterCombo

LOOP = "uvloop" if importlib.util.find_spec("uvloop") else "builtin"


def test_a_cluster_with_every_option_works(tmp_path: Path) -> None:
    combo = SchedulerClusterCombo(
        n_workers=1,
        per_worker_capabilities={"linux": -1, "gpu": 2},
        worker_io_threads=2,
        scheduler_io_threads=2,
        max_number_of_tasks_waiting=100_000,
        lost_processors_limit=2,
        heartbeat_interval_seconds=1,
        client_timeout_seconds=30,
        worker_timeout_seconds=30,
        object_retention_seconds=30,
        task_timeout_seconds=60,
        death_timeout_seconds=60,
        load_balance_seconds=2,
        load_balance_trigger_times=3,
        garbage_collect_interval_seconds=20,
        trim_memory_threshold_bytes=1 << 20,
        per_worker_task_queue_size=10,
        hard_processor_suspend=True,
        protected=False,
        allocate_policy="capability",
        event_loop=LOOP,
        logging_paths=(str(tmp_path / "cluster.log"),),
        logging_level="INFO",
        memory_limit=1 << 28,
        spill_directory=tmp_path / "spill",
        disk_limit=1 << 30,
        present_seconds=30,
    )
    with combo, Client(address=combo.get_address()) as client:
        assert client.map(abs, range(-50, 0)) == list(range(50, 0, -1))
    assert (tmp_path / "cluster.log").read_text().count(f"use event loop: {LOOP}\n") >= 2
