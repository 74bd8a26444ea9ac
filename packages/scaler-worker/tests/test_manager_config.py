"""What a worker manager is told, and what it tells the workers it starts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields

import pytest

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Capability
from scaler_protocol.process import LoggingOptions, UsageError
from scaler_worker.adapter.config import parse_arguments as parse_adapter
from scaler_worker.code_sets.options import MODULES, CodeOptions
from scaler_worker.config import ClusterConfig, parse_arguments
from scaler_worker.manager.__main__ import main
from scaler_worker.manager.arguments import unit_arguments
from scaler_worker.manager.config import parse_native, parse_slurm

ADDRESS = "tcp://127.0.0.1:2345"


def test_a_unit_is_told_everything() -> None:
    """No field has its default, so one that is forgotten shows."""
    cluster = ClusterConfig(
        ADDRESS,
        ("u1", "u2"),
        (Capability("fpga", 2), Capability("linux")),
        queue_size=7,
        heartbeat_seconds=0.1,
        death_timeout_seconds=12.5,
        grace_seconds=0.25,
        task_timeout_seconds=3.0,
        present_seconds=7.5,
        object_retention_seconds=5.0,
        collect_seconds=6.0,
        trim_threshold_bytes=12345678,
        memory_bytes=1 << 31,
        tasks_per_processor=50,
        max_processors=9,
        shares_processors=True,
        suspends_hard=True,
        hides_streamed_output=True,
        gpus="4,5",
        storage_address="tcp://127.0.0.1:9999",
        preload="os:getpid()",
        functions=("json",),
        code=CodeOptions(MODULES, "/tmp/code", 1 << 20, 1 << 21, 2.5),
        io_threads=2,
        logging=LoggingOptions(("/dev/stderr", "a.log"), "DEBUG", None, "json"),
        manager_id=PeerId(bytes(range(16))),
        unit_id="abc-1",
    )
    plain = ClusterConfig(ADDRESS)
    forgotten = {field.name for field in fields(plain) if getattr(cluster, field.name) == getattr(plain, field.name)}
    # Not every machine has another loop. The devices of a worker are set in its own process.
    assert forgotten == {"address", "event_loop", "keys", "shown", "devices"}
    assert parse_arguments(unit_arguments(cluster)) == cluster


def test_a_manager_of_a_name_has_one_id() -> None:
    first, again, other = (
        parse_native([ADDRESS, "-wmi", name]).manager.manager_id for name in ("grid", "grid", "cloud")
    )
    assert first == again != other


@pytest.mark.parametrize(
    "options, announced, of_unit",
    [
        (["--gres", "gpu:2", "--workers-per-job", "2"], {"gpu": 1}, {}),
        (["--gres", "gpu:a:3,gpu:b:1(S:0),fpga:2", "--workers-per-job", "2"], {"gpu": 2, "fpga": 1}, {"fpga": 1}),
        (["--gres", "gpu", "--partition", "gpu"], {"gpu": 1}, {}),
        (["--gres", "gpu:1", "-pwc", "linux"], {"gpu": 1, "linux": -1}, {"linux": -1}),
    ],
)
def test_workers_of_a_job_count_its_gpus_themselves(
    options: list[str], announced: dict[str, int], of_unit: dict[str, int]
) -> None:
    """Slurm chooses the devices when the job begins. The manager announces how many a worker will have."""
    config = parse_slurm([ADDRESS, "-mtc", "8", *options])
    unit = parse_arguments(unit_arguments(config.cluster))
    assert {one.name: one.amount for one in config.manager.capabilities} == announced
    assert {one.name: one.amount for one in unit.capabilities} == of_unit and unit.gpus == "auto"


def test_workers_of_a_manager_share_the_gpus_of_its_host_equally() -> None:
    native = parse_native([ADDRESS, "-mtc", "2", "--gpus", "0,1,2,3", "-pwc", "linux"])
    adapter = parse_adapter([ADDRESS, "--insecure", "-mw", "2", "--gpus", "0,1,2,3", "-pwc", "linux"])
    assert native.shares == adapter.shares == ("0,2", "1,3")
    assert native.manager.capabilities == (Capability("linux"), Capability("gpu", 2))
    assert native.cluster.capabilities == adapter.cluster.capabilities == (Capability("linux"),)
    fixed = parse_native([ADDRESS, "--mode", "fixed", "-mtc", "2", "--gpus", "0,1"])
    assert fixed.is_fixed and fixed.cluster.gpus == "0,1" and fixed.cluster.worker_names == ("0", "1")


@pytest.mark.parametrize("options", [[], ["--gpus", "auto"]])
def test_workers_of_a_host_without_gpus_offer_none(
    options: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator who asks for GPUs is told that there are none: tasks that want one wait for another host."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "")
    native = parse_native([ADDRESS, "-mtc", "2", *options])
    assert native.shares == () == native.manager.capabilities
    parse_adapter([ADDRESS, "--insecure", "-mw", "2", *options])
    told = [f"--gpus {options[1]}: no GPU was found on this host, so no worker offers one"] if options else []
    assert [record.getMessage() for record in caplog.records] == 2 * told


@pytest.mark.parametrize(
    "parse, options, text",
    [
        (
            parse_native,
            ["-mtc", "4", "--gpus", "0,1"],
            "2 GPUs cannot be shared equally by 4 workers: set --max-task-con",
        ),
        (parse_native, ["-mtc", "2", "--gpus", "0,1,2"], "3 GPUs cannot be shared equally by 2 workers"),
        (parse_native, ["-mtc", "1", "--gpus", "0", "-pwc", "gpu=1"], "take it out of --per-worker-capabilities"),
        (parse_adapter, ["-mw", "-1", "--gpus", "0"], "by any number of workers: set --max-workers to 1, or"),
        (parse_adapter, ["-mw", "1", "--gpus", "0", "-pwc", "gpu=1"], "take it out of --per-worker-capabilities"),
    ],
)
def test_gpus_that_no_manager_could_offer_are_refused(
    parse: Callable[[list[str]], object], options: list[str], text: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        parse([ADDRESS, "--insecure", *options])


@pytest.mark.parametrize("options", [["--partition", "gpu"], ["-pwc", "gpu=2"], ["--gres", "fpga:1"]])
def test_workers_of_a_job_without_gpus_look_for_none(options: list[str]) -> None:
    config = parse_slurm([ADDRESS, *options])
    assert config.cluster.gpus == "" and config.cluster.capabilities == config.manager.capabilities


@pytest.mark.parametrize(
    "options, text",
    [
        (["--gres", "gpu:2", "--workers-per-job", "4"], "2 gpu cannot be shared equally by 4 workers"),
        (["--gres", "gpu:3", "--workers-per-job", "2"], "3 gpu cannot be shared equally by 2 workers"),
        (["--gres", "fpga:1", "--workers-per-job", "2"], "name its amount in --per-worker-capabilities fpga=N"),
        (["--gres", "gpu:2", "-pwc", "gpu=1"], "take it out of --per-worker-capabilities"),
    ],
)
def test_resources_that_no_worker_could_have_are_refused(options: list[str], text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        parse_slurm([ADDRESS, "-mtc", "8", *options])


def test_an_operator_says_what_workers_have_of_a_resource_that_they_share() -> None:
    config = parse_slurm([ADDRESS, "-mtc", "8", "--gres", "fpga:1", "--workers-per-job", "2", "-pwc", "fpga=1"])
    assert config.cluster.capabilities == (Capability("fpga", 1),)


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["cloud", ADDRESS], "there are no workers of kind 'cloud'; one of: baremetal_native"),
        (["baremetal_native", "localhost:1"], "write it like tcp://"),
        (["baremetal_native", ADDRESS, "-mtc", "0"], "not a whole number above zero"),
    ],
)
def test_mistakes(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(arguments)
    except SystemExit as error:
        code = error.code  # type: ignore[assignment]
    assert code == 2 and text in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "u1", "00:u1", "0" * 32 + ":", "x" * 32 + ":u1"])
def test_a_unit_that_cannot_be_read(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments([ADDRESS, f"--unit={text}"])
    assert "is not of the form MANAGER:UNIT" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["1", "32MiB", "65535K"])
def test_a_limit_below_what_a_processor_needs_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["tcp://127.0.0.1:1", "--memory-per-processor", text])
    assert "give at least 64MiB" in capsys.readouterr().err
    assert parse_arguments(["tcp://127.0.0.1:1", "--memory-per-processor", "64MiB"]).memory_bytes == 64 << 20
