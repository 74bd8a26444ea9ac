"""The process that runs users' code: one task at a time, in its main thread."""

from scaler_worker.processor.loop import ProcessorLoop, TaskInterrupted
from scaler_worker.processor.main import run_processor

__all__ = ["ProcessorLoop", "TaskInterrupted", "run_processor"]
