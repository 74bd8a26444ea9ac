"""One ZeroMQ context per process (skeleton)."""

from __future__ import annotations

import zmq


def zmq_context() -> zmq.Context[zmq.Socket[bytes]]: ...
