"""The client's tests on a Python that looks like that of macOS to our code: `make test-macos-like`.

It is Linux, so this shows only that the client needs nothing that macOS lacks: memory files, abstract sockets, epoll,
pidfd, /proc, and fork. Programs that a test starts see all of Linux.
"""
