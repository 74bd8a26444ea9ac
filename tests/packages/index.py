"""A package index on this machine, over TLS, with trusted publishing; and the CI system that vouches for a workflow.

It takes uploads of dists only with a token that it has minted in exchange for the CI system's, and lists what it has.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import re
import ssl
import threading
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

AUDIENCE = "the-index"
REQUEST_TOKEN, MINTED = "of-the-job", "minted-for-one-release"
#: A JSON web token for this index; its signature is not looked at here.
_PARTS = (b"{}", json.dumps({"aud": AUDIENCE}).encode(), b"x")
IDENTITY = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in _PARTS)


class Index:
    def __init__(self, place: Path) -> None:
        self.place = place
        #: what was uploaded, by file name
        self.files: dict[str, bytes] = {}
        self.certificate = place / "certificate.pem"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(make_certificate(self.certificate))
        self._secure = self._serve(context)
        self._plain = self._serve(None)
        self.url = f"https://127.0.0.1:{self._secure.server_port}"
        self.identity_url = f"http://127.0.0.1:{self._plain.server_port}/identity?api-version=2"

    def _serve(self, context: ssl.SSLContext | None) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"index": self}))
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def close(self) -> None:
        for server in (self._secure, self._plain):
            server.shutdown()
            server.server_close()


class Handler(BaseHTTPRequestHandler):
    index: Index

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/_/oidc/audience":
            self.answer({"audience": AUDIENCE})
        elif path == "/identity":
            is_right = (
                self.headers["Authorization"] == f"bearer {REQUEST_TOKEN}" and f"audience={AUDIENCE}" in self.path
            )
            self.answer({"value": IDENTITY}, 200 if is_right else 403)
        else:
            self.answer({}, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/_/oidc/mint-token":
            is_known = json.loads(body) == {"token": IDENTITY}
            self.answer({"token": MINTED} if is_known else {"errors": [{"code": "x", "description": "unknown"}]})
        elif self.path == "/legacy/" and self.is_allowed():
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            for part in BytesParser(policy=HTTP).parsebytes(head + body).iter_parts():
                name = re.findall(r'filename="(.+?)"', part["Content-Disposition"])
                if name:
                    self.index.files[name[0]] = part.get_payload(decode=True)
            self.answer({})
        else:
            self.answer({}, 403)

    def is_allowed(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        return base64.b64decode(given).decode() == f"__token__:{MINTED}"

    def answer(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def make_certificate(path: Path) -> Path:
    """Signed by itself, for this machine, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = built.add_extension(here, False).sign(key, hashes.SHA256())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + signed.public_bytes(serialization.Encoding.PEM)
    path.write_bytes(text)
    return path
