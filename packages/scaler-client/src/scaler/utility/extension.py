"""What IPython looks for in a package."""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext scaler` calls in a notebook. It adds the magics `%scaler` and `%%scaler`.

    Args:
        shell: of IPython, which passes it.
    """
    from scaler.notebook import ScalerMagics

    shell.register_magics(ScalerMagics)
