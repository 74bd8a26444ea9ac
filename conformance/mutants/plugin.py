"""A plugin of pytest, `-p conformance.mutants.plugin`: the tests meet the mutant that the environment names."""

from __future__ import annotations

import os
import sys

from conformance.mutants.launch import VARIABLE, Mutation
from conformance.mutants.registry import all_mutants

_mutant = all_mutants()[os.environ[VARIABLE]]
# Modules that a plugin before this one has imported are imported anew, with the mutant's lines.
for _name in [name for name in sys.modules if name.partition(".")[0] == "scaler_protocol"]:
    del sys.modules[_name]
sys.meta_path.insert(0, Mutation(_mutant.edits))
