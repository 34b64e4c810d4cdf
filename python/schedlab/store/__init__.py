"""The store of runs (SQLite): what was run, where, how, and what came out."""

from schedlab.store.store import Store, StoredExperiment, StoredRun, default_path

__all__ = ["Store", "StoredExperiment", "StoredRun", "default_path"]
