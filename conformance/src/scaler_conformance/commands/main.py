"""`scaler-conformance COMMAND`: what is asked, and how it ends."""

from __future__ import annotations

import argparse
import importlib.metadata
import signal
import sys
from collections.abc import Sequence

from scaler_conformance.manifest import ManifestError

from . import doctor, init, replay, run, trace, vectors

USAGE, INTERRUPTED = 2, 130
TERMINATED = 128 + signal.SIGTERM
DESCRIPTION = """\
Checks a peer of the Scaler protocol, written in any language, against the clauses of its specification.

The suite starts your program, plays everybody else around it over the real wire, and says clause by clause what
conforms. For a first green clause:

    scaler-conformance init scheduler          writes scaler-conformance.toml; put your command into it
    scaler-conformance doctor                  is the manifest right, does the program start and answer?
    scaler-conformance run --role scheduler    all cases of that role; the report is in conformance-report/
"""
EPILOG = """\
exit codes: 0 the port conforms; 1 it does not; 2 the command or the manifest is wrong; 3 the suite itself failed
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scaler-conformance",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = importlib.metadata.version("scaler-conformance")
    parser.add_argument("--version", action="version", version=f"scaler-conformance {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (init, doctor, run, replay, vectors, trace):
        module.add(commands)
    chosen = parser.parse_args(arguments)
    # What it has started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        return int(chosen.perform(chosen))
    except ManifestError as error:
        print(f"scaler-conformance: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("scaler-conformance: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return USAGE
