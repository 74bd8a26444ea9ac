import pandas

import scaler

ROWS = 10_000


def portions(frame, rows):
    for begin in range(0, len(frame), rows):
        yield frame.iloc[begin : begin + rows]


def enrich(part):
    return part.assign(value=part["price"] * part["amount"])


trades = pandas.DataFrame({"price": range(ROWS), "amount": 2})

with scaler.local(workers=2) as client:
    valued = pandas.concat(client.map(enrich, portions(trades, rows=2_500)))

print(len(valued), valued["value"].sum(), valued.index.equals(trades.index))
