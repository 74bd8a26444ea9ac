"""Imported by every process of a cluster that `benchmarks.lone --steps` has started: counts steps of the interpreter
from one signal to the next, and writes them down for the program that started it."""

import json
import os
import signal
import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

START, STOP = signal.SIGRTMIN + 3, signal.SIGRTMIN + 4
_steps: Counter[CodeType] = Counter()
_calls: Counter[CodeType] = Counter()


def _count(frame: FrameType, event: str, _argument: Any) -> Any:
    if event == "opcode":
        _steps[frame.f_code] += 1
    return _count


def _enter(frame: FrameType, _event: str, _argument: Any) -> Any:
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    _calls[frame.f_code] += 1
    return _count


def _start(_number: int, frame: FrameType | None) -> None:
    _steps.clear()
    _calls.clear()
    while frame is not None:  # those that are in the middle of something
        frame.f_trace_opcodes, frame.f_trace_lines, frame.f_trace = True, False, _count
        frame = frame.f_back
    sys.settrace(_enter)


def _stop(_number: int, _frame: FrameType | None) -> None:
    sys.settrace(None)
    rows = [(code.co_filename, code.co_name, _calls[code], steps) for code, steps in _steps.items()]
    path = os.path.join(os.environ["SCALER_STEPS"], str(os.getpid()))
    with open(path + ".part", "w") as file:
        json.dump(rows, file)
    os.rename(path + ".part", path)


signal.signal(START, _start)
signal.signal(STOP, _stop)
