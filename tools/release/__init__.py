"""What must hold before a release. CONTRIBUTING.md has the procedure."""
