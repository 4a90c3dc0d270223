"""The service that running jobs ask for their slots: an HTTP API, kept in SQLite (NSDI'24 §4.2, step 3)."""
