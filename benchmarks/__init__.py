"""`make bench`: every workload, side by side with other engines, in one run."""
