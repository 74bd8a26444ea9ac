"""Tests of client and protocol on a Python that looks like that of macOS to our code: `make test-macos-like`.

It is Linux, so this shows only that client and protocol need nothing that macOS lacks: memory files, abstract sockets,
epoll, pidfd, /proc, and fork. Programs that a test starts see all of Linux.
"""
