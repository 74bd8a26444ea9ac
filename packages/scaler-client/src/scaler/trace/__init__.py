"""`scaler_trace RECORDING`: the tasks of a recording as a trace for Perfetto. Needs no extra."""
