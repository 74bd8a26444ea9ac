"""`replay`: the failure of a transcript, played again."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from scaler_conformance import manifest
from scaler_conformance.arena import Arena
from scaler_conformance.case import all_cases
from scaler_conformance.generated.engine import attempt
from scaler_conformance.generated.players import player_of
from scaler_conformance.generated.steps import from_json
from scaler_conformance.manifest import ManifestError
from scaler_conformance.runner import Runner
from scaler_conformance.scene import Scene, Settings
from scaler_conformance.transcript import render
from scaler_conformance.verdicts import exit_code

from .init import MANIFEST
from .run import tell


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "replay",
        help="play the failure of a transcript again",
        description="Plays the case, or the generated sequence, of a transcript against the port once more.",
    )
    parser.add_argument("transcript", type=Path, help="a file from the folder `transcripts` of a report")
    parser.add_argument("--manifest", type=Path, default=MANIFEST, metavar="FILE", help=f"(default: {MANIFEST})")
    parser.add_argument("--show", action="store_true", help="only print the conversation that was recorded")
    parser.set_defaults(perform=perform)


def perform(chosen: argparse.Namespace) -> int:
    head, events = read(chosen.transcript)
    if chosen.show:
        print(f"{head['verdict']} {head['case']}: {head['text']}")
        for line in render(events, head["role"]):
            print(f"  {line}")
        return 0
    port = manifest.read(chosen.manifest)
    port.role(head["role"])
    if head.get("steps"):
        return _play_steps(port, head)
    cases = [case for case in all_cases() if case.id == head["case"] and head["role"] in case.roles]
    if not cases:
        raise ManifestError(f"{chosen.transcript}: this suite has no case {head['case']!r}; it is of another version")
    settings = Settings(seed=int(head.get("seed", 0)))
    outcomes = Runner(port, head["role"], lambda outcome: print(tell(outcome)), settings=settings).run(cases)
    return exit_code(outcomes)


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        head, *events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ManifestError(f"{path} is no transcript: each line must be one JSON object") from None
    if not isinstance(head, dict) or head.get("format") != 1:
        raise ManifestError(f"{path} is no transcript of format 1")
    return head, events


def _play_steps(port: manifest.Manifest, head: dict[str, Any]) -> int:
    arena = Arena(port, head["role"])
    try:
        arena.start()
        scene = Scene(arena, Settings())
        steps = from_json(json.dumps(step) for step in head["steps"])
        breach = attempt(scene, player_of(head["role"]), steps, Counter())
        for line in scene.transcript.lines():
            print(f"  {line}")
        print(f"  ✗ {breach.clause}: {breach.text}" if breach else "  this time it passed")
        return 1 if breach else 0
    finally:
        arena.close()
