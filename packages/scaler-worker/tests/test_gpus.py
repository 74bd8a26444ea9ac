"""Which GPUs there are, and which worker gets which."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler_protocol.process import UsageError
from scaler_worker.config import parse_arguments
from scaler_worker.gpus import AMD, NVIDIA, Gpus, find_gpus, parse_gpus


def nvidia(root: Path, *numbers: int) -> None:
    (root / "dev").mkdir()
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in numbers)):
        (root / "dev" / name).touch()


def amd(root: Path, *ids: str) -> None:
    for number, text in enumerate(ids):
        node = root / "sys/class/kfd/kfd/topology/nodes" / str(number)
        node.mkdir(parents=True)
        (node / "gpu_id").write_text(text)


def test_devices_of_the_host_are_found(tmp_path: Path) -> None:
    assert find_gpus("auto", {}, tmp_path) == Gpus(NVIDIA, ())
    nvidia(tmp_path, 10, 2, 0)
    assert find_gpus("auto", {}, tmp_path) == Gpus(NVIDIA, ("0", "2", "10"))


def test_processors_are_no_gpus_of_amd(tmp_path: Path) -> None:
    amd(tmp_path, "0\n", "51002\n", "51003\n")
    assert find_gpus("auto", {}, tmp_path) == Gpus(AMD, ("0", "1"))
    assert find_gpus("1", {}, tmp_path) == Gpus(AMD, ("1",))


@pytest.mark.parametrize(
    ("given", "ids"),
    [("3,1", ("3", "1")), ("GPU-8932f937-d72c,MIG-1/2/3", ("GPU-8932f937-d72c", "MIG-1/2/3")), ("", ()), ("-1", ())],
)
def test_a_batch_system_has_the_first_word(tmp_path: Path, given: str, ids: tuple[str, ...]) -> None:
    nvidia(tmp_path, 0, 1, 2, 3)
    assert find_gpus("auto", {NVIDIA: given}, tmp_path).ids == ids
    assert find_gpus("2", {NVIDIA: given}, tmp_path).ids == ("2",)


def test_a_selection_of_hip_is_one_of_the_devices_that_are_shown() -> None:
    assert Gpus(AMD, ("2", "5")).environment(("5",)) == {AMD: "5", "HIP_VISIBLE_DEVICES": "0"}
    assert Gpus(AMD, ("2", "5")).environment(()) == {AMD: "", "HIP_VISIBLE_DEVICES": ""}
    assert Gpus(NVIDIA, ("2", "5")).environment(("2", "5")) == {NVIDIA: "2,5"}


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_device_is_of_one_worker(count: int) -> None:
    gpus = Gpus(NVIDIA, ("0", "1", "2"))
    shares = [gpus.of_worker(index, count) for index in range(count)]
    assert sorted(one for share in shares for one in share) == ["0", "1", "2"]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("text", ["", "0,,1", "0,0", "all of them", "auto,0 "])
def test_what_names_no_devices_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="say auto, or name devices"):
        parse_gpus(text)


def test_gpus_are_counted_once() -> None:
    assert parse_arguments(["tcp://127.0.0.1:2345", "--gpus", "0,1"]).gpus == "0,1"
    with pytest.raises(UsageError, match="take it out of --per-worker-capabilities"):
        parse_arguments(["tcp://127.0.0.1:2345", "--gpus", "auto", "--per-worker-capabilities", "gpu=1"])
