"""Tables that are read in batches: from files, queries, iterables and loaders."""
