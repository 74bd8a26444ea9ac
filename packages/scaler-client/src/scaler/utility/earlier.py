"""An earlier Scaler in the same environment: it has files of the same names, so uninstalling it removes ours."""

from __future__ import annotations

import os
import re
import warnings

#: Distributions of other projects that have an import package named `scaler`; ours are scaler-client and scaler-all.
_EARLIER = re.compile(r"(scaler|opengris_scaler)-([^-]+)\.dist-info")


def warn_of_earlier(package_directory: str) -> None:
    """Warns if a distribution of an earlier Scaler is installed into the directory in which this package is."""
    try:
        names = os.listdir(os.path.dirname(package_directory))
    except OSError:  # imported out of an archive
        return
    for found in filter(None, map(_EARLIER.fullmatch, names)):
        name, version = found[1].replace("_", "-"), found[2]
        warnings.warn(
            f"{name} {version} is installed in the same environment as scaler-client, and both have a package named "
            f"scaler: programs may run with files of either. Run `pip uninstall {name}`, and then "
            f"`pip install --force-reinstall --no-deps scaler-client`",
            stacklevel=2,
        )
