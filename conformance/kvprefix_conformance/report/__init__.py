"""What a run found, for people and for programs: the console (progress, then the report), plain text, and JSON with a schema."""
