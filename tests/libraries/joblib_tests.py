"""A plugin of pytest for joblib's own tests: those run that take a backend, with ours."""

from __future__ import annotations

from typing import Any

import pytest

import scaler.joblib  # before the tests, which list the backends when they are imported

NO_IMPORT = "a process of another backend, or a program of the test, does not import scaler.joblib"
MAPS = "arguments of a remote call lie in no memory map of this host"
MANAGER = "proxies of a Manager need the secret of the process that started it, which only its children have"
POOL = "looks for a pool in the backend; tests/integration/test_joblib.py has what it expects to be raised"

LEFT_OUT = {
    "test_nested_loop[loky-scaler]": NO_IMPORT,
    "test_nested_loop[back_compat_backend-scaler]": NO_IMPORT,
    "test_backend_nesting_level[parallel_config-scaler-loky]": NO_IMPORT,
    "test_backend_nesting_level[parallel_backend-scaler-loky]": NO_IMPORT,
    "test_parallel_with_interactively_defined_functions[scaler]": NO_IMPORT,
    "test_auto_memmap_on_arrays_from_generator[scaler]": MAPS,
    "test_memmapping_leaks[scaler]": MAPS,
    "test_error_capture[scaler]": POOL,
    "test_dispatch_multiprocessing[scaler]": MANAGER,
    "test_initializer_context[parallel_config-scaler-2]": MANAGER,
    "test_initializer_context[parallel_config-scaler-4]": MANAGER,
    "test_initializer_context[parallel_backend-scaler-2]": MANAGER,
    "test_initializer_context[parallel_backend-scaler-4]": MANAGER,
    "test_initializer_parallel[scaler-2]": MANAGER,
    "test_initializer_parallel[scaler-4]": MANAGER,
}


def pytest_configure() -> None:
    from joblib.test import test_parallel

    lists = (
        test_parallel.PROCESS_BACKENDS,
        test_parallel.PARALLEL_BACKENDS,
        test_parallel.all_backends_for_context_manager,
    )
    for backends in lists:
        backends.append("scaler")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if _has_ours(item)]
    unknown = LEFT_OUT.keys() - {item.name for item in ours}
    assert not unknown, f"joblib has no such tests any more: {sorted(unknown)}"
    kept = [item for item in ours if item.name not in LEFT_OUT]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def _has_ours(item: pytest.Item) -> bool:
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return any(value == "scaler" or isinstance(value, scaler.joblib.ScalerBackend) for value in parameters.values())
