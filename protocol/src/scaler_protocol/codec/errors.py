"""The one thing that hostile bytes can raise."""

from __future__ import annotations


class CodecError(Exception):
    """Bytes that are no message of this protocol, told so that the answer to the peer can be made from it. (ERR-1)

    `seq` is that of the refused message when it could be read, else 0: with it the session can count the message as
    received and go on. (SES-13)
    """

    def __init__(self, code: int, text: str, clause: str, seq: int = 0) -> None:
        super().__init__(code, text, clause, seq)
        self.code = code
        self.text = text
        self.clause = clause
        self.seq = seq

    def __str__(self) -> str:
        return f"{self.text} ({self.clause})"


_REASONS = {
    "traversal limit": "its pointers lead to more than it holds",
    "nesting": "its structs are nested too deeply",
    "NUL": "a text in it does not end with NUL",
}


def reason(error: Exception) -> str:
    """What was wrong, for people: pycapnp tells of C++ expressions and stacks, and quotes the bytes it met."""
    if isinstance(error, UnicodeError):
        return "a text in it is not UTF-8"
    told = str(error)
    return next((text for word, text in _REASONS.items() if word in told), "a pointer in it leads nowhere")
