"""The service that gives slots to running jobs: an HTTP API with a SQLite database (NSDI'24 §4.2, step 3)."""
