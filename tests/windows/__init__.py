"""The client on a real Windows Python under Wine, against a cluster on Linux: `make test-windows`.

The wheels of client and protocol are installed by pip, with what they require, into the embeddable CPython for Windows
that the package index has. Then, all in Windows: the client's and the protocol's own tests (`left_out.py` names those
that cannot run there, each with the reason), the checks in `inside/` against a cluster with a key, and the commands.

Wine is not Windows: nothing here shows how NTFS shares files, what a firewall does, or how Windows schedules. Faults of
Wine that would hide the client's behaviour are stepped round in `shim/`, which real systems never see.
"""
