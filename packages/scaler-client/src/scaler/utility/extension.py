"""What IPython looks for in a package."""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext scaler` in a notebook: see `scaler.notebook`."""
    from scaler.notebook import ScalerMagics

    shell.register_magics(ScalerMagics)
