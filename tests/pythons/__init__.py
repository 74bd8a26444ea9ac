"""Fast tests of every part with the other versions of Python that are on this machine: `make test-pythons`.

Each interpreter gets a virtual environment in build/pythons with what Scaler requires, in the versions of
constraints.txt, and runs the tests of the cores, the protocol, the client, the workers and the storage, and a cluster
of real processes. `tools/pythons.py` says where interpreters are looked for, and fetches the newest one.
"""
