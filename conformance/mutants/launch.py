"""Starts a role of ours with a wrong line in it: `SCALER_MUTANT=ID python -m conformance.mutants.launch MODULE …`, or
with the name of a script instead of a module.

The module is changed while it is imported, so the packages hold no code for tests, and what the role forks is changed
with it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType

from conformance.mutants.registry import Edit, all_mutants, legal_variants, mutated

VARIABLE = "SCALER_MUTANT"


class MutatedLoader(importlib.machinery.SourceFileLoader):
    """Never from byte code, nor into it."""

    edits: tuple[Edit, ...] = ()

    def get_code(self, fullname: str) -> CodeType:
        source = importlib.util.decode_source(self.get_data(self.path))
        code: CodeType = compile(mutated(source, self.edits), self.path, "exec", dont_inherit=True)
        return code


class Mutation(importlib.abc.MetaPathFinder):
    def __init__(self, edits: Sequence[Edit]) -> None:
        self._edits = edits

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        edits = tuple(edit for edit in self._edits if edit.module == fullname)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if edits else None
        if spec is None or spec.origin is None:
            return None
        loader = MutatedLoader(fullname, spec.origin)
        loader.edits = edits
        spec.loader = loader
        return spec


def main() -> None:
    mutant = {**all_mutants(), **legal_variants()}[os.environ[VARIABLE]]
    assert not mutant.modules & set(sys.modules), "the launcher must not import what it is to change"
    sys.meta_path.insert(0, Mutation(mutant.edits))
    sys.argv = sys.argv[1:]
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
