"""What a `kill -9` leaves of running work in Scaler, Dask and Ray. `python -m benchmarks.survival --help`."""
