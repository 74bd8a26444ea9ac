"""The golden vectors: our codec agrees with each of them, and none of them changes unnoticed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from conformance.tools import make_vectors
from conformance.tools.vector_cases import all_cases

from scaler_protocol import codec, codes
from scaler_protocol.codec.registry import registry
from scaler_protocol.messages import Limits

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VECTORS = make_vectors.VECTORS
CASES = sorted(path.parent for path in VECTORS.glob("*/*/case.toml"))
VALID = [path for path in CASES if (path / "message.json").exists()]
REFUSED = [path for path in CASES if path not in VALID]


def name(path: Path) -> str:
    return path.relative_to(VECTORS).as_posix()


def case_of(path: Path) -> dict[str, Any]:
    return tomllib.loads((path / "case.toml").read_text(encoding="utf-8"))


def frames(path: Path) -> list[bytes]:
    return [frame.read_bytes() for frame in sorted(path.glob("frame-*.bin"))]


def limits(case: dict[str, Any]) -> Limits:
    names = {"batchTasks": "batch_tasks", "payloadFrameBytes": "payload_frame_bytes", "envelopeBytes": "envelope_bytes"}
    return Limits(**{names[key]: value for key, value in case.get("limits", {}).items()})


@pytest.mark.parametrize("path", VALID, ids=name)
def test_a_valid_vector_decodes_to_its_message(path: Path) -> None:
    decoded = make_vectors.decoded(path.parent.name, frames(path))
    assert decoded == json.loads((path / "message.json").read_text(encoding="utf-8"))
    assert case_of(path)["verdict"] == "valid"


@pytest.mark.parametrize("path", VALID, ids=name)
def test_our_encoding_of_it_means_the_same(path: Path) -> None:
    """Encoders are free in layout, so they are judged by decoding."""
    document = json.loads((path / "message.json").read_text(encoding="utf-8"))
    kind = path.parent.name
    assert make_vectors.decoded(kind, make_vectors.encoded(kind, document)) == document


@pytest.mark.parametrize("path", REFUSED, ids=name)
def test_a_refused_vector_is_refused_with_its_code(path: Path) -> None:
    case = case_of(path)
    with pytest.raises(codec.CodecError) as caught:
        make_vectors.decoded(path.parent.name, frames(path), limits(case))
    error = caught.value
    assert (error.code, error.clause, error.seq) == (case["code"], case["clauses"][0], int(case["seq"])), error.text
    is_malformed = error.code in (codes.BAD_FRAMING, codes.BAD_ENVELOPE)
    assert case["verdict"] == ("malformed" if is_malformed else "invalid")


def test_every_kind_of_message_has_vectors() -> None:
    kinds = {path.parent.name for path in VALID}
    assert kinds == {record.__name__ for record in registry().by_record} | {"TaskError"}


def test_the_generator_and_the_directory_tell_of_the_same_cases() -> None:
    cases = all_cases()
    assert sorted(f"{case.message}/{case.name}" for case in cases) == [name(path) for path in CASES]
    assert {path.name for path in VECTORS.iterdir() if path.is_file()} == {make_vectors.HASHES}
    for case in cases:
        path = make_vectors.directory_of(case, VECTORS)
        assert (path / "case.toml").read_text(encoding="utf-8") == make_vectors.description(case), name(path)


def test_no_frozen_file_has_changed() -> None:
    """When a new vector was added: run the generator. When one of these bytes changed: change it back."""
    assert make_vectors.hashes(VECTORS) == (VECTORS / make_vectors.HASHES).read_text(encoding="utf-8")


def test_a_changed_or_added_file_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "v1"
    shutil.copytree(VECTORS, copy)
    frozen = (copy / make_vectors.HASHES).read_text(encoding="utf-8")
    assert make_vectors.hashes(copy) == frozen
    (copy / "Ping" / "full" / "frame-1.bin").touch()
    assert make_vectors.hashes(copy) != frozen
    (copy / "Ping" / "full" / "frame-1.bin").unlink()
    (copy / "Ping" / "full" / "frame-0.bin").write_bytes(b"changed")
    assert make_vectors.hashes(copy) != frozen


def test_writing_again_keeps_what_is_there(tmp_path: Path) -> None:
    case = all_cases()[0]
    assert make_vectors.write(case, tmp_path, is_again=False)
    frame = make_vectors.directory_of(case, tmp_path) / "frame-0.bin"
    frame.write_bytes(b"once right, right for ever")
    assert not make_vectors.write(case, tmp_path, is_again=False)
    assert frame.read_bytes() == b"once right, right for ever"
    assert make_vectors.write(case, tmp_path, is_again=True)
    assert frame.read_bytes() == case.frames[0]
