"""What a run found, for people and for programs. `report.json` is the only source; all else is made from it."""

from .report import SCHEMA_VERSION, TRANSCRIPTS, Report, transcript_name, write

__all__ = ["SCHEMA_VERSION", "TRANSCRIPTS", "Report", "transcript_name", "write"]
