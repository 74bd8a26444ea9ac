"""The documentation site: pages of `docs/`, the specification, and what is made from parsers, schemas and tables."""
