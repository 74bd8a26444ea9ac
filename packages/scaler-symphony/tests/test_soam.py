"""Finding `soamapi`: each of its three absences has a message of its own. And what its exceptions say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import symphony

from scaler_protocol.process import StartupError
from scaler_symphony.__main__ import main
from scaler_symphony.soam import describe, import_soamapi

NAMES = ("soamapi", "soamapiversion")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory to import from, instead of the fake's."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(entry for entry in sys.path if entry != str(symphony.FAKE))])
    kept = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    yield tmp_path
    for name in NAMES:
        sys.modules.pop(name, None)
    sys.modules.update(kept)


def test_a_missing_module(path: Path) -> None:
    with pytest.raises(StartupError, match="no module soamapi: it comes with IBM Spectrum Symphony"):
        import_soamapi()


def test_files_for_another_python(path: Path) -> None:
    (path / "soamapi.pyc").write_bytes(b"\x33\x0d\x0d\x0a" + bytes(12))
    with pytest.raises(StartupError, match=r"not made for Python 3\.\d+: .*bad magic number"):
        import_soamapi()


def test_a_missing_library(path: Path) -> None:
    error = 'raise ImportError("libsoam_api.so.7: cannot open shared object file: No such file or directory")'
    (path / "soamapi.py").write_text(error, encoding="utf-8")
    with pytest.raises(StartupError, match=r"LD_LIBRARY_PATH \(libsoam_api\.so\.7"):
        import_soamapi()


def test_files_for_another_python_found_by_the_version_module(path: Path) -> None:
    (path / "soamapiversion.py").write_text("raise ImportError(\"bad magic number in 'x'\")", encoding="utf-8")
    with pytest.raises(StartupError, match="not made for Python"):
        import_soamapi()


def test_a_module_that_soamapi_misses_is_named(path: Path) -> None:
    (path / "soamapi.py").write_text("import _soam_internal", encoding="utf-8")
    with pytest.raises(StartupError, match="cannot be imported: ModuleNotFoundError: No module named '_soam_internal'"):
        import_soamapi()


def test_the_command_says_it_in_one_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tcp://127.0.0.1:1", "ScalerService"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("scaler_symphony_cluster: error: there is no module soamapi")


class Soam(Exception):
    def __init__(self, text: str, embedded: BaseException | None = None) -> None:
        super().__init__(text)
        self._embedded = embedded

    def get_embedded_exception(self) -> BaseException | None:
        return self._embedded


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("exception", "text"),
    [
        (None, "Symphony gives no reason"),
        (Soam(""), "Symphony gives no reason"),
        (Soam("failed by\nthe system"), "failed by the system"),
        (Soam("the service failed", KeyError("x")), "the service failed: KeyError: 'x'"),
        (Soam("", KeyError("x")), "KeyError: 'x'"),
        (Soam("", Unspeakable()), "Unspeakable: <str() of Unspeakable raised ValueError>"),
        (OSError("no route"), "no route"),
    ],
)
def test_what_an_exception_says(exception: BaseException | None, text: str) -> None:
    assert describe(exception) == text


def test_the_fake_has_nothing_that_is_not_known_of_the_product() -> None:
    soamapi = import_soamapi()
    for invented in ("FailureException", "ConnectionManager", "SessionAttributes", "kill_task"):
        with pytest.raises(AttributeError, match="as far as public use"):
            getattr(soamapi, invented)
