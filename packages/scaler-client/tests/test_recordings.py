"""What is recorded can be played, at any speed; what is no recording, or only half of one, is told in one line."""

from __future__ import annotations

import gzip
import json
import os
import signal
import stat
import struct
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.fake_publisher import FakePublisher
from tests.support.processes import WAIT

from scaler.monitoring import Condition, Playback, Recorder, Recording, RecordingError, Subscription
from scaler.top import __main__ as top
from scaler.trace import __main__ as trace
from scaler.ui import __main__ as ui
from scaler_protocol.codec import encode
from scaler_protocol.ids import PeerId, new_peer_id
from scaler_protocol.messages import ClusterStatus, Count, FunctionName, Message, SampleBlock, TaskSamples

STATUS = ClusterStatus(sequence=1, server_id=new_peer_id(), task_counts=(Count("queued", 3),))
FUNCTION = b"f" * 16
HEAD_BYTES = len(b"scaler-recording 1\n") + 8


def write(path: Path, *messages: Message) -> Path:
    recorder = Recorder(path)
    for message in messages:
        recorder.write("status", message)
    recorder.close()
    return path


def numbered(count: int) -> list[Message]:
    return [replace(STATUS, sequence=number) for number in range(count)]


def played(playback: Playback) -> list[int]:
    """Sequences of what is played until the end."""
    found = []
    while not playback.is_over:
        found += [one.message.sequence for one in playback.poll(0) if isinstance(one.message, ClusterStatus)]
    return found


@pytest.mark.parametrize("name", ["run.rec", "run.rec.gz"])
def test_a_recording_is_what_was_heard(tmp_path: Path, publisher: FakePublisher, name: str) -> None:
    recorder = Recorder(tmp_path / name)
    with Subscription(publisher.address, recorder=recorder) as subscription:
        while not publisher.watching:
            subscription.poll(0.02)
        publisher.publish(STATUS)
        subscription.first(WAIT)
    recorder.close()
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, "it has names and ids of others' tasks"
    before = time.time()
    playback = Playback(tmp_path / name, speed=0)
    (heard,) = playback.poll(5)
    assert heard.message == STATUS and playback.state.is_live
    assert before - 60 < heard.wall_at < before, "as it was then"
    assert playback.poll(0) == [] and playback.is_over
    assert playback.state.text == "this is the end of the recording"
    playback.close()


def test_speed(tmp_path: Path) -> None:
    """A hundred seconds, at a thousand times the speed: the last is due after a tenth of a second and not before."""
    path = write(tmp_path / "x", STATUS, STATUS)
    data = bytearray(path.read_bytes())
    second = HEAD_BYTES + (len(data) - HEAD_BYTES) // 2
    data[second : second + 8] = struct.pack("<Q", 100_000_000)
    path.write_bytes(data)
    playback = Playback(path, speed=1000)
    begun = time.monotonic()
    assert len(playback.poll(0.05)) == 1
    assert len(playback.poll(30)) == 1
    assert time.monotonic() - begun >= 0.1 - 0.01
    slow = Playback(path, speed=0.001)
    slow.poll(1)
    assert slow.poll(0) == [] and not slow.is_over
    for one in (playback, slow):
        one.close()


def each_second(path: Path, count: int) -> Path:
    """Status n was published at second n."""
    write(path, *numbered(count))
    data = bytearray(path.read_bytes())
    at = HEAD_BYTES
    for second in range(count):
        data[at : at + 8] = struct.pack("<Q", second * 1_000_000)
        _, topic_bytes, envelope_bytes = struct.unpack_from("<QHI", data, at)
        at += struct.calcsize("<QHI") + topic_bytes + envelope_bytes
    path.write_bytes(data)
    return path


def jumped(playback: Playback) -> list[int]:
    """What is heard until it is where it was sent."""
    there: list[bool] = []
    playback.on_jump = there.append
    found: list[int] = []
    while there[-1:] != [True]:
        found += [one.message.sequence for one in playback.poll(0) if isinstance(one.message, ClusterStatus)]
    assert there == [False, True]
    return found


def test_a_jump_tells_what_was_before_that_moment(tmp_path: Path) -> None:
    with closing(Playback(each_second(tmp_path / "x", 2_000), speed=0.001)) as playback:
        playback.pause()
        for moment in (1_500, 700, 0, 1_999):  # also back, and to the ends
            playback.jump(moment + 0.5)
            assert jumped(playback) == list(range(max(0, moment + 1 - 900), moment + 1))
            assert playback.moment().seconds == moment + 0.5 and playback.moment().is_paused
            assert playback.poll(0) == [], "it is paused"
        assert playback.state.status is not None and playback.state.status.sequence == 1_999


