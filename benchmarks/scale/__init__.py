"""The scheduler's real core at sizes that no machine at hand has workers for: in one process, without a socket."""
