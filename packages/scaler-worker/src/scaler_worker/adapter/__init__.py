"""The native worker adapter: worker groups of this machine, started and shut down by HTTP."""
