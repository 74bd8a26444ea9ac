"""Which requests are answered. Pure decisions over a request's headers.

Any page that a user opens can make the browser send requests to any address, also to loopback. So the name in `Host`
must be ours: else the page of a foreign domain that resolves to this machine could read everything. And a request that
a page makes must come from our own page.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

COOKIE = "scaler_ui_visit"
VISITS_LIMIT = 256
"""The browsers that are remembered at a time. One more takes the place of the one that has been silent for longest."""
VISIT_SECONDS = 7 * 24 * 3600.0
"""A browser that has sent no request for so long shows the token again."""
_HOST = re.compile(r"(?:\[(?P<ip6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
#: The page needs nothing from elsewhere, so nothing from elsewhere is let in.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Visits:
    """The browsers that have shown the token, each by a random text that it keeps as a cookie.

    A browser sends its cookies to all ports of a host, so other users' servers on the same machine see them. So the
    cookie is not the token: it is of no use after this process, and opens nothing else that is made from the key.
    """

    def __init__(self) -> None:
        self._last_at: OrderedDict[str, float] = OrderedDict()  #: by cookie, the longest silent first

    def begin(self, now: float) -> str:
        """Returns the cookie of a new visit."""
        cookie = secrets.token_urlsafe(32)
        while len(self._last_at) >= VISITS_LIMIT:
            self._last_at.popitem(last=False)
        self._last_at[cookie] = now
        return cookie

    def is_known(self, cookie: str, now: float) -> bool:
        if cookie not in self._last_at:
            return False
        if now - self._last_at[cookie] > VISIT_SECONDS:
            del self._last_at[cookie]
            return False
        self._last_at[cookie] = now
        self._last_at.move_to_end(cookie)
        return True


@dataclass(frozen=True, slots=True)
class Guard:
    """`hosts`: the names under which this page is asked for; empty: any (--insecure). `token`: empty: none is asked."""

    hosts: frozenset[str]
    token: str = ""
    visits: Visits = field(default_factory=Visits, compare=False)

    def refusal(self, headers: Mapping[str, str], cookies: Mapping[str, str], now: float) -> str:
        """Returns why this request is refused, for people; empty when it is not."""
        host = headers.get("Host", "")
        if self.hosts and host_name(host) not in self.hosts:
            return "this page is not served under that name: use the address it was started with, or --allowed-host"
        origin = headers.get("Origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return "pages of other origins may not read this"
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not _is_link(headers):
            return "pages of other sites may not read this"
        if self.token and not self._is_let_in(headers, cookies, now):
            return "a token is needed: open the address with ?token=…, or send it as Authorization: Bearer …"
        return ""

    def _is_let_in(self, headers: Mapping[str, str], cookies: Mapping[str, str], now: float) -> bool:
        scheme, _, bearer = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.is_token(bearer)
        return self.visits.is_known(cookies.get(cookie_name(headers.get("Host", "")), ""), now)

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="surrogateescape"), self.token.encode(errors="surrogateescape"))


def _is_link(headers: Mapping[str, str]) -> bool:
    """A link to the page that a user follows, in a tab of its own: the site that has the link cannot read there."""
    return headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"


def cookie_name(host: str) -> str:
    """Browsers keep cookies by host and not by port, where another cluster may be shown."""
    port = host.rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdecimal() and port.isascii() else COOKIE


def host_name(host: str) -> str:
    """Without the port and brackets, in lower case; empty for what is no `host[:port]`. A parser of URLs would be too
    lenient here: it finds a name after an `@` or before a `/`."""
    match = _HOST.fullmatch(host.lower())
    return (match["ip6"] or match["name"]) if match else ""


def comes_from_a_page(headers: Mapping[str, str]) -> bool:
    """A browser sends one of these with each POST that a page makes. Programs send none."""
    return "Origin" in headers or "Sec-Fetch-Site" in headers


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