def test_a_jump_while_another_is_on_its_way(tmp_path: Path) -> None:
    with closing(Playback(each_second(tmp_path / "x", 2_000), speed=0.001)) as playback:
        playback.pause()
        playback.jump(1_500)
        assert len(playback.poll(0)) == 100, "in parts"
        there: list[bool] = []

        def on_jump(is_over: bool) -> None:
            there.append(is_over)
            if there == [False]:
                playback.jump(3)

        playback.on_jump = on_jump
        playback.jump(1_000)
        while there != [False, False, True]:
            playback.poll(0)
        assert playback.moment().seconds == 3
        assert playback.state.status is not None and playback.state.status.sequence == 3


def test_a_jump_behind_the_end_is_one_to_the_end(tmp_path: Path) -> None:
    with closing(Playback(each_second(tmp_path / "x", 10), speed=0)) as playback:
        assert played(playback) == list(range(10))
        assert playback.moment().duration is None and playback.moment().is_paused
        playback.measure()
        assert playback.moment().duration == 9
        playback.jump(1e9)
        assert jumped(playback) == list(range(10))
        assert playback.moment().seconds == 9
        playback.jump(0)
        assert jumped(playback) == [0] and not playback.is_over
        assert played(playback) == list(range(1, 10)), "it goes on from there"


def test_a_pause_stops_the_time_and_a_speed_moves_it(tmp_path: Path) -> None:
    with closing(Playback(each_second(tmp_path / "x", 5), speed=0.001)) as playback:
        assert len(playback.poll(0)) == 1
        playback.pause()
        paused_at = playback.moment().seconds
        assert playback.poll(0.01) == [] and playback.moment().seconds == paused_at < 1
        playback.play(1e6)
        assert not playback.moment().is_paused
        assert played(playback) == [1, 2, 3, 4]


def test_the_length_of_a_recording_that_was_cut_off(tmp_path: Path) -> None:
    path = each_second(tmp_path / "x", 10)
    path.write_bytes(path.read_bytes()[:-1])
    assert Recording(path).duration() == 8


@pytest.mark.parametrize(
    "content", [b"", b"something else\n", b"scaler-recording 2\n" + bytes(8), b"scaler-recording 1\n"]
)
@pytest.mark.parametrize("name", ["x", "x.gz"])
def test_what_is_no_recording(tmp_path: Path, name: str, content: bytes) -> None:
    for data in {content, gzip.compress(content)}:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(RecordingError, match="is no recording of scaler_top --record"):
            Playback(tmp_path / name)
    with pytest.raises(RecordingError, match="cannot be opened"):
        Playback(tmp_path / "y")


@pytest.mark.parametrize("name", ["x", "x.gz"])
def test_one_that_was_cut_off_is_good_up_to_there(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, *numbered(20))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4])
    playback = Playback(path, speed=0)
    sequences = played(playback)
    assert sequences == list(range(len(sequences))) and len(sequences) < 20
    assert "was cut off after" in playback.state.text and playback.state.condition is Condition.SILENT


@pytest.mark.parametrize("offset", [0, 8, 10, 20])
def test_one_that_is_damaged_is_good_up_to_there(tmp_path: Path, offset: int) -> None:
    """In the time, in either length, or in the message."""
    path = write(tmp_path / "x", *numbered(3))
    data = bytearray(path.read_bytes())
    last = HEAD_BYTES + (len(data) - HEAD_BYTES) * 2 // 3
    data[last + offset : last + offset + 8] = b"\xff" * 8
    path.write_bytes(data)
    playback = Playback(path, speed=0)
    assert played(playback) == [0, 1]
    assert "is damaged after" in playback.state.text


def test_a_damaged_compressed_one(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gz", *numbered(5_000))  # gzip reads and checks large parts at once
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes(range(40)) + whole[middle + 40 :])
    playback = Playback(path, speed=0)
    played(playback)
    assert "is damaged after" in playback.state.text or "was cut off" in playback.state.text
    path.write_bytes(whole[:20] + b"\xff" * 40 + whole[60:])
    with pytest.raises(RecordingError, match="its beginning is damaged"):
        Playback(path, speed=0)


