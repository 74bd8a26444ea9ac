"""Everything that must hold before a release: `make release-check`. docs/operations/releasing.md has the procedure."""
