"""`init`: a manifest to start from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from scaler_conformance.manifest import ManifestError

MANIFEST = Path("scaler-conformance.toml")
_HEAD = """\
# What scaler-conformance knows of this port. Every key: `conformance/README.md`, "The manifest".

[port]
name = "my-port"
version = "0.1"
# It speaks CURVE and shows tickets; it finds the key file by the variable SCALER_KEY_FILE:
# keys = true
"""
_ROLES = {
    "scheduler": """
[role.scheduler]
# {bind}: where to listen. {monitor}: where to publish. {storage}: the storage, which the suite plays.
command = ["./my-scheduler", "--bind", "{bind}", "--monitor", "{monitor}", "--storage", "{storage}"]
# Started with these arguments as well, for the cases that need a scheduler which refuses Shutdown:
# variants.protected = ["--protected"]
# … and for the case of a scheduler that lets ten tasks wait for a worker, if it can bound them:
# variants.bounded = ["--max-waiting", "10"]
# … and for the cases of an operator who lets monitors control the cluster and see texts of programs:
# variants.trusting = ["--allow-control", "--monitor-texts"]
# … and for the cases of a standby, if it can be one, of a scheduler that the suite plays, with a lease of a second:
# variants.standby = ["--standby-of", "{other}", "--standby-lease", "1"]
""",
    "storage": """
[role.storage]
command = ["./my-storage", "--bind", "{bind}"]
# Started with these arguments as well, for the cases of a full storage (16 MiB):
# variants.small = ["--memory-limit", "16777216"]
# … and for those of objects that outlive the process, if it keeps them in a directory:
# variants.keeping = ["--data-directory", "{directory}"]
""",
    "worker": """
[role.worker]
# The suite plays the scheduler and the storage. The worker runs the functions named in the author's guide.
command = ["./my-worker", "--scheduler", "{scheduler}", "--storage", "{storage}", "--name", "{name}"]
""",
    "manager": """
[role.manager]
# The suite plays the scheduler; the workers that the manager starts dial it. It has to allow two units at least.
command = ["./my-manager", "--scheduler", "{scheduler}", "--name", "{name}"]
# Started with these arguments as well, for the case of a manager whose units fail (their workers get no answer there):
# variants.unable = ["--give-up-after", "0.5"]
""",
    "client": """
[role.client]
# A small program around your client that speaks JSON lines on stdin and stdout; see the author's guide.
testee = ["./my-testee"]
""",
}


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser("init", help="write a manifest to start from")
    parser.add_argument("roles", nargs="*", choices=[*_ROLES, []], metavar="ROLE", help=f"of {', '.join(_ROLES)}; all")
    parser.add_argument("--manifest", type=Path, default=MANIFEST, metavar="FILE")
    parser.set_defaults(perform=perform)


def perform(chosen: argparse.Namespace) -> int:
    if chosen.manifest.exists():
        raise ManifestError(f"{chosen.manifest} is there already; remove it first")
    text = _HEAD + "".join(_ROLES[role] for role in chosen.roles or _ROLES)
    chosen.manifest.write_text(text, encoding="utf-8")
    print(f"{chosen.manifest} is written; put your commands into it, then: scaler-conformance doctor")
    return 0
