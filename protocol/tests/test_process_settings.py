"""Where a command's options come from, what counts most, and how a mistake in any place is told."""

from __future__ import annotations

import argparse
import codecs
from pathlib import Path

import pytest

from scaler_protocol.process import ArgumentParser, UsageError, flag, positive_int, positive_seconds
from scaler_protocol.process.arguments import HelpFormatter
from scaler_protocol.process.settings import keys_of


def parser() -> ArgumentParser:
    parser = ArgumentParser("scaler_thing", section="scheduler", key_aliases={"bind_address": "address"})
    parser.add_argument("address", help="where")
    parser.add_argument("--interval-seconds", "-is", "--interval", type=positive_seconds, default=2.0)
    parser.add_argument("--count", "-n", type=positive_int, default=1)
    parser.add_argument("--protected", "-p", **flag())
    parser.add_argument("--paths", nargs="+", default=["/dev/stdout"])
    parser.add_argument("--policy", choices=("even", "capability"), default="even")
    parser.add_argument("--name")
    parser.add_argument("--no-sharing", action="store_true")
    return parser


def settings(file: Path | None, text: str, *arguments: str, **environment: str) -> argparse.Namespace:
    if file is not None:
        file.write_text(text)
        arguments = (*arguments, "--config", str(file))
    return parser().parse_settings(arguments, {f"SCALER_SCHEDULER_{key}": value for key, value in environment.items()})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "scaler.toml"


def test_defaults() -> None:
    found = settings(None, "", "tcp://a:1")
    assert (found.interval_seconds, found.count, found.protected, found.paths) == (2.0, 1, False, ["/dev/stdout"])


def test_a_file_brings_everything(file: Path) -> None:
    text = """
        [scheduler]
        bind-address = "tcp://a:1"
        interval = 0.5
        count = 3
        protected = true
        paths = ["a", "b"]
        policy = "capability"
        [cluster]
        anything = "is the business of the cluster"
    """
    found = settings(file, text)
    assert (found.address, found.interval_seconds, found.count) == ("tcp://a:1", 0.5, 3)
    assert (found.protected, found.paths, found.policy) == (True, ["a", "b"], "capability")


def test_the_command_line_before_the_environment_before_the_file(file: Path) -> None:
    text = "[scheduler]\naddress = 'tcp://file:1'\ncount = 3\ninterval_seconds = 3\nprotected = true"
    found = settings(file, text, "--count", "5", INTERVAL_SECONDS="4", COUNT="4", PROTECTED="no")
    assert (found.address, found.count, found.interval_seconds, found.protected) == ("tcp://file:1", 5, 4.0, False)
    assert settings(file, text, "tcp://line:1", "-p", "False").address == "tcp://line:1"


def test_a_switch(file: Path) -> None:
    assert settings(file, "[scheduler]\nno-sharing = true", "tcp://a:1").no_sharing is True
    assert settings(file, "[scheduler]\nno-sharing = true", "tcp://a:1", NO_SHARING="off").no_sharing is False


def test_the_environment_names_the_file(file: Path) -> None:
    file.write_text("[scheduler]\naddress = 'tcp://file:1'")
    assert settings(None, "", CONFIG=str(file)).address == "tcp://file:1"


def test_a_list_from_the_environment() -> None:
    assert settings(None, "", "tcp://a:1", PATHS="x y").paths == ["x", "y"]


def test_other_names_in_the_environment_are_left_alone() -> None:
    """A container's platform puts its own there, such as SCALER_SCHEDULER_PORT."""
    assert settings(None, "", "tcp://a:1", PORT="tcp://10.0.0.1:80").count == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[scheduler]\nconut = 3", ["[scheduler]", "conut", "did you mean count?"]),
        ("[schedular]\ncount = 3", ["[schedular]", "did you mean scheduler?"]),
        ("[scheduler]\nzzz = 3", ["zzz", "there are: address,"]),
        ("[scheduler]\ncount = 'many'", ["count", "'many' is not a whole number above zero"]),
        ("[scheduler]\ncount = 1.5", ["count", "'1.5' is not a whole number above zero"]),
        ("[scheduler]\ncount = true", ["count", "'True' is not a whole number above zero"]),
        ("[scheduler]\nprotected = 'maybe'", ["protected", "neither True nor False"]),
        ("[scheduler]\nname = 5", ["name", "5 is not a text: put it in quotes"]),
        ("[scheduler]\npaths = [1]", ["paths", "1 is not a text"]),
        ("[scheduler]\npolicy = 'odd'", ["policy", "not one of: even, capability"]),
        ("scheduler = 5", ["scheduler must be a section"]),
        ("[[scheduler]]\n[[scheduler]]", ["2 sections [[scheduler]], and this command takes one"]),
        ("[scheduler", ["is not TOML"]),
    ],
)
def test_mistakes_in_a_file(file: Path, text: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        settings(file, text, "tcp://a:1")
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_file_as_windows_writes_it(file: Path) -> None:
    file.write_bytes(codecs.BOM_UTF8 + b"[scheduler]\r\ncount = 3\r\n")
    assert settings(None, "", "--config", str(file), "tcp://a:1").count == 3
    file.write_bytes("[scheduler]".encode("utf-16"))
    with pytest.raises(UsageError, match="is not TOML: 'utf-8' codec can't decode"):
        settings(None, "", "--config", str(file), "tcp://a:1")


def test_a_mistake_in_the_environment() -> None:
    with pytest.raises(UsageError, match="environment: SCALER_SCHEDULER_COUNT: 'x' is not a whole number above zero"):
        settings(None, "", "tcp://a:1", COUNT="x")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="cannot read /nowhere/at/all: No such file"):
        parser().parse_settings(["--config", "/nowhere/at/all"], {})


