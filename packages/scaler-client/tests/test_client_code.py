"""From the files of a program to a code set. (CLI-24, WRK-51)"""

from __future__ import annotations

import codecs
import os
import posixpath
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.client.submitting.code import code_set_of, requirements_of
from scaler_protocol import code_set
from scaler_protocol.code_set import CodeSet, CodeSetError, pack, unpack


def files_of(*code: object) -> dict[str, bytes]:
    packed = code_set_of(list(code), None)  # type: ignore[arg-type]
    return {path: bytes(content) for path, content in unpack(packed).files.items()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("pack/__init__.py", "pack/part.py", "alone.py", "pack/__pycache__/part.pyc", "pack/.hidden", ".git/x"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def test_what_is_sent(tree: Path) -> None:
    assert sorted(files_of(tree / "pack")) == ["pack/__init__.py", "pack/part.py"]
    assert sorted(files_of(tree)) == ["alone.py", "pack/__init__.py", "pack/part.py"]
    assert sorted(files_of(str(tree / "alone.py"))) == ["alone.py"]
    assert sorted(files_of(tree / "alone.py", tree)) == ["alone.py", "pack/__init__.py", "pack/part.py"]


def test_equal_files_are_one_object(tree: Path) -> None:
    before = code_set_of(tree, ["b", "a"])
    os.utime(tree / "alone.py", (1, 1))
    assert code_set_of([tree / "pack", tree / "alone.py"], ["b", "a"]) == before
    (tree / "alone.py").write_text("other")
    assert code_set_of(tree, ["b", "a"]) != before
    assert code_set_of(None, None) == b"" and code_set_of([], []) == b""


@pytest.mark.skipif(sys.platform == "win32", reason="accounts need a right to make links there, and Wine follows none")
def test_links_are_followed_and_end(tree: Path) -> None:
    (tree / "pack" / "link.py").symlink_to(tree / "alone.py")
    (tree / "pack" / "round").symlink_to(tree / "pack", target_is_directory=True)
    assert sorted(files_of(tree / "pack")) == ["pack/__init__.py", "pack/link.py", "pack/part.py"]


def test_two_files_for_one_name_are_told(tree: Path) -> None:
    (tree / "other").mkdir()
    (tree / "other" / "alone.py").write_text("another")
    with pytest.raises(ValueError, match=r"alone\.py"):
        files_of(tree / "alone.py", tree / "other" / "alone.py")


def test_what_is_not_there_is_told() -> None:
    with pytest.raises(FileNotFoundError, match="neither a file nor a directory"):
        code_set_of("no/such/file.py", None)
    with pytest.raises(ValueError, match="no source file"):
        code_set_of(__import__("sys"), None)


def archive(path: Path, fill: Callable[[zipfile.ZipFile], None]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        fill(opened)
    return path


def _link(opened: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo("link.py")
    entry.external_attr = 0o120777 << 16
    opened.writestr(entry, "/etc/passwd")


@pytest.mark.parametrize(
    ("fill", "told"),
    [
        (lambda opened: opened.writestr("../x.py", ""), "leave its directory"),
        (lambda opened: opened.writestr("/x.py", ""), "leave its directory"),
        (lambda opened: opened.writestr("a/../../x.py", ""), "leave its directory"),
        (_link, "link"),
        (lambda opened: opened.writestr("bomb.py", bytes(257 << 20)), "MiB"),
        (lambda opened: [opened.writestr(f"{number}.py", "") for number in range(20_001)], "files"),
    ],
    ids=["up", "root", "inside", "link", "bomb", "many"],
)
def test_a_hostile_archive_is_refused(tmp_path: Path, fill: Callable[[zipfile.ZipFile], None], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        code_set_of(archive(tmp_path / "x.zip", fill), None)


def test_an_archive_that_lies_is_refused(tmp_path: Path) -> None:
    """It declares one byte, and has a thousand."""
    path = archive(tmp_path / "x.zip", lambda opened: opened.writestr("a.py", b"x" * 1000))
    content = path.read_bytes().replace((1000).to_bytes(4, "little"), (1).to_bytes(4, "little"))
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be read|other bytes"):
        code_set_of(path, None)
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="cannot be read"):
        code_set_of(path, None)


def test_large_directories_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "data.bin").open("wb") as file:
        file.truncate(300 << 20)
    with pytest.raises(ValueError, match="send_object"):
        code_set_of(tmp_path, None)
    assert code_set.MOST_BYTES == 256 << 20


#: Paths of Windows, and addresses of files.
LOCAL = ("C:\\mine", "d:/mine", r"\\host\mine", "~/mine", "mine @ file:///mine", "mine@FILE:x", "file:mine.whl")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_a_requirements_file_as_windows_writes_it(tmp_path: Path, encoding: str) -> None:
    """Some shells write UTF-16 into `pip freeze > file`. Some editors begin a file with a byte order mark."""
    mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else b""
    file = tmp_path / "requirements.txt"
    file.write_bytes(mark + "numpy==2.1 # é\r\nattrs\r\n".encode(encoding))
    assert requirements_of(file) == "numpy==2.1 # é\nattrs\n"


def test_a_requirements_file_in_another_encoding(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_bytes("numpy # é".encode("cp1252"))
    with pytest.raises(ValueError, match=r"requirements\.txt' is no text in UTF-8: save it in that encoding"):
        requirements_of(file)


def test_requirement_lines(tmp_path: Path) -> None:
    assert requirements_of(["numpy==2.1", " # none", ""]) == "numpy==2.1\n"
    file = tmp_path / "requirements.txt"
    file.write_text("a==1 \\\n    --hash=sha256:00\n# a comment\n--index-url http://127.0.0.1/\n")
    assert requirements_of(file) == "a==1 \\\n    --hash=sha256:00\n--index-url http://127.0.0.1/\n"
    for line in ("-r other.txt", "-e .", "./mine", "/mine", "-c constraints.txt", "--requirement=x", *LOCAL):
        with pytest.raises(ValueError, match="of this machine"):
            requirements_of([line])
    with pytest.raises(FileNotFoundError, match="requirements file"):
        requirements_of("numpy")


NAMES = st.text("ab./\\:\0é", max_size=8) | st.sampled_from(["a", "a/b", "b.py", "a.py", "é"])


UV = Path(sys.executable).with_name("uv")
A_PROJECT = """
[project]
name = "program"
version = "0"
requires-python = ">=3.10"
dependencies = ["tiny-of-ours"]
[tool.uv]
no-index = true
find-links = ["wheels"]
"""


@pytest.mark.skipif(not UV.exists(), reason="uv is not installed here")
def test_a_lock_file_is_read_by_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(A_PROJECT)
    (tmp_path / "wheels").mkdir()
    info = "tiny_of_ours-1.0.dist-info"
    with zipfile.ZipFile(tmp_path / "wheels" / "tiny_of_ours-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-of-ours\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    lock = [UV, "lock", "--offline", "--python", sys.executable]
    subprocess.run(lock, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    monkeypatch.setenv("PATH", str(UV.parent))
    assert requirements_of(tmp_path / "uv.lock") == "tiny-of-ours==1.0\n"
    (tmp_path / "uv.lock").write_text("no lock")
    with pytest.raises(ValueError, match="cannot be read: uv said"):
        requirements_of(tmp_path / "uv.lock")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="write a requirements file instead"):
        requirements_of(tmp_path / "uv.lock")


@given(st.dictionaries(NAMES, st.binary(max_size=5), max_size=5), st.text(max_size=10))
def test_what_is_packed_is_unpacked_and_stays_inside(files: dict[str, bytes], requirements: str) -> None:
    try:
        packed = pack(CodeSet(files, requirements))
    except (CodeSetError, UnicodeEncodeError):
        return
    found = unpack(packed)
    assert {path: bytes(content) for path, content in found.files.items()} == files
    assert found.requirements == requirements
    assert all(posixpath.normpath(path) == path and not posixpath.isabs(path) for path in found.files)


@given(st.binary(max_size=64), st.integers(0, 80), st.integers(0, 255))
def test_whatever_the_bytes_are_they_are_a_code_set_or_refused(noise: bytes, at: int, byte: int) -> None:
    good = bytearray(pack(CodeSet({"a.py": b"x", "b/c.py": b"yy"}, "r\n")))
    if at < len(good):
        good[at] = byte
    for data in (bytes(good), good[:12] + noise, noise):
        try:
            found = unpack(data)
        except CodeSetError:
            continue
        assert pack(found) == data
