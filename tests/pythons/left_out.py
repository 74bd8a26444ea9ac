"""Tests that do not run with the other versions of Python, each with the reason. All others of these folders do."""

#: Protocol, client, the scheduler, and a cluster of real processes: with the oldest and the newest, in each CI run.
FAST = (
    "protocol/tests",
    "packages/scaler-client/tests",
    "packages/scaler-scheduler/tests",
    "tests/integration/test_client_api_calls.py",
)
#: What else runs if all versions are asked for: tests that start many processes, but no whole clusters.
REST = ("packages/scaler-storage/tests", "packages/scaler-worker/tests")

FILES = {
    "packages/scaler-worker/tests/test_adapter_fuzzed.py": "schemathesis brings thirty further packages",
}

_NO_GRAPHBLAS = "it needs GraphBLAS, which brings compiled libraries for few versions"

TESTS = {
    "packages/scaler-client/tests/test_ui_jupyter.py::test_jupyter_finds_the_app": (
        "these environments have our sources on the path, and no installed part with its entry points"
    ),
    "packages/scaler-client/tests/test_graph_plans.py::test_a_chain_longer_than_any_stack": _NO_GRAPHBLAS,
    "packages/scaler-client/tests/test_graph_plans.py::test_both_ways_agree": _NO_GRAPHBLAS,
    "packages/scaler-client/tests/test_graph_plans.py::test_small_graphs_do_not_load_it": _NO_GRAPHBLAS,
    "packages/scaler-client/tests/test_graph_plans.py::test_the_first_tasks_have_keys_by_matrices_too": _NO_GRAPHBLAS,
}
