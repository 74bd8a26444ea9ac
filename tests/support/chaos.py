"""How much of what is drawn by seed is run: a little in `make test`, all of it in `make chaos` and `make night`."""

from __future__ import annotations

import os

IS_FULL = bool(os.environ.get("SCALER_CHAOS"))
SEED = int(os.environ.get("SCALER_CHAOS_SEED", "1"))
