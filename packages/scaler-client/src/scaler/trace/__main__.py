# PYTHON_ARGCOMPLETE_OK
"""`scaler_trace RECORDING TRACE`: a recorded run as a picture of time, for Perfetto or Chrome's about:tracing. With
`--profile`: where the time of running tasks goes, for speedscope."""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TextIO

from scaler.client import __version__
from scaler.monitoring import MonitorError, Recording, RecordingError, Subscription
from scaler.monitoring.profiles import Profile, speedscope
from scaler.ui.samples import TaskRun, ended_count, runs
from scaler.ui.trace import trace_text
from scaler_protocol.messages import StackSamples, TaskSamples
from scaler_protocol.process import ArgumentParser, positive_seconds, run_command
from scaler_protocol.process.key_options import add_key_arguments, key_options
from scaler_protocol.process.private_files import open_private
from scaler_protocol.stack_trees import total_microseconds

PROGRAM = "scaler_trace"


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        description="Make a trace of what scaler_top --record has written: a bar for each recorded task, in a row for "
        "each processor. Open it at ui.perfetto.dev, which keeps it in the browser, or in Chrome at about:tracing. "
        "With --profile: watch a cluster, and write where the time of its running tasks goes, for speedscope.app.",
        epilog=f"Example: {PROGRAM} run.rec.gz trace.json",
    )
    parser.add_argument(
        "recording", help="a file that scaler_top --record has written; with --profile, the address of the scheduler"
    )
    parser.add_argument("trace", help="the file to write")
    parser.add_argument(
        "--profile", metavar="SECONDS", type=positive_seconds,
        help="watch the scheduler for so long, which was started with --monitor-texts, and write a speedscope file",
    )  # fmt: skip
    add_key_arguments(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(parser().parse_settings(arguments)))


class Runs:
    """The task runs of a recording, and how many there were of how many."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.sampled_count = 0
        self.ended_count = 0

    def __iter__(self) -> Iterator[TaskRun]:
        for record in self._recording:
            if isinstance(record.message, TaskSamples):
                self.ended_count += ended_count(record.message)
                for run in runs(record.message, self._recording.begun_at + record.seconds):
                    self.sampled_count += 1
                    yield run


def _run(options: argparse.Namespace) -> int:
    return _trace(options) if options.profile is None else _profile(options)


def _profile(options: argparse.Namespace) -> int:
    profile, address = Profile(), options.recording
    with Subscription(address, ("stacks",), keys=key_options(options)) as subscription:
        subscription.first()
        end_at = time.monotonic() + options.profile
        while (left := end_at - time.monotonic()) > 0:
            for heard in subscription.poll(left):
                if isinstance(heard.message, StackSamples):
                    profile.take(heard.message, heard.wall_at)
    if profile.told is None:
        text = f"the scheduler at {address} told nothing of stacks in {options.profile:g} s: try a longer time"
        raise MonitorError(text)
    if profile.told.is_hidden:
        raise MonitorError(f"the scheduler at {address} was not started with --monitor-texts, so nothing is sampled")
    trees = profile.window(options.profile, time.time())
    try:
        with io.TextIOWrapper(open_private(options.trace), encoding="utf-8") as file:
            json.dump(speedscope(profile, trees, f"Scaler {address}"), file)
    except OSError as error:
        raise MonitorError(f"{options.trace} cannot be written: {error.strerror or error}") from None
    seconds = sum(map(total_microseconds, trees.functions.values())) / 1e6
    print(f"{seconds:.1f} s of tasks on {profile.told.sampled_count} workers are in {options.trace}")
    return 0


def _trace(options: argparse.Namespace) -> int:
    with closing(Recording(options.recording)) as recording:
        found = Runs(recording)
        try:
            with io.TextIOWrapper(open_private(options.trace), encoding="utf-8") as file:
                write(file, found)
        except OSError as error:
            raise RecordingError(f"{options.trace} cannot be written: {error.strerror or error}") from None
    told = f"{found.sampled_count:,} of {found.ended_count:,} tasks that ended are in {options.trace}"
    if recording.trouble:
        raise RecordingError(f"{recording.trouble}; until then {told}")
    print(told)
    return 0


def write(file: TextIO, found: Runs) -> None:
    """As it comes: a trace may be much larger than memory."""
    for text in trace_text(found, lambda: f"{found.sampled_count} of {found.ended_count} tasks that ended"):
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
