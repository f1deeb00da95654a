"""Where rows live: in memory, on disk, on a cluster or on a device."""
