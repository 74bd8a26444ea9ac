"""Tests of the client and the protocol that do not run in the Windows Python, each with the reason.

All others in packages/scaler-client/tests and protocol/tests do, except those that say themselves that they are not for
Windows.
"""

_LENT = "on Windows no socket is lent to a thread that waits for a lone call (test_waits.py holds what is done instead)"
_MANY = "a generator with many examples, which under Wine takes a minute; it has no part that depends on the system"

_ATTACKED = "servers and those who attack them, by raw sockets; servers do not run on Windows"
_SLOW = "hundreds of sessions or stored values, each of which takes Wine 0.1 s and more"
_POSIX_FILES = "modes, owners and symbolic links of POSIX; inside/checks_client.py has the key files of Windows"
_NO_GRAPHBLAS = "it needs GraphBLAS, which is not in that Python"
_NO_MEMORY_MAP = "it reads how much of a process is in memory, and Windows counts what is reserved"

FILES: dict[str, str] = {
    "packages/scaler-client/tests/test_interrupted_futures.py": _SLOW,
    "packages/scaler-client/tests/test_lazily_fed.py": "it needs joblib and Dask, which are not in that Python",
    "packages/scaler-client/tests/test_lone_calls.py": _LENT,
    "packages/scaler-client/tests/test_released_functions.py": _SLOW,
    "protocol/tests/test_keyed_rotation.py": _ATTACKED,
    "protocol/tests/test_keyed_sockets.py": _ATTACKED,
    "protocol/tests/test_asyncio_driver.py": _ATTACKED,
    "protocol/tests/test_transport.py": _ATTACKED,
    "protocol/tests/test_web_bounds.py": _ATTACKED,
    "protocol/tests/test_keys_lookup.py": _POSIX_FILES,
    "protocol/tests/test_memory_files.py": "memory files are of Linux, and `resource` is not in Windows",
    "protocol/tests/test_codec_hostile.py": _MANY,
    "protocol/tests/test_codec_templates.py": _MANY,
    "protocol/tests/test_codec_cost.py": _MANY,
    "protocol/tests/test_codec_encoded.py": _MANY,
}

TESTS: dict[str, str] = {
    "packages/scaler-client/tests/test_condition.py::test_the_standard_library_uses_no_more_of_it": (
        "it reads the standard library's source, which the embeddable Python does not have"
    ),
    "packages/scaler-client/tests/test_connection.py::test_calls_of_many_threads_end_when_a_client_leaves_among_them": (
        _SLOW
    ),
    "packages/scaler-client/tests/test_recordings.py::test_a_recording_is_what_was_heard": (
        "it compares instants of two clocks, which are some 0.1 ms apart there"
    ),
    "packages/scaler-client/tests/test_sessions.py::test_opening_and_closing_is_quick_and_thread_safe": _SLOW,
    "packages/scaler-client/tests/test_graph_plans.py::test_a_chain_longer_than_any_stack": _NO_GRAPHBLAS,
    "packages/scaler-client/tests/test_graph_plans.py::test_both_ways_agree": _NO_GRAPHBLAS,
    "packages/scaler-client/tests/test_graph_plans.py::test_small_graphs_do_not_load_it": _NO_GRAPHBLAS,
    "packages/scaler-client/tests/test_graph_plans.py::test_the_first_tasks_have_keys_by_matrices_too": _NO_GRAPHBLAS,
    "packages/scaler-client/tests/test_watch.py::test_descriptors_tell_what_can_be_read": (
        "select refuses an empty list on Windows; a Watch always has one descriptor"
    ),
    "protocol/tests/test_blocking_driver.py::test_a_guest_gets_its_answer_at_the_socket": _LENT,
    "protocol/tests/test_blocking_driver.py::test_a_guest_is_woken_by_the_thread_that_reads_its_answer": _LENT,
    "protocol/tests/test_blocking_driver.py::test_a_socket_that_is_not_given_back_is_taken_back": _LENT,
    "protocol/tests/test_blocking_driver.py::test_a_wait_at_the_socket_is_bounded": _LENT,
    "protocol/tests/test_framing.py::test_memory_follows_what_has_arrived": _NO_MEMORY_MAP,
    "protocol/tests/test_keys_command.py::test_a_rotation": _POSIX_FILES,
    "protocol/tests/test_keys_command.py::test_checking": _POSIX_FILES,
    "protocol/tests/test_keys_command.py::test_checking_what_an_address_would_be_shown": _POSIX_FILES,
    "protocol/tests/test_keys_files.py::test_a_link_is_refused": _POSIX_FILES,
    "protocol/tests/test_keys_files.py::test_windows_has_no_owners_modes_and_flags": "it plays Windows on POSIX",
    "protocol/tests/test_keys_files.py::test_a_new_file_is_private_whatever_the_umask": _POSIX_FILES,
    "protocol/tests/test_keys_files.py::test_a_file_that_is_there_is_never_written_over": _POSIX_FILES,
    "protocol/tests/test_keys_files.py::test_a_directory_that_others_can_see_into_is_not_private": _POSIX_FILES,
    "protocol/tests/test_keys_files.py::test_a_key_in_a_pipe_is_read_once_and_kept": _POSIX_FILES,
    "protocol/tests/test_keys_options.py::test_a_file_that_others_can_read_is_never_used": _POSIX_FILES,
    "protocol/tests/test_keys_options.py::test_the_key_of_a_server_that_starts_later_is_waited_for": (
        "servers, which make the directory for their keys, do not run on Windows"
    ),
    "protocol/tests/test_release.py::test_a_schema_that_does_not_load_is_told_by_its_place": (
        "the Cap'n Proto library says nothing there of a schema that it cannot load"
    ),
}
