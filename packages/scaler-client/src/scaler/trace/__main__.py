# PYTHON_ARGCOMPLETE_OK
"""`scaler_trace RECORDING TRACE`: a recorded run as a picture of time, for Perfetto or Chrome's about:tracing."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TextIO

from scaler.client import __version__
from scaler.monitoring import Recording, RecordingError
from scaler.ui.samples import TaskRun, ended_count, runs
from scaler.ui.trace import trace_text
from scaler_protocol.messages import TaskSamples
from scaler_protocol.process import ArgumentParser, run_command
from scaler_protocol.process.private_files import open_private

PROGRAM = "scaler_trace"


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        description="Make a trace of what scaler_top --record has written: a bar for each recorded task, in a row for "
        "each processor. Open it at ui.perfetto.dev, which keeps it in the browser, or in Chrome at about:tracing.",
        epilog=f"Example: {PROGRAM} run.rec.gz trace.json",
    )
    parser.add_argument("recording", help="a file that scaler_top --record has written")
    parser.add_argument("trace", help="the file to write")
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
