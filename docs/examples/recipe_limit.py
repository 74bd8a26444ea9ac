import scaler


def query(number):
    return f"row {number}"


with scaler.local(workers=4) as client:
    # At most two of these tasks exist at a time, however many workers are free.
    rows = list(client.imap(query, range(6), window=2))

# For a limit over all programs: as many of these tasks run at a time as workers offer the resource.
with scaler.local(workers=2, per_worker_capabilities={"database": 1}) as client:
    rows += client.map(query, range(6, 8), capabilities={"database": 1})

print(rows)
