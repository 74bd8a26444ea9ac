"""What users install, as they install it: from wheels and sdists alone, in empty environments. `make release-check`.

The dists are built from this checkout. What they require is downloaded once for each Python, in the versions of
constraints.txt, into build/release, and installed from there without an index. `tools/pythons.py` finds
the interpreters.
"""
