"""Every method on every set: fresh processes, one search for all, JSON lines, tables and figures."""