def test_what_nobody_gave_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        settings(None, "")
    assert "required: address" in capsys.readouterr().err


def test_options_that_begin_like_that_of_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-c has a longer neighbour in several commands: -ct is no file called t."""
    file.write_text("[scheduler]\ncount = 3")
    several = parser()
    several.add_argument("-ct", "--client-timeout")
    found = several.parse_settings(["tcp://a:1", "-ct", "5", "-c", str(file)], {})
    assert (found.client_timeout, found.count) == ("5", 3)
    with pytest.raises(SystemExit):
        parser().parse_settings(["tcp://a:1", f"-c{file}"], {})
    assert f"write --config {file}, in full" in capsys.readouterr().err


def test_what_must_be_given_may_stand_in_the_file(file: Path) -> None:
    file.write_text("[scheduler]\nurl = 'http://x'")
    strict = parser()
    strict.add_argument("--url", required=True)
    assert strict.parse_settings(["tcp://a:1", "--config", str(file)], {}).url == "http://x"


def test_the_section_of_a_kind(file: Path) -> None:
    file.write_text("[[worker_manager]]\ntype = 'native'\ncount = 1\n[[worker_manager]]\ntype = 'other'\ncount = 2")
    for kind, count in (("native", 1), ("other", 2)):
        one = ArgumentParser("scaler_thing", section="worker_manager", kind=kind)
        one.add_argument("--count", type=positive_int)
        assert one.parse_settings(["--config", str(file)], {}).count == count
    with pytest.raises(UsageError, match=r"0 sections .* with type = 'third'"):
        ArgumentParser("scaler_thing", section="worker_manager", kind="third").parse_settings(
            ["--config", str(file)], {}
        )


def test_one_of_several_sections(file: Path) -> None:
    text = "[[scheduler]]\naddress = 'tcp://a:1'\n[[scheduler]]\naddress = 'tcp://b:1'"
    assert settings(file, text, "--config-entry", "1").address == "tcp://b:1"


@pytest.mark.parametrize(
    ("arguments", "is_protected"),
    [
        (["-p", "tcp://a:1"], True),
        (["tcp://a:1", "-p"], True),
        (["-p", "False", "tcp://a:1"], False),
        (["--protected", "tcp://a:1"], True),
        (["--protected=no", "tcp://a:1"], False),
        (["tcp://a:1"], False),
    ],
)
def test_a_flag_may_have_a_value(arguments: list[str], is_protected: bool) -> None:
    found = parser().parse_settings(arguments, {})
    assert (found.protected, found.address) == (is_protected, "tcp://a:1")


def test_help_reads_well_on_a_narrow_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = parser().format_help()
    assert "usage: scaler_thing [options] address" in text
    assert "--interval-seconds, -is INTERVAL_SECONDS" in text and "--interval " not in text
    assert "--config-entry" not in text and "SCALER_SCHEDULER_" in text
    assert max(map(len, text.splitlines())) <= 80


def test_keys_have_the_names_of_all_eras() -> None:
    keys = keys_of(parser())
    assert keys["interval"] is keys["interval_seconds"] and keys["bind_address"] is keys["address"]
    assert "config" not in keys and "help" not in keys


@pytest.mark.parametrize("columns", ("40", "200", "no number", "0"))
def test_the_help_is_as_wide_as_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `shutil` says, which is not asked because it brings compressors along."""
    monkeypatch.setenv("COLUMNS", columns)
    ours = HelpFormatter("scaler_thing")
    assert ours._width == argparse.HelpFormatter("scaler_thing")._width


def test_an_address_behind_a_list_of_paths_is_the_address() -> None:
    found = parser().parse_settings(["--count", "2", "--paths", "a.log", "b.log", "tcp://a:1", "--name", "x"], {})
    assert (found.address, found.paths, found.count, found.name) == ("tcp://a:1", ["a.log", "b.log"], 2, "x")


def test_an_unknown_option_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_settings(["tcp://a:1", "--intreval-seconds", "2"], {})
    assert "--intreval-seconds 2; did you mean --interval-seconds?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parser().parse_settings(["tcp://a:1", "--zzz"], {})
    assert "did you mean" not in capsys.readouterr().err


def test_a_mistyped_variable_is_a_warning_that_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    found = settings(None, "", "tcp://a:1", INTERVAL_SECOND="3", PORT="tcp://10.0.0.1:1", COUNT="4")
    assert (found.interval_seconds, found.count) == (2.0, 4)
    assert capsys.readouterr().err == (
        "scaler_thing: warning: the environment's SCALER_SCHEDULER_INTERVAL_SECOND has no effect; "
        "did you mean SCALER_SCHEDULER_INTERVAL_SECONDS?\n"
    )
