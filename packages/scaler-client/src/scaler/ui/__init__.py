"""The web page of a cluster, and its metrics: `scaler_ui ADDRESS`. Needs the extra `[ui]`.

`model` keeps what was heard, in plain values; `metrics` and `trace` show it in the formats of others; `server`
serves it to those that `scaler_protocol.web.guards` admits. The page is in `static`, as it is: no build, nothing from
elsewhere.
"""

TOPICS = ("status", "tasks", "graphs", "logs")
"""What scaler_ui always watches."""
