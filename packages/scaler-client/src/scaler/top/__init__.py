"""scaler_top: a cluster in a terminal.

Theory of operation. `scaler.monitoring` gives a ClusterState; `board` makes a Board of it, once for each message: the
sections with their numbers, and a row for each worker. `screen` lays a Board out for a View (what is sorted by, how far
it is scrolled) and a size, as lines of styled pieces. Both are pure. `terminal` shows the lines and turns keys into
Views; `report` prints for scripts, and needs no terminal library.
"""
