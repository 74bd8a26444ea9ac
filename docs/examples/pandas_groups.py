import pandas

import scaler

trades = pandas.DataFrame({"desk": ["a", "b", "a", "b", "c"], "price": [10.0, 20.0, 30.0, 40.0, 50.0]})


def summary(desk, frame):
    return {"desk": desk, "mean": frame["price"].mean(), "trades": len(frame)}


with scaler.local(workers=2) as client:
    rows = client.starmap(summary, trades.groupby("desk"))

print(pandas.DataFrame(rows).to_string(index=False))
