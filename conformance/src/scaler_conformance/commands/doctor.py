"""`doctor`: what is wrong before anything is checked."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scaler_conformance import manifest
from scaler_conformance.arena import Arena
from scaler_conformance.clauses import DIALERS
from scaler_conformance.manifest import Manifest, RoleEntry
from scaler_conformance.play.testee import TesteeError
from scaler_conformance.scene import Scene, Settings
from scaler_conformance.verdicts import Breach, Unsupported

from .init import MANIFEST


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="is the manifest right, and does the port start and answer?",
        description="Looks at everything a run needs, says what is wrong with it and what to do.",
    )
    parser.add_argument("--manifest", type=Path, default=MANIFEST, metavar="FILE", help=f"(default: {MANIFEST})")
    parser.add_argument("--role", action="append", metavar="ROLE", help="only this role; may be repeated")
    parser.set_defaults(perform=perform)


def perform(chosen: argparse.Namespace) -> int:
    port = manifest.read(chosen.manifest)
    print(f"✓ {chosen.manifest} is a manifest of {port.name} {port.version}")
    for role in chosen.role or ():
        port.role(role)
    roles = [role for role in port.roles if not chosen.role or role in chosen.role]
    results = [_examine(port, port.role(role)) for role in roles]
    print("all is well: scaler-conformance run" if all(results) else "repair what is marked ✗ and ask the doctor again")
    return 0 if all(results) else 1


def _examine(port: Manifest, entry: RoleEntry) -> bool:
    program = entry.command[0]
    if "{" not in program and shutil.which(program, path=None) is None and not (entry.directory / program).exists():
        print(f"✗ {entry.role}: there is no program {program!r}, neither on the PATH nor in {entry.directory}")
        return False
    return CHECKS[entry.role](port, entry) if entry.role in CHECKS else _is_started(port, entry)


def _is_started(port: Manifest, entry: RoleEntry) -> bool:
    arena = Arena(port, entry.role)
    began_at = time.monotonic()
    try:
        arena.start()
        print(f"✓ {entry.role}: starts and answers a Hello after {time.monotonic() - began_at:.1f} s")
        scene = Scene(arena, Settings())
        peer = scene.peer()
        peer.fence()
        print(f"✓ {entry.role}: a Ping gets its Pong; it calls itself {_software(peer.welcome)}")
        code = arena.stop()
        told = f"ends with exit code {code} when asked" if code is not None else "does not end when asked; it is killed"
        print(f"{'✓' if code == 0 else '!'} {entry.role}: {told}")
        return True
    except Breach as breach:
        print(f"✗ {entry.role}: {breach.text}")
        for line in arena.log[-8:]:
            print(f"    its log: {line}")
        return False
    finally:
        arena.close()


def _software(welcome: Any) -> str:
    software = welcome["software"]
    return " ".join(filter(None, (software["name"], software["version"], software["language"]))) or "nothing"


def _dials(port: Manifest, entry: RoleEntry) -> bool:
    """Workers and managers dial by themselves; a testee when it is told to."""
    arena = Arena(port, entry.role)
    began_at = time.monotonic()
    try:
        arena.start()
        what = "the testee answers `info`" if entry.role == "client" else "it starts and dials the scheduler"
        print(f"✓ {entry.role}: {what} after {time.monotonic() - began_at:.1f} s")
        guest = Scene(arena, Settings()).guest()
        guest.fence()
        print(f"✓ {entry.role}: it says Hello, and a Ping gets its Pong; it calls itself {_software(guest.hello.body)}")
        return True
    except (Breach, TesteeError, Unsupported) as problem:
        print(f"✗ {entry.role}: {problem}")
        for line in arena.log[-8:]:
            print(f"    its log: {line}")
        return False
    finally:
        arena.close()


#: Roles that are examined in another way than by a Hello of ours.
CHECKS: dict[str, Callable[[Manifest, RoleEntry], bool]] = dict.fromkeys(DIALERS, _dials)
