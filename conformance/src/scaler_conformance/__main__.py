"""`scaler-conformance`, or `python -m scaler_conformance`."""

from __future__ import annotations

import sys

from .commands import main

if __name__ == "__main__":
    sys.exit(main())
