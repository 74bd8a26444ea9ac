"""What the system says of the scheduler's process, also when the system cannot be asked."""

from __future__ import annotations

import psutil
import pytest

from scaler_scheduler.host_figures import HostFigures


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), psutil.AccessDenied(1)])
@pytest.mark.parametrize("where", ["memory_info", "cpu_percent"])
def test_the_last_figures_are_given_again(monkeypatch: pytest.MonkeyPatch, error: Exception, where: str) -> None:
    figures = HostFigures()
    before = figures.read()
    assert before.rss_bytes > 1 << 20 and before.host_free_bytes > 1 << 20
    monkeypatch.setattr(psutil.Process, where, lambda process: _raise(error))
    assert figures.read() == before


def test_none_at_all_are_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = HostFigures()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: _raise(OSError(24, "Too many open files")))
    assert figures.read().host_free_bytes == 0
