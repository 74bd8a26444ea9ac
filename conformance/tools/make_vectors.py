"""Writes the golden vectors of protocol version 1: `python -m conformance.tools.make_vectors`, from the root.

A vector that is there already stays as it is: bytes that were once right are right for ever, and encoders are free in
how they lay them out, so a newer pycapnp is no reason for other bytes. `--again` makes all of them anew, which is for
the time before the first release only. HASHES has the hash of every file; the tests fail when one changes alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance.tools import key_vectors
from conformance.tools.vector_cases import Case, all_cases

from scaler_protocol import codes
from scaler_protocol.canonical import (
    Json,
    from_canonical,
    task_error_from_canonical,
    task_error_to_canonical,
    to_canonical,
)
from scaler_protocol.codec import DEFAULT_LIMITS, decode, decode_task_error, encode, encode_task_error
from scaler_protocol.messages import Limits

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "v1"
HASHES = "HASHES"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="make vectors that are there already anew")
    arguments = parser.parse_args()
    made = [case for case in all_cases() if write(case, VECTORS, is_again=arguments.again)]
    key_count = key_vectors.write(VECTORS, is_again=arguments.again)
    (VECTORS / HASHES).write_text(hashes(VECTORS), encoding="utf-8", newline="\n")
    print(f"{len(made)} vectors written, {len(all_cases()) - len(made)} kept; {key_count} documents of keys written")


def directory_of(case: Case, root: Path) -> Path:
    return root / case.message / case.name


def write(case: Case, root: Path, *, is_again: bool) -> bool:
    directory = directory_of(case, root)
    if directory.exists() and not is_again:
        return False
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for number, frame in enumerate(case.frames):
        (directory / f"frame-{number}.bin").write_bytes(frame)
    (directory / "case.toml").write_text(description(case), encoding="utf-8", newline="\n")
    if not case.code:
        document = decoded(case.message, case.frames)
        text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        (directory / "message.json").write_text(text, encoding="utf-8", newline="\n")
    return True


def decoded(message: str, frames: Sequence[bytes], limits: Limits = DEFAULT_LIMITS) -> Json:
    """The canonical JSON of what our codec makes of these frames."""
    if message == "TaskError":
        return task_error_to_canonical(decode_task_error(frames[0]))
    return to_canonical(decode(frames[0], frames[1:], limits))


def encoded(message: str, document: Json) -> list[bytes]:
    if message == "TaskError":
        return [encode_task_error(task_error_from_canonical(document))]
    envelope = from_canonical(document)
    return [bytes(frame) for frame in encode(envelope.message, envelope.seq, envelope.ack)]


def description(case: Case) -> str:
    is_malformed = case.code in (codes.BAD_FRAMING, codes.BAD_ENVELOPE)
    verdict = "valid" if not case.code else "malformed" if is_malformed else "invalid"
    lines = [
        f"clauses = {json.dumps(list(case.clauses))}",
        f'direction = "{"both" if case.is_encoded else "decode"}"',
        f'verdict = "{verdict}"',
        f"note = {json.dumps(case.note, ensure_ascii=False)}",
    ]
    if case.code:
        # A string, as in canonical JSON: 64 bits are more than some readers hold.
        lines += [f"code = {case.code}  # {codes.error_code_name(case.code)}", f'seq = "{case.seq}"']
    if case.limits:
        lines += ["", "[limits]", *(f"{name} = {value}" for name, value in case.limits.items())]
    return "\n".join(lines) + "\n"


def hashes(root: Path) -> str:
    """One line for each file, as `sha256sum` writes and checks them."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.name != HASHES)
    digests = ((hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(root).as_posix()) for path in files)
    return "".join(f"{digest}  {name}\n" for digest, name in digests)


if __name__ == "__main__":
    main()
