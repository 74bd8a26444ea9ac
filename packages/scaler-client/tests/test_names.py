"""The names of the package: they are loaded when they are used, and are the same as in their modules."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import scaler

PROGRAM = """
import pickle, sys
import scaler
assert "scaler.client.client" not in sys.modules, "nothing is loaded yet"
assert set(scaler.__all__) <= set(dir(scaler))
from scaler import *
assert not [name for name in scaler.__all__ if name not in globals()]
assert Client is scaler.Client is pickle.loads(pickle.dumps(Client))
assert worker_state is pickle.loads(pickle.dumps(worker_state))
"""


def test_a_name_is_loaded_when_it_is_used() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], timeout=60, check=True)


@pytest.mark.parametrize("name", sorted(set(scaler.__all__) - {"__version__"}))
def test_a_name_is_that_of_its_module(name: str) -> None:
    value = getattr(scaler, name)
    assert value is getattr(importlib.import_module(scaler._MODULES[name]), name)
    assert vars(scaler)[name] is value, "it is looked up once"


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'scaler' has no attribute 'Klient'"):
        scaler.Klient  # noqa: B018
    with pytest.raises(ImportError, match="Klient"):
        exec("from scaler import Klient")
