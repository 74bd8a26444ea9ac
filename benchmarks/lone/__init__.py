"""One call after the other: what each costs, beside a process pool, and of which functions that is made."""
