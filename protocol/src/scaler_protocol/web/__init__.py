"""What the page and the worker adapter, which both serve HTTP, have in common: which requests are answered, and how
much a caller can hold. Nothing here imports an HTTP library."""

from scaler_protocol.web.bounds import Bounds, listen
from scaler_protocol.web.guards import COOKIE, HEADERS, Guard, comes_from_a_page, cookie_name, host_name, is_loopback

__all__ = [
    "Bounds",
    "listen",
    "COOKIE",
    "HEADERS",
    "Guard",
    "comes_from_a_page",
    "cookie_name",
    "host_name",
    "is_loopback",
]
