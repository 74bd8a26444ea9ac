"""Runs tasks inside IBM Spectrum Symphony. The name is reserved; the adapter comes later."""
