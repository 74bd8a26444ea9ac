"""What is told of a scheduler that is a standby, or waits for the workers of the one before. (MON-29, MON-30)"""

from __future__ import annotations

from scaler_protocol.errors import readable
from scaler_protocol.messages import ClusterStatus


def succession_text(status: ClusterStatus) -> str:
    """One sentence; empty for a scheduler that serves and waits for no workers."""
    if status.standby_of:
        return f"this scheduler is a standby: it serves when the one at {readable(status.standby_of)} is gone"
    if not status.is_recovering:
        return ""
    of_all = f" of {status.expected_count}" if status.expected_count else ""
    return (
        "this scheduler follows on another one, and waits for its workers to present what they hold: "
        f"{status.presented_count}{of_all} have, and it waits for {recovery_text(status.recovery_seconds)} more at most"
    )


def duty_text(status: ClusterStatus) -> str:
    """One word, of a scheduler of several; empty for a scheduler that is alone."""
    if status.standby_of:
        return "standby"
    return "serves" if status.standbys else ""


def standbys_text(status: ClusterStatus) -> str:
    """One sentence that names the schedulers that would follow on this one; empty if there are none."""
    if not status.standbys:
        return ""
    return f"this scheduler serves, with a standby: {', '.join(map(readable, status.standbys))}"


def recovery_text(seconds: float) -> str:
    return f"{max(0.1, seconds):.1f} s"
