"""How trees grow. A grower never sees a row, a thread or a device."""
