"""Hot paths for asv: seconds (time_), peak memory (peakmem_), errors and counts (track_)."""