def test_what_a_newer_scheduler_said_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "x", *numbered(2))
    data = path.read_bytes()
    first = data[HEAD_BYTES : HEAD_BYTES + (len(data) - HEAD_BYTES) // 2]
    envelope = bytearray(first[14 + len("status") :])
    known = encode(STATUS)[0]
    assert len(known) == len(envelope)
    tag = next(at for at in range(0, len(envelope), 2) if _is_unknown(envelope, at))
    envelope[tag : tag + 2] = struct.pack("<H", 900)
    path.write_bytes(data[:HEAD_BYTES] + first[: 14 + len("status")] + envelope + data[HEAD_BYTES + len(first) :])
    playback = Playback(path, speed=0)
    assert played(playback) == [1] and playback.state.text == "this is the end of the recording"


def _is_unknown(envelope: bytearray, at: int) -> bool:
    """Is this where the kind of the message stands?"""
    from scaler_protocol.codec import CodecError, decode
    from scaler_protocol.codes import UNKNOWN_MESSAGE

    changed = bytearray(envelope)
    changed[at : at + 2] = struct.pack("<H", 900)
    try:
        decode(bytes(changed), ())
    except CodecError as error:
        return error.code == UNKNOWN_MESSAGE
    return False


def test_a_full_disk_ends_the_recording_and_not_the_watching(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full on this system")
    recorder = Recorder("/dev/full")
    recorder.write("status", STATUS)
    assert "ends early" in recorder.trouble
    with pytest.raises(RecordingError, match="ends early: No space left"):
        recorder.close()


# ---------------------------------------------------------------- traces


def samples(process_id: int, ended_count: int) -> TaskSamples:
    row = struct.pack("<16s16sQQII", b"t" * 16, FUNCTION, 3_000_000, 1_000_000, process_id, 0)
    block = SampleBlock(PeerId(b"w" * 16), "w<1>", 0.0, ended_count, row)
    return TaskSamples(blocks=(block,), function_names=(FunctionName(FUNCTION, 'f"\n'),))  # type: ignore[arg-type]


def test_a_trace_of_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "x", STATUS, samples(7, 10), samples(8, 5))
    out = tmp_path / "trace.json"
    assert trace.main([str(path), str(out)]) == 0
    assert capsys.readouterr().out == f"2 of 15 tasks that ended are in {out}\n"
    found = json.loads(out.read_text())
    assert found["otherData"] == {"sampled": "2 of 15 tasks that ended"}
    bars = [event for event in found["traceEvents"] if event["ph"] == "X"]
    assert [(bar["name"], bar["pid"], bar["tid"], bar["dur"]) for bar in bars] == [
        ('f"\n', 1, 7, 1e6),
        ('f"\n', 1, 8, 1e6),
    ]
    with closing(Recording(path)) as recording:
        assert abs(bars[0]["ts"] / 1e6 - (recording.begun_at - 3)) < 60, "three seconds before it was told"
    names = [event["args"]["name"] for event in found["traceEvents"] if event["ph"] == "M"]
    assert names == ["worker w<1>", "processor 7", "processor 8"]


def test_a_trace_of_half_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "x", samples(7, 10), samples(8, 5))
    path.write_bytes(path.read_bytes()[:-1])
    assert trace.main([str(path), str(tmp_path / "out")]) == 1
    told = capsys.readouterr()
    assert told.err.startswith("scaler_trace: error: ") and "was cut off" in told.err and "1 of 10" in told.err
    assert len(json.loads((tmp_path / "out").read_text())["traceEvents"]) == 3
    assert trace.main([str(path), str(tmp_path)]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_the_page_says_what_it_cannot_play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_bytes(b"something else\n")
    pytest.importorskip("aiohttp", reason="scaler_ui needs the extra [ui]")
    assert ui.main(["--replay", str(tmp_path / "x")]) == 1
    assert "is no recording of scaler_top --record" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_a_write_leaves_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    path = tmp_path / "run.rec.gz"
    recorder = Recorder(path)
    compress, written = recorder._file.write, iter(range(3))

    def write_interrupted(data: bytes) -> int:
        next(written)
        compress(data[: len(data) // 2])
        signal.raise_signal(number)
        return compress(data[len(data) // 2 :])

    monkeypatch.setattr(recorder._file, "write", write_interrupted)

    class Polled:
        def poll(self, seconds: float) -> None:
            recorder.write("status", STATUS)

    handlers = [(one, signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM)]
    try:
        top._listen(Polled(), recorder, str(path))  # type: ignore[arg-type]
    finally:
        for one, handler in handlers:
            signal.signal(one, handler)
    recorder.close()
    recording = Recording(path)
    assert [record.message for record in recording] == [STATUS]
    assert recording.trouble == ""
