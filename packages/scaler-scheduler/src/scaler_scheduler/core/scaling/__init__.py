"""Workers that come and go: how many are of use, and what each worker manager is asked for (spec chapter 19)."""
