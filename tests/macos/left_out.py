"""Tests of client and protocol that `make test-macos-like` does not run, each with the reason.

All others do, except those that say themselves that they are not for this system.
"""

_LANE = "it begins on the local lane, which is Linux only"

TESTS = {
    "protocol/tests/test_connections.py::test_a_server_that_does_nothing_is_woken_by_a_connection": (
        "without epoll a server reads its notices of connections once a second"
    ),
    "protocol/tests/test_keyed_sockets.py::test_a_session_goes_on_between_lane_and_socket": _LANE,
    "protocol/tests/test_keyed_sockets.py::test_on_the_lane_the_kernel_is_enough": _LANE,
    "protocol/tests/test_transport.py::test_a_dial_for_which_there_is_no_descriptor_left_is_tried_again": _LANE,
}
