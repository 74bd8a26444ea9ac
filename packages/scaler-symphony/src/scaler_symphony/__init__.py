"""A Scaler worker whose processors are tasks of IBM Spectrum Symphony, and the service that runs them there."""

__version__ = "0.1.0"
