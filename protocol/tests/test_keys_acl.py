"""Which files on Windows only their user can read and write, judged by the text of their lists; on Windows also set."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scaler_protocol.keys import KeyFileError, acl
from scaler_protocol.keys.files import make_file, read_file

ANA, BEN = "S-1-5-21-1-2-3-1001", "S-1-5-21-1-2-3-1002"
OWN = f"(A;;FA;;;{ANA})"


@pytest.mark.parametrize(
    "text",
    [
        acl.private_list(ANA),
        f"O:{ANA}{acl.private_list(ANA)}",
        f"O:{ANA}G:BUD:PAI{OWN}",
        f"O:BAD:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA){OWN}",  # made by an administrator, below a profile
        f"O:{ANA}D:{OWN}(A;;0x1200a0;;;WD)",  # to execute, and to look at its attributes
        f"O:{ANA}D:{OWN}(A;OICIIO;FA;;;BU)",  # of what is in a directory
        f"O:{ANA}D:(D;;FA;;;WD){OWN}",  # a refusal opens nothing
        f"O:{ANA}D:{OWN}(A;;FA;;;OW)S:AI(AU;SAFA;FA;;;SY)",
        f"O:{ANA}D:",  # no account at all
    ],
)
def test_a_list_for_the_user_alone(text: str) -> None:
    assert acl.others_in(text, ANA) == []


@pytest.mark.parametrize(
    ("text", "others"),
    [
        (f"O:{ANA}", ["WD"]),  # no list
        (f"O:{ANA}D:NO_ACCESS_CONTROL", ["WD"]),
        (f"O:{ANA}D:{OWN}(A;;0x1200a9;;;WD)", ["WD"]),
        (f"O:{ANA}D:AI{OWN}(A;ID;0x1200a9;;;BU)(A;ID;0x1301bf;;;AU)", ["BU", "AU"]),  # as below C:\\
        (f"O:{ANA}D:{OWN}(A;;FR;;;{BEN})", [BEN]),
        (f"O:{ANA}D:{OWN}(A;;FRFX;;;{BEN})(A;;FW;;;{BEN})", [BEN]),
        (f"O:{ANA}D:{OWN}(A;;WD;;;{BEN})", [BEN]),  # may write the list
        (f"O:{ANA}D:{OWN}(A;;GA;;;AN)", ["AN"]),
        (f'O:{ANA}D:{OWN}(XA;;FR;;;WD;(@User.Department=="x"))', ["WD"]),  # under a condition
        (f"O:{BEN}D:{OWN}", [BEN]),  # the owner may always write the list
        (f"O:{BEN}G:{BEN}D:P(A;;FA;;;{BEN})", [BEN]),
    ],
)
def test_a_list_that_lets_others_in(text: str, others: list[str]) -> None:
    assert acl.others_in(text, ANA) == others


@pytest.mark.skipif(sys.platform != "win32", reason="the calls of Windows")
def test_windows_keeps_what_is_set(tmp_path: Path) -> None:
    made = tmp_path / "made.key"
    assert make_file(str(made), b"content") and read_file(str(made)) == b"content"
    opened = tmp_path / "opened.key"
    opened.write_bytes(b"content")
    assert os.system(f'icacls "{opened}" /grant *S-1-1-0:R >nul') == 0
    with pytest.raises(KeyFileError, match="can be read or written by other users"):
        read_file(str(opened))
    acl.keep_private(str(opened))
    assert read_file(str(opened)) == b"content"
